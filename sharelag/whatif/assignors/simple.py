"""Kafka's own assignor ``simple``: ``SimpleAssignor`` of Kafka 4.4, including its order.

If all members subscribe to the same names, all topics are assigned together; otherwise each topic
separately, among its subscribers. With M members and P partitions, every partition should have
``ceil(M / P)`` members (its *sharing*), and every member its share of these pairs. Then

1. a member loses partitions beyond its share,
2. a partition with more members than its sharing loses some,
3. one pass over the partitions gives those below their sharing to members below their share.

The order of Java's hash maps, that is, the hashes of member ids, topic ids and partition numbers,
decides which member loses and which one gains; so the same group with other member ids gets another
assignment. That order follows the documented behaviour of ``java.util.HashMap`` of Java 17: a table
of bins, whose number doubles beyond three quarters; `JavaMap.put` appends to a bin, and
``computeIfAbsent`` (`JavaMap.setdefault`) inserts at its head; a bin that grows beyond eight
doubles the table. From 64 bins on, Java turns such a bin into a tree, whose shape then decides the
order. Hashes of random ids and of partition numbers are spread too well for that, so trees are left
out: a bin stays a list, and a `RuntimeWarning` says that the order may differ from Kafka's.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from operator import itemgetter
from typing import TypeVar

from sharelag.tables.words import pluralize
from sharelag.whatif.assignors.group import Assignment, AssignorError, Group, Place

K = TypeVar("K")
V = TypeVar("V")

_TREEIFY_THRESHOLD = 8
_MIN_TREEIFY_CAPACITY = 64
_DEFAULT_CAPACITY = 16
#: Cached hashes of texts: a topic's name is hashed for each member that subscribes to it.
_HASHES = 1 << 14


@lru_cache(_HASHES)
def string_hash(text: str) -> int:
    """Return Java's ``String.hashCode``, over UTF-16 code units."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value


def uuid_hash(raw: bytes) -> int:
    """Return Kafka's ``Uuid.hashCode`` of 16 bytes."""
    words = [int.from_bytes(raw[at : at + 4], "big") for at in range(0, 16, 4)]
    return words[0] ^ words[1] ^ words[2] ^ words[3]


def int_hash(value: int) -> int:
    """Return Java's ``Integer.hashCode``."""
    return value & 0xFFFFFFFF


def capacity_for(entries: int) -> int:
    """Return the capacity that ``AssignorHelpers.newHashMap(entries)`` requests."""
    return (entries + 1) * 4 // 3 + 1


class JavaMap(Mapping[K, V]):
    """A ``HashMap`` with Java's order; ``hash_of`` is ``hashCode`` of a key."""

    def __init__(self, hash_of: Callable[[K], int], capacity: int = _DEFAULT_CAPACITY) -> None:
        self._hash_of = hash_of
        self._values: dict[K, V] = {}
        self._size = 1 << max(capacity - 1, 0).bit_length()
        # The used bins by number: keys with their hashes.
        self._bins: dict[int, list[tuple[K, int]]] = {}

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __getitem__(self, key: K) -> V:
        return self._values[key]

    def __iter__(self) -> Iterator[K]:
        """Return the current keys; as in Java, a key that is removed meanwhile still follows."""
        bins = self._bins
        return iter([key for number in sorted(bins) for key, _ in bins[number]])

    def put(self, key: K, value: V) -> None:
        """Set a value; a new key goes to the end of its bin."""
        if key not in self._values:
            hash_, bin_ = self._bin(key)
            bin_.append((key, hash_))
            if len(bin_) > _TREEIFY_THRESHOLD:
                self._overfill()
            self._values[key] = value
            if len(self._values) > self._threshold:
                self._resize()
        self._values[key] = value

    def setdefault(self, key: K, make: Callable[[], V]) -> V:
        """Call ``computeIfAbsent``: new keys go first in their bin; the table grows a call late."""
        if len(self._values) > self._threshold:
            self._resize()
        if key not in self._values:
            hash_, bin_ = self._bin(key)
            bin_.insert(0, (key, hash_))
            if len(bin_) >= _TREEIFY_THRESHOLD:
                self._overfill()
            self._values[key] = make()
        return self._values[key]

    def remove(self, key: K) -> bool:
        """Remove a key, and return whether it was there."""
        if key not in self._values:
            return False
        del self._values[key]
        hash_, bin_ = self._bin(key)
        bin_.remove((key, hash_))
        return True

    @property
    def _threshold(self) -> int:
        return self._size * 3 // 4

    def _bin(self, key: K) -> tuple[int, list[tuple[K, int]]]:
        """Return the spread hash of a key, and its bin."""
        hash_ = self._hash_of(key)
        hash_ ^= hash_ >> 16
        return hash_, self._bins.setdefault(hash_ & (self._size - 1), [])

    def _overfill(self) -> None:
        if self._size < _MIN_TREEIFY_CAPACITY:
            self._resize()
            return
        warnings.warn(
            "hashes of many ids of this group end in the same bits, and Java puts them in a tree: "
            "Kafka's assignor may choose other members than are chosen here",
            RuntimeWarning,
            stacklevel=2,
        )

    def _resize(self) -> None:
        bins, self._size, self._bins = self._bins, 2 * self._size, {}
        for number in sorted(bins):
            for entry in bins[number]:
                self._bins.setdefault(entry[1] & (self._size - 1), []).append(entry)


