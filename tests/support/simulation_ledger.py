"""What members were given and what they said, kept apart from the simulation, to check it.

`audited` runs a scenario and follows every call of every share partition. The ledger knows Kafka's
rules for single offsets and nothing of batches, windows or writes; whatever breaks a promise fails
at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

from sharelag.model import DeliveryState
from sharelag.whatif.partition.values import (
    AcknowledgeError,
    Acknowledgement,
    AcknowledgeType,
    Acquired,
    Limits,
)
from sharelag.whatif.scenario import Scenario
from sharelag.whatif.share_partition import SharePartition
from sharelag.whatif.simulate import SimulationResult, simulate
from sharelag.whatif.simulation.served import Loader

TERMINAL = (2, 4)


class Ledger:
    """One share partition under all its leaders.

    Attributes
    ----------
    held
        Offset: member, end of the lock in ms, delivery count.
    counts
        Offset: the delivery count that its next delivery follows.
    finished
        Offsets that were acknowledged, or archived after their last attempt.
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
                    self.held[offset] = (
                        member,
                        now + self.limits.lock_duration_ms,
                        self.held[offset][2],
                    )
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


class Watched(SharePartition):
    """A share partition whose calls are recorded. ``may_go_back``: the log start moves."""

    ledger: Ledger
    may_go_back: bool
    passed: int

    def acquire(self, member: str, now: int, *found: Any, **more: Any) -> list[Acquired]:
        self.ledger.expire(now)
        acquired = super().acquire(member, now, *found, **more)
        self.ledger.acquired(member, now, acquired or self._acquired_for_nobody())
        self.check()
        return acquired

    def _acquired_for_nobody(self) -> list[Acquired]:
        """Find what a fetch that failed acquired: it stays so until its lock ends."""
        return [
            Acquired(offset, offset, count)
            for first, last, state, count, *_ in self.in_flight()
            if state == DeliveryState.ACQUIRED
            for offset in range(first, last + 1)
            if offset not in self.ledger.held
        ]

    def acknowledge(
        self, member: str, now: int, acknowledgements: Sequence[Acknowledgement]
    ) -> None:
        self.ledger.expire(now)
        start = self.start_offset
        super().acknowledge(member, now, acknowledgements)
        self.ledger.acknowledged(member, now, acknowledgements, start)
        self.check()

    def check_held(
        self, member: str, now: int, acknowledgements: Sequence[Acknowledgement]
    ) -> None:
        """All that is said about is held by who says so, or else it is refused."""
        start, held = self.start_offset, self.ledger.held
        self.ledger.expire(now)
        offsets = [
            n
            for one in acknowledgements
            for n in range(max(one.first_offset, start), one.last_offset + 1)
        ]
        mine = all(offset in held and held[offset][0] == member for offset in offsets)
        try:
            super().check_held(member, now, acknowledgements)
        except AcknowledgeError:
            assert not mine or self.may_go_back
            raise
        assert mine or self.may_go_back

    def release_session(self, member: str, now: int) -> None:
        self.ledger.expire(now)
        super().release_session(member, now)
        self.ledger.released(member)
        self.check()

    def expire_locks(self, now: int) -> int | None:
        self.ledger.expire(now)
        ends = super().expire_locks(now)
        self.check()
        return ends

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
            held = {
                n: run.member
                for run in runs
                if run.member
                for n in range(run.first_offset, run.last_offset + 1)
            }
            assert held == {offset: member for offset, (member, _, _) in self.ledger.held.items()}
            # What is left of what was there: neither finished nor passed.
            left = self.end_offset - self.start_offset - self.delivery_complete_count
            unfinished = sum(
                n not in self.ledger.finished for n in range(self.start_offset, self.end_offset)
            )
            assert left == unfinished


def audited(scenario: Scenario, seed: int, plain: bool) -> tuple[SimulationResult, list[Ledger]]:
    """Run a scenario with a ledger for each share partition.

    ``plain``: no record is deleted, compacted or aborted, so that the start offset never goes back,
    and what is left can be counted offset by offset.
    """
    ledgers: dict[int, Ledger] = {}
    load = Loader.loaded

    def watched(self: Loader, place: int, *found: Any) -> SharePartition:
        share = load(self, place, *found)
        share.__class__ = Watched
        assert isinstance(share, Watched)
        known = ledgers.get(place)
        if known:
            known.loaded()
        share.ledger = known or ledgers.setdefault(place, Ledger(scenario.settings.limits))
        share.ledger.share = share
        share.may_go_back = not plain
        share.passed = share.start_offset
        return share

    with patch.object(Loader, "loaded", watched):
        result = simulate(scenario, seed, requests=True)
    return result, [ledgers[place] for place in sorted(ledgers)]
