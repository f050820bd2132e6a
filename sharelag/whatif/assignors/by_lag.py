"""Assignors that send members to where the lag is, and what they take a partition to weigh."""

from __future__ import annotations

from collections.abc import Mapping

from sharelag.whatif.assignors.group import Assignment, Group, Place
from sharelag.whatif.assignors.pairs import Pairs


def lag_proportional(group: Group) -> Assignment:
    """Give partitions members in proportion to their lag; members keep their places where they can.

    With the same subscriptions and no fewer members than partitions, each member gets one
    partition, and the numbers are those of the largest remainder (Hamilton's method), each at least
    1. Otherwise the heaviest partition goes first, to the member with the least lag so far, and
    idle members join where the lag a member is greatest.

    A lag that is not known is taken to be the mean of the others; where none is known, all weigh
    the same.
    """
    weights = lags(group)
    subscribed = {member for members in group.subscribers.values() for member in members}
    if group.homogeneous and len(subscribed) >= len(group.places) > 0:
        return _seated(group, seats(weights, len(subscribed))).assignment()
    pairs = Pairs(group)
    taken = dict.fromkeys(pairs.places_of, 0.0)
    for place in sorted(weights, key=lambda place: (-weights[place], place)):
        member = min(
            group.subscribers[place[0]],
            key=lambda member: (
                taken[member],
                place not in group.current[member],
                pairs.load(member),
                member,
            ),
        )
        pairs.add(member, place)
        taken[member] += weights[place]
    for member in pairs.idle():
        pairs.add(
            member,
            min(
                pairs.open_to(member),
                key=lambda place: (-weights[place] / pairs.count(place), place),
            ),
        )
    return pairs.assignment()


def seats(weights: Mapping[Place, float], members: int) -> dict[Place, int]:
    """Share members among places by largest remainder, each place at least one.

    Parameters
    ----------
    weights : mapping
        What each place weighs.
    members : int
        How many members there are; no fewer than places.
    """
    total = sum(weights.values())
    quota = {place: members * weight / total for place, weight in weights.items()}
    counts = {place: int(share) for place, share in quota.items()}
    left = members - sum(counts.values())
    for place in sorted(quota, key=lambda place: (counts[place] - quota[place], place))[:left]:
        counts[place] += 1
    for place in [place for place, count in counts.items() if count == 0]:
        # The place with the least to do for each remaining member loses one.
        rich = min(
            (p for p in counts if counts[p] > 1), key=lambda p: (weights[p] / (counts[p] - 1), p)
        )
        counts[rich] -= 1
        counts[place] = 1
    return counts


def lags(group: Group) -> dict[Place, float]:
    """Weigh each place by its lag, or by the mean lag where unknown; 1 each if all are 0."""
    known = {place: float(lag) for place in group.places if (lag := group.lag(place)) is not None}
    if not any(known.values()):
        return dict.fromkeys(group.places, 1.0)
    mean = sum(known.values()) / len(known)
    return {place: known.get(place, mean) for place in group.places}


def _seated(group: Group, counts: dict[Place, int]) -> Pairs:
    """Fill seats, with those first who are there already."""
    pairs = Pairs(group)
    for member, places in sorted(group.current.items()):
        stay = [place for place in places if pairs.count(place) < counts[place]]
        if stay:
            pairs.add(
                member, max(stay, key=lambda place: (counts[place] - pairs.count(place), place))
            )
    for member in pairs.idle():
        free = [place for place in pairs.open_to(member) if pairs.count(place) < counts[place]]
        pairs.add(member, max(free, key=lambda place: (counts[place] - pairs.count(place), place)))
    return pairs
