"""Kafka's own assignor ``simple``: as ``SimpleAssignor`` of Kafka 4.4, order included.

When all members subscribe to the same names, all topics are assigned together; otherwise each topic
for itself, among its subscribers. With M members and P partitions, every partition is to have
``ceil(M / P)`` members (its *sharing*), and every member its share of these pairs. Then

1. what a member has beyond its share is taken from it,
2. a partition with more members than its sharing loses some,
3. one pass over the partitions gives those below their sharing to members below their share.

Which member loses and which one gets is decided by the order of Java's hash maps, that is by the
hashes of member ids, topic ids and partition numbers; so the same group with other member ids gets
another assignment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter

from sharelag.tables.words import counted
from sharelag.whatif.assignors.group import Assignment, AssignorError, Group, Place
from sharelag.whatif.assignors.java_maps import (
    JavaMap,
    JavaSet,
    capacity_for,
    int_hash,
    string_hash,
    uuid_hash,
)

#: A member's partitions by topic.
Partitions = JavaMap[str, JavaSet[int]]
#: An empty set of members by number, or of partitions.
_no_numbers: Callable[[], JavaSet[int]] = partial(JavaSet, int_hash)


class Held:
    """A group in Kafka's order.

    ``members`` are ids in the order of a ``HashMap`` into which they came as the group lists them
    (their arrival matters only where ids share a bin). By member: ``subscribed`` topics that exist,
    in the order of its ``HashSet``; whether it ``names_nothing`` (a name of no topic counts); and
    ``old``, its target assignment so far.
    """

    def __init__(self, group: Group) -> None:
        self.topics = group.topics
        self._hashes = {name: uuid_hash(topic.id) for name, topic in group.topics.items()}
        by_id: JavaMap[str, None] = JavaMap(string_hash)
        for member in group.members:
            by_id.put(member.id, None)
        self.members = list(by_id)
        there = {name for name, topic in group.topics.items() if topic.partitions is not None}
        self.subscribed: dict[str, list[str]] = {}
        self.names_nothing: dict[str, bool] = {}
        self.old: dict[str, Partitions] = {}
        for member in group.members:
            names = JavaSet.of(string_hash, member.subscribed)
            self.subscribed[member.id] = [name for name in names if name in there]
            self.names_nothing[member.id] = len(names) == 0
            self.old[member.id] = self._partitions(member.current.items())

    def topic_hash(self, topic: str) -> int:
        """``Uuid.hashCode`` of a topic's id."""
        return self._hashes[topic]

    def place_hash(self, place: Place) -> int:
        """``TopicIdPartition.hashCode``, a record of a topic id and a partition."""
        return (31 * self._hashes[place[0]] + place[1]) & 0xFFFFFFFF

    def no_places(self) -> JavaSet[Place]:
        """Return an empty set of places."""
        return JavaSet(self.place_hash)

    def copied(self, partitions: Partitions) -> Partitions:
        """``AssignorHelpers.deepCopyAssignment``."""
        return self._partitions(partitions.items(), len(partitions))

    def targets(self, topics: list[str]) -> list[Place]:
        """Return the assignable partitions of these topics."""
        return [
            (topic, partition) for topic in topics for partition in self.topics[topic].assignable
        ]

    def _partitions(self, given: Iterable[tuple[str, Iterable[int]]], *capacity: int) -> Partitions:
        held: Partitions = JavaMap(self.topic_hash, *capacity)
        for topic, numbers in given:
            held.put(topic, JavaSet.of(int_hash, numbers))
        return held


def as_lists(assigned: Mapping[str, Partitions]) -> Assignment:
    """Return sets as lists, in the order in which the coordinator writes them."""
    return {
        member: {topic: list(numbers) for topic, numbers in partitions.items()}
        for member, partitions in assigned.items()
    }


