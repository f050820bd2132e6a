"""Assignors that send members to partitions with lag.

`lag_aware_sticky` follows the lag with few moves: a proposal for KIP-1226's future work. A
partition has a *weight*, the work that is due soon, which its members share equally:

    weight = lag + horizon * rate + 1
    load of a member = sum over its partitions of weight / members

The loads of all members add up to the weights of all partitions, so lowering the largest load evens
the loads, and shortens the time until everything is drained.

A share group may have several members on a partition, and joining takes nothing from others. So
every partition gets a second member, which continues if the first one is slow, or has died
unnoticed. Members join where the load is larger, and partitions are revoked only if joining does
not suffice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from sharelag.errors import InputError
from sharelag.whatif.assignors.by_count import Pairs
from sharelag.whatif.assignors.group import Assignment, Group, Place

Weights = dict[Place, float]


def lag_proportional(group: Group) -> Assignment:
    """Assign members to partitions in proportion to lag, and keep their places where possible.

    With equal subscriptions and at least as many members as partitions, each member gets one
    partition, and the numbers follow the largest remainder (Hamilton's method), at least 1 each.
    Otherwise the heaviest partition goes first, to the member with the least lag, and idle members
    join where the lag per member is largest.

    An unknown lag counts as the mean of the others; if all are unknown, all weights are equal.
    """
    weights, pairs = lags(group), Pairs(group)
    subscribed = set().union(*group.subscribers.values())
    if group.homogeneous and len(subscribed) >= len(group.places) > 0:
        _seat(pairs, seats(weights, len(subscribed)))
        return pairs.assignment()
    taken = dict.fromkeys(pairs.places_of, 0.0)
    for place in sorted(weights, key=lambda place: (-weights[place], place)):
        ranks = (
            (taken[member], place not in group.current[member], pairs.load(member), member)
            for member in group.subscribers[place[0]]
        )
        member = min(ranks)[-1]
        pairs.add(member, place)
        taken[member] += weights[place]
    for member in pairs.idle():
        pairs.join(member, lambda place: -weights[place] / pairs.count(place))
    return pairs.assignment()


def seats(weights: Mapping[Place, float], members: int) -> dict[Place, int]:
    """Divide members among no more places by largest remainder, at least one each."""
    total = sum(weights.values())
    quota = {place: members * weight / total for place, weight in weights.items()}
    counts = {place: int(share) for place, share in quota.items()}
    left = members - sum(counts.values())
    for place in sorted(quota, key=lambda place: (counts[place] - quota[place], place))[:left]:
        counts[place] += 1
    for place in [place for place, count in counts.items() if count == 0]:
        # The place with the least work per remaining member loses one.
        rich = (one for one, count in counts.items() if count > 1)
        counts[min(rich, key=lambda one: (weights[one] / (counts[one] - 1), one))] -= 1
        counts[place] = 1
    return counts


def lags(group: Group) -> Weights:
    """Return the lag of each place, the mean where unknown; 1 each if all are 0."""
    known = {place: float(lag) for place in group.places if (lag := group.lag(place)) is not None}
    if not any(known.values()):
        return dict.fromkeys(group.places, 1.0)
    mean = sum(known.values()) / len(known)
    return {place: known.get(place, mean) for place in group.places}


def _seat(pairs: Pairs, counts: dict[Place, int]) -> None:
    """Fill seats, first with current members."""

    def sit(member: str, places: Iterable[Place]) -> None:
        """Assign to a member the place with the most free seats, if any."""
        free = [(counts[place] - pairs.count(place), place) for place in places]
        seats, place = max(free, default=(0, None))
        if place is not None and seats > 0:
            pairs.add(member, place)

    for member, places in sorted(pairs.group.current.items()):
        sit(member, places)
    for member in pairs.idle():
        sit(member, pairs.open_to(member))


def lag_aware_sticky(
    group: Group,
    budget: int | None = None,
    hysteresis: float = 0.1,
    horizon: float = 30.0,
    extra: int = 1,
    sharing: int = 2,
) -> Assignment:
    """Keep pairs, give each partition two members, and even the loads by worthwhile changes.

    1. *Keep* every pair that is still allowed.
    2. *Cover*: the heaviest place with fewer than ``sharing`` members first, by the subscribers
       with the least load.
    3. *Employ*: each idle member joins the place with the most weight per member.
    4. *Join*, as often as it helps: a member joins a place of one with a larger load. No member
       loses a place.
    5. *Move*, at most ``budget`` times: the same, but a member may also take a place over, or leave
       another of its places for it. No place is left with fewer than ``sharing`` members.

    A change in steps 4 and 5 *helps* if it relieves a member: from a load of ``x`` on ``n`` places
    by at least ``hysteresis * x / n``, while no load that it raises ends above ``(1 - hysteresis) *
    x``. Members with the largest load that can be relieved come first, and of the changes that
    relieve them the one that leaves the smallest loads. Only the lightest eligible members join,
    take over or leave; so the assignment is computed quickly, and is good, but not optimal.

    Parameters
    ----------
    group : Group
        With the lag, and the rate if known. An unknown lag counts as the mean of the others; an
        unknown rate adds nothing.
    budget : int, optional
        Changes of step 5 in one call. By default a tenth of the pairs, and at least one.
    hysteresis : float
        From 0 (excluded) to 1 (excluded).
    horizon : float
        Seconds of arrivals that count as work due soon.
    extra : int
        The number of places beyond ``ceil(sharing * places / members)`` that a member may gain in
        steps 4 and 5.
    sharing : int
        The minimum number of members of each place, as far as there are subscribers.

    Notes
    -----
    *No starved partition.* Step 2 leaves no place without a member; step 5 removes a member only
    where it adds another, or where others remain.

    *Bounded movement.* Only step 5 revokes anything, at most one pair per change: so at most
    ``budget`` pairs are revoked that could stay.

    *Bounded sessions.* Except in steps 2 and 3, a member gains no place beyond ``ceil(sharing *
    places / members) + extra``: so a group has about ``sharing`` times as many pairs as it needs,
    far fewer than with `all_to_all`.

    *Termination.* Let a change relieve a member with the load ``x``. Every load that it raises
    was below ``x`` and stays there, so the loads, sorted from the largest, decrease in
    lexicographic order. So while nothing else changes, no assignment occurs twice, and as there
    are finitely many, the changes end.

    *No oscillation.* Suppose a change relieved a member from ``x``, so that the one that got more
    ended at ``(1 - h) x`` at most, and since then every weight has changed by a factor of at most
    ``f``, up or down. Undoing it relieves one of those, from ``f (1 - h) x`` at most, and raises
    the first member to ``x / f`` at least, which must be at most ``(1 - h)`` of the former:
    ``x / f <= (1 - h) f (1 - h) x``, that is ``f >= 1 / (1 - h)``. So with ``h = 0.1`` and all
    else equal, no change is undone before some weight has changed by a ninth.

    *Limits.* If all partitions have the same work, members that share several of them end up as
    four on one and five on another, less even than Kafka's two on each: then a burst lasts some
    percent longer (the named scenario ``burst``). Work that differs from record to record, and
    slow members, are unknown to it.
    """
    weights = {
        place: lag + horizon * (group.rate(place) or 0.0) + 1 for place, lag in lags(group).items()
    }
    return _spread(group, weights, budget, hysteresis, extra, sharing)


def sticky_spread(
    group: Group,
    budget: int | None = None,
    hysteresis: float = 0.1,
    extra: int = 1,
    sharing: int = 2,
) -> Assignment:
    """Keep pairs, give each partition two members, and even the counts; runs on brokers, too.

    It is `lag_aware_sticky` with equal weights. Kafka's interface gives assignors no lag:
    ``StickySpreadAssignor`` in the folder ``assignors`` is the same in Java.

    Parameters
    ----------
    group : Group
    budget, hysteresis, extra, sharing
        As in `lag_aware_sticky`.
    """
    weights = dict.fromkeys(group.places, 1.0)
    return _spread(group, weights, budget, hysteresis, extra, sharing)


def _spread(
    group: Group, weights: Weights, budget: int | None, hysteresis: float, extra: int, sharing: int
) -> Assignment:
    if not 0 < hysteresis < 1:
        raise InputError(f"the hysteresis is {hysteresis}: choose one between 0 and 1, such as 0.1")
    if sharing < 1:
        raise InputError(f"a sharing of {sharing} leaves partitions unserved: give 1 or more")
    draft = _Loads(group, weights)
    pairs = draft.pairs
    for place in sorted(weights, key=lambda place: (-weights[place], place)):
        while pairs.count(place) < sharing:
            free = set(group.subscribers[place[0]]) - pairs.members_of[place]
            if not free:
                break
            lightest = min(free, key=lambda member: (draft.load[member], member))
            draft.apply(_Change((lightest, place)))
    for member in pairs.idle():
        place = min(pairs.open_to(member), key=lambda place: (-draft.each(place), place))
        draft.apply(_Change((member, place)))
    most = math.ceil(sharing * len(weights) / max(len(group.members), 1)) + extra
    bounds = _Bounds(hysteresis, most, sharing)
    _even_out(draft, bounds, None)
    made = sum(map(len, pairs.places_of.values()))
    _even_out(draft, bounds, max(1, made // 10) if budget is None else budget)
    return pairs.assignment()


class _Bounds(NamedTuple):
    hysteresis: float
    most: int  # upper bound of a member's places after a gain
    sharing: int


class _Change(NamedTuple):
    """A pair to add, and optionally one to drop."""

    add: tuple[str, Place]
    drop: tuple[str, Place] | None = None


class _Loads:
    """Pairs and the resulting loads."""

    def __init__(self, group: Group, weights: Weights) -> None:
        self.pairs = Pairs.current(group)
        self.weights = weights
        self.load = {member: self._sum(member) for member in self.pairs.places_of}

    def each(self, place: Place) -> float:
        """Return the work of each member at a place."""
        return self.weights[place] / len(self.pairs.members_of[place])

    def apply(self, change: _Change) -> None:
        """Make a change. Loads are summed again, in order, so they depend only on the pairs."""
        places = _places(change)
        touched = set().union(*(self.pairs.members_of[place] for place in places))
        if change.drop is not None:
            self.pairs.drop(*change.drop)
        self.pairs.add(*change.add)
        for member in touched.union(*(self.pairs.members_of[place] for place in places)):
            self.load[member] = self._sum(member)

    def after(self, change: _Change) -> dict[str, float]:
        """Return the loads of the members that a change would affect."""
        loads: dict[str, float] = {}
        for place in _places(change):
            old = self.pairs.members_of[place]
            new = {member for member in old if (member, place) != change.drop}
            if place == change.add[1]:
                new.add(change.add[0])
            before, then = self.weights[place] / len(old), self.weights[place] / len(new)
            for member in old | new:
                # A single difference, so that a member that keeps its part keeps its load exactly.
                more = (then if member in new else 0.0) - (before if member in old else 0.0)
                loads[member] = loads.get(member, self.load[member]) + more
        return loads

    def _sum(self, member: str) -> float:
        return math.fsum(self.each(place) for place in self.pairs.places_of[member])


def _places(change: _Change) -> list[Place]:
    """Return the places of a change in a fixed order, because rounding of sums depends on it."""
    return sorted({place for _, place in (change.add, change.drop or change.add)})


def _even_out(draft: _Loads, bounds: _Bounds, budget: int | None) -> None:
    """Make helpful changes: joins without a limit, or moves as well up to a budget."""
    # A member without relief is not tried again in this call: a large group would take long.
    hopeful, made, able = set(draft.load), 0, None
    while hopeful and (budget is None or made < budget):
        able = able or _find_able(draft, bounds, may_move=budget is not None)
        heavy = max(hopeful, key=lambda member: (draft.load[member], member))
        change = _best_change(draft, heavy, bounds, able)
        if change is None:
            hopeful.remove(heavy)
        else:
            draft.apply(change)
            made, able = made + 1, None


class _Leave(NamedTuple):
    """A place that some of its members may leave."""

    least: float  # the smallest load left to a member that leaves
    stays: float  # the load of the heaviest remaining member, unless no lighter one may leave
    place: Place
    members: list[str]  # lightest first


class _Able(NamedTuple):
    """Candidates for changes at the current loads, in the order in which they are tried."""

    join: list[str]  # members with room, lightest first
    leave: list[_Leave] | None  # None: no member may leave a place


def _find_able(draft: _Loads, bounds: _Bounds, may_move: bool) -> _Able:
    by_load = sorted(draft.load, key=lambda member: (draft.load[member], member))
    join = [member for member in by_load if draft.pairs.load(member) < bounds.most]
    if not may_move:
        return _Able(join, None)
    rank = {member: number for number, member in enumerate(by_load)}
    leave = []
    for place, members in draft.pairs.members_of.items():
        if len(members) > bounds.sharing:
            ordered, each = sorted(members, key=rank.__getitem__), draft.each(place)
            least = draft.load[ordered[0]] - each
            stays = draft.load[ordered[-1]] + each / (len(ordered) - 1)
            leave.append(_Leave(least, stays, place, ordered))
    return _Able(join, sorted(leave))


def _best_change(draft: _Loads, heavy: str, bounds: _Bounds, able: _Able) -> _Change | None:
    """Return the change that relieves a member and leaves the smallest loads."""
    load = draft.load[heavy]
    ceiling = load * (1 - bounds.hysteresis)
    relief = load * bounds.hysteresis / max(draft.pairs.load(heavy), 1)
    ranks: list[tuple[float, bool, _Change]] = []
    for change in _changes(draft, heavy, able):
        after = draft.after(change)
        raised = max((then for one, then in after.items() if then > draft.load[one]), default=0.0)
        # Rounding of sums must not matter.
        if after[heavy] <= load - relief * (1 - 1e-9) and raised <= ceiling:
            ranks.append((max(after[heavy], raised), change.drop is not None, change))
    return min(ranks)[2] if ranks else None


def _changes(draft: _Loads, heavy: str, able: _Able) -> Iterator[_Change]:
    """Yield changes in which the lightest candidate joins, takes over, or leaves for a place."""
    for place in sorted(draft.pairs.places_of[heavy]):
        member = next((one for one in able.join if draft.pairs.may_take(one, place)), None)
        if member is not None:
            yield _Change((member, place))
        if able.leave is None:
            continue
        if member is not None:
            yield _Change((member, place), drop=(heavy, place))
        left = _spare(draft, place, able.leave)
        if left is not None:
            yield _Change((left[0], place), drop=left)


def _spare(draft: _Loads, place: Place, leave: Sequence[_Leave]) -> tuple[str, Place] | None:
    """Return the member and place to leave for another, with the smallest resulting load."""
    share = draft.weights[place] / (draft.pairs.count(place) + 1)
    best: tuple[float, str, Place] = (math.inf, "", place)
    for least, stays, left, members in leave:
        if least + share > best[0]:
            break
        if stays > best[0]:
            continue
        member = next((member for member in members if draft.pairs.may_take(member, place)), None)
        if member is not None:
            load = draft.load[member] - draft.each(left) + share
            best = min(best, (max(load, stays), member, left))
    return None if math.isinf(best[0]) else best[1:]
