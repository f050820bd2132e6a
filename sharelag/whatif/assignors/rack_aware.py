"""Rack-aware assignment: as balanced as `balanced`, and as local as that allows."""

from __future__ import annotations

from sharelag.whatif.assignors.by_count import balanced
from sharelag.whatif.assignors.group import Assignment, Group, Place
from sharelag.whatif.assignors.pairs import Pairs


def rack_aware(group: Group) -> Assignment:
    """Start from `balanced` and swap places between members while more pairs share a rack.

    A pair matches when a replica of the partition is in the member's rack. A member without a rack
    matches nothing.

    Notes
    -----
    An exchange of two members' places leaves all counts and loads as they are, so the guarantees of
    `balanced` hold. It ends, as each exchange makes at least one more pair match. With the same
    subscriptions everywhere, one place a member and one rack a partition, the result is the best
    there is at these counts: while a member of a rack and a place of that rack both lack their
    match, exchanging the two gains one.
    """
    pairs = Pairs(group)
    for member, topics in balanced(group).items():
        for topic, partitions in topics.items():
            for partition in partitions:
                pairs.add(member, (topic, partition))
    rack_of = {member.id: member.rack for member in group.members}
    while _exchange(pairs, rack_of):
        pass
    return pairs.assignment()


def matches(group: Group, rack: str | None, place: Place) -> bool:
    """Whether a replica of a place is in a rack; False where either is not known."""
    return rack is not None and rack in group.topics[place[0]].racks.get(place[1], ())


def _exchange(pairs: Pairs, rack_of: dict[str, str | None]) -> bool:
    group = pairs.group
    listed = list(pairs)
    for member, place in listed:
        if rack_of[member] is None or matches(group, rack_of[member], place):
            continue
        for other, wanted in listed:
            if not matches(group, rack_of[member], wanted) or not pairs.allowed(member, wanted):
                continue
            # The other gets a worse place at most where it matched, and then nothing is gained.
            gain = (
                1 + matches(group, rack_of[other], place) - matches(group, rack_of[other], wanted)
            )
            if gain > 0 and pairs.allowed(other, place):
                pairs.drop(member, place)
                pairs.drop(other, wanted)
                pairs.add(member, wanted)
                pairs.add(other, place)
                return True
    return False
