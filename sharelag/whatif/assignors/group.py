"""The input of assignors: a share group's members and topics, with lag and rates.

`Group.of` reads plain dicts, and its errors say what to correct. Every assignor takes a `Group`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, fields
from functools import cached_property
from numbers import Integral, Real
from typing import Any

from sharelag.errors import InputError, ShareLagError
from sharelag.model import derive_topic_id, topic_id_bytes

#: The result of an assignor: partitions by member and topic, in the order Kafka would write them.
Assignment = dict[str, dict[str, list[int]]]
#: One topic partition, by name.
Place = tuple[str, int]

#: The rule of the contract that a failing assignor breaks.
NO_ANSWER = "no_answer"


class AssignorError(ShareLagError):
    """An assignor fails for this group, as it would in the broker.

    ``rule`` is the one of `sharelag.whatif.assignors.contract.RULES` that it breaks.
    """

    def __init__(self, text: str, rule: str = NO_ANSWER) -> None:
        super().__init__(text)
        self.rule = rule


@dataclass(frozen=True)
class Member:
    """One member of the group."""

    id: str  # as the broker knows it
    subscribed: tuple[str, ...]  # topics; a missing one has no effect, as in Kafka
    current: Mapping[str, tuple[int, ...]]  # previous target, in the order of the group's record
    rack: str | None = None  # its client.rack


@dataclass(frozen=True)
class Topic:
    """One topic; unknown values of a partition have no entry."""

    name: str
    id: bytes  # 16; Kafka's assignor breaks ties by it
    partitions: int | None  # their number; None: the topic was deleted
    assignable: tuple[int, ...]  # partitions with initialised share state, ascending
    racks: Mapping[int, tuple[str, ...]]  # of the replicas, by partition
    lag: Mapping[int, float]  # undelivered records
    rate: Mapping[int, float]  # records that arrive per second


@dataclass(frozen=True)
class Group:
    """A share group as an assignor sees it: members and topics in the order given.

    Attributes
    ----------
    members
        Each has ``id``, ``subscribed`` (names of topics), ``current`` (its previous target
        assignment, by topic) and ``rack`` (its ``client.rack`` or None).
    topics
        By name. Each has ``name``, ``id`` (16 bytes), ``partitions`` (their number; None: deleted)
        and ``assignable`` (ascending); and by partition, if known, ``racks`` (of the replicas),
        ``lag`` (records) and ``rate`` (records per second).

    Examples
    --------
    >>> def last_first(group):
    ...     \"\"\"Assign partitions to the members in turn, starting with the last member.\"\"\"
    ...     answer = {member.id: {} for member in group.members}
    ...     for name, topic in group.topics.items():
    ...         able = [one for one in reversed(group.members) if name in one.subscribed]
    ...         for turn, partition in enumerate(topic.assignable if able else ()):
    ...             answer[able[turn % len(able)].id].setdefault(name, []).append(partition)
    ...     return answer
    """

    members: tuple[Member, ...]
    topics: Mapping[str, Topic]

    @classmethod
    def of(
        cls, members: Iterable[Mapping[str, Any]], topics: Mapping[str, Mapping[str, Any]]
    ) -> Group:
        """Read members and topics.

        Parameters
        ----------
        members, topics
            As for `sharelag.whatif.assign`.

        Raises
        ------
        InputError
            A key, a partition, an id or a number cannot be used.
        """
        read = {name: _topic(name, topic) for name, topic in topics.items()}
        group = cls(tuple(_member(member, read) for member in members), read)
        _require_distinct("member id", [member.id for member in group.members])
        _require_distinct("topic id", [topic.id for topic in read.values()])
        return group

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """The assignable partitions of topics with a subscriber, by topic and partition."""
        names = (name for name in sorted(self.topics) if self.subscribers[name])
        return tuple((name, one) for name in names for one in self.topics[name].assignable)

    @cached_property
    def subscribers(self) -> Mapping[str, tuple[str, ...]]:
        """Ids of the members subscribed to each topic that exists, ascending."""
        found: dict[str, list[str]] = {name: [] for name in self.topics}
        for member in sorted(self.members, key=lambda member: member.id):
            for name in set(member.subscribed) & found.keys():
                if self.topics[name].partitions is not None:
                    found[name].append(member.id)
        return {name: tuple(ids) for name, ids in found.items()}

    @cached_property
    def homogeneous(self) -> bool:
        """Whether all members subscribe to the same names (``ModernGroup.subscriptionType``)."""
        return len({frozenset(member.subscribed) for member in self.members}) <= 1

    @cached_property
    def current(self) -> Mapping[str, tuple[Place, ...]]:
        """The pairs that each member has and may keep: assignable and subscribed, ascending."""
        kept: dict[str, list[Place]] = {member.id: [] for member in self.members}
        held = pairs_of({member.id: member.current for member in self.members})
        for member, place in sorted(held & self.allowed_pairs):
            kept[member].append(place)
        return {member: tuple(places) for member, places in kept.items()}

    @cached_property
    def allowed_pairs(self) -> Set[tuple[str, Place]]:
        """The pairs of member and place that the subscriptions allow."""
        return {(id_, place) for place in self.places for id_ in self.subscribers[place[0]]}

    def lag(self, place: Place) -> float | None:
        """Return the lag of a place; None if unknown."""
        return self.topics[place[0]].lag.get(place[1])

    def rate(self, place: Place) -> float | None:
        """Return the records that arrive per second; None if unknown."""
        return self.topics[place[0]].rate.get(place[1])


def pairs_of(assignment: Mapping[str, Mapping[str, Iterable[int]]]) -> Set[tuple[str, Place]]:
    """Return the pairs of member and place of an assignment."""
    given = ((who, topic, held) for who, of in assignment.items() for topic, held in of.items())
    return {(member, (topic, partition)) for member, topic, held in given for partition in held}


def as_assignment(group: Group, pairs: Iterable[tuple[str, Place]]) -> Assignment:
    """Arrange pairs of member and place: members in the order of the group, the rest ascending."""
    assignment: Assignment = {member.id: {} for member in group.members}
    for member, (topic, partition) in sorted(set(pairs)):
        assignment[member].setdefault(topic, []).append(partition)
    return assignment


def _topic(name: str, given: Mapping[str, Any]) -> Topic:
    where = f"topic {name!r}"
    _require_keys(where, given, {one.name for one in fields(Topic)} - {"name"}, {"partitions"})
    count, text = given["partitions"], given.get("id")
    if count is not None and not _is_number(count, whole=True):
        raise InputError(
            f"{where} has {count!r} partitions: give their number, or None if it was deleted"
        )
    numbers = range(count or 0)
    assignable = list(numbers if (some := given.get("assignable")) is None else some)
    each = {key: dict(given.get(key) or {}) for key in ("racks", "lag", "rate")}
    for key, values in (each | {"assignable": assignable}).items():
        if wrong := [one for one in values if not _is_number(one, True) or one not in numbers]:
            raise InputError(
                f"{where} has {wrong[0]!r} in {key!r}, but its {len(numbers)} partitions are "
                "numbered from 0: correct it, or the number of partitions"
            )
        for partition, value in each[key].items() if key in ("lag", "rate") else ():
            if not _is_number(value):
                raise InputError(
                    f"{where} has the {key} {value!r} in partition {partition}: "
                    f"give a number of at least 0, and leave the partition out if it is unknown"
                )
    try:  # a derived id is always the same, so answers are reproducible
        id_ = topic_id_bytes(derive_topic_id(name) if text is None else text)
    except ValueError as error:
        raise InputError(
            f"{where}: {error}; copy it from `kafka-topics.sh --describe`, or leave 'id' out"
        ) from None
    racks = {partition: tuple(racks) for partition, racks in each["racks"].items()}
    may_be = tuple(sorted(set(map(int, assignable))))
    return Topic(name, id_, count, may_be, racks, each["lag"], each["rate"])


def _member(given: Mapping[str, Any], topics: Mapping[str, Topic]) -> Member:
    where = f"member {given.get('id')!r}"
    _require_keys(where, given, {one.name for one in fields(Member)}, {"id", "subscribed"})
    if isinstance(given["subscribed"], str) or not isinstance(given["id"], str):
        raise InputError(f"{where}: its id must be a string and 'subscribed' a list of topic names")
    current: dict[str, tuple[int, ...]] = {}
    for topic, held in (given.get("current") or {}).items():
        partitions = list(held)
        if topic not in topics:
            raise InputError(
                f"{where} currently has partitions of {topic!r}, which is not among the topics: "
                "add it, with its id, and with 'partitions': None if it was deleted"
            )
        # The topic may have been deleted, or recreated with fewer partitions: Kafka uses the number
        # alone.
        if not all(_is_number(partition, whole=True) for partition in partitions):
            raise InputError(
                f"{where} currently has {partitions!r} of {topic!r}: give the numbers of partitions"
            )
        current[topic] = tuple(dict.fromkeys(map(int, partitions)))
    return Member(
        given["id"], tuple(dict.fromkeys(given["subscribed"])), current, given.get("rack")
    )


def _require_keys(where: str, given: Mapping[str, Any], known: set[str], needed: set[str]) -> None:
    if not isinstance(given, Mapping):
        raise InputError(f"{where} is {given!r}: give a mapping with {', '.join(sorted(needed))}")
    if unknown := sorted(set(given) - known):
        raise InputError(
            f"{where} has the unknown key {unknown[0]!r}: use {', '.join(sorted(known))}"
        )
    if missing := sorted(needed - set(given)):
        raise InputError(f"{where} lacks {missing[0]!r}: add it")


def _require_distinct(what: str, values: list[Any]) -> None:
    if len(set(values)) < len(values):
        twice = next(value for value in values if values.count(value) > 1)
        raise InputError(f"duplicate {what} {twice!r}: leave one of them out")


def _is_number(value: Any, whole: bool = False) -> bool:
    # By these types, because numpy's numbers, which come from tables, are accepted as well.
    kind = Integral if whole else Real
    return isinstance(value, kind) and not isinstance(value, bool) and 0 <= float(value) < math.inf
