"""What does a share consumer do? It polls one broker after the other, works, and acknowledges with its next poll.

As ``ShareConsumeRequestManager`` and ``ShareMembershipManager`` of the Java client.
"""

from __future__ import annotations

from collections.abc import Callable

from sharelag.whatif.partition.fetching import rotated
from sharelag.whatif.partition.values import Acknowledgement
from sharelag.whatif.scenario import Member
from sharelag.whatif.simulation.batch import Acknowledgements, Part, parts, renewals
from sharelag.whatif.simulation.clock import MS
from sharelag.whatif.simulation.coordinator import Target
from sharelag.whatif.simulation.served import Delivered, Fetch
from sharelag.whatif.simulation.streams import ACCIDENT, Work, generator
from sharelag.whatif.simulation.world import Session, World, member_id, session_with

#: Longer than any simulation, in microseconds.
_EVER = 1 << 60


class Client:
    """One life of a member of the scenario, from joining to its end.

    Attributes
    ----------
    number
        Of all lives, in the order of their begins.
    id
        The member id.
    joined, left, ended
        Microseconds; and how it ended, None while it lives.
    busy, unassigned
        Microseconds in which it processed records, and in which it had no partition.
    polls
        How many brought records.
    """

    def __init__(self, world: World, member: Member, number: int, life: int, which: int, work: dict[int, Work]) -> None:
        self._world, self.member, self.number = world, member, number
        self.life, self.which, self.work = life, which, work
        self._clock = world.clock
        self.id = member_id(world.seed, which, life)
        self._chance = generator(world.seed, ACCIDENT, which, life)
        self._network = round(world.scenario.costs.network_ms * MS)
        self._wait = member.fetch_max_wait_ms * MS
        self._interval = world.scenario.settings.heartbeat_interval_ms * MS
        self.joined = world.clock.now
        self.left: int | None = None
        self.ended: str | None = None
        self.busy = self.unassigned = self.polls = 0
        self.places: list[int] = []
        self._unassigned_since: int | None = self.joined
        self._busy_since: int | None = None
        self._sessions: dict[int, Session] = {}
        self._pending: Acknowledgements = {}
        self._todo: list[Part] = []
        self._topics = member.topics
        self._epochs: dict[int, int] = {}
        self._turn = self._beats = 0
        self._active = self._leaving = self._known = False
        self._muted_until = self._hung_until = 0
        self._beat(0)
        if member.leave_ms is not None and member.leave_ms * MS > self.joined:
            self._clock.at(member.leave_ms * MS, self.leave)

    # ---- what can happen to it ----

    def leave(self) -> None:
        """Close the consumer when the records at hand are done."""
        self._leaving = True
        if self.ended is None and not self._active:
            self._close()

    def crash(self) -> None:
        """End without a word; the brokers notice that its connections are gone."""
        if self.ended is not None:
            return
        self._end("crashed")
        self._clock.after(self._network, self._world.brokers.close, self.number, self.id)
        restart = self.member.behaviour.restart_ms
        if restart is not None:
            self._clock.after(restart * MS, self._world.spawn, self.which, self.life + 1)

    def hang(self, for_ms: int | None) -> None:
        """Stand still, with open connections, for a time or for ever."""
        if self.ended is None:
            self._stop_work()
            self._hung_until = self._clock.now + (_EVER if for_ms is None else for_ms * MS)

    def mute(self, for_ms: int | None) -> None:
        """Lose the heartbeats on the way."""
        self._muted_until = self._clock.now + (_EVER if for_ms is None else for_ms * MS)

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Subscribe to other topics; none: leave the group."""
        self._topics = topics
        if self.ended is None and topics:
            self._beat(self._beats)
        elif self.ended is None:
            self._clock.after(self._network, self._world.coordinator.leave, self.id)
            self._known, self.places = False, []
            self._count_unassigned()

    def finish(self) -> None:
        """Count what is going on when the simulation ends."""
        if self.ended is None:
            self._stop_work()
            if self._unassigned_since is not None:
                self.unassigned += self._clock.now - self._unassigned_since

    # ---- membership ----

    def _beat(self, number: int) -> None:
        if self._is_stopped(self._beat, number) or number != self._beats or not self._topics:
            return
        self._beats += 1
        if self._clock.now >= self._muted_until:
            self._clock.after(self._network, self._beat_arrives)
        self._clock.after(self._interval, self._beat, self._beats)

    def _beat_arrives(self) -> None:
        if self.ended is not None or not self._topics:
            return
        answer = self._world.coordinator.heartbeat(self.id, self._topics, self.member.rack, not self._known)
        self._clock.after(self._network, self._told, answer)

    def _told(self, answer: Target | bool | None) -> None:
        if self._is_stopped(self._told, answer) or not self._topics:
            return
        self._known = answer is not False
        if answer is True:
            self._end("refused")
        if answer is None or answer is True:
            return
        target = answer if isinstance(answer, dict) else {}
        self.places = [self._world.first[topic] + one for topic, numbers in target.items() for one in numbers]
        self._count_unassigned()
        self._beat(self._beats)  # it says what it has, or joins again
        if self.places and not self._active:
            self._poll()

    # ---- polling ----

    def _poll(self) -> None:
        if self._leaving:
            self._close()
            return
        served = self._world.brokers.served
        by_broker: dict[int, list[int]] = {}
        for place in self.places:
            by_broker.setdefault(served[place].leader, []).append(place)
        self._active = bool(by_broker)
        if not by_broker:
            self._acknowledge(self._take_pending())
            return
        order = sorted(by_broker)
        broker = order[self._turn % len(order)]
        self._turn += 1
        told = self._take_pending()
        mine = {place: given for place, given in told.items() if self._broker(place) == broker}
        self._acknowledge({place: given for place, given in told.items() if place not in mine})
        session = session_with(broker, self._sessions, self._world.brokers.leaders)
        wanted = by_broker[broker]
        kept = [place for place in session.places if place in wanted]
        session.places = kept + [place for place in wanted if place not in kept]
        places = rotated(session.places, session.epoch)
        self._send(broker, "fetch", places, mine, self._answered)

    def _answered(self, delivered: list[Delivered]) -> None:
        if self._is_stopped(self._answered, delivered):
            return
        if not delivered:
            self._poll()
            return
        self.polls += 1
        for place in {one.place for one in delivered}:
            self._epochs[place] = self._world.brokers.served[place].leader_epoch
        world, behaviour = self._world, self.member.behaviour
        todo = parts(delivered, behaviour, world.logs, self.work.__getitem__, world.outcomes)
        todo[0].duration += round(self.member.service.poll_ms * MS)
        if behaviour.crash or behaviour.hang:
            crash, hang, share = self._chance.random(3).tolist()
            at = int(share * sum(part.duration for part in todo))
            if crash < behaviour.crash:
                self._clock.after(at, self.crash)
            elif hang < behaviour.hang:
                self._clock.after(at, self.hang, behaviour.hang_ms)
        if behaviour.renew_ms is not None:
            self._clock.after(behaviour.renew_ms * MS, self._renew, self.polls, behaviour.renew_ms * MS)
        self._work_on(todo)

    def _renew(self, poll: int, every: int) -> None:
        if not self._is_stopped(self._renew, poll, every) and poll == self.polls and self._todo:
            self._acknowledge(renewals(self._todo))
            self._clock.after(every, self._renew, poll, every)

    def _work_on(self, todo: list[Part]) -> None:
        self._busy_since, self._todo = self._clock.now, todo
        self._clock.after(todo[0].duration, self._worked, todo)

    def _worked(self, todo: list[Part]) -> None:
        if self._is_stopped(self._worked, todo):
            return
        self._stop_work()
        part, *rest = todo
        self._todo = rest
        if part.crashes:
            self.crash()
        elif rest:
            waiting = self._acknowledge(part.acknowledgements, lambda _: self._work_on(rest))
            if not waiting:
                self._work_on(rest)
        else:
            self._pending = part.acknowledgements
            self._poll()

    def _acknowledge(self, told: Acknowledgements, then: Callable[[list[Delivered]], None] = lambda _: None) -> bool:
        """Send acknowledgements alone; ``then`` follows the last answer."""
        by_broker: dict[int, Acknowledgements] = {}
        for place, given in told.items():
            by_broker.setdefault(self._broker(place), {})[place] = given
        for number, (broker, mine) in enumerate(sorted(by_broker.items())):
            last = number == len(by_broker) - 1
            self._send(broker, "acknowledge", [], mine, then if last else lambda _: None)
        return bool(by_broker)

    def _send(
        self,
        broker: int,
        what: str,
        places: list[int],
        told: Acknowledgements,
        answer: Callable[[list[Delivered]], None],
    ) -> None:
        told = {place: given for place, given in told.items() if self._is_still_led(place, given)}
        session = session_with(broker, self._sessions, self._world.brokers.leaders)
        if self._world.requests is not None:
            self._world.requests.append((self._clock.now, self.number, broker, session.epoch, what))
        session.epoch += 1
        fetch = Fetch(self.number, self.id, places, self.member.max_poll_records, self.member.acquire_mode, answer)
        self._clock.after(self._network, self._world.brokers.fetch, fetch, told, self._wait)

    def _close(self) -> None:
        told = self._take_pending()
        self._acknowledge(told)
        for broker in sorted(self._sessions):
            if self._world.requests is not None:
                self._world.requests.append((self._clock.now, self.number, broker, -1, "close"))
        # A moment later, so that what it has acknowledged is written when its sessions end.
        written = round(self._world.scenario.costs.write_ms * MS) + 1 if told else 0
        self._clock.after(self._network + written, self._world.brokers.close, self.number, self.id)
        self._clock.after(self._network, self._world.coordinator.leave, self.id)
        self._end("left")

    def _is_still_led(self, place: int, given: list[Acknowledgement]) -> bool:
        """Whether the leader is the one that delivered; else acknowledgements fail in the client already."""
        same = self._world.brokers.served[place].leader_epoch == self._epochs.get(place)
        if not same:
            self._world.brokers.refuse(place, self.number, given)
        return same

    def _is_stopped(self, action: Callable[..., None], *arguments: object) -> bool:
        """Whether it does nothing (any more); who hangs does it later."""
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
        if self._unassigned_since is not None:
            self.unassigned += self._clock.now - self._unassigned_since
        self.ended, self.left = how, self._clock.now

    def _stop_work(self) -> None:
        if self._busy_since is not None:
            self.busy += self._clock.now - self._busy_since
            self._busy_since = None

    def _count_unassigned(self) -> None:
        if self.places and self._unassigned_since is not None:
            self.unassigned += self._clock.now - self._unassigned_since
            self._unassigned_since = None
        elif not self.places and self._unassigned_since is None:
            self._unassigned_since = self._clock.now

    def _take_pending(self) -> Acknowledgements:
        told, self._pending = self._pending, {}
        return told

    def _broker(self, place: int) -> int:
        return self._world.brokers.served[place].leader
