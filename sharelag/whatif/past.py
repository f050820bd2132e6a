"""A span of a share group's history: what happened, and a scenario that begins as it began.

Its records arrive as they did then, members come and go as far as the group's own records tell,
and what the history of state records shows to have failed fails again: a record that was given
back three times is given back three times by any member.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from math import gcd
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.durations import duration
from sharelag.errors import InputError
from sharelag.metrics.age import end_at, known_ends, time_of
from sharelag.metrics.columns import numbers
from sharelag.metrics.evidence import Evidence
from sharelag.model import DeliveryState, Window, milliseconds
from sharelag.replay.state import window_items
from sharelag.tables.arrow import as_table
from sharelag.tables.words import counted, moment
from sharelag.whatif.from_cluster import scenario_from
from sharelag.whatif.scenario import (
    Behaviour,
    Burst,
    Fault,
    Member,
    Poison,
    Producer,
    Scenario,
    Service,
    Settings,
)
from sharelag.whatif.simulate import simulate
from sharelag.whatif.stuck_records import head_of

#: A group at one moment of its history at which its lag is known.
HAPPENED = pa.schema(
    [
        ("time_ms", pa.int64()),  # since the beginning of the span
        ("lag", pa.float64()),
        ("age_ms", pa.float64()),  # of the oldest unfinished record; null where not known
    ]
)
#: Records that are followed one by one, at most: of more, shares are simulated.
_MOST_FATES = 5_000
#: Moments at which windows are looked at, at most: where records of their state were written.
MOST_WINDOWS = 600
#: Moments between which arrivals are even, at most.
_MOST_STEPS = 120
#: Members whose number differs by less than this part of it did the same work.
_SAME = 0.02
#: Work is at most so many times what the rates tell, or so many times less.
_MOST_WORK = 4.0
#: A poll is full with so large a part of what it may have.
_FULL = 0.9
#: Some polls take longer than a lock where all take so large a part of it on average.
_LATE = 0.5
#: A record that takes less than so many times the work of others is like them.
_SLOW = 5.0
#: Runs by which the work is found.
_SEEDS = 3
#: A window says nothing of where its log ends.
_NO_END = 1 << 62
#: A topic name and a partition; with an offset, one record.
_Place = tuple[str, int]
_Record = tuple[str, int, int]


@dataclass(frozen=True)
class Past:
    """What happened to a group in a span, and how the span is simulated as it was.

    Attributes
    ----------
    scenario
        The group as it was; ``assumed`` lists what its history does not say.
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
        """The moment so long after the beginning."""
        return self.begin + timedelta(milliseconds=time_ms)


