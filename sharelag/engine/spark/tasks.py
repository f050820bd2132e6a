"""Bring whole partitions of Kafka's topics into Spark's tasks, and let tasks process them.

All records of a share partition are in one partition of the state topic, and all of a group in one
partition of the groups' topic, so a task with whole partitions can decode and replay them alone.
Tasks have them if they read files or a cluster themselves, also for a DataFrame that only scans
files, and if they scan Kafka. For any other DataFrame, the tasks that scan it pack their rows as
Arrow bytes, partition by partition, and only these bytes are exchanged: once, and without nested
columns, which Spark would take apart row by row.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial, reduce
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from sharelag import schemas
from sharelag.engine import Each
from sharelag.engine.spark.packing import (
    FOUND,
    OTHER,
    PACKED,
    PACKED_COLUMNS,
    REPLAYED,
    Batches,
    complete_columns,
    name_topics,
    pack_records,
    pack_table,
    unpack_records,
    unpack_table,
)
from sharelag.errors import InputError
from sharelag.inputs.files.pieces import Plan, deal_out, is_other, plan, read_pieces
from sharelag.inputs.kafka.config import ClientConfig
from sharelag.inputs.kafka.fetch import Ranges, read_ranges
from sharelag.inputs.spark.files import are_in_reach
from sharelag.inputs.spark.frames import find_files, holds_whole_partitions
from sharelag.inputs.spark.sessions import has_stopped, tasks_at_once
from sharelag.inputs.spark.workers import Task, map_in_arrow
from sharelag.model.versions import Version
from sharelag.replay import members
from sharelag.replay.columns import KEY, cut_by_share_partition
from sharelag.replay.history import HISTORY_KEY, history_arrow
from sharelag.replay.moment import Moment, as_moment, up_to
from sharelag.replay.repeats import EachOnce
from sharelag.replay.state import Latest, find_deleted, latest, latest_windows, replay_arrow
from sharelag.schemas import Ints
from sharelag.tables.arrow import ascending, for_spark, keys, one_batch
from sharelag.wire.decode import Decoded, decode_arrow, of_state, of_topic
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC
from sharelag.wire.generations import CONTROL_KEYS, control_key_sizes

#: Record types of share groups in the groups' topic: the first two bytes of the keys.
_GROUP_TYPES = [kind.to_bytes(2, "big") for kind in range(10, 16)]


def is_written_by(moment: Moment, partition: str = "partition") -> Column:
    """Return the condition that a record was written up to a time, or to offsets."""
    moment = as_moment(moment)  # Spark would interpret it in the driver's time zone
    if isinstance(moment, datetime):
        # Kafka's times have milliseconds: finer digits in a table do not make a record later.
        last = moment.replace(microsecond=moment.microsecond // 1000 * 1000 + 999)
        return F.col("timestamp") <= F.lit(last)
    each = [
        (F.col(partition) == number) & (F.col("offset") <= offset)
        for number, offset in (moment or {}).items()
    ]
    return reduce(Column.__or__, each, F.lit(False))


# Long conditions are texts: a column sends several messages to Java for each part.


def is_of(topic: str, generation: int | None) -> str:
    """Return the condition that a raw record may belong to a topic that we decode."""
    is_named = f"endswith(topic, '{topic}')"
    if topic == GROUP_TOPIC:
        return f"{is_named} AND substring(key, 1, 2) IN ({_literals(*_GROUP_TYPES)})"
    sizes = ", ".join(map(str, control_key_sizes(generation)))
    control = f"length(key) IN ({sizes}) AND substring(key, 1, 4) IN ({_literals(*CONTROL_KEYS)})"
    # A record without a topic is a reject.
    return f"topic IS NULL OR {is_named} OR ({control} AND NOT startswith(topic, '__'))"


def key_with_topic(usual: str) -> str:
    """Return a raw record's key, with the topic if it is a different one: see `name_topics`."""
    other, equals, nul, instead = map(_literals, (OTHER, b"=", b"\0", "\ufffd".encode()))
    # A name ends at the first NUL, which names of Kafka topics cannot contain.
    name = f"translate(topic, CAST({nul} AS STRING), CAST({instead} AS STRING))"
    parts = f"CAST({name} AS BINARY)", "key"
    marked = [f"coalesce(concat({equals}, {part}), X'')" for part in parts]
    return (
        f"CASE WHEN topic = '{usual}' AND NOT startswith(key, {other}) THEN key "
        f"ELSE concat({other}, {marked[0]}, {nul}, {marked[1]}) END AS key"
    )


