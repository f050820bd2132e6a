"""The outcomes of records in a span of a group's history, from windows within it.

They also show processing times, poll sizes, and when members died.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from itertools import pairwise
from math import gcd
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from sharelag.durations import duration
from sharelag.metrics.columns import numbers
from sharelag.model import TERMINAL_STATES, DeliveryState, Window
from sharelag.replay.state import window_items
from sharelag.tables.words import pluralize
from sharelag.whatif.estimates import deliveries_of, head_of
from sharelag.whatif.scenario import Behaviour, Fault, Member, Poison, Scenario, Service, Settings

#: A topic name and a partition; with an offset, one record.
Place: TypeAlias = tuple[str, int]
Record: TypeAlias = tuple[str, int, int]
#: The observed windows of each share partition with their times, in order.
Seen: TypeAlias = Mapping[Place, list[tuple[int, Window]]]
#: Upper bound of records that are followed individually; more are simulated by shares.
MOST_FATES = 5_000
#: A poll is full from this share of its maximum.
_FULL = 0.9
#: If polls take this share of a lock on average, some take longer than a lock.
_LATE = 0.5
#: Upper bound of a member's work per time that passes, for rough measurements.
_TOO_BUSY = 1.25
#: A record is slow from this multiple of the work of others.
_SLOW = 5.0
#: A window does not show the end of its log.
_NO_END = 1 << 62


def seen_windows(
    base: Scenario, windows: pa.Table, begin: int, end: int
) -> dict[Place, list[tuple[int, Window]]]:
    """Return the windows within the span, by share partition and time."""
    known = {topic.id: topic.name for topic in base.topics}
    by_place: dict[Place, list[tuple[int, Window]]] = {}
    moments, _ = numbers(windows, "as_of")
    for (key, window), at in zip(window_items(windows), moments.tolist(), strict=True):
        if key.topic_id in known and begin <= at <= end:
            by_place.setdefault((known[key.topic_id], key.partition), []).append((at, window))
    return by_place


def record_batch(by_place: Seen) -> int:
    """Return the records of a record batch, by which all ends of windows are divisible."""
    windows = (window for seen in by_place.values() for _, window in _find_changes(seen))
    return max(gcd(*map(find_delivered_end, windows)), 1)


def most_at_once(by_place: Seen) -> int:
    """Return the most records acknowledged together, or 0."""
    writes = (one for seen in by_place.values() for one in _find_writes(seen))
    return max((one.finished + one.back for one in writes if one.finished), default=0)


def fates_of(
    base: Scenario,
    until: Scenario,
    by_place: Seen,
    alone: Set[Place],
    work_ms: float,
    begin: int,
    end: int,
    assumed: list[str],
) -> tuple[tuple[Poison, ...], Behaviour, dict[Record, Back]]:
    """Return the records that fail as before, the behaviour for others, and what came back."""
    many = len({at for seen in by_place.values() for at, _ in seen})
    failing = {(one.topic, one.partition, one.offset): one for one in until.poison}
    limits = base.settings.limits
    held = _find_held(by_place, limits.lock_duration_ms, begin, end)
    # If polls take as long as locks, locks expire in the simulation, too.
    is_slow = base.members[0].max_poll_records * work_ms >= _LATE * limits.lock_duration_ms
    back, fates, behaviour = dict[Record, Back](), dict[Record, Poison](), Behaviour()
    if (ended := _find_ended(by_place, alone, work_ms, is_slow)) is not None:
        back, archived = ended
        fates = _repeat_ended(back, archived, base, work_ms)
    else:
        assumed.append(
            f"more than {MOST_FATES:,} records were released or archived: the simulation releases "
            "and archives the same shares, at random"
        )
        behaviour = until.members[0].behaviour
    for record, span in held.items():
        fates.setdefault(record, Poison(*record, "hold", attempts=1, hold_ms=span))
    for record, one in failing.items():  # a record that fails at the end is not finished before
        known = fates.get(record)
        work = one.work_ms if known is None or known.work_ms is None else known.work_ms
        fates[record] = replace(one, work_ms=work)
    if any(span > limits.lock_duration_ms for span in held.values()):
        behaviour = replace(behaviour, renew_ms=max(limits.lock_duration_ms // 2, 1))
    longest = max((one.hold_ms or 0 for one in fates.values()), default=0)
    for how, words in (
        ("release", "returned as often as in the history, by a release or an expired lock"),
        ("silent", "held until the lock expires as often as in the history"),
        ("reject", "archived when delivered, as in the history"),
        ("hold", f"held, up to {duration(longest)}, by any member: the real holder is not known"),
    ):  # fmt: skip
        if count := sum(one.how == how for key, one in fates.items() if key not in failing):
            assumed.append(f"{pluralize(count, 'record')} {'is' if count == 1 else 'are'} {words}")
    assumed += (
        f"offset {offset} of {topic}:{number} fails at every delivery until it is "
        f"archived at the limit of {limits.delivery_count_limit}, as it still did at the end"
        for topic, number, offset in sorted(failing)
    )
    assumed.append(f"failures between two of the {many} moments with known windows are not known")
    return tuple(one for _, one in sorted(fates.items())), behaviour, back


def deaths(
    settings: Settings,
    members: list[Member],
    back: Mapping[Record, Back],
    work_ms: float,
    begin: int,
    assumed: list[str],
) -> tuple[list[Member], list[Fault], set[Record]]:
    """Return members and faults for members that died or stopped without leaving.

    A silent member leaves the group after a session timeout. Its records come back at once if its
    connection is gone, otherwise when their locks expire; they are returned as well.
    """
    found: list[Member] = []
    faults: list[Fault] = []
    came_back: set[Record] = set()
    # The delays with which records come back from a member that ended, and from one that stopped.
    locked_ms = settings.limits.lock_duration_ms
    ways: tuple[tuple[Literal["crash", "hang"], str, int], ...]
    ways = (("crash", "ended", 0), ("hang", "stopped", locked_ms))
    for one in members:
        found.append(one)
        last_heard = (one.leave_ms or 0) - settings.session_timeout_ms
        within = settings.heartbeat_interval_ms + one.max_poll_records * work_ms
        for kind, how, later in ways if last_heard > 0 else ():
            mine = {
                record: known.first_ms - begin - later
                for record, known in back.items()
                if record[:2] in one.assigned
                and abs(known.first_ms - begin - later - last_heard) <= within
            }
            if mine:
                at = max(min(mine.values()), 0)
                faults.append(Fault(at, kind, one.name))
                came_back |= mine.keys()
                assumed.append(
                    f"{one.name} {how} {duration(at)} after the beginning, a session timeout "
                    f"before it left, while it held {pluralize(len(mine), 'record')}"
                )
                found[-1] = replace(one, leave_ms=None)
                break
    return found, faults, came_back


class Back(NamedTuple):
    """How often a record was released, and the first and last time."""

    times: int
    first_ms: int
    last_ms: int
    # without other records of the poll: the time of its deliveries, if its share partition has a
    # single member, and the time between releases otherwise
    took_ms: tuple[float, ...] = ()
    apart_ms: tuple[float, ...] = ()
    others: int = 0  # released together with it
    held_ms: int = 0  # time since a later record was finished, if it was released alone
    late: int = 0  # how often the lock of a whole poll had expired

    @property
    def pace_ms(self) -> int | None:
        """The time of a delivery, or None if unknown."""
        if self.took_ms:
            return round(float(np.median(self.took_ms)))
        # With several members it waits for one each time, least in the shortest interval.
        return round(min(self.apart_ms)) if self.apart_ms and not self.others else None


def _count_finished(window: Window) -> int:
    """Return the number of finished offsets, counted from the first offset of the log."""
    start = window.effective_start_offset or 0
    runs = (one for one in window.batches if one.delivery_state in TERMINAL_STATES)
    spans = (one.last_offset + 1 - max(one.first_offset, start) for one in runs)
    return start + sum(max(span, 0) for span in spans)


def find_delivered_end(window: Window) -> int:
    """Return the first offset that was not delivered yet."""
    return max(window.start_offset, 0, *(one.last_offset + 1 for one in window.batches))


def _find_changes(seen: list[tuple[int, Window]]) -> list[tuple[int, Window]]:
    """Drop the moments at which only other share partitions changed."""
    changed = [
        one
        for before, one in pairwise(seen)
        if one[1].batches != before[1].batches or one[1].start_offset != before[1].start_offset
    ]
    return [*seen[:1], *changed]


class _Write(NamedTuple):
    took: int = 0  # since the previous write
    finished: int = 0
    back: int = 0  # records released, or with an expired lock
    is_whole: bool = True  # nothing was released or archived


def _find_writes(seen: list[tuple[int, Window]]) -> list[_Write]:
    """Return the changes between successive windows of `_find_changes`."""
    found = []
    for (before_ms, before), (at, window) in pairwise(_find_changes(seen)):
        failed = _find_failed(window) - _find_failed(before)
        back = sum(state == DeliveryState.AVAILABLE for _, _, state in failed)
        finished = _count_finished(window) - _count_finished(before)
        found.append(_Write(at - before_ms, finished, back, not failed))
    return found


def _find_failed(window: Window) -> set[tuple[int, int, int]]:
    """Return the records released or archived: offset, delivery count and state."""
    return {
        (offset, one.delivery_count, one.delivery_state)
        for one in window.batches
        if one.delivery_state != DeliveryState.ACKNOWLEDGED and one.delivery_count
        for offset in range(one.first_offset, one.last_offset + 1)[:MOST_FATES]
    }


def time_full_polls(by_place: Seen, alone: Set[Place], polled: int, service: Service) -> Service:
    """Return the service of members, measured by successive full polls if there are any.

    While its backlog is larger than a poll, a member waits for nothing. If another member finished
    more records than this allows, the records of its share partition are less work.
    """
    each: dict[Place, list[float]] = {}
    rates: dict[Place, float] = {}  # records a millisecond
    for place in by_place.keys() & alone:
        writes, was_full = _find_writes(by_place[place]), False
        took = sum(one.took for one in writes[1:])  # no work before the first
        rates[place] = sum(one.finished for one in writes[1:]) / max(took, 1)
        for one in writes:
            is_full = one.finished >= _FULL * polled
            if was_full and is_full and one.is_whole:
                each.setdefault(place, []).append(one.took / one.finished)
            was_full = is_full
    if not each or not service.mean_ms:
        return service
    # A median, because some polls wait for another member after one has died.
    mean_ms = float(np.median([one for times in each.values() for one in times]))
    busy = (rate * mean_ms for place, rate in rates.items() if place not in each)
    if max(busy, default=0) <= _TOO_BUSY:
        return replace(service, mean_ms=mean_ms)
    apart = ((place, float(np.median(each[place])) / service.mean_ms) for place in sorted(each))
    return replace(service, by_partition=tuple(apart))


def _find_ended(
    by_place: Seen, alone: Set[Place], work_ms: float, is_slow: bool
) -> tuple[dict[Record, Back], dict[Record, int]] | None:
    """Return how often each record was released or archived; None if there are too many."""
    back: dict[Record, Back] = {}
    archived: dict[Record, int] = {}
    for place, seen in by_place.items():
        changes, writes = _find_changes(seen), [_Write(), *_find_writes(seen)]
        ends = [(at, find_delivered_end(window)) for at, window in changes]
        for (moment_ms, window), write in zip(changes, writes, strict=True):
            risen: dict[Record, int] = {}
            for batch in window.batches:
                state, count = batch.delivery_state, batch.delivery_count
                if state == DeliveryState.ACKNOWLEDGED or count < 1:
                    continue
                if batch.last_offset - batch.first_offset >= MOST_FATES:
                    return None
                for offset in range(batch.first_offset, batch.last_offset + 1):
                    record = (*place, offset)
                    if state == DeliveryState.ARCHIVED:
                        archived[record] = count
                    elif record not in back or count > back[record].times:
                        risen[record] = count
                if len(back) + len(archived) > MOST_FATES:
                    return None
            each = max(write.took - write.finished * work_ms, 0) / max(len(risen), 1)
            is_late = is_slow and len(risen) > 1 and not write.finished
            for record, count in risen.items():
                if (known := back.get(record)) is None:
                    later = (at for at, end in ends if end > record[2] + 1)
                    held = moment_ms - next(later, moment_ms) if len(risen) == 1 else 0
                    known = Back(count, moment_ms, moment_ms, held_ms=held)
                took_ms = (each,) if place in alone and write.took > 0 else ()
                apart_ms = moment_ms - known.last_ms - write.finished * work_ms
                apart = (apart_ms / (count - known.times),) if count > known.times else ()
                back[record] = known._replace(
                    times=count,
                    last_ms=moment_ms,
                    took_ms=(*known.took_ms, *took_ms),
                    apart_ms=(*known.apart_ms, *apart),
                    others=max(known.others, len(risen) - 1),
                    late=known.late + is_late,
                )
    return back, archived


def _repeat_ended(
    back: dict[Record, Back], archived: dict[Record, int], base: Scenario, work_ms: float
) -> dict[Record, Poison]:
    """Return poison for records as they failed, without deliveries before the start."""
    before: dict[Record, int] = {}
    finished: set[Record] = set()
    for place, start in base.starts.items():
        for batch in start.window.batches if start.window else ():
            for offset in range(batch.first_offset, batch.last_offset + 1):
                if batch.delivery_state == DeliveryState.AVAILABLE:
                    before[*place, offset] = batch.delivery_count
                else:
                    finished.add((*place, offset))
    limits, polled = base.settings.limits, base.members[0].max_poll_records
    lock_ms = limits.lock_duration_ms
    found = {}
    for record, known in back.items():
        again, pace = known.times - known.late - before.get(record, 0), known.pace_ms
        if again <= 0 or record in finished:
            continue
        # As long as a lock or longer: it was not released, but its lock expired.
        if pace is not None and pace >= lock_ms:
            found[record] = Poison(*record, "silent", again)
        elif known.held_ms and known.held_ms + polled * work_ms >= lock_ms:
            found[record] = Poison(*record, "hold", again, hold_ms=lock_ms)
        else:  # a short time is that of any record
            work = None if pace is None or pace < _SLOW * work_ms else pace
            found[record] = Poison(*record, "release", again, work)
    for record, count in archived.items():
        if record not in finished:
            one = Poison(*record, "reject")
            if count >= limits.delivery_count_limit:  # every delivery failed
                one = replace(found.get(record, Poison(*record)), attempts=Poison.attempts)
            found[record] = one
    return found


def _find_held(by_place: Seen, lock_ms: int, begin: int, end: int) -> dict[Record, int]:
    """Return how long records pinned a window beyond a lock without a release.

    Later records were finished meanwhile, so a member held them and renewed the lock; if this
    lasted to the end, for the whole span.
    """
    found: dict[Record, int] = {}
    for place, seen in by_place.items():
        since: tuple[int, int, Window] | None = None
        step = (end - begin) / max(len(seen), 1)
        for at, window in seen:
            head = head_of(window, _NO_END)
            if head is None or deliveries_of(window, head):
                since = None
                continue
            if since is None or since[0] != head:
                since = (head, at, window)
            spent = at - since[1]
            if spent > max(lock_ms, 2 * step) and window.batches != since[2].batches:
                is_last = at == seen[-1][0]
                found[*place, head] = end - begin if is_last else spent
    return found
