"""One simulation of a consumer group, with the logs, work, chance and faults of the share group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sharelag.whatif.consumer_groups.consumer import Consumer, World
from sharelag.whatif.consumer_groups.coordinator import ConsumerSettings, Coordinator, Joined
from sharelag.whatif.consumer_groups.work import Partition, started
from sharelag.whatif.scenario import Fault, Member, Scenario
from sharelag.whatif.simulation.clock import MS, Clock
from sharelag.whatif.simulation.loop import Loop, Progress, SimulationTables, Works
from sharelag.whatif.simulation.scaling import Observed
from sharelag.whatif.simulation.streams import member_id
from sharelag.whatif.simulation.tables import Assigned, Tally


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
        """Return the group now; its lag without that of stuck partitions, if wanted."""
        now = self._clock.now
        committed = [one.committed for one in self._partitions]
        lags = [
            None if at is None else max(one.log.end(now) - at, 0)
            for one, at in zip(self._partitions, committed, strict=True)
        ]
        if now > self._looked_at:
            stood = zip(self._stood, committed, strict=True)
            self._persists = [at is not None and at == before for before, at in stood]
            self._stood, self._looked_at = committed, now
        if without_stuck:
            persists = zip(lags, self._persists, strict=True)
            lags = [0 if is_stuck else lag for lag, is_stuck in persists]
        waiting = (one for one in self._partitions if one.lag > 0)
        ages = (max(now - one.log.appended(one.done), 0) // MS for one in waiting)
        ends = sum(one.log.known_end for one in self._partitions)
        finished = sum(last - first + 1 for _, first, last, _ in self._tally.finished)
        return Observed(lags, max(ages, default=0), ends - self._begins, finished)


#: What the summary has for an assignor.
ASSIGNOR = "consumer-group (uniform)"


@dataclass(frozen=True)
class ConsumerGroupResult(SimulationTables):
    """What happened, in the tables of `sharelag.whatif.simulate.SimulationResult`.

    In the timeline ``start_offset`` is where the work has got to, ``window_end_offset`` how far
    records were delivered; the committed offset, which Kafka's lag goes by, is up to
    ``auto.commit.interval.ms`` older.
    """


class ConsumerGroupSimulation(Loop[Consumer]):
    """One simulation of a consumer group."""

    def __init__(self, scenario: Scenario, seed: int, settings: ConsumerSettings) -> None:
        super().__init__(scenario, seed)
        starts = [start for topic in scenario.topics for start in topic.starts]
        earliest = scenario.settings.auto_offset_reset == "earliest"
        self.partitions = [
            started(place, log, starts[place], earliest) for place, log in enumerate(self.logs)
        ]
        self.coordinator = Coordinator(self.clock, len(self.names), settings)
        topics = {
            topic.name: [
                (place, begin * MS)
                for place, begin in enumerate(topic.there_from(), self.first[topic.name])
            ]
            for topic in scenario.topics
        }
        about = (scenario, seed, self.clock, self._spawn, settings, self.coordinator)
        found = (self.partitions, topics, self.outcomes, self.tally, self._note_drained)
        self.world = World(*about, *found)
        self._begin()

    def result(self) -> ConsumerGroupResult:
        """Run to the end of the scenario."""
        return ConsumerGroupResult(**vars(self.end()))

    def _gather(self) -> None:
        joined = {}
        for which, member in enumerate(self.each):
            if not member.join_ms:
                topics = (self.world.topics[topic] for topic in member.topics)
                places = frozenset(place for of in topics for place, begin in of if not begin)
                joined[member_id(self.seed, which, 0)] = Joined(places, 0)
        self.coordinator.gather(joined)

    def _life(self, member: Member, number: int, life: int, which: int, work: Works) -> Consumer:
        return Consumer(self.world, member, number, life, which, work)

    def _fail(self, fault: Fault) -> None:
        """Another leader of a partition makes no difference to a consumer."""

    def _progress(self, place: int, end: int) -> Progress:
        one = self.partitions[place]
        lag = one.lag
        working = max(one.delivered - one.done, 0)
        return Progress(one.done, one.delivered, end - one.done - lag, working, lag)

    def _note_drained(self) -> None:
        for one in self.partitions:
            one.log.end(self.clock.now)
            if one.lag > 0:
                return
        self.tally.drained(self.clock.now)

    def _observer(self) -> Callable[[bool], Observed]:
        return Watch(self.scenario, self.clock, self.partitions, self.tally).observe

    def _assigned(self) -> Sequence[Assigned]:
        return self.coordinator.assignments

    def _assignor(self) -> str:
        return ASSIGNOR

    def _held(self) -> int:
        return sum(life.held for life in self.lives)
