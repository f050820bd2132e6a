"""One reading of an input on Spark: its records are read by tasks, which return what they found.

What rests on records is found in passes over them, each of which returns several tables of one row
per share partition, group or state partition. These tables are in this process then, whichever
engine read the records; long ones, such as a history, stay DataFrames.
"""

from __future__ import annotations

import logging
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from sharelag import schemas
from sharelag.errors import InputError, first_line
from sharelag.metrics.dead_letter_ledger import SUMS, first_of, sums_of
from sharelag.metrics.dead_letters import archived_arrow, topic_ids_of
from sharelag.metrics.lag import lag_arrow
from sharelag.metrics.observed import observe
from sharelag.metrics.sampling import evenly_spaced
from sharelag.metrics.snapshots import snapshots_arrow
from sharelag.model import milliseconds
from sharelag.pipeline import answers, dead_letters, membership, states
from sharelag.pipeline.collecting import collected, frame_of, streamed
from sharelag.pipeline.frames import Frames, OnSpark
from sharelag.pipeline.tasks import (
    FOUND,
    Files,
    Logs,
    Records,
    TaskRecords,
    pack_table,
    unpack_table,
)
from sharelag.reading import (
    ORDER,
    OVER,
    Counted,
    Each,
    Ledger,
    Rows,
    chosen_partitions,
    named,
    rows_of,
)
from sharelag.replay.at_moments import WINDOWS_AT, replay_at
from sharelag.replay.moment import Choice, Moment, filter_groups
from sharelag.replay.positions import POSITIONS, Positions
from sharelag.schemas.arrow import as_table, for_spark, one_batch
from sharelag.schemas.comparisons import DESCRIBED, RECONCILED, SCANNED
from sharelag.schemas.dead_letters import ARCHIVED_RUNS, LEDGER
from sharelag.sources.files.pieces import plan
from sharelag.sources.inputs import Input, KafkaInput
from sharelag.sources.kafka.config import ClientConfig
from sharelag.sources.kafka.scan import scan
from sharelag.sources.spark import interrupts, session
from sharelag.sources.spark.files import files_in_reach
from sharelag.sources.spark.frames import FrameInput
from sharelag.sources.spark.workers import map_in_arrow
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC

if TYPE_CHECKING:
    from sharelag.reading import OfQueue

_LOG = logging.getLogger(__name__)
_SHARE_PARTITION = ["group_id", "topic_id", "partition"]
_HISTORY = schemas.HISTORY.append(pa.field("topic", pa.string()))
_TOTAL = pa.schema([("total", pa.int64())])
_TIMES = pa.schema([("time", pa.int64())])
#: What readings that are gone have left in Spark's cache. A finalizer may run anywhere, so it calls
#: nobody.
_ABANDONED: deque[list[DataFrame]] = deque()


class _Pass(NamedTuple):
    """What a pass over the records found."""

    found: pa.Table  # FOUND
    until: datetime | None = None  # up to when the history was observed; None: it was not
    with_members: bool = False


