"""The ``simple`` assignor of Kafka 4.1, the preview of share groups: an algorithm that hashes.

Every member first gets the one partition that its id's hash points at; then people keep what they
had, and what nobody has is dealt out in turn. Order included, as in 4.1.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sharelag.whatif.assignors.group import Assignment, AssignorError, Group, Place
from sharelag.whatif.assignors.held import Held, Partitions, as_lists
from sharelag.whatif.assignors.java_maps import (
    JavaMap,
    JavaSet,
    capacity_for,
    int_hash,
    string_hash,
)

#: Members of each place.
_Members = JavaMap[Place, list[str]]
#: Places of each member.
_Places = JavaMap[str, JavaSet[Place]]


def simple_4_1(group: Group) -> Assignment:
    """Assign as ``SimpleAssignor`` of Kafka 4.1.1 does.

    Parameters
    ----------
    group : Group
        ``current`` must be the previous *target* assignment, as in the records of the group.

    Returns
    -------
    dict
        Members, their topics and the partitions of each, in the order in which the coordinator
        writes them.

    Raises
    ------
    AssignorError
        Where Kafka's class throws: nobody may take a partition any more.

    Notes
    -----
    Its oddities: balance is left to chance, as the ids' hashes decide; a partition that is
    hashed to is taken from the member that had it; one that is not assignable any more stays with
    its members; and in a heterogeneous group a partition whose members have all unsubscribed is
    dealt out to no member.
    """
    held = Held(group)
    if not held.members:
        return {}
    current: _Members = JavaMap(held.place_hash)
    for member in held.members:
        for topic, numbers in held.old[member].items():
            for number in numbers:
                current.setdefault((topic, number), list).append(member)
    if not group.homogeneous:
        return _in_order(held, _heterogeneous(held, current))
    if held.names_nothing[held.members[0]]:
        return {member: {} for member in held.members}
    return _in_order(held, _homogeneous(held, current))


def _homogeneous(held: Held, current: _Members) -> _Places:
    topics = held.subscribed[held.members[0]]
    targets = held.targets(topics)
    most = -(-len(targets) // len(held.members))
    hashed: _Members = JavaMap(held.place_hash, capacity_for(len(targets)))
    _assign_by_hash(held.members, targets, hashed)
    final: _Places = JavaMap(string_hash, capacity_for(len(held.members)))
    served = _merge(held, hashed, final)
    for place, members in current.items():
        if place[0] in topics:
            for member in members:
                theirs = final.setdefault(member, lambda: JavaSet(held.place_hash))
                if len(theirs) < most and place not in hashed:
                    theirs.add(place)
                    served.add(place)
    _deal_with_limit(held, [place for place in targets if place not in served], final, most)
    return final


def _heterogeneous(held: Held, current: _Members) -> _Places:
    of_member: JavaMap[str, list[Place]] = JavaMap(string_hash)
    for member in held.members:
        # A member with names but without a topic that exists is listed, too.
        if not held.names_nothing[member]:
            of_member.put(member, held.targets(held.subscribed[member]))
    subscribers: dict[str, dict[str, None]] = {}
    assigned: _Members = JavaMap(held.place_hash)
    targets: dict[Place, None] = {}
    for member, places in of_member.items():
        targets.update(dict.fromkeys(places))
        for topic, _ in places:
            subscribers.setdefault(topic, {})[member] = None
    for member, places in of_member.items():
        _assign_by_hash([member], places, assigned)
    unassigned: JavaMap[str, list[Place]] = JavaMap(held.topic_hash)
    for place in targets:
        if place not in assigned and place not in current:
            unassigned.setdefault(place[0], list).append(place)
    for topic, places in unassigned.items():
        in_turn = list(subscribers[topic])
        for number, place in enumerate(places):
            assigned.setdefault(place, list).append(in_turn[number % len(in_turn)])
    final: _Places = JavaMap(string_hash, capacity_for(len(held.members)))
    _merge(held, assigned, final)
    for place, members in current.items():
        for member in members:
            if member in subscribers.get(place[0], ()) and place not in assigned:
                final.setdefault(member, lambda: JavaSet(held.place_hash)).add(place)
    return final


def _assign_by_hash(members: Iterable[str], places: list[Place], assigned: _Members) -> None:
    for member in members:
        if places:
            hash_ = string_hash(member)
            signed = hash_ - (1 << 32) if hash_ >> 31 else hash_
            assigned.setdefault(places[abs(signed) % len(places)], list).append(member)


def _merge(held: Held, assigned: _Members, final: _Places) -> set[Place]:
    for place, members in assigned.items():
        for member in members:
            final.setdefault(member, lambda: JavaSet(held.place_hash)).add(place)
    return set(assigned)


def _deal_with_limit(held: Held, places: list[Place], final: _Places, most: int) -> None:
    """Deal out in turn; a member with more than ``most`` gets no further ones."""
    members = list(held.members)
    turn = 0
    for place in places:
        while True:
            if turn >= len(members):
                turn = 0
                if not members:
                    raise AssignorError(
                        f"Kafka 4.1's assignor fails for this group "
                        f"(inconsistent number of member ids): nobody may "
                        f"take partition {place[1]} of {place[0]!r}. "
                        f"Compare with 'simple', the assignor since 4.2"
                    )
            theirs = final.setdefault(members[turn], lambda: JavaSet(held.place_hash))
            if len(theirs) <= most:
                theirs.add(place)
                turn += 1
                break
            del members[turn]


def _in_order(held: Held, final: _Places) -> Assignment:
    by_member: Mapping[str, JavaSet[Place]] = dict(final.items())
    arranged: dict[str, Partitions] = {}
    for member in held.members:
        arranged[member] = JavaMap(held.topic_hash)
        for topic, number in by_member.get(member, ()):
            arranged[member].setdefault(topic, _numbers).add(number)
    return as_lists(arranged)


def _numbers() -> JavaSet[int]:
    return JavaSet(int_hash)
