"""The memory of a compiled run: how large it is, how it begins, and how it grows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sharelag.whatif.compiled import layout as at
from sharelag.whatif.consumers import Behaviour
from sharelag.whatif.scenario import Scenario
from sharelag.whatif.simulation.clock import MS
from sharelag.whatif.simulation.logs import Log
from sharelag.whatif.simulation.streams import Longs

#: What grows begins with room for this many rows.
_ROWS = 1024


@dataclass(frozen=True)
class Sizes:
    """How much of everything there is at most."""

    places: int
    members: int
    most_polled: int  # records that a member asks for
    window: int  # offsets, a power of 2
    scratch: int  # records of a place that one request is about
    attempts: int
    steps: int

    @classmethod
    def of(cls, scenario: Scenario) -> Sizes:
        """The sizes of a scenario."""
        batches = [producer.batch_records for producer in scenario.producers]
        batches += [start.batch_records for topic in scenario.topics for start in topic.starts]
        polled = max((member.max_poll_records for member in scenario.members), default=1)
        longest = max(batches, default=1)
        most = scenario.settings.limits.max_record_locks + polled + 2 * longest + 16
        return cls(
            sum(topic.partitions for topic in scenario.topics),
            sum(member.count for member in scenario.members),
            polled,
            1 << max(most, 64).bit_length(),
            2 * (polled + longest) + 64,
            scenario.settings.limits.delivery_count_limit,
            scenario.duration_ms // scenario.step_ms + 4,
        )

    @property
    def entries(self) -> int:
        """Entries of a slot."""
        return self.scratch

    @property
    def fixed(self) -> int:
        """Words that do not depend on the logs."""
        pairs = self.places * self.members
        return (
            at.GLOBALS
            + self.places * (at.PLACE + self.window * (at.OFFSET + 2 * at.LOCK_SIZE) + 2)
            + self.members * at.MEMBER
            + pairs * (at.COUNTS + 3 + 3)
            + self.scratch * (at.ROW + 1)
            + self.steps
        )


def words(scenario: Scenario) -> int:
    """Words of memory that a scenario takes, but for its logs and what is written."""
    sizes = Sizes.of(scenario)
    return sizes.fixed + 3 * sizes.members * (at.SLOT_HEAD + sizes.entries * at.ENTRY_SIZE)


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
        self.a = np.zeros(2 * self._sizes.fixed, np.int64)
        self._end = at.GLOBALS
        self._writes: list[Longs] = []
        self._runs: list[Longs] = []
        self._asked: list[Longs] = []
        self._written = self._ran = 0
        self._globals(requests)
        self.places = [
            self._place(number, log, sum(chunks[:number])) for number, log in enumerate(logs)
        ]
        self.members = [self._member(number) for number in range(self._sizes.members)]
        self.grow()

    def __getitem__(self, address: int) -> int:
        return int(self.a[address])

    def __setitem__(self, address: int, value: int) -> None:
        self.a[address] = value

    @property
    def written(self) -> int:
        """How many writes there were."""
        return self._written + self[at.WRITES]

    def _room(self, size: int) -> int:
        begin = self._end
        self._end += size
        if self._end > len(self.a):
            self.a = np.concatenate([self.a, np.zeros(self._end, np.int64)])
        return begin

    def _globals(self, requests: bool) -> None:
        scenario, sizes = self._scenario, self._sizes
        costs, limits = scenario.costs, scenario.settings.limits
        values = {
            at.PLACES: sizes.places,
            at.MEMBERS: sizes.members,
            at.PLACES_AT: self._room(sizes.places * at.PLACE),
            at.MEMBERS_AT: self._room(sizes.members * at.MEMBER),
            at.READY_AT: self._room(2 * sizes.places),
            at.ROWS_AT: self._room(sizes.scratch * at.ROW),
            at.TYPES_AT: self._room(sizes.scratch),
            at.COUNTS_AT: self._room(sizes.places * sizes.members * at.COUNTS),
            at.NODES_AT: self._room(sizes.places * sizes.members * 3),
            at.DRAINED_AT: self._room(sizes.steps),
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
            at.MASK: sizes.window - 1,
            at.LOCK_ROOM: 2 * sizes.window,
            at.CAUSE_NUMBER: at.NOBODY,
            at.FREE: -1,
            at.NOTES_REQUESTS: int(requests),
        }
        self.a[list(values)] = list(values.values())
        self.a[self[at.CHANCES_AT] : self._end] = -1

    def _place(self, number: int, log: Log, chunk: int) -> int:
        p, sizes = self[at.PLACES_AT] + number * at.PLACE, self._sizes
        fields = {
            at.INDEX: number,
            at.EXPIRY_DUE: -1,
            at.LOCKS_AT: self._room(2 * sizes.window * at.LOCK_SIZE),
            at.WINDOW_AT: self._room(sizes.window * at.OFFSET),
            at.BASES_AT: self._room(len(log.bases)),
            at.TIMES_AT: self._room(len(log.times)),
            at.BATCHES: len(log.times),
            at.CHUNK_AT: chunk,
            at.FIRST_CHUNK: log.bases[0] // at.CHUNK,
        }
        a = self.a
        for field, value in fields.items():
            a[p + field] = value
        a[fields[at.BASES_AT] :][: len(log.bases)] = log.bases
        a[fields[at.TIMES_AT] :][: len(log.times)] = log.times
        return p

    def _member(self, number: int) -> int:
        m, places = self[at.MEMBERS_AT] + number * at.MEMBER, self._sizes.places
        for field in (at.WANTED_AT, at.SESSION_AT, at.FETCHED_AT):
            self[m + field] = self._room(places)
        self[m + at.MEMBER_INDEX] = number
        self[m + at.PENDING] = self[m + at.BUSY_SINCE] = -1
        return m

    def behave(self, m: int, behaviour: Behaviour) -> None:
        """Put in what a member does with records: bounds of whole numbers below 2 ** 53."""
        shares = np.cumsum([behaviour.accept, behaviour.release, behaviour.reject])
        for field, bound in enumerate(shares.tolist()):
            self[m + at.BELOW_ACCEPT + field] = math.ceil(bound * 2.0**53)
        self[m + at.ACCEPTS_ALL] = int(behaviour.accept == 1)
        self[m + at.PER_RECORD] = int(behaviour.commit == "record")

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

    def grow(self) -> None:
        """Make room for the events to come."""
        sizes, changes = self._sizes, self[at.HELD_BY_ALL] + 16
        self._flush()
        self._have_room(at.WRITES_AT, at.WRITES_ROOM, at.WROTE, changes)
        self._have_room(at.RUNS_AT, at.RUNS_ROOM, at.RUN, changes)
        self._have_room(at.ASKED_AT, at.ASKED_ROOM, at.REQUEST, 16)
        before, count = self[at.EVENTS_AT], self[at.EVENTS]
        needed = count + 4 * sizes.members + 8 * sizes.places + 64
        if self._have_room(at.EVENTS_AT, at.EVENTS_ROOM, at.EVENT, needed):
            begin = self[at.EVENTS_AT]
            self.a[begin:][: count * at.EVENT] = self.a[before:][: count * at.EVENT]
        if self[at.FREE_SLOTS] < sizes.members + 1:
            for _ in range(2 * sizes.members + 2):
                slot = self._room(at.SLOT_HEAD + sizes.entries * at.ENTRY_SIZE)
                self[slot + at.NEXT_FREE], self[at.FREE] = self[at.FREE], slot
                self[at.FREE_SLOTS] = self[at.FREE_SLOTS] + 1

    def left(self) -> tuple[Longs, Longs, Longs]:
        """All writes, the runs that they were of, and all requests."""
        self._flush()
        return np.concatenate(self._writes), np.concatenate(self._runs), np.concatenate(self._asked)

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
        writes[:, at.WROTE - 1] += self._ran
        self._writes.append(writes)
        self._runs.append(self._rows(at.RUNS_AT, at.RUNS, at.RUN))
        self._asked.append(self._rows(at.ASKED_AT, at.ASKED, at.REQUEST))
        self._written += len(writes)
        self._ran += len(self._runs[-1])
        self[at.WRITES] = self[at.RUNS] = self[at.ASKED] = self[at.OPEN] = 0

    def _rows(self, where: int, count: int, size: int) -> Longs:
        begin = self[where]
        return self.a[begin : begin + self[count] * size].reshape(-1, size).copy()


def _chunks(log: Log) -> int:
    """Chunks of random numbers that the offsets of a log are in."""
    return log.bases[-1] // at.CHUNK - log.bases[0] // at.CHUNK + 1
