"""Records of an input in this process, batch by batch; those of the state topic are replayed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.engine import Counted
from sharelag.inputs import Input
from sharelag.model.versions import Told
from sharelag.replay.columns import by_share_partition
from sharelag.replay.moment import Choice, Moment, filter_groups, up_to
from sharelag.replay.repeats import EachOnce
from sharelag.replay.state import going_back, replay_arrow
from sharelag.tables.arrow import one_batch
from sharelag.wire.decode import Decoded, decode_arrow, of_state, of_topic
from sharelag.wire.fields import STATE_TOPIC

#: Minimum number of records per replay step.
_STEP = 250_000


class StateTopic(NamedTuple):
    """The results of reading the state topic."""

    windows: pa.Table
    counted: Counted
    gaps: pa.Table
    history: pa.Table | None = None  # sorted by HISTORY_KEY; None: only windows were requested
    counts: pa.Table | None = None  # None: health was not requested


def state_records(source: Input, generation: int | None) -> EachOnce:
    """Return the raw records with share state, in the order of the log, each once."""
    return EachOnce(lambda: (of_state(batch, generation) for batch in source.batches(STATE_TOPIC)))


def read_states(source: Input, as_of: Moment, choice: Choice) -> StateTopic:
    """Read only the windows."""
    from sharelag.replay.streaming_replay import latest_windows

    chosen = partial(filter_groups, groups=choice.groups) if choice.groups else None
    until = None if as_of is None else partial(up_to, moment=as_of)
    raw = state_records(source, choice.generation)
    read = choice.generation, until, source.kafka_version
    found = raw.apply(lambda batches: latest_windows(batches, chosen, *read))
    times = pa.array([found.first, found.last], pa.int64()).view(schemas.TIMESTAMP).to_pylist()
    counted = Counted(found.records, found.rejected, times[0], times[1], raw.repeated)
    return StateTopic(pa.Table.from_batches([found.windows]), counted, raw.gaps)


def read_whole(source: Input, as_of: Moment, choice: Choice, with_health: bool) -> StateTopic:
    """Read windows, history and gaps, and the counts of the topic if requested."""
    raw = state_records(source, choice.generation)
    version = source.kafka_version
    found = raw.apply(lambda batches: _replay(batches, as_of, choice, with_health, version))
    return found._replace(counted=found.counted._replace(repeated=raw.repeated))


class Kept(NamedTuple):
    """All records of the state topic, decoded, of which those up to any moment are replayed."""

    records: pa.RecordBatch
    counted: Counted
    gaps: pa.Table
    goes_back: bool  # whether one may have an earlier time than the one before: clocks are set back

    def up_to(
        self, as_of: datetime, groups: frozenset[str], version: Told, whole: pa.Table | None
    ) -> StateTopic:
        """Return what `read_whole` does; ``whole`` is the history of all, where that is known."""
        from sharelag.replay.history import history_arrow

        records = up_to(filter_groups(self.records, groups), as_of)
        if whole is None or self.goes_back:
            history = pa.Table.from_batches([history_arrow(records, self.gaps)])
        else:  # what came before a moment does not depend on what comes after it
            history = filter_groups(whole, groups).filter(pc.field("record_timestamp") <= as_of)
        times = self.records.column("timestamp")  # of all groups
        span = pc.min_max(times.filter(pc.less_equal(times, as_of))).as_py()
        counted = self.counted._replace(
            records=records.num_rows, first=span["min"], last=span["max"]
        )
        windows = pa.Table.from_batches([replay_arrow(records, version)])
        return StateTopic(windows, counted, self.gaps, history)


def keep_records(source: Input, generation: int | None) -> Kept:
    """Decode all records of the state topic, and hold them."""
    raw, count = state_records(source, generation), _Count()
    read = partial(decode_arrow, topic=STATE_TOPIC, generation=generation)

    def decode(batches: EachOnce) -> list[Decoded]:
        return [read(batch, kafka_version=source.kafka_version) for batch in batches]

    found = raw.apply(decode)
    for one in found:
        count.add(one, one.records)
    records = one_batch(pa.Table.from_batches([one.records for one in found], schemas.RECORDS))
    counted = count.counted._replace(repeated=raw.repeated)
    return Kept(records, counted, raw.gaps, _goes_back(records))


def _goes_back(records: pa.RecordBatch) -> bool:
    times = records.column("timestamp")
    if times.null_count or not records.num_rows:
        return bool(times.null_count)
    order, bounds = by_share_partition(records)
    return bool(going_back(times.view(pa.int64()).to_numpy()[order], bounds).any())


def _replay(
    raw: EachOnce, as_of: Moment, choice: Choice, with_health: bool, version: Told
) -> StateTopic:
    from sharelag.metrics.health import COUNTS, health_counts
    from sharelag.replay.history import HISTORY_KEY, next_history

    count, counts, steps = _Count(), [COUNTS.empty_table()], [_empty_history()]
    known = None
    fresh: list[pa.RecordBatch] = []
    generation = choice.generation
    for chosen in raw:
        if with_health:
            counts.append(health_counts(chosen, generation, version))
        records, rejects, skipped = decode_arrow(chosen, STATE_TOPIC, generation, version)
        written = up_to(records, as_of)
        fresh.append(filter_groups(written, choice.groups))
        count.add(Decoded(fresh[-1], rejects, skipped), written)
        # Each step also replays the known records: wait for at least as many new ones.
        if sum(rows.num_rows for rows in fresh) > max(
            _STEP, known.num_rows if known is not None else 0
        ):
            step, known = next_history(known, one_batch(pa.Table.from_batches(fresh)), raw.gaps)
            steps.append(step)
            fresh = []
    step, known = next_history(
        known, one_batch(pa.Table.from_batches(fresh, schemas.RECORDS)), raw.gaps
    )
    history = pa.Table.from_batches([*steps, step]).sort_by(
        [(name, "ascending") for name in HISTORY_KEY]
    )
    windows = pa.Table.from_batches([replay_arrow(known, version)])
    return StateTopic(windows, count.counted, raw.gaps, history, pa.concat_tables(counts))


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
    Topics are selected by their ids, and only among state records.
    """
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
        yield Decoded(records, rejects, skipped)


class _Count:
    """Count decoded records."""

    def __init__(self) -> None:
        self.records = self.rejected = 0
        self._times: list[datetime] = []

    def add(self, one: Decoded, written: schemas.Arrow) -> None:
        """Count chosen records; the times are those of all, whichever groups are chosen."""
        self.records += one.records.num_rows
        self.rejected += one.rejects.num_rows
        span = pc.min_max(written.column("timestamp")).as_py()
        self._times += [at for at in span.values() if at is not None]

    @property
    def counted(self) -> Counted:
        return Counted(
            self.records,
            self.rejected,
            min(self._times, default=None),
            max(self._times, default=None),
        )


def _empty_history() -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schemas.HISTORY)
