"""One simulation of a consumer group, with the logs, work, chance and faults of the share group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sharelag.tables.displayable import Displayable
from sharelag.tables.presentation import Presentation
from sharelag.whatif import presented
from sharelag.whatif.consumer_groups.consumer import Consumer
from sharelag.whatif.consumer_groups.coordinator import Coordinator, Joined
from sharelag.whatif.consumer_groups.partition import started
from sharelag.whatif.consumer_groups.settings import ConsumerSettings
from sharelag.whatif.consumer_groups.watch import Watch
from sharelag.whatif.consumer_groups.world import World
from sharelag.whatif.loop import Loop, Progress, Works
from sharelag.whatif.scenario import Fault, Member, Scenario
from sharelag.whatif.simulation import tables
from sharelag.whatif.simulation.clock import MS
from sharelag.whatif.simulation.coordinator import Assigned
from sharelag.whatif.simulation.scaling import Observed
from sharelag.whatif.simulation.tally import Tally
from sharelag.whatif.simulation.world import member_id

#: What the summary has for an assignor.
ASSIGNOR = "consumer-group (uniform)"


@dataclass(frozen=True)
class ConsumerGroupResult(Displayable):
    """What happened, in the tables of `sharelag.whatif.simulate.SimulationResult`.

    In the timeline ``start_offset`` is where the work has got to, ``window_end_offset`` how far
    records were delivered; the committed offset, which Kafka's lag goes by, is up to
    ``auto.commit.interval.ms`` older.
    """

    scenario: Scenario
    seed: int
    timeline: pa.Table
    deliveries: pa.Table
    members: pa.Table
    assignments: pa.Table
    summary: pa.Table
    scaling: pa.Table
    _tally: Tally

    def presented(self) -> Presentation:
        """The table that people are shown of it."""
        return presented.run(self.summary, self.seed)

    def finished(self) -> pa.Table:
        """What was finished and when, in the order of time (`tables.FINISHED`)."""
        return tables.finished(self._tally, self.scenario)

    @property
    def duplicates(self) -> int:
        """Redeliveries, of records perhaps processed twice. Retries in place do not count."""
        return tables.duplicates(self._tally)


class Run(Loop[Consumer]):
    """One simulation of a consumer group."""

    def __init__(self, scenario: Scenario, seed: int, settings: ConsumerSettings) -> None:
        super().__init__(scenario, seed)
        starts = [start for topic in scenario.topics for start in topic.starts]
        earliest = scenario.settings.auto_offset_reset == "earliest"
        self.partitions = [
            started(place, log, starts[place], earliest) for place, log in enumerate(self.logs)
        ]
        self.coordinator = Coordinator(
            self.clock,
            len(self.names),
            settings.session_timeout_ms,
            settings.assignment_interval_ms,
        )
        self.world = World(
            scenario,
            settings,
            seed,
            self.clock,
            self.coordinator,
            self.partitions,
            {
                topic.name: [
                    (self.first[topic.name] + n, begin * MS)
                    for n, begin in enumerate(topic.there_from())
                ]
                for topic in scenario.topics
            },
            self.outcomes,
            self.tally,
            self._note_drained,
            self._spawn,
        )
        self._begin()

    def result(self) -> ConsumerGroupResult:
        """Let it run, and give what happened."""
        ended = self.end()
        return ConsumerGroupResult(
            self.scenario,
            self.seed,
            ended.timeline,
            ended.deliveries,
            ended.members,
            ended.assignments,
            ended.summary,
            ended.scaling,
            self.tally,
        )

    def _gather(self) -> None:
        topics = self.world.topics
        self.coordinator.gather(
            {
                member_id(self.seed, which, 0): Joined(
                    frozenset(
                        place
                        for topic in member.topics
                        for place, begin in topics[topic]
                        if not begin
                    ),
                    0,
                )
                for which, member in enumerate(self.each)
                if not member.join_ms
            }
        )

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
        now = self.clock.now
        for one in self.partitions:
            one.log.end(now)
            if one.lag > 0:
                return
        self.tally.drained(now)

    def _observer(self) -> Callable[[bool], Observed]:
        return Watch(self.scenario, self.clock, self.partitions, self.tally).observe

    def _assigned(self) -> Sequence[Assigned]:
        return self.coordinator.assignments

    def _assignor(self) -> str:
        return ASSIGNOR

    def _held(self) -> int:
        return sum(life.held for life in self.lives)
