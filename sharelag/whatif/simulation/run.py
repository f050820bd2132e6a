"""One simulation of a share group: brokers, coordinator and members in the event loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sharelag.model import SharePartition
from sharelag.whatif.loop import Loop, Progress, Works
from sharelag.whatif.scenario import Fault, Member, Scenario
from sharelag.whatif.simulation.brokers import Brokers
from sharelag.whatif.simulation.clients import Client
from sharelag.whatif.simulation.clock import MS
from sharelag.whatif.simulation.coordinator import Assigned, Coordinator, Joined, Target
from sharelag.whatif.simulation.scaling import Observed
from sharelag.whatif.simulation.state_log import StateLog
from sharelag.whatif.simulation.watch import Watch
from sharelag.whatif.simulation.world import World, member_id

#: ``share.coordinator.cold.partition.snapshot.interval.ms``
_COLD_MS = 300_000


class Run(Loop[Client]):
    """One simulation of a share group.

    Parameters
    ----------
    scenario : Scenario
    seed : int
    requests : bool
        Note every request, too.
    """

    def __init__(self, scenario: Scenario, seed: int, requests: bool) -> None:
        super().__init__(scenario, seed)
        ids = {topic.name: topic.id for topic in scenario.topics}
        self.states = StateLog(
            [SharePartition(scenario.group_id, ids[name], number) for name, number in self.names]
        )
        self.brokers = Brokers(scenario, self.clock, self.logs, self.states, self.tally)
        self.coordinator = Coordinator(scenario, self.clock, self.brokers, self.first)
        self.requests: list[tuple[int, int, int, int, str]] | None = [] if requests else None
        self.world = self._world(seed, self.requests)
        self._begin()

    def _world(self, seed: int, requests: list[tuple[int, int, int, int, str]] | None) -> World:
        """Return what all members share, once brokers and coordinator are there."""
        return World(
            self.scenario,
            seed,
            self.clock,
            self.brokers,
            self.coordinator,
            self.first,
            self.logs,
            self.outcomes,
            self._spawn,
            requests,
        )

    def _gather(self) -> None:
        joined = {}
        for which, member in enumerate(self.each):
            if not member.join_ms:
                target: Target = {}
                for topic, partition in member.assigned:
                    target.setdefault(topic, []).append(partition)
                joined[member_id(self.seed, which, 0)] = Joined(
                    member.topics, member.rack, 0, target=target
                )
        self.coordinator.gather(joined)

    def _schedule_upkeep(self) -> None:
        self.clock.at(_COLD_MS * MS, self._snapshot_cold)

    def _snapshot_cold(self) -> None:
        self.states.snapshot_cold(self.clock.now_ms)
        self.clock.after(_COLD_MS * MS, self._snapshot_cold)

    def _spawn(self, which: int, life: int) -> None:
        leave_ms = self.each[which].leave_ms
        if not life or leave_ms is None or self.clock.now < leave_ms * MS:
            super()._spawn(which, life)  # else it would have left by now

    def _life(self, member: Member, number: int, life: int, which: int, work: Works) -> Client:
        return Client(self.world, member, number, life, which, work)

    def _fail(self, fault: Fault) -> None:
        if fault.kind == "broker_down":
            self.brokers.stop(fault.broker, fault.for_ms)
        else:
            self.brokers.change_leader(self.first[fault.topic] + fault.partition)

    def _progress(self, place: int, end: int) -> Progress:
        served = self.brokers.served[place]
        share = served.share
        start, complete = share.start_offset, share.delivery_complete_count
        return Progress(start, share.end_offset, complete, served.held, end - start - complete)

    def _note_drained(self) -> None:
        self.brokers.note_drained(self.brokers.served[-1])

    def _observer(self) -> Callable[[bool], Observed]:
        return Watch(self.scenario, self.clock, self.brokers, self.states, self.tally).observe

    def _assigned(self) -> Sequence[Assigned]:
        return self.coordinator.assignments

    def _assignor(self) -> str:
        return self.scenario.assignor

    def _held(self) -> int:
        return sum(served.held for served in self.brokers.served)
