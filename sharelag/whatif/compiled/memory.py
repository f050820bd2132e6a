"""The memory of a run: its size, its initial content, and its growth."""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import numpy as np

from sharelag.errors import InputError
from sharelag.model import TERMINAL_STATES, StateBatch
from sharelag.whatif.compiled import layout as at
from sharelag.whatif.compiled.calls import call_kernel
from sharelag.whatif.consumers import Behaviour, Limits
from sharelag.whatif.scenario import Member, Scenario
from sharelag.whatif.simulation.clock import MS
from sharelag.whatif.simulation.logs import Log, expect_records
from sharelag.whatif.simulation.streams import WHOLE_BITS, Longs, shares_below

#: Number of places from which each starts with little memory.
_MANY = 500
#: Words (8 bytes) of memory with which a run may start.
_MOST_WORDS = 1 << 30


@dataclass(frozen=True)
class Sizes:
    """Upper bounds of what a run has to hold."""

    places: int
    members: int
    window: int  # offsets in flight, a power of 2
    leaders_change: bool  # several brokers, or faults of them
    usual: int  # offsets in flight that suffice for most groups, a power of 2; fits the cache
    spare: int  # offsets that a fetch may add
    scratch: int  # records of a place in one request
    attempts: int  # deliveries of a record
    steps: int
    bucket_bits: int  # log2 of the microseconds that a bucket of near events covers

    @classmethod
    def of(cls, scenario: Scenario) -> Sizes:
        """Return the sizes of a scenario.

        Raises
        ------
        InputError
            It needs more memory than a machine has.
        """
        starts = list(scenario.starts.values())
        batches = [producer.batch_records for producer in scenario.producers]
        batches += [start.batch_records for start in starts]
        members = scenario.members or (Member(),)  # like those that an autoscaler starts
        polled = max(member.max_poll_records for member in members)
        longest = max(batches, default=1)
        spare = polled + 2 * longest + 16
        windows = [one.window for one in starts if one.window and one.window.batches]
        # The largest initial distance from a start offset to the end of the last batch.
        spans = (one.batches[-1].last_offset + 1 - one.start_offset for one in windows)
        held = max(spans, default=0)
        # An upper bound over all logs, except for chance.
        records = sum(one.end_offset for one in starts) + 2 * _count_arrivals(scenario) + 4096
        most = max(min(scenario.settings.limits.max_record_locks, records), held) + spare
        faults = {fault.kind for fault in scenario.faults}
        leaders_change = scenario.brokers > 1 or bool(faults & {"leader_change", "broker_down"})
        # Most of many places hold little, and full windows for all would take gigabytes.
        places = sum(topic.partitions for topic in scenario.topics)
        roomy = 4 * spare if places <= _MANY else spare
        # A new leader may load everything in flight as one batch.
        longest += most if leaders_change else held
        # The delivery limit may have been larger before the scenario starts.
        tried = max((one.delivery_count for of in windows for one in of.batches), default=0)
        # About one event per bucket, at some six events per record.
        between = scenario.duration_ms * MS / max(6 * estimate_records(scenario), 1)
        found = cls(
            places,
            sum(member.count for member in scenario.members),
            1 << max(most, 64).bit_length(),
            leaders_change,
            1 << max(roomy, held + spare, round(_count_behind_locks(scenario))).bit_length(),
            spare,
            2 * (polled + longest) + 64,
            max(scenario.settings.limits.delivery_count_limit, 1 + tried),
            scenario.duration_ms // scenario.step_ms + 4,
            min(max(round(math.log2(max(between, 1))), 2), 14),
        )
        people = 2 * found.members + 2
        words = found.count_fixed(found.usual) + people * found.entries * at.ENTRY_SIZE
        if words > _MOST_WORDS:
            raise InputError(
                f"to simulate this takes some {words * 8 / 1e9:,.0f} GB of memory: a window has "
                f"up to {held:,} offsets from its start to its last batch, and there are "
                f"{places:,} partitions and {found.members:,} members: give fewer of them"
            )
        return found

    @property
    def entries(self) -> int:
        """Entries of a slot: those left of aborted transactions follow the others."""
        return 2 * self.scratch + 1

    def count_fixed(self, window: int) -> int:
        """Return the words that do not depend on the logs, with windows of a given size."""
        each = at.PLACE + window * (at.OFFSET + 4 * at.LOCK_SIZE) + 2
        pairs = self.places * self.members * (at.COUNTS + 3 + 3)
        return at.GLOBALS + self.places * each + self.members * at.MEMBER + pairs + self.steps


