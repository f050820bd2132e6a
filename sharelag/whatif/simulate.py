"""Run a scenario in virtual time: brokers and clients as Kafka has them, chance from a seed.

    result = simulate(scenario, seed=0)
    result.summary, result.timeline      # Arrow tables
    result.records()                     # what the share coordinator would have written

The same scenario and seed give the same tables, byte for byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from sharelag import schemas
from sharelag.model import SharePartition
from sharelag.shown import Shown
from sharelag.whatif.scenario import Fault, Scenario, Service, Topic
from sharelag.whatif.simulation import tables
from sharelag.whatif.simulation.brokers import Brokers
from sharelag.whatif.simulation.clients import Client
from sharelag.whatif.simulation.clock import MS, Clock
from sharelag.whatif.simulation.coordinator import Coordinator, Joined, Target
from sharelag.whatif.simulation.logs import Log, logs
from sharelag.whatif.simulation.scaling import SCALING, Scaling
from sharelag.whatif.simulation.state_log import StateLog
from sharelag.whatif.simulation.streams import CRASH, REJECT, RELEASE, SILENT, Outcomes, Work
from sharelag.whatif.simulation.summary import summary
from sharelag.whatif.simulation.tally import Tally
from sharelag.whatif.simulation.watch import Watch
from sharelag.whatif.simulation.world import World, member_id

_POISON = {"release": RELEASE, "reject": REJECT, "silent": SILENT, "crash": CRASH}
#: ``share.coordinator.cold.partition.snapshot.interval.ms``
_COLD_MS = 300_000


@dataclass(frozen=True)
class SimulationResult(Shown):
    """What happened, as tables of `sharelag.whatif.simulation.tables` and `summary`.

    Attributes
    ----------
    timeline
        One row a share partition and step.
    deliveries
        One row a share partition and member.
    members
        One row a life of a member.
    assignments
        One row a target assignment.
    summary
        One row.
    requests
        One row a request, when they were asked for; else empty.
    scaling
        One row a decision of the autoscaler; empty without one.
    """

    scenario: Scenario
    seed: int
    timeline: pa.Table
    deliveries: pa.Table
    members: pa.Table
    assignments: pa.Table
    summary: pa.Table
    requests: pa.Table
    scaling: pa.Table
    _states: StateLog
    _logs: tuple[Log, ...]
    _tally: Tally

    def records(self) -> pa.RecordBatch:
        """The records of ``__share_group_state`` that the share coordinator would have written.

        Returns
        -------
        pyarrow.RecordBatch
            `sharelag.schemas.RAW`.
        """
        return self._states.records()

    def finished(self) -> pa.Table:
        """What was finished and when, as `sharelag.whatif.simulation.tables.FINISHED`, in the order of time."""
        return tables.finished(self._tally, self.scenario)

    @property
    def duplicates(self) -> int:
        """Redeliveries that no member asked for by a release: the records may have been worked on twice."""
        return tables.duplicates(self._tally)

    def offsets(self) -> pa.Table:
        """The ends of the logs when the simulation ended, as `sharelag.schemas.OFFSETS`."""
        as_of = self.scenario.begins_ms + self.scenario.duration_ms
        keys = [
            (topic.name, topic.id, number)
            for topic in self.scenario.topics
            for number in range(topic.partitions)
        ]
        names, ids, partitions = zip(*keys, strict=True)
        columns = {
            "topic": names,
            "topic_id": ids,
            "partition": partitions,
            "log_start_offset": [log.start for log in self._logs],
            "end_offset": [log.known_end for log in self._logs],
            "leader_epoch": [0] * len(keys),
            "as_of": pa.array([as_of] * len(keys), pa.int64()).view(schemas.TIMESTAMP),
        }
        return pa.table(columns, schema=schemas.OFFSETS)


def simulate(scenario: Scenario, seed: int = 0, *, requests: bool = False) -> SimulationResult:
    """Run a scenario once.

    Parameters
    ----------
    scenario : Scenario
    seed : int
        Of all chance. Arrivals, the work in each record, what becomes of each delivery, and
        accidents have streams of their own, so that with the same seed two assignors meet the same
        luck.
    requests : bool
        Note every request, too.

    Returns
    -------
    SimulationResult
    """
    run = _Run(scenario, seed, requests)
    run.clock.run(scenario.duration_ms * MS)
    return run.result()


class _Run:
    def __init__(self, scenario: Scenario, seed: int, requests: bool) -> None:
        self.scenario, self.seed = scenario, seed
        self.clock = Clock(scenario.begins_ms)
        self.names = [
            (topic.name, number) for topic in scenario.topics for number in range(topic.partitions)
        ]
        self.first = {
            topic: place for place, (topic, number) in enumerate(self.names) if number == 0
        }
        ids = {topic.name: topic.id for topic in scenario.topics}
        self.states = StateLog(
            [SharePartition(scenario.group_id, ids[name], number) for name, number in self.names]
        )
        self.tally = Tally(len(self.names), scenario.step_ms * MS)
        self.logs = [log for topic in logs(scenario, seed) for log in topic]
        self.brokers = Brokers(scenario, self.clock, self.logs, self.states, self.tally)
        self.coordinator = Coordinator(scenario, self.clock, self.brokers, self.first)
        self.each = scenario.each_member()
        self.clients: list[Client] = []
        self.samples = tables.Samples(scenario, self.clock, self.brokers, self.clients)
        self.requests: list[tuple[int, int, int, int, str]] | None = [] if requests else None
        self.works: dict[Service, dict[int, Work]] = {}
        self.world = World(
            scenario,
            seed,
            self.clock,
            self.brokers,
            self.coordinator,
            self.first,
            self.logs,
            self._outcomes(),
            self._spawn,
            self.requests,
        )
        self._schedule()
        self.scaling = self._scaling() if scenario.autoscaler else None

    def result(self) -> SimulationResult:
        for client in self.clients:
            client.finish()
        held = sum(served.held for served in self.brokers.served)
        timeline = self.samples.table(self.names)
        members = tables.members(self.tally, self.clients, self.clock.now)
        assigned = tables.assignments(self.coordinator.assignments)
        return SimulationResult(
            self.scenario,
            self.seed,
            timeline,
            tables.deliveries(self.tally, self.names, self.clients),
            members,
            assigned,
            summary(
                self.scenario, self.seed, timeline, members, assigned, self.tally, self.logs, held
            ),
            tables.requests(self.requests or (), self.clients),
            self.scaling.table() if self.scaling else SCALING.empty_table(),
            self.states,
            tuple(self.logs),
            self.tally,
        )

    def _schedule(self) -> None:
        clock = self.clock
        clock.at(0, self.samples.take)
        for which, member in enumerate(self.each):
            clock.at(member.join_ms * MS, self._spawn, which, 0)
        if self.scenario.settled:
            self.coordinator.gather(self._settled())
        for fault in self.scenario.faults:
            clock.at(fault.at_ms * MS, self._befall, fault)
        clock.at(_COLD_MS * MS, self._snapshot_cold)
        for topic in self.scenario.topics:
            if topic.retention_ms is not None:
                clock.at(
                    0,
                    self._retain,
                    self.first[topic.name],
                    topic.partitions,
                    topic.retention_ms,
                    topic.segment_records,
                )

            if topic.compact_ms is not None:
                clock.at(topic.compact_ms * MS, self._compact, topic)

    def _settled(self) -> dict[str, Joined]:
        joined = {}
        for which, member in enumerate(self.each):
            if not member.join_ms:
                target: Target = {}
                for topic, partition in member.assigned:
                    target.setdefault(topic, []).append(partition)
                joined[member_id(self.seed, which, 0)] = Joined(
                    member.topics, member.rack, 0, target=target
                )
        return joined

    def _scaling(self) -> Scaling:
        watch = Watch(self.scenario, self.clock, self.brokers, self.states, self.tally)
        return Scaling(
            self.scenario, self.clock, self.each, self.clients, self._spawn, watch.observe
        )

    def _spawn(self, which: int, life: int) -> None:
        if self.scaling and which in self.scaling.retired:
            return  # it crashed, and by now there is no need for it
        member = self.each[which]
        if life and member.leave_ms is not None and self.clock.now >= member.leave_ms * MS:
            return  # it would have left by now
        service = member.service
        work = self.works.get(service)
        if work is None:
            factors = dict(service.by_partition)
            work = self.works[service] = {
                place: Work(self.seed, place, service, factors.get(name, 1.0))
                for place, name in enumerate(self.names)
            }
        self.clients.append(Client(self.world, member, len(self.clients), life, which, work))

    def _befall(self, fault: Fault) -> None:
        if fault.member:
            alive = [
                client
                for client in self.clients
                if client.member.name == fault.member and client.ended is None
            ]
            for client in alive:
                if fault.kind == "crash":
                    client.crash()
                elif fault.kind == "hang":
                    client.hang(fault.for_ms)
                elif fault.kind == "subscribe":
                    client.subscribe(fault.topics)
                else:
                    client.mute(fault.for_ms)
            return
        if fault.kind == "broker_down":
            self.brokers.stop(fault.broker, fault.for_ms)
            return
        place = self.first[fault.topic] + fault.partition
        if fault.kind == "leader_change":
            self.brokers.change_leader(place)
        else:
            self.brokers.delete_records(place, fault.offset)

    def _snapshot_cold(self) -> None:
        self.states.snapshot_cold(self.clock.now_ms)
        self.clock.after(_COLD_MS * MS, self._snapshot_cold)

    def _retain(self, first: int, partitions: int, retention_ms: int, segment: int) -> None:
        """Delete the segments whose last record is too old, as the log cleaner does now and then."""
        for place in range(first, first + partitions):
            log = self.logs[place]
            end = log.end_then(self.clock.now - retention_ms * MS)
            self.brokers.delete_records(place, end // segment * segment)
        self.clock.after(
            min(retention_ms, _COLD_MS) * MS, self._retain, first, partitions, retention_ms, segment
        )

    def _compact(self, topic: Topic) -> None:
        first = self.first[topic.name]
        for log in self.logs[first : first + topic.partitions]:
            log.compact(self.clock.now)
        self.clock.after((topic.compact_ms or 0) * MS, self._compact, topic)

    def _outcomes(self) -> Sequence[Outcomes]:
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
