"""One partition of a consumer group: what was committed, delivered, and is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sharelag.model import TERMINAL_STATES
from sharelag.whatif.scenario import PartitionStart
from sharelag.whatif.simulation.logs import Log
from sharelag.whatif.simulation.tally import Tally


@dataclass(slots=True, eq=False)
class Partition:
    """One topic partition.

    Attributes
    ----------
    committed
        The committed offset; None before the first commit.
    done
        All before it is done, in order; a redelivery does not take it back.
    delivered
        Exclusive end of what some member got so far.
    without
        Offsets that need no work: the share group had finished them when the simulation began.
    tries
        By offset, how often it was tried, where that is more than once.
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

    def idle(self, first: int, last: int) -> list[int]:
        """The offsets ``first..last`` without work: no record, aborted, or done before."""
        found = set(self.log.gaps(first, last))
        found.update(offset for offset in self.without if first <= offset <= last)
        if self.log.aborted:
            batches = self.log.batches(first, last)
            found.update(
                offset
                for base, end in batches
                if base in self.log.aborted
                for offset in range(max(base, first), min(end, last) + 1)
            )
        return sorted(found)

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
    """A partition as a consumer group would find it that is as far as the share group."""
    window = start.window
    if window is None or window.start_offset < 0:
        offset = log.start if from_earliest else log.end(0)
        return Partition(place, log, None, offset, offset)
    offset = max(window.start_offset, log.start)
    finished = [run for run in window.batches if run.delivery_state in TERMINAL_STATES]
    without = frozenset(
        one for run in finished for one in range(max(run.first_offset, offset), run.last_offset + 1)
    )
    while offset in without:
        offset += 1
    return Partition(
        place, log, offset, offset, offset, frozenset(one for one in without if one >= offset)
    )
