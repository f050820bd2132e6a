"""One simulation of a share group.

Kernels handle polls, fetches, acknowledgements and locks as events. Between them, Python handles
members that join, are assigned partitions, and leave.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple

from sharelag.model import DeliveryState, SharePartition
from sharelag.whatif.autoscale import Metric
from sharelag.whatif.compiled import calls, window
from sharelag.whatif.compiled import layout as at
from sharelag.whatif.compiled.brokers import Brokers
from sharelag.whatif.compiled.clients import Client
from sharelag.whatif.compiled.coordinator import Coordinator, Joined, by_topic
from sharelag.whatif.compiled.memory import Core
from sharelag.whatif.compiled.outcome import CoreTally, Writes
from sharelag.whatif.compiled.watch import Watch
from sharelag.whatif.scenario import Fault, Member, Scenario, Service
from sharelag.whatif.simulation import streams
from sharelag.whatif.simulation.clock import MS, Clock, check
from sharelag.whatif.simulation.life import Birth
from sharelag.whatif.simulation.loop import Loop, SimulationTables
from sharelag.whatif.simulation.streams import Longs


class InFlight(NamedTuple):
    """Offsets ``first_offset..last_offset`` in flight with the same state."""

    first_offset: int
    last_offset: int
    delivery_state: DeliveryState
    delivery_count: int
    member: str | None  # the holder, if acquired
    lock_ends_ms: int | None  # expiry of the acquisition lock


def in_flight(core: Core, p: int, members: Sequence[str]) -> list[InFlight]:
    """Return the offsets in flight from the start offset, equal neighbours merged.

    ``members`` are member ids by number of life.
    """
    found: list[InFlight] = []
    offset, start = core[p + at.FIRST], core[p + at.START]
    while core[p + at.IN_MEMORY] and offset <= core[p + at.LAST]:
        batch = window.slot_of(core, p, offset)
        last, is_split = core[batch + at.BATCH_LAST], core[batch + at.SPLIT] == 1
        for end in range(max(offset, start), last + 1) if is_split else [last][: last >= start]:
            slot = window.slot_of(core, p, end) if is_split else batch
            state, count = DeliveryState(core[slot + at.STATE]), core[slot + at.COUNT]
            who: tuple[str | None, int | None] = (None, None)
            if state == DeliveryState.ACQUIRED:
                who = members[core[slot + at.OWNER]], core[slot + at.DEADLINE]
            first = end if is_split else max(offset, start)
            if found and (found[-1].last_offset, *found[-1][2:]) == (first - 1, state, count, *who):
                first = found.pop().first_offset
            found.append(InFlight(first, end, state, count, *who))
        offset = window.after_hole(core, p, last + 1)
    return found


#: Above all numbers of events.
_LAST = (1 << 62) - 1


class LoopClock(Clock):
    """Virtual time shared by events of kernels and actions of Python."""

    __slots__ = ("_core", "call", "draw")

    def __init__(self, begins_ms: int, core: Core) -> None:
        super().__init__(begins_ms)
        self._core = core
        self.call: Callable[[int, int], None]
        self.draw: Callable[[int], None]

    def at(self, time: int, action: Callable[..., object], *arguments: Any) -> None:
        """Schedule an action at a time in microseconds, at the earliest now."""
        core = self._core
        core[at.NUMBER] = number = core[at.NUMBER] + 1
        heappush(self._actions, (max(time, self.now), number, action, arguments))

    def run(self, until: int) -> None:
        """Advance the time to ``until``, inclusive."""
        actions, core = self._actions, self._core
        while True:
            is_next = bool(actions) and actions[0][0] <= until
            if not self._has_run(*(actions[0][:2] if is_next else (until, _LAST))):
                continue  # Python handled an event, and more may precede the action
            if not is_next:
                break
            check()
            time, _, action, arguments = heappop(actions)
            self.now = core[at.NOW] = time
            action(*arguments)
        self.now = core[at.NOW] = until

    def _has_run(self, time: int, number: int) -> bool:
        """Handle events; return whether none is left before a time and its number."""
        core = self._core
        if time < core.next_event:
            return True
        code, subject = core.call(calls.RUN, time, number)
        if at.CLOSE <= code <= at.HEARTBEAT_NOW:
            self.now = core[at.NOW]
            self.call(code, subject)
        elif code == at.GROW:
            core.grow()
        elif code == at.ENDED_RUN:
            core.next_event = subject
        else:
            self.draw(code)
        return bool(code == at.ENDED_RUN)


#: ``share.coordinator.cold.partition.snapshot.interval.ms``
_COLD_MS = 300_000


class Simulation(Loop[Client]):
    """One simulation of a share group; with ``requests`` it records every request."""

    coordinator: Coordinator

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        requests: bool = False,
        is_compiled: bool = False,
        **modelled: int,
    ) -> None:
        super().__init__(scenario, seed, **modelled)
        core = self.core = Core(scenario, self.logs, requests, is_compiled)
        self.clock = self._clock = LoopClock(scenario.begins_ms, core)
        self._clock.call, self._clock.draw = self._call, self._draw
        for place, outcomes in enumerate(self.outcomes):
            if outcomes.poison:
                core.set_poison(place, outcomes.poison)
        self.tally = self._counted = CoreTally(len(self.names), scenario.step_ms * MS, core)
        ids = {topic.name: topic.id for topic in scenario.topics}
        self.states = Writes(
            [SharePartition(scenario.group_id, ids[name], number) for name, number in self.names],
            core,
        )
        self.brokers = Brokers(scenario, self.clock, self.logs, self.states, core)
        drawn = streams.topic_ids(seed, scenario.topics)
        self.coordinator = Coordinator(scenario, self.clock, self.brokers, core, self.first, drawn)
        self._watch = Watch(scenario, self.clock, self.brokers, self.states, self.tally)
        self._work_at: dict[Service, int] = {}
        self._clients: dict[int, Client] = {}
        self._begin()

    def end(self) -> SimulationTables:
        """Run to the end, and return the results."""
        ended = super().end()
        self.core.release()
        return ended

    def in_flight(self) -> list[list[InFlight]]:
        """Return the offsets in flight now, by place, with member ids."""
        members = [life.id for life in self.lives]
        return [in_flight(self.core, p, members) for p in self.core.places]

    def _join(self, member: Member) -> Joined:
        return Joined(member.topics, member, 0, target=by_topic(member.assigned))

    def _schedule_upkeep(self) -> None:
        self.clock.at(_COLD_MS * MS, self._snapshot_cold)

    def _snapshot_cold(self) -> None:
        self.states.snapshot_cold(self.clock.now_ms)
        self.clock.after(_COLD_MS * MS, self._snapshot_cold)

    def _life(self, birth: Birth) -> Client:
        service = birth.member.service
        if service not in self._work_at:
            fixed = [birth.work[place].fixed for place in range(len(self.names))]
            self._work_at[service] = self.core.add_service(fixed)
        client = Client(self, birth, self._work_at[service])
        self._clients[client.address] = client
        return client

    def _fail(self, fault: Fault) -> None:
        if fault.kind == "broker_down":
            self.brokers.stop(fault.broker, fault.for_ms)
            self.coordinator.begin_sessions(self.brokers.coordinated_from)
        else:
            self.brokers.change_leader(self.first[fault.topic] + fault.partition)

    def _delete(self, place: int, offset: int) -> None:
        super()._delete(place, offset)
        core, p = self.core, self.core.places[place]
        core[p + at.LOG_START] = self.logs[place].start
        core.ensure_window(p)

    def _compact(self, places: Sequence[int], every_ms: int) -> None:
        super()._compact(places, every_ms)
        self.core[at.COMPACTIONS] = self.core[at.COMPACTIONS] + 1
        for place in places:
            self.core.remove(place, self.logs[place])

    def _lag_and_age(self, metric: Metric) -> tuple[int | None, int]:
        return self._watch.lag_and_age(metric)

    def _observe_places(self) -> Longs:
        core = self.core
        core.call(calls.SAMPLE)
        begin = core[at.SAMPLE_AT]
        rows = core.a[begin : begin + len(core.places) * at.SAMPLE]
        return rows.reshape(-1, at.SAMPLE)

    def note_drained(self) -> None:
        """Record the time if nothing is left to finish."""
        self.core.call(calls.NOTE_DRAINED, self.core.places[-1])

    def _held(self) -> int:
        return sum(self.core.call(calls.HELD_IN, p)[0] for p in self.core.places)

    def _settle(self) -> None:
        self.states.keep()
        self._counted.read(self.core)
        self.requests = self.core.requests()
        super()._settle()

    def _call(self, code: int, m: int) -> None:
        client = self._clients[m]
        if code == at.CLOSE:
            client.close()
        elif code == at.CRASH_NOW:
            client.crash()
        elif code == at.HEARTBEAT_NOW:
            client.be_heard()
        else:
            client.hang(client.member.behaviour.hang_ms)

    def _draw(self, code: int) -> None:
        core, of = self.core, self.core[at.MISSING_OF]
        if code == at.DRAW_ACCIDENT:
            core.put_accidents(of, self._clients[of].accidents())
            return
        place, chunk = core[at.MISSING_PLACE], core[at.MISSING_CHUNK]
        p = core.places[place]
        # Existing records only: the last chunk of a log is not full.
        count = min(at.CHUNK, self.logs[place].bases[-1] - chunk * at.CHUNK)
        number = core[p + at.CHUNK_AT] + chunk - core[p + at.FIRST_CHUNK]
        if code == at.DRAW_WORK:
            life = self.lives[core[of + at.MEMBER_INDEX]]
            address = core[of + at.WORK_AT] + len(core.places) + number
            core[address] = core.put(life.work[place].draw(chunk, count))
        else:
            address = core[at.CHANCES_AT] + (of - 1) * core[at.CHUNKS] + number
            core[address] = core.put(self.outcomes[place].draw(of, chunk, count))
