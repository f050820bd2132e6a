"""A reading of an input on Spark: tasks read the records and return what they found.

Each pass over the records returns several tables with a row per share partition, group or state
partition. These tables are then in this process, on either engine; long ones, such as a history,
stay DataFrames. `Frames` has all of them as DataFrames by name, also for SQL.
"""

from __future__ import annotations

import logging
import re
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from sharelag import schemas
from sharelag.engine import (
    HISTORY_ORDER,
    OVER,
    Each,
    GroupRecordCounts,
    Ledger,
    Once,
    Reading,
    RecordCounts,
    Rows,
    add_topic_names,
    from_time,
    latest,
    rows_of,
)
from sharelag.engine.spark import answers
from sharelag.engine.spark.answers import Decoded, decode, select_records
from sharelag.engine.spark.packing import FOUND, collect, pack_table, stream_rows, unpack_table
from sharelag.engine.spark.tasks import Files, Logs, Parts, Records, TaskRecords
from sharelag.errors import InputError, SetupError, first_line
from sharelag.inputs import Input, KafkaInput
from sharelag.inputs.files.pieces import plan
from sharelag.inputs.kafka.config import ClientConfig
from sharelag.inputs.kafka.records import scan
from sharelag.inputs.spark import java, session
from sharelag.inputs.spark.files import files_in_reach
from sharelag.inputs.spark.frames import FrameInput, frame_of
from sharelag.inputs.spark.sessions import MERGES_CACHED, has_stopped, set_meanwhile
from sharelag.inputs.spark.workers import explain_failures, map_in_arrow
from sharelag.metrics.columns import evenly_spaced
from sharelag.metrics.dead_letters import SUMS, archived_arrow, first_of, sums_of, topic_ids_of
from sharelag.metrics.health import snapshots_arrow
from sharelag.model import milliseconds
from sharelag.replay.moment import Choice, Moment, filter_groups
from sharelag.replay.state import DELETED, WINDOWS_AT, WINDOWS_ORDER, replay_at
from sharelag.tables.arrow import as_table, for_spark, keys, one_batch
from sharelag.tables.declared import answers as of_answers
from sharelag.tables.declared import groups, lag, records, windows
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC

if TYPE_CHECKING:
    from sharelag.engine import OfQueue

_LOG = logging.getLogger(__name__)
#: DataFrames in Spark's cache of readings that were garbage-collected. A finalizer may run in any
#: thread, so it must not call Spark.
_ABANDONED: deque[list[DataFrame]] = deque()


class Pass(NamedTuple):
    """The tables found by one pass over the records."""

    found: pa.Table  # FOUND
    until: datetime | None = None  # end of the observed history; None: not observed
    with_members: bool = False


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