def simple(group: Group) -> Assignment:
    """Assign as ``SimpleAssignor`` of Kafka 4.4 does (4.2 and 4.3 answer the same).

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
        Where Kafka's class throws, see (3).

    Notes
    -----
    Its oddities, all checked against the class itself:

    1. Heterogeneous: a topic to which nobody subscribes any more stays in the target assignment of
       the members that had it. (Its members do not see it: the current assignment is filtered.)
    2. A partition that a member has keeps its place when it is not assignable any more, and counts
       towards the member's share. It may even be given to further members. So another partition can
       stay without any.
    3. In that case, with a sharing of 2 or more, the pass of step 3 can ask an empty set for its
       next member: the class throws ``NoSuchElementException``, and the heartbeat that requested
       the assignment fails.
    4. A member can end up with a topic of which it has no partition. Kafka writes it so.
    5. With no more members than partitions sharing is 1. Only with spare members
       does a partition get several, and then every one up to ``ceil(M / P)``, however much or
       little there is to do in it.
    6. Step 3 meets each partition once, and forgets who got it in this very step: the same member
       can be counted for it twice. So a partition can stay short of its sharing while a member is
       below its share.
    """
    held = Held(group)
    draft = _Draft(held)
    if group.homogeneous:
        first = held.members[0] if held.members else None
        if first is None or held.names_nothing[first]:
            return {member: {} for member in held.members}
        topics = held.subscribed[first]
        share = _Share(draft, held.targets(topics), range(len(held.members)), held.place_hash)
        draft.drop_all_but(topics, share.want)
        share.settle(topics)
        return draft.result()
    subscribers: JavaMap[str, list[int]] = JavaMap(held.topic_hash)
    for index, member in enumerate(held.members):
        for topic in held.subscribed[member]:
            if topic not in subscribers:
                subscribers.put(topic, [])
            subscribers[topic].append(index)
    if not len(subscribers):
        return {member: {} for member in held.members}
    for topic, theirs in subscribers.items():
        _Share(draft, held.targets([topic]), theirs, itemgetter(1)).settle([topic])
    return draft.result()


class _Draft:
    """The assignment while it is made: members by number; what is not in ``new`` stays as it was.

    When a member's partitions are copied has to be followed closely: a copy may walk in another
    order.
    """

    def __init__(self, held: Held) -> None:
        self.held = held
        self.old = [held.old[member] for member in held.members]
        self.new: dict[int, Partitions] = {}

    def writable(self, member: int) -> Partitions:
        """Return the member's partitions, for changing."""
        if member not in self.new:
            self.new[member] = self.held.copied(self.old[member])
        return self.new[member]

    def drop_all_but(self, topics: list[str], want: dict[int, int]) -> None:
        """Take other topics from everybody (only where all members subscribe to the same)."""
        for member, partitions in enumerate(self.old):
            kept = sum(len(numbers) for topic, numbers in partitions.items() if topic in topics)
            others = [topic for topic in partitions if topic not in topics]
            if others or 0 < kept >= want[member]:  # Kafka copies members with enough this early
                for topic in others:
                    self.writable(member).remove(topic)
                self.writable(member)

    def result(self) -> Assignment:
        """Return the members in Kafka's order, with what they have now."""
        numbered = enumerate(self.held.members)
        return as_lists(
            {member: self.new.get(index, self.old[index]) for index, member in numbered}
        )


_Hash = Callable[[Place], int]


