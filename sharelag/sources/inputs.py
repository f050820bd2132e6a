"""Inputs: a cluster, a capture, raw Parquet, a broker's files. All answer the same questions.

Each input gives raw records for either engine, and the offsets of the topics that its share
partitions are of. Nothing here looks into a record.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.model import iso
from sharelag.schemas.arrow import beside, keys
from sharelag.sources.files.damage import DAMAGE, reading_parquet
from sharelag.sources.kafka import logs
from sharelag.sources.kafka import topics as kafka
from sharelag.sources.kafka.config import ClientConfig
from sharelag.sources.kafka.times import record_times
from sharelag.wire.fields import STATE_TOPIC

#: Of Parquet; decoding has a cost a batch.
_BATCH_ROWS = 20_000

if TYPE_CHECKING:
    import pyarrow.dataset as ds
    from pyspark.sql import DataFrame, SparkSession

    from sharelag.sources.files.captures import Capture


class Input(Protocol):
    """What both engines need from an input."""

    @property
    def holds_both(self) -> bool:
        """Whether `frame` of one topic has the records of both."""

    @property
    def rereadable(self) -> bool:
        """Whether a DataFrame of it finds the same records each time it is read."""

    @property
    def patience(self) -> timedelta | None:
        """How long something may last before it counts as stuck; None: as long as a lock."""

    def batches(self, topic: str) -> Iterator[pa.RecordBatch]:
        """Raw records (`sharelag.schemas.RAW`) in this process: all of the topic, maybe others."""

    def frame(self, spark: SparkSession, topic: str) -> DataFrame:
        """Read the same as a Spark DataFrame."""

    def offsets(self, topic_ids: Sequence[str], as_of: object = None) -> pa.Table:
        """`sharelag.schemas.OFFSETS` of these topics; those that are not found are not in it."""

    def past_offsets(self, topic_ids: Sequence[str], moments: Sequence[datetime]) -> pa.Table:
        """`sharelag.schemas.OFFSETS` at these moments, or at known ones in their span."""

    def logs(self, topic_ids: Sequence[str]) -> pa.Table:
        """`sharelag.schemas.LOGS` of these topics, as far as known."""

    def times(self, positions: pa.Table, read_committed: bool = False) -> pa.Table:
        """`sharelag.schemas.TIMES` of ``topic topic_id partition asked_offset``, where known."""

    def settings(self, groups: Sequence[str], topics: Sequence[str]) -> pa.Table:
        """`sharelag.schemas.SETTINGS` of groups, topics and brokers, as far as known."""

    def partitions(self, topic: str) -> int | None:
        """How many partitions the topic has, where that is known."""

    def size(self) -> int:
        """About how many raw records there are."""

    def version(self) -> Hashable:
        """A value that changes with the content of the input; None when it may always change."""

    def describe(self) -> str:
        """Where the records come from and as of when, for people; no secrets."""


class RecordsOnly:
    """What is not known where there are records and nothing else."""

    @property
    def holds_both(self) -> bool:
        return False

    @property
    def rereadable(self) -> bool:
        return True

    @property
    def patience(self) -> timedelta | None:
        return None

    def version(self) -> Hashable:
        return None

    def past_offsets(self, topic_ids: Sequence[str], moments: Sequence[datetime]) -> pa.Table:
        return schemas.OFFSETS.empty_table()

    def logs(self, topic_ids: Sequence[str]) -> pa.Table:
        return schemas.LOGS.empty_table()

    def times(self, positions: pa.Table, read_committed: bool = False) -> pa.Table:
        return schemas.TIMES.empty_table()

    def settings(self, groups: Sequence[str], topics: Sequence[str]) -> pa.Table:
        return schemas.SETTINGS.empty_table()

    def partitions(self, topic: str) -> int | None:
        return None


@dataclass(frozen=True)
class KafkaInput:
    """A running cluster."""

    config: ClientConfig

    @property
    def holds_both(self) -> bool:
        return False

    @property
    def rereadable(self) -> bool:
        return False

    @property
    def patience(self) -> timedelta | None:
        return None

    def batches(self, topic: str) -> Iterator[pa.RecordBatch]:
        return kafka.read_topic(
            self.config, topic, self._state_ranges if topic == STATE_TOPIC else None
        )

    def frame(self, spark: SparkSession, topic: str) -> DataFrame:
        from sharelag.sources.spark.data_source import read_kafka

        return read_kafka(spark, self.config, topic)

    def offsets(self, topic_ids: Sequence[str], as_of: object = None) -> pa.Table:
        at = as_of if isinstance(as_of, datetime) else None
        offsets = kafka.list_offsets(self.config, self._names(topic_ids), at=at)
        # Offsets of the state topic tell no time, so they have no end offsets to go with.
        is_time = as_of is None or isinstance(as_of, datetime)
        return offsets if is_time else _of_moment(offsets, topic_ids, datetime.now(UTC), as_of)

    def past_offsets(self, topic_ids: Sequence[str], moments: Sequence[datetime]) -> pa.Table:
        return logs.past_offsets(self.config, self._names(topic_ids), moments)

    def logs(self, topic_ids: Sequence[str]) -> pa.Table:
        return logs.logs(self.config, self._names(topic_ids))

    def times(self, positions: pa.Table, read_committed: bool = False) -> pa.Table:
        return record_times(self.config, positions, read_committed)

    def settings(self, groups: Sequence[str], topics: Sequence[str]) -> pa.Table:
        from sharelag.sources.kafka.settings import settings

        return settings(self.config, groups, topics)

    def partitions(self, topic: str) -> int | None:
        return (
            len(self._state_ranges)
            if topic == STATE_TOPIC
            else len(kafka.offset_ranges(self.config, topic))
        )

    def _names(self, topic_ids: Sequence[str]) -> dict[str, str]:
        wanted = set(topic_ids)
        return {topic: found for topic, found in self._topics.items() if found in wanted}

    @cached_property
    def _topics(self) -> dict[str, str]:
        return kafka.topic_ids(self.config)

    @cached_property
    def _state_ranges(self) -> dict[int, tuple[int, int]]:
        return kafka.offset_ranges(self.config, STATE_TOPIC)

    def size(self) -> int:
        return sum(end - first for first, end in self._state_ranges.values())

    def version(self) -> Hashable:
        return None

    def describe(self) -> str:
        return f"cluster at {self.config.bootstrap_servers}"


@dataclass(frozen=True)
class CaptureInput:
    """A folder that ``sharelag capture`` wrote."""

    folder: Path

    @property
    def holds_both(self) -> bool:
        return True

    @property
    def rereadable(self) -> bool:
        return True

    @property
    def patience(self) -> timedelta | None:
        return self._capture.info.patience

    @cached_property
    def _capture(self) -> Capture:
        from sharelag.sources.files.captures import read_capture

        return read_capture(self.folder)

    def batches(self, topic: str) -> Iterator[pa.RecordBatch]:
        return _parquet_batches(_dataset(self._capture.records_paths))

    def frame(self, spark: SparkSession, topic: str) -> DataFrame:
        return parquet_frame(spark, self._capture.records_paths)

    def parquet_files(self, topic: str) -> list[str]:
        """Files with the raw records of a topic, which tasks may read themselves."""
        return self._capture.records_paths

    def offsets(self, topic_ids: Sequence[str], as_of: object = None) -> pa.Table:
        if isinstance(as_of, datetime) and as_of > self.as_of():
            raise InputError(
                f"the capture {self.folder} ends at {iso(self.as_of())}, before {iso(as_of)}: "
                "name that moment or an earlier one"
            )
        offsets = _of_moment(self._capture.offsets, topic_ids, self.as_of(), as_of)
        past = of_topics(self._capture.extras["past_offsets"], topic_ids)
        return (
            _latest_until(offsets, past, as_of)
            if isinstance(as_of, datetime) and as_of < self.as_of()
            else offsets
        )

    def past_offsets(self, topic_ids: Sequence[str], moments: Sequence[datetime]) -> pa.Table:
        past = of_topics(self._capture.extras["past_offsets"], topic_ids)
        times = past.column("as_of")
        if not moments:
            return past.slice(0, 0)
        # From the last known end before the first moment on: between two known ends it lies.
        begin = pc.max(times.filter(pc.less_equal(times, min(moments)))).as_py() or min(moments)
        return past.filter(
            pc.and_(pc.greater_equal(times, begin), pc.less_equal(times, max(moments)))
        )

    def logs(self, topic_ids: Sequence[str]) -> pa.Table:
        return of_topics(self._capture.extras["logs"], topic_ids)

    def times(self, positions: pa.Table, read_committed: bool = False) -> pa.Table:
        noted = self._capture.extras["committed_times" if read_committed else "times"]
        return of_topics(noted, positions.column("topic_id").to_pylist())

    def settings(self, groups: Sequence[str], topics: Sequence[str]) -> pa.Table:
        return self._capture.extras["settings"]

    def partitions(self, topic: str) -> int | None:
        return self._capture.info.topics.get(topic)

    def size(self) -> int:
        # Only footers: what brings pandas along waits until the engine is chosen.
        from sharelag.sources.files.captures import count_records

        return count_records(self.folder)

    def version(self) -> Hashable:
        return version_of(self.folder.rglob("*"))

    def as_of(self) -> datetime:
        """When the end offsets were read."""
        return self._capture.info.as_of

    def describe(self) -> str:
        info = self._capture.info
        return f"capture of {info.cluster_id} at {info.as_of.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


@dataclass(frozen=True)
class RawInput(RecordsOnly):
    """Parquet files with the columns of Spark's Kafka source; on Spark also the name of any table.

    ``not_there`` is what to say of a name that is neither; without it, what reading it as Parquet
    says.
    """

    path: str
    not_there: str = field(default="", repr=False, compare=False)

    @property
    def holds_both(self) -> bool:
        return True

    def batches(self, topic: str) -> Iterator[pa.RecordBatch]:
        return _parquet_batches(self._dataset())

    def frame(self, spark: SparkSession, topic: str) -> DataFrame:
        from sharelag.sources.spark.files import is_table_of

        is_there = Path(self.path).exists()
        is_table = not is_there and "/" not in self.path and is_table_of(spark, self.path)
        if not is_table and "://" not in self.path:
            if self.not_there and not is_there:
                raise InputError(self.not_there)
            self._dataset()  # tells what is wrong with a path in one line
        frame = spark.read.table(self.path) if is_table else parquet_frame(spark, [self.path])
        schemas.require(frame, schemas.RAW, self.path)
        return frame

    def parquet_files(self, topic: str) -> list[str] | None:
        """Files with the raw records, which tasks may read themselves; None: Spark knows them."""
        return list(self._dataset().files) if Path(self.path).exists() else None

    def offsets(self, topic_ids: Sequence[str], as_of: object = None) -> pa.Table:
        return schemas.OFFSETS.empty_table()

    def size(self) -> int:
        return int(self._dataset().count_rows())

    def version(self) -> Hashable:
        path = Path(self.path)
        return version_of([path, *path.rglob("*")]) if path.exists() else None

    def describe(self) -> str:
        return f"raw records of {self.path}, without topic names and end offsets"

    def _dataset(self) -> ds.Dataset:
        try:
            dataset = _dataset(self.path)
        except DAMAGE as error:
            first = str(error).splitlines()[0].rstrip(".")
            raise InputError(
                f"cannot read Parquet from {self.path}: {first}. Give a Parquet file, a folder of "
                'them, or the name of a Spark table with --engine spark (engine="spark")'
            ) from error
        schemas.require(dataset.schema, schemas.RAW, self.path)
        return dataset


@dataclass(frozen=True)
class PrintedInput(RecordsOnly):
    """A file of what Kafka's tools print of records, which must be on this machine."""

    path: Path

    @property
    def holds_both(self) -> bool:
        return True

    def batches(self, topic: str) -> Iterator[pa.RecordBatch]:
        from sharelag.sources.files.printed import read_printed

        yield read_printed(self.path)

    def frame(self, spark: SparkSession, topic: str) -> DataFrame:
        from sharelag.sources.files.printed import read_printed
        from sharelag.sources.spark.files import sent

        return sent(spark, [read_printed(self.path)])

    def offsets(self, topic_ids: Sequence[str], as_of: object = None) -> pa.Table:
        return schemas.OFFSETS.empty_table()

    def size(self) -> int:
        # read in this process whatever the engine
        return 0

    def version(self) -> Hashable:
        return version_of([self.path])

    def describe(self) -> str:
        return f"records that Kafka's tools printed to {self.path}, without end offsets"