class JavaSet(JavaMap[K, bool]):
    """A ``HashSet`` with Java's order of iteration: a ``HashMap`` of its keys."""

    @classmethod
    def of(cls, hash_of: Callable[[K], int], keys: Iterable[K]) -> JavaSet[K]:
        """Call ``new HashSet<>(collection)``."""
        listed = list(keys)
        made = cls(hash_of, max(len(listed) * 4 // 3 + 1, _DEFAULT_CAPACITY))
        for key in listed:
            made.add(key)
        return made

    def add(self, key: K) -> None:
        """Add a key, unless it exists."""
        self.put(key, True)


#: A member's partitions by topic.
Partitions = JavaMap[str, JavaSet[int]]
#: An empty set of members by number, or of partitions.
_no_numbers: Callable[[], JavaSet[int]] = partial(JavaSet, int_hash)


class Held:
    """A group in Kafka's order.

    ``members`` are ids in the order of a ``HashMap`` to which they were added as the group lists
    them (which matters only for ids in the same bin). By member: ``subscribed`` topics that exist,
    in the order of its ``HashSet``; whether it ``names_nothing`` (a missing topic counts as a
    name); and ``old``, its previous target assignment.
    """

    def __init__(self, group: Group) -> None:
        self.topics = group.topics
        self._hashes = {name: uuid_hash(topic.id) for name, topic in group.topics.items()}
        by_id: JavaSet[str] = JavaSet(string_hash)
        for member in group.members:
            by_id.add(member.id)
        self.members = list(by_id)
        there = {name for name, topic in group.topics.items() if topic.partitions is not None}
        self.subscribed: dict[str, list[str]] = {}
        self.names_nothing = {member.id: not member.subscribed for member in group.members}
        self.old: dict[str, Partitions] = {}
        for member in group.members:
            names = JavaSet.of(string_hash, member.subscribed)
            self.subscribed[member.id] = [name for name in names if name in there]
            self.old[member.id] = self.copy(member.current)

    def topic_hash(self, topic: str) -> int:
        """Return ``Uuid.hashCode`` of a topic's id."""
        return self._hashes[topic]

    def place_hash(self, place: Place) -> int:
        """Return ``TopicIdPartition.hashCode``, a record of a topic id and a partition."""
        return (31 * self._hashes[place[0]] + place[1]) & 0xFFFFFFFF

    def no_places(self) -> JavaSet[Place]:
        """Return an empty set of places."""
        return JavaSet(self.place_hash)

    def copy(self, given: Mapping[str, Iterable[int]], *capacity: int) -> Partitions:
        """Call ``AssignorHelpers.deepCopyAssignment``, with a capacity."""
        held: Partitions = JavaMap(self.topic_hash, *capacity)
        for topic, numbers in given.items():
            held.put(topic, JavaSet.of(int_hash, numbers))
        return held

    def targets(self, topics: list[str]) -> list[Place]:
        """Return the assignable partitions of these topics."""
        return [(topic, number) for topic in topics for number in self.topics[topic].assignable]


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
        Members, their topics and the partitions of each, in the order in which the coordinator
        writes them.

    Raises
    ------
    AssignorError
        If Kafka's class throws, see (3).

    Notes
    -----
    Peculiarities, all compared with Kafka's class:

    1. Heterogeneous: a topic without any subscribers stays in the target assignment of the members
       that had it. (Its members do not see it, because the current assignment is filtered.)
    2. A member's partition stays when it is not assignable any longer, and counts towards the
       member's share. It may even be assigned to further members, so another partition can stay
       without any.
    3. In that case, with a sharing of 2 or more, the pass of step 3 can request the next member of
       an empty set: the class throws ``NoSuchElementException``, and the heartbeat that requested
       the assignment fails.
    4. A member can end up with a topic of which it has no partition. Kafka writes it so.
    5. With no more members than partitions, sharing is 1. Only with spare members does a partition
       get several, and then every one up to ``ceil(M / P)``, regardless of its work.
    6. Step 3 visits each partition once, and ignores the assignments of this step: the same member
       can count for it twice. So a partition can stay short of its sharing while a member is below
       its share.
    """
    held = Held(group)
    draft = _Draft(held)
    if group.homogeneous:
        if not held.members or held.names_nothing[held.members[0]]:
            return {member: {} for member in held.members}
        topics = held.subscribed[held.members[0]]
        _share(draft, topics, range(len(held.members)), held.place_hash, drop_others=True)
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
        _share(draft, [topic], theirs, itemgetter(1))
    return draft.result()


class _Draft:
    """The draft of an assignment, by number of member; members not in ``new`` are unchanged.

    Partitions are copied where Kafka copies them, because a copy may have another order.
    """

    def __init__(self, held: Held) -> None:
        self.held = held
        self.old = [held.old[member] for member in held.members]
        self.new: dict[int, Partitions] = {}

    def writable(self, member: int) -> Partitions:
        """Return the partitions of a member, as a copy to change."""
        if member not in self.new:
            self.new[member] = self.held.copy(self.old[member], len(self.old[member]))
        return self.new[member]

    def result(self) -> Assignment:
        """Return the members in Kafka's order, with their partitions."""
        numbered = enumerate(self.held.members)
        return as_lists({member: self.new.get(at, self.old[at]) for at, member in numbered})


def _share(
    draft: _Draft,
    topics: list[str],
    members: Sequence[int],
    hash_of: Callable[[Place], int],
    drop_others: bool = False,
) -> None:
    """Share partitions among the members of a homogeneous group, or one topic's subscribers."""
    targets, named = draft.held.targets(topics), set(topics)
    sharing = -(-len(members) // len(targets)) if targets else 0
    each = sharing * len(targets) / len(members)
    # Share of each member, rounded like Kafka, with doubles.
    want = {
        member: math.ceil(each * (index + 1)) - math.ceil(each * index)
        for index, member in enumerate(members)
    }
    for member, partitions in enumerate(draft.old if drop_others else ()):
        kept = sum(len(numbers) for topic, numbers in partitions.items() if topic in named)
        others = [topic for topic in partitions if topic not in named]
        if others or 0 < kept >= want[member]:  # Kafka copies members with enough at this point
            for topic in others:
                draft.writable(member).remove(topic)
            draft.writable(member)
    no_places: Callable[[], JavaSet[Place]] = partial(JavaSet, hash_of)
    by_partition: JavaMap[Place, JavaSet[int]] = JavaMap(hash_of, capacity_for(len(targets)))
    by_member: JavaMap[int, JavaSet[Place]] = JavaMap(int_hash, capacity_for(len(members)))
    for member, partitions in enumerate(draft.old):
        # Topics are looked up, because a walk through all for each of them would take long.
        for topic in partitions if drop_others else topics:
            if topic in named and topic in partitions:
                for place in ((topic, number) for number in partitions[topic]):
                    by_partition.setdefault(place, _no_numbers).add(member)
                    by_member.setdefault(member, no_places).add(place)
    # First members beyond their share, then partitions with too many members.
    for member, places in by_member.items():
        for place in places:
            if len(places) <= want.get(member, 0):
                break
            by_partition[place].remove(member)
            places.remove(place)
            draft.writable(member)[place[0]].remove(place[1])
    for place, holders in by_partition.items():
        for member in holders:
            if len(holders) <= sharing:
                break
            if draft.writable(member)[place[0]].remove(place[1]):
                holders.remove(member)
                by_member[member].remove(place)
    for place in targets:
        by_partition.setdefault(place, _no_numbers)
    unfilled = [member for member in members if len(by_member.get(member, ())) < want[member]]
    turn, gained = iter(tuple(unfilled)), False
    for place, holders in by_partition.items():
        missing = sharing - len(holders)
        while missing > 0:
            taker = next(turn, None)
            if taker is None:
                if not gained:
                    break
                turn, gained = iter(tuple(unfilled)), False
                taker = next(turn, None)
                if taker is None:
                    raise AssignorError(
                        "Kafka's assignor fails for this group (NoSuchElementException): "
                        f"partition {place[1]} of {place[0]!r} lacks "
                        f"{pluralize(missing, 'member')} and no member may take more, because "
                        "partitions that are not assignable any longer take up their share. Remove "
                        "those from 'current'"
                    )
            if taker not in holders:
                theirs = draft.writable(taker)
                theirs.setdefault(place[0], _no_numbers).add(place[1])
                by_member.setdefault(taker, no_places).add(place)
                missing -= 1
                gained = True
                if len(by_member[taker]) >= want[taker]:
                    unfilled.remove(taker)
        if not unfilled:
            break


#: Members of each place.
_Members = JavaMap[Place, list[str]]
#: Places of each member.
_Places = JavaMap[str, JavaSet[Place]]


def simple_4_1(group: Group) -> Assignment:
    """Assign as ``SimpleAssignor`` of Kafka 4.1.1, of the preview of share groups.

    Every member first gets the partition that the hash of its id selects; then members keep their
    previous partitions, and the rest is assigned in turn. The order is Kafka's.

    Peculiarities: balance depends on the hashes of ids; a partition that a hash selects is taken
    from the member that had it; one that is not assignable any longer stays with its members; and
    in a heterogeneous group a partition whose members have all unsubscribed is assigned to no
    member.

    Raises
    ------
    AssignorError
        If Kafka's class throws because no member may take a partition any longer.
    """
    held = Held(group)
    if not held.members:
        return {}
    if group.homogeneous and held.names_nothing[held.members[0]]:
        return {member: {} for member in held.members}
    current: _Members = JavaMap(held.place_hash)
    for member in held.members:
        for topic, numbers in held.old[member].items():
            for number in numbers:
                current.setdefault((topic, number), list).append(member)
    final = (_homogeneous if group.homogeneous else _heterogeneous)(held, current)
    arranged: dict[str, Partitions] = {}
    for member in held.members:
        arranged[member] = JavaMap(held.topic_hash)
        for topic, number in final.get(member, ()):
            arranged[member].setdefault(topic, _no_numbers).add(number)
    return as_lists(arranged)


def _homogeneous(held: Held, current: _Members) -> _Places:
    topics = held.subscribed[held.members[0]]
    targets = held.targets(topics)
    most = -(-len(targets) // len(held.members))
    hashed: _Members = JavaMap(held.place_hash, capacity_for(len(targets)))
    _assign_by_hash(held.members, targets, hashed)
    final, served = _merge(held, hashed), set(hashed)
    for place, members in current.items():
        if place[0] in topics:
            for member in members:
                theirs = final.setdefault(member, held.no_places)
                if len(theirs) < most and place not in hashed:
                    theirs.add(place)
                    served.add(place)
    # The rest is assigned in turn; a member with more than ``most`` gets no further ones.
    members, turn = list(held.members), 0
    for place in (place for place in targets if place not in served):
        while True:
            if not members:
                raise AssignorError(
                    "Kafka 4.1's assignor fails for this group (inconsistent number of member "
                    f"ids): no member may take partition {place[1]} of {place[0]!r}. Compare with "
                    "'simple', the assignor since 4.2"
                )
            turn = 0 if turn >= len(members) else turn
            theirs = final.setdefault(members[turn], held.no_places)
            if len(theirs) <= most:
                theirs.add(place)
                turn += 1
                break
            del members[turn]
    return final


def _heterogeneous(held: Held, current: _Members) -> _Places:
    of_member: JavaMap[str, list[Place]] = JavaMap(string_hash)
    for member in held.members:
        # A member with names but without an existing topic is listed, too.
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
    final = _merge(held, assigned)
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


def _merge(held: Held, assigned: _Members) -> _Places:
    final: _Places = JavaMap(string_hash, capacity_for(len(held.members)))
    for place, members in assigned.items():
        for member in members:
            final.setdefault(member, held.no_places).add(place)
    return final
