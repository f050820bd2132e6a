"""Find settings that keep goals with the fewest member-hours, and their distance to breaking one.

    found = tune(scenario, ["age_p95<30s", "redelivered_share<1%"])
    found                  # each setting: now, recommended, how far it can go
    found.to_set           # Kafka's commands, and what to set elsewhere; nothing is run

scipy's differential evolution evaluates a generation of settings at a time, so that its runs can be
one Spark job. The result is then simplified: a setting that does not matter stays as it is, and
members are removed as long as the goals are kept. Settings that give up more records than the group
does now are not accepted, unless a goal limits how many may be given up.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from sharelag.errors import InputError
from sharelag.model.versions import NEWEST
from sharelag.tables import views
from sharelag.tables.declared import trials as declared
from sharelag.tables.displayable import Displayable
from sharelag.tables.presentation import Presentation
from sharelag.tables.words import THOUSANDS, number, pluralize
from sharelag.whatif.compare import Comparison, compared
from sharelag.whatif.comparison import rows as words
from sharelag.whatif.comparison.intervals import Floats, by_variant_and_seed, on_front
from sharelag.whatif.comparison.tables import MEASURED
from sharelag.whatif.consumers import MOST_MEMBERS
from sharelag.whatif.grid import AS_IT_IS, Progress, Runs, further, in_turn, require_fixed
from sharelag.whatif.horizon import rates
from sharelag.whatif.knobs import MEMBERS, Edge, Knob, Value, as_it_is, knobs, text_of, to_set, turn
from sharelag.whatif.presenting import present
from sharelag.whatif.scenario import Scenario
from sharelag.whatif.search import Goal, judge, require_seen, say_over
from sharelag.whatif.simulate import require_seed

RECOMMENDED, HOURS = "recommended", "member_hours"
TUNED, TRADED = declared.TUNED.schema, declared.TRADED.schema


@dataclass(frozen=True)
class Tuned(Displayable):
    """The result of tuning.

    Attributes
    ----------
    goals
        The goals.
    settings
        One row per setting that could be changed: `TUNED`.
    front
        One row per goal for the group as it is, as recommended, and each point on the Pareto front
        of the goals' measures and member-hours: `TRADED`.
    comparison
        The group as recommended compared with the group as it is, on runs that the tuner did not
        see; its ``scenarios`` are both.
    changed
        Changed values, by setting.
    to_set
        How to set them, in words and Kafka's commands.
    """

    goals: tuple[Goal, ...]
    settings: pa.Table
    front: pa.Table
    comparison: Comparison
    changed: Mapping[str, Value]
    to_set: tuple[str, ...]

    @property
    def kept(self) -> bool:
        """Whether the runs show that the recommendation keeps all goals."""
        return all(row["met"] is True for row in self._rows(RECOMMENDED))

    def _rows(self, variant: str) -> list[dict[str, Any]]:
        return [row for row in self.front.to_pylist() if row["variant"] == variant]

    def verdict(self) -> str:
        """Return one sentence, without a full stop: what keeps the goals, or comes nearest."""
        rows = self._rows(RECOMMENDED)
        measured = words.join_names(
            tuple(f"{row['goal']} ({amount_of(row['goal'], row['mean'])})" for row in rows)
        )
        each = tuple(f"{name}={text_of(one)}" for name, one in self.changed.items())
        what = words.join_names(each) if each else "the group as it is"
        keeps = f"keep{'s' * (len(each) < 2)} {measured}"
        if not self.kept and all(row["met"] is not False for row in rows):
            runs = pluralize(self.comparison.seeds, "seed")
            return f"{runs} do not decide whether {what} {keeps}: give more seeds"
        if not self.kept:
            nearest = what if each else AS_IT_IS
            return f"nothing tried reliably keeps the goals; nearest is {nearest}: {measured}"
        best = self.comparison.scenarios[RECOMMENDED]
        over = say_over(self.goals, best, len(best.each_member()))
        if not each:
            return f"{what} {keeps}, and nothing cheaper was found that does, {over}"
        now, then = (
            number(self._rows(name)[0][HOURS], THOUSANDS) for name in (AS_IT_IS, RECOMMENDED)
        )
        return f"{what} {keeps} for {then} member-hours (as it is: {now}) {over}"

    def gains(self) -> list[str]:
        """Return the gains of the recommendation over the group as it is, by goal and in cost."""
        shown, cells = {*(goal.measure for goal in self.goals), HOURS}, self.comparison.cells
        parts, whose = [], "recommended" if self.kept else "there"
        for name in filter(shown.__contains__, MEASURED):
            usual, found = cells[AS_IT_IS, name], cells[RECOMMENDED, name]
            low, high = (amount_of(name, found[f"difference_{end}"]) for end in ("low", "high"))
            span = "not known" if found["difference_low"] is None else f"difference {low} to {high}"
            now, then = (amount_of(name, cell["mean"]) for cell in (usual, found))
            parts.append(f"{name.removesuffix('_ms')}: {now} as it is, {then} {whose}; {span}")
        return parts

    def conditions(self) -> str:
        """Say how many runs the result rests on, and how to read it."""
        found = self.comparison
        return (
            f"differences are means over {pluralize(found.seeds, 'seed')} that the tuner did not "
            f"see, with {100 * found.confidence:g} % confidence; safe ranges change one setting at "
            "a time"
        )

    def sentences(self) -> list[str]:
        """Return the gains, what to set if that keeps the goals, and the conditions."""
        to_set = self.to_set if self.kept else ()
        return [*self.gains(), *(f"set {one}" for one in to_set), self.conditions()]

    def presentation(self) -> Presentation:
        """Return the settings, with the verdict first among the notes."""
        notes = (self.verdict(), *self.sentences())
        return present("Settings that fit", self.settings.to_pylist(), views.TUNED, notes)

    def traded_for_people(self) -> list[dict[str, Any]]:
        """Return the rows of the front in words."""
        names = ("mean", "low", "high", "difference_from", "difference_to")
        return [
            {**row, "met": words.MET[row["met"]]}
            | {name: amount_of(row["goal"], row[name]) for name in names}
            for row in self.front.to_pylist()
        ]


def amount_of(goal: str, value: float | None) -> str:
    """Return a value of a measure, or of a goal's measure, in words."""
    measure = words.measure_of(goal)
    if value is not None and measure.endswith("_share"):
        return f"{100 * value:.3g} %"
    return words.amount(measure, value) or "not known"


