"""The share partition as the broker that leads it runs it.

The state machine of ``kafka.server.share.SharePartition`` (Kafka 4.4, without a dead-letter queue;
4.3.1 has the same), with time passed in: no clock, no threads, no chance. Given the same calls it
answers, holds in memory and writes what Kafka's class does, with two simplifications: a write is
answered at once, and where Kafka's class fails with an internal error, a fetch gets nothing and an
acknowledgement is refused.
"""

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import NamedTuple, Self, TypeAlias

import numpy as np

from sharelag.model import DeliveryState, StateBatch, Window
from sharelag.model import SharePartition as SharePartitionKey
from sharelag.whatif import Limits, Member, Scenario, Service, Settings, Topic
from sharelag.whatif.compiled import acquiring, calls, requests, run, serving, states, window
from sharelag.whatif.compiled import layout as at
from sharelag.whatif.compiled.memory import Core
from sharelag.whatif.compiled.run import InFlight, Simulation
from sharelag.whatif.consumers import AcquireMode
from sharelag.whatif.records import StateTopic, Write, WrittenRun
from sharelag.whatif.simulation.logs import Log


class AcknowledgeType(IntEnum):
    """Kafka's ``AcknowledgeType`` of a record; 0 is for an offset without a record."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class LogBatch(NamedTuple):
    """One record batch of the log, offsets inclusive."""

    base_offset: int
    last_offset: int


class Acquired(NamedTuple):
    """Offsets that a fetch acquired, inclusive (``ShareFetchResponseData.AcquiredRecords``)."""

    first_offset: int
    last_offset: int
    delivery_count: int


class Acknowledgement(NamedTuple):
    """Acknowledgement of ``first_offset..last_offset``: one type for all, or one each."""

    first_offset: int
    last_offset: int
    types: int | Sequence[int] = AcknowledgeType.ACCEPT


class AcknowledgeError(Exception):
    """Kafka refuses an acknowledgement; nothing of it takes effect for this share partition."""


class InvalidRecordStateError(AcknowledgeError):
    """Some offset is not acquired by this member: its lock expired, or it never was."""


class InvalidAcknowledgementError(AcknowledgeError):
    """The acknowledgement goes beyond what anybody fetched."""


class StateNotWrittenError(AcknowledgeError):
    """The share coordinator refused the write, so the records are acquired as before."""


class Batch(NamedTuple):
    """Offsets first acquired together, or loaded as one state batch (``InFlightBatch``).

    After a split, each offset has its own state; ``runs`` merge equal neighbours.
    """

    first_offset: int
    last_offset: int
    is_split: bool
    runs: list[InFlight]


def state_batches(write: Write) -> list[StateBatch]:
    """The state batches of a write exactly as Kafka lists them: split ones offset by offset."""
    batches: list[StateBatch] = []
    for first, last, state, count, per_offset in write.runs:
        ends = [(one, one) for one in range(first, last + 1)] if per_offset else [(first, last)]
        batches += (StateBatch(*end, state, count) for end in ends)
    return batches


#: Takes what is written, and answers whether it was accepted.
Persist: TypeAlias = Callable[[Write], bool]


def persist(topic: StateTopic, key: SharePartitionKey) -> Persist:
    """What a share partition hands its writes to."""

    def accept(write: Write) -> bool:
        topic.write(key, write)
        return True

    return accept


def _accept(_: Write) -> bool:
    return True


class Seen:
    """What the memory of a run has of a share partition."""

    def __init__(self, core: Core, p: int) -> None:
        self._core, self._p = core, p

    @property
    def start_offset(self) -> int:
        """SPSO: the first offset that may still be delivered."""
        return self._core[self._p + at.START]

    @property
    def end_offset(self) -> int:
        """Exclusive end of what was acquired so far (SPEO + 1)."""
        return self._core[self._p + at.END] + self._core[self._p + at.IN_MEMORY]

    @property
    def delivery_complete_count(self) -> int:
        """Finished offsets at or after the start offset."""
        return self._core[self._p + at.COMPLETE]

    @property
    def members(self) -> list[str]:
        return [str(n) for n in range(len(self._core.members))]

    def in_flight(self) -> list[InFlight]:
        return run.in_flight(self._core, self._p, self.members)

    def can_fetch(self) -> bool:
        core, p = self._core, self._p
        return acquiring.can_fetch(core, p, acquiring.next_fetch_offset(core, p))


class SharePartition(Seen):
    """One partition of one topic, as its leader serves it to one share group.

    All methods that take ``now`` (ms, never going back) first let the locks expire that ended
    until then. ``persist`` gets each `Write` when the broker would send it, and says whether the
    share coordinator accepts it.
    """

    def __init__(
        self,
        start_offset: int,
        limits: Limits | None = None,
        leader_epoch: int = 0,
        state_epoch: int = 0,
        persist: Persist = _accept,
    ) -> None:
        self._limits, self._persist, self._state_epoch = limits or Limits(), persist, state_epoch
        core = _memory(self._limits)
        super().__init__(core, *core.places)
        self._members: dict[str, int] = {}
        self._now = 0
        core.load_state(self._p, start_offset, (), 0)
        core[self._p + at.WRITE_EPOCH] = leader_epoch

    @classmethod
    def load(
        cls,
        window: Window,
        now: int = 0,
        limits: Limits | None = None,
        leader_epoch: int = 0,
        persist: Persist = _accept,
    ) -> Self:
        """What a new leader makes of the persisted state (``SharePartition.maybeInitialize``)."""
        start = window.start_offset
        loaded = cls(start, limits, leader_epoch, window.state_epoch, persist)
        loaded._now = now
        loaded._core.load_state(loaded._p, start, window.batches, now)
        loaded._core.call(calls.MOVE_START, loaded._p)
        return loaded

    # ---- fetching ----

    def next_fetch_offset(self) -> int:
        """Where the next fetch of the log begins: what is to be delivered again comes first."""
        return int(acquiring.next_fetch_offset(self._core, self._p))

    def acquire(
        self,
        member: str,
        now: int,
        batches: Sequence[LogBatch],
        max_records: int = 500,
        batch_size: int | None = None,
        mode: AcquireMode = "batch_optimized",
        *,
        fetch_offset: int | None = None,
        aborted: Sequence[LogBatch] = (),
    ) -> list[Acquired]:
        """Acquire records for a member from what a fetch of the log brought."""
        self._advance(now)
        offset = self.next_fetch_offset() if fetch_offset is None else fetch_offset
        if not batches:
            return []
        core, p, m = self._core, self._p, self._number(member)
        core[m + at.MAX_POLL] = max_records if batch_size is None else batch_size
        core[m + at.RECORD_LIMIT] = int(mode == "record_limit")
        _fetched(core, p, batches, aborted)
        core[at.SLOT], core[at.TAKEN] = -1, 0
        acquiring.acquire(core, m, p, offset, max_records, 0, core[p + at.BATCHES] - 1)
        slot = core[at.SLOT]
        if slot < 0:
            return []
        first = slot + at.SLOT_HEAD
        entries = range(first, first + core[slot + at.ENTRIES] * at.ENTRY_SIZE, at.ENTRY_SIZE)
        serving.free(core, slot)
        return [
            Acquired(core[one + at.E_FIRST], core[one + at.E_LAST], core[one + at.E_COUNT])
            for one in entries
        ]

    # ---- what members say, or fail to say ----

    def acknowledge(
        self, member: str, now: int, acknowledgements: Sequence[Acknowledgement]
    ) -> None:
        """Acknowledge what a member has acquired: all, or nothing if one offset is not its."""
        self._advance(now)
        core, p, complete = self._core, self._p, self._core[self._p + at.COMPLETE]
        ack, number = self._ask(member, acknowledgements), self._owner(member)
        rows = len(acknowledgements)
        trouble = requests.acknowledge(core, p, ack, 0, rows, number)
        requests.free_ack(core, ack)
        if trouble:
            raise self._error(trouble, member, acknowledgements[core[at.FOUND]])
        self._write(complete)

    def release_session(self, member: str, now: int) -> None:
        """End a share session: what it acquired is available, or archived at the last attempt."""
        self._advance(now)
        complete = self._core[self._p + at.COMPLETE]
        states.release_all(self._core, self._p, self._owner(member))
        self._write(complete)

    def expire_locks(self, now: int) -> int | None:
        """Take back what was acquired too long ago, and write so, whatever comes back."""
        self._advance(now)
        return self.next_lock_ends_ms

    def log_start_moved(self, offset: int, now: int) -> None:
        """Follow the log start offset after records were deleted; nothing is written."""
        self._advance(now)
        states.move_log_start(self._core, self._p, offset)

    # ---- what is in memory ----

    @property
    def limits(self) -> Limits:
        """The group's settings in force."""
        return self._limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._limits = limits
        self._core.set_limits(limits)

    @property
    def in_flight_span(self) -> int:
        """Offsets from start to end, finished ones and holes included, as the lock limit has it."""
        return int(window.span(self._core, self._p))

    @property
    def next_lock_ends_ms(self) -> int | None:
        """When the next lock ends; None while nothing is acquired."""
        ends = int(states.next_end(self._core, self._p))
        return None if ends < 0 else ends

    @property
    def members(self) -> list[str]:
        return list(self._members)

    @property
    def batches(self) -> list[Batch]:
        """The batches in memory, those before the start offset included."""
        core, p, found = self._core, self._p, list[Batch]()
        offset = core[p + at.FIRST]
        while core[p + at.IN_MEMORY] and offset <= core[p + at.LAST]:
            batch = window.slot_of(core, p, offset)
            last, is_split = core[batch + at.BATCH_LAST], core[batch + at.SPLIT] == 1
            runs: list[InFlight] = []
            for first in range(offset, last + 1) if is_split else (offset,):
                slot = window.slot_of(core, p, first)
                state, end = DeliveryState(core[slot + at.STATE]), first if is_split else last
                who: tuple[str | None, int | None] = (None, None)
                if state == DeliveryState.ACQUIRED:
                    who = self.members[core[slot + at.OWNER]], core[slot + at.DEADLINE]
                if runs and runs[-1][2:] == (state, core[slot + at.COUNT], *who):
                    first = runs.pop().first_offset
                runs.append(InFlight(first, end, state, core[slot + at.COUNT], *who))
            found.append(Batch(offset, last, is_split, runs))
            offset = window.after_hole(core, p, last + 1)
        return found

    @property
    def looks_for_available(self) -> bool:
        """Whether the next fetch looks for what is to be delivered again."""
        return self._core[self._p + at.FIND] == 1

    def state_of(self, offset: int) -> DeliveryState:
        """The state of any offset: archived before the start offset, available after the end."""
        core, p = self._core, self._p
        if offset < core[p + at.START]:
            return DeliveryState.ARCHIVED
        for first, last, state, *_ in self.in_flight():
            if first <= offset <= last:
                return state
        beyond = not core[p + at.IN_MEMORY] or offset > core[p + at.END]
        unknown = window.has_gap(core, p) and offset >= core[p + at.GAP_START]
        return DeliveryState.AVAILABLE if beyond or unknown else DeliveryState.ARCHIVED

    # ---- between its memory and the caller ----

    def _number(self, member: str) -> int:
        """The memory of a member."""
        if member not in self._members:
            self._members[member] = self._core.add_member()
        return self._members[member]

    def _owner(self, member: str) -> int:
        return self._core[self._number(member) + at.MEMBER_INDEX]

    def _advance(self, now: int) -> None:
        """Let locks expire, whatever the share coordinator answers."""
        assert now >= self._now
        core, self._now = self._core, now
        core.grow()
        core[at.CAUSE], core[at.CAUSE_NUMBER] = at.EXPIRY, at.NOBODY
        states.advance(core, self._p, now)
        for writes, runs in core.take_writes():
            begin = 0
            for _, _, time, start, complete, epoch, end in writes.tolist():
                self._persist(self._made(time, start, complete, epoch, runs[begin:end].tolist()))
                begin = end

    def _made(
        self, time: int, start: int, complete: int, epoch: int, runs: Sequence[Sequence[int]]
    ) -> Write:
        made = tuple(
            WrittenRun(first, last, state, count, bool(split))
            for _, first, last, _, state, count, split in runs
        )
        return Write(time, start, complete, epoch, self._state_epoch, made)

    def _write(self, complete: int) -> None:
        """Write what is changed; the delivery complete count was ``complete`` before."""
        core, p = self._core, self._p
        begin, count = core[at.RUNS_AT] + core[at.OPEN] * at.RUN, core[at.RUNS] - core[at.OPEN]
        if not count:
            return
        runs = core.a[begin : begin + count * at.RUN].reshape(count, at.RUN).tolist()
        fields = (at.STATE_MS, at.START, at.COMPLETE, at.WRITE_EPOCH)
        time, start, done, epoch = (core[p + field] for field in fields)
        if not self._persist(self._made(time, start, done, epoch, runs)):
            states.undo(core, p, complete)
            raise StateNotWrittenError
        states.finish(core, p)
        core.take_writes()

    def _ask(self, member: str, acknowledgements: Sequence[Acknowledgement]) -> int:
        """What a member says, as a request in memory."""
        core = self._core
        ack = int(requests.new_ack(core, self._number(member)))
        listed = [
            (types,) if isinstance(types, int) else tuple(types) for _, _, types in acknowledgements
        ]
        types_at = core.allocate(sum(map(len, listed)))
        core[ack + at.A_ROWS] = len(listed)
        row = ack + at.ACK_HEAD
        for (first, last, _), types in zip(acknowledgements, listed, strict=True):
            one = types[0] if len(types) == 1 else -1
            core.a[row : row + at.ROW] = self._p, first, last, one, types_at, 0
            core.a[types_at : types_at + len(types)] = types
            row, types_at = row + at.ROW, types_at + len(types)
        return ack

    def _error(self, trouble: int, member: str, given: Acknowledgement) -> AcknowledgeError:
        if trouble == at.BEYOND:
            core, p = self._core, self._p
            before = window.slot_of(core, p, window.floor(core, p, given.last_offset))
            return InvalidAcknowledgementError(f"{given} goes past {core[before + at.BATCH_LAST]}")
        why = {
            at.NOT_IN_FLIGHT: "it is not in flight",
            at.NOT_RENEWED: "share.renew.acknowledge.enable is not set",
        }.get(trouble, f"it is not acquired by {member} any more")
        return InvalidRecordStateError(f"{given}: {why}")


