"""Members, subscriptions and target assignments in the order of the coordinator's hash sets.

The shapes are those of ``TargetAssignmentBuilder``, ``ShareGroupMember``, ``TopicIds`` and
``Assignment.fromRecord``.
"""

from __future__ import annotations

from collections.abc import Mapping

from sharelag.whatif.assignors.group import Assignment, Group, Place
from sharelag.whatif.assignors.java_maps import JavaMap, JavaSet, int_hash, string_hash, uuid_hash

#: A member's partitions by topic.
Partitions = JavaMap[str, JavaSet[int]]


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
        self.subscribed: dict[str, list[str]] = {}
        self.names_nothing: dict[str, bool] = {}
        self.old: dict[str, Partitions] = {}
        for member in group.members:
            names = JavaSet.of(string_hash, member.subscribed)
            self.subscribed[member.id] = [name for name in names if self._exists(name)]
            self.names_nothing[member.id] = len(names) == 0
            self.old[member.id] = self._partitions(member.current)

    def topic_hash(self, topic: str) -> int:
        """``Uuid.hashCode`` of a topic's id."""
        return self._hashes[topic]

    def place_hash(self, place: Place) -> int:
        """``TopicIdPartition.hashCode``, a record of a topic id and a partition."""
        return (31 * self._hashes[place[0]] + place[1]) & 0xFFFFFFFF

    def copied(self, partitions: Partitions) -> Partitions:
        """``AssignorHelpers.deepCopyAssignment``."""
        copy: Partitions = JavaMap(self.topic_hash, len(partitions))
        for topic, numbers in partitions.items():
            copy.put(topic, JavaSet.of(int_hash, numbers))
        return copy

    def targets(self, topics: list[str]) -> list[Place]:
        """Return the assignable partitions of these topics."""
        return [
            (topic, partition) for topic in topics for partition in self.topics[topic].assignable
        ]

    def _partitions(self, current: Mapping[str, tuple[int, ...]]) -> Partitions:
        held: Partitions = JavaMap(self.topic_hash)
        for topic, partitions in current.items():
            held.put(topic, JavaSet.of(int_hash, partitions))
        return held

    def _exists(self, topic: str) -> bool:
        return topic in self.topics and self.topics[topic].partitions is not None


def as_lists(assigned: Mapping[str, Partitions]) -> Assignment:
    """Return sets as lists, in the order in which the coordinator writes them."""
    return {
        member: {topic: list(numbers) for topic, numbers in partitions.items()}
        for member, partitions in assigned.items()
    }
