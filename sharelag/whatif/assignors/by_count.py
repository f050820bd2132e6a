"""Assignors that count partitions and members, and know nothing of the lag."""

from __future__ import annotations

from collections import deque

from sharelag.whatif.assignors.group import Assignment, Group, Place, as_assignment
from sharelag.whatif.assignors.pairs import Pairs, cover, even_loads, join_fewest


def all_to_all(group: Group) -> Assignment:
    """Give every member every partition of the topics it subscribes to, as KIP-932 first had it.

    No member is ever idle and no partition short of members, at the price of a share session a
    pair: ``M * P``.
    """
    return as_assignment(
        group, [(member, place) for place in group.places for member in group.subscribers[place[0]]]
    )


def round_robin(group: Group) -> Assignment:
    """Deal the partitions out in turn; then members without one join partitions in turn.

    The previous assignment is not looked at.

    With the same subscriptions everywhere, the loads differ by at most 1, and so do the members of
    the partitions.
    """
    pairs = Pairs(group)
    members = deque(sorted(pairs.places_of))
    for place in group.places:
        member = next(member for member in members if pairs.allowed(member, place))
        pairs.add(member, place)
        members.remove(member)
        members.append(member)
    places = deque(group.places)
    for member in pairs.idle():
        place = next(place for place in places if pairs.allowed(member, place))
        pairs.add(member, place)
        places.remove(place)
        places.append(place)
    return pairs.assignment()


def sticky(group: Group) -> Assignment:
    """Leave members what they have; move only what serving all and even loads require.

    With the same subscriptions everywhere, the loads differ by at most 1 where nobody shares; an
    assignment that is even already comes back as it was. How many members a partition has is left
    as it comes.
    """
    pairs = Pairs.current(group)
    cover(pairs)
    even_loads(pairs)
    join_fewest(pairs)
    return pairs.assignment()


def balanced(group: Group) -> Assignment:
    """Balance how many members the partitions have, and revoke for it (KIP-932's future assignor).

    With the same subscriptions everywhere, the members of the partitions differ by at most 1 and so
    do the loads: M members on P partitions make ``max(M, P)`` pairs. With different subscriptions
    it goes as far as exchanges of one pair lead. What was revoked stands in
    `sharelag.whatif.contract.figures`.

    Notes
    -----
    It ends: trimming and untangling each leave a pair less, evening the loads lowers the sum of
    their squares, and evening the counts that of the counts, without changing a load.
    """
    pairs = Pairs.current(group)
    cover(pairs)
    _trim(pairs)
    _employ(pairs)
    while _untangle(pairs):
        pass
    even_loads(pairs)
    even_counts(pairs)
    return pairs.assignment()


def even_counts(pairs: Pairs) -> None:
    """Move members from partitions to others with at least two members fewer."""
    moved = True
    while moved:
        moved = False
        for crowded in sorted(pairs.members_of, key=lambda place: (-pairs.count(place), place)):
            for lonely in sorted(pairs.members_of, key=lambda place: (pairs.count(place), place)):
                if pairs.count(crowded) - pairs.count(lonely) < 2:
                    break
                movable = [
                    member
                    for member in sorted(pairs.members_of[crowded])
                    if pairs.allowed(member, lonely)
                ]
                if movable:
                    pairs.drop(movable[-1], crowded)
                    pairs.add(movable[-1], lonely)
                    moved = True
                    break
            if moved:
                break


def _trim(pairs: Pairs) -> None:
    """Take from members with several places those that have other members, too."""
    while True:
        surplus = [
            (pairs.load(member) + pairs.count(place), member, place)
            for member, place in pairs
            if pairs.load(member) > 1 and pairs.count(place) > 1
        ]
        if not surplus:
            return
        _, member, place = max(surplus)
        pairs.drop(member, place)


def _employ(pairs: Pairs) -> None:
    """An idle member takes a place of a member with several; else it joins one."""
    for member in pairs.idle():
        holders = [
            (pairs.load(who), who, place) for who, place in pairs if pairs.allowed(member, place)
        ]
        load, who, place = max(holders)
        if load > 1:
            pairs.drop(who, place)
            pairs.add(member, place)
        else:
            pairs.add(
                member, min(pairs.open_to(member), key=lambda place: (pairs.count(place), place))
            )


def _untangle(pairs: Pairs) -> bool:
    """Let a member that shares a place take one over from a member with several.

    That makes one pair less. False if there is no such pair.

    For members of the same subscriptions, either nobody has several places afterwards or nobody
    shares.
    """
    for heavy in sorted(pairs.places_of, key=lambda member: (-pairs.load(member), member)):
        if pairs.load(heavy) < 2:
            return False
        for shared in (place for place, members in pairs.members_of.items() if len(members) > 1):
            for sharer in sorted(pairs.members_of[shared] - {heavy}):
                handed: list[Place] = [
                    p for p in sorted(pairs.places_of[heavy]) if pairs.allowed(sharer, p)
                ]
                if handed:
                    pairs.drop(sharer, shared)
                    pairs.drop(heavy, handed[0])
                    pairs.add(sharer, handed[0])
                    return True
    return False
