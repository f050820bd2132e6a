"""What an autoscaler sees of a share group: lag by the records written, as Kafka shows it."""

from __future__ import annotations

from sharelag.whatif.scenario import Scenario
from sharelag.whatif.simulation.brokers import Brokers
from sharelag.whatif.simulation.clock import MS, Clock
from sharelag.whatif.simulation.scaling import Observed
from sharelag.whatif.simulation.state_log import StateLog
from sharelag.whatif.simulation.stuck import Heads, stuck
from sharelag.whatif.simulation.tally import Tally


class Watch:
    """Looks at a share group, and remembers since when its heads are what they are."""

    def __init__(
        self, scenario: Scenario, clock: Clock, brokers: Brokers, states: StateLog, tally: Tally
    ) -> None:
        self._settings, self._clock, self._brokers = scenario.settings, clock, brokers
        self._states, self._tally = states, tally
        starts = [(topic, start) for topic in scenario.topics for start in topic.starts]
        self._compacted = [
            topic.compact_ms is not None or bool(start.missing) for topic, start in starts
        ]
        self._begins = sum(start.end_offset for _, start in starts)
        self._heads = Heads(len(starts))
        self._counted = self._finished_so_far = 0

    def observe(self, without_stuck: bool) -> Observed:
        """The group now; its lag without what more members would not finish, if wanted."""
        now, served = self._clock.now, self._brokers.served
        ends = [one.log.end(now) for one in served]
        ages = [
            max(now - one.log.appended(one.share.start_offset), 0) // MS
            for one in served
            if one.lag > 0
        ]
        lags: list[int | None] = [None] * len(served)
        for place, (start, complete) in self._states.begins.items():
            lags[place] = max(ends[place] - start - complete, 0)
        if without_stuck:
            self._heads.note(self._tally.finished)
            lags = [lag and lag - min(self._stuck(place), lag) for place, lag in enumerate(lags)]
        return Observed(lags, max(ages, default=0), sum(ends) - self._begins, self._finished())

    def _stuck(self, place: int) -> int:
        window, log = self._states.window(place), self._brokers.served[place].log
        if window is None or window.effective_start_offset is None:
            return 0
        since = self._heads.since(place, window.effective_start_offset)
        return stuck(window, log, self._settings, since, self._clock.now, self._compacted[place])

    def _finished(self) -> int:
        new = self._tally.finished[self._counted :]
        self._counted += len(new)
        self._finished_so_far += sum(last - first + 1 for _, first, last, _ in new)
        return self._finished_so_far
