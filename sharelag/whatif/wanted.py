"""The fewest members that keep records young at the rate that comes, with the reason.

    wanted = members_wanted(bench.evidence("billing"), "billing", goal="30s")
    wanted.members, wanted.reason

By the sums of `sharelag.whatif.autoscale.fewest`, so that what ``/keda/GROUP`` says can be
simulated, as ``target-age:goal=30s,utilization=fewest``. What is stuck, no number of members
finishes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sharelag.durations import duration, parse_duration
from sharelag.errors import InputError
from sharelag.metrics.causes import CauseInputs, count_stuck
from sharelag.metrics.evidence import Evidence
from sharelag.tables.declared import trials
from sharelag.tables.words import counted, number
from sharelag.whatif.autoscale import Fewest, fewest
from sharelag.whatif.comparison.rows import unknown_work
from sharelag.whatif.from_cluster import scenario_from
from sharelag.whatif.horizon import rates

#: One answer.
WANTED = trials.WANTED.schema


@dataclass(frozen=True)
class Wanted:
    """The answer about one group.

    Attributes
    ----------
    members
        The fewest that keep the goal; None: not known.
    reason
        Why so many, or why that is not known.
    group, goal_ms
        Whose members, and below which age.
    arriving, each
        Records that arrive a second, and that a busy member finishes; None: not known.
    waiting, stuck
        Unfinished offsets that members can finish, and others; None: not known.
    """

    members: int | None
    reason: str
    group: str
    goal_ms: float
    arriving: float | None = None
    each: float | None = None
    waiting: int | None = None
    stuck: int | None = None

    def __str__(self) -> str:
        if self.members is None:
            return f"{self.group}: members wanted are not known: {self.reason}"
        return f"{self.group}: {counted(self.members, 'member')} wanted: {self.reason}"

    def row(self) -> dict[str, Any]:
        """Return the answer by names of columns."""
        return {
            "group_id": self.group,
            "members_wanted": self.members,
            "goal": duration(self.goal_ms),
            "arrival_rate": self.arriving,
            "member_rate": self.each,
            "waiting": self.waiting,
            "stuck": self.stuck,
            "why": self.reason,
        }


def members_wanted(evidence: Evidence, group: str | None = None, goal: str = "30s") -> Wanted:
    """Return the fewest members that keep a group's records younger than a goal, and why so many.

    Parameters
    ----------
    evidence : Evidence
        As `sharelag.gather` or ``bench.evidence()`` gives it.
    group : str, optional
        May be left out when there is one only.
    goal : str
        The age to stay below, a duration.

    Raises
    ------
    InputError
        There is no such group, or the goal is not a duration.
    """
    goal_ms = parse_duration(goal).total_seconds() * 1000
    if goal_ms <= 0:
        raise InputError(f"records cannot stay younger than {goal}: give a goal such as 30s")
    scenario = scenario_from(evidence, group)
    name = scenario.group_id
    if evidence.lag_only:
        return Wanted(None, "only lag was read", name, goal_ms)
    facts = CauseInputs.of(evidence, None)
    mine = facts.groups.astype(str) == name
    left, held = facts.left[mine], count_stuck(facts)[mine]
    if np.isnan(left).any():
        many = counted(int(np.isnan(left).sum()), "share partition")
        return Wanted(None, f"the lag of {many} is not known", name, goal_ms)
    waiting, apart = int((left - held).sum()), int(held.sum())
    known = {"waiting": waiting, "stuck": apart}
    arrivals = facts.progress("arrival_rate")[mine]
    if np.isnan(arrivals).any():
        many = counted(int(np.isnan(arrivals).sum()), "share partition")
        return Wanted(None, f"the rate of arrivals of {many} is not known", name, goal_ms, **known)
    arriving, each = float(np.maximum(arrivals, 0).sum()), rates(scenario).each
    if not (arriving or waiting):
        nothing = _apart("nothing waits and nothing arrives", apart)
        return Wanted(0, nothing, name, goal_ms, 0.0, **known)
    if unknown := unknown_work(scenario) or ("" if each else "their work takes no time"):
        why = unknown.removeprefix("not known: ").partition("; give it")[0]
        return Wanted(None, why, name, goal_ms, arriving, **known)
    found = fewest(arriving, each, waiting, goal_ms)
    reason = _apart(_reason(found, arriving, each, waiting, duration(goal_ms)), apart)
    return Wanted(found.members, reason, name, goal_ms, arriving, each, **known)


def _apart(reason: str, stuck_offsets: int) -> str:
    if not stuck_offsets:
        return reason
    verb = "is" if stuck_offsets == 1 else "are"
    return f"{reason}; {stuck_offsets:,} more {verb} stuck, which no number of members finishes"


def _reason(found: Fewest, arriving: float, each: float, waiting: int, goal: str) -> str:
    pace = f"a busy member finishes {number(each)} a second"
    if found.catch_up > found.keep_up:
        return (
            f"{waiting:,} offsets wait, to be finished within {goal} beside {number(arriving)} "
            f"that arrive a second, and {pace}; {found.keep_up} would keep up"
        )
    return f"{number(arriving)} records arrive a second and {pace}, so that they stay below {goal}"