def _literals(*found: bytes) -> str:
    return ", ".join(f"X'{one.hex()}'" for one in found)


def of_topics(raw: pa.RecordBatch, topics: Sequence[str], generation: int | None) -> pa.RecordBatch:
    """Return the rows of some topics of files and logs, as `is_of` does of a DataFrame."""
    found = [
        of_state(raw, generation) if topic == STATE_TOPIC else of_topic(raw, topic)
        for topic in topics
    ]
    return one_batch(pa.Table.from_batches(found))


#: Attribute of a DataFrame that stores its origin.
_ORIGIN = "_sharelag_origin"


def set_origin(frame: DataFrame, origin: object) -> None:
    """Store the origin of a DataFrame; DataFrames derived from it do not have it."""
    vars(frame)[_ORIGIN] = origin


def origin_of(frame: object) -> object:
    """Return the origin of a DataFrame; None without one, or if the rows are in Spark's cache.

    None also if the session was stopped, as its cache is gone.
    """
    spark = getattr(frame, "sparkSession", None)
    if spark is None or has_stopped(spark) or getattr(frame, "is_cached", False):
        return None
    return vars(frame).get(_ORIGIN)


#: Filters a batch of decoded records.
Choose: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]

#: Approximate number of records in a part of share partitions.
_PART_ROWS = 250_000
#: Minimum number of parts in which share partitions with states in several tasks meet.
_LEAST_MEETINGS = 4
#: Maximum number of records that a task decodes at once; for more it reads the bytes repeatedly.
_MOST_ROWS = 2_000_000
#: Up to this many bytes a task keeps unpacked records; above, it unpacks them for each reading.
_KEPT_BYTES = 8 << 20
#: Up to this many bytes a task with whole partitions reads them once, and packs nothing.
_HELD_BYTES = 64 << 20
#: Number of a cluster's records that a task fetches, unless it is one whole partition.
_FETCHED_ROWS = 200_000


@dataclass(frozen=True)
class Files:
    """Raw records in files that tasks read themselves."""

    spark: SparkSession
    plan: Plan


@dataclass(frozen=True)
class Logs:
    """Raw records of topics in a cluster that tasks fetch themselves, whole partitions each.

    Records never pass through the JVM; only results leave a task. It is the origin of a DataFrame
    that does nothing but read these ranges of offsets.
    """

    spark: SparkSession
    config: ClientConfig
    ranges: Mapping[str, Ranges]  # by topic


