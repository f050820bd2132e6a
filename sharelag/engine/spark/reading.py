"""One reading of an input on Spark: its records are read by tasks, which return what they found.

What rests on records is found in passes over them, each of which returns several tables of one row
per share partition, group or state partition. These tables are in this process then, whichever
engine read the records; long ones, such as a history, stay DataFrames.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sharelag import schemas
from sharelag.engine import Counted, CountedGroups, Each, Ledger, Rows, tables
from sharelag.engine.spark import answers, states
from sharelag.engine.spark.frames import Frames
from sharelag.engine.spark.packing import FOUND, collect, pack_table, stream_rows, unpack_table
from sharelag.engine.spark.passes import Passes, only
from sharelag.engine.spark.tasks import TaskRecords
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
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC

if TYPE_CHECKING:
    from sharelag.engine import OfQueue

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
            for part in states.histories(mine):
                rows = as_table(tables.from_time(part, since))
                total += len(rows)
                kept = tables.latest(pa.concat_tables([kept, rows]), most)
            yield "history", kept
            yield "total", pa.table([[total]], _TOTAL)

        records = self._chosen_topics(self._records_of(group=group))
        found = collect(records.find(latest_task), FOUND)
        rows = tables.latest(unpack_table(found, "history", schemas.HISTORY), most)
        total = pc.sum(unpack_table(found, "total", _TOTAL).column("total")).as_py() or 0
        return Rows(
            tables.add_topic_names(rows, self.table("offsets")).sort_by(tables.HISTORY_ORDER), total
        )

    def history_tables(self, since: datetime | None = None) -> Iterator[pa.Table]:
        """All rows of the history, one task's after another."""
        order = [name for name, _ in tables.HISTORY_ORDER]
        for batch in stream_rows(self.history_frame(since).orderBy(*order), _HISTORY):
            yield pa.Table.from_batches([batch])

    def history_frame(self, since: datetime | None = None, group: str | None = None) -> DataFrame:
        """Return the whole history from a time on, of one group or all, with the topics' names."""

        def history_task(mine: TaskRecords) -> Iterator[pa.RecordBatch]:
            for part in states.histories(mine):
                yield tables.from_time(part, since)

        return self._add_names(self._records_of(group=group).map(history_task, schemas.HISTORY))

    def history_rows(self) -> DataFrame:
        """Return the whole history of the chosen groups."""
        return self._records_of().map(states.histories, schemas.HISTORY)

    def over_history(self, each: Each, schema: pa.Schema, keys: pa.Table | None = None) -> pa.Table:
        """Apply a function to the history of share partitions in the tasks that replay it."""
        summarize = states.summarize(each, schema)
        found = self._records_of(keys).find(lambda mine: [("found", summarize(mine))])
        return unpack_table(collect(found, FOUND), "found", schema)

    def timeline_frame(self, each: Each, group: str | None = None) -> DataFrame:
        """Return `sharelag.schemas.TIMELINE`, computed by ``each`` from the history."""

        def timeline_task(mine: TaskRecords) -> Iterator[pa.RecordBatch]:
            for part in states.histories(mine):
                yield one_batch(each(part))

        frame = self._records_of(group=group).map(timeline_task, schemas.TIMELINE)
        return self._add_names(frame).select(schemas.TIMELINE.names)

    def over_records(self, each: Each, schema: pa.Schema, keys: pa.Table) -> pa.Table:
        """Apply a function to all records of share partitions in the tasks that have them."""
        return collect(self._records_of(keys).map_share_partitions(each, schema), schema)

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
        table = collect(records.map_share_partitions(each, WINDOWS_AT), WINDOWS_AT)
        return table.sort_by(WINDOWS_ORDER)

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
        archived = records.map_share_partitions(archived_arrow, schemas.ARCHIVED_RUNS)
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
        if name == "windows":
            return unpack_table(self._states().found, name, schemas.WINDOWS)
        if name == "gaps":
            return unpack_table(self._states().found, name, schemas.GAPS)
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
        if name == "members":
            return unpack_table(self._membership, name, schemas.MEMBERS)
        if name == "groups":
            return tables.chosen_partitions(
                unpack_table(self._membership, name, schemas.GROUPS), self.choice
            )
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
