"""What every input answers, and what is not known where there are records and nothing else.

Each input gives raw records for either engine, and the offsets of the topics that its share
partitions are of. Nothing here looks into a record.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from sharelag import schemas
from sharelag.model.versions import Told

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Kinds of gaps in records that nobody has put together as a whole.
IN_PARTS = ("offsets", "partitions", "groups")


class Input(Protocol):
    """An input, as both engines read it.

    What an input does not say is unknown, as it is where there are records and nothing else.
    """

    @property
    def holds_both(self) -> bool:
        """Whether `frame` of one topic has the records of both."""
        return False

    @property
    def rereadable(self) -> bool:
        """Whether a DataFrame of it finds the same records each time it is read."""
        return True

    @property
    def may_lack(self) -> Collection[str]:
        """Kinds of gaps that answers look for, since none is an error; see `IN_PARTS`."""
        return ()

    @property
    def patience(self) -> timedelta | None:
        """How long something may last before it counts as stuck; None: as long as a lock."""
        return None

    @property
    def cluster_id(self) -> str | None:
        """The id of the cluster, where that is known."""
        return None

    @property
    def kafka_version(self) -> Told:
        """The version or release of the brokers, which Spark's tasks may ask for, too."""
        return None

    @abstractmethod
    def batches(self, topic: str) -> Iterator[pa.RecordBatch]:
        """Raw records (`sharelag.schemas.RAW`) in this process: all of the topic, maybe others."""

    @abstractmethod
    def frame(self, spark: SparkSession, topic: str) -> DataFrame:
        """Read the same as a Spark DataFrame."""

    def offsets(self, topic_ids: Sequence[str], as_of: object = None) -> pa.Table:
        """`sharelag.schemas.OFFSETS` of these topics; those that are not found are not in it."""
        return schemas.OFFSETS.empty_table()

    def as_of(self) -> datetime | None:
        """Return the time of the last end offsets that were recorded; None where none were."""
        return None

    def past_offsets(self, topic_ids: Sequence[str], moments: Sequence[datetime]) -> pa.Table:
        """`sharelag.schemas.OFFSETS` at these moments, or at known ones in their span."""
        return schemas.OFFSETS.empty_table()

    def timed_by_producers(self, topics: Sequence[str]) -> Sequence[str]:
        """Topics of which `past_offsets` goes by times that producers set, or may do so."""
        return ()

    def logs(self, topic_ids: Sequence[str]) -> pa.Table:
        """`sharelag.schemas.LOGS` of these topics, as far as known."""
        return schemas.LOGS.empty_table()

    def leaders(self, topic_ids: Sequence[str], as_of: object = None) -> pa.Table:
        """`sharelag.schemas.LEADERS` of these topics and the coordinators', as far as known.

        Metadata tells who leads now: of an earlier moment nothing is known.
        """
        return schemas.LEADERS.empty_table()

    def nodes(self, as_of: object = None) -> pa.Table:
        """`sharelag.schemas.NODES`: the brokers that are in the cluster, in the same way."""
        return schemas.NODES.empty_table()

    def times(self, positions: pa.Table, read_committed: bool = False) -> pa.Table:
        """`sharelag.schemas.TIMES` of ``topic topic_id partition asked_offset``, where known."""
        return schemas.TIMES.empty_table()

    def settings(self, groups: Sequence[str], topics: Sequence[str]) -> pa.Table:
        """`sharelag.schemas.SETTINGS` of groups, topics and brokers, as far as known."""
        return schemas.SETTINGS.empty_table()

    def partitions(self, topic: str) -> int | None:
        """How many partitions the topic has, where that is known."""
        return None

    @abstractmethod
    def size(self) -> int:
        """About how many raw records there are; 0 also where nothing tells before they are read."""

    def version(self) -> Hashable:
        """Return a value that changes with the content; None where that may always change."""
        return None

    @abstractmethod
    def describe(self) -> str:
        """Where the records come from and as of when, for people; no secrets."""


class RecordsOnly(Input):
    """An input that knows of its records and nothing else, until it says more."""


def version_of(paths: Iterable[Path]) -> Hashable:
    """Tell one state of some files from another, by their names, sizes and times."""
    return tuple((str(path), _state_of(path)) for path in sorted(paths))


def _state_of(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:  # gone, or a link that leads nowhere: who reads it says so
        return None
    return stat.st_size, stat.st_mtime_ns
