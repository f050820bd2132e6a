"""Share consumers: they join, get partitions, leave and fail.

The kernels in `working` poll, process and acknowledge.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from sharelag.whatif.compiled import calls
from sharelag.whatif.compiled import layout as at
from sharelag.whatif.compiled.brokers import Brokers
from sharelag.whatif.compiled.coordinator import Coordinator, Target
from sharelag.whatif.compiled.memory import Core, behaviour_fields
from sharelag.whatif.scenario import Scenario
from sharelag.whatif.simulation.clock import MS, Clock
from sharelag.whatif.simulation.life import Birth, Life
from sharelag.whatif.simulation.streams import WHOLE_BITS, Longs

#: Polls whose accidents are drawn in one go.
_ACCIDENTS = 64


class World(Protocol):
    """The simulation of a share group, as its members see it."""

    scenario: Scenario
    clock: Clock
    brokers: Brokers
    coordinator: Coordinator
    first: dict[str, int]  # the first place of each topic
    core: Core


class Client(Life):
    """One life of a share consumer."""

    _world: World

    def __init__(self, world: World, birth: Birth, work_at: int) -> None:
        self._core, member = world.core, birth.member
        self.address = world.core.add_member()
        fields = {
            at.MAX_POLL: member.max_poll_records,
            at.RECORD_LIMIT: int(member.acquire_mode == "record_limit"),
            at.WAIT: member.fetch_max_wait_ms * MS,
            at.POLL_WAIT: member.poll_timeout_ms * MS,
            at.POLLED: world.clock.now,
            at.POLL: round(member.service.poll_ms * MS),
            at.WORK_AT: work_at,
            at.IS_FIXED: int(birth.work[0].is_fixed),
            at.SUBSCRIBES: bool(member.topics),
            at.KNOWS: at.NOBODY,
            **behaviour_fields(member.behaviour),
        }
        for field, value in fields.items():
            self._core[self.address + field] = value
        super().__init__(world, birth, world.scenario.settings.heartbeat_interval_ms)
        self._begin()

    # ---- membership ----

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Subscribe to other topics, or leave the group if there are none."""
        self._core[self.address + at.SUBSCRIBES] = bool(topics)
        self._core[self.address + at.KNOWS] = at.NOBODY
        super().subscribe(topics)

    def mute(self, for_ms: int | None) -> None:
        """Lose heartbeats in transit, for a time or indefinitely."""
        super().mute(for_ms)
        self._core[self.address + at.MUTED_UNTIL] = self._muted_until

    def be_heard(self) -> None:
        """Let the coordinator handle a heartbeat, which may change something."""
        if self._world.brokers.coordinated_from <= self._clock.now:  # otherwise nobody answers
            self._receive_heartbeat(frozenset())

    def _send_heartbeat(self, _: int) -> None:
        self._core.call(calls.HEARTBEAT, self.address)

    def _leave_coordinator(self) -> None:
        arrives = max(self._clock.now + self._network, self._world.brokers.coordinated_from)
        self._clock.at(arrives, self._world.coordinator.leave, self.id)

    def _heartbeat(self, _owned: frozenset[int]) -> Target | bool | None:
        coordinator, joins = self._world.coordinator, not self._known
        return coordinator.heartbeat(self.id, self.address, self._topics, self.member, joins)

    def _apply(self, answer: Target | bool) -> None:
        if answer is True:
            self._end("refused")
            return
        target = answer or {}
        self.places = [
            self._world.first[topic] + one for topic, numbers in target.items() for one in numbers
        ]
        self._count_unassigned()
        self._send_heartbeat(self._heartbeats)  # reports its assignment, or joins again
        if self.places and self._core[self.address + at.IN_POLL] and not self._leaving:
            self._core.call(calls.POLL, self.address)

    def _disconnect(self) -> None:
        """Let the brokers notice the lost connections."""
        self._clock.after(self._network, self._world.brokers.close, self.number)

    def leave(self) -> None:
        """Close the consumer after the current records."""
        self._core[self.address + at.LEAVING] = 1
        super().leave()

    def close(self) -> None:
        """Close the consumer instead of polling again."""
        sent, _ = self._core.call(calls.CLOSE_SESSIONS, self.address)
        # A moment later, so that its acknowledgements are written before its sessions end.
        written = round(self._world.scenario.costs.write_ms * MS) + 1 if sent else 0
        self._clock.after(self._network + written, self._world.brokers.close, self.number)
        self._leave_coordinator()
        self._end("left")

    def _end(self, how: str) -> None:
        super()._end(how)
        self._core[self.address + at.ENDED] = 1

    # ---- state in the memory of the run ----

    @property
    def places(self) -> list[int]:
        """The share partitions assigned to the member."""
        return self._places

    @places.setter
    def places(self, places: list[int]) -> None:
        core, m = self._core, self.address
        self._places = places
        begin = core[m + at.ASSIGNED_AT]
        core.a[begin : begin + len(places)] = [core.places[place] for place in places]
        core[m + at.ASSIGNED], core[m + at.CHANGED] = len(places), 1

    def busy_so_far(self) -> int:
        """Return the microseconds spent on processing records."""
        return self._core[self.address + at.BUSY]

    def hang(self, for_ms: int | None) -> None:
        """Stop everything but open connections, heartbeats included, for a time or indefinitely."""
        super().hang(for_ms)
        self._core[self.address + at.HUNG_UNTIL] = self._hung_until

    def accidents(self) -> Longs:
        """Draw random whole numbers for the accidents of several polls."""
        drawn = self._chance.random(3 * _ACCIDENTS)
        return (drawn * 2.0**WHOLE_BITS).astype(np.int64)

    def finish(self) -> None:
        """Add the current work to the counters at the end of the simulation."""
        super().finish()
        self.busy, self.polls = self.busy_so_far(), self._core[self.address + at.POLLS]

    def _stop_work(self) -> None:
        core, m = self._core, self.address
        since = core[m + at.BUSY_SINCE]
        if since >= 0:
            core[m + at.BUSY] = core[m + at.BUSY] + self._clock.now - since
            core[m + at.BUSY_SINCE] = -1

    def _is_at_work(self) -> bool:
        core, m = self._core, self.address
        is_pending = any(core[session + at.IS_PENDING] for session in core.sessions(m))
        return is_pending or not core[m + at.IN_POLL]
