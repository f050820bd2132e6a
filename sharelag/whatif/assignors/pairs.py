"""Pairs of member and place while an assignment is being made, looked up from either side.

The assignors of our own start from `Pairs.current` and change it; `as_assignment` turns the pairs
into the answer. Whatever could be chosen in two ways is chosen by load, then by name, so that the
same group gets the same answer.
"""

from __future__ import annotations

from collections.abc import Iterator

from sharelag.whatif.assignors.group import Assignment, Group, Place, as_assignment


class Pairs:
    """Pairs of member and place; only those that the subscriptions allow."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.places_of: dict[str, set[Place]] = {member.id: set() for member in group.members}
        self.members_of: dict[Place, set[str]] = {place: set() for place in group.places}

    @classmethod
    def current(cls, group: Group) -> Pairs:
        """What the members have now and may keep."""
        pairs = cls(group)
        for member, places in group.current.items():
            for place in places:
                pairs.add(member, place)
        return pairs

    def __iter__(self) -> Iterator[tuple[str, Place]]:
        return (
            (member, place)
            for member in sorted(self.places_of)
            for place in sorted(self.places_of[member])
        )

    def add(self, member: str, place: Place) -> None:
        """Let a member fetch from a place."""
        self.places_of[member].add(place)
        self.members_of[place].add(member)

    def drop(self, member: str, place: Place) -> None:
        """Take a place from a member."""
        self.places_of[member].remove(place)
        self.members_of[place].remove(member)

    def load(self, member: str) -> int:
        """How many places a member has."""
        return len(self.places_of[member])

    def count(self, place: Place) -> int:
        """How many members a place has."""
        return len(self.members_of[place])

    def allowed(self, member: str, place: Place) -> bool:
        """Whether a member could take a place that it does not have."""
        return place not in self.places_of[member] and member in self.group.subscribers[place[0]]

    def open_to(self, member: str) -> list[Place]:
        """The places that a member could take, in order."""
        return [place for place in self.group.places if self.allowed(member, place)]

    def idle(self) -> list[str]:
        """Members without a place although they subscribe to some, by id."""
        return [
            member
            for member in sorted(self.places_of)
            if not self.places_of[member] and self.open_to(member)
        ]

    def assignment(self) -> Assignment:
        """The answer of an assignor."""
        return as_assignment(self.group, self)


def cover(pairs: Pairs) -> None:
    """Give each place without a member to the subscriber that has the fewest places."""
    for place, members in pairs.members_of.items():
        if not members:
            pairs.add(
                min(
                    pairs.group.subscribers[place[0]],
                    key=lambda member: (pairs.load(member), member),
                ),
                place,
            )


def join_fewest(pairs: Pairs) -> None:
    """Let each idle member join the place with the fewest members; no member loses any."""
    for member in pairs.idle():
        pairs.add(member, min(pairs.open_to(member), key=lambda place: (pairs.count(place), place)))


def even_loads(pairs: Pairs) -> None:
    """Move places from members to others with at least two fewer.

    This ends: the sum of squared loads falls each time.
    """
    while True:
        by_load = sorted(pairs.places_of, key=lambda member: (pairs.load(member), member))
        for heavy in reversed(by_load):
            taken = _taker(pairs, heavy, by_load)
            if taken is not None:
                light, place = taken
                pairs.drop(heavy, place)
                pairs.add(light, place)
                break
        else:
            return


def _taker(pairs: Pairs, heavy: str, by_load: list[str]) -> tuple[str, Place] | None:
    for light in by_load:
        if pairs.load(heavy) - pairs.load(light) < 2:
            return None
        for place in sorted(pairs.places_of[heavy]):
            if pairs.allowed(light, place):
                return light, place
    return None