class _Share:
    """Partitions shared among members: a homogeneous group, or one topic's subscribers."""

    def __init__(
        self, draft: _Draft, targets: list[Place], members: Sequence[int], hash_of: _Hash
    ) -> None:
        self._draft = draft
        self._targets = targets
        self._no_places: Callable[[], JavaSet[Place]] = partial(JavaSet, hash_of)
        self._members = members
        self.sharing = -(-len(members) // len(targets)) if targets else 0
        each = self.sharing * len(targets) / len(members)
        #: Share of each member. The rounding is Kafka's, with doubles.
        self.want = {
            member: math.ceil(each * (index + 1)) - math.ceil(each * index)
            for index, member in enumerate(members)
        }
        self._by_partition: JavaMap[Place, JavaSet[int]] = JavaMap(
            hash_of, capacity_for(len(targets))
        )
        self._by_member: JavaMap[int, JavaSet[Place]] = JavaMap(
            int_hash, capacity_for(len(members))
        )

    def settle(self, topics: list[str]) -> None:
        """Take from members with too many, then give to members with too few."""
        for member, partitions in enumerate(self._draft.old):
            for topic, numbers in partitions.items():
                if topic in topics:
                    for place in ((topic, number) for number in numbers):
                        self._by_partition.setdefault(place, _no_numbers).add(member)
                        self._by_member.setdefault(member, self._no_places).add(place)
        # From members with more than their share, then from partitions with too many members.
        for member, places in self._by_member.items():
            for place in places:
                if len(places) <= self.want.get(member, 0):
                    break
                self._by_partition[place].remove(member)
                places.remove(place)
                self._draft.writable(member)[place[0]].remove(place[1])
        for place, members in self._by_partition.items():
            for member in members:
                if len(members) <= self.sharing:
                    break
                if self._draft.writable(member)[place[0]].remove(place[1]):
                    members.remove(member)
                    self._by_member[member].remove(place)
        for place in self._targets:
            self._by_partition.setdefault(place, _no_numbers)
        self._assign_remaining()

    def _assign_remaining(self) -> None:
        unfilled = [member for member in self._members if self._count(member) < self.want[member]]
        turn = iter(tuple(unfilled))
        gained = False
        for place, members in self._by_partition.items():
            missing = self.sharing - len(members)
            while missing > 0:
                member = next(turn, None)
                if member is None:
                    if not gained:
                        break
                    turn, gained = iter(tuple(unfilled)), False
                    member = next(turn, None)
                    if member is None:
                        raise AssignorError(
                            "Kafka's assignor fails for this group (NoSuchElementException): "
                            f"partition {place[1]} of {place[0]!r} lacks "
                            f"{counted(missing, 'member')} and nobody may take more, because "
                            "partitions that are not assignable any more take up their share. Take "
                            "those out of 'current'"
                        )
                if member not in members:
                    theirs = self._draft.writable(member)
                    theirs.setdefault(place[0], _no_numbers).add(place[1])
                    self._by_member.setdefault(member, self._no_places).add(place)
                    missing -= 1
                    gained = True
                    if self._count(member) >= self.want[member]:
                        unfilled.remove(member)
            if not unfilled:
                break

    def _count(self, member: int) -> int:
        return len(self._by_member[member]) if member in self._by_member else 0


#: Members of each place.
_Members = JavaMap[Place, list[str]]
#: Places of each member.
_Places = JavaMap[str, JavaSet[Place]]


def simple_4_1(group: Group) -> Assignment:
    """Assign as ``SimpleAssignor`` of Kafka 4.1.1, of the preview of share groups.

    Every member first gets the one partition that its id's hash points at; then people keep what
    they had, and what nobody has is dealt out in turn. Order included.

    Its oddities: balance is left to chance, as the ids' hashes decide; a partition that is
    hashed to is taken from the member that had it; one that is not assignable any more stays with
    its members; and in a heterogeneous group a partition whose members have all unsubscribed is
    dealt out to no member.

    Raises
    ------
    AssignorError
        Where Kafka's class throws: nobody may take a partition any more.
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
                theirs = final.setdefault(member, held.no_places)
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
                final.setdefault(member, held.no_places).add(place)
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
            final.setdefault(member, held.no_places).add(place)
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
                        "Kafka 4.1's assignor fails for this group (inconsistent number of member "
                        f"ids): nobody may take partition {place[1]} of {place[0]!r}. Compare with "
                        "'simple', the assignor since 4.2"
                    )
            theirs = final.setdefault(members[turn], held.no_places)
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
            arranged[member].setdefault(topic, _no_numbers).add(number)
    return as_lists(arranged)
