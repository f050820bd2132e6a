"""Checks that every assignment has to pass, and figures to compare assignors by.

Both take members and topics as `sharelag.whatif.assign` does, and the answer of any assignor,
registered or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sharelag.whatif.assignors.drain import ServiceRate, predicted_drain
from sharelag.whatif.assignors.group import Assignment, Group, Place
from sharelag.whatif.assignors.rack_aware import matches

# What a finding says.
UNKNOWN_MEMBER = "unknown_member"  # partitions for a member that is not in the group
UNKNOWN_TOPIC = "unknown_topic"  # partitions of a topic that is not among the topics
NOT_SUBSCRIBED = "not_subscribed"  # a partition of a topic to which the member does not subscribe
NOT_ASSIGNABLE = (
    "not_assignable"  # a partition that does not exist or whose share state is not initialised
)
DUPLICATE = "duplicate"  # the same partition twice for one member
STARVED = "starved"  # an assignable partition of a subscribed topic without a member
UNEVEN_COUNTS = "uneven_counts"  # some partition has too many more members than another
UNEVEN_LOADS = "uneven_loads"  # some member has too many more partitions than another
TOO_MANY_MOVES = "too_many_moves"  # more pairs added than allowed


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with an assignment: the rule, where it is broken, and a sentence."""

    rule: str
    member: str | None
    topic: str | None
    partition: int | None
    text: str


@dataclass(frozen=True)
class Figures:
    """An assignment in numbers.

    Attributes
    ----------
    pairs
        Member and partition; each is a part of a share session.
    counts
        Members by place, for every assignable partition of a subscribed topic.
    loads
        Partitions by member id, for every member.
    idle
        Ids of members without a partition although they subscribe to some.
    added, revoked
        Pairs that the members did not have, and pairs that they do not have any more.
    revoked_needlessly
        Those of ``revoked`` that were still allowed.
    rack_match
        The part of the pairs with a replica in the member's rack; None where no pair has both racks
        known.
    drain
        Seconds until each place is drained (`predicted_drain`); None where no service rate was
        given.
    """

    pairs: int
    counts: Mapping[Place, int]
    loads: Mapping[str, int]
    idle: tuple[str, ...]
    added: int
    revoked: int
    revoked_needlessly: int
    rack_match: float | None
    drain: Mapping[Place, float | None] | None

    @property
    def starved(self) -> tuple[Place, ...]:
        """Places without a member."""
        return tuple(place for place, count in self.counts.items() if count == 0)


def check(
    members: Iterable[Mapping[str, Any]],
    topics: Mapping[str, Mapping[str, Any]],
    assignment: Assignment,
    *,
    count_spread: int | None = None,
    load_spread: int | None = None,
    moves: int | None = None,
) -> list[Finding]:
    """Check an assignment.

    Parameters
    ----------
    members, topics
        As for `sharelag.whatif.assign`.
    assignment : dict
        What an assignor answered.
    count_spread : int, optional
        How many more members one partition may have than another.
    load_spread : int, optional
        How many more partitions one subscriber may have than another.
    moves : int, optional
        How many pairs may be added.

    Returns
    -------
    list of Finding
        Empty when all is well. What could not be meant (unknown members and topics) is not looked
        at further.
    """
    return check_group(
        Group.of(members, topics),
        assignment,
        count_spread=count_spread,
        load_spread=load_spread,
        moves=moves,
    )


def check_group(
    group: Group,
    assignment: Assignment,
    *,
    count_spread: int | None = None,
    load_spread: int | None = None,
    moves: int | None = None,
) -> list[Finding]:
    """Check an assignment of a group whose values need no further checks; see `check`."""
    found = list(_wrong_pairs(group, assignment))
    numbers = _figures(group, assignment, None)
    for topic, partition in numbers.starved:
        found.append(
            Finding(
                STARVED, None, topic, partition, f"no member has partition {partition} of {topic!r}"
            )
        )
    if count_spread is not None and (
        text := _spread(numbers.counts, count_spread, "members", "partition")
    ):
        found.append(Finding(UNEVEN_COUNTS, None, None, None, text))
    subscribed = {id_ for ids in group.subscribers.values() for id_ in ids}
    loads = {member: load for member, load in numbers.loads.items() if member in subscribed}
    if load_spread is not None and (text := _spread(loads, load_spread, "partitions", "member")):
        found.append(Finding(UNEVEN_LOADS, None, None, None, text))
    if moves is not None and numbers.added > moves:
        text = f"{numbers.added} pairs were added where {moves} may be"
        found.append(Finding(TOO_MANY_MOVES, None, None, None, text))
    return found


