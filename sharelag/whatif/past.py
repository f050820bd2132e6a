"""A span of a share group's history: what happened, and a scenario that begins as it began.

Its records arrive as they did then, members come and go as far as the group's own records tell,
and what the history of state records shows to have failed fails again: a record that was given
back three times is given back three times by any member.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
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
    Member,
    Poison,
    Producer,
    Scenario,
    Service,
)
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
#: Moments between which arrivals are even, at most.
_MOST_STEPS = 120
#: Members whose number differs by less than this part of it did the same work.
_SAME = 0.02
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
        past_offsets=schemas.OFFSETS.empty_table(),
        observed=schemas.OBSERVED.empty_table(),
        logs=_without_stable(then.logs),
    )
    like = as_known.members[0]
    base = scenario_from(
        without,
        group,
        service=like.service,
        behaviour=Behaviour(),
        max_poll_records=_polled(now, group, as_known),
    )
    assumed = [one for one in as_known.assumed if one not in estimated.assumed]
    assumed += [one for one in base.assumed if getattr(one, "code", "") != "arrivals"] + later
    base, producers = _arrivals(base, now, begin, end, assumed)
    members = _members(base, then, now, group, begin, end, assumed)
    if service is None:
        members = _worked(members, len(as_known.each_member()), lasts, assumed)
    poison, behaviour = _fates(base, as_known, windows, begin, end, assumed)
    scenario = replace(
        base,
        producers=producers,
        members=tuple(replace(one, behaviour=behaviour) for one in members),
        poison=poison,
        duration_ms=lasts,
        step_ms=max(lasts // 600, 100),
        about=f"The share group {group}, from {moment(then.as_of)} to {moment(now.as_of)}",
        assumed=tuple(assumed),
    )
    return Past(scenario, _happened(timeline, now.past_offsets, begin, end))


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


def _polled(now: Evidence, group: str, known: Scenario) -> int:
    """Return records of a poll: as many as were acknowledged together, over a member's partitions.

    Each acknowledgement of a share partition is one state record.
    """
    rows = [row for row in now.observed.to_pylist() if row["group_id"] == group]
    records = sum(row["records"] or 0 for row in rows)
    ended = sum((row["finished"] or 0) + (row["released"] or 0) for row in rows)
    most: int = known.members[0].max_poll_records
    if not records or not ended:
        return most
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


# ---- releases, rejects, held locks ---------------------------------------------------------------


def _fates(
    base: Scenario,
    until: Scenario,
    windows: pa.Table,
    begin: int,
    end: int,
    assumed: list[str],
) -> tuple[tuple[Poison, ...], Behaviour]:
    """Return the records that fail as they did, and how members treat all others."""
    known = {topic.id: topic.name for topic in base.topics}
    by_place: dict[_Place, list[tuple[int, Window]]] = {}
    moments, _ = numbers(windows, "as_of")
    for (key, window), at in zip(window_items(windows), moments.tolist(), strict=True):
        if key.topic_id in known and begin <= at <= end:
            by_place.setdefault((known[key.topic_id], key.partition), []).append((at, window))
    failing = {(one.topic, one.partition, one.offset): one for one in until.poison}
    limits = base.settings.limits
    held = _held(by_place, limits.lock_duration_ms, begin, end)
    ended = _ended(by_place)
    if ended is None:
        assumed.append(
            f"more than {_MOST_FATES:,} records were given back or archived: shares of them are, "
            "at random"
        )
        fates: dict[_Record, Poison] = {}
        behaviour = until.members[0].behaviour
    else:
        fates = _as_ended(*ended, base)
        behaviour = Behaviour()
    fates |= {record: _hold(record, span) for record, span in held.items() if record not in fates}
    fates |= failing  # a record that still fails at the end is not finished as it is
    if any(span > limits.lock_duration_ms for span in held.values()):
        behaviour = replace(behaviour, renew_ms=max(limits.lock_duration_ms // 2, 1))
    longest = max(held.values(), default=0)
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
        f"what failed between two of the {len(set(moments.tolist()))} moments at which windows "
        "were looked at is not known"
    )
    return tuple(one for _, one in sorted(fates.items())), behaviour


class _Back(NamedTuple):
    """How often a record was given back, and since when and until when it is seen so."""

    times: int
    first_times: int
    first_ms: int
    last_ms: int

    @property
    def pace_ms(self) -> int | None:
        """How long a delivery took, from the first that is seen on; None: not known."""
        more = self.times - self.first_times
        return (self.last_ms - self.first_ms) // more if more else None


def _ended(
    by_place: Mapping[_Place, list[tuple[int, Window]]],
) -> tuple[dict[_Record, _Back], dict[_Record, int]] | None:
    """Return how often each record was given back, and with which count others were archived.

    None: they are too many to follow one by one.
    """
    back: dict[_Record, _Back] = {}
    archived: dict[_Record, int] = {}
    for place, seen in by_place.items():
        for moment_ms, window in seen:
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
                        continue
                    known = back.get(record, _Back(count, count, moment_ms, moment_ms))
                    if count > known.times:
                        known = known._replace(times=count, last_ms=moment_ms)
                    back[record] = known
                if len(back) + len(archived) > _MOST_FATES:
                    return None
    return back, archived


def _as_ended(
    back: dict[_Record, _Back], archived: dict[_Record, int], base: Scenario
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
        again = known.times - before.get(record, 0)
        if again > 0 and record not in finished:
            pace = known.pace_ms
            # As long as a lock or longer: nobody gave it back, and the lock expired.
            expires = pace is not None and pace >= limits.lock_duration_ms
            found[record] = (
                Poison(*record, "silent", again)
                if expires
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