#: A value by knob; None: unchanged, because members differ.
Point: TypeAlias = dict[str, Value | None]
#: By measure, one value per seed.
Values: TypeAlias = dict[str, Floats]

#: Settings in a generation; fewer than scipy's default of ten per knob, as each takes seconds.
_GENERATION = 16
#: Seeds of the search, of the check of its best settings, and of the answer: all different, so that
#: chance in one is not mistaken for skill in the next. Five equal runs rule out chance.
_SEARCH, _CHECK, _FRESH, _APART = range(3), range(100, 105), 1000, 1_000_000
#: How many of the best settings are checked at once; and how often a span to a cliff is bisected.
_CHECKED, _HALVED = 6, 4
#: How far a goal is missed by an event that never happened.
_NEVER = 10.0
#: Parts of the score: settings that miss goals score higher than others; and the weight of being
#: near a limit, which is below that of any member.
_MISSED, _NEAR = 2.0, 1e-4
_MOST_HOURS_PER_MS = MOST_MEMBERS / 3_600_000
#: An increase of given-up records by this factor is chance.
_MORE = 1.01
#: Measures that differ by less than this share are the same.
_EQUAL = 1e-3
_GIVEN_UP = "given up"
_LOST = ("archived", "lost")


def tune(
    scenario: Scenario,
    goals: str | Iterable[Goal | str],
    *,
    ranges: Mapping[str, Any] | None = None,
    trials: int = 96,
    seeds: int = 20,
    seed: int = 0,
    confidence: float = 0.95,
    margins: bool = True,
    settings: pa.Table | None = None,
    kafka_version: str = NEWEST,
    runs: Runs | None = None,
    server: str | None = None,
    command_config: Path | None = None,
    progress: Progress | None = None,
) -> Tuned:
    """Find settings and members that keep goals with the fewest member-hours.

    Parameters
    ----------
    scenario : Scenario
        The group as it is. If members may vary, faults of single members are left out.
    goals : str, or iterable of Goal or str
        Goals that all have to be kept, such as ``age_p95<30s``.
    ranges : mapping, optional
        By name of a setting, ``(low, high)`` of a number, or a fixed value.
    settings : pyarrow.Table, optional
        `sharelag.schemas.SETTINGS` of the group and its brokers; missing ones have Kafka's
        defaults.
    kafka_version : str
        Version of the brokers: earlier ones have some settings for all groups only, or not at all.
    trials : int
        Settings to try in the search.
    seeds : int
        Runs of the answer, which the search does not see.
    seed : int
        Random seed; the same seed gives the same answer.
    confidence : float
        Confidence of goals that are given as text, and of the differences.
    margins : bool
        Whether to determine how far each setting can go, which takes as long as the search.
    runs : callable, optional
        Runs variants and seeds, such as `sharelag.sweep`; by default in this process, in turn.
    server, command_config
        Arguments of the printed commands.
    progress : callable, optional
        Called with ``(done, all)``, in runs, as far as they are known in advance.

    Raises
    ------
    InputError
        No goal is given, a goal lies beyond the end of the scenario, the processing time is
        unknown, no record waits or arrives, a range is invalid, or no setting may change.
    """
    given = [goals] if isinstance(goals, str) else goals
    wanted = tuple(Goal.parse(one, confidence) for one in given)
    if not wanted:
        raise InputError("there is nothing to tune for: give a goal, such as age_p95<30s")
    for goal in wanted:
        require_seen(goal, scenario)
    require_fixed(scenario)
    work = rates(scenario)
    if not work.waiting and not work.arriving:
        raise InputError(
            "nothing waits and nothing arrives, so all settings do the same: choose a group or a "
            "moment with work"
        )
    if trials < 1 or seeds < 2:
        raise InputError("tuning needs at least one trial, and two seeds for its answer: give more")
    each = knobs(scenario, ranges, settings, kafka_version)
    if not any(knob.is_free for knob in each):
        raise InputError("every setting is fixed: leave at least one to choose")
    now = len(scenario.each_member())
    if now and any(knob.name == MEMBERS and knob.is_free for knob in each):
        scenario = scenario.with_members(now)
    foreseen = trials * len(_SEARCH) + 60 * len(_CHECK) + 2 * seeds
    tuner = _Tuner(scenario, each, wanted, runs, require_seed(seed) * _APART, progress, foreseen)
    best = tuner.best(trials, seed)
    changed = tuner.find_changes(best)
    both = {AS_IT_IS: scenario, RECOMMENDED: turn(scenario, changed)}
    fresh = tuner.make(both, range(_FRESH, _FRESH + seeds))
    comparison, answers = compared(fresh, AS_IT_IS, confidence, both), list[dict[str, Any]]()
    for name, one in both.items():
        for goal in wanted:
            values = np.array(list(by_variant_and_seed(fresh, goal.measure)[name].values()))
            cell = comparison.cells[name, goal.measure]
            about = {
                "variant": name,
                "members": len(one.each_member()),
                HOURS: comparison.cells[name, HOURS]["mean"],
                "difference_from": cell["difference_low"],
                "difference_to": cell["difference_high"],
            }
            answers.append(about | judge(goal, values))
    over = {"duration_ms": scenario.duration_ms}
    tuned, front = tuner.settings(best, margins), [*answers, *tuner.front()]
    return Tuned(
        wanted,
        pa.Table.from_pylist([row | over for row in tuned], schema=TUNED),
        pa.Table.from_pylist([row | over for row in front], schema=TRADED),
        comparison,
        changed,
        tuple(to_set(scenario, each, changed, settings, kafka_version, server, command_config)),
    )


