"""Local inputs: captures, files with raw records only, and tables."""

from __future__ import annotations

import re
import sys
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, reduce
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.errors import InputError, NoLeaderError
from sharelag.inputs.contract import IN_PARTS, RecordsOnly, version_of
from sharelag.inputs.files.parquet import count_rows
from sharelag.inputs.files.pieces import parquet_batches, rows_at_once
from sharelag.inputs.files.raw_files import RawFile, list_raw, local_path
from sharelag.inputs.offsets import (
    ends_as_of,
    ends_between,
    is_noted,
    latest_until,
    of_moment,
    of_topics,
)
from sharelag.model import iso
from sharelag.tables.words import in_runs
from sharelag.wire.fields import STATE_TOPIC
from sharelag.wire.generations import TODAY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sharelag.inputs.files.captures import Capture


@dataclass(frozen=True)
class CaptureInput(RecordsOnly):
    """A folder written by ``sharelag capture``."""

    holds_both = True
    may_lack = IN_PARTS  # a file of the folder may be lost
    folder: Path

    @property
    def patience(self) -> timedelta | None:
        return self._capture.info.patience

    @cached_property
    def _capture(self) -> Capture:
        from sharelag.inputs.files.captures import read_capture

        return read_capture(self.folder)

    def batches(self, topic: str) -> Iterator[pa.RecordBatch]:
        return parquet_batches(self._capture.records_paths, topic)

    def frame(self, spark: SparkSession, topic: str) -> DataFrame:
        from sharelag.inputs.spark.files import raw_frame

        return raw_frame(spark, self._capture.records_paths)

    def parquet_files(self, topic: str) -> list[str]:
        """Files with the raw records of a topic, which tasks may read themselves."""
        return self._capture.records_paths

    def offsets(self, topic_ids: Sequence[str], as_of: object = None) -> pa.Table:
        if isinstance(as_of, datetime) and as_of > self.as_of():
            raise InputError(
                f"the capture {self.folder} ends at {iso(self.as_of())}, before {iso(as_of)}: "
                "name that moment or an earlier one"
            )
        offsets = of_moment(self._capture.offsets, topic_ids, self.as_of(), as_of)
        if not isinstance(as_of, datetime) or as_of == self.as_of():
            return offsets
        return latest_until(offsets, self._past(topic_ids), as_of)

    def past_offsets(self, topic_ids: Sequence[str], moments: Sequence[datetime]) -> pa.Table:
        past = self._past(topic_ids)
        times = past.column("as_of")
        if not moments:
            return past.slice(0, 0)
        # Start at the last known end before the first moment: an end lies between two known ones.
        begin = pc.max(times.filter(pc.less_equal(times, min(moments)))).as_py() or min(moments)
        return past.filter(
            pc.and_(pc.greater_equal(times, begin), pc.less_equal(times, max(moments)))
        )

    def _past(self, topic_ids: Sequence[str]) -> pa.Table:
        return of_topics(self._capture.extras["past_offsets"], topic_ids)

    def timed_by_producers(self, topics: Sequence[str]) -> Sequence[str]:
        noted, settings = self._capture.extras["past_offsets"], self._capture.extras["settings"]
        kinds = settings.filter(pc.equal(settings.column("name"), "message.timestamp.type"))
        by_brokers = kinds.filter(pc.equal(kinds.column("value"), "LogAppendTime"))
        there = set(noted.column("topic").to_pylist()) - set(
            by_brokers.column("entity").to_pylist()
        )
        return [topic for topic in topics if topic in there]

    def logs(self, topic_ids: Sequence[str]) -> pa.Table:
        return of_topics(self._capture.extras["logs"], topic_ids)

    def leaders(self, topic_ids: Sequence[str], as_of: object = None) -> pa.Table:
        return self._known("leaders", as_of)

    def nodes(self, as_of: object = None) -> pa.Table:
        return self._known("nodes", as_of)

    def _known(self, name: str, as_of: object) -> pa.Table:
        """Return a table as of the capture, without rows for an earlier moment."""
        table = self._capture.extras[name]
        return table if is_noted(self.as_of(), as_of) else table.slice(0, 0)

    def times(self, positions: pa.Table, read_committed: bool = False) -> pa.Table:
        noted = self._capture.extras["committed_times" if read_committed else "times"]
        return of_topics(noted, positions.column("topic_id").to_pylist())

    def settings(self, groups: Sequence[str], topics: Sequence[str]) -> pa.Table:
        return self._capture.extras["settings"]

    def partitions(self, topic: str) -> int | None:
        return self._capture.info.topics.get(topic)

    def size(self) -> int:
        # Read only footers: delay the import of pandas until the engine is chosen.
        from sharelag.inputs.files.captures import count_records

        return count_records(self.folder)

    def version(self) -> Hashable:
        return version_of(self.folder.rglob("*"))

    def as_of(self) -> datetime:
        """The time at which the end offsets were read."""
        return self._capture.info.as_of

    @property
    def cluster_id(self) -> str | None:
        return self._capture.info.cluster_id

    @property
    def kafka_version(self) -> str | None:
        return self._capture.info.kafka_version

    def describe(self) -> str:
        info = self._capture.info
        return f"capture of {info.cluster_id} at {info.as_of.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


