"""The brokers of a run: which broker leads a share partition, and the state a leader loads.

Each share partition has one leader at a time. A new leader knows only the written state.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharelag.errors import InputError
from sharelag.model import UNINITIALIZED_START_OFFSET, Window
from sharelag.whatif.compiled import calls
from sharelag.whatif.compiled import layout as at
from sharelag.whatif.compiled.memory import Core
from sharelag.whatif.compiled.outcome import Writes
from sharelag.whatif.scenario import Scenario
from sharelag.whatif.simulation.clock import MS, Clock
from sharelag.whatif.simulation.logs import Log

#: ``share.coordinator.state.topic.replication.factor``: copies on the coordinator and those next.
_COPIES = 3


class Brokers:
    """All brokers of the cluster; kernels answer their requests."""

    def __init__(
        self, scenario: Scenario, clock: Clock, logs: Sequence[Log], states: Writes, core: Core
    ) -> None:
        self._clock, self._states, self._core = clock, states, core
        self._reset = scenario.settings.auto_offset_reset
        self._count, self._failover = scenario.brokers, round(scenario.costs.failover_ms * MS)
        self._leaders, self._coordinator = scenario.leaders, scenario.group_coordinator
        # Of the share state of each place: the broker that keeps it, and the first with a copy.
        self._coordinators, self._copies = list[int](), list[int]()
        #: When the group has a coordinator again; not after now if it has one.
        self.coordinated_from = 0
        if any(fault.kind == "broker_down" for fault in scenario.faults):
            self._coordinators = self._copies = list(scenario.coordinators)
        self._starts = [start.window for start in scenario.starts.values()]
        self._there = [begin == 0 for topic in scenario.topics for begin in topic.there_from()]
        self.logs = logs
        for place, is_there in enumerate(self._there):
            if is_there:
                self.add(place)

    def start_offset(self, place: int) -> int:
        """Return the start offset of a share partition."""
        return self._core[self._core.places[place] + at.START]

    def lag(self, place: int) -> int:
        """Return the lag of a share partition, by the state in memory."""
        done = self.start_offset(place) + self._core[self._core.places[place] + at.COMPLETE]
        return self.logs[place].known_end - done

    def add(self, place: int) -> None:
        """Add a partition to the group, with the scenario's state or a new one."""
        now, window = self._clock.now_ms, self._starts[place]
        if window is None:
            # Since Kafka 4.4, a partition added to a known topic is read from its first offset.
            start, count = (UNINITIALIZED_START_OFFSET, -1) if self._there[place] else (0, 0)
            window = Window(0, 0, 0, start, count, now, now)
            self._states.initialize(place, start, now)
        else:
            self._states.adopt(place, window, now)
        self._load(place, window, 0, self._leaders[place])

    def close(self, number: int) -> None:
        """End the share sessions of a member: release its records, and drop its waiting fetches."""
        self._core.call(calls.CLOSE_MEMBER, self._core.members[number])
        self._core[at.MEMBERS] -= 1  # so that less room is reserved

    def change_leader(self, place: int) -> None:
        """Make another broker the leader; it loads the written state."""
        if self._states.window(place) is None:
            return  # the group does not know it yet
        core, p = self._core, self._core.places[place]
        core.call(calls.EXPIRE, p)
        epoch = core[p + at.LEADER_EPOCH] + 1
        window = self._states.read(place, epoch, self._clock.now_ms)
        self._load(place, window, epoch, self._next_alive(core[p + at.LEADER]))
        core.call(calls.WAKE, p)

    def stop(self, broker: int, for_ms: int | None) -> None:
        """Stop a broker: it answers nothing, and loses all state that it did not write."""
        if self._is_dead(broker):
            return
        self._mark(broker, is_dead=True)
        until = self._clock.now + self._failover
        if self._coordinator == broker:
            self.coordinated_from = until
        of_places = zip(self._core.places, self._coordinators, self._copies, strict=True)
        for p, keeps, first in of_places:
            # A write waits for all copies, until the controller knows that one is missing.
            if (broker - first) % self._count < _COPIES:
                is_gone = self._core[p + at.WRITES_FROM] > self._clock.now
                retries = broker == keeps or (is_gone and self._core[p + at.RETRIES])
                self._core[p + at.WRITES_FROM], self._core[p + at.RETRIES] = until, retries
        self._clock.after(self._failover, self._fail_over, broker)
        if for_ms is not None:
            self._clock.after(for_ms * MS, self._mark, broker, False)
        core = self._core
        for place, p in enumerate(core.places):
            window = self._states.window(place)
            if core[p + at.LEADER] == broker and window is not None:
                core.call(calls.END_LEADER, p)
                self._load(place, window, core[p + at.LEADER_EPOCH], broker)

    def _fail_over(self, broker: int) -> None:
        core = self._core
        for place in [n for n, p in enumerate(core.places) if core[p + at.LEADER] == broker]:
            self.change_leader(place)
        after = self._next_alive(broker)
        self._coordinators = [after if one == broker else one for one in self._coordinators]
        if self._coordinator == broker:
            self._coordinator = after

    def _mark(self, broker: int, is_dead: bool) -> None:
        """Mark a broker as up or down, which ends the sessions with it."""
        core, b = self._core, self._core[at.BROKERS_AT] + broker * at.BROKER
        core[b + at.IS_DEAD], core[b + at.BROKER_EPOCH] = is_dead, core[b + at.BROKER_EPOCH] + 1

    def _is_dead(self, broker: int) -> bool:
        return bool(self._core[self._core[at.BROKERS_AT] + broker * at.BROKER + at.IS_DEAD])

    def _next_alive(self, broker: int) -> int:
        for one in range(broker + 1, broker + 1 + self._count):
            if not self._is_dead(one % self._count):
                return one % self._count
        raise InputError(
            "all brokers of the scenario are down at once: give it more brokers, or fewer faults"
        )

    def _load(self, place: int, window: Window, epoch: int, leader: int) -> None:
        """Load a state into memory, as a leader of an epoch does."""
        log, core, p = self.logs[place], self._core, self._core.places[place]
        start = window.start_offset
        reset = log.start if self._reset == "earliest" else log.end(self._clock.now)
        if start == UNINITIALIZED_START_OFFSET:
            start = reset
        core.load_state(p, start, window.batches, self._clock.now_ms)
        core[p + at.LEADER], core[p + at.LEADER_EPOCH] = leader, epoch
        core[p + at.WRITE_EPOCH] = max(epoch, window.leader_epoch)
        core.call(calls.MOVE_START, p)
        core.ensure_window(p)
