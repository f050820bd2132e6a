"""Random lives of a share partition: events drawn from its state, and the state that follows.

`lives` plays a schedule on our state machine and writes down each event beside what it led to, in
the form in which Kafka's own class answers (``SharePartitionOracle``). A life ends with a change of
leader; the next one begins with what was persisted.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from sharelag.model import SharePartition as Key
from sharelag.whatif import Limits
from sharelag.whatif.compiled.run import InFlight
from sharelag.whatif.records import StateTopic, Write
from tests.support.share_partition import (
    AcknowledgeError,
    Acknowledgement,
    InvalidAcknowledgementError,
    InvalidRecordStateError,
    LogBatch,
    SharePartition,
    StateNotWrittenError,
    persist,
    state_batches,
)

KEY = Key("G1", "A" * 22, 0)

MEMBERS = ("a", "b", "c")
KAFKAS_NAMES = {
    InvalidRecordStateError: "InvalidRecordStateException",
    InvalidAcknowledgementError: "InvalidRequestException",
    StateNotWrittenError: "CoordinatorNotAvailableException",
}


@dataclass
class Life:
    """One leader's time: how it began, and every event with what followed."""

    question: dict[str, Any]
    loaded: dict[str, Any]
    steps: list[dict[str, Any]] = field(default_factory=list)


