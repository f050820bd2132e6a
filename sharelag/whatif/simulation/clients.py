"""Share consumers: they poll one broker after the other, work, and acknowledge with the next poll.

As ``ShareConsumeRequestManager`` and ``ShareMembershipManager`` of the Java client.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sharelag.whatif.partition.values import Acknowledgement, rotated
from sharelag.whatif.scenario import Member
from sharelag.whatif.simulation.batch import Acknowledgements, Part, parts, renewals
from sharelag.whatif.simulation.brokers import Brokers
from sharelag.whatif.simulation.clock import MS
from sharelag.whatif.simulation.coordinator import Coordinator, Target
from sharelag.whatif.simulation.life import Life, Surroundings
from sharelag.whatif.simulation.logs import Log
from sharelag.whatif.simulation.served import Fetch, Leaders
from sharelag.whatif.simulation.streams import Outcomes, Work
from sharelag.whatif.simulation.tables import Delivered


@dataclass(frozen=True)
class World(Surroundings):
    """What all members of a share group have in common."""

    brokers: Brokers
    coordinator: Coordinator
    first: dict[str, int]  # the first place of each topic
    logs: Sequence[Log]
    outcomes: Sequence[Outcomes]
    requests: (
        list[tuple[int, int, int, int, str]] | None
    )  # time, member, broker, session epoch, what


@dataclass(slots=True)
class Session:
    """A share session with one broker: places in their order, and the next request's epoch."""

    places: list[int] = field(default_factory=list)
    epoch: int = 0
    broker_epoch: int = 0  # of the broker when it began


def session_with(broker: int, sessions: dict[int, Session], leaders: Leaders) -> Session:
    """The share session with a broker; a new one when it ended or cannot be reached."""
    epoch = leaders.broker_epochs[broker]
    if broker not in sessions or sessions[broker].broker_epoch != epoch or broker in leaders.dead:
        sessions[broker] = Session(broker_epoch=epoch)
    return sessions[broker]


class Client(Life):
    """One life of a share consumer."""

    def __init__(
        self,
        world: World,
        member: Member,
        number: int,
        life: int,
        which: int,
        work: dict[int, Work],
    ) -> None:
        super().__init__(world, member, number, life, which, work)
        self._world = world
        self._wait = member.fetch_max_wait_ms * MS
        self._sessions: dict[int, Session] = {}
        self._pending: Acknowledgements = {}
        self._todo: list[Part] = []
        self._epochs: dict[int, int] = {}
        self._turn = 0
        self._active = False
        self._begin()

    # ---- membership ----

    @property
    def _interval(self) -> int:
        return self._world.scenario.settings.heartbeat_interval_ms * MS

    def _is_at_work(self) -> bool:
        return self._active

    def _send_beat(self) -> None:
        self._clock.after(self._network, self._beat_arrives)

    def _beat_arrives(self) -> None:
        if self.ended is not None or not self._is_member():
            return
        answer = self._world.coordinator.heartbeat(
            self.id, self._topics, self.member.rack, not self._known
        )
        if answer is not None or not self._known:  # else nothing is new to it
            self._clock.after(self._network, self._heartbeat_answered, answer)

    def _heartbeat_answered(self, answer: Target | bool | None) -> None:
        if self._is_stopped(self._heartbeat_answered, answer) or not self._is_member():
            return
        self._known = answer is not False
        if answer is True:
            self._end("refused")
        if answer is None or answer is True:
            return
        target = answer if isinstance(answer, dict) else {}
        self.places = [
            self._world.first[topic] + one for topic, numbers in target.items() for one in numbers
        ]
        self._count_unassigned()
        self._beat(self._beats)  # it says what it has, or joins again
        if self.places and not self._is_at_work():
            self._poll()

    def _depart(self) -> None:
        self._clock.after(self._network, self._world.coordinator.leave, self.id)
        self._known, self.places = False, []
        self._count_unassigned()

    def _cut_off(self) -> None:
        """The brokers notice that its connections are gone."""
        self._clock.after(self._network, self._world.brokers.close, self.number, self.id)

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
        sent = self._take_pending()
        mine = {place: given for place, given in sent.items() if self._broker(place) == broker}
        self._acknowledge({place: given for place, given in sent.items() if place not in mine})
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
        self._draw_accidents(sum(part.duration for part in todo))
        if behaviour.renew_ms is not None:
            self._clock.after(
                behaviour.renew_ms * MS, self._renew, self.polls, behaviour.renew_ms * MS
            )
        self._work_on(todo)

    def _renew(self, poll: int, every: int) -> None:
        if not self._is_stopped(self._renew, poll, every) and poll == self.polls and self._todo:
            self._acknowledge(renewals(self._todo))
            self._clock.after(every, self._renew, poll, every)

    def _work_on(self, todo: list[Part]) -> None:
        self._busy_since, self._todo = self._clock.now, todo
        self._clock.after(todo[0].duration, self._work_done, todo)

    def _work_done(self, todo: list[Part]) -> None:
        if self._is_stopped(self._work_done, todo):
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

    def _acknowledge(
        self, sent: Acknowledgements, then: Callable[[list[Delivered]], None] = lambda _: None
    ) -> bool:
        """Send acknowledgements alone; ``then`` follows the last answer."""
        by_broker: dict[int, Acknowledgements] = {}
        for place, given in sent.items():
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
        sent: Acknowledgements,
        answer: Callable[[list[Delivered]], None],
    ) -> None:
        sent = {place: given for place, given in sent.items() if self._is_still_led(place, given)}
        session = session_with(broker, self._sessions, self._world.brokers.leaders)
        if self._world.requests is not None:
            self._world.requests.append((self._clock.now, self.number, broker, session.epoch, what))
        session.epoch += 1
        fetch = Fetch(
            self.number,
            self.id,
            places,
            self.member.max_poll_records,
            self.member.acquire_mode,
            answer,
        )
        self._clock.after(self._network, self._world.brokers.fetch, fetch, sent, self._wait)

    def _close(self) -> None:
        sent = self._send_last()
        # A moment later, so that what it has acknowledged is written when its sessions end.
        written = round(self._world.scenario.costs.write_ms * MS) + 1 if sent else 0
        self._clock.after(self._network + written, self._world.brokers.close, self.number, self.id)
        self._clock.after(self._network, self._world.coordinator.leave, self.id)
        self._end("left")

    def _send_last(self) -> bool:
        """Acknowledge what is left and close the sessions; whether anything was left."""
        sent = self._take_pending()
        self._acknowledge(sent)
        for broker in sorted(self._sessions):
            if self._world.requests is not None:
                self._world.requests.append((self._clock.now, self.number, broker, -1, "close"))
        return bool(sent)

    def _is_still_led(self, place: int, given: list[Acknowledgement]) -> bool:
        """Whether the leader is the one that delivered; else the client fails them already."""
        same = self._world.brokers.served[place].leader_epoch == self._epochs.get(place)
        if not same:
            self._world.brokers.refuse(place, self.number, given)
        return same

    def _take_pending(self) -> Acknowledgements:
        sent, self._pending = self._pending, {}
        return sent

    def _broker(self, place: int) -> int:
        return self._world.brokers.served[place].leader
