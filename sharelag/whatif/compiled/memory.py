"""The memory of a compiled run: how large it is, how it begins, and how it grows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sharelag.whatif.compiled import layout as at
from sharelag.whatif.compiled.layout import Memory
from sharelag.whatif.consumers import Behaviour
from sharelag.whatif.scenario import Scenario
from sharelag.whatif.simulation.clock import MS
from sharelag.whatif.simulation.logs import Log
from sharelag.whatif.simulation.streams import Longs

#: What is grown begins with this many rows.
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
    """The memory of one run.

    Attributes
    ----------
    memory
        The arrays as of now.
    places, members
        Addresses of share partitions, and of members by the number of their life.
    """

    def __init__(self, scenario: Scenario, logs: Sequence[Log], requests: bool) -> None:
        self._sizes = sizes = Sizes.of(scenario)
        self._scenario = scenario
        chunks = [_chunks(log) for log in logs]
        self._chunks = sum(chunks)
        services = {member.service for member in scenario.members}
        size = sizes.fixed + sum(2 * len(log.bases) for log in logs)
        size += self._chunks * sizes.attempts + len(services) * (sizes.places + self._chunks)
        self.memory = Memory(
            np.zeros(size, np.int64),
            np.zeros((_ROWS, 4), np.int64),
            np.zeros((0, at.SLOT_HEAD + sizes.entries * at.ENTRY_SIZE), np.int64),
            np.zeros((_ROWS, 6), np.int64),
            np.zeros((_ROWS, 5), np.int64),
            np.zeros((16, at.CHUNK), np.int64),
            np.zeros((_ROWS if requests else 16, 4), np.int64),
        )
        self._end = at.GLOBALS
        self._drawn = 0
        self._globals(requests)
        self.places = [
            self._place(number, log, sum(chunks[:number])) for number, log in enumerate(logs)
        ]
        self.members = [self._member(number) for number in range(sizes.members)]
        self.grow()

    def __getitem__(self, address: int) -> int:
        return int(self.memory.a[address])

    def __setitem__(self, address: int, value: int) -> None:
        self.memory.a[address] = value

    def _room(self, size: int) -> int:
        begin = self._end
        self._end += size
        return begin

    def _globals(self, requests: bool) -> None:
        scenario, sizes, a = self._scenario, self._sizes, self.memory.a
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
        a[list(values)] = list(values.values())
        a[a[at.CHANCES_AT] : self._end] = -1

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
        a = self.memory.a
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
        self.memory.a[address : self._end] = -1
        self.memory.a[address : address + len(fixed)] = fixed
        return address

    def put_chunk(self, address: int, drawn: Longs) -> None:
        """Keep random numbers, and note where."""
        if self._drawn == len(self.memory.chunks):
            self.memory = self.memory._replace(chunks=_larger(self.memory.chunks))
        self.memory.chunks[self._drawn] = drawn
        self[address] = self._drawn
        self._drawn += 1

    def grow(self) -> None:
        """Make room for the events to come."""
        memory, sizes = self.memory, self._sizes
        changes = self[at.HELD_BY_ALL] + 16
        if self[at.FREE_SLOTS] < sizes.members + 1:
            slots = np.zeros((2 * sizes.members + 2, memory.slots.shape[1]), np.int64)
            first = len(memory.slots)
            slots[:, at.NEXT_FREE] = np.arange(first - 1, first + len(slots) - 1)
            slots[0, at.NEXT_FREE] = self[at.FREE]
            self[at.FREE] = first + len(slots) - 1
            self[at.FREE_SLOTS] = self[at.FREE_SLOTS] + len(slots)
            memory = memory._replace(slots=np.concatenate([memory.slots, slots]))
        events = self[at.EVENTS] + 4 * sizes.members + 8 * sizes.places + 64
        self.memory = memory._replace(
            events=_with_room(memory.events, events),
            writes=_with_room(memory.writes, self[at.WRITES] + changes),
            runs=_with_room(memory.runs, self[at.RUNS] + changes),
            asked=_with_room(memory.asked, self[at.ASKED] + 16),
        )


def _chunks(log: Log) -> int:
    """Chunks of random numbers that the offsets of a log are in."""
    return log.bases[-1] // at.CHUNK - log.bases[0] // at.CHUNK + 1


def _larger(rows: Longs) -> Longs:
    return np.concatenate([rows, np.zeros_like(rows)])


def _with_room(rows: Longs, needed: int) -> Longs:
    while len(rows) < needed:
        rows = _larger(rows)
    return rows