def figures(
    members: Iterable[Mapping[str, Any]],
    topics: Mapping[str, Mapping[str, Any]],
    assignment: Assignment,
    service_rate: ServiceRate | None = None,
) -> Figures:
    """Sum an assignment up.

    Parameters
    ----------
    members, topics
        As for `sharelag.whatif.assign`.
    assignment : dict
        What an assignor answered; what `check` finds wrong in it is left out.
    service_rate : float or mapping of str to float, optional
        Records that a member finishes a second, to predict when each partition is drained.
    """
    return _figures(Group.of(members, topics), assignment, service_rate)


def _wrong_pairs(group: Group, assignment: Assignment) -> Iterator[Finding]:
    subscribed = {member.id: set(member.subscribed) for member in group.members}
    for member, topics in assignment.items():
        if member not in subscribed:
            yield Finding(
                UNKNOWN_MEMBER, member, None, None, f"{member!r} is not a member of the group"
            )
            continue
        for topic, partitions in topics.items():
            if topic not in group.topics:
                yield Finding(
                    UNKNOWN_TOPIC,
                    member,
                    topic,
                    None,
                    f"{member!r} got {topic!r}, which is not among the topics",
                )
                continue
            for partition, times in Counter(partitions).items():
                where = f"partition {partition} of {topic!r}"
                if times > 1:
                    yield Finding(
                        DUPLICATE, member, topic, partition, f"{member!r} got {where} {times} times"
                    )
                if topic not in subscribed[member]:
                    text = f"{member!r} got {where}, to which it does not subscribe"
                    yield Finding(NOT_SUBSCRIBED, member, topic, partition, text)
                if partition not in group.topics[topic].assignable:
                    text = f"{member!r} got {where}, which is not assignable"
                    yield Finding(NOT_ASSIGNABLE, member, topic, partition, text)


def _figures(group: Group, assignment: Assignment, service_rate: ServiceRate | None) -> Figures:
    before = {
        (m.id, (topic, p))
        for m in group.members
        for topic, numbers in m.current.items()
        for p in numbers
    }
    after = {
        (member.id, (topic, partition))
        for member in group.members
        for topic, partitions in assignment.get(member.id, {}).items()
        for partition in partitions
    }
    allowed = {(member, place) for place in group.places for member in group.subscribers[place[0]]}
    good = after & allowed
    counts = Counter(place for _, place in good)
    loads = Counter(member for member, _ in good)
    racks = {member.id: member.rack for member in group.members}
    local = [
        matches(group, racks[member], place)
        for member, place in good
        if racks[member] is not None and place[1] in group.topics[place[0]].racks
    ]
    return Figures(
        pairs=len(good),
        counts={place: counts[place] for place in group.places},
        loads={member.id: loads[member.id] for member in group.members},
        idle=tuple(sorted({member for member, _ in allowed} - loads.keys())),
        added=len(after - before),
        revoked=len(before - after),
        revoked_needlessly=len((before - after) & allowed),
        rack_match=sum(local) / len(local) if local else None,
        drain=None if service_rate is None else predicted_drain(group, _only(good), service_rate),
    )


def _only(pairs: Iterable[tuple[str, Place]]) -> Assignment:
    assignment: Assignment = {}
    for member, (topic, partition) in sorted(pairs):
        assignment.setdefault(member, {}).setdefault(topic, []).append(partition)
    return assignment


def _spread(numbers: Mapping[Any, int], most: int, what: str, whose: str) -> str | None:
    least, largest = min(numbers.values(), default=0), max(numbers.values(), default=0)
    if largest - least <= most:
        return None
    return f"one {whose} has {largest} {what} and another {least}, where they may differ by {most}"
