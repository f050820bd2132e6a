"""The memory of a compiled run: how large it is, how it begins, and how it grows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from sharelag.model import Window
from sharelag.whatif.compiled import layout as at
from sharelag.whatif.compiled.sizes import Sizes
from sharelag.whatif.compiled.support import RecordsLostError
from sharelag.whatif.consumers import Behaviour
from sharelag.whatif.scenario import Scenario
from sharelag.whatif.simulation.clock import MS
from sharelag.whatif.simulation.logs import Log
from sharelag.whatif.simulation.streams import WHOLE_BITS, Longs

#: What grows begins with room for this many rows: each time that they are full costs 0.1 ms.
_ROWS = 4096
#: Random numbers that a record needs, if few are delivered again and again.
_DRAWS = 7


_COMMITS = {"poll": at.BY_POLL, "record": at.BY_RECORD, "error": at.BY_ERROR}
#: Memory of runs that are over, for the next one: the system takes its time to give new memory.
_KEPT: list[Longs] = []
_MOST_KEPT = 1 << 23


def _taken(size: int) -> Longs:
    """Memory that is zero."""
    try:
        kept = _KEPT.pop()
    except IndexError:
        return np.zeros(size, np.int64)
    return kept if len(kept) >= size else np.zeros(size, np.int64)


class Core:
    """The memory of one run: one array, where what is put once keeps its address.

    Attributes
    ----------
    a
        The array as of now; what grows may move it to a larger one between two events.
    places, members
        Addresses of share partitions, and of members by the number of their life.
    """

    def __init__(self, scenario: Scenario, logs: Sequence[Log], requests: bool) -> None:
        self._sizes, self._scenario = Sizes.of(scenario), scenario
        chunks = [_chunks(log) for log in logs]
        self._chunks = sum(chunks)
        # Memory that is not touched costs nothing, but moving all to a larger place does.
        drawn = _DRAWS * self._chunks * at.CHUNK
        known = sum(len(log.bases) + len(log.times) for log in logs)
        self._end = at.GLOBALS
        # Without a cost of fetches, several may come at once.
        most = self._sizes.window
        self._window = min(self._sizes.usual, most) if scenario.costs.fetch_ms else most
        rows = 2 * _ROWS * (at.EVENT + at.WROTE + at.RUN + at.REQUEST)
        self._hold(_taken(2 * self._sizes.fixed(self._window) + rows + known + drawn))
        self._capacity = 0  # of lives
        self.writes: list[Longs] = []
        self.runs: list[Longs] = []
        self._finished: list[Longs] = []
        self._asked: list[Longs] = []
        self._written = self._ran = 0
        self._globals(requests)
        self.places = [
            self._place(number, log, sum(chunks[:number])) for number, log in enumerate(logs)
        ]
        self.members: list[int] = []
        self.grow()

    def __getitem__(self, address: int) -> int:
        return self._view[address]

    def __setitem__(self, address: int, value: int) -> None:
        self._view[address] = value

    def _hold(self, a: Longs) -> None:
        self.a, self._view = a, memoryview(a)  # type: ignore[arg-type]

    @property
    def written(self) -> int:
        """How many writes there were."""
        return self._written + self[at.WRITES]

    def _room(self, size: int) -> int:
        begin = self._end
        self._end += size
        if self._end > len(self.a):
            larger = np.zeros(2 * self._end, np.int64)
            larger[:begin] = self.a[:begin]
            self._hold(larger)
        return begin

    def _globals(self, requests: bool) -> None:
        scenario, sizes = self._scenario, self._sizes
        costs, limits = scenario.costs, scenario.settings.limits
        values = {
            at.PLACES: sizes.places,
            at.PLACES_AT: self._room(sizes.places * at.PLACE),
            at.READY_AT: self._room(2 * sizes.places),
            at.ROWS_AT: self._room(sizes.scratch * at.ROW),
            at.TYPES_AT: self._room(sizes.scratch),
            at.DRAINED_AT: self._room(sizes.steps),
            at.SAMPLE_AT: self._room(sizes.places * at.SAMPLE),
            at.BUCKETS_AT: self._room(at.BUCKETS),
            at.BUCKET_BITS: sizes.bucket_bits,
            at.CHANCES_AT: self._room(sizes.attempts * self._chunks),
            at.CHUNKS: self._chunks,
            at.NETWORK: round(costs.network_ms * MS),
            at.FETCH: round(costs.fetch_ms * MS),
            at.WRITE: round(costs.write_ms * MS),
            at.RECORDS_A_FETCH: max(costs.fetch_max_bytes // max(costs.record_bytes, 1), 1),
            at.BEGINS_MS: scenario.begins_ms,
            at.STEP: scenario.step_ms * MS,
            at.LOCKS: limits.max_record_locks,
            at.ATTEMPTS: limits.delivery_count_limit,
            at.LOCK_MS: limits.lock_duration_ms,
            at.THROTTLED: limits.throttled_from,
            at.MASK: self._window - 1,
            at.LOCK_ROOM: 2 * self._window,
            at.SPARE: sizes.spare,
            at.CAUSE_NUMBER: at.NOBODY,
            at.FREE: -1,
            at.NOTES_REQUESTS: int(requests),
        }
        self.a[list(values)] = list(values.values())
        self.a[self[at.CHANCES_AT] : self._end] = -1
        for _ in range(4 * (sizes.members + sizes.places) + 64):
            node = self._room(at.NODE)
            self[node + at.NODE_NEXT], self[at.FREE_NODE] = self[at.FREE_NODE], node

    def _place(self, number: int, log: Log, chunk: int) -> int:
        p = self[at.PLACES_AT] + number * at.PLACE
        fields = {
            at.INDEX: number,
            at.EXPIRY_DUE: -1,
            at.LOCKS_AT: self._room(2 * self._window * at.LOCK_SIZE),
            at.SPLIT_LOCKS_AT: self._room(2 * self._window * at.LOCK_SIZE),
            at.WINDOW_AT: self._room(self._window * at.OFFSET),
            at.BASES_AT: self._room(len(log.bases)),
            at.TIMES_AT: self._room(len(log.times)),
            at.BATCHES: len(log.times),
            at.CHUNK_AT: chunk,
            at.FIRST_CHUNK: log.bases[0] // at.CHUNK,
            at.LOG_START: log.start,
        }
        a = self.a
        for field, value in fields.items():
            a[p + field] = value
        a[fields[at.BASES_AT] :][: len(log.bases)] = log.bases
        a[fields[at.TIMES_AT] :][: len(log.times)] = log.times
        return p

    def poison(self, place: int, poison: Mapping[int, tuple[int, int]]) -> None:
        """Put in which records of a place go wrong, how, and in how many deliveries."""
        p, rows = self.places[place], sorted((offset, *how) for offset, how in poison.items())
        begin = self._room(len(rows) * at.POISON)
        self.a[begin : self._end] = np.array(rows, np.int64).reshape(-1)
        self[p + at.POISONS], self[p + at.POISONS_AT] = len(rows), begin

    def hold(self, p: int, start: int, window: Window | None, complete: int) -> None:
        """Put in the state that a place begins with, from a start offset on."""
        known = window.batches if window is not None else ()
        batches = [one for one in known if one.last_offset >= start]
        self[p + at.START] = self[p + at.END] = start
        if not batches:
            return
        for first, last, state, count in batches:
            rows = _rows_at(self.a, self[p + at.WINDOW_AT], self._window, at.OFFSET)
            rows[np.arange(first, last + 1) % self._window, at.BATCH] = first
            batch = rows[first % self._window]
            batch[at.BATCH_LAST], batch[at.STATE], batch[at.COUNT] = last, state, count
            if state == at.S_AVAILABLE:
                self[p + at.AVAILABLE] = self[p + at.AVAILABLE] + last - first + 1
        self[p + at.IN_MEMORY] = self[p + at.FIND] = 1
        self[p + at.FIRST], self[p + at.END] = start, batches[-1].last_offset
        self[p + at.COMPLETE] = complete

    def member(self) -> int:
        """Return memory of one more life."""
        number, places = len(self.members), self._sizes.places
        if number == self._capacity:
            # Of all lives together: a place and a life find theirs by multiplying.
            before, self._capacity = self._capacity, max(2 * number, self._sizes.members)
            for where, size in ((at.COUNTS_AT, at.COUNTS), (at.NODES_AT, at.NODE_OF_PLACE)):
                old, begin = self[where], self._room(self._capacity * places * size)
                self.a[begin:][: before * places * size] = self.a[old:][: before * places * size]
                self[where] = begin
        m = self._room(at.MEMBER)
        self.members.append(m)
        self[at.MEMBERS] = self[at.MEMBERS] + 1
        for field in (at.WANTED_AT, at.SESSION_AT, at.FETCHED_AT):
            self[m + field] = self._room(places)
        self[m + at.MEMBER_INDEX] = number
        self[m + at.PENDING] = self[m + at.BUSY_SINCE] = -1
        return m

    def forget(self) -> None:
        """A life has ended: what all need together becomes less."""
        self[at.MEMBERS] = self[at.MEMBERS] - 1

    def behave(self, m: int, behaviour: Behaviour) -> None:
        """Put in what a member does with records: bounds of whole numbers below 2 ** 53."""
        shares = np.cumsum([behaviour.accept, behaviour.release, behaviour.reject])
        for field, bound in enumerate(shares.tolist()):
            self[m + at.BELOW_ACCEPT + field] = math.ceil(bound * 2.0**WHOLE_BITS)
        self[m + at.ACCEPTS_ALL] = int(behaviour.accept == 1)
        self[m + at.COMMIT] = _COMMITS[behaviour.commit]
        self[m + at.HAS_ACCIDENTS] = int(behaviour.crash > 0 or behaviour.hang > 0)
        self[m + at.BELOW_CRASH] = math.ceil(behaviour.crash * 2.0**WHOLE_BITS)
        self[m + at.BELOW_HANG] = math.ceil(behaviour.hang * 2.0**WHOLE_BITS)

    def works(self, fixed: Sequence[int]) -> int:
        """Room for the work of a service: fixed times by place, and where the drawn ones are."""
        address = self._room(len(fixed) + self._chunks)
        self.a[address : self._end] = -1
        self.a[address : address + len(fixed)] = fixed
        return address

    def put_chunk(self, address: int, drawn: Longs) -> None:
        """Keep random numbers, and note where."""
        begin = self._room(len(drawn))
        self.a[begin : self._end] = drawn
        self[address] = begin

    def put_accidents(self, m: int, drawn: Longs) -> None:
        """Give a life random numbers for its accidents, in place of those that it has used."""
        if not self[m + at.DRAWN_AT]:
            self[m + at.DRAWN_AT] = self._room(len(drawn))
        begin = self[m + at.DRAWN_AT]
        self.a[begin : begin + len(drawn)] = drawn
        self[m + at.DRAWN], self[m + at.DRAWS] = 0, len(drawn)

    def grow(self) -> None:
        """Make room for the events to come.

        Raises
        ------
        RecordsLostError
            Records were deleted before the group had finished them.
        """
        if self[at.IS_LOST]:
            raise RecordsLostError
        sizes, changes = self._sizes, self[at.HELD_BY_ALL] + 16
        members = max(self[at.MEMBERS], sizes.members)
        self._flush()
        if self[at.IS_CRAMPED]:
            self._widen()
        self._have_room(at.WRITES_AT, at.WRITES_ROOM, at.WROTE, changes)
        self._have_room(at.RUNS_AT, at.RUNS_ROOM, at.RUN, changes)
        self._have_room(at.ASKED_AT, at.ASKED_ROOM, at.REQUEST, 16)
        before, count = self[at.EVENTS_AT], self[at.EVENTS]
        needed = count + 4 * members + 8 * sizes.places + 64
        if self._have_room(at.EVENTS_AT, at.EVENTS_ROOM, at.EVENT, needed):
            begin = self[at.EVENTS_AT]
            self.a[begin:][: count * at.EVENT] = self.a[before:][: count * at.EVENT]
        if self[at.FREE_SLOTS] < members + 1:
            for _ in range(2 * members + 2):
                slot = self._room(at.SLOT_HEAD + sizes.entries * at.ENTRY_SIZE)
                self[slot + at.NEXT_FREE], self[at.FREE] = self[at.FREE], slot
                self[at.FREE_SLOTS] = self[at.FREE_SLOTS] + 1

    def release(self) -> None:
        """Leave the memory to another run."""
        if self._end <= _MOST_KEPT and not _KEPT:
            self.a[: self._end] = 0
            _KEPT.append(self.a)
        self._hold(np.zeros(0, np.int64))

    def _widen(self) -> None:
        """Make the windows of all places twice as large, if they may be."""
        self[at.IS_CRAMPED] = 0
        if self._window == self._sizes.window:
            self[at.SPARE] = -1 << 40  # enough in any case
            return
        before, self._window = self._window, 2 * self._window
        self[at.MASK], self[at.LOCK_ROOM] = self._window - 1, 2 * self._window
        for p in self.places:
            window, locks, splits = (
                self[p + at.WINDOW_AT],
                self[p + at.LOCKS_AT],
                self[p + at.SPLIT_LOCKS_AT],
            )
            self[p + at.WINDOW_AT] = self._room(self._window * at.OFFSET)
            first, last = self[p + at.FIRST], self[p + at.END]
            offsets = np.arange(first, last + 1 if self[p + at.IN_MEMORY] else first)
            old = _rows_at(self.a, window, before, at.OFFSET)
            new = _rows_at(self.a, self[p + at.WINDOW_AT], self._window, at.OFFSET)
            new[offsets % self._window] = old[offsets % before]
            for field, begin, count in (
                (at.LOCKS_AT, locks, self[p + at.LOCKS_TO]),
                (at.SPLIT_LOCKS_AT, splits, self[p + at.SPLIT_LOCKS]),
            ):
                self[p + field] = self._room(2 * self._window * at.LOCK_SIZE)
                size = count * at.LOCK_SIZE
                self.a[self[p + field] :][:size] = self.a[begin:][:size]

    def left(self) -> tuple[Longs, Longs]:
        """What was finished, as rows of `Tally.finished`, and all requests."""
        self._flush()
        return np.concatenate(self._finished), np.concatenate(self._asked)

    def _have_room(self, where: int, room: int, size: int, needed: int) -> bool:
        """Find a larger place for rows; whether there was need to."""
        if self[room] >= needed:
            return False
        rows = 2 * max(needed, _ROWS)
        self[where], self[room] = self._room(rows * size), rows
        return True

    def _flush(self) -> None:
        """Take rows out that only Python reads."""
        writes = self._rows(at.WRITES_AT, at.WRITES, at.WROTE)
        runs = self._rows(at.RUNS_AT, at.RUNS, at.RUN)
        is_done = runs[:, 2] != at.S_AVAILABLE
        write = np.repeat(np.arange(len(writes)), np.diff(writes[:, at.WROTE - 1], prepend=0))
        finished = np.empty((int(is_done.sum()), 4), np.int64)
        write, finished[:, 1:3] = write[is_done], runs[is_done, :2]
        finished[:, 0], finished[:, 3] = writes[write, 0], writes[write, 1]
        self._finished.append(finished)
        writes[:, at.WROTE - 1] += self._ran
        self.writes.append(writes)
        self.runs.append(runs)
        self._asked.append(self._rows(at.ASKED_AT, at.ASKED, at.REQUEST))
        self._written += len(writes)
        self._ran += len(runs)
        self[at.WRITES] = self[at.RUNS] = self[at.ASKED] = self[at.OPEN] = 0

    def _rows(self, where: int, count: int, size: int) -> Longs:
        begin = self[where]
        return self.a[begin : begin + self[count] * size].reshape(-1, size).copy()


def _chunks(log: Log) -> int:
    """Chunks of random numbers that the offsets of a log are in."""
    return log.bases[-1] // at.CHUNK - log.bases[0] // at.CHUNK + 1


def _rows_at(a: Longs, begin: int, rows: int, size: int) -> Longs:
    return a[begin : begin + rows * size].reshape(rows, size)