@dataclass(frozen=True)
class Records:
    """Records of the state topic, the groups' topic, or both, for tasks that need whole partitions.

    ``generation`` and ``kafka_version`` are those of `sharelag.wire.decode_arrow`.
    """

    source: DataFrame | Files | Logs  # `sharelag.schemas.RAW`, unless decoded or packed
    topics: tuple[str, ...] = (STATE_TOPIC,)  # of the two; a DataFrame may have others
    generation: int | None = None
    until: Choose | None = None  # keeps decoded records that were written up to a moment
    choose: tuple[Choose, ...] = ()  # further filters
    decoded: bool = False  # the source is a DataFrame of decoded records of one topic
    packed: bool = False  # the source is a DataFrame from `pack`
    kafka_version: Version = None

    def where(self, choose: Choose) -> Records:
        """Return the records that pass another filter."""
        return replace(self, choose=(*self.choose, choose))

    def only(self, topic: str) -> Records:
        """Return the records of one topic, unless they have been packed together."""
        return self if self.packed else replace(self, topics=(topic,))

    def written_by(self, moment: Moment) -> Records:
        """Return the records written up to a moment."""
        return self if moment is None else replace(self, until=partial(up_to, moment=moment))

    def read_until(self, moment: Moment) -> Records:
        """Return the same, and read no later rows of a DataFrame, not even undecodable ones."""
        kept, source = self.written_by(moment), self.source
        if moment is None or not isinstance(source, DataFrame):
            return kept
        partition = "record_partition" if self.decoded else "partition"
        return replace(kept, source=source.where(is_written_by(moment, partition)))

    def map(
        self, work: Callable[..., Batches], schema: pa.Schema, beside: DataFrame | None = None
    ) -> DataFrame:
        """Apply a function to each task's records; its batches have some columns of a schema.

        ``work`` takes `TaskRecords`, and the values sent with them, as for
        `sharelag.inputs.spark.workers.map_in_arrow`.
        """
        source, kind = self._place, self.topics[0] if self.decoded else ""
        chosen = self.generation, self.until, self.choose, self.kafka_version

        def work_task(read: Callable[[], Batches], *known: pa.Buffer) -> Batches:
            for batch in work(TaskRecords(read, kind, *chosen), *known):
                if batch.num_rows:
                    yield for_spark(batch, schema)

        if isinstance(source, Logs) or (isinstance(source, Files) and source.plan.whole):

            def raw_task(raw: Iterable[pa.RecordBatch], *known: pa.Buffer) -> Batches:
                return work_task(lambda: iter(raw), *known)

            return map_raw(source, raw_task, schema, beside=beside)

        def whole_task(packed: Iterable[pa.RecordBatch], *known: pa.Buffer) -> Batches:
            # Spark may be configured to send large types.
            rows = pa.Table.from_batches([batch.cast(PACKED) for batch in packed], PACKED)
            rows = rows.sort_by(ascending(*PACKED.names[:3]))
            read: Callable[[], Batches] = partial(unpack_records, rows, kind)
            if rows.nbytes <= _KEPT_BYTES:
                read = list(read()).__iter__
            yield from work_task(read, *known)

        if not isinstance(source, DataFrame) or self.packed or not holds_whole_partitions(source):
            return map_in_arrow(self.pack(), whole_task, schema, beside)
        scan, complete, place = self._scan(source)

        def scan_task(raw: Iterable[pa.RecordBatch], *known: pa.Buffer) -> Batches:
            # A scan returns raw records.
            whole = (complete_columns(complete(batch), schemas.RAW) for batch in raw)
            rows, held, size = whole, list[pa.RecordBatch](), 0
            while size <= _HELD_BYTES:
                if (batch := next(rows, None)) is None:
                    return work_task(held.__iter__, *known)
                held.append(batch)
                size += batch.nbytes
            return whole_task(pack_records(chain(held, rows), place), *known)

        few = tasks_at_once(source.sparkSession)
        return map_in_arrow(scan.coalesce(2 * few) if few else scan, scan_task, schema, beside)

    def map_parts(
        self, parts: Parts, each: Each, schema: pa.Schema, together: int = 0
    ) -> DataFrame:
        """Apply a function to parts of each task's records: to some share partitions at a time.

        With ``together``, the number of records, a part also has the states of these that are in
        other tasks: beside a mirror, or where the state topic grew. They are exchanged as bytes.
        """
        if together:
            columns, order = _PARTS[parts]
            meetings = _LEAST_MEETINGS + together // _PART_ROWS

            def pack_task(mine: TaskRecords) -> Batches:
                for part in parts(mine):
                    place = _parts_of(part, meetings)
                    for number in np.unique(place).tolist():
                        yield pack_table(f"{number}", part.filter(pa.array(place == number)))

            def meet_task(batches: Iterable[pa.RecordBatch]) -> Batches:
                found = pa.Table.from_batches([batch.cast(FOUND) for batch in batches], FOUND)
                for name in pc.unique(found.column("name")).to_pylist():
                    part = unpack_table(found, name, columns).sort_by(ascending(*order))
                    yield for_spark(one_batch(each(one_batch(part))), schema)

            return map_in_arrow(self.map(pack_task, FOUND).repartition("name"), meet_task, schema)

        def each_task(mine: TaskRecords) -> Batches:
            for part in parts(mine):
                yield one_batch(each(part))

        return self.map(each_task, schema)

    def find(self, work: Callable[[TaskRecords], Iterable[tuple[str, schemas.Arrow]]]) -> DataFrame:
        """Return `FOUND`: tables, by name, that a function makes from each task's records."""

        def find_task(records: TaskRecords) -> Batches:
            for name, table in work(records):
                yield pack_table(name, table)

        return self.map(find_task, FOUND)

    def pack(self) -> DataFrame:
        """Return the records as Arrow bytes, each Kafka partition within one Spark partition."""
        raw = self._place
        if isinstance(raw, DataFrame):
            if self.packed:
                return raw
            scan, complete, place = self._scan(raw)
            rows = map_in_arrow(scan, lambda some: pack_records(map(complete, some), place), PACKED)
        else:
            choose = partial(of_topics, topics=self.topics, generation=self.generation)
            pack_task = partial(pack_records, place=PACKED_COLUMNS[:3])
            rows = map_raw(raw, lambda some: pack_task(map(choose, some)), PACKED, PACKED_COLUMNS)
        return rows.repartition("topic", "partition")

    @cached_property
    def _place(self) -> DataFrame | Files | Logs:
        """The source; for a DataFrame that only scans, the files or logs for tasks to read."""
        source = self.source
        if not isinstance(source, DataFrame) or self.packed or self.decoded:
            return source
        origin = origin_of(source)
        if isinstance(origin, Logs):
            ranges = {
                name: of
                for name, of in origin.ranges.items()
                if not all(is_other(name, topic) for topic in self.topics)
            }
            return replace(origin, ranges=ranges)
        files = find_files(source, later=True)
        if not files or not are_in_reach(source.sparkSession, files):
            return source
        try:
            planned = plan(files, self.topics[0] if len(self.topics) == 1 else None)
        except (InputError, FileNotFoundError):
            return source  # Spark reports the error when the rows are read
        return Files(source.sparkSession, planned)

    def _scan(self, source: DataFrame) -> tuple[DataFrame, Choose, tuple[str, ...]]:
        """Return the needed rows and columns of a DataFrame.

        They come with a function that completes their batches, and the columns of a record's place.
        """
        kind = self.topics[0]
        if self.decoded:
            place = ("topic", "record_partition", "offset")
            return source.select(REPLAYED[kind].names), lambda batch: batch, place
        chosen = [f"topic = '{kind}'", *(is_of(one, self.generation) for one in self.topics)]
        others = [name for name in PACKED_COLUMNS if name not in ("topic", "key")]
        source = source.where(" OR ".join(f"({one})" for one in chosen))
        name = partial(name_topics, topic=kind)
        # By name: in an expression, OFFSET may be a reserved word.
        return source.select(F.expr(key_with_topic(kind)), *others), name, PACKED_COLUMNS[:3]


