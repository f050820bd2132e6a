"""What members were given and what they said, kept apart from the simulation, to check it.

`audited` runs a scenario and follows every change of every share partition. The ledger knows Kafka's
rules for single offsets and nothing of batches, windows or writes; whatever breaks a promise fails
at once.
"""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from sharelag.model import DeliveryState
from sharelag.whatif import Limits, Scenario, SimulationResult, simulate
from sharelag.whatif.compiled import acquiring, requests, serving, states
from sharelag.whatif.compiled import layout as at
from sharelag.whatif.compiled.brokers import Brokers
from sharelag.whatif.compiled.memory import Core
from sharelag.whatif.compiled.requests import acknowledge, check_rows
from tests.support.share_partition import Acknowledgement, AcknowledgeType, Acquired, Seen

TERMINAL = (2, 4)


class Ledger:
    """One share partition under all its leaders.

    ``held``: offset: member, end of the lock in ms, delivery count. ``counts``: offset: the
    delivery count that its next delivery follows. ``finished``: offsets that were acknowledged, or
    archived after their last attempt.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.held: dict[int, tuple[str, int, int]] = {}
        self.counts: dict[int, int] = {}
        self.unwritten: set[int] = set()  # offsets whose count no write has yet
        self.finished: set[int] = set()
        self.delivered = 0
        self.share: Watched  # as its latest leader has it

    def expire(self, now: int) -> None:
        for offset in [offset for offset, (_, ends, _) in self.held.items() if ends <= now]:
            self.give_back(offset)

    def give_back(self, offset: int) -> None:
        _, _, count = self.held.pop(offset)
        self.unwritten.discard(offset)
        if count >= self.limits.delivery_count_limit:
            self.finished.add(offset)

    def acquired(self, member: str, now: int, runs: Sequence[Acquired]) -> None:
        for first, last, count in runs:
            for offset in range(first, last + 1):
                assert offset not in self.held, (
                    f"{offset} is held by {self.held[offset][0]} and goes to {member}"
                )
                assert offset not in self.finished, f"{offset} is finished and goes to {member}"
                assert count == self.counts.get(offset, 0) + 1 <= self.limits.delivery_count_limit
                self.held[offset] = member, now + self.limits.lock_duration_ms, count
                self.counts[offset] = count
                self.unwritten.add(offset)
                self.delivered += 1

    def acknowledged(
        self, member: str, now: int, given: Sequence[Acknowledgement], start: int
    ) -> None:
        for first, last, types in given:
            for offset in range(max(first, start), last + 1):
                assert self.held[offset][0] == member
                one = types if isinstance(types, int) else types[(offset - first) % len(types)]
                if one == AcknowledgeType.RENEW:
                    until = now + self.limits.lock_duration_ms
                    self.held[offset] = (member, until, self.held[offset][2])
                elif one == AcknowledgeType.RELEASE:
                    self.give_back(offset)
                else:
                    del self.held[offset]
                    self.unwritten.discard(offset)
                    self.finished.add(offset)

    def released(self, member: str) -> None:
        for offset in [offset for offset, (holder, _, _) in self.held.items() if holder == member]:
            self.give_back(offset)

    def loaded(self) -> None:
        """A new leader knows nothing of what was being delivered."""
        for offset in self.unwritten:
            self.counts[offset] -= 1
        self.held.clear()
        self.unwritten.clear()


class Watched(Seen):
    """A share partition whose changes are recorded. ``may_go_back``: the log start moves."""

    def __init__(self, core: Core, p: int, ledger: Ledger, may_go_back: bool) -> None:
        super().__init__(core, p)
        self.ledger, self.may_go_back = ledger, may_go_back
        self.passed = self.start_offset

    def acquired_for_nobody(self) -> list[Acquired]:
        """Find what a fetch that failed acquired: it stays so until its lock ends."""
        return [
            Acquired(offset, offset, count)
            for first, last, state, count, *_ in self.in_flight()
            if state == DeliveryState.ACQUIRED
            for offset in range(first, last + 1)
            if offset not in self.ledger.held
        ]

    def check(self) -> None:
        """The start never goes back, and the count is that of the finished offsets after it."""
        assert self.may_go_back or self.start_offset >= self.passed
        self.passed = self.start_offset
        runs = self.in_flight()
        done = sum(last - first + 1 for first, last, state, *_ in runs if state in TERMINAL)
        count = self.delivery_complete_count
        # Of aborted record batches Kafka counts what lies before the start offset, too.
        assert count == done or (self.may_go_back and count > done)
        if not self.may_go_back:
            held_runs = [run for run in runs if run.member]
            held = {
                n: r.member for r in held_runs for n in range(r.first_offset, r.last_offset + 1)
            }
            assert held == {offset: member for offset, (member, _, _) in self.ledger.held.items()}
            # What is left of what was there: neither finished nor passed.
            end = self.end_offset
            left = end - self.start_offset - self.delivery_complete_count
            unfinished = sum(n not in self.ledger.finished for n in range(self.start_offset, end))
            assert left == unfinished


class _Auditor:
    """The kernels that change share partitions, with a ledger beside each."""

    def __init__(self, limits: Limits, plain: bool) -> None:
        self.limits, self.plain = limits, plain
        self.ledgers: dict[int, Ledger] = {}

    def ledger(self, a: Any, p: int) -> Ledger:
        """Return the ledger of a place, with the locks that end until now over."""
        known = self.ledgers[a[p + at.INDEX]]
        known.expire(states.now_ms(a))
        return known

    def load(self, brokers: Brokers, place: int, *found: Any) -> None:
        LOAD(brokers, place, *found)
        known = self.ledgers.get(place)
        if known:
            known.loaded()
        ledger = known or self.ledgers.setdefault(place, Ledger(self.limits))
        core = brokers._core
        ledger.share = Watched(core, core.places[place], ledger, not self.plain)

    def acquire(self, a: Any, m: int, p: int, *more: int) -> None:
        ledger = self.ledger(a, p)
        before = a[a[at.SLOT] + at.ENTRIES] if a[at.SLOT] >= 0 else 0
        acquiring.acquire(a, m, p, *more)
        slot, first = a[at.SLOT], a[at.SLOT] + at.SLOT_HEAD
        runs = [
            Acquired(a[one + at.E_FIRST], a[one + at.E_LAST], a[one + at.E_COUNT])
            for entry in range(before, a[slot + at.ENTRIES] if slot >= 0 else 0)
            for one in (first + entry * at.ENTRY_SIZE,)
        ]
        member = str(a[m + at.MEMBER_INDEX])
        runs = runs or ledger.share.acquired_for_nobody()
        ledger.acquired(member, states.now_ms(a), runs)
        ledger.share.check()

    def check_rows(self, a: Any, p: int, ack: int, begin: int, end: int, member: int) -> int:
        """All that is said about is held by who says so, or else it is refused."""
        ledger, start = self.ledger(a, p), a[p + at.START]
        given = _given(a, ack, begin, end)
        offsets = [n for a in given for n in range(max(a.first_offset, start), a.last_offset + 1)]
        held = ledger.held
        mine = all(offset in held and held[offset][0] == str(member) for offset in offsets)
        refused = int(check_rows(a, p, ack, begin, end, member))
        assert mine != bool(refused) or ledger.share.may_go_back
        return refused

    def acknowledge(self, a: Any, p: int, ack: int, begin: int, end: int, member: int) -> int:
        ledger, start = self.ledger(a, p), a[p + at.START]
        refused = int(acknowledge(a, p, ack, begin, end, member))
        if not refused:
            given = _given(a, ack, begin, end)
            ledger.acknowledged(str(member), states.now_ms(a), given, start)
        return refused

    def release_all(self, a: Any, p: int, member: int) -> None:
        ledger = self.ledger(a, p)
        states.release_all(a, p, member)
        ledger.released(str(member))

    def finish(self, a: Any, p: int) -> None:
        states.finish(a, p)
        self.ledgers[a[p + at.INDEX]].share.check()

    def expire(self, a: Any, p: int) -> bool:
        is_due = 0 <= a[p + at.EXPIRY_DUE] <= a[at.NOW]
        expired = states.expire(a, p)
        if is_due:
            self.ledger(a, p).share.check()
        return expired


LOAD = Brokers._load


def _given(a: Any, ack: int, begin: int, end: int) -> list[Acknowledgement]:
    """Rows of a request, as a member's acknowledgements."""
    given = []
    for row in range(begin, end):
        one = ack + at.ACK_HEAD + row * at.ROW
        first, last, type_ = a[one + at.R_FIRST], a[one + at.R_LAST], a[one + at.R_TYPE]
        types = a[one + at.R_TYPES]
        listed = tuple(a[n] for n in range(types, types + last - first + 1))
        given.append(Acknowledgement(first, last, type_ if type_ >= 0 else listed))
    return given


def audited(scenario: Scenario, seed: int, plain: bool) -> tuple[SimulationResult, list[Ledger]]:
    """Run a scenario with a ledger for each share partition.

    ``plain``: no record is deleted, compacted or aborted, so that the start offset never goes back,
    and what is left can be counted offset by offset.
    """
    auditor = _Auditor(scenario.settings.limits, plain)
    with ExitStack() as patches:
        for owner, name, value in (
            (sys.modules[simulate.__module__], "use_compiled", lambda _: False),
            (Brokers, "_load", lambda *given: auditor.load(*given)),
            (Core, "release", lambda _: None),  # the ledgers look into it later
            (serving, "acquire", auditor.acquire),
            (serving, "expire", auditor.expire),
            (requests, "expire", auditor.expire),
            (requests, "check_rows", auditor.check_rows),
            (requests, "acknowledge", auditor.acknowledge),
            (requests, "release_all", auditor.release_all),
            (requests, "finish", auditor.finish),
        ):
            patches.enter_context(patch.object(owner, name, value))
        result = simulate(scenario, seed, requests=True)
    return result, [auditor.ledgers[place] for place in sorted(auditor.ledgers)]