def past_of(
    then: Evidence,
    now: Evidence,
    group: str,
    timeline: pa.Table,
    windows: pa.Table,
    service: Service | None = None,
) -> Past:
    """Simulate a span of a group's history as it was.

    Parameters
    ----------
    then, now : Evidence
        Of the first and the last moment, the latter with the rates of the whole span.
    group : str
    timeline : pyarrow.Table
        `sharelag.schemas.TIMELINE` of the group within the span.
    windows : pyarrow.Table
        `sharelag.replay.state.WINDOWS_AT` of the group within the span.
    service : Service, optional
        Of the members; estimated from what they completed in the span when not given.

    Raises
    ------
    InputError
        The group had no state when the span begins, or its ends are not known.
    """
    begin, end = milliseconds(then.as_of), milliseconds(now.as_of)
    lasts = end - begin
    if lasts < 1:
        raise InputError("the span ends before it begins: name an earlier moment, or a later end")
    later: list[str] = []
    then = _with_later(then, now, group, windows, later)
    as_known = scenario_from(now, group, service=service)
    estimated = scenario_from(now, group, service=as_known.members[0].service)
    # Rates until then are not those of the span, and of what failed its own records tell.
    without = replace(
        then,
        brokers=now.brokers,
        past_offsets=schemas.OFFSETS.empty_table(),
        observed=schemas.OBSERVED.empty_table(),
        logs=_without_stable(then.logs),
    )
    like = as_known.members[0]
    seen = _seen(as_known, windows, begin, end)
    batch_records = _batched(seen)
    base = scenario_from(
        without,
        group,
        service=like.service,
        behaviour=Behaviour(),
        batch_records=batch_records,
        max_poll_records=_polled(now, group, as_known, seen),
    )
    assumed = [one for one in as_known.assumed if one not in estimated.assumed]
    assumed += [one for one in base.assumed if getattr(one, "code", "") != "arrivals"] + later
    base, producers = _arrivals(base, now, begin, end, assumed)
    producers = tuple(replace(one, batch_records=batch_records) for one in producers)
    members = _members(base, then, now, group, begin, end, assumed)
    if service is None:
        members = _worked(members, len(as_known.each_member()), lasts, assumed)
    alone = _alone(members)
    polls = None if service else _full_polls(seen, alone, members[0].max_poll_records)
    if polls is not None:
        members = [replace(one, service=replace(one.service, mean_ms=polls)) for one in members]
    work_ms = members[0].service.mean_ms
    poison, behaviour, back = _fates(base, as_known, seen, alone, work_ms, begin, end, assumed)
    members, faults, came_back = _deaths(base.settings, members, back, work_ms, begin, assumed)
    poison = tuple(
        one for one in poison if (one.topic, one.partition, one.offset) not in came_back
    )
    scenario = replace(
        base,
        producers=producers,
        members=tuple(replace(one, behaviour=behaviour) for one in members),
        poison=poison,
        faults=tuple(faults),
        duration_ms=lasts,
        step_ms=max(lasts // 600, 100),
        about=f"The share group {group}, from {moment(then.as_of)} to {moment(now.as_of)}",
        assumed=tuple(assumed),
    )
    happened = _happened(timeline, now.past_offsets, begin, end)
    return Past(scenario if service else _with_work(scenario, happened), happened)


def _with_later(
    then: Evidence, now: Evidence, group: str, windows: pa.Table, assumed: list[str]
) -> Evidence:
    """Add the share partitions whose state begins within the span, as it was first seen.

    The ends of their logs before that are looked up like all others.
    """
    of_group = windows.filter(pc.equal(windows.column("group_id"), group)).sort_by("as_of")
    first: dict[tuple[str, int], dict[str, Any]] = {}
    for row in of_group.to_pylist():
        first.setdefault((row["topic_id"], row["partition"]), row)
    for row in then.lag.to_pylist():
        first.pop((row["topic_id"], row["partition"]), None)
    lag, starts = [], []
    for row in now.lag.to_pylist():
        if (start := first.get((row["topic_id"], row["partition"]))) is not None:
            known = {"end_offset": start["start_offset"], "lag": 0, "window_unknown": 0}
            lag.append(row | known)
            starts.append(start)
    if not lag:
        return then
    assumed.append(
        f"{counted(len(lag), 'share partition')} whose state begins within the span "
        f"{'is' if len(lag) == 1 else 'are'} there from its beginning, as first seen"
    )
    return replace(then, lag=_with_rows(then.lag, lag), windows=_with_rows(then.windows, starts))


def _with_rows(table: schemas.Arrow, rows: list[dict[str, Any]]) -> pa.Table:
    more = pa.Table.from_pylist(rows, schema=table.schema)
    return pa.concat_tables([as_table(table), more])


def _without_stable(logs: pa.Table) -> pa.Table:
    """Leave out the last stable offsets, which are those of now."""
    place = logs.schema.get_field_index("last_stable_offset")
    return logs.set_column(place, logs.schema.field(place), pa.nulls(len(logs), pa.int64()))


# ---- what happened -------------------------------------------------------------------------------


def _happened(timeline: pa.Table, past_offsets: pa.Table, begin: int, end: int) -> pa.Table:
    """Sum up a timeline over share partitions, where the lags of all are known."""
    time, _ = numbers(timeline, "as_of")
    lag, lagging = numbers(timeline, "lag")
    start, started = numbers(timeline, "effective_start_offset")
    since, dated = time_of(known_ends(timeline, past_offsets, end), start)
    age = np.where(lagging & (lag == 0), 0, np.maximum(time - since, 0)).astype(np.float64)
    aged = lagging & ((lag == 0) | (started & dated))
    found = []
    for then in np.unique(time[(time >= begin) & (time <= end)]).tolist():
        at = time == then
        if not lagging[at].all():
            continue
        found.append(
            {
                "time_ms": then - begin,
                "lag": float(lag[at].sum()),
                "age_ms": float(age[at].max()) if aged[at].all() else None,
            }
        )
    return pa.Table.from_pylist(found, schema=HAPPENED)


def _alone(members: list[Member]) -> set[_Place]:
    """Return the share partitions that one member has, and no other."""
    held = Counter(place for one in members for place in one.assigned)
    return {one.assigned[0] for one in members if len(one.assigned) == 1} & {
        place for place, count in held.items() if count == 1
    }


def _batched(by_place: Mapping[_Place, list[tuple[int, Window]]]) -> int:
    """Return records of a record batch: what all windows end at a multiple of.

    Brokers give record batches to a member as a whole. Where they differ in size, it is 1.
    """
    ends = (_reached(window) for seen in by_place.values() for _, window in _changes(seen))
    return max(gcd(*ends), 1)


def _polled(
    now: Evidence,
    group: str,
    known: Scenario,
    by_place: Mapping[_Place, list[tuple[int, Window]]],
) -> int:
    """Return records of a poll: as many as were ever acknowledged together.

    Each acknowledgement of a share partition is one state record. Where not all of them were looked
    at, as many as on average, over a member's partitions.
    """
    rows = [row for row in now.observed.to_pylist() if row["group_id"] == group]
    records = sum(row["records"] or 0 for row in rows)
    ended = sum((row["finished"] or 0) + (row["released"] or 0) for row in rows)
    most: int = known.members[0].max_poll_records
    if not records or not ended:
        return most
    if len({at for seen in by_place.values() for at, _ in seen}) < MOST_WINDOWS:
        writes = (one for seen in by_place.values() for one in _writes(seen))
        at_once = max((one.finished + one.back for one in writes if one.finished), default=0)
        if at_once:
            return at_once
    each = max(len(rows) / max(len(known.each_member()), 1), 1.0)
    together: int = max(round(each * ended / records), 1)
    return min(most, together)


# ---- arrivals ------------------------------------------------------------------------------------


def _arrivals(
    base: Scenario, now: Evidence, begin: int, end: int, assumed: list[str]
) -> tuple[Scenario, tuple[Producer, ...]]:
    """Return the group with its logs at the beginning, and what arrived in each partition since.

    Records arrive evenly between the moments at which the end of a log is known. What arrives
    behind a transaction that is open at the end cannot be read.
    """
    rows = now.lag.filter(pc.equal(now.lag.column("group_id"), base.group_id))
    ends = known_ends(rows, now.past_offsets, end)
    at_begin, dated = end_at(ends, np.full(rows.num_rows, begin, np.int64))
    open_from = _open(base, now)
    starts, of_id = dict(base.starts), {one.id: one for one in base.topics}
    producers: list[Producer] = []
    late, left = 0, 0
    for row, (id_, number) in enumerate(
        zip(*(rows.column(name).to_pylist() for name in ("topic_id", "partition")), strict=True)
    ):
        topic = of_id.get(id_)
        start = None if topic is None else starts.get((topic.name, number))
        if topic is None or start is None:
            left += 1
            continue
        mine = ends.place == ends.rows[row]
        times, offsets = _thinned(ends.time[mine], ends.end[mine])
        first = int(at_begin[row]) if dated[row] else start.end_offset
        late += not dated[row]
        window = start.window
        if window is not None:  # delivered already: a clock may be behind
            last = max((one.last_offset + 1 for one in window.batches), default=0)
            first = max(first, last, window.start_offset)
        is_later = times > begin
        times = np.concatenate([[begin], times[is_later]]) - begin
        offsets = np.maximum.accumulate(np.concatenate([[first], offsets[is_later]]))
        blocked = open_from.get((id_, number))
        if blocked is not None and blocked < offsets[-1]:
            assumed.append(
                f"the transaction that is open in {topic.name}:{number} from offset {blocked} "
                "on stays open: nothing from there on can be read"
            )
        starts[topic.name, number] = replace(
            start,
            end_offset=first,
            open_from=blocked if blocked is not None and blocked < first else None,
        )
        weights = tuple(float(place == number) for place in range(topic.partitions))
        producers += _produced(topic.name, weights, times, offsets, blocked)
    if late:
        assumed.append(
            f"the ends of {counted(late, 'partition')} when the span begins are those that were "
            "known last: what arrived before the next known end arrives in the span"
        )
    if left:
        assumed.append(
            f"{counted(left, 'share partition')} without state in the span "
            f"{'is' if left == 1 else 'are'} left out"
        )
    assumed.append(
        "records arrive as they did, evenly between the moments at which ends of logs are known"
    )
    return base.with_starts(starts), tuple(producers)


def _open(base: Scenario, now: Evidence) -> dict[tuple[str, int], int]:
    """Return where a group that reads only committed records could not read on at the end.

    Last stable offsets may be of a later moment: what is still open then was open before.
    """
    if base.settings.isolation_level != "read_committed":
        return {}
    rows = now.logs.filter(pc.is_valid(now.logs.column("last_stable_offset"))).to_pylist()
    return {(row["topic_id"], row["partition"]): row["last_stable_offset"] for row in rows}


def _thinned(times: Any, offsets: Any) -> tuple[Any, Any]:
    """Leave out known ends where there are many, but not the last."""
    every = -(-len(times) // _MOST_STEPS)
    kept = np.arange(len(times))[::-1][:: max(every, 1)][::-1]
    return times[kept], offsets[kept]


def _produced(
    topic: str, weights: tuple[float, ...], times: Any, offsets: Any, blocked: int | None
) -> list[Producer]:
    """Return producers that append as many records as a log grew, each step evenly."""
    if blocked is None or not offsets[0] < blocked < offsets[-1]:
        found = [(times, offsets, False)]
    else:  # the transaction begins with its record
        at = float(np.interp(blocked, offsets, times))
        before, after = times < at, times > at
        found = [
            (np.append(times[before], at), np.append(offsets[before], blocked), False),
            (np.append(at, times[after]), np.append(blocked, offsets[after]), True),
        ]
    made = []
    for when, end, is_open in found:
        whole = np.rint(when).astype(np.int64)
        grown, spans = np.diff(end), np.diff(whole)
        bursts = tuple(
            # A part in a billion more: rounding shall not swallow the last record.
            Burst(int(left), int(right), float(more) / float(span) * 1000 * (1 + 1e-9))
            for left, right, more, span in zip(whole[:-1], whole[1:], grown, spans, strict=True)
            if span > 0
        )
        if grown.sum() and bursts:
            made.append(
                Producer(
                    topic,
                    1.0,
                    "steady",
                    weights=weights,
                    bursts=bursts,
                    begin_ms=int(whole[0]),
                    end_ms=int(whole[-1]),
                    transaction_batches=1 << 40 if is_open else 0,
                    transaction_ms=1e12 if is_open else 10.0,
                )
            )
    return made


# ---- members -------------------------------------------------------------------------------------


def _members(
    base: Scenario,
    then: Evidence,
    now: Evidence,
    group: str,
    begin: int,
    end: int,
    assumed: list[str],
) -> list[Member]:
    """Return the members with when each came and went, as far as it is known."""
    later = [row for row in now.members.to_pylist() if row["group_id"] == group]
    of_group = [row for row in now.groups.to_pylist() if row["group_id"] == group]
    if not of_group:
        return list(base.members)
    there = {row["member_id"] for row in later}
    left = {
        one["member_id"]: one["left_ms"] - begin
        for row in of_group
        for one in row["departures"] or ()
        if begin < one["left_ms"] <= end
    }
    before = {row["member_id"] for row in then.members.to_pylist() if row["group_id"] == group}
    found = [
        replace(one, leave_ms=left.get(one.name)) if one.name not in there else one
        for one in base.members
    ]
    known = {topic.name for topic in base.topics}
    for row in later:
        joined = row["joined"]
        if row["member_id"] in before or joined is None or milliseconds(joined) <= begin:
            continue
        found.append(
            replace(
                base.members[0],
                name=row["member_id"],
                count=1,
                topics=tuple(sorted(known & set(row["subscribed_topic_names"] or ()))),
                rack=row["rack_id"],
                assigned=(),
                join_ms=milliseconds(joined) - begin,
            )
        )
    gone = sorted(before - there)
    came = len(found) - len(base.members)
    if gone or came:
        assumed.append(
            f"{counted(len(gone), 'member')} left and {came} came in the span as the group's "
            "records tell; one that left may have hung for a session timeout before, which they "
            "do not tell"
        )
    if untold := [name for name in gone if name not in left]:
        assumed.append(
            f"{counted(len(untold), 'member')} that left at an unknown moment "
            f"{'stays' if len(untold) == 1 else 'stay'} until the end"
        )
    if brief := left.keys() - before:
        assumed.append(
            f"{counted(len(brief), 'member')} that came and went within the span "
            f"{'is' if len(brief) == 1 else 'are'} left out: when they came is not known"
        )
    return found


def _worked(members: list[Member], counted_as: int, lasts: int, assumed: list[str]) -> list[Member]:
    """Correct the work of a record by how many members did it, where not all were there always.

    It was estimated from what the group completed in the whole span and ``counted_as`` members,
    those that are there at the end.
    """
    spans = ((lasts if one.leave_ms is None else one.leave_ms) - one.join_ms for one in members)
    there = sum(one.count * span for one, span in zip(members, spans, strict=True)) / lasts
    factor = there / counted_as if counted_as and there else 1.0
    if abs(factor - 1) < _SAME:
        return members
    service = members[0].service
    service = replace(service, mean_ms=service.mean_ms * factor)
    assumed.append(
        f"{service.mean_ms:.3g} ms of work for each record then, since {there:.3g} members were "
        "there on average"
    )
    return [replace(one, service=service) for one in members]


def _with_work(scenario: Scenario, happened: pa.Table) -> Scenario:
    """Return the scenario with the work of a record by which its lag is on average what it was.

    Rates alone do not tell it: a member waits while a window is full, works in vain when a lock
    ends, and may be idle where the group has caught up. Where lag was never more than members can
    hold, it is chance, and tells nothing of their work.
    """
    lag, _ = numbers(happened, "lag")
    held = sum(one.count * one.max_poll_records for one in scenario.members)
    if not len(lag) or lag.max() <= held:
        return scenario
    times = happened.column("time_ms").to_numpy()

    def with_factor(factor: float) -> Scenario:
        members = tuple(
            replace(one, service=replace(one.service, mean_ms=one.service.mean_ms * factor))
            for one in scenario.members
        )
        return replace(scenario, members=members)

    def off(log_factor: float) -> float:
        some = with_factor(float(np.exp(log_factor)))
        return float(np.mean([_lag_at(some, seed, times) for seed in range(_SEEDS)]) - lag.mean())

    from scipy.optimize import brentq

    least, most = -np.log(_MOST_WORK), np.log(_MOST_WORK)
    if not off(least) < 0 < off(most):
        return scenario
    found = with_factor(float(np.exp(brentq(off, least, most, xtol=0.01))))
    work = found.members[0].service.mean_ms
    said = f"{work:.3g} ms of work for each record, by which the lag is on average what it was"
    return replace(found, assumed=(*scenario.assumed, said))


def _lag_at(scenario: Scenario, seed: int, times: Any) -> Any:
    """Return the lag of the whole group in one run, at some moments."""
    timeline = simulate(scenario, seed).timeline
    total = timeline.group_by("time_ms").aggregate([("lag", "sum")]).sort_by("time_ms")
    return np.interp(times, *(total.column(one).to_numpy() for one in ("time_ms", "lag_sum")))


# ---- releases, rejects, held locks ---------------------------------------------------------------


def _seen(
    base: Scenario, windows: pa.Table, begin: int, end: int
) -> dict[_Place, list[tuple[int, Window]]]:
    """Return the windows that were looked at in the span, by share partition and time."""
    known = {topic.id: topic.name for topic in base.topics}
    by_place: dict[_Place, list[tuple[int, Window]]] = {}
    moments, _ = numbers(windows, "as_of")
    for (key, window), at in zip(window_items(windows), moments.tolist(), strict=True):
        if key.topic_id in known and begin <= at <= end:
            by_place.setdefault((known[key.topic_id], key.partition), []).append((at, window))
    return by_place


def _fates(
    base: Scenario,
    until: Scenario,
    by_place: Mapping[_Place, list[tuple[int, Window]]],
    alone: Collection[_Place],
    work_ms: float,
    begin: int,
    end: int,
    assumed: list[str],
) -> tuple[tuple[Poison, ...], Behaviour, dict[_Record, _Back]]:
    """Return the records that fail as they did, how members treat all others, and what came back."""
    moments = {at for seen in by_place.values() for at, _ in seen}
    failing = {(one.topic, one.partition, one.offset): one for one in until.poison}
    limits = base.settings.limits
    held = _held(by_place, limits.lock_duration_ms, begin, end)
    # Polls that take as long as locks last come back in the simulation, too.
    is_slow = base.members[0].max_poll_records * work_ms >= _LATE * limits.lock_duration_ms
    ended = _ended(by_place, alone, work_ms, is_slow)
    if ended is None:
        assumed.append(
            f"more than {_MOST_FATES:,} records were given back or archived: shares of them are, "
            "at random"
        )
        back: dict[_Record, _Back] = {}
        fates: dict[_Record, Poison] = {}
        behaviour = until.members[0].behaviour
    else:
        back, archived = ended
        fates = _as_ended(back, archived, base, work_ms)
        behaviour = Behaviour()
    fates |= {record: _hold(record, span) for record, span in held.items() if record not in fates}
    for record, one in failing.items():
        if (known := fates.get(record)) is not None and known.work_ms is not None:
            failing[record] = replace(one, work_ms=known.work_ms)
    fates |= failing  # a record that still fails at the end is not finished as it is
    if any(span > limits.lock_duration_ms for span in held.values()):
        behaviour = replace(behaviour, renew_ms=max(limits.lock_duration_ms // 2, 1))
    longest = max((one.hold_ms or 0 for one in fates.values()), default=0)
    for how, words in (
        ("release", "given back as often as in the history, be it released or its lock expired"),
        ("silent", "held until the lock expires as often as in the history"),
        ("reject", "archived when delivered, as in the history"),
        ("hold", f"held, up to {duration(longest)}, by any member: the holder then is not known"),
    ):  # fmt: skip
        count = sum(one.how == how for key, one in fates.items() if key not in failing)
        if count:
            assumed.append(f"{counted(count, 'record')} {'is' if count == 1 else 'are'} {words}")
    assumed += (
        f"offset {offset} of {topic}:{number} fails at every delivery until it is "
        f"archived at the limit of {limits.delivery_count_limit}, as it still did at the end"
        for topic, number, offset in sorted(failing)
    )
    assumed.append(
        f"what failed between two of the {len(moments)} moments at which windows "
        "were looked at is not known"
    )
    return tuple(one for _, one in sorted(fates.items())), behaviour, back


def _deaths(
    settings: Settings,
    members: list[Member],
    back: Mapping[_Record, _Back],
    work_ms: float,
    begin: int,
    assumed: list[str],
) -> tuple[list[Member], list[Fault], set[_Record]]:
    """Return the members, and when those ended or stopped that did not leave by themselves.

    A group waits a session timeout for one that says nothing any more. The records in its hands
    come back at once where its connection is gone, else when their locks end: also returned.
    """
    found, faults, came_back = [], [], set()
    lock_ms = settings.limits.lock_duration_ms
    for one in members:
        if one.leave_ms is not None:
            last_heard = one.leave_ms - settings.session_timeout_ms
            within = settings.heartbeat_interval_ms + one.max_poll_records * work_ms
            for kind, later in (("crash", 0), ("hang", lock_ms)):
                mine = {
                    record: known.first_ms - begin - later
                    for record, known in back.items()
                    if record[:2] in one.assigned
                    and abs(known.first_ms - begin - later - last_heard) <= within
                }
                if mine and last_heard > 0:
                    at = max(min(mine.values()), 0)
                    faults.append(Fault(at, kind, one.name))  # type: ignore[arg-type]
                    came_back |= mine.keys()
                    how = "ended" if kind == "crash" else "stopped"
                    assumed.append(
                        f"{one.name} {how} {duration(at)} after the beginning, a session timeout "
                        f"before it left, with {counted(len(mine), 'record')} in its hands"
                    )
                    one = replace(one, leave_ms=None)
                    break
        found.append(one)
    return found, faults, came_back


class _Back(NamedTuple):
    """How often a record was given back, and since when and until when it is seen so.

    ``took_ms`` is how long its deliveries took, where one member alone had the share partition,
    without the other records of the poll; ``others`` how many were given back together with it, and ``held_ms`` how long others after it
    had been finished by then, if it was alone; ``late`` how often it came back since the lock of a whole poll had ended.
    """

    times: int
    first_times: int
    first_ms: int
    last_ms: int
    took_ms: tuple[float, ...] = ()
    others: int = 0
    held_ms: int = 0
    late: int = 0

    @property
    def pace_ms(self) -> int | None:
        """How long a delivery took, from the first that is seen on; None: not known."""
        if self.took_ms:
            return round(float(np.median(self.took_ms)))
        more = self.times - self.first_times
        return (self.last_ms - self.first_ms) // more if more and not self.others else None


def _finished(window: Window) -> int:
    """How many offsets are finished, from the log's first on."""
    start = window.effective_start_offset or 0
    spans = (
        one.last_offset + 1 - max(one.first_offset, start)
        for one in window.batches
        if one.delivery_state in (DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED)
    )
    return start + sum(max(span, 0) for span in spans)


def _reached(window: Window) -> int:
    """Where a window ends."""
    start = max(window.start_offset, 0)
    return max((one.last_offset + 1 for one in window.batches), default=start)


def _changes(seen: list[tuple[int, Window]]) -> list[tuple[int, Window]]:
    """Leave out the moments at which only other share partitions changed."""
    changed = [
        one
        for before, one in pairwise(seen)
        if one[1].batches != before[1].batches or one[1].start_offset != before[1].start_offset
    ]
    return [*seen[:1], *changed]


class _Write(NamedTuple):
    """What one record of a share partition's state changed."""

    took: int = 0  # since the one before
    finished: int = 0
    back: int = 0  # records that were given back, or whose lock ended
    is_whole: bool = True  # nothing was given back or archived


def _writes(seen: list[tuple[int, Window]]) -> list[_Write]:
    """Return what each of `_changes` but the first changed."""
    found = []
    for (before_ms, before), (at, window) in pairwise(_changes(seen)):
        failed = _failed(window) - _failed(before)
        back = sum(state == DeliveryState.AVAILABLE for _, _, state in failed)
        finished = _finished(window) - _finished(before)
        found.append(_Write(at - before_ms, finished, back, not failed))
    return found


def _failed(window: Window) -> set[tuple[int, int, int]]:
    """Return the records that were given back or archived: offset, delivery count and state."""
    return {
        (offset, one.delivery_count, one.delivery_state)
        for one in window.batches
        if one.delivery_state != DeliveryState.ACKNOWLEDGED and one.delivery_count
        for offset in range(one.first_offset, one.last_offset + 1)[:_MOST_FATES]
    }


def _full_polls(
    by_place: Mapping[_Place, list[tuple[int, Window]]], alone: Collection[_Place], polled: int
) -> float | None:
    """Return the work of a record, by acknowledgements of full polls that follow one another.

    While there is more than it may poll, a member waits for nothing. None: there were none.
    """
    spent, done = 0, 0
    for place, seen in by_place.items():
        was_full = False
        for one in _writes(seen) if place in alone else ():
            is_full = one.finished >= _FULL * polled
            if was_full and is_full and one.is_whole:
                spent, done = spent + one.took, done + one.finished
            was_full = is_full
    return spent / done if done else None


def _ended(
    by_place: Mapping[_Place, list[tuple[int, Window]]],
    alone: Collection[_Place],
    work_ms: float,
    is_slow: bool,
) -> tuple[dict[_Record, _Back], dict[_Record, int]] | None:
    """Return how often each record was given back, and with which count others were archived.

    None: they are too many to follow one by one.
    """
    back: dict[_Record, _Back] = {}
    archived: dict[_Record, int] = {}
    for place, seen in by_place.items():
        writes = [_Write(), *_writes(seen)]
        reached = [(at, _reached(window)) for at, window in _changes(seen)]
        for (moment_ms, window), write in zip(_changes(seen), writes, strict=True):
            risen: dict[_Record, int] = {}
            for batch in window.batches:
                state, count = batch.delivery_state, batch.delivery_count
                if state == DeliveryState.ACKNOWLEDGED or count < 1:
                    continue
                if batch.last_offset - batch.first_offset >= _MOST_FATES:
                    return None
                for offset in range(batch.first_offset, batch.last_offset + 1):
                    record = (*place, offset)
                    if state == DeliveryState.ARCHIVED:
                        archived[record] = count
                    elif record not in back or count > back[record].times:
                        risen[record] = count
                if len(back) + len(archived) > _MOST_FATES:
                    return None
            each = max(write.took - write.finished * work_ms, 0) / max(len(risen), 1)
            is_late = is_slow and len(risen) > 1 and not write.finished
            for record, count in risen.items():
                if (known := back.get(record)) is None:
                    later = (at for at, end in reached if end > record[2] + 1)
                    held = moment_ms - next(later, moment_ms) if len(risen) == 1 else 0
                    known = _Back(count, count, moment_ms, moment_ms, held_ms=held)
                took_ms = (each,) if place in alone and write.took > 0 else ()
                back[record] = known._replace(
                    times=count,
                    last_ms=moment_ms,
                    took_ms=(*known.took_ms, *took_ms),
                    others=max(known.others, len(risen) - 1),
                    late=known.late + is_late,
                )
    return back, archived


def _as_ended(
    back: dict[_Record, _Back], archived: dict[_Record, int], base: Scenario, work_ms: float
) -> dict[_Record, Poison]:
    """Return what becomes of records again, less what had become of them when it begins."""
    before: dict[_Record, int] = {}
    finished: set[_Record] = set()
    for place, start in base.starts.items():
        for batch in start.window.batches if start.window else ():
            for offset in range(batch.first_offset, batch.last_offset + 1):
                if batch.delivery_state == DeliveryState.AVAILABLE:
                    before[*place, offset] = batch.delivery_count
                else:
                    finished.add((*place, offset))
    limits = base.settings.limits
    found = {}
    for record, known in back.items():
        again = known.times - known.late - before.get(record, 0)
        if again > 0 and record not in finished:
            pace = known.pace_ms
            # As long as a lock or longer: nobody gave it back, and the lock expired.
            expires = pace is not None and pace >= limits.lock_duration_ms
            if pace is not None and pace < _SLOW * work_ms:
                pace = None  # like any other record
            polled = base.members[0].max_poll_records
            found[record] = (
                Poison(*record, "silent", again)
                if expires
                else Poison(*record, "hold", again, hold_ms=limits.lock_duration_ms)
                if known.held_ms and known.held_ms + polled * work_ms >= limits.lock_duration_ms
                else Poison(*record, "release", again, pace)
            )
    for record, count in archived.items():
        if record in finished:
            continue
        if count >= limits.delivery_count_limit:  # every delivery failed
            like = found.get(record, Poison(*record, "release"))
            found[record] = replace(like, attempts=Poison.attempts)
        else:
            found[record] = Poison(*record, "reject")
    return found


def _held(
    by_place: Mapping[_Place, list[tuple[int, Window]]], lock_ms: int, begin: int, end: int
) -> dict[_Record, int]:
    """Return records that pinned a window longer than a lock lasts and were not given back.

    Others were finished behind them meanwhile, so somebody held them and renewed the lock. By
    record, for how many milliseconds; where it was still so at the end, for the whole span.
    """
    found: dict[_Record, int] = {}
    for place, seen in by_place.items():
        since: tuple[int, int, Window] | None = None
        step = (end - begin) / max(len(seen), 1)
        for at, window in seen:
            head = head_of(window, _NO_END)
            if head is None or any(
                one.first_offset <= head <= one.last_offset and one.delivery_count
                for one in window.batches
            ):
                since = None
                continue
            if since is None or since[0] != head:
                since = (head, at, window)
            spent = at - since[1]
            if spent > max(lock_ms, 2 * step) and window.batches != since[2].batches:
                is_last = at == seen[-1][0]
                found[*place, head] = end - begin if is_last else spent
    return found


def _hold(record: _Record, span: int) -> Poison:
    return Poison(*record, "hold", attempts=1, hold_ms=span)