@dataclass
class _Tuner:
    """The search over points, with all of its runs."""

    scenario: Scenario
    each: tuple[Knob, ...]
    goals: tuple[Goal, ...]
    runs: Runs | None
    first_seed: int
    progress: Progress | None
    foreseen: int
    done: int = 0
    known: dict[tuple[str, range], Values] = field(default_factory=dict)  # by label and seeds

    def __post_init__(self) -> None:
        self.now = as_it_is(self.scenario, self.each)
        self.points: dict[str, Point] = {AS_IT_IS: self.now}  # by label

    # ---- runs ----

    def make(self, variants: Mapping[str, Scenario], seeds: range) -> pa.Table:
        """Run variants with the seeds of this search."""
        later = self.foreseen - self.done - len(variants) * len(seeds)
        report = further(self.progress, self.done, later)
        runs = self.runs or partial(in_turn, progress=report)
        made = runs(variants, [self.first_seed + one for one in seeds])
        self.done += len(variants) * len(seeds)
        if self.progress is not None:
            self.progress(self.done, max(self.foreseen, self.done))
        return made

    def _measure(self, points: Sequence[Point], seeds: range) -> list[Values]:
        labels = {self.label(point): point for point in points}
        self.points |= labels
        fresh = [label for label in labels if (label, seeds) not in self.known]
        if fresh:
            made = self.make({one: turn(self.scenario, labels[one]) for one in fresh}, seeds)
            measures = (*(goal.measure for goal in self.goals), HOURS, *_LOST)
            by_measure = {name: by_variant_and_seed(made, name) for name in measures}
            for label in fresh:
                values = {
                    name: np.array(list(found[label].values()) or [np.nan])
                    for name, found in by_measure.items()
                }
                values[_GIVEN_UP] = values[_LOST[0]] + values[_LOST[1]]
                self.known[label, seeds] = values
        return [self.known[self.label(point), seeds] for point in points]

    def label(self, point: Point) -> str:
        """Return the settings in which a point differs from the group as it is."""
        changed = self.find_changes(point).items()
        return ", ".join(f"{name}={text_of(value)}" for name, value in changed) or AS_IT_IS

    def find_changes(self, point: Point) -> dict[str, Value]:
        """Return the values in which a point differs from the group as it is."""
        given = ((name, value) for name, value in point.items() if value is not None)
        return {name: value for name, value in given if value != self.now[name]}

    # ---- judging ----

    def _broken(self, values: Values, seeds: range) -> dict[str, float]:
        """Return how far each missed goal is missed by the means, as a share of its limit."""
        missed = {}
        for goal in self.goals:
            mean = float(values[goal.measure].mean())
            off = goal.sign * (mean - goal.limit) / (goal.limit or 1.0)
            if np.isnan(off):
                off = 0.0 if goal.above and MEASURED[goal.measure].censored else _NEVER
            missed[str(goal)] = off
        if not any(goal.measure in _LOST for goal in self.goals):
            (as_now,) = self._measure([self.now], seeds)
            most = float(as_now[_GIVEN_UP].mean()) * _MORE + 1
            missed["no more records given up"] = (float(values[_GIVEN_UP].mean()) - most) / most
        return {name: off for name, off in missed.items() if off > 0}

    def _score(self, values: Values) -> float:
        """Return the score to minimise: missed goals, then cost, then nearness to limits."""
        missed = self._broken(values, _SEARCH)
        hours = float(values[HOURS].mean())
        if missed or np.isnan(hours):
            return _MISSED + sum(missed.values())
        most = _MOST_HOURS_PER_MS * self.scenario.duration_ms
        below = (goal for goal in self.goals if not goal.above)
        near = [float(values[goal.measure].mean()) / (goal.limit or 1.0) for goal in below]
        return hours / most + _NEAR * (sum(near) / len(near) if near else 0.0)

    def _keeps(self, values: Values) -> bool:
        sure = all(judge(goal, values[goal.measure])["met"] for goal in self.goals)
        return sure and not self._broken(values, _CHECK)

    # ---- the search ----

    def best(self, trials: int, seed: int) -> Point:
        """Return the cheapest settings that keep all goals, or those that miss them least."""
        self._evolve(trials, seed)
        searched = [label for label, seeds in self.known if seeds == _SEARCH]
        scores = {one: self._score(self.known[one, _SEARCH]) for one in searched}
        order = sorted(scores, key=scores.__getitem__)
        checked: dict[str, Values] = {}
        for begin in range(0, len(order), _CHECKED):
            few = list(dict.fromkeys([*order[begin : begin + _CHECKED], AS_IT_IS]))
            measured = self._measure([self.points[one] for one in few], _CHECK)
            checked |= zip(few, measured, strict=True)
            if sure := [one for one in few if self._keeps(checked[one])]:
                cheapest = min(sure, key=lambda one: checked[one][HOURS].mean())
                return self._simplify(self.points[cheapest])
            if scores[order[begin]] >= _MISSED:
                break  # all that follow miss a goal already
        each = checked.items()
        missed = {one: sum(self._broken(values, _CHECK).values()) for one, values in each}
        nearest = min(missed, key=missed.__getitem__)
        return self.points[nearest] if missed[nearest] * _MORE < missed[AS_IT_IS] else self.now

    def _evolve(self, trials: int, seed: int) -> None:
        """Try settings, a generation at a time; the results are kept in `known`."""
        from scipy.optimize import differential_evolution  # takes a second to load
        from scipy.stats import qmc

        free = [knob for knob in self.each if knob.is_free]
        stays: Point = {knob.name: knob.at(0.0) for knob in self.each}
        size = max(min(_GENERATION, trials), 5)  # scipy takes no smaller one
        drawn = qmc.LatinHypercube(len(free), rng=seed).random(size)
        values = ((knob, self.now[knob.name]) for knob in free)
        now = [0.5 if value is None else knob.share_of(value) for knob, value in values]
        drawn[0] = now  # then the same settings with fewer and more members
        for place, knob in enumerate(free):
            if knob.name == MEMBERS:
                for row, factor in enumerate((0.5, 1.5, 2.5), start=1):
                    drawn[row] = now
                    count = max(round(int(self.now[MEMBERS] or 1) * factor), 1)
                    drawn[row, place] = knob.share_of(count)

        def scores(shares: Floats) -> Floats:
            rows = (zip(free, row, strict=True) for row in np.atleast_2d(shares.T).tolist())
            points = [stays | {knob.name: knob.at(share) for knob, share in row} for row in rows]
            return np.array([self._score(one) for one in self._measure(points, _SEARCH)])

        at_once = {"updating": "deferred", "vectorized": True}
        how = {"tol": 0, "mutation": (0.4, 0.9), "polish": False, "rng": seed} | at_once
        generations = max(trials // size - 1, 0)
        bounds = [(0.0, 1.0)] * len(free)
        differential_evolution(scores, bounds, init=drawn, maxiter=generations, **how)

    def _simplify(self, point: Point) -> Point:
        """Remove members as long as goals are kept, then restore settings that do not matter."""

        def is_enough(count: int) -> bool:
            return self._keeps(self._measure([point | {MEMBERS: count}], _CHECK)[0])

        (members,) = (knob for knob in self.each if knob.name == MEMBERS)
        fewer = range(members.low, int(point[MEMBERS] or 0))
        # One fewer first: the search mostly ends near the minimum.
        if fewer and is_enough(fewer[-1]):
            point = point | {MEMBERS: fewer[bisect_left(fewer[:-1], True, key=is_enough)]}
        cost = self._measure([point], _CHECK)[0][HOURS].mean()
        for knob in self.each:
            now = self.now[knob.name]
            may_be = now is None or knob.at(knob.share_of(now)) == now
            if knob.name == MEMBERS or not may_be or point[knob.name] == now:
                continue
            tried = point | {knob.name: now}
            (values,) = self._measure([tried], _CHECK)
            if self._keeps(values) and values[HOURS].mean() <= cost * _MORE:
                point = tried
        return point

    # ---- the answer ----

    def settings(self, best: Point, margins: bool) -> list[dict[str, Any]]:
        """Return the rows of `TUNED`."""
        is_kept = margins and not self._broken(self._measure([best], _CHECK)[0], _CHECK)
        edges = self._edges(best) if is_kept else {}
        others = [
            (knob.name, choice)
            for knob in self.each
            if is_kept and len(knob.choices) > 1
            for choice in knob.choices
            if choice != best[knob.name]
        ]
        lost: dict[str, list[str]] = {}
        measured = self._measure([best | {name: choice} for name, choice in others], _CHECK)
        for (name, choice), values in zip(others, measured, strict=True):
            if missed := self._broken(values, _CHECK):
                lost.setdefault(name, []).append(f"{text_of(choice)}: {', '.join(missed)}")
        rows = []
        for knob in self.each:
            now, value = self.now[knob.name], best[knob.name]
            down, up = (edges.get((knob, is_up)) for is_up in (False, True))
            cliffs = [one.cliff for one in (down, up) if one is not None and one.cliff]
            row = {
                "setting": knob.name,
                "whose": knob.whose,
                "now": None if now is None else text_of(now),
                "recommended": text_of(value) if value is not None else AS_IT_IS,
                "safe_from": None if down is None else str(down.good),
                "safe_to": None if up is None else str(up.good),
                "cliff": "; ".join([*cliffs, *lost.get(knob.name, [])]) or None,
            }
            rows.append(row)
        return rows

    def _edges(self, best: Point) -> dict[tuple[Knob, bool], Edge]:
        """Return how far each number can go, down and up, with all else as recommended."""
        edges = {
            (knob, is_up): Edge(int(value), knob.high if is_up else knob.low)
            for knob in self.each
            if knob.is_free and not knob.choices and (value := best[knob.name]) is not None
            for is_up in (False, True)
        }
        for _ in range(1 + _HALVED):
            due = {where: one for where, one in edges.items() if one.next != one.good}
            points = [best | {knob.name: one.next} for (knob, _), one in due.items()]
            for where, values in zip(due, self._measure(points, _CHECK), strict=True):
                edges[where] = due[where].update(list(self._broken(values, _CHECK)), where[0])
        return edges

    def front(self) -> list[dict[str, Any]]:
        """Return the rows of `TRADED` for the points of the search that no other one dominates."""
        # Points with few changes come first; the group as it is has its own rows.
        searched = (label for label, seeds in self.known if seeds == _SEARCH)
        labels = sorted(searched, key=lambda label: label.count(","))
        known = [self.known[label, _SEARCH] for label in labels]
        signs = [(HOURS, 1), *((goal.measure, goal.sign) for goal in self.goals)]
        costs = np.array([[sign * of[name].mean() for name, sign in signs] for of in known])
        costs = np.where(np.isnan(costs), np.inf, costs)
        shown = np.isfinite(costs).all(axis=1) & on_front(costs)
        taken: list[Floats] = []
        rows: list[dict[str, Any]] = []
        for at in np.lexsort(costs.T[::-1]):
            is_same = any(np.allclose(costs[at], one, rtol=_EQUAL) for one in taken)
            if is_same or not shown[at] or labels[at] == AS_IT_IS:
                continue
            taken.append(costs[at])
            about = {
                "variant": labels[at],
                "members": self.points[labels[at]][MEMBERS],
                HOURS: float(known[at][HOURS].mean()),
            }
            rows += [about | judge(goal, known[at][goal.measure]) for goal in self.goals]
        return rows
