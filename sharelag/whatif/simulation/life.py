"""The life of a member of either kind of group: it joins, works, hangs, crashes, and leaves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

from numpy.random import Generator

from sharelag.whatif.scenario import Member
from sharelag.whatif.simulation.clock import MS, Clock
from sharelag.whatif.simulation.streams import ACCIDENT, Work, generator

#: Longer than any simulation, in microseconds.
_EVER = 1 << 60


class Birth(NamedTuple):
    """Arguments of a new life."""

    member: Member
    number: int  # among all lives, by their start
    life: int  # number of restarts before it
    which: int  # the member's place in the scenario
    work: dict[int, Work]


class Life(ABC):
    """One life of a member of the scenario, from joining to its end; ``world`` is its `Loop`.

    ``joined``, ``left``, ``busy`` (processing records) and ``unassigned`` (without a partition) are
    microseconds. ``ended`` is the kind of its end, None while it lives. ``polls`` counts those that
    returned records.
    """

    def __init__(self, world: Any, birth: Birth, heartbeat_ms: int) -> None:
        self.member, self.number, self.life, self.which, self.work = birth
        self._world = world
        self._clock: Clock = world.clock
        self.id = world.member_id(self.which, self.life)
        self._network = round(world.scenario.costs.network_ms * MS)
        self._interval = heartbeat_ms * MS
        self.joined = world.clock.now
        self.left: int | None = None
        self.ended: str | None = None
        self.busy = self.unassigned = self.polls = 0
        self.places: list[int] = []
        self._unassigned_since: int | None = self.joined
        self._busy_since: int | None = None
        self._topics = self.member.topics
        self._heartbeats = 0
        self._leaving = self._known = False
        self._muted_until = self._hung_until = 0

    def _begin(self) -> None:
        """Join the group; called last in ``__init__``."""
        self._send_heartbeat(0)
        if self.member.leave_ms is not None and self.member.leave_ms * MS > self.joined:
            self._clock.at(self.member.leave_ms * MS, self.leave)

    # ---- events ----

    def leave(self) -> None:
        """Close the consumer after the current records."""
        self._leaving = True
        if self.ended is None and not self._is_at_work():
            self.close()

    def crash(self) -> None:
        """End without leaving the group."""
        if self.ended is not None:
            return
        self._end("crashed")
        self._disconnect()
        restart = self.member.behaviour.restart_ms
        if restart is not None:
            self._clock.after(restart * MS, self._world.spawn, self.which, self.life + 1)

    def hang(self, for_ms: int | None) -> None:
        """Stop everything but open connections, heartbeats included, for a time or indefinitely."""
        if self.ended is None:
            self._stop_work()
            self._hung_until = self._clock.now + (_EVER if for_ms is None else for_ms * MS)

    def mute(self, for_ms: int | None) -> None:
        """Lose heartbeats in transit, for a time or indefinitely."""
        self._muted_until = self._clock.now + (_EVER if for_ms is None else for_ms * MS)

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Subscribe to other topics, or leave the group if there are none."""
        self._topics = topics
        if self.ended is None and topics:
            self._send_heartbeat(self._heartbeats)
        elif self.ended is None:
            self._leave_group()

    def busy_so_far(self) -> int:
        """Return the microseconds spent on processing records, except current ones."""
        return self.busy

    def finish(self) -> None:
        """Add the current work to the counters at the end of the simulation."""
        if self.ended is None:
            self._stop_work()
            self._count_unassigned()

    # ---- what each kind of consumer implements ----

    @abstractmethod
    def _is_at_work(self) -> bool: ...

    @abstractmethod
    def _heartbeat(self, owned: frozenset[int]) -> Any:
        """Return the coordinator's answer to a heartbeat from a member with these places."""

    @abstractmethod
    def _apply(self, answer: Any) -> None:
        """Apply a changed answer to a heartbeat; False: it is not in the group."""

    @abstractmethod
    def close(self) -> None:
        """Close the consumer now."""

    def _disconnect(self) -> None:
        """Let others notice a crash at once; by default they do not."""
        return

    def _is_member(self) -> bool:
        return bool(self._topics)

    # ---- common to all consumers ----

    def _send_heartbeat(self, number: int) -> None:
        is_stopped = self._is_stopped(self._send_heartbeat, number)
        if is_stopped or number != self._heartbeats or not self._is_member():
            return
        self._heartbeats += 1
        if self._clock.now >= self._muted_until:
            self._clock.after(self._network, self._receive_heartbeat, frozenset(self.places))
        self._clock.after(self._interval, self._send_heartbeat, self._heartbeats)

    def _receive_heartbeat(self, owned: frozenset[int]) -> None:
        if self.ended is None and self._is_member():
            answer = self._heartbeat(owned)
            if answer is not None or not self._known:  # otherwise nothing has changed
                self._clock.after(self._network, self._handle_answer, answer)

    def _handle_answer(self, answer: Any) -> None:
        if not self._is_stopped(self._handle_answer, answer) and self._is_member():
            self._known = answer is not False
            if answer is not None:
                self._apply(answer)

    def _leave_group(self) -> None:
        """Leave the group, but keep running."""
        self._leave_coordinator()
        self._known, self.places = False, []
        self._count_unassigned()

    def _leave_coordinator(self) -> None:
        self._clock.after(self._network, self._world.coordinator.leave, self.id)

    @cached_property
    def _chance(self) -> Generator:
        """The random stream of its accidents, which most members do not need."""
        return generator(self._world.seed, ACCIDENT, self.which, self.life)

    def _draw_accidents(self, duration: int) -> None:
        """Draw whether it crashes or hangs during the work that starts now."""
        behaviour = self.member.behaviour
        if behaviour.crash or behaviour.hang:
            crash, hang, share = self._chance.random(3).tolist()
            if crash < behaviour.crash:
                self._clock.after(int(share * duration), self.crash)
            elif hang < behaviour.hang:
                self._clock.after(int(share * duration), self.hang, behaviour.hang_ms)

    def _is_stopped(self, action: Callable[..., None], *arguments: object) -> bool:
        """Return whether it has ended or hangs; a hanging member runs the action later."""
        if self.ended is not None:
            return True
        if self._hung_until <= self._clock.now:
            return False
        if self._hung_until - self._clock.now < _EVER // 2:
            self._clock.at(self._hung_until, action, *arguments)
        return True

    def _end(self, how: str) -> None:
        self._stop_work()
        self.places = []
        self._count_unassigned()
        self.ended, self.left = how, self._clock.now

    def _stop_work(self) -> None:
        if self._busy_since is not None:
            self.busy += self._clock.now - self._busy_since
            self._busy_since = None

    def _count_unassigned(self) -> None:
        now = self._clock.now
        if self._unassigned_since is not None:
            self.unassigned += now - self._unassigned_since
        self._unassigned_since = None if self.places else now
