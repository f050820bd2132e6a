"""Search assignors and numbers of members for what clears a group's lag, and how soon.

The simulated time follows from the rates: a little more than three times the members need at best,
after the records that keep failing. The number of members grows in steps of half the present number
until the lag clears, or starts at the smallest number that can clear it in that time by the rates,
if that is larger.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.durations import duration
from sharelag.tables import views
from sharelag.tables.displayable import Displayable
from sharelag.tables.presentation import Presentation
from sharelag.tables.words import number, pluralize
from sharelag.whatif.compare import Comparison, compare, compared, course
from sharelag.whatif.comparison import rows as words
from sharelag.whatif.comparison.intervals import enough_seeds
from sharelag.whatif.consumers import require_members
from sharelag.whatif.estimates import say_stuck
from sharelag.whatif.grid import AS_IT_IS, Progress, further, require_fixed, require_seeds, variants
from sharelag.whatif.horizon import long_enough, rates, size
from sharelag.whatif.presenting import present
from sharelag.whatif.scenario import Scenario

#: Assignors that are tried besides the current one: each puts several members on a partition.
ASSIGNORS = ("all-to-all", "lag-aware-sticky")
#: Numbers of members to try: at least, without success in all runs, and without success in any.
_LEAST, _USUAL, _MOST = 3, 5, 8

#: One assignor with one number of members.
CELLS = pa.schema(
    [
        ("assignor", pa.string()),
        ("members", pa.int32()),
        ("variant", pa.string()),  # of the comparison
        # until nothing was left, the mean of the runs; null if one never drained
        ("drain_ms", pa.float64()),
        ("drained", pa.int32()),  # runs that drained
        ("runs", pa.int32()),  # runs that did not fail
        ("horizon_ms", pa.int64()),  # the simulated time
        ("age_p95_ms", pa.float64()),  # mean of the runs; null: unknown in one
        ("member_hours", pa.float64()),
        ("clears", pa.bool_()),  # every run drained; null: not known
        ("why", pa.string()),  # why that is not known
        # the fewest members that are shown to clear it, or to clear it sooner than the group as it
        # is, and no other assignor is sooner by a tenth
        ("answer", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class Clearing(Displayable):
    """The cells that were tried, and those that clear the lag.

    Attributes
    ----------
    cells
        One row per assignor and number of members: `CELLS`.
    comparison
        The comparison of the same runs, with the group as it is as the baseline.
    horizon_ms
        The simulated time.
    """

    cells: pa.Table
    comparison: Comparison
    horizon_ms: int

    @property
    def answers(self) -> list[dict[str, Any]]:
        """The cells that clear the lag with the fewest members; empty if none was found."""
        return [row for row in self.cells.to_pylist() if row["answer"]]

    def verdict(self) -> str:
        """Return one sentence, without a full stop, about what clears the lag and what does not."""
        found, cells, answers = self.comparison, self.cells.to_pylist(), self.answers
        usual = found.scenarios[found.baseline]
        if found.unknown_work:
            return found.unknown_work
        if words.say_blocked(usual):
            return found.verdict()
        members = pluralize(len(usual.each_member()), "member")
        now = f"{found.baseline} ({usual.assignor}, {members})"
        stuck = say_stuck(usual)
        also = f"; {stuck}" if stuck else ""
        if not answers and found.cells[found.baseline, "drain_ms"]["n"]:
            return (
                f"{now}: {course(found, (found.baseline,))}; nothing that was tried is shown to "
                f"clear the lag sooner or more often{also}"
            )
        if not answers:
            most = max(row["members"] for row in cells)
            names = tuple(dict.fromkeys(row["assignor"] for row in cells))
            also += f"; {too_many}" if (too_many := _say_too_many(usual)) else ""
            return (
                f"{now} does not clear the lag within {duration(self.horizon_ms)}, nor "
                f"do{'es' * (len(names) == 1)} {words.name_variants(names, 'or')} with up to "
                f"{pluralize(most, 'member')}{also}"
            )
        fewest = answers[0]["members"]
        who = words.name_variants(tuple(row["assignor"] for row in answers))
        variants = tuple(row["variant"] for row in answers)
        sooner = " sooner" * (found.baseline not in variants and _clears(found, found.baseline))
        notes = (
            f"{who} with {pluralize(fewest, 'member')} clear{'s' * (len(answers) == 1)} the lag"
            f"{sooner}: {course(found, variants)}"
        )
        if found.baseline in variants:
            return f"{notes}; that is {now}{also}"
        notes += f"; {now}: {course(found, (found.baseline,))}"
        fewer = max((row["members"] for row in cells if row["members"] < fewest), default=None)
        if fewer is not None and not sooner:
            notes += f"; no assignor does with {pluralize(fewer, 'member')}"
        return notes + also

    def reasons(self) -> list[str]:
        """Return why the answer clears the lag and the group as it is does not."""
        return [one for row in self.answers[:1] for one in self.comparison.reasons(row["variant"])]

    def grid(self) -> tuple[list[dict[str, Any]], views.View]:
        """Return the cells in words, assignors down and members across, and their view."""
        across, down = dict[str, str](), dict[str, dict[str, Any]]()
        for row in self.cells.to_pylist():
            name = f"with_{row['members']}"
            across[name] = f"{row['members']}-MEMBER{'S' * (row['members'] != 1)}"
            texts = (drain_words(row) + "*" * row["answer"], *costs_in_words(row))
            line = down.setdefault(row["assignor"], {"assignor": row["assignor"]})
            line[name] = ", ".join(filter(None, texts))
        means = "drains in (* with the fewest members), p95 age, member-hours"
        view = views.View(("assignor", *across), across, dict.fromkeys(across, means))
        return list(down.values()), view

    def presentation(self) -> Presentation:
        """Return the grid, with the verdict and other notes."""
        found, view = self.grid()
        shown = present("What clears the lag", found, view, (self.verdict(), *self.sentences()))
        names = [row["assignor"] for row in found]
        best = ((names.index(row["assignor"]), f"with_{row['members']}") for row in self.answers)
        columns = {key.replace("-", " ").capitalize(): name for key, name in shown.columns.items()}
        return replace(shown, columns=columns, best=frozenset(best))

    def sentences(self) -> list[str]:
        """Return the simulated time, the reasons, and the conditions of the comparison."""
        words = f"{duration(self.horizon_ms)} simulated; cells: drains in, p95 age, member-hours"
        why = [f"why: {reason}" for reason in self.reasons()]
        return [words, *why, *self.comparison.conditions()]


def what_clears(
    scenario: Scenario,
    *,
    assignors: str | Iterable[str] = ASSIGNORS,
    members: int | Iterable[int] = (),
    seeds: Iterable[int] | None = None,
    duration_ms: int | None = None,
    baseline: str = AS_IT_IS,
    progress: Progress | None = None,
) -> Clearing:
    """Try assignors with more and more members until the lag clears.

    Parameters
    ----------
    scenario : Scenario
        The group as it is: the baseline, whose assignor and members are tried as well.
    assignors : str or iterable of str
        Assignors to try besides that of the scenario.
    members : int or iterable of int
        Numbers of members to try; by default, more and more until the lag clears.
    seeds : iterable of int, optional
        Random seeds; by default as many as distinguish all cells from the baseline.
    duration_ms : int, optional
        The simulated time; by default, the time that clearing takes by the rates.
    baseline : str
        The name of the group as it is.
    progress : callable, optional
        Called with ``(done, all)``, in runs, as far as they are known in advance.

    Raises
    ------
    InputError
        An assignor is unknown, a number of members is invalid, or an autoscaler decides on it.
    """
    require_fixed(scenario)
    given = list(members) if isinstance(members, Iterable) else [members]
    names, counts, horizon_ms, enough, _ = search(scenario, assignors, given, duration_ms)
    now, usual = len(scenario.each_member()), replace(scenario, duration_ms=horizon_ms)
    chosen = require_seeds(range(enough) if seeds is None else seeds)
    least, most, nearly_most = (len(counts),) * 3 if given else (_LEAST, _USUAL, _MOST)
    parts, runs = list[Comparison](), 0
    for count in counts:
        others = variants(usual, assignors=names, members=() if count == now else count).items()
        tried = {} if parts else {baseline: usual}
        tried |= {name: one for name, one in others if one != usual}
        width = len(names) * len(chosen)
        report = further(progress, runs, (least - len(parts) - 1) * width)
        parts.append(compare(tried, seeds=chosen, progress=report))
        runs += len(parts[-1].runs)
        is_cleared = any(_clears(part, name) for part in parts for name in part.names)
        nearly = any(parts[-1].cells[name, "drain_ms"]["n"] for name in parts[-1].names)
        if len(parts) >= (least if is_cleared else nearly_most if nearly else most):
            break
    found = replace(
        parts[0],
        runs=pa.concat_tables([part.runs for part in parts]),
        projected=pa.concat_tables([part.projected for part in parts]),
        scenarios={name: one for part in parts for name, one in part.scenarios.items()},
    )
    return Clearing(_build_cells(found, counts), found, horizon_ms)


class Search(NamedTuple):
    """The widest search that `what_clears` may make."""

    assignors: list[str]
    members: list[int]
    horizon_ms: int
    seeds: int  # that distinguish all cells from the baseline
    size: float  # of the largest first run, as `sharelag.whatif.horizon.size`

    @property
    def runs(self) -> int:
        """The number of runs per seed."""
        return len(self.assignors) * len(self.members)


def search(
    scenario: Scenario,
    assignors: str | Iterable[str] = ASSIGNORS,
    members: Iterable[int] = (),
    duration_ms: int | None = None,
) -> Search:
    """Return the search that `what_clears` makes with the same arguments."""
    others = [assignors] if isinstance(assignors, str) else assignors
    names = list(dict.fromkeys([scenario.assignor, *others]))
    now, horizon_ms = len(scenario.each_member()), duration_ms or long_enough(scenario)
    usual = replace(scenario, duration_ms=horizon_ms)
    tried = sorted(map(require_members, members)) or _more_members(usual, now)
    counts = list(dict.fromkeys([now] * (now > 0) + tried))
    hopeless = (words.unknown_work, words.say_blocked, _say_too_many)
    if not members and any(why(usual) for why in hopeless):
        counts = counts[:1]  # no number of members clears the lag
    largest = size(usual.with_members(max(tried)) if members else usual)
    return Search(names, counts, horizon_ms, enough_seeds(len(names) * len(counts)), largest)


def drain_words(row: dict[str, Any]) -> str:
    """Return when a cell drains, or that it does not, and in how many runs unless in all."""
    if row["clears"]:
        return duration(row["drain_ms"])
    if not row["runs"]:
        return "all runs failed"
    within = f"in {duration(row['horizon_ms'])}"
    often = f"{within} in {row['drained']} of {row['runs']} runs"
    return often if row["drained"] else f"not {within}"


def costs_in_words(row: dict[str, Any]) -> list[str]:
    """Return the p95 age and the member-hours of a cell, as far as they are known."""
    age, hours = row["age_p95_ms"], row["member_hours"]
    parts = [] if age is None else [f"age {duration(age)}"]
    return parts + ([] if hours is None else [f"{number(hours)} h"])


def _more_members(scenario: Scenario, now: int) -> list[int]:
    """Return larger numbers of members: in steps of half the present number, or by the rates."""
    known, step = rates(scenario), max(ceil(now / 2), 1)
    counts = [now + step * number for number in range(1, _MOST)]
    if (soonest := known.fewest(scenario.duration_ms)) > counts[_USUAL - 2]:
        further = (ceil(soonest * eighths / 8) for eighths in range(8, 8 + 2 * (_MOST - 2), 2))
        counts = sorted({max(counts[0], known.fewest()), *further})
    most = _most_members(scenario)
    return list(dict.fromkeys(min(count, most) for count in counts))


def _most_members(scenario: Scenario) -> int:
    return max(scenario.settings.max_size, len(scenario.each_member()) + 1)


def _say_too_many(scenario: Scenario) -> str:
    """Say that no allowed number of members clears the lag; empty if one may."""
    most = _most_members(scenario)
    advice = rates(scenario).say_fewest(scenario.duration_ms, most)
    # Records may be missing or deleted by then, and some partitions may be less work.
    kept = [topic.retention_ms for topic in scenario.topics if topic.retention_ms is not None]
    oldest_ms = min(kept, default=inf) - scenario.duration_ms
    is_less_work = (
        any(fault.kind == "delete_records" for fault in scenario.faults)
        or any(topic.compact_ms is not None for topic in scenario.topics)
        or any(one.missing or one.oldest_age_ms > oldest_ms for one in scenario.starts.values())
        or any(member.service.by_partition for member in scenario.members)
    )
    return f"{advice}, and the group may have {most}" if advice and not is_less_work else ""


def _clears(found: Comparison, variant: str) -> bool:
    drain = found.cells[variant, "drain_ms"]
    return drain["n"] > 0 and not drain["unknown"]


def _build_cells(found: Comparison, counts: Sequence[int]) -> pa.Table:
    rows = []
    for name, scenario in found.scenarios.items():
        if (members := len(scenario.each_member())) not in counts:
            continue  # a group without members is only a baseline
        drain, why = found.cells[name, "drain_ms"], found.unknown_work or None
        means = {measure: found.cells[name, measure]["mean"] for measure in words.DECIDING}
        rows.append(
            means
            | {"assignor": scenario.assignor, "members": members, "variant": name}
            | {"drained": drain["n"], "runs": drain["n"] + drain["unknown"]}
            | {"horizon_ms": scenario.duration_ms, "why": why}
            | {"clears": None if why else _clears(found, name)}
        )
    answers = _find_answers(found, [row for row in rows if row["clears"]])
    cells = [row | {"answer": row["variant"] in answers} for row in rows]
    return pa.Table.from_pylist(cells, schema=CELLS)


def _find_answers(found: Comparison, clearing: Sequence[dict[str, Any]]) -> set[str]:
    """Return the variants that clear the lag with the fewest members, or nearly as soon."""
    drain = {name: found.cells[name, "drain_ms"] for name in found.names}
    ahead = {name for name, cell in drain.items() if cell["better"]} | {found.baseline}
    shown = [row for row in clearing if row["variant"] in ahead]
    if not drain[found.baseline]["n"]:
        shown = shown or list(clearing)  # too few runs to show it
    if not shown:
        return set()
    fewest = min(row["members"] for row in shown)
    drains = {row["variant"]: row["drain_ms"] for row in shown if row["members"] == fewest}
    mine = pc.is_in(found.runs.column("variant"), pa.array([found.baseline, *drains]))
    best = compared(found.runs.filter(mine), found.baseline, found.confidence).best("drain_ms")
    if best.names:
        latest = (1 + words.MATTERS) * min(drains.values())
        return {*best.names, *(name for name, drain_ms in drains.items() if drain_ms < latest)}
    return {found.baseline} if found.baseline in drains else set(drains)
