"""Assign the partitions of a consumer group, one member each."""

from __future__ import annotations

from collections.abc import Mapping


def uniform(
    subscribed: Mapping[str, frozenset[int]], current: Mapping[str, frozenset[int]]
) -> dict[str, frozenset[int]]:
    """Even numbers of partitions, with as few moves as that takes.

    As Kafka's ``UniformAssignor``, the default of ``group.consumer.assignors``: numbers differ by
    one at most where all members subscribe to the same, and members keep their partitions where
    that is even. Of several even assignments it may choose another one than Kafka's, which goes by
    the order of a hash map.

    Parameters
    ----------
    subscribed : mapping of str to frozenset of int
        By member id, the partitions that it may get.
    current : mapping of str to frozenset of int
        Those it has; may be left out.

    Returns
    -------
    dict
        By member id. A partition that nobody subscribes to has no member.
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
