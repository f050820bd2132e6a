"""A bound for the other assignors: the best assignment, from a linear or an integer program.

Let ``z`` be the inverse of the time until everything is drained, and ``y`` the share of a member's
time for a place. Then

    maximise z   where   sum of rate * y over the members of a place >= lag * z + its arrivals
                         sum of y over the places of a member <= 1

is a linear program. A limit of places per member, or of moves, needs ``x``, whether a member has a
place: ``x`` is an integer, ``y <= x``, the sum of ``x`` over the members of a place is at least 1,
and over the places of a member at most the limit. Members divide their time freely here, so no
group can do better.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any

from sharelag.errors import InputError
from sharelag.whatif.assignors.by_count import Pairs, cover
from sharelag.whatif.assignors.by_lag import Weights, lags
from sharelag.whatif.assignors.contract import ServiceRate, service_rates
from sharelag.whatif.assignors.group import Assignment, AssignorError, Group, Place

#: The cost of all added pairs together, so small that it only breaks ties.
_TIE = 1e-3
#: Shares of a member's time below this are rounding errors.
_NOTHING = 1e-9


@dataclass(frozen=True)
class Optimum:
    """The assignment that drains everything soonest, as far as the search went."""

    assignment: Assignment
    #: Seconds until everything is drained if members divide their time optimally (``inf`` if more
    #: arrives than can be served), and a lower bound for all assignments within the limits.
    drain: float
    bound: float
    #: The share of its arrivals with which every place can be served; 1 unless ``drain`` is
    #: ``inf``.
    served: float


def optimum(
    group: Group,
    service_rate: ServiceRate = 1.0,
    partitions_per_member: int | None = None,
    moves: int | None = None,
    gap: float = 0.01,
    nodes: int = 500,
) -> Optimum:
    """Search for the assignment that drains everything soonest (by HiGHS, through SciPy).

    Parameters
    ----------
    group : Group
        With lag and rate. An unknown lag counts as the mean of the others, an unknown rate as 0.
    service_rate : float or mapping of str to float
        Records that a member finishes per second: of all members, or by member id.
    partitions_per_member : int, optional
        The limit. By default there is none, and the bound holds for every assignor.
    moves : int, optional
        The number of pairs that may be added to the current ones; by default any number.
    gap : float
        With a limit, the search may stop this close to the bound (as a share of it).
    nodes : int
        With a limit, the search stops after this many nodes; not after a time, so that answers are
        reproducible.

    Raises
    ------
    AssignorError
        No assignment satisfies the limits, or none was found within ``nodes``.
    InputError
        A limit or a rate is invalid.
    """
    rates = service_rates(group, service_rate)
    if partitions_per_member is not None and partitions_per_member < 1:
        raise InputError(
            f"a limit of {partitions_per_member} partitions per member leaves all unserved: "
            f"give 1 or more"
        )
    if not group.places:
        return Optimum(Pairs(group).assignment(), 0.0, 0.0, 1.0)
    model = _Model(group, rates, partitions_per_member, moves)
    # In units of all members' speed over the whole lag, z is between 0 and 1.
    speed = model.total_rate / sum(model.lag.values())
    if (found := model.solve(model.lag, model.rate, speed, gap, nodes)) is not None:
        pairs, *parts = found
        drain, bound = (1 / (speed * part) if part > 0 else math.inf for part in parts)
        return Optimum(_employ(pairs, model), drain, min(bound, drain), 1.0)
    arriving = sum(model.rate.values())
    if arriving:  # perhaps more than can be served: then serve all in the same proportion
        nothing = dict.fromkeys(group.places, 0.0)
        found = model.solve(model.rate, nothing, model.total_rate / arriving, gap, nodes)
    if found is None:
        raise AssignorError(
            f"no assignment serves every partition with at most {partitions_per_member} partitions "
            f"per member and {moves} moves (None: any number): raise these limits"
        )
    pairs, served, _ = found
    served = served * model.total_rate / arriving
    return Optimum(_employ(pairs, model), math.inf, math.inf, served)


@wraps(optimum, assigned=())
def optimal(group: Group, **options: Any) -> Assignment:
    """Find the assignment that drains everything soonest, with a solver.

    The options are those of `optimum`.
    """
    return optimum(group, **options).assignment


class _Model:
    """The program of a group; ``actors`` are ids of interchangeable members."""

    def __init__(
        self, group: Group, rates: dict[str, float], limit: int | None, moves: int | None
    ) -> None:
        self.group, self.rates, self.limit, self.moves = group, rates, limit, moves
        self.whole = limit is not None or moves is not None
        self.lag = lags(group)
        self.rate = {place: float(group.rate(place) or 0) for place in group.places}
        subscribed = sorted(set().union(*group.subscribers.values()))
        self.total_rate = sum(rates[member] for member in subscribed)
        # Without a limit, or with one place per member, equal members are interchangeable.
        apart = moves is not None or (limit is not None and limit > 1)
        alike: dict[Any, list[str]] = {}
        for member in subscribed:
            topics = tuple(topic for topic, ids in group.subscribers.items() if member in ids)
            alike.setdefault(member if apart else (topics, rates[member]), []).append(member)
        self.actors = [tuple(ids) for ids in alike.values()]
        self.options = [
            (ids, place)
            for ids in self.actors
            for place in group.places
            if ids[0] in group.subscribers[place[0]]
        ]
        # Options that no member has yet.
        self.added = [
            at
            for at, (ids, place) in enumerate(self.options)
            if not any(place in group.current[member] for member in ids)
        ]

    def solve(
        self, per_unit: Weights, floor: Weights, unit: float, gap: float, nodes: int
    ) -> tuple[Pairs, float, float] | None:
        """Return pairs, the largest share of ``unit * per_unit`` beyond all floors, and its bound.

        None if there is no solution. Columns: ``x`` of every option, then ``y``, then that share.
        """
        import numpy as np
        from scipy import optimize, sparse

        count = len(self.options)
        rows, low, high = zip(*self._rows(per_unit, floor, unit), strict=True)
        numbers = np.repeat(np.arange(len(rows)), [len(terms) for terms in rows])
        columns = [column for terms in rows for column in terms]
        values = [value for terms in rows for value in terms.values()]
        sizes = np.array([len(ids) for ids, _ in self.options], float)
        cost = np.zeros(2 * count + 1)
        cost[[at + (0 if self.whole else count) for at in self.added]] = _TIE / count
        cost[2 * count] = -1.0
        whole = np.full(count, int(self.whole))
        terms = sparse.csr_array((values, (numbers, columns)), shape=(len(rows), 2 * count + 1))
        answer = optimize.milp(
            cost,
            integrality=np.concatenate([whole, np.zeros(count + 1)]),
            bounds=optimize.Bounds(0, np.concatenate([sizes, sizes, [1.0]])),
            constraints=optimize.LinearConstraint(terms, low, high),
            options={"mip_rel_gap": gap, "node_limit": nodes} if self.whole else {},
        )
        if answer.x is None:
            if answer.status == 1:
                raise AssignorError(
                    f"no assignment was found within {nodes} nodes of the search: raise nodes"
                )
            return None
        part = float(answer.x[2 * count])
        if not self.whole:
            return self._lay_out(answer.x[count : 2 * count]), part, min(part + _TIE, 1.0)
        dual = answer.mip_dual_bound
        bound = 1.0 if dual is None else min(_TIE - dual, 1.0)
        return self._seat(np.rint(answer.x[:count]).astype(int)), part, bound

    def _rows(
        self, per_unit: Weights, floor: Weights, unit: float
    ) -> Iterator[tuple[dict[int, float], float, float]]:
        """Yield the constraints: coefficients by column, lower and upper bound."""
        count = len(self.options)
        of_place: dict[Place, list[int]] = {place: [] for place in self.group.places}
        of_actor: dict[tuple[str, ...], list[int]] = {ids: [] for ids in self.actors}
        for at, (ids, place) in enumerate(self.options):
            of_place[place].append(at)
            of_actor[ids].append(at)
        for place, ats in of_place.items():
            work = {count + at: self.rates[self.options[at][0][0]] for at in ats}
            yield work | {2 * count: -per_unit[place] * unit}, floor[place], math.inf
        for ids, ats in of_actor.items():
            yield {count + at: 1.0 for at in ats}, -math.inf, len(ids)
        if not self.whole:
            return
        for at in range(count):
            yield {count + at: 1.0, at: -1.0}, -math.inf, 0.0
        for ats in of_place.values():
            yield dict.fromkeys(ats, 1.0), 1.0, math.inf
        for ids, ats in of_actor.items():
            if self.limit is not None:
                yield dict.fromkeys(ats, 1.0), -math.inf, self.limit * len(ids)
        if self.moves is not None and self.added:
            yield dict.fromkeys(self.added, 1.0), -math.inf, self.moves

    def _lay_out(self, times: Any) -> Pairs:
        """Lay the times of places end to end and cut them into members (McNaughton): few pairs."""
        pairs = Pairs(self.group)
        for ids in self.actors:
            now = 0.0
            for (who, place), time in zip(self.options, times, strict=True):
                if who == ids and time > _NOTHING:
                    last = math.ceil(now + time - _NOTHING)
                    for member in ids[int(now + _NOTHING) : last]:
                        pairs.add(member, place)
                    now += time
        cover(pairs)  # places without work
        return pairs

    def _seat(self, chosen: Any) -> Pairs:
        pairs, has = Pairs(self.group), self.group.current
        for ids in self.actors:
            each = zip(self.options, chosen, strict=True)
            seats = {place: int(n) for (who, place), n in each if who == ids}
            if self.limit != 1:
                for place in (place for place, n in seats.items() if n):
                    pairs.add(ids[0], place)
                continue
            left = list(ids)
            for keep in (True, False):  # members keep their places first, as far as there is room
                for place in seats:
                    fitting = [one for one in left if not keep or place in has[one]]
                    for member in fitting[: seats[place]]:
                        pairs.add(member, place)
                        left.remove(member)
                        seats[place] -= 1
        return pairs


def _employ(pairs: Pairs, model: _Model) -> Assignment:
    """Let idle members join the places with the most lag per member, within the allowed moves."""
    used = sum(place not in pairs.group.current[member] for member, place in pairs)
    for member in pairs.idle():
        if model.moves is None or used < model.moves:
            place = pairs.join(member, lambda place: -model.lag[place] / pairs.count(place))
            used += place not in pairs.group.current[member]
    return pairs.assignment()