class TaskRecords:
    """One task's records: all records of some partitions, which can be read repeatedly.

    ``read`` starts reading them again, batch by batch. It yields decoded records of the topic
    ``decoded``, or raw ones if that is empty. Other parameters as for `Records`.
    """

    def __init__(
        self,
        read: Callable[[], Batches],
        decoded: str = "",
        generation: int | None = None,
        until: Choose | None = None,
        choose: Sequence[Choose] = (),
        kafka_version: Version = None,
    ) -> None:
        self.generation, self.kafka_version = generation, kafka_version
        self._until, self._choose = until, choose
        self._read, self._decoded = read, decoded
        #: Raw records of the state topic in log order, each once.
        self.raw = EachOnce(lambda: (of_state(batch, generation) for batch in read()))
        self._of_groups = EachOnce(lambda: (of_topic(batch, GROUP_TOPIC) for batch in read()))

    def decode(self, topic: str = STATE_TOPIC) -> Batches:
        """Yield the chosen records of a topic, with the columns that replay reads."""
        for one in self._decode(topic):
            yield one.records

    def _decode(self, topic: str) -> Iterator[Decoded]:
        """Yield the same with rejects."""
        raw: Iterable[pa.RecordBatch] = self.raw
        if self._decoded:
            raw = self._read()
        elif topic == GROUP_TOPIC:
            raw = self._of_groups
        for batch in raw:
            found = (
                Decoded(batch, batch.slice(0, 0), 0)
                if self._decoded
                else decode_arrow(batch, topic, self.generation, self.kafka_version)
            )
            records = found.records.select(REPLAYED[topic].names)
            records = records if self._until is None else self._until(records)
            yield found._replace(records=self._chosen(records))

    def replay(self) -> Latest:
        """Return the state of every chosen share partition, and counts."""
        if self._decoded:
            records = latest(self.decode(), REPLAYED[STATE_TOPIC])
            windows = replay_arrow(records, self.kafka_version)
            return Latest(windows, find_deleted(records), records.num_rows, 0, None, None)
        choose = self._chosen if self._choose else None
        read = self.generation, self._until, self.kafka_version
        return self.raw.apply(lambda raw: latest_windows(raw, choose, *read))

    def group_log(self) -> members.GroupLog:
        """Return the chosen records of the groups' topic that no later one replaces."""

        def keep(_: EachOnce) -> members.GroupLog:
            return members.read_group_log(self._decode(GROUP_TOPIC), REPLAYED[GROUP_TOPIC])

        return keep(self._of_groups) if self._decoded else self._of_groups.apply(keep)

    def _chosen(self, records: pa.RecordBatch) -> pa.RecordBatch:
        return reduce(lambda rows, choose: choose(rows), self._choose, records)

    def share_partitions(self) -> Batches:
        """Yield all chosen records of some share partitions at a time."""
        found, rows = self._first_part(1)
        if rows <= _MOST_ROWS:
            yield from cut_by_share_partition(found, _PART_ROWS)
            return
        parts = -(-rows // _MOST_ROWS)
        for part in range(parts):
            found, _ = self._first_part(parts, part)
            yield from cut_by_share_partition(found, _PART_ROWS)

    def histories(self, gaps: pa.Table | None = None) -> Batches:
        """Yield the whole history of some share partitions at a time."""
        for part in self.share_partitions():
            yield history_arrow(part, self.raw.gaps if gaps is None else gaps)

    def _first_part(self, parts: int, part: int = 0) -> tuple[pa.RecordBatch, int]:
        """Decode the share partitions of one part of several, and count the records of all."""

        def decode(_: EachOnce) -> tuple[list[pa.RecordBatch], int]:
            found: list[pa.RecordBatch] = []
            rows = 0
            for batch in self.decode():
                rows += batch.num_rows
                if parts > 1:
                    batch = batch.filter(pa.array(_parts_of(batch, parts) == part))
                elif rows > _MOST_ROWS:  # only counted from here on
                    found.clear()
                    continue
                found.append(batch)
            return found, rows

        found, rows = decode(self.raw) if self._decoded else self.raw.apply(decode)
        return one_batch(pa.Table.from_batches(found, REPLAYED[STATE_TOPIC])), rows


def map_raw(
    raw: Files | Logs,
    task: Task,
    schema: pa.Schema,
    columns: Sequence[str] = schemas.RAW.names,
    beside: DataFrame | None = None,
) -> DataFrame:
    """Apply a function to raw records that each task reads itself, possibly more than once."""
    # Not the session, which cannot be sent.
    read: Callable[..., Batches]
    if isinstance(raw, Files):
        parts, read = raw.plan.tasks or [[]], partial(read_pieces, columns=columns)
    else:
        parts, read = _plan_logs(raw, columns)

    def read_task(batches: Iterable[pa.RecordBatch], *known: pa.Buffer) -> Batches:
        numbers = [number for batch in batches for number in batch.column("id").to_pylist()]
        mine = [part for number in numbers for part in parts[number]]
        yield from task(_Kept(partial(read, mine), _HELD_BYTES), *known)

    numbers = raw.spark.range(0, len(parts), 1, len(parts))
    return map_in_arrow(numbers, read_task, schema, beside)


@dataclass
class _Kept:
    """Raw records that can be iterated over repeatedly; only large ones are read again."""

    read: Callable[[], Batches]
    most: int  # bytes
    all: list[pa.RecordBatch] | None = field(default=None, init=False)

    def __iter__(self) -> Batches:
        if self.all is not None:
            yield from self.all
            return
        kept, size = list[pa.RecordBatch](), 0
        for batch in self.read():
            size += batch.nbytes
            if size <= self.most:
                kept.append(batch)
            else:
                kept.clear()
            yield batch
        if size <= self.most:
            self.all = kept


def _plan_logs(raw: Logs, columns: Sequence[str]) -> tuple[list[list[Any]], Callable[..., Batches]]:
    config = raw.config
    each = [
        (topic, partition, span)
        for topic, of in raw.ranges.items()
        for partition, span in of.items()
    ]
    records = sum(end - first for *_, (first, end) in each)
    count = min(max(1, len(each)), 1 + records // _FETCHED_ROWS)
    parts = deal_out(each, lambda one: one[2][1] - one[2][0], count)

    def fetch(mine: Sequence[tuple[str, int, tuple[int, int]]]) -> Batches:
        for topic in dict.fromkeys(name for name, *_ in mine):
            ranges = {partition: span for name, partition, span in mine if name == topic}
            for batch in read_ranges(config, topic, ranges):
                yield batch.select(list(columns))

    return parts, fetch


def _parts_of(records: pa.RecordBatch, parts: int) -> Ints:
    """Return the part of several to which each row's share partition belongs."""
    shares = keys(records, schemas.SHARE_PARTITION).dictionary_encode()
    each = [zlib.crc32(name.encode()) % parts for name in shares.dictionary.to_pylist()]
    return np.asarray(np.array(each, np.int64)[shares.indices.to_numpy()])


#: What yields some share partitions of a task at a time, with the columns and their order.
Parts: TypeAlias = Callable[[TaskRecords], Batches]
_PARTS: dict[Parts, tuple[pa.Schema, Sequence[str]]] = {
    TaskRecords.histories: (schemas.HISTORY, HISTORY_KEY),
    TaskRecords.share_partitions: (REPLAYED[STATE_TOPIC], (*KEY, "offset")),
}
