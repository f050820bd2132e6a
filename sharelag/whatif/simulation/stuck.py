"""Offsets of the lag that more members would not finish.

What `sharelag export` finds from the records of a cluster, found here from what the share
coordinator received and from the log. The rules are those of `sharelag.metrics.finders`; a test
holds both against each other.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import heappop, heappush

from sharelag.model import TERMINAL_STATES, DeliveryState, StateBatch, Window
from sharelag.whatif.scenario import Settings
from sharelag.whatif.simulation.clock import MS
from sharelag.whatif.simulation.logs import Log

_AVAILABLE, _ARCHIVED = int(DeliveryState.AVAILABLE), int(DeliveryState.ARCHIVED)
_TERMINAL = frozenset(map(int, TERMINAL_STATES))


def stuck(
    window: Window, log: Log, settings: Settings, since: int, now: int, is_compacted: bool
) -> int:
    """Offsets of one share partition that more members would not finish; never more than its lag.

    Parameters
    ----------
    window : Window
        As persisted.
    log : Log
    settings : Settings
        Of the group. What has not moved for as long as a lock lasts is stuck.
    since : int
        Since when the first unfinished offset is that, in microseconds, as ``now``.
    is_compacted : bool
        Whether the topic is.
    """
    at = _partition(window, log, settings, since, now, is_compacted)
    if at is None or at.lag <= 0:
        return 0
    held = max(find(at) for find in _FINDERS) if at.left > 0 else 0
    return min(max(held, 0), at.lag)


class Heads:
    """Find since when the first unfinished offset of each share partition is the first."""

    def __init__(self, places: int) -> None:
        self._seen = 0
        self._since = [0] * places
        self._beyond: list[list[tuple[int, int]]] = [[] for _ in range(places)]

    def note(self, finished: list[tuple[int, int, int, int]]) -> None:
        """Take up what was finished since the last time: place, first and last offset, time."""
        for place, first, _, time in finished[self._seen :]:
            heappush(self._beyond[place], (first, time))
        self._seen = len(finished)

    def since(self, place: int, head: int) -> int:
        """When the last of the offsets before the head was finished, in microseconds."""
        beyond = self._beyond[place]
        while beyond and beyond[0][0] < head:
            self._since[place] = max(self._since[place], heappop(beyond)[1])
        return self._since[place]


@dataclass(frozen=True, slots=True)
class _Partition:
    """The columns of the lag table, and what the finders ask the log."""

    lag: int
    left: int  # effective lag
    head: int  # effective start offset
    head_length: int
    end: int
    stable_end: int
    window_end: int
    unread: int
    available: int
    beyond: int  # finished, after the head
    last_try: int  # offsets with one delivery left
    given_up: int
    lost: int
    gone: int  # offsets without a record among those left
    next_record: int  # the end offset when there is none
    next_unread: int
    log_start: int
    is_stuck: bool
    is_open: bool  # a transaction, for longer than patience
    is_compacted: bool
    locks: int

    @property
    def is_hole(self) -> bool:
        return self.next_record >= self.head + self.head_length


def _partition(
    window: Window, log: Log, settings: Settings, since: int, now: int, is_compacted: bool
) -> _Partition | None:
    effective = window.effective_start_offset
    if effective is None:
        return None
    limits, reads_committed = settings.limits, settings.isolation_level == "read_committed"
    end, patience = log.end(now), limits.lock_duration_ms * MS
    stable = log.fetch_end(now) if reads_committed else end
    head, runs = max(effective, log.start), window.runs
    window_end = max(
        (batch.last_offset + 1 for batch in window.batches), default=window.start_offset
    )
    complete = (
        _size(runs, lambda run: run.delivery_state in _TERMINAL) + effective - window.start_offset
    )
    finished = _size(runs, lambda run: run.delivery_state in _TERMINAL, head) + max(
        effective - head, 0
    )
    left = max(end, window_end) - head - finished
    least = max(limits.delivery_count_limit - 1, 2)
    first = runs[0].first_offset if runs else head
    return _Partition(
        lag=end - window.start_offset - window.delivery_complete_count,
        left=left,
        head=head,
        head_length=first - head if first > head else runs[0].last_offset + 1 - head if runs else 0,
        end=end,
        stable_end=stable,
        window_end=window_end,
        unread=max(end - max(window_end, window.start_offset), 0),
        available=_size(runs, lambda run: run.delivery_state == _AVAILABLE),
        beyond=complete - (head - window.start_offset),
        last_try=_size(
            runs, lambda run: run.delivery_state == _AVAILABLE and run.delivery_count >= least
        ),
        given_up=_size(
            window.batches,
            lambda run: (
                run.delivery_state == _ARCHIVED
                and run.delivery_count >= limits.delivery_count_limit
            ),
        ),
        lost=max(end, window_end) - window.start_offset - complete - left,
        gone=len(log.gaps(head, end - 1)) if is_compacted else 0,
        next_record=_next_record(log, head, stable, end),
        next_unread=_next_record(log, max(window_end, window.start_offset), stable, end),
        log_start=log.start,
        is_stuck=now - since > patience,
        is_open=stable < end and now - log.appended(stable) > patience,
        is_compacted=is_compacted,
        locks=limits.max_record_locks,
    )


def _poison_records(at: _Partition) -> int:
    return at.last_try or (at.head_length if at.given_up else 0)


def _head_of_line(at: _Partition) -> int:
    return at.head_length if at.beyond > 0 and at.is_stuck and not at.is_hole else 0


def _window_full(at: _Partition) -> int:
    return at.unread if at.window_end - at.head >= at.locks and at.is_stuck else 0


def _open_transaction(at: _Partition) -> int:
    return at.end - max(at.stable_end, at.head) if at.is_open else 0


def _markers(at: _Partition) -> int:
    nothing_unread = at.unread == 0 or at.next_unread >= at.end
    nothing = at.next_record >= at.end or (at.is_hole and nothing_unread and at.available == 0)
    return at.left if nothing and at.stable_end >= at.end and not at.is_compacted else 0


def _compaction_holes(at: _Partition) -> int:
    return at.gone if 2 * at.gone >= at.left else 0


def _records_deleted(at: _Partition) -> int:
    return 0 if at.lost <= 1 and at.end == at.log_start else at.lost


_FINDERS: tuple[Callable[[_Partition], int], ...] = (
    _poison_records,
    _head_of_line,
    _window_full,
    _open_transaction,
    _markers,
    _compaction_holes,
    _records_deleted,
)


def _size(runs: Iterable[StateBatch], chosen: Callable[[StateBatch], bool], start: int = 0) -> int:
    return sum(
        max(run.last_offset - max(run.first_offset, start) + 1, 0) for run in runs if chosen(run)
    )


def _next_record(log: Log, offset: int, stable: int, end: int) -> int:
    """The first offset from one on with a record for the group; else the end offset."""
    while offset < stable:
        if log.gaps(offset, offset):
            offset += 1
        else:
            batch = bisect_right(log.bases, offset) - 1
            if log.bases[batch] not in log.aborted:
                return offset
            offset = log.bases[batch + 1]
    return end
