"""One simulation whose hot events are compiled: polls, fetches, acknowledgements and locks.

Members join, are assigned and leave in Python, as in the readable loop, between the same events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any

from sharelag.compiled import compiled
from sharelag.model import SharePartition
from sharelag.whatif.compiled import calls
from sharelag.whatif.compiled import layout as at
from sharelag.whatif.compiled.clients import CompiledClient
from sharelag.whatif.compiled.memory import Core
from sharelag.whatif.compiled.outcome import CompiledStates, CompiledTally
from sharelag.whatif.compiled.support import RecordsLostError
from sharelag.whatif.scenario import Fault, Member, Scenario, Service
from sharelag.whatif.simulation.brokers import Brokers
from sharelag.whatif.simulation.clients import Client
from sharelag.whatif.simulation.clock import MS, Clock, check
from sharelag.whatif.simulation.coordinator import Coordinator
from sharelag.whatif.simulation.logs import Log
from sharelag.whatif.simulation.loop import Loop, Progress, Simulation, SimulationTables, Works
from sharelag.whatif.simulation.served import Served
from sharelag.whatif.simulation.streams import Longs
from sharelag.whatif.simulation.tables import Tally

#: After all numbers of events.
_LAST = (1 << 62) - 1
_WHAT = {at.ASKS_FETCH: "fetch", at.ASKS_ACKNOWLEDGE: "acknowledge", at.ASKS_CLOSE: "close"}


class CompiledClock(Clock):
    """Virtual time that compiled events and actions of Python share."""

    __slots__ = ("_core", "call", "draw")

    def __init__(self, begins_ms: int, core: Core) -> None:
        super().__init__(begins_ms)
        self._core = core
        self.call: Callable[[int, int], None]
        self.draw: Callable[[int], None]

    def at(self, time: int, action: Callable[..., object], *arguments: Any) -> None:
        """Do something at a time, in microseconds; what is past already is done next."""
        core = self._core
        core[at.NUMBER] = number = core[at.NUMBER] + 1
        heappush(self._actions, (max(time, self.now), number, action, arguments))

    def run(self, until: int) -> None:
        """Let time pass, that moment included."""
        actions, core = self._actions, self._core
        while True:
            is_next = bool(actions) and actions[0][0] <= until
            if not self._has_run(*(actions[0][:2] if is_next else (until, _LAST))):
                continue  # Python did something, and may have more to do before
            if not is_next:
                break
            check()
            time, _, action, arguments = heappop(actions)
            self.now = core[at.NOW] = time
            action(*arguments)
        self.now = core[at.NOW] = until

    def _has_run(self, time: int, number: int) -> bool:
        """Do compiled events; whether nothing else comes before a time and a number there."""
        core = self._core
        code, subject = compiled(calls.run)(core.a, time, number)
        if at.CLOSE <= code <= at.HANG_NOW:
            self.now = core[at.NOW]
            self.call(code, subject)
        elif code == at.GROW:
            core.grow()
        elif code != at.ENDED_RUN:
            self.draw(code)
        return bool(code == at.ENDED_RUN)


class CompiledServed(Served):
    """A share partition that lies in the memory of a compiled run."""

    __slots__ = ("core", "p")

    core: Core
    p: int

    @property
    def lag(self) -> int:
        """Unfinished offsets, by what is in memory."""
        core, p = self.core, self.p
        return self.log.known_end - core[p + at.START] - core[p + at.COMPLETE]


class CompiledBrokers(Brokers):
    """The brokers' side of a compiled run."""

    def __init__(
        self,
        scenario: Scenario,
        clock: Clock,
        logs: Sequence[Log],
        states: CompiledStates,
        tally: Tally,
        core: Core,
    ) -> None:
        super().__init__(scenario, clock, logs, states, tally)
        self._core = core
        self._starts = [start.window for topic in scenario.topics for start in topic.starts]
        self.served = [self._moved(served) for served in self.served]
        states.epochs = [served.share.epochs for served in self.served]

    def close(self, number: int, member: str) -> None:  # noqa: ARG002, the number says it
        """End the share sessions of a member: release what it holds, forget what it waits for."""
        compiled(calls.closes)(self._core.a, self._core.members[number])
        self._core.forget()

    def _moved(self, served: Served) -> Served:
        """The same share partition, its state in the memory."""
        moved = CompiledServed(served.place, served.log, served.share, served.leader)
        core, p = self._core, self._core.places[served.place]
        moved.core, moved.p = core, p
        window = self._starts[served.place]
        share = served.share
        core.hold(p, share.start_offset, window, share.delivery_complete_count)
        core[p + at.STATE_MS] = self._clock.now_ms
        core[p + at.AT], core[p + at.READABLE] = served.log.asked
        return moved


