"""Could an assignor follow the lag without moving people about all the time? Our proposal for KIP-1226's future work.

A partition *weighs* what is to be done in it soon, and its members share that equally:

    weight = lag + horizon * rate + 1            load of a member = sum over its partitions of weight / members

The loads of all members add up to the weights of all partitions, so making the largest load small makes the loads
even, and the time until everything is drained short.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from sharelag.errors import InputError
from sharelag.whatif.assignors.by_lag import lags
from sharelag.whatif.assignors.group import Assignment, Group, Place
from sharelag.whatif.assignors.pairs import Pairs


def lag_aware_sticky(
    group: Group, budget: int | None = None, hysteresis: float = 0.1, horizon: float = 30.0, extra: int = 1
) -> Assignment:
    """Keep what there is, serve all, and improve by few changes that are each well worth it.

    1. *Keep* every pair that is still allowed.
    2. *Cover*: the heaviest place without a member first, each to the subscriber with the least load.
    3. *Employ*: each idle member joins the place with the most weight a member. Nobody loses anything.
    4. *Improve*, at most ``budget`` times: relieve the member with the largest load that can be relieved, by the
       change that leaves the smallest load to those it touches. A change lets another member join one of its
       places, or take it over, or leave a place that has others for it; or the member itself leaves a place that
       has others. It must make the largest load among those whom it touches smaller by ``hysteresis``.

    Parameters
    ----------
    group : Group
        With the lag, and the rate if known. Where the lag is not known the mean of the others is taken; an unknown
        rate adds nothing.
    budget : int, optional
        Changes of step 4 in one call. By default a tenth of the pairs, and at least one.
    hysteresis : float
        From 0 (excluded) to 1 (excluded): by which part a change must lower the largest load that it touches.
    horizon : float
        Seconds of arrivals that count as work to be done soon.
    extra : int
        How many places beyond ``ceil(places / members)`` a member may gain in step 4.

    Notes
    -----
    *No starved partition.* Step 2 leaves no place without a member; a change of step 4 takes away a member only
    where it puts another, or where others remain.

    *Bounded movement.* Step 2 adds a pair for each uncovered place, step 3 one for each idle member, and each change
    of step 4 adds at most one pair and revokes at most one: so at most ``budget`` pairs are revoked that could stay.

    *It comes to rest.* Let ``x`` be the largest load that a change touches. Afterwards all loads that it touched are
    below ``x``, and the others are as before: the loads, sorted from the largest, become smaller in dictionary
    order. So while nothing else changes, no assignment comes twice, there are finitely many, and then all stays.

    *No oscillation.* Say a change lowered the largest load it touches from ``x`` to at most ``(1 - h) x``, and that
    since then every weight has changed by a factor of at most ``f``, up or down. Undoing it would have to lower the
    same members' largest load, now at most ``f (1 - h) x``, by ``h`` to what is now at least ``x / f``. Then
    ``x / f <= (1 - h) f (1 - h) x``, that is ``f >= 1 / (1 - h)``. So with ``h = 0.1`` and all else equal, no change
    is undone before some weight has changed by a ninth.

    *Bounded sessions.* A member gains no place beyond ``ceil(places / members) + extra``, but in steps 2 and 3.
    """
    if not 0 < hysteresis < 1:
        raise InputError(f"the hysteresis is {hysteresis}: choose one between 0 and 1, such as 0.1")
    weights = {place: lag + horizon * (group.rate(place) or 0.0) + 1 for place, lag in lags(group).items()}
    draft = _Loads(group, weights)
    for place in sorted(weights, key=lambda place: (-weights[place], place)):
        if not draft.pairs.count(place):
            draft.add(min(group.subscribers[place[0]], key=lambda member: (draft.load[member], member)), place)
    for member in draft.pairs.idle():
        draft.add(member, min(draft.pairs.open_to(member), key=lambda place: (-draft.each(place), place)))
    most = math.ceil(len(weights) / max(len(group.members), 1)) + extra
    changes = max(1, sum(1 for _ in draft.pairs) // 10) if budget is None else budget
    for _ in range(changes):
        change = _best_change(draft, hysteresis, most)
        if change is None:
            break
        draft.apply(change)
    return draft.pairs.assignment()


class _Change(NamedTuple):
    """Pairs to drop and to add, at most one of each."""

    drop: tuple[str, Place] | None
    add: tuple[str, Place] | None


class _Loads:
    """Pairs and the loads that they make."""

    def __init__(self, group: Group, weights: dict[Place, float]) -> None:
        self.pairs = Pairs.kept(group)
        self.weights = weights
        self.load = {member: self._sum(member) for member in self.pairs.places_of}

    def each(self, place: Place) -> float:
        """What each member of a place has to do there."""
        return self.weights[place] / max(self.pairs.count(place), 1)

    def add(self, member: str, place: Place) -> None:
        """Add a pair."""
        self.apply(_Change(None, (member, place)))

    def apply(self, change: _Change) -> None:
        """Make a change. Loads are summed anew, in order, so that they depend on the pairs alone."""
        touched = self.touched(change)
        if change.drop is not None:
            self.pairs.drop(*change.drop)
        if change.add is not None:
            self.pairs.add(*change.add)
        for member in touched:
            self.load[member] = self._sum(member)

    def touched(self, change: _Change) -> set[str]:
        """The members whose load a change changes."""
        members: set[str] = set()
        for pair in change:
            if pair is not None:
                members |= {pair[0]} | self.pairs.members_of[pair[1]]
        if change.drop is not None and change.add is not None and change.drop[1] == change.add[1]:
            return {change.drop[0], change.add[0]}  # a hand-over: the place has as many members as before
        return members

    def peak_after(self, change: _Change, touched: set[str]) -> float:
        """The largest load among those whom a change touches, if it were made."""
        after = dict.fromkeys(touched, 0.0)
        for member in touched:
            after[member] = self.load[member]
        count = {pair[1]: self.pairs.count(pair[1]) for pair in change if pair is not None}
        new = dict(count)
        if change.drop is not None:
            new[change.drop[1]] -= 1
        if change.add is not None:
            new[change.add[1]] += 1
        for place in count:
            before, then = self.weights[place] / count[place], self.weights[place] / max(new[place], 1)
            for member in self.pairs.members_of[place] & touched:
                after[member] += then - before
            if change.drop is not None and change.drop[1] == place:
                after[change.drop[0]] -= then
            if change.add is not None and change.add[1] == place:
                after[change.add[0]] += then
        return max(after.values())

    def _sum(self, member: str) -> float:
        return math.fsum(self.each(place) for place in self.pairs.places_of[member])


def _best_change(draft: _Loads, hysteresis: float, most: int) -> _Change | None:
    """The change that relieves the heaviest member that can be relieved."""
    by_load = sorted(draft.load, key=lambda member: (draft.load[member], member))
    shared = {
        member: [place for place in sorted(places) if draft.pairs.count(place) > 1]
        for member, places in sorted(draft.pairs.places_of.items())
    }
    for heavy in reversed(by_load):
        target = draft.load[heavy] * (1 - hysteresis)
        light = by_load[: bisect_left(by_load, target, key=draft.load.__getitem__)]
        best: tuple[tuple[float, bool, str], _Change] | None = None
        for change in chain(_relieving(draft, heavy, light, target, most), _reseating(draft, heavy, shared, target)):
            touched = draft.touched(change)
            before = max(draft.load[member] for member in touched)
            after = draft.peak_after(change, touched)
            if after <= before * (1 - hysteresis) * (1 - 1e-9):
                rank = (after, change.drop is not None, repr(change))
                if best is None or rank < best[0]:
                    best = rank, change
        if best is not None:
            return best[1]
    return None


def _relieving(draft: _Loads, heavy: str, light: list[str], target: float, most: int) -> Iterator[_Change]:
    """Let the lightest of the others join a place of the heavy member or take it over, or let the member leave it."""
    for place in sorted(draft.pairs.places_of[heavy]):
        weight, count = draft.weights[place], draft.pairs.count(place)
        for member in light:
            if draft.load[member] + weight / (count + 1) > target:
                break
            if draft.pairs.load(member) < most and draft.pairs.allowed(member, place):
                yield _Change(None, (member, place))
                if draft.load[member] + weight / count <= target:
                    yield _Change((heavy, place), (member, place))
                break  # nobody heavier would leave a smaller load
        if count > 1 and draft.pairs.load(heavy) > 1:
            yield _Change((heavy, place), None)


def _reseating(draft: _Loads, heavy: str, shared: dict[str, list[Place]], target: float) -> Iterator[_Change]:
    """Let another leave a place that has others for one of the heavy member."""
    for place in sorted(draft.pairs.places_of[heavy]):
        share = draft.weights[place] / (draft.pairs.count(place) + 1)
        for member, leaving in shared.items():
            for left in leaving:
                if draft.load[member] - draft.each(left) + share <= target and draft.pairs.allowed(member, place):
                    yield _Change((member, left), (member, place))
