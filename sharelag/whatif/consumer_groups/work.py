"""Partitions of a consumer group, and the work of a consumer on the records of one poll."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sharelag.model import TERMINAL_STATES
from sharelag.whatif.scenario import Behaviour, PartitionStart
from sharelag.whatif.simulation.logs import Log
from sharelag.whatif.simulation.streams import (
    ACCEPT,
    CRASH,
    HOLD,
    REJECT,
    RELEASE,
    Longs,
    Outcomes,
    Work,
)
from sharelag.whatif.simulation.tables import Tally


@dataclass(slots=True, eq=False)
class Partition:
    """One topic partition.

    ``committed`` is None before the first commit; all before ``done`` is done, in order, which a
    redelivery does not take back; ``delivered`` is the exclusive end of what some member got so
    far. Offsets ``without`` work were finished by the share group when the simulation began;
    ``tries`` says by offset how often it was tried, where that is more than once.
    """

    place: int
    log: Log
    committed: int | None
    done: int
    delivered: int
    without: frozenset[int] = frozenset()
    tries: dict[int, int] = field(default_factory=dict)

    @property
    def lag(self) -> int:
        """What is left to do, by the end offset that was requested last."""
        return max(self.log.known_end - self.done, 0) - sum(
            offset >= self.done for offset in self.without
        )

    def idle(self, first: int, last: int) -> frozenset[int]:
        """Return the offsets ``first..last`` without work: no record, aborted, or done before."""
        found = {*self.log.gaps(first, last), *self.without.intersection(range(first, last + 1))}
        for base, end in self.log.batches(first, last) if self.log.aborted else ():
            if base in self.log.aborted:
                found.update(range(max(base, first), min(end, last) + 1))
        return frozenset(found)

    def finish(self, last: int, archived: Sequence[int], now: int, tally: Tally) -> int:
        """All up to an offset is done; returns how many newly are, archived ones left out."""
        first = self.done
        if last < first:
            return 0
        self.done = last + 1
        tally.finished.append((self.place, first, last, now))
        mine = sum(offset >= first for offset in archived)
        idle = len(self.idle(first, last))
        tally.archived[self.place] += mine + idle
        return last - first + 1 - mine - idle

    def position(self, now: int, from_earliest: bool) -> int:
        """Where a member begins that gets the partition."""
        if self.committed is None:  # auto.offset.reset
            self.committed = self.done if from_earliest else max(self.log.end(now), self.done)
            self.done = self.delivered = self.committed
        return self.committed

    def skip_to(self, offset: int, tally: Tally) -> None:
        """Go on from an offset, since there is nothing before it any more."""
        if offset > self.done:
            tally.lost[self.place] += offset - self.done
            self.done = offset
        self.delivered = max(self.delivered, offset)


def started(place: int, log: Log, start: PartitionStart, from_earliest: bool) -> Partition:
    """Return a partition as a consumer group would find it that is as far as the share group."""
    window = start.window
    if window is None or window.start_offset < 0:
        offset = log.start if from_earliest else log.end(0)
        return Partition(place, log, None, offset, offset)
    offset = max(window.start_offset, log.start)
    without = {
        one
        for run in window.batches
        if run.delivery_state in TERMINAL_STATES
        for one in range(max(run.first_offset, offset), run.last_offset + 1)
    }
    while offset in without:
        without.discard(offset)
        offset += 1
    return Partition(place, log, offset, offset, offset, frozenset(without))


class Returned(NamedTuple):
    """Records of one partition that a poll returned: ``first..last``."""

    partition: Partition
    first: int
    last: int


@dataclass(slots=True)
class Batch:
    """All that a poll returned, and how it goes.

    ``duration`` is microseconds until it is done, or until the member does not live on. By
    partition (place): offsets ``archived`` (rejected, or after the last attempt), and ``retries``.
    """

    returned: Sequence[Returned]
    duration: int = 0
    crashes: bool = False
    archived: dict[int, list[int]] = field(default_factory=dict)
    retries: dict[int, int] = field(default_factory=dict)


def process(
    returned: Sequence[Returned],
    behaviour: Behaviour,
    attempts: int,
    work: Callable[[int], Work],
    outcomes: Sequence[Outcomes],
) -> Batch:
    """Return how long the records of a poll take, and what becomes of them.

    A record that the behaviour releases is tried again at once, up to ``attempts`` times in all its
    deliveries, and then given up, as a rejected one; a silent one counts as done, since nobody says
    that it is not. One that is held keeps all that follow waiting.
    """
    batch = Batch(returned)
    for partition, first, last in returned:
        place, end = partition.place, last
        here, of = work(place), outcomes[place].of
        idle = partition.idle(first, last)
        fresh = max(first, partition.delivered)
        again = range(first, min(fresh, last + 1))
        odd = {offset: partition.tries.get(offset, 1) + 1 for offset in again}
        partition.tries.update(odd)
        answers = of(fresh, last, 1, behaviour) if fresh <= last else None
        if answers is not None:
            odd |= {fresh + at: 1 for at, answer in enumerate(answers.tolist()) if answer != ACCEPT}
        for offset in sorted(odd.keys() - idle):
            attempt, answer = odd[offset], _answer(of(offset, offset, odd[offset], behaviour))
            while answer == RELEASE and attempt < attempts:
                attempt += 1
                partition.tries[offset] = attempt
                batch.retries[place] = batch.retries.get(place, 0) + 1
                batch.duration += here.total(offset, offset)
                answer = _answer(of(offset, offset, attempt, behaviour))
            if answer == HOLD:
                batch.duration += outcomes[place].poison[offset][2]
            if answer == CRASH:
                end, batch.crashes = offset, True
                break
            if answer in (REJECT, RELEASE):
                batch.archived.setdefault(place, []).append(offset)
        batch.duration += here.total(first, end)
        batch.duration -= sum(here.total(one, one) for one in idle if one <= end)
        if batch.crashes:
            break
    return batch


def _answer(answers: Longs | None) -> int:
    return ACCEPT if answers is None else int(answers[0])