class SparkReading(Reading):
    """The tables of an input from Spark: by default on the active session, or one for this machine.

    With ``cache``, raw records are kept compressed in Spark's cache after they were read. Those of
    a cluster are cached in any case if more than the windows is needed: it may have pruned some
    before a second reading.
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
        self._of_session = Once()
        self._kept_by: SparkReading | None = None
        self._kept: list[DataFrame] = []
        weakref.finalize(self, _ABANDONED.append, self._kept)
        while _ABANDONED:
            _unpersist(_ABANDONED.popleft())

    @property
    def spark(self) -> SparkSession:
        """The Spark session."""
        java.cancel_jobs()
        return self.of_session("session", self._session)

    @property
    def of_session(self) -> Once:
        """Values that belong to the session, each computed once; empty after it has stopped."""
        made = self._of_session
        if "session" in made and has_stopped(made("session", self._session)):
            self._of_session = Once()
        return self._of_session

    @property
    def is_stream(self) -> bool:
        """Whether the records are a stream, which has no tables as of a moment."""
        return isinstance(self.source, FrameInput) and self.source.raw.isStreaming

    def close(self) -> None:
        _unpersist(self._kept)

    def _session(self) -> SparkSession:
        given = self._spark
        if given is None and isinstance(self.source, FrameInput):
            given = self.source.raw.sparkSession
        if given is not None and has_stopped(given):
            raise SetupError(
                "the Spark session of this workbench was stopped: open it again, with DataFrames "
                "or spark= of a running session"
            )
        return given or session()

    # ---- records ---------------------------------------------------------------------------------

    def raw_of(self, topic: str) -> DataFrame:
        """Raw records of a topic, possibly among others."""
        topic = STATE_TOPIC if self.source.holds_both else topic
        return self.of_session(("raw", topic), lambda: self.source.frame(self.spark, topic))

    def _records_of(self, keys: pa.Table | None = None, group: str | None = None) -> Records:
        found = self._chosen(self._whole_records.only(STATE_TOPIC))
        if group is not None:
            found = found.where(partial(filter_groups, groups=frozenset([group])))
        return found if keys is None else found.where(partial(rows_of, places=keys))

    def _chosen(self, records: Records) -> Records:
        groups = self.choice.groups
        found = records.written_by(self.as_of)
        return found.where(partial(filter_groups, groups=groups)) if groups else found

    def _chosen_topics(self, records: Records) -> Records:
        """Return the records of the chosen topics, by name, or by id if the name is unknown."""
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
        """The records of the state topic, with those of the groups if they come together."""
        return self.of_session("whole", self._keep_records if self._caches else self._read_records)

    def _read_records(self, topic: str = STATE_TOPIC) -> Records:
        """Return records in the form that tasks read fastest."""

        def found() -> Records:
            files = files_in_reach(self.spark, self.source, topic)
            if files is not None:
                with explain_failures():  # an archive may have replaced files since the listing
                    planned = plan(files, topic)
                return self._as_read(Records(Files(self.spark, planned), (topic,)))
            both = (STATE_TOPIC, GROUP_TOPIC) if self.source.holds_both else (topic,)
            return self._as_read(Records(self.raw_of(topic), both))

        return self.of_session(("records", topic), found)

    def _as_read(self, records: Records) -> Records:
        """Return records with the functions that read this input."""
        version = self.source.kafka_version
        return replace(records, generation=self.choice.generation, kafka_version=version)

    def _keep_records(self) -> Records:
        read = self._read_records()
        packed = read.pack()
        try:
            merges = self.spark.conf.get(MERGES_CACHED, None) or "true"
            with set_meanwhile(self.spark, MERGES_CACHED, merges):
                self._kept.append(packed.persist())
        except PySparkException as error:  # serverless services have no cache
            _LOG.warning(
                "Spark has no cache here, so records are read again for each answer "
                "(%s)", first_line(error).rstrip("."),
            )  # fmt: skip
        return replace(read, source=packed, packed=True)

    def _states(self, whole: bool = False) -> Pass:
        """Return the result of one pass over states.

        With ``whole`` it includes what most answers need of the history, and the members if the
        same pass can find them.
        """

        def find() -> Pass:
            records = self._whole_records if whole or self._cache else self._first_records
            until = self._known_end() if whole else None
            # Answers name missing states, by the initialized topics of groups.
            with_members = whole or "groups" in self.source.may_lack
            return self._pass(records, True, until, with_members and self._finds_members)

        return self.once("states", find)

    @property
    def _finds_members(self) -> bool:
        """Whether the moment is a time, so that one pass finds states and members up to it."""
        is_time = self.as_of is None or isinstance(self.as_of, datetime)
        return is_time and GROUP_TOPIC in self._whole_records.topics

    def _pass(
        self, records: Records, with_states: bool, until: datetime | None, with_members: bool
    ) -> Pass:
        records = self._chosen(records if with_members else records.only(STATE_TOPIC))
        find = partial(answers.find, with_states=with_states, until=until, over=self.over)
        found = records.find(partial(find, with_members=with_members))
        return Pass(collect(found, FOUND), until, with_members)

    @property
    def _first_records(self) -> Records:
        """The records for windows alone: from the cluster, unless they are in Spark's cache."""
        source = self.source
        if not isinstance(source, KafkaInput) or "whole" in self.of_session:
            return self._whole_records
        logs = Logs(self.spark, source.config, {STATE_TOPIC: source.state_ranges})
        return self._as_read(Records(logs))

    def _known_end(self) -> datetime | None:
        """Return the moment of the end offsets if it is known before they are read."""
        if isinstance(self.as_of, datetime):
            return self.as_of
        return self.source.as_of() if self.as_of is None else None

    def _refuse_stream(self, name: str) -> None:
        if self.is_stream:
            raise InputError(
                f"the records are a stream, which has no {name} as of one moment: use "
                "frames.windows and frames.lag with writeStream, sharelag.stream.watch for both "
                "as of now, or open a table of the records"
            )

    def read_ahead(self) -> None:
        self._refuse_stream("evidence")
        self._states(whole=True)
        self._rest()

    def _rest(self) -> Pass:
        """Return what the first pass left out, if it was only for the lag, from a single pass."""

        def find() -> Pass:
            done = self._states()
            with_members = self._finds_members and not done.with_members
            until = None if done.until == self.now else self.now
            if until is None and not with_members:
                return done
            return self._pass(self._whole_records, False, until, with_members)

        return self.once("rest", find)

    @property
    def frames(self) -> Frames:
        """All tables as DataFrames."""
        return self.once("frames", lambda: Frames(self))

    @property
    def record_counts(self) -> RecordCounts:
        rows = unpack_table(self._states().found, "counted", answers.COUNTED)
        records, rejected, repeated = (
            pc.sum(rows.column(name)).as_py() or 0 for name in ("records", "rejected", "repeated")
        )
        first, last = pc.min(rows.column("first")).as_py(), pc.max(rows.column("last")).as_py()
        return RecordCounts(records, rejected, first, last, repeated)

    @property
    def group_record_counts(self) -> GroupRecordCounts:
        rows = unpack_table(self._membership, "counted groups", answers.COUNTED_GROUPS)
        records, rejected = (pc.sum(rows.column(n)).as_py() or 0 for n in ("records", "rejected"))
        deleted = pc.list_flatten(rows.column("deleted"))
        return GroupRecordCounts(records, rejected, frozenset(deleted.to_pylist()))

    @property
    def has_group_records(self) -> bool:
        records = self.raw_of(GROUP_TOPIC).where(F.col("topic").endswith(GROUP_TOPIC))
        return bool(records.select("topic").limit(1).toArrow().num_rows)

    def then(self, as_of: Moment) -> SparkReading:
        other = SparkReading(self.source, as_of, self.choice, self.over, self.spark, self._cache)
        if self._caches:
            other.of_session("whole", lambda: self._whole_records)
            other._kept_by = self  # otherwise they would leave the cache with this reading
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
        order = [name for name, _ in HISTORY_ORDER]
        for batch in stream_rows(self.history_frame(since).orderBy(*order), _HISTORY):
            yield pa.Table.from_batches([batch])

    def history_frame(self, since: datetime | None = None, group: str | None = None) -> DataFrame:
        """Return the history since a time, of one group or all, with topic names."""
        records, each = self._records_of(group=group), partial(from_time, since=since)
        return self._add_names(records.map_parts(TaskRecords.histories, each, schemas.HISTORY))

    def history_rows(self) -> DataFrame:
        """Return the whole history of the chosen groups."""
        return self._records_of().map(TaskRecords.histories, schemas.HISTORY)

    def over_history(self, each: Each, schema: pa.Schema, keys: pa.Table | None = None) -> pa.Table:
        def pack(part: pa.RecordBatch) -> pa.RecordBatch:
            return pack_table("found", as_table(each(part)).cast(schema))

        found = self._over(TaskRecords.histories, pack, FOUND, keys)
        return unpack_table(collect(found, FOUND), "found", schema)

    @property
    def has_former_states(self) -> bool:
        """Return whether a share partition has several states, deleted ones included."""
        both = [self.table(name).select(schemas.SHARE_PARTITION) for name in ("windows", "deleted")]
        each = keys(pa.concat_tables(both), schemas.SHARE_PARTITION)
        return len(pc.unique(each)) < len(each)

    def _over(self, parts: Parts, each: Each, schema: pa.Schema, *chosen: Any) -> DataFrame:
        """Apply a function to all states of some share partitions at a time."""
        together = self.record_counts.records if self.has_former_states else 0
        return self._records_of(*chosen).map_parts(parts, each, schema, together)

    def timeline_frame(self, each: Each, group: str | None = None) -> DataFrame:
        """Return `sharelag.schemas.TIMELINE`, computed by ``each`` from the history."""
        frame = self._over(TaskRecords.histories, each, schemas.TIMELINE, None, group)
        return self._add_names(frame).select(schemas.TIMELINE.names)

    def over_records(self, each: Each, schema: pa.Schema, keys: pa.Table) -> pa.Table:
        return collect(self._over(TaskRecords.share_partitions, each, schema, keys), schema)

    def windows_at(self, keys: pa.Table, moments: Sequence[int] | int) -> pa.Table:
        """Return the windows of some share partitions at past moments.

        With only a number of moments, the records are read twice: first for their times.
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

    def ledger(self, given: OfQueue, most: int, statuses: tuple[str, ...] = ()) -> Ledger:
        def sum_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            given = [as_table(batch).cast(schemas.LEDGER, safe=False) for batch in batches]
            rows = pa.concat_tables([schemas.LEDGER.empty_table(), *given])
            yield pack_table("rows", first_of(rows, most, statuses))
            yield pack_table("sums", sums_of(rows))

        found = collect(map_in_arrow(self.ledger_frame(given), sum_task, FOUND), FOUND)
        sums = unpack_table(found, "sums", SUMS).group_by(["status", "reason"])
        whole = sums.aggregate([("offsets", "sum"), ("rows", "sum")]).rename_columns(SUMS.names)
        return Ledger(first_of(unpack_table(found, "rows", schemas.LEDGER), most), whole.cast(SUMS))

    def ledger_frame(self, given: OfQueue) -> DataFrame:
        """Return the whole ledger of a dead-letter queue."""
        parts, runs = TaskRecords.share_partitions, schemas.ARCHIVED_RUNS
        archived = self._over(parts, archived_arrow, runs, given.lag)
        names = topic_ids_of(given.lag)
        letters = answers.letters(self.spark, given.queue, names, given.groups)
        lag, now = frame_of(self.spark, given.lag), milliseconds(self.now)
        return answers.ledger(archived, letters, lag, given.limits, now)

    def _compute_sorted(self, name: str) -> pa.Table:
        self._refuse_stream(name)
        together = self.source.holds_both and GROUP_TOPIC in self._whole_records.topics
        is_apart = together and not ("states" in self.once and self._states().with_members)
        if name == "observed" or (name in ("members", "groups") and is_apart):
            self.read_ahead()
        return super()._compute_sorted(name)

    def _compute(self, name: str) -> schemas.Arrow:
        if name in ("windows", "deleted", "gaps"):
            schema = DELETED if name == "deleted" else getattr(schemas, name.upper())
            return unpack_table(self._states().found, name, schema)
        if name == "observed":
            done = self._states()
            done = done if done.until == self.now else self._rest()
            return unpack_table(done.found, name, schemas.OBSERVED)
        if name == "snapshots":
            return self.over_history(snapshots_arrow, schemas.SNAPSHOTS)
        if name == "health":
            partitions = self.source.partitions(STATE_TOPIC)
            records = self._whole_records.only(STATE_TOPIC)
            return collect(answers.health(records, partitions), schemas.HEALTH)
        if name in ("members", "groups"):
            return unpack_table(self._membership, name, getattr(schemas, name.upper()))
        raise ValueError(f"unknown table {name!r}")

    @property
    def _membership(self) -> pa.Table:
        def find() -> pa.Table:
            if self.group_records_refused is not None:
                return FOUND.empty_table()
            records = self._whole_records
            if GROUP_TOPIC not in records.topics:
                records = self._read_records(GROUP_TOPIC)
            records = records.only(GROUP_TOPIC)
            # Offsets of the state topic do not apply to the groups' topic, but times do.
            moment = self.now if self.as_of is not None else None
            records = records.written_by(moment)
            if groups := self.choice.groups:
                records = records.where(partial(filter_groups, groups=groups))
            return collect(records.find(answers.find_membership), FOUND)

        passes = {"states": self._states, "rest": self._rest}
        for done in (found() for name, found in passes.items() if name in self.once):
            if done.with_members:
                return done.found
        return self.once("membership", find)

    # ---- internals -------------------------------------------------------------------------------

    def _add_names(self, frame: DataFrame) -> DataFrame:
        """Return rows of the chosen topics with topic names; null if unknown."""
        names = self.table("offsets").group_by(["topic_id", "topic"]).aggregate([])
        known = F.broadcast(frame_of(self.spark, names))
        columns = [name for name in frame.columns if name != "topic"]
        joined = frame.select(columns).join(known, "topic_id", "left")
        name, place = F.col("topic"), F.col("record_topic")
        if "record_topic" in columns:  # the topic itself has control records of states
            name = F.coalesce(name, F.when(~place.endswith(STATE_TOPIC), place)).alias("topic")
        return self.frames.of_chosen_topics(joined.select(*columns, name))

    def _scan(self, config: ClientConfig) -> pa.Table:
        # Deduplicate topic partitions in the tasks.
        offsets = self.table("offsets")

        def scan_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            found = [batch for batch in batches if batch.num_rows]
            if found:
                rows = pa.Table.from_batches(found).select(schemas.WINDOWS.names)
                counts = scan(config, rows.cast(schemas.WINDOWS), offsets)
                yield for_spark(one_batch(counts), schemas.SCANNED)

        states = self._add_names(frame_of(self.spark, self.table("states")))
        together = states.repartition("topic_id", "partition")
        return collect(map_in_arrow(together, scan_task, schemas.SCANNED), schemas.SCANNED)


def _find_times(mine: TaskRecords) -> Iterator[tuple[str, schemas.Arrow]]:
    decoded = mine.raw.apply(lambda _: [one.select(["timestamp"]) for one in mine.decode()])
    times = [one.column("timestamp").drop_null().view(pa.int64()) for one in decoded]
    yield "times", pa.table([pc.unique(pa.chunked_array(times, pa.int64()))], _TIMES)


def _of_topics(records: pa.RecordBatch, choice: Choice, names: dict[str, str]) -> pa.RecordBatch:
    ids = records.column("topic_id").dictionary_encode()
    known = pa.array([names.get(one) for one in ids.dictionary.to_pylist()], pa.string())
    rows = as_table(records).append_column("_name", known.take(ids.indices))
    return one_batch(choice.of(rows, "_name").drop_columns("_name"))


def _unpersist(kept: list[DataFrame]) -> None:
    while kept:
        frame = kept.pop()
        # Connect analyzes a DataFrame again to release it: its files or the server may be gone.
        with suppress(AnalysisException, SetupError):
            if not has_stopped(frame.sparkSession):
                frame.unpersist()


class Frames:
    """The tables of `TABLES` by name as DataFrames, created on first use.

    ``raw records rejects history group_records`` are lazy: each use reads the raw records again.
    The others have one row per share partition, topic partition or similar. They are computed on
    first use, the windows before the end offsets so that lag is never negative, and stay in this
    process. They cover the selected groups and the moment, except ``raw rejects gaps health``,
    which cover the whole input, and ``group_records``, which cover all times. Topics are selected
    only in ``lag progress imbalance``, because their names come from the offsets.
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
        """Lag and its terms in Kafka (`BRIEF_LAG`); one row is a share partition."""
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
        """Run a query in which these tables are available by name.

        Parameters
        ----------
        query : str
            A ``SELECT``, with or without its own ``WITH``. It can join other tables and views of
            the session; a view with the same name as one of these is hidden, but not changed.
        args : dict or list, optional
            Values of its parameters, as for ``SparkSession.sql``.

        Raises
        ------
        InputError
            The query names an unknown table or column, or cannot be parsed.
        """
        named = [name for name in TABLES if re.search(rf"\b{name}\b", query, re.IGNORECASE)]
        given = {f"sharelag_{name}": getattr(self, name) for name in named}
        # The query only contains names of these tables, for which Spark substitutes DataFrames.
        view = "{0} AS (SELECT * FROM {{sharelag_{0}}})"
        views = ", ".join(view.format(name) for name in named)
        text = query.strip().rstrip(";")
        if named:
            # Braces stand for DataFrames; the newline ends a comment at the end of the query.
            text = f"WITH {views} (\n{text.replace('{', '{{').replace('}', '}}')}\n)"
        try:
            return self._reading.spark.sql(text, args=args, **given)
        except AnalysisException as error:  # also for queries that cannot be parsed
            message = first_line(error).rstrip(".")
            raise InputError(f"{message}; the tables here are {', '.join(TABLES)}") from error

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

    # ---- internals -------------------------------------------------------------------------------

    def of_chosen_topics(self, frame: DataFrame) -> DataFrame:
        """Return the rows of the chosen topics, by name, or by id if the name is unknown."""
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
