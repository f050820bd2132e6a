"""Checks of any assignment: broken rules, figures, and the predicted time to drain."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sharelag.errors import InputError
from sharelag.whatif.assignors.by_count import matches
from sharelag.whatif.assignors.group import NO_ANSWER as NO_ANSWER
from sharelag.whatif.assignors.group import Assignment, Group, Place, as_assignment, pairs_of

ServiceRate = float | Mapping[str, float]


def predict_drain(
    group: Group, assignment: Assignment, service_rate: ServiceRate = 1.0
) -> dict[Place, float | None]:
    """Predict the seconds until each assignable partition of a subscribed topic has no lag.

    Each member divides its time equally among those of its partitions that have lag, as fetches
    rotate. Arrivals in drained partitions are served first; an unknown rate counts as 0. ``inf``:
    never drained; None: the lag is unknown.
    """
    import numpy as np

    rates = service_rates(group, service_rate)
    known = [place for place in group.places if group.lag(place) is not None]
    at = {place: column for column, place in enumerate(known)}
    row = {member.id: number for number, member in enumerate(group.members)}
    has = np.zeros((len(row), len(known)))
    for member, place in pairs_of(assignment):
        if place in at:
            has[row[member], at[place]] = 1.0
    service = np.array([rates[member.id] for member in group.members])
    backlog = np.array([float(group.lag(place) or 0) for place in known])
    arriving = np.array([float(group.rate(place) or 0) for place in known])
    upkeep = arriving / np.maximum(has.sum(axis=0), 1.0)
    drained = np.where(backlog > 0, math.inf, 0.0)
    now = 0.0
    while True:
        waiting = drained == math.inf
        free = np.maximum(service - has @ np.where(waiting, 0.0, upkeep), 0.0)
        each = free / np.maximum(has @ waiting.astype(float), 1.0)
        net = np.where(waiting, each @ has - arriving, 0.0)
        if not (net > 0).any():
            break
        left = np.divide(backlog, net, out=np.full(len(known), math.inf), where=net > 0)
        step = left.min()
        now += float(step)
        backlog -= net * step
        drained[left <= step * (1 + 1e-12)] = now
    return {place: float(drained[at[place]]) if place in at else None for place in group.places}


def service_rates(group: Group, service_rate: ServiceRate) -> dict[str, float]:
    """Return records per second by member id; every member needs some."""
    given = service_rate if isinstance(service_rate, Mapping) else {}
    usual = math.nan if isinstance(service_rate, Mapping) else float(service_rate)
    rates = {member.id: given.get(member.id, usual) for member in group.members}
    for member, rate in rates.items():
        if not (math.isfinite(rate) and rate > 0):
            raise InputError(
                f"member {member!r} has no service rate above 0: "
                f"give 'service_rate' in records per second"
            )
    return rates


#: The rules that an assignment can break, and how.
RULES = {
    (UNKNOWN_MEMBER := "unknown_member"): "partitions for a member that is not in the group",
    (UNKNOWN_TOPIC := "unknown_topic"): "partitions of a topic that is not among the topics",
    (NOT_SUBSCRIBED := "not_subscribed"): "a partition of a topic without a subscription",
    (NOT_ASSIGNABLE := "not_assignable"): "a partition without initialised share state, or none",
    (DUPLICATE := "duplicate"): "the same partition twice for one member",
    (STARVED := "starved"): "an assignable partition of a subscribed topic without a member",
    (UNEVEN_COUNTS := "uneven_counts"): "too many more members on one partition than on another",
    (UNEVEN_LOADS := "uneven_loads"): "too many more partitions for one member than for another",
    (TOO_MANY_MOVES := "too_many_moves"): "more pairs added than allowed",
    NO_ANSWER: "an exception, or an answer without partitions by topic",
    (NOT_REPEATED := "not_repeated"): "a different answer to a second call with the same group",
    (BY_ORDER := "by_order"): "a different answer when the same members come in another order",
}


@dataclass(frozen=True)
class Finding:
    """One error in an assignment: a key of `RULES`, its place, and a sentence."""

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
        Pairs of member and partition; each is part of a share session.
    counts
        Members by place, for every assignable partition of a subscribed topic.
    loads
        Partitions by member id, for every member.
    idle
        Ids of members without a partition that subscribe to some.
    added, revoked
        Pairs that are new, and previous pairs that are gone.
    revoked_needlessly
        The ``revoked`` pairs that were still allowed.
    rack_match
        The share of the pairs with a replica in the member's rack; None if no pair has both racks
        known.
    drain
        Seconds until each place is drained (`predict_drain`); None without a service rate.
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


def check(
    group: Group,
    assignment: Assignment,
    count_spread: int | None = None,
    load_spread: int | None = None,
    moves: int | None = None,
) -> list[Finding]:
    """Return the rules that an assignment breaks; its members and topics exist in the group."""
    found = list(_wrong_pairs(group, assignment))
    numbers = figures(group, assignment)
    for (topic, partition), count in numbers.counts.items():
        if not count:
            text = f"no member has partition {partition} of {topic!r}"
            found.append(Finding(STARVED, None, topic, partition, text))
    subscribed = {id_ for ids in group.subscribers.values() for id_ in ids}
    loads = [load for member, load in numbers.loads.items() if member in subscribed]
    for rule, values, most, what, whose in (
        (UNEVEN_COUNTS, numbers.counts.values(), count_spread, "members", "partition"),
        (UNEVEN_LOADS, loads, load_spread, "partitions", "member"),
    ):
        least, largest = min(values, default=0), max(values, default=0)
        if most is not None and largest - least > most:
            text = f"one {whose} has {largest} {what} and another {least}; they may differ by"
            found.append(Finding(rule, None, None, None, f"{text} {most}"))
    if moves is not None and numbers.added > moves:
        text = f"{numbers.added} pairs were added, at most {moves} are allowed"
        found.append(Finding(TOO_MANY_MOVES, None, None, None, text))
    return found


def _wrong_pairs(group: Group, assignment: Assignment) -> Iterator[Finding]:
    subscribed = {member.id: set(member.subscribed) for member in group.members}
    for member, topics in assignment.items():
        for topic, partitions in topics.items():
            for partition, times in Counter(partitions).items():
                got = f"{member!r} got partition {partition} of {topic!r}"
                if times > 1:
                    yield Finding(DUPLICATE, member, topic, partition, f"{got} {times} times")
                if topic not in subscribed[member]:
                    text = f"{got}, to which it does not subscribe"
                    yield Finding(NOT_SUBSCRIBED, member, topic, partition, text)
                if partition not in group.topics[topic].assignable:
                    text = f"{got}, which is not assignable"
                    yield Finding(NOT_ASSIGNABLE, member, topic, partition, text)


def figures(
    group: Group, assignment: Assignment, service_rate: ServiceRate | None = None
) -> Figures:
    """Return the figures of an assignment, without the pairs that `check` refuses."""
    before = pairs_of({member.id: member.current for member in group.members})
    after = pairs_of({member.id: assignment.get(member.id, {}) for member in group.members})
    allowed = group.allowed_pairs
    good = after & allowed
    counts = Counter(place for _, place in good)
    loads = Counter(member for member, _ in good)
    racks = {member.id: member.rack for member in group.members}
    local = [
        matches(group, racks[member], place)
        for member, place in good
        if racks[member] is not None and place[1] in group.topics[place[0]].racks
    ]
    kept = as_assignment(group, good)
    return Figures(
        pairs=len(good),
        counts={place: counts[place] for place in group.places},
        loads={member.id: loads[member.id] for member in group.members},
        idle=tuple(sorted({member for member, _ in allowed} - loads.keys())),
        added=len(after - before),
        revoked=len(before - after),
        revoked_needlessly=len((before - after) & allowed),
        rack_match=sum(local) / len(local) if local else None,
        drain=None if service_rate is None else predict_drain(group, kept, service_rate),
    )