class SparkReading(OnSpark):
    """The tables of an input from Spark.

    Parameters
    ----------
    source, as_of, choice, over
        As for `Reading`.
    spark : pyspark.sql.SparkSession, optional
        The active one, or one for this machine, when not given.
    cache : bool
        Keep the raw records, compressed, in Spark's cache once they were read. Those of a cluster
        are kept in any case, as soon as more is asked of them than the windows: read a second
        time, it may have pruned some.
    """

    engine = "spark"

    def __init__(
        self,
        source: Input,
        as_of: Moment = None,
        choice: Choice | None = None,
        over: timedelta = OVER,
        spark: SparkSession | None = None,
        cache: bool = False,
    ) -> None:
        super().__init__(source, as_of, choice, over)
        self._spark, self._cache = spark, cache
        self._kept_by: SparkReading | None = None
        self._kept: list[DataFrame] = []
        weakref.finalize(self, _ABANDONED.append, self._kept)
        while _ABANDONED:
            _unpersist(_ABANDONED.popleft())

    @property
    def spark(self) -> SparkSession:
        """The session that everything runs on."""
        interrupts.cancel_jobs()
        return self.once("session", self._session)

    @property
    def frames(self) -> Frames:
        """All tables as DataFrames."""
        return self.once("frames", lambda: Frames(self))

    @property
    def is_stream(self) -> bool:
        """Whether the records are a stream, of which there are no tables as of a moment."""
        return isinstance(self.source, FrameInput) and self.source.raw.isStreaming

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
    def has_group_records(self) -> bool:
        """Whether the input has any record of the topic of group records."""
        records = self.raw_of(GROUP_TOPIC).where(F.col("topic").endswith(GROUP_TOPIC))
        return bool(records.select("topic").limit(1).toArrow().num_rows)

    def then(self, as_of: Moment) -> SparkReading:
        """The same records as of another moment."""
        other = SparkReading(self.source, as_of, self.choice, self.over, self.spark, self._cache)
        if self._caches:
            other.once("whole", lambda: self._whole_records)
            other._kept_by = self  # else they would leave the cache with this reading
        return other

    def whole(self) -> SparkReading:
        """A reading of all groups as of now."""
        if self.as_of is None and not self.choice.groups:
            return self
        every = self.choice.everything()
        return SparkReading(self.source, choice=every, spark=self.spark, cache=self._cache)

    def reconcile(self, described: pa.Table | None, true: bool) -> pa.Table:
        """The lag in several ways."""
        config = getattr(self.source, "config", None)
        reported = None if described is None else frame_of(self.spark, described.cast(DESCRIBED))
        scanned = self._scanned(config) if true and config is not None else None
        found = answers.reconcile(self.frames.lag, reported, scanned)
        return collected(found, RECONCILED).sort_by(ORDER)

    # ---- the past --------------------------------------------------------------------------------

    def history(
        self, since: datetime | None = None, most: int | None = None, group: str | None = None
    ) -> Rows:
        """The state after each record; of too many rows the latest."""

        def latest(mine: TaskRecords) -> Iterator[tuple[str, schemas.Arrow]]:
            kept, total = schemas.HISTORY.empty_table(), 0
            for part in states.histories(mine):
                rows = as_table(_since(part, since))
                total += len(rows)
                kept = _latest_of(pa.concat_tables([kept, rows]), most)
            yield "history", kept
            yield "total", pa.table([[total]], _TOTAL)

        found = collected(self._chosen_topics(self._records_of(group=group)).find(latest), FOUND)
        rows = _latest_of(unpack_table(found, "history", schemas.HISTORY), most)
        total = pc.sum(unpack_table(found, "total", _TOTAL).column("total")).as_py() or 0
        order = [*ORDER, ("record_offset", "ascending")]
        return Rows(named(rows, self.table("offsets")).sort_by(order), total)

    def history_tables(self, since: datetime | None = None) -> Iterator[pa.Table]:
        """All rows of the history, one task's after another."""
        order = [name for name, _ in ORDER]
        for batch in streamed(self.history_frame(since).orderBy(*order, "record_offset"), _HISTORY):
            yield pa.Table.from_batches([batch])

    def history_frame(self, since: datetime | None = None, group: str | None = None) -> DataFrame:
        """The whole history from a time on, of one group or all, with the topics' names beside."""

        def history_task(mine: TaskRecords) -> Iterator[pa.RecordBatch]:
            for part in states.histories(mine):
                yield _since(part, since)

        return self._named(self._records_of(group=group).map(history_task, schemas.HISTORY))

    def history_rows(self) -> DataFrame:
        """The whole history of the chosen groups."""
        return self._records_of().map(states.histories, schemas.HISTORY)

    def over_history(self, each: Each, schema: pa.Schema, keys: pa.Table | None = None) -> pa.Table:
        """Apply a function to the history of share partitions in the tasks that replay it."""
        summarize = states.summarize(each, schema)
        found = self._records_of(keys).find(lambda mine: [("found", summarize(mine))])
        return unpack_table(collected(found, FOUND), "found", schema)

    def timeline_frame(self, each: Each, group: str | None = None) -> DataFrame:
        """Return `sharelag.schemas.TIMELINE`, computed by ``each`` from the history."""

        def timeline_task(mine: TaskRecords) -> Iterator[pa.RecordBatch]:
            for part in states.histories(mine):
                yield one_batch(each(part))

        frame = self._records_of(group=group).map(timeline_task, schemas.TIMELINE)
        return self._named(frame).select(schemas.TIMELINE.names)

    def over_records(self, each: Each, schema: pa.Schema, keys: pa.Table) -> pa.Table:
        """Apply a function to all records of share partitions in the tasks that have them."""
        return collected(self._records_of(keys).map_share_partitions(each, schema), schema)

    def windows_at(self, keys: pa.Table, moments: Sequence[int] | int) -> pa.Table:
        """The windows of some share partitions at moments of the past.

        Where only their number is given, the records are read twice: for their times first.
        """
        records = self._records_of(keys)
        at = moments
        if isinstance(moments, int):
            found = collected(records.find(_find_times), FOUND)
            times = unpack_table(found, "times", _TIMES).column("time")
            at = evenly_spaced(np.unique(times.to_numpy()), moments)
        each = partial(replay_at, moments=np.array(at, np.int64))
        order = ("as_of", "group_id", "topic_id", "partition")
        table = collected(records.map_share_partitions(each, WINDOWS_AT), WINDOWS_AT)
        return table.sort_by([(name, "ascending") for name in order])

    # ---- dead letters ----------------------------------------------------------------------------

    def ledger(self, asked: OfQueue, most: int) -> Ledger:
        """Compare archived offsets with the records of a dead-letter queue, in the tasks."""

        def sum_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            given = [as_table(batch).cast(LEDGER, safe=False) for batch in batches]
            rows = pa.concat_tables([LEDGER.empty_table(), *given])
            yield pack_table("rows", first_of(rows, most))
            yield pack_table("sums", sums_of(rows))

        found = collected(map_in_arrow(self.ledger_frame(asked), sum_task, FOUND), FOUND)
        sums = unpack_table(found, "sums", SUMS).group_by(["status", "reason"])
        whole = sums.aggregate([("offsets", "sum"), ("rows", "sum")]).rename_columns(SUMS.names)
        return Ledger(first_of(unpack_table(found, "rows", LEDGER), most), whole.cast(SUMS))

    def ledger_frame(self, asked: OfQueue) -> DataFrame:
        """The whole ledger of a dead-letter queue."""
        records = self._records_of(asked.lag)
        archived = records.map_share_partitions(archived_arrow, ARCHIVED_RUNS)
        names = topic_ids_of(asked.lag)
        letters = dead_letters.letters(self.spark, asked.queue, names, asked.groups)
        lag, now = frame_of(self.spark, asked.lag), milliseconds(self.now)
        return dead_letters.ledger(archived, letters, lag, asked.limits, now)

    def close(self) -> None:
        """Take what is kept out of Spark's cache."""
        _unpersist(self._kept)

    # ---- records ---------------------------------------------------------------------------------

    def raw_of(self, topic: str) -> DataFrame:
        """Raw records of a topic; others may be among them."""
        topic = STATE_TOPIC if self.source.holds_both else topic
        return self.once(("raw", topic), lambda: self.source.frame(self.spark, topic))

    def _records_of(self, keys: pa.Table | None = None, group: str | None = None) -> Records:
        """Return the chosen records of some share partitions or of one group, or all of them."""
        found = self._chosen(_only(self._whole_records, STATE_TOPIC))
        if group is not None:
            found = found.where(partial(filter_groups, groups=frozenset([group])))
        return found if keys is None else found.where(partial(rows_of, wanted=keys))

    def _chosen(self, records: Records) -> Records:
        groups = self.choice.groups
        found = records.written_by(self.as_of)
        return found.where(partial(filter_groups, groups=groups)) if groups else found

    def _chosen_topics(self, records: Records) -> Records:
        """Return the records of the chosen topics, by name, or id where the name is not known."""
        if not self.choice.topics:
            return records
        ends = self.table("offsets")
        known = dict(zip(*(ends.column(n).to_pylist() for n in ("topic_id", "topic")), strict=True))
        return records.where(partial(_of_topics, choice=self.choice, names=known))

    @property
    def _caches(self) -> bool:
        return self._cache or not self.source.rereadable

    @property
    def _whole_records(self) -> Records:
        """The records of the state topic, and if they come together those of the groups'."""
        return self.once("whole", self._keep_records if self._caches else self._read_records)

    def _read_records(self, topic: str = STATE_TOPIC) -> Records:
        """Return records where tasks can read them best."""

        def found() -> Records:
            generation = self.choice.generation
            files = files_in_reach(self.spark, self.source, topic)
            if files is not None:
                return Records(Files(self.spark, plan(files, topic)), (topic,), generation)
            both = (STATE_TOPIC, GROUP_TOPIC) if self.source.holds_both else (topic,)
            return Records(self.raw_of(topic), both, generation)

        return self.once(("records", topic), found)

    def _keep_records(self) -> Records:
        read = self._read_records()
        return Records(self._keep(read.pack()), read.topics, read.generation, packed=True)

    def _keep(self, frame: DataFrame) -> DataFrame:
        """Keep a DataFrame in Spark's cache, if it has one."""
        try:
            self._kept.append(frame.persist())
        except PySparkException as error:  # serverless services have none
            _LOG.warning(
                "Spark keeps nothing in a cache here, so records are read once for each answer "
                "(%s)", first_line(error).rstrip("."),
            )  # fmt: skip
        return frame

    # ---- passes ----------------------------------------------------------------------------------

    def _states(self, whole: bool = False) -> _Pass:
        """Return what one pass found of states.

        Parameters
        ----------
        whole : bool
            Also find what most answers need of the history, and the members, where that can be
            done in the same pass.
        """
        return self.once("states", lambda: self._find_states(whole))

    def _find_states(self, whole: bool) -> _Pass:
        records = self._whole_records if whole or self._cache else self._first_records
        until = self._known_end() if whole else None
        is_time = self.as_of is None or isinstance(self.as_of, datetime)
        with_members = whole and is_time and GROUP_TOPIC in records.topics
        find = partial(_find, until=until, over=self.over, with_members=with_members)
        records = records if with_members else _only(records, STATE_TOPIC)
        return _Pass(collected(self._chosen(records).find(find), FOUND), until, with_members)

    @property
    def _first_records(self) -> Records:
        """The records for windows alone: of a cluster, unless they are in Spark's cache already."""
        source = self.source
        if not isinstance(source, KafkaInput) or "whole" in self.once:
            return self._whole_records
        logs = Logs(self.spark, source.config, STATE_TOPIC, source.state_ranges)
        return Records(logs, generation=self.choice.generation)

    def _known_end(self) -> datetime | None:
        """Return the moment of the end offsets, where it is known before they are read."""
        if isinstance(self.as_of, datetime):
            return self.as_of
        known = getattr(self.source, "latest_end", None)
        return None if known is None or self.as_of is not None else known()

    def _read_ahead(self) -> None:
        self._refuse_stream("evidence")
        self._states(whole=True)
        self.once("rest", self._find_rest)

    def _find_rest(self) -> _Pass:
        """Find together what the first pass was not asked for, where it was asked for less."""
        done, records = self._states(), self._whole_records
        is_time = self.as_of is None or isinstance(self.as_of, datetime)
        with_members = not done.with_members and is_time and GROUP_TOPIC in records.topics
        until = None if done.until == self.now else self.now
        if until is None and not with_members:
            return done
        find = partial(_find_beside, until=until, over=self.over, with_members=with_members)
        records = records if with_members else _only(records, STATE_TOPIC)
        return _Pass(collected(self._chosen(records).find(find), FOUND), until, with_members)

    def _sorted(self, name: str) -> pa.Table:
        self._refuse_stream(name)
        together = self.source.holds_both and GROUP_TOPIC in self._whole_records.topics
        if name == "observed" or (name in ("members", "groups") and together):
            self._read_ahead()
        return super()._sorted(name)

    def _refuse_stream(self, name: str) -> None:
        if self.is_stream:
            raise InputError(
                f"the records are a stream, which has no {name} as of one moment: use "
                "frames.windows and frames.lag with writeStream, sharelag.stream.watch for both "
                "as of now, or open a table of the records"
            )

    def _compute(self, name: str) -> schemas.Arrow:
        if name == "windows":
            return unpack_table(self._states().found, name, schemas.WINDOWS)
        if name == "gaps":
            return unpack_table(self._states().found, name, schemas.GAPS)
        if name == "lag":
            return self.choice.of(as_table(lag_arrow(self.table("windows"), self.table("offsets"))))
        if name == "observed":
            done = self._states()
            done = done if done.until == self.now else self.once("rest", self._find_rest)
            return unpack_table(done.found, name, schemas.OBSERVED)
        if name == "snapshots":
            return self.over_history(snapshots_arrow, schemas.SNAPSHOTS)
        if name == "health":
            partitions = self.source.partitions(STATE_TOPIC)
            records = _only(self._whole_records, STATE_TOPIC)
            return collected(answers.health(records, partitions), schemas.HEALTH)
        if name == "members":
            return unpack_table(self._membership, name, schemas.MEMBERS)
        if name == "groups":
            return chosen_partitions(
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
            records = _only(records, GROUP_TOPIC)
            # Offsets of the state topic say nothing of the groups' topic: its records have times.
            moment = self.now if self.as_of is not None else None
            records = records.written_by(moment)
            if groups := self.choice.groups:
                records = records.where(partial(filter_groups, groups=groups))
            return collected(records.find(membership.find_membership), FOUND)

        for done in ("states", "rest"):
            if done in self.once and self.once(done, self._find_rest).with_members:
                return self.once(done, self._find_rest).found
        return self.once("membership", find)

    def _positions(self) -> Positions | None:
        found = self._first_records.source
        if isinstance(found, DataFrame) or (isinstance(found, Files) and not found.plan.whole):
            return None
        rows = collected(states.positions(found), FOUND)
        counted = unpack_table(rows, "counted", states.COUNTED)
        rejected, repeated = (
            pc.sum(counted.column(name)).as_py() or 0 for name in ("rejected", "repeated")
        )
        order = [(name, "ascending") for name in _SHARE_PARTITION]
        table = unpack_table(rows, "positions", POSITIONS).sort_by(order)
        return Positions(one_batch(table), rejected, repeated)

    # ---- behind it -------------------------------------------------------------------------------

    def _named(self, frame: DataFrame) -> DataFrame:
        """Rows of the chosen topics with their names beside, null where those are not known."""
        names = (
            self.table("offsets")
            .select(["topic_id", "topic"])
            .group_by(["topic_id", "topic"])
            .aggregate([])
        )
        known = F.broadcast(frame_of(self.spark, names))
        columns = [name for name in frame.columns if name != "topic"]
        joined = frame.select(columns).join(known, "topic_id", "left")
        return self.frames.of_chosen_topics(joined.select(*columns, "topic"))

    def _session(self) -> SparkSession:
        if self._spark is None and isinstance(self.source, FrameInput):
            return self.source.raw.sparkSession
        return self._spark or session()

    def _scanned(self, config: ClientConfig) -> DataFrame:
        """The backlog counted, each topic partition once, in the tasks."""
        offsets = self.table("offsets")

        def scan_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            found = [batch for batch in batches if batch.num_rows]
            if found:
                windows = (
                    pa.Table.from_batches(found).select(schemas.WINDOWS.names).cast(schemas.WINDOWS)
                )
                yield for_spark(one_batch(scan(config, windows, offsets)), SCANNED)

        together = self._named(self.frames.windows).repartition("topic_id", "partition")
        return map_in_arrow(together, scan_task, SCANNED)


def _find(
    mine: TaskRecords, until: datetime | None, over: timedelta, with_members: bool
) -> Iterator[tuple[str, schemas.Arrow]]:
    """Return states, and if asked the observed history and the members, of what one task has."""
    yield from states.find_states(mine)
    yield from _find_beside(mine, until, over, with_members)


def _find_beside(
    mine: TaskRecords, until: datetime | None, over: timedelta, with_members: bool
) -> Iterator[tuple[str, schemas.Arrow]]:
    if until is not None:
        each = partial(observe, end=until, over=over)
        yield "observed", states.summarize(each, schemas.OBSERVED)(mine)
    if with_members:
        yield from membership.find_membership(mine)


def _only(records: Records, topic: str) -> Records:
    """Return the records of one topic, where they have not been packed together."""
    return records if records.packed else replace(records, topics=(topic,))


def _find_times(mine: TaskRecords) -> Iterator[tuple[str, schemas.Arrow]]:
    times = [one.column("timestamp").drop_null().view(pa.int64()) for one in mine.decode()]
    yield "times", pa.table([pc.unique(pa.chunked_array(times, pa.int64()))], _TIMES)


def _since(history: pa.RecordBatch, since: datetime | None) -> pa.RecordBatch:
    if since is None:
        return history
    return history.filter(pc.greater_equal(history.column("record_timestamp"), pa.scalar(since)))


def _latest_of(rows: pa.Table, most: int | None) -> pa.Table:
    if most is None or len(rows) <= most:
        return rows
    order = [("record_timestamp", "descending"), ("record_offset", "descending")]
    return rows.sort_by(order).slice(0, most)


def _of_topics(records: pa.RecordBatch, choice: Choice, names: dict[str, str]) -> pa.RecordBatch:
    ids = records.column("topic_id").dictionary_encode()
    known = pa.array([names.get(one) for one in ids.dictionary.to_pylist()], pa.string())
    rows = as_table(records).append_column("_name", known.take(ids.indices))
    return one_batch(choice.of(rows, "_name").drop_columns("_name"))


def _unpersist(kept: list[DataFrame]) -> None:
    while kept:
        # Connect analyzes a DataFrame again to release it, which fails where its files are gone.
        with suppress(AnalysisException):
            kept.pop().unpersist()
