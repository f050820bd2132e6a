"""One reading of an input on Spark: its records are read by tasks, which return what they found.

What rests on records is found in passes over them, each of which returns several tables of one row
per share partition, group or state partition. These tables are in this process then, whichever
engine read the records; long ones, such as a history, stay DataFrames. `Frames` has all of them as
DataFrames by name, which SQL knows, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sharelag import schemas
from sharelag.engine import (
    HISTORY_ORDER,
    Counted,
    CountedGroups,
    Each,
    Ledger,
    Rows,
    add_topic_names,
    from_time,
    latest,
)
from sharelag.engine.spark import answers, states
from sharelag.engine.spark.packing import FOUND, collect, pack_table, stream_rows, unpack_table
from sharelag.engine.spark.passes import Passes, only
from sharelag.engine.spark.states import Decoded, decode, select_records
from sharelag.engine.spark.tasks import TaskRecords
from sharelag.errors import InputError, first_line
from sharelag.inputs.kafka.config import ClientConfig
from sharelag.inputs.kafka.records import scan
from sharelag.inputs.spark.frames import frame_of
from sharelag.inputs.spark.workers import map_in_arrow
from sharelag.metrics.columns import evenly_spaced
from sharelag.metrics.dead_letters import SUMS, archived_arrow, first_of, sums_of, topic_ids_of
from sharelag.metrics.health import snapshots_arrow
from sharelag.model import milliseconds
from sharelag.replay.moment import Moment, filter_groups
from sharelag.replay.state import WINDOWS_AT, WINDOWS_ORDER, replay_at
from sharelag.tables.arrow import as_table, for_spark, one_batch
from sharelag.tables.declared import answers as of_answers
from sharelag.tables.declared import groups, lag, records, windows
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC

if TYPE_CHECKING:
    from sharelag.engine import OfQueue
    from sharelag.inputs.spark.frames import FrameInput

TABLES = {
    table.name: table
    for table in (
        *(records.RAW, records.RECORDS, records.REJECTS),
        *(windows.WINDOWS, windows.HISTORY, windows.OBSERVED, windows.SNAPSHOTS),
        *(records.GROUP_RECORDS, groups.MEMBERS, groups.GROUPS),
        *(records.OFFSETS, records.PAST_OFFSETS, records.LOGS, groups.LEADERS, groups.NODES),
        *(groups.BROKERS, records.TIMES, groups.SETTINGS, records.GAPS, records.HEALTH),
        *(lag.LAG, lag.BRIEF_LAG, of_answers.PROGRESS, of_answers.IMBALANCE),
    )
}
_HISTORY = schemas.HISTORY.append(pa.field("topic", pa.string()))
_TOTAL = pa.schema([("total", pa.int64())])
_TIMES = pa.schema([("time", pa.int64())])


class SparkReading(Passes):
    """The tables of an input from Spark.

    Parameters
    ----------
    source, as_of, choice, over
        As for `Reading`.
    spark : pyspark.sql.SparkSession, optional
        The active one, or one for this machine, when not given.
    cache : bool
        Keep the raw records, compressed, in Spark's cache once they were read. Those of a cluster
        are kept in any case, as soon as more than the windows is needed: read a second
        time, it may have pruned some.
    """

    engine = "spark"

    @property
    def frames(self) -> Frames:
        """All tables as DataFrames."""
        return self.once("frames", lambda: Frames(self))

    @property
    def counted(self) -> Counted:
        """The records in numbers."""
        rows = unpack_table(self._states().found, "counted", states.COUNTED)
        records, rejected, repeated = (
            pc.sum(rows.column(name)).as_py() or 0 for name in ("records", "rejected", "repeated")
        )
        first, last = pc.min(rows.column("first")).as_py(), pc.max(rows.column("last")).as_py()
        return Counted(records, rejected, first, last, repeated)

    @property
    def counted_groups(self) -> CountedGroups:
        """Return counts of the groups' own records."""
        rows = unpack_table(self._membership, "counted groups", states.COUNTED_GROUPS)
        records, rejected = (pc.sum(rows.column(n)).as_py() or 0 for n in ("records", "rejected"))
        deleted = pc.list_flatten(rows.column("deleted"))
        return CountedGroups(records, rejected, frozenset(deleted.to_pylist()))

    @property
    def has_group_records(self) -> bool:
        """Whether the input has any record of the topic of group records."""
        records = self.raw_of(GROUP_TOPIC).where(F.col("topic").endswith(GROUP_TOPIC))
        return bool(records.select("topic").limit(1).toArrow().num_rows)

    def then(self, as_of: Moment) -> SparkReading:
        """Return the same records as of another moment."""
        other = SparkReading(self.source, as_of, self.choice, self.over, self.spark, self._cache)
        if self._caches:
            other.of_session("whole", lambda: self._whole_records)
            other._kept_by = self  # else they would leave the cache with this reading
        return other

    def _whole(self) -> SparkReading:
        if self.as_of is None and not self.choice.groups:
            return self
        every = self.choice.everything()
        return SparkReading(self.source, choice=every, spark=self.spark, cache=self._cache)

    # ---- the past --------------------------------------------------------------------------------

    def history(
        self, since: datetime | None = None, most: int | None = None, group: str | None = None
    ) -> Rows:
        """Return the state after each record; of too many rows the latest."""

        def latest_task(mine: TaskRecords) -> Iterator[tuple[str, schemas.Arrow]]:
            kept, total = schemas.HISTORY.empty_table(), 0
            for part in mine.histories():
                rows = as_table(from_time(part, since))
                total += len(rows)
                kept = latest(pa.concat_tables([kept, rows]), most)
            yield "history", kept
            yield "total", pa.table([[total]], _TOTAL)

        records = self._chosen_topics(self._records_of(group=group))
        found = collect(records.find(latest_task), FOUND)
        rows = latest(unpack_table(found, "history", schemas.HISTORY), most)
        total = pc.sum(unpack_table(found, "total", _TOTAL).column("total")).as_py() or 0
        return Rows(add_topic_names(rows, self.table("offsets")).sort_by(HISTORY_ORDER), total)

    def history_tables(self, since: datetime | None = None) -> Iterator[pa.Table]:
        """All rows of the history, one task's after another."""
        order = [name for name, _ in HISTORY_ORDER]
        for batch in stream_rows(self.history_frame(since).orderBy(*order), _HISTORY):
            yield pa.Table.from_batches([batch])

    def history_frame(self, since: datetime | None = None, group: str | None = None) -> DataFrame:
        """Return the whole history from a time on, of one group or all, with the topics' names."""
        records, each = self._records_of(group=group), partial(from_time, since=since)
        return self._add_names(records.map_parts(TaskRecords.histories, each, schemas.HISTORY))

    def history_rows(self) -> DataFrame:
        """Return the whole history of the chosen groups."""
        return self._records_of().map(TaskRecords.histories, schemas.HISTORY)

    def over_history(self, each: Each, schema: pa.Schema, keys: pa.Table | None = None) -> pa.Table:
        """Apply a function to the history of share partitions in the tasks that replay it."""
        summarize = states.summarize(each, schema)
        found = self._records_of(keys).find(lambda mine: [("found", summarize(mine))])
        return unpack_table(collect(found, FOUND), "found", schema)

    def timeline_frame(self, each: Each, group: str | None = None) -> DataFrame:
        """Return `sharelag.schemas.TIMELINE`, computed by ``each`` from the history."""
        records = self._records_of(group=group)
        frame = records.map_parts(TaskRecords.histories, each, schemas.TIMELINE)
        return self._add_names(frame).select(schemas.TIMELINE.names)

    def over_records(self, each: Each, schema: pa.Schema, keys: pa.Table) -> pa.Table:
        """Apply a function to all records of share partitions in the tasks that have them."""
        records = self._records_of(keys)
        return collect(records.map_parts(TaskRecords.share_partitions, each, schema), schema)

    def windows_at(self, keys: pa.Table, moments: Sequence[int] | int) -> pa.Table:
        """Return the windows of some share partitions at moments of the past.

        Where only their number is given, the records are read twice: for their times first.
        """
        records = self._records_of(keys)
        at = moments
        if isinstance(moments, int):
            found = collect(records.find(_find_times), FOUND)
            times = unpack_table(found, "times", _TIMES).column("time")
            at = evenly_spaced(np.unique(times.to_numpy()), moments)
        version = self.source.kafka_version
        each = partial(replay_at, moments=np.array(at, np.int64), kafka_version=version)
        found = records.map_parts(TaskRecords.share_partitions, each, WINDOWS_AT)
        return collect(found, WINDOWS_AT).sort_by(WINDOWS_ORDER)

    # ---- dead letters ----------------------------------------------------------------------------

    def ledger(self, asked: OfQueue, most: int) -> Ledger:
        """Compare archived offsets with the records of a dead-letter queue, in the tasks."""

        def sum_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            given = [as_table(batch).cast(schemas.LEDGER, safe=False) for batch in batches]
            rows = pa.concat_tables([schemas.LEDGER.empty_table(), *given])
            yield pack_table("rows", first_of(rows, most))
            yield pack_table("sums", sums_of(rows))

        found = collect(map_in_arrow(self.ledger_frame(asked), sum_task, FOUND), FOUND)
        sums = unpack_table(found, "sums", SUMS).group_by(["status", "reason"])
        whole = sums.aggregate([("offsets", "sum"), ("rows", "sum")]).rename_columns(SUMS.names)
        return Ledger(first_of(unpack_table(found, "rows", schemas.LEDGER), most), whole.cast(SUMS))

    def ledger_frame(self, asked: OfQueue) -> DataFrame:
        """Return the whole ledger of a dead-letter queue."""
        records = self._records_of(asked.lag)
        share_partitions = TaskRecords.share_partitions
        archived = records.map_parts(share_partitions, archived_arrow, schemas.ARCHIVED_RUNS)
        names = topic_ids_of(asked.lag)
        letters = answers.letters(self.spark, asked.queue, names, asked.groups)
        lag, now = frame_of(self.spark, asked.lag), milliseconds(self.now)
        return answers.ledger(archived, letters, lag, asked.limits, now)

    def _compute_sorted(self, name: str) -> pa.Table:
        self._refuse_stream(name)
        together = self.source.holds_both and GROUP_TOPIC in self._whole_records.topics
        is_apart = together and not ("states" in self.once and self._states().with_members)
        if name == "observed" or (name in ("members", "groups") and is_apart):
            self.read_ahead()
        return super()._compute_sorted(name)

    def _compute(self, name: str) -> schemas.Arrow:
        if name in ("windows", "gaps"):
            return unpack_table(self._states().found, name, getattr(schemas, name.upper()))
        if name == "observed":
            done = self._states()
            done = done if done.until == self.now else self._rest()
            return unpack_table(done.found, name, schemas.OBSERVED)
        if name == "snapshots":
            return self.over_history(snapshots_arrow, schemas.SNAPSHOTS)
        if name == "health":
            partitions = self.source.partitions(STATE_TOPIC)
            records = only(self._whole_records, STATE_TOPIC)
            return collect(answers.health(records, partitions), schemas.HEALTH)
        if name in ("members", "groups"):
            return unpack_table(self._membership, name, getattr(schemas, name.upper()))
        raise ValueError(f"unknown table {name!r}")

    @property
    def _membership(self) -> pa.Table:
        """`FOUND` with members and groups."""

        def find() -> pa.Table:
            if self.group_records_refused is not None:
                return FOUND.empty_table()
            records = self._whole_records
            if GROUP_TOPIC not in records.topics:
                records = self._read_records(GROUP_TOPIC)
            records = only(records, GROUP_TOPIC)
            # Offsets of the state topic say nothing of the groups' topic: its records have times.
            moment = self.now if self.as_of is not None else None
            records = records.written_by(moment)
            if groups := self.choice.groups:
                records = records.where(partial(filter_groups, groups=groups))
            return collect(records.find(states.find_membership), FOUND)

        passes = {"states": self._states, "rest": self._rest}
        for done in (found() for name, found in passes.items() if name in self.once):
            if done.with_members:
                return done.found
        return self.once("membership", find)

    # ---- behind it -------------------------------------------------------------------------------

    def _add_names(self, frame: DataFrame) -> DataFrame:
        """Rows of the chosen topics with their names beside, null where those are not known."""
        names = self.table("offsets").group_by(["topic_id", "topic"]).aggregate([])
        known = F.broadcast(frame_of(self.spark, names))
        columns = [name for name in frame.columns if name != "topic"]
        joined = frame.select(columns).join(known, "topic_id", "left")
        return self.frames.of_chosen_topics(joined.select(*columns, "topic"))

    def _scan(self, config: ClientConfig) -> pa.Table:
        # Each topic partition once, in the tasks.
        offsets = self.table("offsets")

        def scan_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            found = [batch for batch in batches if batch.num_rows]
            if found:
                rows = pa.Table.from_batches(found).select(schemas.WINDOWS.names)
                counts = scan(config, rows.cast(schemas.WINDOWS), offsets)
                yield for_spark(one_batch(counts), schemas.SCANNED)

        together = self._add_names(self.frames.windows).repartition("topic_id", "partition")
        return collect(map_in_arrow(together, scan_task, schemas.SCANNED), schemas.SCANNED)