# ---- raw records only ----------------------------------------------------------------------------


#: Pattern of names of Spark tables.
SPARK_TABLE = re.compile(r"\w+(\.\w+)*")


@dataclass(frozen=True)
class RawInput(RecordsOnly):
    """Parquet files with the columns of Spark's Kafka source; on Spark also the name of any table.

    ``not_there`` is the message for a name that is neither; by default it is that of reading the
    name as Parquet.
    """

    holds_both = True
    may_lack = IN_PARTS
    path: str
    not_there: str = field(default="", repr=False, compare=False)

    @property
    def only_spark_knows(self) -> bool:
        """Whether this may be the name of a table, or an address that only Spark can look up."""
        return self._local is None or SPARK_TABLE.fullmatch(self.path) is not None

    def batches(self, topic: str) -> Iterator[pa.RecordBatch]:
        return parquet_batches(list_raw(self.path), topic)

    def frame(self, spark: SparkSession, topic: str) -> DataFrame:
        from sharelag.inputs.spark.files import address, is_table_of, raw_frame
        from sharelag.inputs.spark.frames import as_frame

        if self._is_there:
            return raw_frame(spark, list_raw(self.path))
        if self._local is None:
            frame = address(spark, self.path)
        elif "/" not in self.path and is_table_of(spark, self.path):
            frame = spark.read.table(self.path)
        elif self.not_there:
            raise InputError(self.not_there)
        else:
            return raw_frame(spark, list_raw(self.path))  # reports what is wrong with the path
        return as_frame(frame, schemas.RAW, self.path)

    def parquet_files(self, topic: str) -> list[RawFile] | None:
        """Files with the raw records, which tasks may read themselves; None if only Spark can."""
        return list_raw(self.path) if self._is_there else None

    def size(self) -> int:
        if self._local is None:
            return sys.maxsize  # Spark must read it
        return sum(count_rows(file.path) for file in list_raw(self.path))

    def version(self) -> Hashable:
        path = self._local
        return version_of([path, *path.rglob("*")]) if path and path.exists() else None

    def describe(self) -> str:
        return (
            f"raw records of {self.path}, without topic names and end offsets; it is not known "
            "whether they are all"
        )

    @property
    def _local(self) -> Path | None:
        """The path on this machine; None for another place."""
        path = local_path(self.path)
        return None if path is None else Path(path)

    @property
    def _is_there(self) -> bool:
        return self._local is not None and self._local.exists()


@dataclass(frozen=True)
class PrintedInput(RecordsOnly):
    """A file with records that Kafka's tools printed, on this machine."""

    holds_both = True
    may_lack = IN_PARTS
    path: Path

    def batches(self, topic: str) -> Iterator[pa.RecordBatch]:
        from sharelag.inputs.files.printed import read_printed

        yield read_printed(self.path)

    def frame(self, spark: SparkSession, topic: str) -> DataFrame:
        from sharelag.inputs.files.printed import read_printed
        from sharelag.inputs.spark.frames import frame_of

        return frame_of(spark, read_printed(self.path))

    def size(self) -> int:
        return 0  # read in this process by either engine

    def version(self) -> Hashable:
        return version_of([self.path])

    def describe(self) -> str:
        return (
            f"records that Kafka's tools printed to {self.path}, without end offsets; it is not "
            "known whether they are all"
        )


