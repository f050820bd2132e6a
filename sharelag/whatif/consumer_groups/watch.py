"""What an autoscaler sees of a consumer group: lag by committed offsets, as KEDA has it."""

from __future__ import annotations

from collections.abc import Sequence

from sharelag.whatif.consumer_groups.partition import Partition
from sharelag.whatif.scenario import Scenario
from sharelag.whatif.simulation.clock import MS, Clock
from sharelag.whatif.simulation.scaling import Observed
from sharelag.whatif.simulation.tally import Tally


class Watch:
    """Looks at a consumer group, and remembers the committed offsets of the look before.

    A partition is stuck when its committed offset has not moved since then, as
    ``excludePersistentLag`` has it.
    """

    def __init__(
        self, scenario: Scenario, clock: Clock, partitions: Sequence[Partition], tally: Tally
    ) -> None:
        self._clock, self._partitions, self._tally = clock, partitions, tally
        self._begins = sum(start.end_offset for topic in scenario.topics for start in topic.starts)
        self._stood: list[int | None] = [None] * len(partitions)
        self._persists, self._looked_at = [False] * len(partitions), -1

    def observe(self, without_stuck: bool) -> Observed:
        """The group now; its lag without that of stuck partitions, if wanted."""
        now, ages = self._clock.now, []
        lags: list[int | None] = []
        anew = now > self._looked_at
        for place, one in enumerate(self._partitions):
            lag = None if one.committed is None else max(one.log.end(now) - one.committed, 0)
            if anew:
                self._persists[place] = lag is not None and self._stood[place] == one.committed
                self._stood[place] = one.committed
            lags.append(0 if without_stuck and self._persists[place] else lag)
            if one.lag > 0:
                ages.append(max(now - one.log.appended(one.done), 0) // MS)
        self._looked_at = now
        ends = sum(one.log.known_end for one in self._partitions)
        finished = sum(last - first + 1 for _, first, last, _ in self._tally.finished)
        return Observed(lags, max(ages, default=0), ends - self._begins, finished)
