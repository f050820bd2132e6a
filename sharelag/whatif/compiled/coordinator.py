"""The group coordinator's answers to heartbeats: members of the group and their assignments.

Group and assignment epochs follow ``GroupMetadataManager.shareGroupHeartbeat``: a member that
joins, leaves or changes its subscription increments the group epoch. The next heartbeat finds an
older target assignment and computes a new one, at most every ``share.assignment.interval.ms``. Each
member receives its part with its own heartbeat.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from sharelag.whatif.assignors.group import Group, Topic
from sharelag.whatif.assignors.group import Member as Listed
from sharelag.whatif.assignors.registry import assign_group, require_partitions
from sharelag.whatif.compiled import layout as at
from sharelag.whatif.compiled.brokers import Brokers
from sharelag.whatif.compiled.memory import Core
from sharelag.whatif.scenario import EDITED, Member, Scenario
from sharelag.whatif.simulation.clock import MS, Clock
from sharelag.whatif.simulation.membership import Membership

#: Microseconds over which the arrival rates for assignors are measured.
_RATE_OVER = 30_000 * MS
#: Kafka's own assignors: they are called when Kafka would call them, not also when lag changes.
KAFKAS = frozenset({"simple", "simple-4.1", "all-to-all"})
Target = dict[str, list[int]]


def by_topic(places: Iterable[tuple[str, int]]) -> Target:
    """Group partitions by topic."""
    target: Target = {}
    for topic, partition in places:
        target.setdefault(topic, []).append(partition)
    return target


@dataclass(slots=True, eq=False)
class Joined:
    """A member as the coordinator knows it."""

    subscribed: tuple[str, ...]
    of: Member
    last_heartbeat: int
    address: int = 0
    target: Target = field(default_factory=dict)
    sent: Target | None = None


class Coordinator(Membership[Joined]):
    """The group coordinator of one share group."""

    def __init__(
        self,
        scenario: Scenario,
        clock: Clock,
        brokers: Brokers,
        core: Core,
        first: Mapping[str, int],
        ids: Mapping[str, str],
    ) -> None:
        self._settings = settings = scenario.settings
        super().__init__(clock, settings.session_timeout_ms, settings.assignment_interval_ms)
        self._scenario, self._brokers, self._core, self._first = scenario, brokers, core, first
        topics = {
            one.name: {
                "id": ids[one.name],
                "partitions": one.partitions,
                "racks": dict(enumerate(one.racks)),
            }
            for one in scenario.topics
        }
        self._topics = Group.of([], topics).topics  # lag and rates: see `_topic_now`
        there_from = [at_ms for topic in scenario.topics for at_ms in topic.there_from()]
        self._partitions: set[int] = {place for place, at_ms in enumerate(there_from) if not at_ms}
        self._later = sorted((at_ms, place) for place, at_ms in enumerate(there_from) if at_ms)
        self._initialized, self._initializing = scenario.initialized, False
        self._write = round(scenario.costs.write_ms * MS)
        every = self._settings.rebalance_interval_ms
        if every is not None and scenario.assignor not in KAFKAS:
            clock.after(every * MS, self._ask_again, every * MS)

    def start(self, joined: Mapping[str, Joined]) -> None:
        """Start with members that have joined before.

        They keep their partitions if Kafka's assignor would give as many to as many members: it is
        not called before something changes, and the order of ids decides who gets more.
        """
        given = {member: known.target for member, known in joined.items()}
        super().start(joined)
        target = {member: known.target for member, known in joined.items()}
        is_kafkas = self._scenario.assignor == "simple"
        if joined and is_kafkas and self._shape(given) == self._shape(target):
            for member, known in joined.items():
                known.target = given[member]
            self.assignments.clear()
            self._install(given)

    def begin_sessions(self, begin: int) -> None:
        """Begin the sessions of all members, as a new coordinator of the group does."""
        for known in self.members.values():
            known.last_heartbeat = max(known.last_heartbeat, begin)
        self._core[at.CALM_UNTIL] = 0

    def _shape(
        self, target: Mapping[str, Target]
    ) -> tuple[list[tuple[str, int]], set[tuple[str, int]]]:
        """Return the sizes of the members' parts, and the partitions that are assigned.

        If all subscribe to the same topics, the assignor looks at these together.
        """
        is_one = len({frozenset(known.subscribed) for known in self.members.values()}) == 1
        pairs = [(member, *pair) for member, mine in target.items() for pair in self._pairs(mine)]
        sizes = Counter((member, "" if is_one else topic) for member, topic, _ in pairs)
        places = {(topic, partition) for _, topic, partition in pairs}
        return sorted((topic, size) for (_, topic), size in sizes.items()), places

    def heartbeat(
        self, member: str, address: int, subscribed: tuple[str, ...], of: Member, joins: bool
    ) -> Target | bool | None:
        """Answer a heartbeat with the partitions to fetch from now on.

        None: unchanged; False: the member is not in the group; True: it cannot join, because the
        group is full (GROUP_MAX_SIZE_REACHED).
        """
        is_full = len(self.members) >= self._settings.max_size
        if joins and is_full and member not in self.members:
            return True
        join = partial(Joined, subscribed, of, self._clock.now) if joins else None
        known = self._handle_heartbeat(member, subscribed, join)
        if known is None:
            return False
        known.address = address
        if not self._initialized and not self._initializing:
            # The state of share partitions is initialised before anything is assigned.
            self._initializing = True
            self._clock.after(self._write, self._have_initialized)
        if added := [place for at_ms, place in self._later if at_ms * MS <= self._clock.now]:
            # Partitions added to a topic change the group, and wait for their share state.
            del self._later[: len(added)]
            self._change()
            self._clock.after(self._write, self._have_added, added)
        self._assign()
        is_calm = self.group_epoch == self.assignment_epoch
        calm_until = self._later[0][0] * MS if self._later else at.NEVER
        self._core[at.CALM_UNTIL] = calm_until if is_calm else 0
        # Kafka revokes at once the topics that the member no longer subscribes to.
        names = frozenset(subscribed)  # a tuple of many topics would be searched for each of them
        own = {topic: numbers for topic, numbers in known.target.items() if topic in names}
        if known.sent == own:
            if not joins:
                self._core[address + at.KNOWS] = self._core[at.ASSIGNMENTS]
            return None
        known.sent = own
        return own

    def leave(self, member: str) -> None:
        """Remove a member that leaves, or whose session has expired."""
        super().leave(member)
        self._core[at.CALM_UNTIL] = 0

    def _change(self) -> None:
        super()._change()
        self._core[at.CALM_UNTIL] = 0

    def _install(self, target: Mapping[str, Target]) -> None:
        super()._install(target)
        self._core[at.ASSIGNMENTS] = self._core[at.ASSIGNMENTS] + 1

    def _check_session(self, member: str) -> None:
        if known := self.members.get(member):
            heard = self._core[known.address + at.HEARD] if known.address else 0
            known.last_heartbeat = max(known.last_heartbeat, heard)
        super()._check_session(member)

    def _have_added(self, places: list[int]) -> None:
        for place in places:
            self._brokers.add(place)
        self._partitions.update(places)
        self._change()

    def _have_initialized(self) -> None:
        self._initialized = True
        self._change()

    # ---- target assignments ----

    def _pairs(self, target: Target) -> set[tuple[str, int]]:
        return {(topic, number) for topic, numbers in target.items() for number in numbers}

    def _ask_again(self, every: int) -> None:
        if self.members and self.group_epoch == self.assignment_epoch:
            target, members = self._target(), self.members.items()
            now = {id_: (target.get(id_, {}), known.target) for id_, known in members}
            if any(self._pairs(new) != self._pairs(old) for new, old in now.values()):
                self._change()
                self._install(target)
        self._clock.after(every, self._ask_again, every)

    def _target(self) -> dict[str, Target]:
        if not self.members:
            return {}
        if self._scenario.assignor == EDITED:
            return {id_: by_topic(known.of.edited) for id_, known in self.members.items()}
        members = []
        for id_, known in self.members.items():
            has = {topic: tuple(dict.fromkeys(held)) for topic, held in known.target.items()}
            members.append(Listed(id_, tuple(dict.fromkeys(known.subscribed)), has, known.of.rack))
        there = self._partitions if self._initialized else ()
        topics = {name: self._topic_now(topic, there) for name, topic in self._topics.items()}
        name, group = self._scenario.assignor, Group(tuple(members), topics)
        answer = assign_group(name, group)
        require_partitions(name, group, answer)
        return answer

    def _topic_now(self, topic: Topic, there: Collection[int]) -> Topic:
        """Return a topic with its lag, rates, and the places whose share state is initialised."""
        now, first = self._clock.now, self._first[topic.name]
        over = min(now, _RATE_OVER)
        lag: dict[int, float] = {}
        rate: dict[int, float] = {}
        for partition in range(topic.partitions or 0):
            log = self._brokers.logs[first + partition]
            end = log.end(now)
            lag[partition] = max(self._brokers.lag(first + partition), 0)
            if over:
                rate[partition] = (end - log.end_then(now - over)) * 1000 * MS / over
        assignable = tuple(one for one in range(topic.partitions or 0) if first + one in there)
        return replace(topic, assignable=assignable, lag=lag, rate=rate)