class World:
    """The log, the members and the share coordinator around one share partition."""

    def __init__(self, random: Random) -> None:
        self.random = random
        locks, attempts = random.choice([12, 30, 60, 200]), random.choice([1, 2, 3, 5, 6, 10])
        self.limits = Limits(locks, attempts, 1000)
        # Only groups with settings of their own can switch it off, and then Kafka's ranges hold.
        if random.random() < 0.05:
            self.limits = Limits(renew_enabled=False)
        self.now = 1000
        self.log: list[LogBatch] = []
        self.aborted: set[int] = set()
        self.log_start = self.log_end = random.randint(0, 50)
        self.topic = StateTopic(partitions=1, updates_per_snapshot=5)
        self.topic.initialize(KEY, self.now, random.randint(0, 3), self.log_start)
        self.leader_epoch = 0
        self.refuses = False
        self.writes: list[Write] = []
        self.delivered: dict[str, list[tuple[int, int]]] = {member: [] for member in MEMBERS}
        self.share = self.load()

    def load(self) -> SharePartition:
        self.leader_epoch += 1
        self.delivered = {member: [] for member in MEMBERS}
        self.read = self.topic.read(KEY, self.leader_epoch, self.now)
        return SharePartition.load(
            self.read, self.now, self.limits, self.leader_epoch, self.persist
        )

    def persist(self, write: Write) -> bool:
        self.writes.append(write)
        return not self.refuses and persist(self.topic, KEY)(write)

    # ---- events ----

    def event(self) -> dict[str, Any]:
        """Draw an event, let it happen, and return it."""
        self.writes = []
        if self.random.random() < 0.5:
            share = self.random.choice([1, 1, 10, 100, 400, 1000])
            self.now += self.limits.lock_duration_ms * share // 1000
        kinds = {"acquire": 10, "acknowledge": 8, "release": 1, "wait": 1, "logStart": 1}
        kind = self.random.choices(list(kinds), list(kinds.values()))[0]
        self.refuses = self.random.random() < 0.05
        op: dict[str, Any] = {"op": kind, "now": self.now}
        op |= {"fails": True} if self.refuses else {}
        answer: dict[str, Any] = {}
        try:
            getattr(self, kind)(op, answer)
        except AcknowledgeError as error:
            answer["error"] = KAFKAS_NAMES[type(error)]
        states = {"state": state_of(self.share), "writes": written(self.writes)}
        return {"op": op, "answer": answer | states}

    def acquire(self, op: dict[str, Any], answer: dict[str, Any]) -> None:
        self._produce()
        if self.random.random() < 0.05 and self.log:
            self.log.pop(self.random.randrange(len(self.log)))
        self.share.expire_locks(self.now)
        answer["canFetch"] = self.share.can_fetch()
        answer["fetchOffset"] = offset = self.share.next_fetch_offset()
        fetched = [b for b in self.log if b.last_offset >= offset][: self.random.randint(1, 6)]
        if offset < self.log_start:
            fetched = []
        op |= {
            "member": self.random.choice(MEMBERS),
            "fetched": [[*batch, batch.base_offset in self.aborted] for batch in fetched],
            "maxRecords": self.random.choice([1, 3, 10, 50]),
            "mode": self.random.choice(["batch_optimized", "batch_optimized", "record_limit"]),
        }
        op["batchSize"] = self.random.choice([op["maxRecords"], op["maxRecords"], 1, 20])
        acquired = self.share.acquire(
            op["member"], self.now, fetched, op["maxRecords"], op["batchSize"], op["mode"],
            aborted=[batch for batch in fetched if batch.base_offset in self.aborted],
        )  # fmt: skip
        self.delivered[op["member"]] += [run[:2] for run in acquired]
        answer["acquired"] = [list(run) for run in acquired]

    def acknowledge(self, op: dict[str, Any], answer: dict[str, Any]) -> None:
        op["member"] = member = self.random.choice(
            [name for name in MEMBERS if self.delivered[name]] or list(MEMBERS)
        )
        ranges = self._ranges(self.delivered[member])
        op["batches"] = [[first, last, self._types(last - first + 1)] for first, last in ranges]
        self.share.acknowledge(member, self.now, [Acknowledgement(*b) for b in op["batches"]])

    def release(self, op: dict[str, Any], answer: dict[str, Any]) -> None:
        op["member"] = self.random.choice(MEMBERS)
        self.share.release_session(op["member"], self.now)

    def wait(self, op: dict[str, Any], answer: dict[str, Any]) -> None:
        self.share.expire_locks(self.now)

    def logStart(self, op: dict[str, Any], answer: dict[str, Any]) -> None:
        low = self.share.start_offset
        op["offset"] = self.random.randint(max(low - 3, 0), max(self.share.end_offset, low) + 4)
        self.log_start = max(self.log_start, op["offset"])
        self.log_end = max(self.log_end, self.log_start)
        self.log = [batch for batch in self.log if batch.last_offset >= self.log_start]
        self.share.log_start_moved(op["offset"], self.now)

    # ---- draws ----

    def _produce(self) -> None:
        while self.random.random() < 0.6:
            size = self.random.choice([1, 1, 2, 5, 10, 20])
            if self.random.random() < 0.05:
                self.log_end += self.random.randint(1, 6)  # a hole that compaction left
            batch = LogBatch(self.log_end, self.log_end + size - 1)
            self.log.append(batch)
            self.log_end += size
            if self.random.random() < 0.08:
                self.aborted.add(batch.base_offset)

    def _ranges(self, delivered: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Mostly ranges as delivered, or parts of them; at times what was never delivered."""
        ranges = []
        for _ in range(self.random.choice([1, 1, 2, 3])):
            if delivered and self.random.random() < 0.97:
                first, last = delivered[-self.random.randint(1, min(len(delivered), 6))]
                if self.random.random() < 0.4:
                    first = self.random.randint(first, last)
                    last = self.random.randint(first, last)
                elif self.random.random() < 0.1:
                    last += self.random.randint(0, 20)
            else:
                first = self.random.randint(0, self.log_end + 2)
                last = first + self.random.randint(0, 10)
            ranges.append((first, last))
        ranges.sort()
        apart, end = [], -1
        for first, last in ranges:
            if first > end or self.random.random() < 0.02:
                apart.append((max(first, end), max(last, end, first)))
                end = apart[-1][1]
        return apart

    def _types(self, size: int) -> list[int]:
        kinds, weights = [0, 1, 2, 3, 4], [1, 8, 6, 1, 1]
        if self.random.random() < 0.6:
            return self.random.choices(kinds, weights)
        few = self.random.choices(kinds, weights, k=2)
        return [self.random.choice(few) for _ in range(size)]


def lives(random: Random, steps: int = 60) -> Iterator[Life]:
    """Play a schedule through up to three leaders; a life is given out whole."""
    world = World(random)
    for leader in range(random.randint(1, 3)):
        if leader:
            world.share = world.load()
        life = Life(
            {
                "startOffset": world.read.start_offset,
                "stateEpoch": world.read.state_epoch,
                "leaderEpoch": world.leader_epoch,
                "batches": [list(batch) for batch in world.read.batches],
                "maxRecordLocks": world.limits.max_record_locks,
                "deliveryCountLimit": world.limits.delivery_count_limit,
                "lockDurationMs": world.limits.lock_duration_ms,
                "renewEnabled": world.limits.renew_enabled,
            },
            state_of(world.share),
        )
        # A new leader has no locks to wait for, so its clock may begin where it likes.
        for _ in range(random.randint(steps // 3, steps)):
            life.steps.append(world.event())
        life.question["ops"] = [step["op"] for step in life.steps]
        yield life


def state_of(share: SharePartition) -> dict[str, Any]:
    """What is in memory, in the form of the oracle."""
    batches = share.batches
    return {
        "startOffset": share.start_offset,
        # Kafka's is that of the last record while there is any.
        "endOffset": share.end_offset - bool(batches),
        "dcc": share.delivery_complete_count,
        "findNext": share.looks_for_available,
        "inFlight": [[*batch[:3], _runs(batch.runs)] for batch in batches],
    }


def written(writes: list[Write]) -> list[list[Any]]:
    """Writes, in the form of the oracle."""
    return [[*write[:5], list(map(list, state_batches(write)))] for write in writes]


def _runs(runs: list[InFlight]) -> list[list[Any]]:
    return [[*run[:4], run.member or "", run.lock_ends_ms or 0] for run in runs]
