"""Forecast when each partition is drained under an assignment, treating records as a fluid."""

from __future__ import annotations

import math
from collections.abc import Mapping

from sharelag.errors import InputError
from sharelag.whatif.assignors.group import Assignment, Group, Place

ServiceRate = float | Mapping[str, float]


def predicted_drain(
    group: Group, assignment: Assignment, service_rate: ServiceRate = 1.0
) -> dict[Place, float | None]:
    """Predict when each assignable partition of a subscribed topic has no lag left.

    Each member divides its time equally among those of its partitions that have lag left, as
    fetches rotate. What arrives in partitions already drained is served first. A rate that is not
    known is taken to be nothing arriving.

    Parameters
    ----------
    group : Group
        With the lag and the rate of the partitions.
    assignment : dict
        What an assignor answered.
    service_rate : float or mapping of str to float
        Records that a member finishes a second: of all, or of each by member id.

    Returns
    -------
    dict
        Seconds by place: ``inf`` where it would never be drained, None where the lag is not known.
    """
    import numpy as np

    rates = service_rates(group, service_rate)
    known = [place for place in group.places if group.lag(place) is not None]
    at = {place: column for column, place in enumerate(known)}
    row = {member.id: number for number, member in enumerate(group.members)}
    has = np.zeros((len(row), len(known)))
    for member, topics in assignment.items():
        for topic, partitions in topics.items():
            for partition in partitions:
                if (topic, partition) in at:
                    has[row[member], at[topic, partition]] = 1.0
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
    """Records a second by member id.

    Raises
    ------
    InputError
        A member has none, or one that is not above 0.
    """
    if isinstance(service_rate, Mapping):
        rates = {member.id: service_rate.get(member.id, math.nan) for member in group.members}
    else:
        rates = {member.id: float(service_rate) for member in group.members}
    for member, rate in rates.items():
        if not (math.isfinite(rate) and rate > 0):
            raise InputError(
                f"member {member!r} has no service rate above 0: "
                f"give 'service_rate' in records a second"
            )
    return rates
