"""Acquire records for a fetch, and find where the next one begins."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import islice
from operator import itemgetter

from sharelag.whatif.partition.movement import archive, archive_stale
from sharelag.whatif.partition.state import ACQUIRED, AVAILABLE, InFlightBatch, OffsetRun, State
from sharelag.whatif.partition.values import Acquired, LogBatch


def acquire(
    state: State,
    member: str,
    fetched: Sequence[LogBatch],
    fetch_offset: int,
    max_records: int,
    batch_size: int,
    record_limit: bool,
    aborted: Sequence[LogBatch],
) -> list[Acquired]:
    """Acquire what a fetch of the log brought; see `SharePartition.acquire`."""
    if max_records <= 0 or not fetched or fetched[-1].last_offset < state.start_offset:
        return []
    room, last = _room(state, fetch_offset, max_records, fetched[-1].last_offset)
    if room <= 0:
        return []
    base = fetched[0].base_offset
    archive_stale(state, fetch_offset, base)
    begin = _begin(state, base)
    if min(base, begin) > last:
        # at capacity, and the log has nothing left to deliver again: Kafka fails this fetch
        return []
    fetch = _Fetch(state, member, fetched, batch_size, record_limit, base, last)
    overlapping = state.between(min(base, begin), last)
    acquired = (
        fetch.known_and_new(overlapping, begin, room)
        if overlapping
        else fetch.new(begin, last, room)[0]
    )
    return without_aborted(state, acquired, aborted) if aborted and acquired else acquired


def next_fetch_offset(state: State) -> int:
    """Where the next fetch begins; the search may find that nothing is to be redelivered."""
    nothing = not state.batches or state.start_offset > state.batches[-1].last
    offset = _available_offset(state) if state.find_next_fetch_offset and not nothing else None
    if offset is not None:
        return offset
    state.find_next_fetch_offset = False
    return state.end_offset if nothing else state.end_offset + 1


def in_flight_span(state: State) -> int:
    """Offsets from start to end, finished ones and holes included (``numInFlightRecords``)."""
    return state.end_offset - state.start_offset + 1 if state.batches else 0


def _available_offset(state: State) -> int | None:
    gap = state.gap_window_start if state.gap_window_active else None
    begin = max(state.floor(state.none_available_before), 0) if gap is None else 0
    for batch in islice(state.batches, begin, None):
        if gap is not None:
            if batch.first > gap:
                return gap
            gap = max(gap, batch.last + 1)
        for run in batch.runs:
            if run.state == AVAILABLE:
                state.none_available_before = run.first
                return run.first
    state.none_available_before = state.end_offset
    return None


def _room(state: State, fetch_offset: int, max_records: int, last: int) -> tuple[int, int]:
    """How many records may be acquired, up to where (``lastOffsetAndMaxRecordsToAcquire``)."""
    room = min(max_records, state.limits.max_record_locks - in_flight_span(state))
    if (
        room <= 0 and fetch_offset <= state.end_offset
    ):  # no room for new records, but there are some to deliver again
        return min(max_records, state.end_offset - fetch_offset + 1), min(last, state.end_offset)
    return room, last


def _begin(state: State, base: int) -> int:
    """Where to look from: a fetch may begin within a batch in flight, or before the start."""
    at = state.floor(base)
    if at < 0:
        return max(base, state.start_offset)
    batch = state.batches[at]
    return batch.first if batch.last >= base else base


class _Fetch:
    """One fetch on its way through the batches in flight."""

    def __init__(
        self,
        state: State,
        member: str,
        fetched: Sequence[LogBatch],
        batch_size: int,
        record_limit: bool,
        base: int,
        last: int,
    ) -> None:
        self.state, self.member, self.fetched = state, member, fetched
        self.batch_size, self.record_limit = batch_size, record_limit
        self.base, self.last = base, last

    def known_and_new(
        self, overlapping: Sequence[InFlightBatch], begin: int, room: int
    ) -> list[Acquired]:
        """Acquire from batches in flight, from unknown holes between them, and after them."""
        state, acquired, count = self.state, [], 0
        for batch in overlapping:
            if count >= room:
                break
            if state.gap_window_active:
                if begin < batch.first:
                    from_gap, number = self.new(begin, batch.first - 1, room - count)
                    acquired += from_gap
                    count += number
                begin = batch.last + 1
                if count >= room:
                    break
            elif not batch.split and batch.runs[0].state != AVAILABLE:
                continue
            throttle = throttled(state, batch, self.base, self.last)
            if throttle and count > 0:
                room = 0  # what failed often waits for a separate fetch
                break
            number = self._known(batch, room - count, throttle, acquired)
            count += number
            if throttle and number > 0:
                room = 0
                break
        end = overlapping[-1].last
        if count < room and end < self.last:
            acquired += self.new(end + 1, self.last, room - count)[0]
        if acquired:
            _shrink_gap_window(state, acquired[-1].last_offset + 1)
        return acquired

    def new(self, first: int, last: int, room: int) -> tuple[list[Acquired], int]:
        """Acquire new offsets, up to the end of a record batch (``acquireNewBatchRecords``)."""
        state = self.state
        acquired_last = last
        if room < last - first + 1:
            acquired_last = self._aligned(first + room - 1)
            if state.gap_window_active and acquired_last > last:
                acquired_last = last  # not into the batch after the hole
        acquired = self._add(first, acquired_last, room)
        if state.firsts[0] == first:
            state.start_offset = first
        state.end_offset = max(state.end_offset, acquired_last)
        acquired_last = acquired[-1].last_offset
        _shrink_gap_window(state, acquired_last + 1)
        return acquired, acquired_last - first + 1

    def _known(
        self, batch: InFlightBatch, room: int, throttle: bool, acquired: list[Acquired]
    ) -> int:
        """Acquire what is available of a batch in flight; returns how many offsets."""
        state = self.state
        whole = batch.first >= self.base and batch.last <= self.last
        size = batch.last - batch.first + 1
        if batch.split or not whole or throttle or (self.record_limit and size > room):
            if not batch.split:
                if batch.whole.state != AVAILABLE:
                    return 0
                state.split(batch)
            limit = room if self.record_limit else None
            return acquire_offsets(state, self.member, batch, self.base, self.last, limit, acquired)
        if batch.whole.state != AVAILABLE:
            return 0
        count = batch.whole.deliveries + 1
        batch.runs = [state.acquired(batch, batch.first, batch.last, count, self.member)]
        acquired.append(Acquired(batch.first, batch.last, count))
        return size

    def _aligned(self, offset: int) -> int:
        """The end of the record batch that holds an offset; the offset itself in a hole."""
        at = bisect_right(self.fetched, offset, key=itemgetter(0)) - 1
        return max(self.fetched[at].last_offset, offset) if at >= 0 else offset

    def _add(self, first: int, last: int, room: int) -> list[Acquired]:
        """Put new batches in flight (``createBatches``)."""
        state = self.state
        if self.record_limit and last - first + 1 > room:
            batch = InFlightBatch(first, last, [], split=True)
            taken = state.acquired(batch, first, first + room - 1, 1, self.member)
            batch.runs = [taken, OffsetRun(first + room, last, AVAILABLE, 0)]
            state.add(batch)
            state.redeliver_from(first + room)
            return [Acquired(first, first + room - 1, 1)]
        acquired = []
        begin = first
        if not self.record_limit and last - first + 1 > self.batch_size:
            for base, _ in self.fetched:
                if base > last:
                    break
                if base - begin >= self.batch_size:
                    acquired.append(Acquired(begin, base - 1, 1))
                    begin = base
        acquired.append(Acquired(begin, last, 1))
        for piece in acquired:
            batch = InFlightBatch(piece.first_offset, piece.last_offset, [])
            batch.runs = [
                state.acquired(batch, piece.first_offset, piece.last_offset, 1, self.member)
            ]
            state.add(batch)
        return acquired


def _shrink_gap_window(state: State, offset: int) -> None:
    """The holes before ``offset`` are known; past the end offset of the load there are none."""
    if state.gap_window_end is None:
        return
    if state.gap_window_active and offset <= state.gap_window_end:
        state.gap_window_start = offset
    else:
        state.gap_window_end = None


def throttled(state: State, batch: InFlightBatch, first: int, last: int) -> bool:
    """Whether an available record failed too often (``shouldThrottleRecordsDelivery``)."""
    limit = state.limits.throttled_from
    if not batch.split:
        return batch.whole.state == AVAILABLE and batch.whole.deliveries >= limit
    within = (run for run in batch.runs if run.first <= last and run.last >= first)
    return any(run.state == AVAILABLE and run.deliveries >= limit for run in within)


def acquire_offsets(
    state: State,
    member: str,
    batch: InFlightBatch,
    first: int,
    last: int,
    limit: int | None,
    acquired: list[Acquired],
) -> int:
    """Acquire available offsets in ``first..last`` (``acquireSubsetBatchRecords``).

    ``limit`` is one of offsets; None in mode ``batch_optimized``, where only the throttle counts.
    ``acquired`` grows by what was acquired, neighbours of one count as one. Returns how many.
    """
    attempts = state.limits.delivery_count_limit
    ceiling: int | None = None
    pieces: list[OffsetRun] = []
    taken = 0
    for run in batch.runs:
        begin, end = max(run.first, first), min(run.last, last)
        if run.state != AVAILABLE or begin > end:
            continue
        last_attempt = attempts > 2 and run.deliveries == attempts - 1
        if last_attempt and taken:
            break
        excess = run.deliveries - state.limits.throttled_from
        if excess >= 0 and ceiling is None:
            ceiling = max(1, (batch.last - batch.first + 1) >> (excess + 1))
        allowed = [1] if last_attempt else []
        # Kafka compares for equality: more taken before the first record that failed often means no
        # ceiling.
        allowed += [most - taken for most in (limit, ceiling) if most is not None and most > taken]
        number = min([end - begin + 1, *allowed])
        pieces.append(state.acquired(batch, begin, begin + number - 1, run.deliveries + 1, member))
        taken += number
        if number in allowed:
            break
    batch.put(pieces)
    acquired += _joined(pieces)
    return taken


def _joined(pieces: list[OffsetRun]) -> list[Acquired]:
    joined: list[Acquired] = []
    for piece in pieces:
        if joined and joined[-1][1:] == (piece.first - 1, piece.deliveries):
            joined[-1] = joined[-1]._replace(last_offset=piece.last)
        else:
            joined.append(Acquired(piece.first, piece.last, piece.deliveries))
    return joined


def without_aborted(
    state: State, acquired: list[Acquired], aborted: Sequence[LogBatch]
) -> list[Acquired]:
    """Archive aborted record batches as they are acquired, and leave them out of what is delivered.

    Who holds them: records that another member has acquired are archived as well.
    """
    for batch in aborted:
        at = state.floor(batch.base_offset)
        if at < 0:
            return []  # Kafka fails this fetch: the records stay acquired until their locks expire
        within = state.between(state.firsts[at], batch.last_offset)
        archive(state, within, batch.base_offset, batch.last_offset, ACQUIRED, counted=True)
    return [part for run in acquired for part in _outside(run, aborted)]


def _outside(run: Acquired, aborted: Sequence[LogBatch]) -> list[Acquired]:
    parts, begin = [], run.first_offset
    for base, last in aborted:
        if last < begin or base > run.last_offset:
            continue
        if base > begin:
            parts.append(Acquired(begin, base - 1, run.delivery_count))
        begin = last + 1
    if begin <= run.last_offset:
        parts.append(Acquired(begin, run.last_offset, run.delivery_count))
    return parts
