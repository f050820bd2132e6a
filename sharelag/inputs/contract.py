"""The interface of inputs, with unknown answers for inputs that have only records.

Each input provides raw records for either engine, and the offsets of the topics of its share
partitions. Nothing here decodes a record.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from sharelag import schemas
from sharelag.model.versions import Version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Kinds of gaps in records that were not collected as a whole.
IN_PARTS = ("offsets", "partitions", "groups")


class Input(Protocol):
    """An input, as both engines read it.

    Whatever an input does not define is unknown, as for records without anything else.
    """

    @property
    def holds_both(self) -> bool:
        """Whether `frame` of one topic has the records of both."""
        return False

    @property
    def rereadable(self) -> bool:
        """Whether its DataFrame has the same records each time it is read."""
        return True

    @property
    def may_lack(self) -> Collection[str]:
        """Kinds of gaps to look for, because reading does not report them; see `IN_PARTS`."""
        return ()

    @property
    def patience(self) -> timedelta | None:
        """How long something may last before it counts as stuck; None: the lock duration."""
        return None

    @property
    def cluster_id(self) -> str | None:
        """The id of the cluster, if known."""
        return None

    @property
    def kafka_version(self) -> Version:
        """The version or release of the brokers, possibly requested by Spark's tasks."""
        return None

    @abstractmethod
    def batches(self, topic: str) -> Iterator[pa.RecordBatch]:
        """Raw records (`sharelag.schemas.RAW`) in this process: all of the topic, maybe others."""

    @abstractmethod
    def frame(self, spark: SparkSession, topic: str) -> DataFrame:
        """Read the same as a Spark DataFrame."""

    def offsets(self, topic_ids: Sequence[str], as_of: object = None) -> pa.Table:
        """`sharelag.schemas.OFFSETS` of these topics, without missing topics."""
        return schemas.OFFSETS.empty_table()

    def as_of(self) -> datetime | None:
        """Return the time of the last recorded end offsets; None if none were recorded."""
        return None

    def past_offsets(self, topic_ids: Sequence[str], moments: Sequence[datetime]) -> pa.Table:
        """`sharelag.schemas.OFFSETS` at these moments, or at known ones in their span."""
        return schemas.OFFSETS.empty_table()

    def timed_by_producers(self, topics: Sequence[str]) -> Sequence[str]:
        """Topics whose `past_offsets` depend on timestamps of producers, or may do so."""
        return ()

    def logs(self, topic_ids: Sequence[str]) -> pa.Table:
        """`sharelag.schemas.LOGS` of these topics, as far as known."""
        return schemas.LOGS.empty_table()

    def leaders(self, topic_ids: Sequence[str], as_of: object = None) -> pa.Table:
        """`sharelag.schemas.LEADERS` of these topics and the coordinators', as far as known.

        Metadata has only current leaders: those of an earlier moment are unknown.
        """
        return schemas.LEADERS.empty_table()

    def nodes(self, as_of: object = None) -> pa.Table:
        """`sharelag.schemas.NODES`: the brokers of the cluster, as far as known."""
        return schemas.NODES.empty_table()

    def times(self, positions: pa.Table, read_committed: bool = False) -> pa.Table:
        """`sharelag.schemas.TIMES` of ``topic topic_id partition asked_offset``, where known."""
        return schemas.TIMES.empty_table()

    def settings(self, groups: Sequence[str], topics: Sequence[str]) -> pa.Table:
        """`sharelag.schemas.SETTINGS` of groups, topics and brokers, as far as known."""
        return schemas.SETTINGS.empty_table()

    def partitions(self, topic: str) -> int | None:
        """The number of partitions of the topic, if known."""
        return None

    @abstractmethod
    def size(self) -> int:
        """Estimate the number of raw records; 0 if unknown before they are read."""

    def version(self) -> Hashable:
        """Return a value that changes with the content; None if the content may change anytime."""
        return None

    @abstractmethod
    def describe(self) -> str:
        """Describe the source and its moment for people, without secrets."""


class RecordsOnly(Input):
    """An input that knows only its records, unless it overrides a method."""


def version_of(paths: Iterable[Path]) -> Hashable:
    """Return a value that changes with some files, by their names, sizes and times."""
    return tuple((str(path), _state_of(path)) for path in sorted(paths))


def _state_of(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:  # the file is gone, or a broken link: reading it reports that
        return None
    return stat.st_size, stat.st_mtime_ns
