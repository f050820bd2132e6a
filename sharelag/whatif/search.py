"""Search for the fewest members that keep a measure within a limit.

    found = fewest_members(scenario, goal=Goal("age_p95_ms", 30_000))
    found.members       # None: even the most members do not
    found.probes        # every number that was tried

The search assumes that more members do better, and checks this at its end. Only the number of
members is varied; with the same seed, chance is the same for all numbers.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from math import inf
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.durations import duration, parse_duration, spell
from sharelag.errors import InputError
from sharelag.tables import views
from sharelag.tables.declared import trials
from sharelag.tables.displayable import Displayable
from sharelag.tables.presentation import Presentation
from sharelag.tables.words import pluralize
from sharelag.whatif.comparison import rows as words
from sharelag.whatif.comparison.intervals import Floats, fewest_equal, known, one_sided_interval
from sharelag.whatif.comparison.tables import MEASURED, RUNS
from sharelag.whatif.grid import Progress, further, in_turn, require_fixed, require_seeds
from sharelag.whatif.horizon import rates
from sharelag.whatif.presenting import present
from sharelag.whatif.scenario import Scenario

_KNOWN = tuple(name for name in MEASURED if name in RUNS.names)
_UNITS = {"h": 3_600_000, "m": 60_000, "s": 1000}
_GOAL = re.compile(r"\s*(\w+?)\s*(<=?|>=?)\s*(\d[\w. ]*%?)\s*")


@dataclass(frozen=True)
class Goal:
    """A goal: the mean of a measure over the seeds is at most, or at least, a limit.

    Attributes
    ----------
    measure
        A key of `sharelag.whatif.comparison.tables.MEASURED`, such as ``age_p95_ms``.
    limit
        In the unit of the measure; the limit itself meets the goal.
    above
        Whether the measure has to be above the limit instead of below.
    confidence
        Confidence that the goal is met, for each number of members.
    """

    measure: str
    limit: float
    above: bool = False
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if self.measure not in _KNOWN:
            raise InputError(f"unknown measure {self.measure!r}: choose one of {', '.join(_KNOWN)}")
        if not 0 <= self.limit < inf:
            raise InputError(f"the limit of {self.measure} cannot be {self.limit}: give at least 0")
        if not 0.5 < self.confidence < 1:
            raise InputError(f"confidence must be above 0.5 and below 1, not {self.confidence}")

    @classmethod
    def parse(cls, text: str | Goal, confidence: float = 0.95) -> Goal:
        """Read ``age_p95<30s``, ``lag_p95 <= 1000`` or ``redelivered_share<1%``.

        Parameters
        ----------
        text : str or Goal
            The measure of a time may also be its column name: ``age_p95_ms<30s``. A goal is
            returned as it is.
        confidence : float
            The confidence with which the goal has to be met, above 0.5.

        Raises
        ------
        InputError
            The text has another format.
        """

        def invalid(fix: str) -> InputError:
            return InputError(f"invalid goal {text!r}: {fix}")

        if isinstance(text, Goal):
            return text
        found = _GOAL.fullmatch(text)
        if not found:
            raise invalid("write a measure and its limit, such as age_p95<30s")
        written, sign, limit = found.groups()
        measure = f"{written}_ms" if f"{written}_ms" in _KNOWN else written
        is_percent = limit.endswith("%") and measure.endswith("_share")
        try:
            number = float(limit[:-1]) / 100 if is_percent else float(limit)
        except ValueError:
            number = None
        if measure in _KNOWN and measure.endswith("_ms"):
            if number is not None:
                name = measure.removesuffix("_ms")
                unit = "ms" if written == measure else "s"
                raise invalid(f"the limit needs a unit, such as {name}{sign}{limit}{unit}")
            try:
                number = parse_duration(limit) / timedelta(milliseconds=1)
            except InputError as error:
                raise invalid(str(error)) from None
        elif number is None and measure in _KNOWN:
            raise invalid(f"the limit of {measure} is a number, such as {measure}{sign}1000")
        return cls(measure, number or 0.0, sign.startswith(">"), confidence)

    @property
    def sign(self) -> int:
        """1 if less is better, -1 if more is."""
        return -1 if self.above else 1

    def __str__(self) -> str:
        """Return the goal as `parse` reads it, a time in the largest unit that is not above it."""
        limit = f"{self.limit:.12g}"
        if self.measure.endswith("_share"):
            limit = f"{100 * self.limit:.12g}%"
        elif self.measure.endswith("_ms"):
            sizes = ((size, f"{self.limit / size:.12g}", unit) for unit, size in _UNITS.items())
            fits = (
                digits + unit
                for size, digits, unit in sizes
                if float(digits) * size == self.limit >= size
            )
            limit = next(fits, f"{limit}ms")
        return f"{self.measure.removesuffix('_ms')} {'>=' if self.above else '<='} {limit}"


#: One number of members that was tried.
PROBES = trials.PROBES.schema


@dataclass(frozen=True)
class Found(Displayable):
    """The result of a search.

    Attributes
    ----------
    members
        The fewest that meet the goal; None if none of those tried does.
    goal
        The goal.
    probes
        One row per number of members that was tried, ascending: `PROBES`.
    runs
        One row per run: `sharelag.whatif.comparison.tables.RUNS`.
    monotone
        Whether more members never miss what fewer meet. If not, the answer is the smallest number
        that was found, and there may be others.
    over
        How long was simulated, and whether that number falls behind by the rates, in words.
    """

    members: int | None
    goal: Goal
    probes: pa.Table
    runs: pa.Table
    monotone: bool
    over: str = ""

    def presentation(self) -> Presentation:
        """Return the table that is displayed."""
        probes = [words.probe_for_people(row) for row in self.rows()]
        measure = self.goal.measure
        goal_words = str(self).replace(measure.removesuffix("_ms"), words.measure_words(measure))
        return present(f"Fewest members: {goal_words}", probes, views.PROBES.without("variant"))

    def rows(self, variant: str = "") -> list[dict[str, Any]]:
        """Return one row per number of members that was tried."""
        over = {"duration_ms": pc.max(self.runs.column("duration_ms")).as_py()}
        about = {"variant": variant, "goal": str(self.goal), **over}
        rows = self.probes.to_pylist()
        return [about | row | {"answer": row["members"] == self.members} for row in rows]

    @property
    def undecided(self) -> tuple[int, ...]:
        """Numbers of members for which the runs do not decide the goal; more seeds may."""
        return tuple(row["members"] for row in self.rows() if row["met"] is None)

    @property
    def identical(self) -> tuple[int, ...]:
        """Numbers of members whose runs are all equal, but too few to rule out chance."""
        unbounded = (row for row in self.rows() if row["low"] is None)
        return tuple(row["members"] for row in unbounded if row["mean"] is not None)

    def __str__(self) -> str:
        tried = self.probes.column("members").to_pylist()
        verdict = f"no number of members tried, from {min(tried)} to {max(tried)}, reliably keeps"
        verdict += f" {self.goal}"
        if self.members is not None:
            keep = f"{pluralize(self.members, 'member')} keep{'s' * (self.members == 1)}"
            sure = f"{100 * self.goal.confidence:g} % confidence"
            verdict = f"{keep} {self.goal}, with {sure}, {self.over}"
        if self.undecided:
            verdict += f"; these seeds do not decide: {', '.join(map(str, self.undecided))}"
        if self.identical:
            alike = ", ".join(map(str, self.identical))
            least = fewest_equal(2 * self.goal.confidence - 1)
            verdict += f" (all runs with {alike} are equal; a verdict needs {least} seeds then)"
        if not self.monotone:
            verdict += "; more members are not always better here, see the probes"
        return verdict


def fewest_members(
    scenario: Scenario,
    *,
    goal: Goal | str,
    seeds: Iterable[int] = range(20),
    between: tuple[int, int] = (1, 64),
    progress: Progress | None = None,
) -> Found:
    """Find the fewest members that meet a goal.

    Parameters
    ----------
    scenario : Scenario
        Its members are multiplied (`Scenario.with_members`); faults of single members are left out.
    goal : Goal or str
        The goal to meet, such as ``age_p95<30s``.
    seeds : iterable of int
        At least two: a single run does not show how much is chance.
    between : (int, int)
        The smallest and the largest number to try.
    progress : callable, optional
        Called with ``(done, all)``, in runs, as far as they are known in advance.

    Raises
    ------
    InputError
        The goal lies beyond the end of the scenario, the processing time is unknown, there are too
        few seeds or numbers, or an autoscaler decides on the members.

    Notes
    -----
    Doubles the number until the goal is met, bisects the range below, and tries the next larger
    number, too. A number suffices only if the runs show it; an undecided one does not.
    """
    require_fixed(scenario)
    goal, seeds = Goal.parse(goal), require_seeds(seeds)
    least, most = between
    if not 0 <= least <= most:
        raise InputError(
            f"the range of {least} to {most} members is empty: give the smaller number first"
        )
    if len(seeds) < 2:
        raise InputError(
            "one run cannot show whether a difference is chance: give at least two seeds"
        )
    require_seen(goal, scenario)
    tried, runs = dict[int, dict[str, Any]](), dict[int, pa.Table]()

    def meets(count: int) -> bool:
        if count not in tried:
            report = further(progress, len(tried) * len(seeds))
            some = {pluralize(count, "member"): scenario.with_members(count)}
            runs[count] = in_turn(some, seeds, progress=report)
            values = np.array(runs[count].column(goal.measure).to_pylist(), np.float64)
            tried[count] = {"members": count, **judge(goal, values)}
        return tried[count]["met"] is True

    members = _search(meets, least, most)
    if members is not None and members < most:
        meets(members + 1)
    rows = [tried[count] for count in sorted(tried)]
    met = [row["met"] for row in rows]
    monotone = not (True in met and False in met[met.index(True) :])
    all_runs = pa.concat_tables([runs[count] for count in sorted(runs)])
    probes = pa.Table.from_pylist(rows, schema=PROBES)
    return Found(members, goal, probes, all_runs, monotone, say_over([goal], scenario, members))


def say_over(goals: Iterable[Goal], scenario: Scenario, members: int | None) -> str:
    """Say how long is simulated, and that members that keep a lag or an age so long fall behind."""
    grows = any(goal.measure.startswith(("lag", "age")) for goal in goals)
    behind = rates(scenario).say_behind(members) if grows and members is not None else ""
    return f"over {duration(scenario.duration_ms)}" + (f"; {behind}" if behind else "")


def require_seen(goal: Goal, scenario: Scenario) -> None:
    """Refuse a goal beyond the end of the scenario, or of work of an unknown duration."""
    if unknown := words.unknown_work(scenario):
        raise InputError(f"whether a group keeps {goal} is {unknown}")
    if MEASURED[goal.measure].censored and goal.limit > scenario.duration_ms:
        raise InputError(
            f"the scenario ends after {spell(timedelta(milliseconds=scenario.duration_ms))}, "
            f"before {goal} can be seen: simulate for longer (--duration, duration_ms)"
        )


def _search(meets: Callable[[int], bool], least: int, most: int) -> int | None:
    """Return the smallest number that meets the goal, assuming that larger ones do, too."""
    missed, at = least - 1, least
    while not meets(at):
        if at == most:
            return None
        missed, at = at, min(max(2 * at, 1), most)
    return bisect_left(range(at), True, missed + 1, at, key=meets)


def judge(goal: Goal, values: Floats) -> dict[str, Any]:
    """Return a goal and whether one-sided bounds of the mean meet it; ``met`` None: undecided."""
    found = one_sided_interval(values, goal.confidence)
    met = None  # all runs may be equal, but too few to rule out chance
    if found.low is not None and found.high is not None:
        least, most = sorted((goal.sign * found.low, goal.sign * found.high))
        limit = goal.sign * goal.limit
        met = True if most <= limit else False if least > limit else None
    elif found.mean is None and MEASURED[goal.measure].censored:
        met = goal.above  # what never happened is beyond every limit
    return {"goal": str(goal), **known(values), **found._asdict(), "met": met}
