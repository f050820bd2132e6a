"""A reading in this process: records stream through the kernels, superseded ones are dropped."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.engine import (
    HISTORY_ORDER,
    OVER,
    Each,
    GroupRecordCounts,
    Ledger,
    Reading,
    RecordCounts,
    Rows,
    add_topic_names,
    from_time,
    latest,
    rows_of,
)
from sharelag.inputs import Input
from sharelag.model import milliseconds
from sharelag.model.versions import Version
from sharelag.replay.columns import by_share_partition
from sharelag.replay.moment import Choice, Moment, filter_groups, up_to
from sharelag.replay.prepared import compile_beside
from sharelag.replay.repeats import EachOnce
from sharelag.replay.state import (
    Count,
    Latest,
    find_deleted,
    going_back,
    latest_windows,
    replay_arrow,
    replay_at,
)
from sharelag.tables.arrow import as_table, ascending, one_batch
from sharelag.wire.decode import Decoded, decode_arrow, of_state, of_topic
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC

if TYPE_CHECKING:
    from sharelag.engine import OfQueue
    from sharelag.inputs.kafka.config import ClientConfig
    from sharelag.replay.members import GroupLog

#: Maximum number of records that are held decoded, at 200 bytes each, for earlier moments.
KEPT = 1_000_000
#: Minimum number of records per replay step.
_STEP = 250_000


class StateTopic(NamedTuple):
    """The results of reading the state topic."""

    windows: pa.Table
    deleted: pa.RecordBatch
    record_counts: RecordCounts
    gaps: pa.Table
    history: pa.Table | None = None  # sorted by HISTORY_KEY; None: only windows were requested
    counts: pa.Table | None = None  # None: health was not requested


def state_records(source: Input, generation: int | None) -> EachOnce:
    """Return the raw records with share state, in log order, each once."""
    return EachOnce(lambda: (of_state(batch, generation) for batch in source.batches(STATE_TOPIC)))


def read_states(source: Input, as_of: Moment, choice: Choice) -> StateTopic:
    """Read only the windows."""
    chosen = partial(filter_groups, groups=choice.groups) if choice.groups else None
    until = None if as_of is None else partial(up_to, moment=as_of)
    raw = state_records(source, choice.generation)
    read = choice.generation, until, source.kafka_version
    found = raw.apply(lambda batches: latest_windows(batches, chosen, *read))
    windows = pa.Table.from_batches([found.windows])
    return StateTopic(windows, found.deleted, _count_records(found, raw), raw.gaps)


def _count_records(found: Latest | Count, raw: EachOnce) -> RecordCounts:
    times = pa.array([found.first, found.last], pa.int64()).view(schemas.TIMESTAMP).to_pylist()
    return RecordCounts(found.records, found.rejected, times[0], times[1], raw.repeated)


def read_whole(source: Input, as_of: Moment, choice: Choice, with_health: bool) -> StateTopic:
    """Read windows, history and gaps, and the counts of the topic if requested."""
    raw = state_records(source, choice.generation)
    version = source.kafka_version
    return raw.apply(lambda batches: _replay(batches, as_of, choice, with_health, version))


class Kept(NamedTuple):
    """All decoded records of the state topic, to be replayed up to any moment."""

    records: pa.RecordBatch
    record_counts: RecordCounts
    gaps: pa.Table
    goes_back: bool  # whether a record may be older than the one before: clocks are set back

    def up_to(
        self, as_of: datetime, groups: frozenset[str], version: Version, whole: pa.Table | None
    ) -> StateTopic:
        """Return the same as `read_whole`; ``whole`` is the history of all, if known."""
        from sharelag.replay.history import history_arrow

        records = up_to(filter_groups(self.records, groups), as_of)
        if whole is None or self.goes_back:
            history = pa.Table.from_batches([history_arrow(records, self.gaps)])
        else:  # the past of a moment does not depend on later records
            history = filter_groups(whole, groups).filter(pc.field("record_timestamp") <= as_of)
        times = self.records.column("timestamp")  # of all groups
        span = pc.min_max(times.filter(pc.less_equal(times, as_of))).as_py()
        counts = self.record_counts._replace(
            records=records.num_rows, first=span["min"], last=span["max"]
        )
        windows = pa.Table.from_batches([replay_arrow(records, version)])
        return StateTopic(windows, find_deleted(records), counts, self.gaps, history)


def keep_records(source: Input, generation: int | None) -> Kept:
    """Decode and hold all records of the state topic."""
    raw, count = state_records(source, generation), Count()
    read = partial(decode_arrow, topic=STATE_TOPIC, generation=generation)

    def decode(batches: EachOnce) -> list[Decoded]:
        return [read(batch, kafka_version=source.kafka_version) for batch in batches]

    found = raw.apply(decode)
    for one in found:
        count.add(one.records, one.rejects, one.records.column("timestamp"))
    records = one_batch(pa.Table.from_batches([one.records for one in found], schemas.RECORDS))
    return Kept(records, _count_records(count, raw), raw.gaps, _goes_back(records))


def _goes_back(records: pa.RecordBatch) -> bool:
    times = records.column("timestamp")
    if times.null_count or not records.num_rows:
        return bool(times.null_count)
    order, bounds = by_share_partition(records)
    return bool(going_back(times.view(pa.int64()).to_numpy()[order], bounds).any())


def _replay(
    raw: EachOnce, as_of: Moment, choice: Choice, with_health: bool, version: Version
) -> StateTopic:
    from sharelag.metrics.health import COUNTS, health_counts
    from sharelag.replay.history import HISTORY_KEY, next_history

    count, counts = Count(), [COUNTS.empty_table()]
    steps: list[pa.RecordBatch] = []
    known = None
    fresh: list[pa.RecordBatch] = []
    generation = choice.generation
    for chosen in raw:
        if with_health:
            counts.append(health_counts(chosen, generation, version))
        records, rejects, _ = decode_arrow(chosen, STATE_TOPIC, generation, version)
        written = up_to(records, as_of)
        fresh.append(filter_groups(written, choice.groups))
        count.add(fresh[-1], rejects, written.column("timestamp"))
        # Each step replays the known records again: wait for at least as many new ones.
        least = max(_STEP, 0 if known is None else known.num_rows)
        if sum(rows.num_rows for rows in fresh) > least:
            step, known = next_history(known, one_batch(pa.Table.from_batches(fresh)), raw.gaps)
            steps.append(step)
            fresh = []
    rest = one_batch(pa.Table.from_batches(fresh, schemas.RECORDS))
    step, known = next_history(known, rest, raw.gaps)
    history = pa.Table.from_batches([*steps, step]).sort_by(ascending(*HISTORY_KEY))
    windows = pa.Table.from_batches([replay_arrow(known, version)])
    found = find_deleted(known), _count_records(count, raw)
    return StateTopic(windows, *found, raw.gaps, history, pa.concat_tables(counts))


def decode_topic(
    source: Input,
    topic: str = STATE_TOPIC,
    as_of: Moment = None,
    choice: Choice | None = None,
    seen: Callable[[schemas.Arrow], None] | None = None,
) -> Iterator[Decoded]:
    """Decode a topic in this process, batch by batch, in reading order.

    ``seen`` is called with the raw records of each batch.

    The moment and the choice filter records, never rejects, whose share partition is unknown.
    Topics, which are selected by their ids, and a moment of offsets apply to state records only.
    """
    compile_beside()
    choice = choice or Choice()
    generation, version = choice.generation, source.kafka_version
    raw = (
        state_records(source, generation)
        if topic == STATE_TOPIC
        else EachOnce(lambda: (of_topic(batch, topic) for batch in source.batches(topic)))
    )
    for chosen in raw.stream():
        if seen is not None:
            seen(chosen)
        records, rejects, skipped = decode_arrow(chosen, topic, generation, version)
        records = filter_groups(records, choice.groups)
        if topic == STATE_TOPIC:
            records = choice.of(up_to(records, as_of), names="topic_id")
        elif isinstance(as_of, datetime):
            records = up_to(records, as_of)
        yield Decoded(records, rejects, skipped)


class QuickReading(Reading):
    """The tables of an input, computed in this process.

    With ``history`` it stores the state after each record, which everything except windows and lag
    needs. With ``health`` it also counts the records of the state topic, which means decoding them
    once more. ``later`` is a reading of the same input as of its end, whose decoded records serve
    all earlier moments.
    """

    engine = "local"

    def __init__(
        self,
        source: Input,
        as_of: Moment = None,
        choice: Choice | None = None,
        over: timedelta = OVER,
        *,
        history: bool = True,
        health: bool = False,
        later: QuickReading | None = None,
    ) -> None:
        super().__init__(source, as_of, choice, over)
        compile_beside()
        self._with_history, self._with_health, self._later = history, health, later
        self._version: Hashable = None  # of the input when the history was read
        self._saw_group_records = False

    @property
    def record_counts(self) -> RecordCounts:
        return self._read.record_counts

    @property
    def group_record_counts(self) -> GroupRecordCounts:
        from sharelag.replay.members import find_deleted_groups

        def count() -> GroupRecordCounts:
            log = self._group_log
            deleted = find_deleted_groups(log.latest)
            return GroupRecordCounts(log.records, log.rejected, frozenset(deleted))

        return self.once("counted groups", count)

    @property
    def has_group_records(self) -> bool:
        _ = self._group_log
        return self._saw_group_records

    def then(self, as_of: Moment) -> QuickReading:
        """Return a reading of the same records as of another moment, without history."""
        return QuickReading(self.source, as_of, self.choice, self.over, history=False)

    def before(self, as_of: Moment, choice: Choice) -> StateTopic | None:
        """Return the state as of an earlier time; None if it has to be read again.

        The decoded records are kept for it, unless there are very many.
        """
        is_all = not self.choice.groups and self.record_counts.records <= KEPT
        if not is_all or not isinstance(as_of, datetime) or as_of > self.now:
            return None
        version = self.source.version()
        kept = self.once("kept", lambda: keep_records(self.source, self.choice.generation))
        whole = self._history if version is not None and version == self._version else None
        return kept.up_to(as_of, choice.groups, self.source.kafka_version, whole)

    def _whole(self) -> QuickReading:
        is_whole = self._with_health and self.as_of is None and not self.choice.groups
        every = self.choice.everything()
        return self if is_whole else QuickReading(self.source, choice=every, health=True)

    def _scan(self, config: ClientConfig) -> pa.RecordBatch:
        from sharelag.inputs.kafka.records import scan

        offsets = self.table("offsets")
        states = self.choice.of(add_topic_names(self.table("states"), offsets))
        return scan(config, states.select(schemas.WINDOWS.names), offsets)

    def history(
        self, since: datetime | None = None, most: int | None = None, group: str | None = None
    ) -> Rows:
        table = from_time(self._history, since)
        if group is not None:
            table = table.filter(pc.equal(table.column("group_id"), group))
        table = self.choice.of(add_topic_names(table, self.table("offsets")))
        return Rows(latest(table, most).sort_by(HISTORY_ORDER), table.num_rows)

    def history_tables(self, since: datetime | None = None) -> Iterator[pa.Table]:
        yield self.history(since).table

    def over_history(self, each: Each, schema: pa.Schema, keys: pa.Table | None = None) -> pa.Table:
        history = self._history if keys is None else rows_of(self._history, keys)
        return as_table(each(one_batch(history))).cast(schema)

    def over_records(self, each: Each, schema: pa.Schema, keys: pa.Table) -> pa.Table:
        return as_table(each(one_batch(self._records(keys)))).cast(schema)

    def ledger(self, given: OfQueue, most: int, statuses: tuple[str, ...] = ()) -> Ledger:
        from sharelag.metrics import dead_letters as dlq

        archived = self.over_records(dlq.archived_arrow, schemas.ARCHIVED_RUNS, given.lag)
        names, batches = dlq.topic_ids_of(given.lag), map(dlq.letters_arrow, given.queue.batches())
        found = (dlq.count_letters(batch, names, given.groups) for batch in batches)
        letters = pa.concat_tables([schemas.COUNTED_LETTERS.empty_table(), *found])
        table = dlq.ledger_arrow(archived, letters, given.lag, given.limits, milliseconds(self.now))
        return Ledger(dlq.first_of(table, most, statuses), dlq.sums_of(table))

    def windows_at(self, keys: pa.Table, moments: Sequence[int] | int) -> pa.Table:
        from sharelag.metrics.columns import evenly_spaced

        records = self._records(keys)
        if isinstance(moments, int):
            times = pc.unique(records.column("timestamp").drop_null()).view(pa.int64())
            moments = evenly_spaced(times.to_numpy(), moments)
        return replay_at(records, np.array(moments, np.int64), self.source.kafka_version)

    # ---- internals -------------------------------------------------------------------------------

    def _compute(self, name: str) -> schemas.Arrow:
        if name in ("windows", "deleted", "gaps"):
            found: schemas.Arrow = getattr(self._read, name)
            return found
        if name == "observed":
            from sharelag.metrics.observed import observe

            return observe(self._history, self.now, self.over)
        if name == "snapshots":
            from sharelag.metrics.health import snapshots_arrow

            return snapshots_arrow(self._history)
        if name == "members":
            from sharelag.replay.members import members_arrow

            return members_arrow(self._group_log.latest)
        if name == "groups":
            from sharelag.replay.members import groups_arrow

            return groups_arrow(self._group_log.latest)
        if name == "health":
            if not self._with_health:
                raise ValueError(
                    "this reading has no health: create it with QuickReading(..., health=True)"
                )
            from sharelag.metrics.health import health_arrow

            partitions = self.source.partitions(STATE_TOPIC)
            return health_arrow(self._read.counts, partitions, self._history)
        raise ValueError(f"unknown table {name!r}")

    @property
    def _read(self) -> StateTopic:
        def read() -> StateTopic:
            if self._later is not None and (found := self._later.before(self.as_of, self.choice)):
                return found
            self._version = self.source.version()
            if self._with_history:
                return read_whole(self.source, self.as_of, self.choice, self._with_health)
            return read_states(self.source, self.as_of, self.choice)

        return self.once("read", read)

    @property
    def _history(self) -> pa.Table:
        if self._read.history is None:
            raise ValueError(
                "this reading has no history: create it with QuickReading(..., history=True)"
            )
        return self._read.history

    @property
    def _group_log(self) -> GroupLog:
        """The share group records up to the moment; superseded ones are dropped while reading."""
        from sharelag.replay.members import read_group_log

        def read() -> GroupLog:
            moment = self.now if self.as_of is not None else None
            found: Iterator[Decoded] = iter(())
            if self.group_records_refused is None:
                choice = self.choice.without_topics()
                seen = self._see_group_records
                found = decode_topic(self.source, GROUP_TOPIC, choice=choice, seen=seen)
            written = (one._replace(records=up_to(one.records, moment)) for one in found)
            return read_group_log(written, schemas.GROUP_RECORDS)

        return self.once("group log", read)

    def _see_group_records(self, raw: schemas.Arrow) -> None:
        self._saw_group_records |= raw.num_rows > 0

    def _records(self, places: pa.Table) -> pa.Table:
        """Return all records of some share partitions; they are held in memory, so choose few."""
        groups = frozenset(places.column("group_id").to_pylist()) or self.choice.groups
        choice = replace(self.choice.without_topics(), groups=groups)
        found = decode_topic(self.source, STATE_TOPIC, self.as_of, choice)
        parts = [rows_of(one.records, places) for one in found]
        return pa.Table.from_batches(parts, schemas.RECORDS)