@dataclass(frozen=True)
class SegmentsInput(RecordsOnly):
    """A broker's log directory, which must be on this machine."""

    folder: Path

    def batches(self, topic: str) -> Iterator[pa.RecordBatch]:
        from sharelag.sources.files.control import read_control
        from sharelag.sources.files.segments import read_segments

        yield from read_segments(self.folder, topic)
        if topic == STATE_TOPIC:
            yield from read_control(self.folder)

    def frame(self, spark: SparkSession, topic: str) -> DataFrame:
        from sharelag.sources.spark.files import segments

        return segments(spark, self.folder, topic)

    def offsets(self, topic_ids: Sequence[str], as_of: object = None) -> pa.Table:
        from sharelag.sources.files.segments import segment_offsets

        offsets = segment_offsets(self.folder)
        noted = offsets.column("as_of")[0].as_py() or datetime.now(UTC)
        return _of_moment(offsets, topic_ids, noted, as_of)

    def size(self) -> int:
        # its files are read in this process whatever the engine, so that `auto` had better stay
        # here
        return 0

    def describe(self) -> str:
        return f"log directory {self.folder}"


def version_of(paths: Iterable[Path]) -> Hashable:
    """Tell one state of some files from another, by their names, sizes and times."""
    found = [(str(path), path.stat()) for path in sorted(paths)]
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in found)