@dataclass(frozen=True)
class SegmentsInput(RecordsOnly):
    """A broker's log directories, on this machine.

    With ``control``, control records in users' topics count even if there is a
    ``__share_group_state``. ``unread`` names the missing state partitions to ignore.
    """

    may_lack = ("offsets", "groups")  # a log directory lists its partitions itself
    folders: tuple[Path, ...]
    control: bool = False
    unread: NoLeaderError | None = None

    def batches(self, topic: str) -> Iterator[pa.RecordBatch]:
        from sharelag.inputs.files.segments import read_control, read_segments

        has_control = self._require_whole(topic)
        for folder in self.folders:
            yield from read_segments(folder, topic)
            if has_control:
                yield from read_control(folder)

    def frame(self, spark: SparkSession, topic: str) -> DataFrame:
        from sharelag.inputs.spark.files import segments

        has_control = self._require_whole(topic)
        frames = (segments(spark, folder, topic, has_control) for folder in self.folders)
        return reduce(lambda some, more: some.unionByName(more), frames)

    def offsets(self, topic_ids: Sequence[str], as_of: object = None) -> pa.Table:
        from sharelag.inputs.files.segments import segment_offsets

        offsets = pa.concat_tables([segment_offsets(folder) for folder in self.folders])
        noted = pc.max(offsets.column("as_of")).as_py() or datetime.now(UTC)
        return of_moment(offsets, topic_ids, noted, as_of)

    def size(self) -> int:
        return 0  # read in this process by either engine: `auto` should choose it

    def describe(self) -> str:
        return f"log directory {self._names()}"

    def _names(self) -> str:
        return ", ".join(map(str, self.folders))

    def without(self, error: NoLeaderError) -> SegmentsInput | None:
        """Return the input without the state partitions of an error, as clusters do."""
        is_mine = error.topic == STATE_TOPIC and error.silent and self.unread is None
        return replace(self, unread=error) if is_mine else None

    def places(self) -> set[tuple[str, int]]:
        """Return the topic partitions of all folders.

        It is an InputError if one is not a log directory, or if two have the same partition: they
        are replicas.
        """
        from sharelag.inputs.files.segments import partitions

        found: dict[tuple[str, int], Path] = {}
        for folder in self.folders:
            there = partitions(folder)
            if twice := sorted(found.keys() & there):
                (topic, number), *_ = twice
                raise InputError(
                    f"{found[twice[0]].parent} and {folder} both have {topic}-{number}: give the "
                    "log directories of one broker (log.dirs), since others have replicas"
                )
            found |= there
        return set(found)

    def _require_whole(self, topic: str) -> bool:
        """Reject a state topic that lacks partitions; return whether control records count."""
        if topic != STATE_TOPIC:
            return False
        there = {number for name, number in self.places() if name == topic}
        if there and self.unread is None:
            self._require_all(there)
        return self.control or not there

    def _require_all(self, there: set[int]) -> None:
        from sharelag.inputs.files.segments import sample_partitions
        from sharelag.wire.decode import decode_arrow
        from sharelag.wire.placement import missing_partitions

        raw = [rows for folder in self.folders for rows in sample_partitions(folder, STATE_TOPIC)]
        keys = decode_arrow(pa.Table.from_batches(raw, schemas.RAW), generation=TODAY).records
        named = missing_partitions(keys.rename_columns({"topic": "record_topic"}), there)
        silent = (named.missing if named else frozenset(range(max(there)))) - there
        if not silent:
            return
        by_keys = f", which has {named.words}, judging by the keys of its records" if named else ""
        error = NoLeaderError(
            f"{self._names()} lacks {in_runs(silent, 'partition')} of {STATE_TOPIC}{by_keys}. "
            "Another of the broker's log directories (log.dirs) or another broker has what is "
            "missing: give --segments for each directory, capture the cluster, or ask for lag or "
            "windows of what is there"
        )
        error.topic, error.silent = STATE_TOPIC, silent
        raise error


_BATCH_ROWS = 20_000


@dataclass(frozen=True, eq=False)
class TableInput(RecordsOnly):
    """Raw records (`sharelag.schemas.RAW`) and end offsets as Arrow tables.

    Records of both topics may be mixed. The offsets, `sharelag.schemas.OFFSETS`, have one row per
    topic partition, or several at different moments: then the last one up to a moment is the end at
    that moment, and all of them are past ends.
    """

    holds_both = True
    may_lack = IN_PARTS
    raw: pa.Table
    given_offsets: pa.Table | None = None

    def batches(self, topic: str) -> Iterator[pa.RecordBatch]:
        rows = rows_at_once(_BATCH_ROWS, self.raw.num_rows, self.raw.nbytes)
        yield from self.raw.to_batches(max_chunksize=rows)

    def frame(self, spark: SparkSession, topic: str) -> DataFrame:
        from sharelag.inputs.spark.frames import as_frame

        return as_frame(self.raw, schemas.RAW, "raw records", spark)

    def offsets(self, topic_ids: Sequence[str], as_of: object = None) -> pa.Table:
        return ends_as_of(self._ends(), topic_ids, as_of)

    def as_of(self) -> datetime | None:
        return cast("datetime | None", pc.max(self._ends().column("as_of")).as_py())

    def past_offsets(self, topic_ids: Sequence[str], moments: Sequence[datetime]) -> pa.Table:
        return ends_between(self._ends(), topic_ids, moments)

    def size(self) -> int:
        return int(self.raw.num_rows)

    def version(self) -> Hashable:
        return id(self.raw)  # it is immutable

    def describe(self) -> str:
        without = "" if self.given_offsets is not None else ", without offsets"
        return f"a table of raw records{without}"

    def _ends(self) -> pa.Table:
        return schemas.OFFSETS.empty_table() if self.given_offsets is None else self.given_offsets
