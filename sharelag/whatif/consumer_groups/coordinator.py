"""Members of a consumer group, and who may have which partition now.

The group coordinator of KIP-848 (``group.protocol=consumer``): members get their part of the
target assignment with their own heartbeats, and get a partition when its former owner has given it
up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sharelag.whatif.simulation.clock import MS, Clock
from sharelag.whatif.simulation.coordinator import Membership
from sharelag.whatif.simulation.tables import Assigned


def uniform(
    subscribed: Mapping[str, frozenset[int]], current: Mapping[str, frozenset[int]]
) -> dict[str, frozenset[int]]:
    """Even numbers of partitions, with as few moves as that takes.

    As Kafka's ``UniformAssignor``, the default of ``group.consumer.assignors``: numbers differ by
    one at most where all members subscribe to the same, and members keep their partitions where
    that is even. Of several even assignments it may choose another one than Kafka's, which goes by
    the order of a hash map. Both arguments are by member id; a partition that nobody subscribes to
    has no member.
    """
    members = sorted(subscribed)
    given: dict[str, set[int]] = {}
    taken: set[int] = set()
    for member in members:
        given[member] = set((current.get(member, frozenset()) & subscribed[member]) - taken)
        taken |= given[member]
    # The partitions with the fewest to choose from come first.
    free = sorted(
        frozenset().union(*subscribed.values()) - taken,
        key=lambda place: (sum(place in subscribed[member] for member in members), place),
    )
    for place in free:
        able = [member for member in members if place in subscribed[member]]
        given[min(able, key=lambda member: len(given[member]))].add(place)
    while (move := _move(members, subscribed, given)) is not None:
        place, source, target = move
        given[source].discard(place)
        given[target].add(place)
    return {member: frozenset(places) for member, places in given.items()}


def _move(
    members: list[str], subscribed: Mapping[str, frozenset[int]], given: Mapping[str, set[int]]
) -> tuple[int, str, str] | None:
    """A partition of a member with at least two more than another member that may get it."""
    for source in sorted(members, key=lambda member: -len(given[member])):
        for target in sorted(members, key=lambda member: len(given[member])):
            if len(given[source]) - len(given[target]) < 2:
                break
            movable = given[source] & subscribed[target]
            if movable:
                return max(movable), source, target
    return None


Places = frozenset[int]
_NONE: Places = frozenset()


@dataclass(slots=True, eq=False)
class Joined:
    """A member as the coordinator knows it."""

    subscribed: Places
    last_beat: int
    target: Places = _NONE
    held: Places = _NONE  # sent, and not yet given up
    sent: Places | None = None


class Coordinator(Membership[Joined]):
    """The group coordinator of one consumer group, with all target assignments in order."""

    def __init__(
        self, clock: Clock, partitions: int, session_timeout_ms: int, assignment_interval_ms: int
    ) -> None:
        super().__init__(clock, session_timeout_ms)
        self._partitions, self._interval = partitions, assignment_interval_ms * MS
        self._assignment_epoch = 0
        self._assigned_at: int | None = None
        self.assignments: list[Assigned] = []

    def heartbeat(
        self, member: str, subscribed: Places, owned: Places, joins: bool
    ) -> Places | bool | None:
        """Answer a heartbeat of a member that has the partitions ``owned``.

        Returns
        -------
        frozenset, None or False
            What to have from now on; None: as before; False: this member is not in the group (any
            more).
        """
        known = self.members.get(member)
        if known is None:
            if not joins:
                return False
            known = self._join(member, Joined(subscribed, self._clock.now))
        elif known.subscribed != subscribed:
            known.subscribed = subscribed
            self._change()
        known.last_beat = self._clock.now
        self._assign()
        if known.sent is not None and owned <= known.sent:
            known.held = known.sent  # what it had to give up it has given up
        others = frozenset().union(*(one.held for one in self.members.values() if one is not known))
        # First it gives up, then it gets.
        wanted = known.held & known.target
        if known.held <= known.target:
            wanted = known.target - others
        if wanted == known.sent:
            return None
        known.sent = wanted
        known.held |= wanted
        return wanted

    def _assign(self) -> None:
        now = self._clock.now
        early = self._assigned_at is not None and now < self._assigned_at + self._interval
        if self.group_epoch == self._assignment_epoch or early:
            return
        target = uniform(
            {id_: known.subscribed for id_, known in self.members.items()},
            {id_: known.target for id_, known in self.members.items()},
        )
        changes = [(known.target, target[id_]) for id_, known in self.members.items()]
        self._assignment_epoch, self._assigned_at = self.group_epoch, now
        for id_, known in self.members.items():
            known.target = target[id_]
        pairs = sum(len(after) for _, after in changes)
        self.assignments.append(
            Assigned(
                now,
                self._assignment_epoch,
                len(changes),
                pairs,
                sum(len(after - before) for before, after in changes),
                sum(len(before - after) for before, after in changes),
                sum(not after for _, after in changes),
                self._partitions - pairs,
                self.rebalances,
            )
        )