def _fetched(core: Core, p: int, batches: Sequence[LogBatch], aborted: Sequence[LogBatch]) -> None:
    """Put in what a fetch of the log brought, instead of the log."""
    bases, flags = [batches[0].base_offset], []
    bad = {one.base_offset for one in aborted}
    for base, last in batches:
        if base > bases[-1]:
            bases.append(base)
            flags.append(at.IS_REMOVED)
        bases.append(last + 1)
        flags.append(at.IS_ABORTED if base in bad else 0)
    for field, values in ((at.BASES_AT, bases), (at.FLAGS_AT, flags)):
        core[p + field] = core.allocate(len(values))
        core.a[core[p + field] :][: len(values)] = values
    core[p + at.BATCHES] = len(flags)
    if not core[p + at.IN_MEMORY]:
        core[p + at.FIRST], core[p + at.LAST] = core[p + at.START], core[p + at.START] - 1
    core.ensure_window(p, bases[-1])


def _memory(limits: Limits) -> Core:
    """The memory of one share partition."""
    most = Member(max_poll_records=limits.max_record_locks)
    scenario = Scenario((Topic("t", 1),), (most,), settings=Settings(limits))
    log = Log(np.zeros(1, np.int64), np.zeros(0, np.int64))
    return Core(scenario, [log], requests=False, is_compiled=False)


def fetch_orders(partitions: int, fetches: int) -> list[list[int]]:
    """The partitions in the order in which each fetch of a share session asks for them."""
    member = Member(max_poll_records=1, service=Service(1))
    run = Simulation(Scenario((Topic("orders", partitions, backlog=fetches),), (member,)), 0)
    core, orders = run.core, list[list[int]]()
    while len(orders) < fetches:
        run.clock.run(run.clock.now + 500)
        session = core.sessions(core.members[0])[0]
        if core[session + at.S_EPOCH] > len(orders):
            asked = core.a[core[session + at.FETCHED_AT] :][: core[session + at.FETCHED]]
            orders.append([core.places.index(p) for p in asked])
    return orders
