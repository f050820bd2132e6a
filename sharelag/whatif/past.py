"""A span of a share group's history: what happened, and a scenario that replays it.

Records arrive as they did, members join and leave as far as the group's own records show, and
records fail as often as the history of state records shows: a record that was released three times
is released three times by any member.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.age import end_at, known_ends, time_of
from sharelag.metrics.columns import numbers
from sharelag.metrics.evidence import Evidence
from sharelag.model import milliseconds
from sharelag.tables.arrow import as_table
from sharelag.tables.words import moment, pluralize
from sharelag.whatif import fates
from sharelag.whatif.comparison.intervals import curve
from sharelag.whatif.estimates import STAYS_OPEN, WORK, assume_for, place_of
from sharelag.whatif.from_cluster import of_group, scenario_from, stable_ends
from sharelag.whatif.scenario import Behaviour, Burst, Member, Producer, Scenario, Service
from sharelag.whatif.simulate import simulate
from sharelag.whatif.simulation.tables import table

#: A group at one moment of its history with a known lag.
HAPPENED = pa.schema(
    [
        ("time_ms", pa.int64()),  # since the beginning of the span
        ("lag", pa.float64()),
        ("age_ms", pa.float64()),  # of the oldest unfinished record; null: unknown
    ]
)
#: Upper bound of moments with windows: those at which state records were written.
MOST_WINDOWS = 600
#: Upper bound of moments between which arrivals are spread evenly.
_MOST_STEPS = 120
#: If the number of members differs by less than this share, their work is not corrected.
_SAME = 0.02
#: Upper bound of the factor between the work and its estimate from the rates, up or down.
_MOST_WORK = 4.0
#: Runs for the search of the work.
_SEEDS = 3


@dataclass(frozen=True)
class Past:
    """What happened to a group in a span, and the scenario that simulates it.

    Attributes
    ----------
    scenario
        The group as it was; ``assumed`` lists what its history does not show.
    happened
        `HAPPENED`, by time.
    """

    scenario: Scenario
    happened: pa.Table

    @property
    def begin(self) -> datetime:
        """The first moment of the span."""
        return datetime.fromtimestamp(self.scenario.begins_ms / 1000, UTC)

    @property
    def end(self) -> datetime:
        """The last moment of the span."""
        return self.at(self.scenario.duration_ms)

    def at(self, time_ms: float) -> datetime:
        """Return the moment a number of milliseconds after the beginning."""
        return self.begin + timedelta(milliseconds=time_ms)


def past_of(
    then: Evidence,
    now: Evidence,
    group: str,
    timeline: pa.Table,
    windows: pa.Table,
    service: Service | None = None,
) -> Past:
    """Build the scenario of a span of a group's history, from its first moment to its last.

    ``now`` has the rates of the whole span, ``timeline`` and ``windows`` are
    `sharelag.schemas.TIMELINE` and `sharelag.replay.state.WINDOWS_AT` of the group within it.
    Without a ``service``, that of the members is estimated from what they completed.
    """
    begin, end = milliseconds(then.as_of), milliseconds(now.as_of)
    lasts = end - begin
    if lasts < 1:
        raise InputError("the span ends before it begins: name an earlier moment, or a later end")
    later: list[str] = []
    then = _add_later(then, now, group, windows, later)
    as_known = scenario_from(now, group, service=service)
    like = as_known.members[0]
    seen = fates.seen_windows(as_known, windows, begin, end)
    batch_records = fates.record_batch(seen)
    place = then.logs.schema.get_field_index("last_stable_offset")
    unknown = pa.nulls(len(then.logs), pa.int64())
    # Earlier rates are not those of the span, failures are in its own records, and last stable
    # offsets are current ones.
    without = replace(
        then,
        brokers=now.brokers,
        past_offsets=schemas.OFFSETS.empty_table(),
        observed=schemas.OBSERVED.empty_table(),
        logs=then.logs.set_column(place, then.logs.schema.field(place), unknown),
    )
    base = scenario_from(
        without,
        group,
        service=like.service,
        behaviour=Behaviour(),
        batch_records=batch_records,
        max_poll_records=_estimate_poll(now, group, as_known, seen, batch_records),
    )
    assumed = [one for one in as_known.assumed if WORK in one]
    assumed += [one for one in base.assumed if getattr(one, "code", "") != "arrivals"] + later
    base, producers = _find_arrivals(base, now, begin, end, assumed)
    members = _find_members(base, then, now, begin, end, assumed)
    if service is None:
        members = _scale_work(members, len(as_known.each_member()), lasts, assumed)
    alone, estimate = _find_alone(members), members[0].service
    found = service or fates.time_full_polls(seen, alone, members[0].max_poll_records, estimate)
    members, work_ms = [replace(one, service=found) for one in members], found.mean_ms
    poison, behaviour, back = fates.fates_of(
        base, as_known, seen, alone, work_ms, begin, end, assumed
    )
    members, faults, came_back = fates.deaths(base.settings, members, back, work_ms, begin, assumed)
    poison = tuple(one for one in poison if (one.topic, one.partition, one.offset) not in came_back)
    scenario = replace(
        base,
        producers=tuple(replace(one, batch_records=batch_records) for one in producers),
        members=tuple(replace(one, behaviour=behaviour) for one in members),
        poison=poison,
        faults=tuple(faults),
        duration_ms=lasts,
        step_ms=max(lasts // 600, 100),
        about=f"The share group {group}, from {moment(then.as_of)} to {moment(now.as_of)}",
        assumed=tuple(assumed),
    )
    happened = _sum_timeline(timeline, now.past_offsets, begin, end)
    is_polled = work_ms != estimate.mean_ms and any(one.work_ms for one in poison)
    is_told = service is not None or is_polled
    return Past(scenario if is_told else _fit_work(scenario, happened), happened)


def _add_later(
    then: Evidence, now: Evidence, group: str, windows: pa.Table, assumed: list[str]
) -> Evidence:
    """Add share partitions whose state begins within the span, as it was first seen."""
    rows = of_group(windows.sort_by([("as_of", "descending")]), group)
    # Until a coordinator has chosen a start offset, the start is unknown.
    first = {place_of(row): row for row in rows if row["start_offset"] is not None}
    for row in then.lag.to_pylist():
        first.pop(place_of(row), None)
    added = [
        row | {"end_offset": start["start_offset"], "lag": 0, "window_unknown": 0}
        for row in now.lag.to_pylist()
        if (start := first.get(place_of(row))) is not None
    ]
    if not added:
        return then
    assumed.append(
        f"{pluralize(len(added), 'share partition')} whose state begins within the span "
        f"{'exists' if len(added) == 1 else 'exist'} from its beginning, as first seen"
    )
    lag, starts = (
        pa.concat_tables([as_table(table), pa.Table.from_pylist(more, schema=table.schema)])
        for table, more in (
            (then.lag, added),
            (then.windows, [first[place_of(row)] for row in added]),
        )
    )
    return replace(then, lag=lag, windows=starts)


# ---- what happened -------------------------------------------------------------------------------


def _sum_timeline(timeline: pa.Table, past_offsets: pa.Table, begin: int, end: int) -> pa.Table:
    """Sum a timeline over share partitions, at moments at which all lags are known."""
    time, _ = numbers(timeline, "as_of")
    lag, lagging = numbers(timeline, "lag")
    start, started = numbers(timeline, "effective_start_offset")
    since, dated = time_of(known_ends(timeline, past_offsets, end), start)
    age = np.where(lagging & (lag == 0), 0, np.maximum(time - since, 0)).astype(np.float64)
    aged = lagging & ((lag == 0) | (started & dated))
    found = []
    for then in np.unique(time[(time >= begin) & (time <= end)]).tolist():
        at = time == then
        if lagging[at].all():
            age_ms = float(age[at].max()) if aged[at].all() else None
            found.append((then - begin, float(lag[at].sum()), age_ms))
    return table(found, HAPPENED)


def _find_alone(members: list[Member]) -> set[fates.Place]:
    """Return the share partitions that a single member had all the time."""
    if any(one.join_ms or one.leave_ms is not None for one in members):
        return set()  # remaining members get more partitions
    held = Counter(place for one in members for place in one.assigned)
    single = (one.assigned[0] for one in members if len(one.assigned) == 1)
    return {place for place in single if held[place] == 1}


def _estimate_poll(
    now: Evidence, group: str, known: Scenario, by_place: fates.Seen, batch_records: int
) -> int:
    """Return the records of a poll: the most that were acknowledged by one state record.

    If not all records were looked at, the mean over a member's partitions.
    """
    rows = of_group(now.observed, group)
    records = sum(row["records"] or 0 for row in rows)
    ended = sum((row["finished"] or 0) + (row["released"] or 0) for row in rows)
    most: int = known.members[0].max_poll_records
    if not records or not ended:
        return most
    moments = {at for seen in by_place.values() for at, _ in seen}
    if len(moments) < MOST_WINDOWS and (at_once := fates.most_at_once(by_place)):
        # The last record batch of a poll is delivered whole.
        return max(at_once // batch_records * batch_records, 1)
    each = max(len(rows) / max(len(known.each_member()), 1), 1.0)
    together: int = max(round(each * ended / records), 1)
    return min(most, together)


# ---- arrivals ------------------------------------------------------------------------------------


def _find_arrivals(
    base: Scenario, now: Evidence, begin: int, end: int, assumed: list[str]
) -> tuple[Scenario, tuple[Producer, ...]]:
    """Return the group with its logs at the beginning, and the arrivals of each partition since."""
    rows = now.lag.filter(pc.equal(now.lag.column("group_id"), base.group_id))
    ends = known_ends(rows, now.past_offsets, end)
    at_begin, dated = end_at(ends, np.full(rows.num_rows, begin, np.int64))
    # Last stable offsets may be later: a transaction that is open then was open before.
    open_from = stable_ends(now, base.settings)
    starts, of_id = dict(base.starts), {one.id: one for one in base.topics}
    producers: list[Producer] = []
    late, left, blocks = 0, 0, []
    from_, to = (np.searchsorted(ends.place, ends.rows, side) for side in ("left", "right"))
    for row, (id_, number) in enumerate(map(place_of, rows.to_pylist())):
        topic = of_id.get(id_)
        start = None if topic is None else starts.get((topic.name, number))
        if topic is None or start is None:
            left += 1
            continue
        mine = slice(from_[row], to[row])
        # Some of many known ends are left out, but not the last.
        every = max(-(-int(to[row] - from_[row]) // _MOST_STEPS), 1)
        times, offsets = (known[mine][::-1][::every][::-1] for known in (ends.time, ends.end))
        first = int(at_begin[row]) if dated[row] else start.end_offset
        late += not dated[row]
        window = start.window
        if window is not None:  # a delivered offset exists, even if a clock is behind
            first = max(first, fates.find_delivered_end(window))
        is_later = times > begin
        times = np.concatenate([[begin], times[is_later]]) - begin
        offsets = np.maximum.accumulate(np.concatenate([[first], offsets[is_later]]))
        blocked = open_from.get((id_, number))
        if blocked is not None and blocked < offsets[-1]:
            blocks.append(f"{topic.name}:{number} from offset {blocked}")
        since = blocked if blocked is not None and blocked < first else None
        starts[topic.name, number] = replace(start, end_offset=first, open_from=since)
        weights = tuple(float(place == number) for place in range(topic.partitions))
        producers += _produce(topic.name, weights, times, offsets, blocked)
    assumed += assume_for(blocks, STAYS_OPEN)
    if late:
        assumed.append(
            f"the end offsets of {pluralize(late, 'partition')} at the beginning are the last "
            "known ones: records that arrived before the next known end arrive in the span"
        )
    if left:
        assumed.append(
            f"{pluralize(left, 'share partition')} without state in the span "
            f"{'is' if left == 1 else 'are'} left out"
        )
    assumed.append("records arrive as they did, spread evenly between known end offsets")
    return base.with_starts(starts), tuple(producers)


def _produce(
    topic: str, weights: tuple[float, ...], times: Any, offsets: Any, blocked: int | None
) -> Iterator[Producer]:
    """Yield producers that append a log's growth, evenly in each step."""
    parts = [(times, offsets, False)]
    if blocked is not None and offsets[0] < blocked < offsets[-1]:
        # The transaction begins with its record.
        at = float(np.interp(blocked, offsets, times))
        before, after = times < at, times > at
        parts = [
            (np.append(times[before], at), np.append(offsets[before], blocked), False),
            (np.append(at, times[after]), np.append(blocked, offsets[after]), True),
        ]
    for when, end, is_open in parts:
        whole = np.rint(when).astype(np.int64)
        grown, spans = np.diff(end), np.diff(whole)
        bursts = tuple(
            # A billionth more, so that rounding does not drop the last record.
            Burst(int(left), int(right), float(more) / float(span) * 1000 * (1 + 1e-9))
            for left, right, more, span in zip(whole[:-1], whole[1:], grown, spans, strict=True)
            if span > 0
        )
        if grown.sum() and bursts:
            begin_ms, end_ms = int(whole[0]), int(whole[-1])
            one = Producer(topic, 1.0, "steady", 1, weights, begin_ms=begin_ms, end_ms=end_ms)
            one = replace(one, bursts=bursts)
            endless = replace(one, transaction_batches=1 << 40, transaction_ms=1e12)
            yield endless if is_open else one