def parquet_frame(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Read Parquet by Spark.

    A Connect server may not see the files of this machine; then they are sent to it.

    Raises
    ------
    InputError
        When they would be too many to be sent.
    """
    from sharelag.sources.spark.files import parquet

    return parquet(spark, paths)


def _of_moment(
    offsets: pa.Table, topic_ids: Sequence[str], noted: datetime, as_of: object
) -> pa.Table:
    """The offsets of some topics, known at one moment only."""
    offsets = of_topics(offsets, topic_ids)
    if as_of is None or (isinstance(as_of, datetime) and as_of >= noted):
        return offsets
    for name in ("end_offset", "log_start_offset", "as_of"):
        kind = schemas.OFFSETS.field(name).type
        offsets = offsets.set_column(
            offsets.schema.get_field_index(name), name, pa.nulls(len(offsets), kind)
        )
    return offsets


def _latest_until(offsets: pa.Table, past: pa.Table, as_of: datetime) -> pa.Table:
    """Where topic partitions ended when last seen before a moment; ``as_of`` says when."""
    noted = past.filter(
        pc.and_(pc.less_equal(past.column("as_of"), as_of), past.column("end_offset").is_valid())
    )
    noted = noted.sort_by([("as_of", "descending")])
    names = ("topic_id", "partition")
    then = beside(keys(offsets, names), noted, names)
    for name in ("end_offset", "as_of"):
        offsets = offsets.set_column(offsets.schema.get_field_index(name), name, then.column(name))
    return offsets


def of_topics(table: pa.Table, topic_ids: Sequence[str]) -> pa.Table:
    """The rows of some topics."""
    return table.filter(pc.is_in(table.column("topic_id"), pa.array(topic_ids, pa.string())))


def _dataset(paths: str | list[str]) -> ds.Dataset:
    import pyarrow.dataset as ds  # brings pandas along, which who reads a cluster need not wait for

    options = ds.ParquetFragmentScanOptions(pre_buffer=False)  # else files stay in memory as read
    return ds.dataset(paths, format=ds.ParquetFileFormat(default_fragment_scan_options=options))


def _parquet_batches(dataset: ds.Dataset) -> Iterator[pa.RecordBatch]:
    # One file and one batch after the other: the order of a partition's records is the order of the
    # log. What is read ahead is held in memory: of large records a batch is 100 MB.
    for fragment in dataset.get_fragments():
        with reading_parquet(fragment.path):
            yield from fragment.to_batches(
                schema=dataset.schema,
                columns=schemas.RAW.names,
                batch_size=_BATCH_ROWS,
                batch_readahead=1,
                use_threads=False,
            )