def _find_times(mine: TaskRecords) -> Iterator[tuple[str, schemas.Arrow]]:
    decoded = mine.raw.apply(lambda _: [one.select(["timestamp"]) for one in mine.decode()])
    times = [one.column("timestamp").drop_null().view(pa.int64()) for one in decoded]
    yield "times", pa.table([pc.unique(pa.chunked_array(times, pa.int64()))], _TIMES)


class Frames:
    """The tables of `TABLES` by name as DataFrames, created on first use.

    ``raw records rejects history group_records`` are lazy: each use reads the raw records anew.
    The others have one row per share partition, topic partition or the like. They are found when
    they are first used, the windows before the end offsets, so that lag is never negative, and stay
    in this process. They cover the selected groups and the moment, except ``raw rejects gaps
    health``, which cover the whole input, and ``group_records``, which cover any time; topics are
    selected only in ``lag progress imbalance``, because their names come from the offsets.
    """

    def __init__(self, reading: SparkReading) -> None:
        self._reading = reading

    @property
    def raw(self) -> DataFrame:
        """Kafka records of both topics (`RAW`); one row is a record, as any connector gives it."""
        reading = self._reading
        state = reading.raw_of(STATE_TOPIC)
        if not reading.source.holds_both:
            state = state.unionByName(reading.raw_of(GROUP_TOPIC))
        return state.select(schemas.RAW.names)

    @property
    def records(self) -> DataFrame:
        """Decoded records of ``__share_group_state`` (`RECORDS`); one row is a record."""
        found = self._decode(STATE_TOPIC).records
        return select_records(found, self._reading.as_of, self._reading.choice.groups)

    @property
    def rejects(self) -> DataFrame:
        """Undecodable records of both topics, of any group (`REJECTS`); one row is a record."""
        decoded = [self._decode(topic) for topic in (STATE_TOPIC, GROUP_TOPIC)]
        return decoded[0].rejects.unionByName(decoded[1].rejects)

    @property
    def windows(self) -> DataFrame:
        """States (`WINDOWS`); one row is a share partition with its offsets, epochs and batches."""
        if self._reading.is_stream:
            from sharelag.engine.spark import stream

            choice = self._reading.choice
            whole = self._reading.as_of is None
            given = self._reading.raw_of(STATE_TOPIC) if whole else self.records
            return stream.windows(given, groups=choice.groups, generation=choice.generation)
        return self._once("windows")

    @property
    def history(self) -> DataFrame:
        """The state after every record, and what it changed (`HISTORY`); one row is a record."""
        return self._reading.history_rows()

    @property
    def group_records(self) -> DataFrame:
        """Share group records of ``__consumer_offsets`` (`GROUP_RECORDS`); one row is a record."""
        if self._reading.group_records_refused is not None:
            return frame_of(self._reading.spark, schemas.GROUP_RECORDS.empty_table())
        chosen = self._reading.choice.groups
        return select_records(self._decode(GROUP_TOPIC).records, None, chosen)

    @property
    def lag(self) -> DataFrame:
        """Lag in offsets, term by term (`LAG`); one row is a share partition."""
        if self._reading.is_stream:
            from sharelag.engine.spark import stream

            given = cast("FrameInput", self._reading.source).given_offsets
            ends = schemas.OFFSETS.empty_table if given is None else given
            return self.of_chosen_topics(stream.lag(self.windows, ends))
        return self._once("lag")

    @property
    def brief_lag(self) -> DataFrame:
        """Lag and what Kafka computes it from (`BRIEF_LAG`); one row is a share partition."""
        if self._reading.is_stream:
            return self.lag.select(schemas.BRIEF_LAG.names)
        return self._once("brief_lag", lambda: self._reading.brief)

    @property
    def imbalance(self) -> DataFrame:
        """Spread of load (`IMBALANCE`); one row is a measure over a group or one of its topics."""
        return self._once("imbalance", lambda: self._reading.imbalance())

    def __getattr__(self, name: str) -> DataFrame:
        if name not in TABLES:
            raise AttributeError(f"unknown table {name!r}: choose one of {', '.join(TABLES)}")
        return self._once(name)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *TABLES]

    def sql(self, query: str, args: dict[str, Any] | list[Any] | None = None) -> DataFrame:
        """Run a query in which the names of these tables stand for them.

        Parameters
        ----------
        query : str
            A ``SELECT``, with or without its own ``WITH``. Other tables and views of the session
            can be joined; a view of the same name as one of these is not touched, and not seen.
        args : dict or list, optional
            Values of its parameters, as ``SparkSession.sql`` takes them.

        Raises
        ------
        InputError
            The query names a table or a column that is not there, or cannot be parsed.
        """
        named = [name for name in TABLES if re.search(rf"\b{name}\b", query, re.IGNORECASE)]
        given = {f"sharelag_{name}": getattr(self, name) for name in named}
        # Only names of these tables stand in it beside the query; Spark puts the DataFrames in
        # their places.
        view = "{0} AS (SELECT * FROM {{sharelag_{0}}})"
        views = ", ".join(view.format(name) for name in named)
        text = query.strip().rstrip(";")
        if named:
            # Braces stand for DataFrames then; the line's end closes a comment of the query's.
            text = f"WITH {views} (\n{text.replace('{', '{{').replace('}', '}}')}\n)"
        try:
            return self._reading.spark.sql(text, args=args, **given)
        except AnalysisException as error:  # also of queries that cannot be parsed
            said = first_line(error).rstrip(".")
            raise InputError(f"{said}; the tables here are {', '.join(TABLES)}") from error

    def __getitem__(self, name: str) -> DataFrame:
        if name not in TABLES:
            raise InputError(f"unknown table {name!r}: choose one of {', '.join(TABLES)}")
        frame: DataFrame = getattr(self, name)
        return frame

    def __iter__(self) -> Iterator[str]:
        return iter(TABLES)

    def __repr__(self) -> str:
        width = max(map(len, TABLES))
        return "\n".join(f"{name:<{width}}  {table.row}" for name, table in TABLES.items())

    # ---- behind it -------------------------------------------------------------------------------

    def of_chosen_topics(self, frame: DataFrame) -> DataFrame:
        """Return the rows of the chosen topics, by name, or id where the name is not known."""
        topics = self._reading.choice.topics
        if not topics:
            return frame
        name = F.coalesce("topic", "topic_id")
        each: list[Column] = [
            (name == topic) & (F.col("partition").isin(*partitions) if partitions else F.lit(True))
            for topic, partitions in topics.items()
        ]
        return frame.where(reduce(Column.__or__, each))

    def _once(self, name: str, table: Callable[[], pa.Table] | None = None) -> DataFrame:
        reading = self._reading
        find = table or (lambda: reading.table(name))
        return reading.of_session(("frame", name), lambda: frame_of(reading.spark, find()))

    def _decode(self, topic: str) -> Decoded:
        reading = self._reading
        version = reading.source.kafka_version
        return decode(reading.raw_of(topic), topic, reading.choice.generation, version)