# ---- members -------------------------------------------------------------------------------------


def _find_members(
    base: Scenario, then: Evidence, now: Evidence, begin: int, end: int, assumed: list[str]
) -> list[Member]:
    """Return the members with the times at which they joined and left, if known."""
    later, groups = of_group(now.members, base.group_id), of_group(now.groups, base.group_id)
    if not groups:
        return list(base.members)
    there = {row["member_id"] for row in later}
    left = {
        one["member_id"]: one["left_ms"] - begin
        for row in groups
        for one in row["departures"] or ()
        if begin < one["left_ms"] <= end
    }
    before = {row["member_id"] for row in of_group(then.members, base.group_id)}
    found = [
        replace(one, leave_ms=left.get(one.name)) if one.name not in there else one
        for one in base.members
    ]
    known = {topic.name for topic in base.topics}
    for row in later:
        joined = row["joined"]
        if row["member_id"] in before or joined is None or milliseconds(joined) <= begin:
            continue
        topics = tuple(sorted(known & set(row["subscribed_topic_names"] or ())))
        new = replace(base.members[0], name=row["member_id"], count=1, topics=topics, assigned=())
        found.append(replace(new, rack=row["rack_id"], join_ms=milliseconds(joined) - begin))
    gone = sorted(before - there)
    came = len(found) - len(base.members)
    if gone or came:
        assumed.append(
            f"{pluralize(len(gone), 'member')} left and {came} joined in the span, as the group's "
            "records show; one that left may have hung for a session timeout before, which they "
            "do not show"
        )
    if undated := [name for name in gone if name not in left]:
        assumed.append(
            f"{pluralize(len(undated), 'member')} that left at an unknown moment "
            f"{'stays' if len(undated) == 1 else 'stay'} until the end"
        )
    if brief := left.keys() - before:
        assumed.append(
            f"{pluralize(len(brief), 'member')} that joined and left within the span "
            f"{'is' if len(brief) == 1 else 'are'} left out: the time of joining is not known"
        )
    return found