def estimate_records(scenario: Scenario) -> int:
    """Return the number of records that a scenario delivers, as far as it is known in advance."""
    starts = scenario.starts.values()
    backlog = sum(start.end_offset - start.window.start_offset for start in starts if start.window)
    return backlog + _count_arrivals(scenario)


def _count_arrivals(scenario: Scenario) -> int:
    return sum(int(expect_records(one, scenario)[1][-1]) for one in scenario.producers)


def _count_behind_locks(scenario: Scenario) -> float:
    """Return the records of a partition that arrive during a lock, some of them counted twice."""
    if not any(member.behaviour.silent for member in scenario.members):
        return 0.0
    places = sum(topic.partitions for topic in scenario.topics)
    locked = scenario.settings.limits.lock_duration_ms / scenario.duration_ms
    return 3 * min(locked, 1.0) * estimate_records(scenario) / places


#: Initial rows of a growing table: each time that it is full costs 0.1 ms.
_ROWS = 4096
#: Random numbers per record, if few records are redelivered often.
_DRAWS = 7
_BOUNDS = (at.BELOW_ACCEPT, at.BELOW_RELEASE, at.BELOW_REJECT, at.BELOW_CRASH, at.BELOW_HANG)
_COMMITS = {"poll": at.BY_POLL, "record": at.BY_RECORD, "error": at.BY_ERROR}
#: Memory of finished runs for the next one: allocating new memory is slow.
_SPARE: list[Longs] = []
_LARGEST_SPARE = 1 << 23
_MUCH = 1 << 25


def _take(size: int) -> Longs:
    try:
        kept = _SPARE.pop()
    except IndexError:
        return _allocate(size)
    return kept if len(kept) >= size else _allocate(size)


def _allocate(size: int) -> Longs:
    if size <= _MUCH:
        return np.zeros(size, np.int64)
    # NumPy requests huge pages, and the sparsely used windows of all places would touch each.
    flags = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if os.name == "posix" else {}
    return np.frombuffer(mmap.mmap(-1, size * 8, **flags), np.int64)