class CompiledRun(Simulation):
    """One simulation of a share group, compiled; see `sharelag.whatif.compiled.support`."""

    def __init__(self, scenario: Scenario, seed: int, requests: bool) -> None:
        Loop.__init__(self, scenario, seed)
        self.core = Core(scenario, self.logs, requests)
        self.clock = self._clock = CompiledClock(scenario.begins_ms, self.core)
        self._clock.call, self._clock.draw = self._call, self._draw
        for place, outcomes in enumerate(self.outcomes):
            if outcomes.poison:
                self.core.poison(place, outcomes.poison)
        self.tally = self._counts = CompiledTally(len(self.names), scenario.step_ms * MS)
        ids = {topic.name: topic.id for topic in scenario.topics}
        self.states = self._written = CompiledStates(
            [SharePartition(scenario.group_id, ids[name], number) for name, number in self.names],
            self.core,
        )
        self.brokers = CompiledBrokers(
            scenario, self.clock, self.logs, self.states, self.tally, self.core
        )
        self.coordinator = Coordinator(scenario, self.clock, self.brokers, self.first)
        self.requests = [] if requests else None
        self.world = self._world(seed, None)
        self._work_at: dict[Service, int] = {}
        self._clients: dict[int, CompiledClient] = {}
        self._begin()

    def end(self) -> SimulationTables:
        """Let it run to its end, and give what happened."""
        ended = super().end()
        self.core.release()
        return ended

    def _life(self, member: Member, number: int, life: int, which: int, work: Works) -> Client:
        service = member.service
        if service not in self._work_at:
            fixed = [work[place].fixed for place in range(len(self.names))]
            self._work_at[service] = self.core.works(fixed)
        client = CompiledClient(
            self.world, member, number, life, which, work, self.core, self._work_at[service]
        )
        self._clients[client.address] = client
        return client

    def _fail(self, fault: Fault) -> None:
        raise NotImplementedError(f"brokers of compiled runs do not fail: {fault.kind}")

    def _delete(self, place: int, offset: int) -> None:
        super()._delete(place, offset)
        self.core[self.core.places[place] + at.LOG_START] = self.logs[place].start

    def _observed(self) -> Longs:
        core = self.core
        compiled(calls.sample)(core.a)
        begin = core[at.SAMPLE_AT]
        rows = core.a[begin : begin + len(core.places) * at.SAMPLE]
        return rows.reshape(-1, at.SAMPLE)

    def _progress(self, place: int, end: int) -> Progress:
        raise NotImplementedError("compiled runs observe all places together")

    def _note_drained(self) -> None:
        compiled(calls.note_drained)(self.core.a, self.core.places[-1])

    def _held(self) -> int:
        return self.core[at.HELD_BY_ALL]

    def _settle(self) -> None:
        core = self.core
        if core[at.IS_LOST]:
            raise RecordsLostError
        for log, p in zip(self.logs, core.places, strict=True):
            log.seen(core[p + at.AT])
        finished, asked = core.left()
        self._counts.read(core, finished)
        self._written.keep()
        if self.requests is not None:
            self.requests += [
                (time, number, 0, epoch, _WHAT[what])
                for time, number, epoch, what in asked.tolist()
            ]
        super()._settle()

    def _call(self, code: int, m: int) -> None:
        client = self._clients[m]
        if code == at.CLOSE:
            client.close()
        elif code == at.CRASH_NOW:
            client.crash()
        else:
            client.hang(client.member.behaviour.hang_ms)

    def _draw(self, code: int) -> None:
        """Draw random numbers that a member is about to need."""
        core = self.core
        if code == at.DRAW_ACCIDENT:
            m = core[at.MISSING_OF]
            core.put_accidents(m, self._clients[m].accidents())
            return
        place, chunk, of = (
            core[at.MISSING_PLACE],
            core[at.MISSING_CHUNK],
            core[at.MISSING_OF],
        )
        p = core.places[place]
        number = core[p + at.CHUNK_AT] + chunk - core[p + at.FIRST_CHUNK]
        if code == at.DRAW_WORK:
            life = self.lives[core[of + at.MEMBER_INDEX]]
            address = core[of + at.WORK_AT] + len(core.places) + number
            core.put_chunk(address, life.work[place].draw(chunk))
        else:
            address = core[at.CHANCES_AT] + (of - 1) * core[at.CHUNKS] + number
            core.put_chunk(address, self.outcomes[place].draw_whole(of, chunk))