def _scale_work(members: list[Member], counted: int, end: int, assumed: list[str]) -> list[Member]:
    """Scale the work, estimated for ``counted`` members at the end, to those that were there."""
    spans = ((end if one.leave_ms is None else one.leave_ms) - one.join_ms for one in members)
    there = sum(one.count * span for one, span in zip(members, spans, strict=True)) / end
    factor = there / counted if counted and there else 1.0
    if abs(factor - 1) < _SAME:
        return members
    service = members[0].service
    service = replace(service, mean_ms=service.mean_ms * factor)
    assumed.append(
        f"{pluralize(service.mean_ms, WORK, WORK)} then, since {there:.3g} members were present on "
        "average"
    )
    return [replace(one, service=service) for one in members]


def _fit_work(scenario: Scenario, happened: pa.Table) -> Scenario:
    """Return the scenario with the work per record at which the mean lag is the real one.

    Rates alone do not show it: a member waits while a window is full, works in vain if a lock
    expires, and may be idle. If the lag never exceeded what members can hold, it is chance.
    """
    lag, _ = numbers(happened, "lag")
    windows = len(scenario.starts) * scenario.settings.limits.max_record_locks
    held = min(sum(one.count * one.max_poll_records for one in scenario.members), windows)
    if not len(lag) or lag.max() <= held:
        return scenario
    times, usual = happened.column("time_ms").to_numpy(), scenario.members[0].service

    def with_factor(log_factor: float) -> Scenario:
        factor = float(np.exp(log_factor))
        # Work that full polls show stays the same.
        known = tuple((place, more / factor) for place, more in usual.by_partition)
        service = replace(usual, mean_ms=usual.mean_ms * factor, by_partition=known)
        members = tuple(replace(one, service=service) for one in scenario.members)
        return replace(scenario, members=members)

    @cache  # the search evaluates both ends again
    def off(log_factor: float) -> float:
        some = with_factor(log_factor)
        runs = (curve(simulate(some, seed).timeline) for seed in range(_SEEDS))
        lags = [np.interp(times, run.times, run.lag) for run in runs]
        return float(np.mean(lags) - lag.mean())

    from scipy.optimize import brentq

    least, most = -np.log(_MOST_WORK), np.log(_MOST_WORK)
    if not off(least) < 0 < off(most):
        return scenario
    found = with_factor(brentq(off, least, most, xtol=0.01))
    work = found.members[0].service.mean_ms
    words = f"{pluralize(work, WORK, WORK)}, with which the mean lag is the real one"
    return replace(found, assumed=(*scenario.assumed, words))