class Core:
    """The memory of one run: one array, in which addresses stay valid.

    ``a`` is the current array: growth may move it to a larger one between two events.
    ``places`` and ``members`` are addresses of share partitions, and of members by the number of
    their life. ``next_event`` is the time of the first event if no kernel was called since it was
    set.
    """

    def __init__(
        self, scenario: Scenario, logs: Sequence[Log], requests: bool, is_compiled: bool
    ) -> None:
        self._form: Callable[..., tuple[int, int]] | None = None
        if is_compiled:
            # Imported late, because numba loads slowly.
            from sharelag.whatif.compiled.ready import form

            self._form = form()
        self._sizes, self._scenario = Sizes.of(scenario), scenario
        chunks = [_chunks(log) for log in logs]
        self._chunks = sum(chunks)
        # Untouched memory costs nothing, but moving everything to a larger array does.
        drawn = _DRAWS * self._chunks * at.CHUNK
        known = sum(len(log.bases) + len(log.times) for log in logs)
        self._end = at.GLOBALS
        # If fetches cost nothing, several may arrive at once.
        self._is_slow = round(scenario.costs.fetch_ms * MS) > 0
        self._window = self._sizes.usual if self._is_slow else 2 * self._sizes.window
        rows = 2 * _ROWS * (at.EVENT + at.WRITE_ROW + at.RUN + at.REQUEST)
        self._use(_take(2 * self._sizes.count_fixed(self._window) + rows + known + drawn))
        self._capacity = 0  # of lives
        self.next_event = 0
        self._writes: list[tuple[Longs, Longs]] = []
        self._runs = [np.zeros((0, at.RUN), np.int64)]
        self._requests = [np.zeros((0, at.REQUEST), np.int64)]
        self._missing: dict[int, Longs] = {}  # by place, rows of offsets without a record
        self._globals(requests)
        begins = [0, *accumulate(chunks)]
        self.places = [self._place(number, log, begins[number]) for number, log in enumerate(logs)]
        self.members: list[int] = []
        self.grow()

    def __getitem__(self, address: int) -> int:
        return self._view[address]

    def __setitem__(self, address: int, value: int) -> None:
        self._view[address] = value

    def _use(self, a: Longs) -> None:
        self.a, self._view = a, memoryview(a)  # type: ignore[arg-type]

    def call(self, what: int, at: int = 0, number: int = 0) -> tuple[int, int]:
        """Call kernels, plain or compiled: see `calls.call_kernel`."""
        self.next_event = 0
        if self._form is None:
            found: tuple[int, int] = call_kernel(self._view, what, at, number)
            return found
        return self._form(self.a, what, at, number)

    def allocate(self, size: int) -> int:
        """Allocate words, and return their address."""
        begin = self._end
        self._end += size
        if self._end > len(self.a):
            larger = _allocate(2 * self._end)
            larger[:begin] = self.a[:begin]
            self._use(larger)
        return begin

    def put(self, values: Longs | memoryview[int] | Sequence[int]) -> int:
        """Store numbers, and return their address."""
        begin = self.allocate(len(values))
        self.a[begin : self._end] = values
        return begin

    def _globals(self, requests: bool) -> None:
        scenario, sizes = self._scenario, self._sizes
        costs = scenario.costs
        values = {
            at.PLACES: sizes.places,
            at.PLACES_AT: self.allocate(sizes.places * at.PLACE),
            at.READY_AT: self.allocate(2 * sizes.places),
            at.ACK_ROWS: sizes.scratch,
            at.BROKERS: scenario.brokers,
            at.BROKERS_AT: self.allocate(scenario.brokers * at.BROKER),
            at.BROKERS_FAIL: int(sizes.leaders_change),
            at.DRAINED_AT: self.allocate(sizes.steps),
            at.SAMPLE_AT: self.allocate(sizes.places * at.SAMPLE),
            at.BUCKETS_AT: self.allocate(at.BUCKETS),
            at.BUCKET_BITS: sizes.bucket_bits,
            at.CHANCES_AT: self.allocate(sizes.attempts * self._chunks),
            at.CHUNKS: self._chunks,
            at.INTERVAL: scenario.settings.heartbeat_interval_ms * MS,
            at.NETWORK: round(costs.network_ms * MS),
            at.FETCH: round(costs.fetch_ms * MS),
            at.WRITE: round(costs.write_ms * MS),
            at.RECORDS_A_FETCH: max(costs.fetch_max_bytes // max(costs.record_bytes, 1), 1),
            at.BEGINS_MS: scenario.begins_ms,
            at.STEP: scenario.step_ms * MS,
            at.CAUSE_NUMBER: at.NOBODY,
            at.FREE: -1,
            at.SLOTS_EACH: min(scenario.brokers, sizes.places),
            at.FREE_ACK: -1,
            at.NOTES_REQUESTS: int(requests),
        }
        self.a[list(values)] = list(values.values())
        self.set_limits(scenario.settings.limits)
        self.a[self[at.CHANCES_AT] : self._end] = -1
        for _ in range(4 * (sizes.members + sizes.places) + 64):
            node = self.allocate(at.NODE)
            self[node + at.NODE_NEXT], self[at.FREE_NODE] = self[at.FREE_NODE], node

    def set_limits(self, limits: Limits) -> None:
        """Set the limits in force."""
        self[at.LOCKS], self[at.ATTEMPTS] = limits.max_record_locks, limits.delivery_count_limit
        self[at.LOCK_MS], self[at.THROTTLED] = limits.lock_duration_ms, limits.throttled_from
        self[at.RENEWS] = limits.renew_enabled

    def _place(self, number: int, log: Log, chunk: int) -> int:
        p = self[at.PLACES_AT] + number * at.PLACE
        fields = {
            at.INDEX: number,
            at.EXPIRY_DUE: -1,
            at.LOCKS_AT: self.allocate(2 * self._window * at.LOCK_SIZE),
            at.EARLY_LOCKS_AT: self.allocate(2 * self._window * at.LOCK_SIZE),
            at.WINDOW_AT: self.allocate(self._window * at.OFFSET),
            at.BASES_AT: self.put(log.bases),
            at.TIMES_AT: self.put(log.times),
            at.BATCHES: len(log.times),
            at.CHUNK_AT: chunk,
            at.FIRST_CHUNK: log.bases[0] // at.CHUNK,
            at.LOG_START: log.start,
            at.MASK: self._window - 1,
            at.LOCK_ROOM: 2 * self._window,
            at.SPARE: self._sizes.spare if self._is_slow else self._sizes.window,
            at.GAP_END: -1,
            at.WRITTEN_START: -1,
        }
        fields[at.READS_AT] = fields[at.TIMES_AT]
        if log.readable is not log.times:
            fields[at.READS_AT] = self.put(log.readable)
        for field, value in fields.items():
            self[p + field] = value
        if log.removed or log.missing or log.aborted:
            self.remove(number, log)
        return p

    def remove(self, number: int, log: Log) -> None:
        """Set the offsets of a log that have no record now, and the record batches that are empty.

        Offsets that had a record until now lose it at the current compaction.
        """
        p, since = self[at.PLACES_AT] + number * at.PLACE, self[at.COMPACTIONS]
        known = self._missing.get(number, np.zeros((0, at.MISS), np.int64))
        new = np.setdiff1d(np.array(log.missing, np.int64), known[:, at.M_OFFSET])
        rows = np.concatenate([known, np.column_stack([new, np.full(len(new), since)])])
        self._missing[number] = rows = rows[np.argsort(rows[:, at.M_OFFSET])]
        if len(new):
            self[p + at.MISSING], self[p + at.MISSING_AT] = len(rows), self.put(rows.reshape(-1))
        bases = np.array(log.bases)
        removed = np.diff(np.searchsorted(np.array(log.removed, np.int64), bases))
        is_removed = removed == np.diff(bases)
        flags = at.IS_REMOVED * is_removed
        is_aborted = np.isin(bases[:-1], np.array(list(log.aborted), np.int64)) & ~is_removed
        flags |= at.IS_ABORTED * is_aborted
        if flags.any():
            if not self[p + at.FLAGS_AT]:
                self[p + at.FLAGS_AT] = self.allocate(len(flags))
            self.a[self[p + at.FLAGS_AT] :][: len(flags)] = flags
        # The next fetch may start behind a hole.
        ends = np.flatnonzero(~is_removed)
        hole = np.diff(bases[np.concatenate([[0], ends + 1])]).max() if len(ends) else 0
        self[p + at.SPARE] = max(self[p + at.SPARE], self._sizes.spare + int(hole))
        self.ensure_window(p)

    def set_poison(self, place: int, poison: Mapping[int, tuple[int, int, int]]) -> None:
        """Set the failing records of a place: how, in how many deliveries, and how long held."""
        p, rows = self.places[place], sorted((offset, *how) for offset, how in poison.items())
        begin = self.put([number for row in rows for number in row])
        self[p + at.POISONS], self[p + at.POISONS_AT] = len(rows), begin

    def load_state(self, p: int, start: int, batches: Iterable[StateBatch], now_ms: int) -> None:
        """Load the state with which a leader starts, without owners (``maybeInitialize``).

        Raises
        ------
        InputError
            Batches that Kafka cannot load: before the start offset, overlapping, or in a state it
            does not write.
        """
        self[at.HELD_BY_ALL] = self[at.HELD_BY_ALL] - self[p + at.HELD]
        for field in _FORGOTTEN:
            self[p + field] = 0
        self[p + at.GAP_END] = self[p + at.EXPIRY_DUE] = -1
        self[p + at.START] = self[p + at.END] = start
        self[p + at.STATE_MS], self[p + at.LIFE] = now_ms, self[p + at.LIFE] + 1
        before, gap, last = start - 1, -1, -1
        for first, last, state, count in batches:
            if first <= before or last < first or state not in _LOADED:
                raise InputError(
                    f"Kafka cannot load the state batch {first}..{last} in state {state} "
                    f"after offset {before}; take the batches as replay gives them"
                )
            if not self[p + at.IN_MEMORY]:
                self[p + at.FIRST], self[p + at.LAST] = first, first - 1
            if gap < 0 and first > before + 1:
                gap = before + 1
            self[p + at.IN_MEMORY] = self[p + at.FIND] = 1
            self.ensure_window(p, last)
            rows = _rows_at(self.a, self[p + at.WINDOW_AT], self[p + at.MASK] + 1, at.OFFSET)
            hole = np.arange(max(before + 1, self[p + at.FIRST]), first) % len(rows)
            rows[hole, at.BATCH] = -1
            rows[hole, at.HOLE_FIRST], rows[hole, at.HOLE_LAST] = before + 1, first - 1
            rows[np.arange(first, last + 1) % len(rows), at.BATCH] = first
            batch = rows[first % len(rows)]
            batch[at.BATCH_LAST], batch[at.STATE], batch[at.COUNT] = last, state, count
            batch[at.SPLIT] = 0
            field = at.COMPLETE if state in TERMINAL_STATES else at.AVAILABLE
            self[p + field] = self[p + field] + last - first + 1
            before = self[p + at.LAST] = self[p + at.END] = last
        if gap >= 0:
            self[p + at.GAP_END], self[p + at.GAP_START] = before, gap

    def add_member(self) -> int:
        """Allocate one more life of a member."""
        number, places = len(self.members), self._sizes.places
        if number == self._capacity:
            # One table for all lives: a place and a life find their entry by multiplication.
            before = self._capacity
            self._capacity = max(2 * number, self._sizes.members, 1)
            for where, size in ((at.COUNTS_AT, at.COUNTS), (at.NODES_AT, at.NODE_OF_PLACE)):
                self._enlarge(where, before * places * size, self._capacity * places * size)
        m = self.allocate(at.MEMBER)
        self.members.append(m)
        self[at.MEMBERS] = self[at.MEMBERS] + 1
        self[m + at.ASSIGNED_AT] = self.allocate(places)
        self[m + at.SESSIONS_AT] = self.allocate(self[at.BROKERS] * (at.SESSION + 2 * places))
        for session in self.sessions(m):
            self[session + at.S_MEMBER] = m
            self[session + at.FETCHED_AT] = session + at.SESSION + places
        self[m + at.MEMBER_INDEX], self[m + at.IN_POLL] = number, 1
        for field in (at.PENDING, at.BUSY_SINCE, at.WORKING_ON, at.BUFFERED):
            self[m + field] = -1
        return m

    def sessions(self, m: int) -> range:
        """Return the addresses of a member's share sessions, by broker."""
        begin, size = self[m + at.SESSIONS_AT], at.SESSION + 2 * self._sizes.places
        return range(begin, begin + self[at.BROKERS] * size, size)

    def add_service(self, fixed: Sequence[int]) -> int:
        """Allocate the processing times of a service: fixed ones by place, and drawn chunks."""
        return self.put([*fixed, *[-1] * self._chunks])

    def put_accidents(self, m: int, drawn: Longs) -> None:
        """Replace the used random numbers for the accidents of a life."""
        if not self[m + at.DRAWN_AT]:
            self[m + at.DRAWN_AT] = self.allocate(len(drawn))
        begin = self[m + at.DRAWN_AT]
        self.a[begin : begin + len(drawn)] = drawn
        self[m + at.DRAWN], self[m + at.DRAWS] = 0, len(drawn)

    def grow(self) -> None:
        """Make room for the next events."""
        sizes, changes = self._sizes, self[at.HELD_BY_ALL] + 16
        members = max(self[at.MEMBERS], sizes.members)
        self._flush()
        self[at.IS_CRAMPED] = 0
        for p in self.places:
            self.ensure_window(p)
        self._ensure_room(at.WRITES_AT, at.WRITES_ROOM, at.WRITE_ROW, changes)
        self._ensure_room(at.RUNS_AT, at.RUNS_ROOM, at.RUN, changes)
        self._ensure_room(at.REQUESTS_AT, at.REQUESTS_ROOM, at.REQUEST, 4 * self[at.BROKERS] + 16)
        count = self[at.EVENTS]
        needed = count + 4 * (members + self[at.BROKERS]) + 8 * sizes.places + 64
        self._ensure_room(at.EVENTS_AT, at.EVENTS_ROOM, at.EVENT, needed, count)
        each = self[at.SLOTS_EACH]
        if self[at.FREE_SLOTS] < members * each + 1:
            for _ in range(members * (each + 1) + 2 - self[at.FREE_SLOTS]):
                slot = self.allocate(at.SLOT_HEAD + sizes.entries * at.ENTRY_SIZE)
                self[slot + at.NEXT_FREE], self[at.FREE] = self[at.FREE], slot
                self[at.FREE_SLOTS] = self[at.FREE_SLOTS] + 1
        if self[at.FREE_ACKS] < self[at.BROKERS] + 2:
            for _ in range(members + 2 * self[at.BROKERS] + 2):
                ack = self.allocate(at.ACK_HEAD + sizes.scratch * (at.ROW + 1))
                self[ack + at.A_NEXT_FREE], self[at.FREE_ACK] = self[at.FREE_ACK], ack
                self[at.FREE_ACKS] = self[at.FREE_ACKS] + 1

    def release(self) -> None:
        """Leave the memory to the next run."""
        if self._end <= _LARGEST_SPARE and not _SPARE:
            self.a[: self._end] = 0
            _SPARE.append(self.a)
        self._use(np.zeros(0, np.int64))

    def ensure_window(self, p: int, until: int | None = None) -> None:
        """Enlarge the window of a place if a fetch may need more, now or up to an offset."""
        if not self[p + at.IN_MEMORY] and until is None:
            return
        ends = max(self[p + at.END], self[p + at.LOG_START], until or 0)
        before = larger = self[p + at.MASK] + 1
        while ends - self[p + at.FIRST] + self[p + at.SPARE] >= larger:
            larger *= 2
        if larger > before:
            self._widen(p, before, larger)

    def _widen(self, p: int, before: int, larger: int) -> None:
        window = self[p + at.WINDOW_AT]
        self[p + at.MASK] = larger - 1
        self[p + at.WINDOW_AT] = self.allocate(larger * at.OFFSET)
        offsets = np.arange(self[p + at.FIRST], self[p + at.LAST] + 1)
        old = _rows_at(self.a, window, before, at.OFFSET)
        new = _rows_at(self.a, self[p + at.WINDOW_AT], larger, at.OFFSET)
        new[offsets % larger] = old[offsets % before]
        # A window behind deleted records may be wide, but holds no more than others.
        locked = self[p + at.HELD] + self[at.LOCKS] + 2 * self[p + at.SPARE]
        self[p + at.LOCK_ROOM] = max(self[p + at.LOCK_ROOM], 2 * min(larger, locked))
        for field, to in ((at.LOCKS_AT, at.LOCKS_TO), (at.EARLY_LOCKS_AT, at.EARLY_LOCKS)):
            size = self[p + at.LOCK_ROOM] * at.LOCK_SIZE
            self._enlarge(p + field, self[p + to] * at.LOCK_SIZE, size)

    def runs(self) -> list[Longs]:
        """Return all runs that were written, in several parts."""
        self._flush()
        return self._runs

    def requests(self) -> Longs:
        """Return all requests, as rows of the layout."""
        self._flush()
        return np.concatenate(self._requests)

    def take_writes(self) -> list[tuple[Longs, Longs]]:
        """Return the writes since the last call with their runs, in several parts."""
        self._flush()
        taken, self._writes = self._writes, []
        return taken

    def _ensure_room(self, where: int, room: int, size: int, needed: int, used: int = 0) -> None:
        """Move the used rows of a table to a larger one if needed."""
        if self[room] < needed:
            self[room] = 2 * max(needed, _ROWS)
            self._enlarge(where, used * size, self[room] * size)

    def _enlarge(self, where: int, used: int, size: int) -> None:
        before, self[where] = self[where], self.allocate(size)
        self.a[self[where] :][:used] = self.a[before:][:used]

    def _flush(self) -> None:
        if self[at.WRITES]:
            self._runs.append(self._rows(at.RUNS_AT, at.RUNS, at.RUN))
            writes = self._rows(at.WRITES_AT, at.WRITES, at.WRITE_ROW)
            self._writes.append((writes, self._runs[-1]))
        if self[at.REQUESTS]:
            self._requests.append(self._rows(at.REQUESTS_AT, at.REQUESTS, at.REQUEST))
        self[at.WRITES] = self[at.RUNS] = self[at.REQUESTS] = self[at.OPEN] = 0

    def _rows(self, where: int, count: int, size: int) -> Longs:
        begin = self[where]
        return self.a[begin : begin + self[count] * size].reshape(-1, size).copy()


#: Fields that are zero when a leader starts.
_FORGOTTEN = (
    *(at.IN_MEMORY, at.COMPLETE, at.FIND, at.AVAILABLE_FROM, at.AVAILABLE, at.LOCKS_FROM),
    *(at.LOCKS_TO, at.EARLY_LOCKS, at.HELD, at.LOCKED_UNTIL, at.UNLOCK_DUE, at.APPEND_DUE),
    at.IS_BEHIND,
)
_LOADED = (at.S_AVAILABLE, *map(int, TERMINAL_STATES))


@lru_cache
def behaviour_fields(behaviour: Behaviour) -> Mapping[int, int]:
    """Return a behaviour by field: bounds of random whole numbers below 2 ** 53."""
    accidents = (math.ceil(one * 2.0**WHOLE_BITS) for one in (behaviour.crash, behaviour.hang))
    return {
        at.ACCEPTS_ALL: int(behaviour.accept == 1),
        at.COMMIT: _COMMITS[behaviour.commit],
        at.RENEW: (behaviour.renew_ms or 0) * MS,
        at.HAS_ACCIDENTS: int(behaviour.crash > 0 or behaviour.hang > 0),
        **dict(zip(_BOUNDS, (*shares_below(behaviour).tolist(), *accidents), strict=True)),
    }


def _chunks(log: Log) -> int:
    """Return the chunks of random numbers for the readable offsets of a log."""
    end = log.bases[-1] if log.modelled_until is None else log.modelled_until
    return end // at.CHUNK - log.bases[0] // at.CHUNK + 1


def _rows_at(a: Longs, begin: int, rows: int, size: int) -> Longs:
    return a[begin : begin + rows * size].reshape(rows, size)
