"""What a leader loads of a share partition, and where what it writes goes."""

from __future__ import annotations

from collections.abc import Sequence

from sharelag.model import UNINITIALIZED_START_OFFSET, Window
from sharelag.whatif.partition.values import Persist, Write
from sharelag.whatif.scenario import Scenario
from sharelag.whatif.share_partition import SharePartition
from sharelag.whatif.simulation.clock import Clock
from sharelag.whatif.simulation.logs import Log
from sharelag.whatif.simulation.served import Served
from sharelag.whatif.simulation.state_log import StateLog
from sharelag.whatif.simulation.tally import Tally


class Loader:
    """Makes share partitions from their states."""

    def __init__(self, scenario: Scenario, clock: Clock, states: StateLog, tally: Tally) -> None:
        self._clock, self._states, self._tally = clock, states, tally
        self._limits, self._reset = scenario.settings.limits, scenario.settings.auto_offset_reset
        self._brokers = scenario.brokers
        self._starts = [start.window for topic in scenario.topics for start in topic.starts]
        self._there = [at == 0 for topic in scenario.topics for at in topic.there_from()]

    def all(self, logs: Sequence[Log]) -> list[Served]:
        """The share partitions at the begin; of one that is added later nothing is written yet."""
        return [
            self.started(place, log)
            if self._there[place]
            else Served(place, log, SharePartition(0), 0)
            for place, log in enumerate(logs)
        ]

    def started(self, place: int, log: Log) -> Served:
        """A share partition as the scenario finds it, or a new one."""
        now, window = self._clock.now_ms, self._starts[place]
        if window is None:
            # Since Kafka 4.4 a partition that a known topic gets is read from its begin.
            start, count = (UNINITIALIZED_START_OFFSET, -1) if self._there[place] else (0, 0)
            window = Window(0, 0, 0, start, count, now, now)
            self._states.initialize(place, start, now)
        else:
            self._states.adopt(place, window, now)
        share = self.loaded(place, log, window, 0)
        return Served(place, log, share, place % self._brokers)

    def loaded(self, place: int, log: Log, window: Window, epoch: int) -> SharePartition:
        """What a leader of that epoch makes of a state."""
        reset = log.start if self._reset == "earliest" else log.end(self._clock.now)
        epoch = max(epoch, window.leader_epoch)
        return SharePartition.load(
            window, self._clock.now_ms, self._limits, epoch, self._persist(place), reset_to=reset
        )

    def _persist(self, place: int) -> Persist:
        def accept(write: Write) -> bool:
            self._states.write(place, write)
            self._tally.written(place, write, self._clock.now)
            return True

        return accept
