"""Assignors that count partitions, members and racks, without regard to lag.

Each starts from pairs of member and place (`Pairs.current`) and changes them. Ties are broken by
load, then by name, so that the same group always gets the same assignment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any

from sharelag.whatif.assignors.group import Assignment, Group, Place, as_assignment, pairs_of


class Pairs:
    """Pairs of member and place that the subscriptions allow."""

    def __init__(self, group: Group, pairs: Iterable[tuple[str, Place]] = ()) -> None:
        self.group = group
        self.places_of: dict[str, set[Place]] = {member.id: set() for member in group.members}
        self.members_of: dict[Place, set[str]] = {place: set() for place in group.places}
        self._subscribers = {topic: frozenset(ids) for topic, ids in group.subscribers.items()}
        for member, place in pairs:
            self.add(member, place)

    @classmethod
    def current(cls, group: Group) -> Pairs:
        """Return the current pairs that members may keep."""
        held = group.current.items()
        return cls(group, ((member, place) for member, places in held for place in places))

    def __iter__(self) -> Iterator[tuple[str, Place]]:
        return (
            (member, place)
            for member in sorted(self.places_of)
            for place in sorted(self.places_of[member])
        )

    def add(self, member: str, place: Place) -> None:
        """Assign a place to a member."""
        self.places_of[member].add(place)
        self.members_of[place].add(member)

    def drop(self, member: str, place: Place) -> None:
        """Revoke a place from a member."""
        self.places_of[member].remove(place)
        self.members_of[place].remove(member)

    def load(self, member: str) -> int:
        """Return the number of places of a member."""
        return len(self.places_of[member])

    def count(self, place: Place) -> int:
        """Return the number of members of a place."""
        return len(self.members_of[place])

    def may_take(self, member: str, place: Place) -> bool:
        """Return whether a member subscribes to a place and does not have it."""
        return place not in self.places_of[member] and member in self._subscribers[place[0]]

    def open_to(self, member: str) -> list[Place]:
        """Return the places that a member could take, in order."""
        return [place for place in self.group.places if self.may_take(member, place)]

    def join(self, member: str, key: Callable[[Place], float]) -> Place:
        """Assign to a member the place with the smallest key, and return that place."""
        place = min(self.open_to(member), key=lambda place: (key(place), place))
        self.add(member, place)
        return place

    def idle(self) -> list[str]:
        """Return the ids of members that have no place but could have one."""
        without = (member for member in sorted(self.places_of) if not self.places_of[member])
        return [member for member in without if self.open_to(member)]

    def assignment(self) -> Assignment:
        """Return the pairs as an assignment."""
        return as_assignment(self.group, self)


def cover(pairs: Pairs) -> None:
    """Assign each place without a member to the subscriber with the fewest places."""
    for place, members in pairs.members_of.items():
        if not members:
            subscribers = pairs.group.subscribers[place[0]]
            pairs.add(min(subscribers, key=lambda member: (pairs.load(member), member)), place)


def next_move(
    of: Mapping[Any, Set[Any]],
    heaviest: Iterable[Any],
    may: Callable[[Any, Any], bool],
    pick: Callable[[list[Any]], Any],
) -> tuple[Any, Any, Any] | None:
    """Return the first heavy one, a light one with at least two fewer, and what to move."""
    lightest = sorted(of, key=lambda one: (len(of[one]), one))
    for heavy in heaviest:
        for light in lightest:
            if len(of[heavy]) - len(of[light]) < 2:
                break
            if movable := [one for one in of[heavy] if may(light, one)]:
                return heavy, light, pick(movable)
    return None


def _even_loads(pairs: Pairs) -> None:
    """Move places to members with at least two fewer, which lowers the sum of squared loads."""

    def heaviest() -> list[str]:
        return sorted(pairs.places_of, key=lambda one: (pairs.load(one), one), reverse=True)

    while found := next_move(pairs.places_of, heaviest(), pairs.may_take, min):
        heavy, light, place = found
        pairs.drop(heavy, place)
        pairs.add(light, place)


def all_to_all(group: Group) -> Assignment:
    """Assign every partition to every subscriber, as in the first version of KIP-932.

    No member is ever idle and every partition has as many members as possible, at the price of ``M
    * P`` pairs in share sessions.
    """
    return as_assignment(group, group.allowed_pairs)


def round_robin(group: Group) -> Assignment:
    """Assign partitions in turn; members left without one then join partitions in turn.

    The previous assignment is ignored. With equal subscriptions, the loads differ by at most 1, and
    so do the members of the partitions.
    """
    pairs = Pairs(group)
    members = deque(sorted(pairs.places_of))
    for place in group.places:
        member = next(member for member in members if pairs.may_take(member, place))
        pairs.add(member, place)
        members.remove(member)
        members.append(member)
    places = deque(group.places)
    for member in pairs.idle():
        place = next(place for place in places if pairs.may_take(member, place))
        pairs.add(member, place)
        places.remove(place)
        places.append(place)
    return pairs.assignment()


def sticky(group: Group) -> Assignment:
    """Keep the previous assignment, and move only what full coverage and even loads require.

    With equal subscriptions, the loads differ by at most 1 if no partition is shared. An assignment
    that is even already is returned unchanged. The numbers of members per partition are not evened.
    """
    pairs = Pairs.current(group)
    cover(pairs)
    _even_loads(pairs)
    for member in pairs.idle():
        pairs.join(member, pairs.count)
    return pairs.assignment()


def balanced(group: Group) -> Assignment:
    """Balance the members per partition, revoking if needed (KIP-932's future assignor).

    With equal subscriptions, the members of the partitions differ by at most 1, and so do the
    loads: M members on P partitions make ``max(M, P)`` pairs. With different subscriptions it goes
    as far as exchanges of one pair lead. It terminates: trimming and untangling remove a pair each,
    evening lowers the sum of squared loads, then that of the counts.
    """
    pairs = Pairs.current(group)
    cover(pairs)
    # Members with several places lose those that have other members, too.
    while surplus := [
        (pairs.load(member) + pairs.count(place), member, place)
        for member, place in pairs
        if pairs.load(member) > 1 and pairs.count(place) > 1
    ]:
        pairs.drop(*max(surplus)[1:])
    for member in pairs.idle():  # takes a place of a member with several, or joins one
        load, who, place = max(
            (pairs.load(who), who, place) for who, place in pairs if pairs.may_take(member, place)
        )
        if load > 1:
            pairs.drop(who, place)
            pairs.add(member, place)
        else:
            pairs.join(member, pairs.count)
    while _untangle(pairs):
        pass
    _even_loads(pairs)
    _even_counts(pairs)
    return pairs.assignment()


def _even_counts(pairs: Pairs) -> None:
    """Move members to partitions with at least two members fewer."""

    def most_crowded() -> list[Place]:
        return sorted(pairs.members_of, key=lambda place: (-pairs.count(place), place))

    def may(place: Place, member: str) -> bool:
        return pairs.may_take(member, place)

    while found := next_move(pairs.members_of, most_crowded(), may, max):
        crowded, lonely, member = found
        pairs.drop(member, crowded)
        pairs.add(member, lonely)


def _untangle(pairs: Pairs) -> bool:
    """Replace a shared place of a member by one of a member with several, which saves a pair."""
    for heavy in sorted(pairs.places_of, key=lambda member: (-pairs.load(member), member)):
        if pairs.load(heavy) < 2:
            return False
        for shared in (place for place, members in pairs.members_of.items() if len(members) > 1):
            for sharer in sorted(pairs.members_of[shared] - {heavy}):
                handed = (
                    one for one in sorted(pairs.places_of[heavy]) if pairs.may_take(sharer, one)
                )
                if (place := next(handed, None)) is not None:
                    pairs.drop(sharer, shared)
                    pairs.drop(heavy, place)
                    pairs.add(sharer, place)
                    return True
    return False


def rack_aware(group: Group) -> Assignment:
    """Start from `balanced`, and swap places between members to make more racks match.

    A pair matches if a replica of the partition is in the member's rack. Swaps keep counts and
    loads, so the guarantees of `balanced` hold, and each adds a matching pair. With equal
    subscriptions, one place per member and one rack per partition, no assignment with these counts
    is better.
    """
    pairs = Pairs(group, pairs_of(balanced(group)))
    rack_of = {member.id: member.rack for member in group.members}
    while _exchange(pairs, rack_of):
        pass
    return pairs.assignment()


def matches(group: Group, rack: str | None, place: Place) -> bool:
    """Return whether a replica of a place is in a rack; False if either is unknown."""
    return rack is not None and rack in group.topics[place[0]].racks.get(place[1], ())


def _exchange(pairs: Pairs, rack_of: dict[str, str | None]) -> bool:
    listed = list(pairs)

    def is_near(member: str, place: Place) -> bool:
        return matches(pairs.group, rack_of[member], place)

    for member, place in listed:
        if rack_of[member] is None or is_near(member, place):
            continue
        for other, theirs in listed:
            # If the other one's place matched and its new one does not, nothing is gained.
            if (
                is_near(member, theirs)
                and pairs.may_take(member, theirs)
                and 1 + is_near(other, place) > is_near(other, theirs)
                and pairs.may_take(other, place)
            ):
                pairs.drop(member, place)
                pairs.drop(other, theirs)
                pairs.add(member, theirs)
                pairs.add(other, place)
                return True
    return False
