"""What the tuner found: settings with their margins, what they gain, and how to set them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sharelag.tables import views
from sharelag.tables.declared import trials as declared
from sharelag.tables.displayable import Displayable
from sharelag.tables.presentation import Presentation
from sharelag.tables.words import counted
from sharelag.whatif.compare import Comparison, by_variant_and_seed
from sharelag.whatif.comparison import rows as words
from sharelag.whatif.comparison.intervals import Floats, known, one_sided_interval
from sharelag.whatif.comparison.tables import MEASURED
from sharelag.whatif.grid import AS_IT_IS
from sharelag.whatif.knobs import Value
from sharelag.whatif.presented import presented
from sharelag.whatif.search import Goal, is_met

RECOMMENDED, HOURS = "recommended", "member_hours"
TUNED, TRADED = declared.TUNED.schema, declared.TRADED.schema


@dataclass(frozen=True)
class Tuned(Displayable):
    """What was found.

    Attributes
    ----------
    goals
        That were given.
    settings
        One row per setting that could be changed: `TUNED`.
    front
        One row per goal of the group as it is, as recommended, and of each on the Pareto front of
        the goals' measures and member-hours: `TRADED`.
    comparison
        The group as recommended against the group as it is, on runs that the tuner did not see;
        its ``scenarios`` are both.
    changed
        What is set otherwise than it is, by setting.
    to_set
        How to set that, in words and Kafka's commands.
    """

    goals: tuple[Goal, ...]
    settings: pa.Table
    front: pa.Table
    comparison: Comparison
    changed: Mapping[str, Value]
    to_set: tuple[str, ...]

    @property
    def kept(self) -> bool:
        """Whether the runs show that all goals are kept as recommended."""
        met = [row["met"] for row in self._rows(RECOMMENDED)]
        return all(one is True for one in met)

    def _rows(self, variant: str) -> list[dict[str, Any]]:
        return [row for row in self.front.to_pylist() if row["variant"] == variant]

    def verdict(self) -> str:
        """Return one sentence, without a full stop: what keeps the goals, or how near one gets."""
        rows = self._rows(RECOMMENDED)
        measured = words.joined(
            tuple(f"{row['goal']} ({amount_of(row['goal'], row['mean'])})" for row in rows)
        )
        each = tuple(f"{name}={text_of(one)}" for name, one in self.changed.items())
        what = words.joined(each) if each else ""
        if not self.kept:
            return (
                f"nothing tried reliably keeps the goals; nearest is {what or AS_IT_IS}: {measured}"
            )
        hours = {name: self._rows(name)[0][HOURS] for name in (AS_IT_IS, RECOMMENDED)}
        if not what:
            return f"the group as it is keeps {measured}, and nothing cheaper was found that does"
        return (
            f"{what} keep{'s' * (len(self.changed) == 1)} {measured} for {hours[RECOMMENDED]:.3g} "
            f"member-hours (as it is: {hours[AS_IT_IS]:.3g})"
        )

    def gains(self) -> list[str]:
        """Return what the recommendation gains over the group as it is, by goal and in cost."""
        measures = dict.fromkeys([*(goal.measure for goal in self.goals), HOURS])
        means = {
            (row["variant"], row["measure"]): row["mean"]
            for row in self.comparison.measures.to_pylist()
        }
        said = []
        for row in self.comparison.differences.to_pylist():
            if row["measure"] not in measures:
                continue
            name = row["measure"]
            now, then = (amount_of(name, means[who, name]) for who in (AS_IT_IS, RECOMMENDED))
            span = "not known"
            if row["low"] is not None:
                low, high = (amount_of(name, row[end]) for end in ("low", "high"))
                span = f"difference {low} to {high}"
            whose = "recommended" if self.kept else "there"
            said.append(f"{name.removesuffix('_ms')}: {now} as it is, {then} {whose}; {span}")
        return said

    def conditions(self) -> str:
        """Say by which runs it was found, and what to know when reading it."""
        seeds = len(set(self.comparison.runs.column("seed").to_pylist()))
        return (
            f"differences are means over {counted(seeds, 'seed')} that the tuner did not see, with "
            f"{100 * self.comparison.confidence:g} % confidence; safe ranges change one setting "
            "at a time"
        )

    def sentences(self) -> list[str]:
        """Return what is gained, what to set where that keeps the goals, and what to know of it."""
        to_set = self.to_set if self.kept else ()
        return [*self.gains(), *(f"set {one}" for one in to_set), self.conditions()]

    def presented(self) -> Presentation:
        """Return the settings, with the verdict before what else to know."""
        notes = (self.verdict(), *self.sentences())
        return presented("Settings that fit", self.settings.to_pylist(), views.TUNED, notes)

    def traded_for_people(self) -> list[dict[str, Any]]:
        """Return the rows of the front in words."""
        met = {True: "yes", False: "no", None: "not decided"}
        names = ("mean", "low", "high", "difference_from", "difference_to")
        return [
            {
                **row,
                **{name: amount_of(row["goal"], row[name]) for name in names},
                "met": met[row["met"]],
            }
            for row in self.front.to_pylist()
        ]


def judge(goal: Goal, values: Floats) -> dict[str, Any]:
    """Return a goal and whether values of its measure keep it, one per run."""
    found = one_sided_interval(values, goal.confidence)
    return {"goal": str(goal), **known(values), **found._asdict(), "met": is_met(found, goal)}


def answers(comparison: Comparison, goals: Iterable[Goal]) -> list[dict[str, Any]]:
    """Return the rows of `TRADED` of the group as it is and as recommended."""
    runs = comparison.runs
    spans = {
        (row["variant"], row["measure"]): (row["low"], row["high"])
        for row in comparison.differences.to_pylist()
    }
    rows = []
    for name, scenario in comparison.scenarios.items():
        hours = list(by_variant_and_seed(runs, HOURS)[name].values())
        for goal in goals:
            values = np.array(list(by_variant_and_seed(runs, goal.measure)[name].values()))
            low, high = spans.get((name, goal.measure), (None, None))
            about = {
                "variant": name,
                "members": len(scenario.each_member()),
                HOURS: float(np.mean(hours)) if hours else None,
                "difference_from": low,
                "difference_to": high,
            }
            rows.append(about | judge(goal, values))
    return rows


def text_of(value: Value | None) -> str:
    """Return a value as Kafka's files have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def amount_of(goal: str, value: float | None) -> str:
    """Return a value of a measure, or of a goal's, in words."""
    written = goal.split()[0]
    measure = written if written in MEASURED else f"{written}_ms"
    if value is not None and measure.endswith("_share"):
        return f"{100 * value:.3g} %"
    return words.amount(measure, value) or "not known"
