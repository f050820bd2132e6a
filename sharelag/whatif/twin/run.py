"""The event loop of a consumer group: the same logs, work, chance and accidents as those of the share group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from sharelag.shown import Shown
from sharelag.whatif.scenario import Fault, Scenario, Service
from sharelag.whatif.simulation import tables
from sharelag.whatif.simulation.clock import MS, Clock
from sharelag.whatif.simulation.logs import logs
from sharelag.whatif.simulation.scaling import SCALING, Observed, Scaling
from sharelag.whatif.simulation.streams import CRASH, REJECT, RELEASE, SILENT, Outcomes, Work
from sharelag.whatif.simulation.summary import summary
from sharelag.whatif.simulation.tally import Tally
from sharelag.whatif.simulation.world import member_id
from sharelag.whatif.twin.consumer import Consumer
from sharelag.whatif.twin.coordinator import Coordinator, Joined
from sharelag.whatif.twin.partition import begun
from sharelag.whatif.twin.settings import ConsumerSettings
from sharelag.whatif.twin.world import World

#: What the summary has for an assignor.
ASSIGNOR = "consumer-group (uniform)"
_POISON = {"release": RELEASE, "reject": REJECT, "silent": SILENT, "crash": CRASH}
#: How often the log cleaner looks, at most.
_CLEAN_MS = 300_000


@dataclass(frozen=True)
class ConsumerGroupResult(Shown):
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

    def finished(self) -> pa.Table:
        """What was finished and when, as `sharelag.whatif.simulation.tables.FINISHED`, in the order of time."""
        return tables.finished(self._tally, self.scenario)

    @property
    def duplicates(self) -> int:
        """Redeliveries: the records may have been worked on twice. Retries in place are none."""
        return tables.duplicates(self._tally)


class Run:
    """One simulation of a consumer group."""

    def __init__(self, scenario: Scenario, seed: int, settings: ConsumerSettings) -> None:
        self.scenario, self.seed = scenario, seed
        self.clock = clock = Clock(scenario.begins_ms)
        self.names = [
            (topic.name, number) for topic in scenario.topics for number in range(topic.partitions)
        ]
        self.first = {
            topic: place for place, (topic, number) in enumerate(self.names) if number == 0
        }
        self.tally = Tally(len(self.names), scenario.step_ms * MS)
        self.logs = [log for topic in logs(scenario, seed) for log in topic]
        starts = [start for topic in scenario.topics for start in topic.starts]
        earliest = scenario.settings.auto_offset_reset == "earliest"
        self.partitions = [
            begun(place, log, starts[place], earliest) for place, log in enumerate(self.logs)
        ]
        self.coordinator = Coordinator(
            clock, len(self.names), settings.session_timeout_ms, settings.assignment_interval_ms
        )
        self.each = scenario.each_member()
        self.lives: list[Consumer] = []
        self.works: dict[Service, dict[int, Work]] = {}
        self.rows: list[tuple[int, ...]] = []
        self.world = World(
            scenario,
            settings,
            seed,
            clock,
            self.coordinator,
            self.partitions,
            {
                topic.name: [
                    (self.first[topic.name] + n, begin * MS)
                    for n, begin in enumerate(topic.there_from())
                ]
                for topic in scenario.topics
            },
            self._outcomes(),
            self.tally,
            self._note_drained,
            self._spawn,
        )
        self.scaling: Scaling | None = None
        self._schedule()
        if scenario.autoscaler:
            self._stood: list[int | None] = [None] * len(self.names)
            self._persists, self._looked_at = [False] * len(self.names), -1
            self.scaling = Scaling(
                scenario, clock, self.each, self.lives, self._spawn, self._observe
            )

    def result(self) -> ConsumerGroupResult:
        """Let it run, and give what happened."""
        scenario = self.scenario
        self.clock.run(scenario.duration_ms * MS)
        for life in self.lives:
            life.finish()
        timeline = self._timeline()
        members = tables.members(self.tally, self.lives, self.clock.now)
        assigned = tables.assignments(self.coordinator.assignments)
        held = sum(life.held for life in self.lives)
        told = replace(scenario, assignor=ASSIGNOR)
        return ConsumerGroupResult(
            scenario,
            self.seed,
            timeline,
            tables.deliveries(self.tally, self.names, self.lives),
            members,
            assigned,
            summary(told, self.seed, timeline, members, assigned, self.tally, self.logs, held),
            self.scaling.table() if self.scaling else SCALING.empty_table(),
            self.tally,
        )

    def _schedule(self) -> None:
        clock = self.clock
        clock.at(0, self._sample)
        for which, member in enumerate(self.each):
            clock.at(member.join_ms * MS, self._spawn, which, 0)
        if self.scenario.settled:
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
        for fault in self.scenario.faults:
            clock.at(fault.at_ms * MS, self._befall, fault)
        for topic in self.scenario.topics:
            places = range(self.first[topic.name], self.first[topic.name] + topic.partitions)
            if topic.retention_ms is not None:
                clock.at(0, self._retain, places, topic.retention_ms, topic.segment_records)
            if topic.compact_ms is not None:
                clock.at(topic.compact_ms * MS, self._compact, places, topic.compact_ms)

    def _spawn(self, which: int, life: int) -> None:
        if self.scaling and which in self.scaling.retired:
            return
        member = self.each[which]
        service = member.service
        if service not in self.works:
            factors = dict(service.by_partition)
            self.works[service] = {
                place: Work(self.seed, place, service, factors.get(name, 1.0))
                for place, name in enumerate(self.names)
            }
        self.lives.append(
            Consumer(self.world, member, len(self.lives), life, which, self.works[service])
        )

    def _befall(self, fault: Fault) -> None:
        """Accidents of members, and records that are deleted; another leader makes no difference to a consumer."""
        if fault.kind == "delete_records":
            log = self.logs[self.first[fault.topic] + fault.partition]
            log.start = min(max(log.start, fault.offset), log.end(self.clock.now))
        for life in [
            life for life in self.lives if life.member.name == fault.member and life.ended is None
        ]:
            if fault.kind == "crash":
                life.crash()
            elif fault.kind == "hang":
                life.hang(fault.for_ms)
            elif fault.kind == "subscribe":
                life.subscribe(fault.topics)
            elif fault.kind == "mute":
                life.mute(fault.for_ms)

    def _retain(self, places: Sequence[int], retention_ms: int, segment: int) -> None:
        for place in places:
            log = self.logs[place]
            end = log.end_then(self.clock.now - retention_ms * MS) // segment * segment
            log.start = min(max(log.start, end), log.end(self.clock.now))
        self.clock.after(
            min(retention_ms, _CLEAN_MS) * MS, self._retain, places, retention_ms, segment
        )

    def _compact(self, places: Sequence[int], every_ms: int) -> None:
        for place in places:
            self.logs[place].compact(self.clock.now)
        self.clock.after(every_ms * MS, self._compact, places, every_ms)

    def _sample(self) -> None:
        now, step = self.clock.now, self.scenario.step_ms * MS
        owners: dict[int, int] = {}
        for life in self.lives:
            for place in life.places:
                owners[place] = owners.get(place, 0) + 1
        for one in self.partitions:
            end, lag = one.log.end(now), one.lag
            age = max(now - one.log.appended(one.done), 0) // MS if lag > 0 else 0
            working = max(one.delivered - one.done, 0)
            known = (
                now // MS,
                one.log.start,
                one.done,
                one.delivered,
                end - one.done - lag,
                working,
                end,
                lag,
                age,
            )
            self.rows.append((*known, owners.get(one.place, 0)))
        self._note_drained()
        if now + step <= self.scenario.duration_ms * MS:
            self.clock.after(step, self._sample)

    def _timeline(self) -> pa.Table:
        values = np.array(self.rows, np.int64).reshape(-1, 10)
        steps = len(values) // len(self.names)
        columns = [
            values[:, 0],
            [name for _ in range(steps) for name, _ in self.names],
            [partition for _ in range(steps) for _, partition in self.names],
            *values[:, 1:].T,
        ]
        return pa.table(
            dict(zip(tables.TIMELINE.names, columns, strict=True)), schema=tables.TIMELINE
        )

    def _note_drained(self) -> None:
        now = self.clock.now
        for one in self.partitions:
            one.log.end(now)
            if one.lag > 0:
                return
        self.tally.drained(now)

    def _observe(self, without_stuck: bool) -> Observed:
        """Lag by committed offsets, as KEDA's Kafka scaler has it; stuck is what ``excludePersistentLag`` says.

        That is a partition whose committed offset is what it was at the last look.
        """
        now, ages = self.clock.now, []
        lags: list[int | None] = []
        anew = now > self._looked_at
        for place, one in enumerate(self.partitions):
            lag = None if one.committed is None else max(one.log.end(now) - one.committed, 0)
            if anew:
                self._persists[place] = lag is not None and self._stood[place] == one.committed
                self._stood[place] = one.committed
            lags.append(0 if without_stuck and self._persists[place] else lag)
            if one.lag > 0:
                ages.append(max(now - one.log.appended(one.done), 0) // MS)
        self._looked_at = now
        ends = sum(log.known_end for log in self.logs)
        starts = sum(start.end_offset for topic in self.scenario.topics for start in topic.starts)
        finished = sum(last - first + 1 for _, first, last, _ in self.tally.finished)
        return Observed(lags, max(ages, default=0), ends - starts, finished)

    def _outcomes(self) -> list[Outcomes]:
        poison: dict[tuple[str, int], dict[int, tuple[int, int]]] = {}
        for one in self.scenario.poison:
            poison.setdefault((one.topic, one.partition), {})[one.offset] = (
                _POISON[one.how],
                one.attempts,
            )
        return [
            Outcomes(self.seed, place, poison.get(name, {}))
            for place, name in enumerate(self.names)
        ]
