"""What came of a comparison: its tables, who wins, and the rows that people are shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import InputError
from sharelag.tables import views
from sharelag.tables.displayable import Displayable
from sharelag.tables.presentation import Presentation
from sharelag.tables.words import counted
from sharelag.whatif.comparison import rows as words
from sharelag.whatif.comparison import verdict as sentence
from sharelag.whatif.comparison.intervals import Floats, each_level, is_better
from sharelag.whatif.comparison.tables import MEASURED, PROJECTED
from sharelag.whatif.presented import presented
from sharelag.whatif.scenario import Scenario


@dataclass(frozen=True)
class Comparison(Displayable):
    """What came of it, as tables of `sharelag.whatif.comparison.tables`.

    Attributes
    ----------
    runs
        One row a run: `RUNS`.
    measures
        One row a variant and measure: `MEASURES`.
    differences
        One row a variant and measure against the baseline: `DIFFERENCES`.
    baseline, confidence
        As they were given.
    projected
        Lag over time, the mean of the runs of each variant: `sharelag.whatif.projection.PROJECTED`.
        Empty for runs that were made elsewhere, such as those of a sweep: they keep no timeline.
    scenarios
        What was compared, by variant; empty where only the runs are at hand.
    """

    runs: pa.Table
    measures: pa.Table
    differences: pa.Table
    baseline: str
    confidence: float
    projected: pa.Table = field(default_factory=PROJECTED.empty_table)
    scenarios: Mapping[str, Scenario] = field(default_factory=dict)

    def presented(self) -> Presentation:
        """The table that people are shown of it."""
        found = [words.for_people(row) for row in self.rows(words.SHOWN)]
        title = f"Compared to {self.baseline}"
        return presented(title, found, views.COMPARED, tuple(self.sentences()))

    def winner(self, measure: str) -> str | None:
        """The variant that is better than each of the others; None where the runs do not show one.

        All pairs of variants are compared, and the confidence holds for all of them together.

        Raises
        ------
        InputError
            The measure is not among those compared, or no direction of it is better.
        """
        if (
            measure not in self.measures.column("measure").to_pylist()
            or MEASURED[measure].better is None
        ):
            known = [
                name
                for name, one in MEASURED.items()
                if one.better and name in self.runs.column_names
            ]
            raise InputError(f"unknown measure {measure!r}: choose one of {', '.join(known)}")
        by_variant = by_variant_and_seed(self.runs, measure)
        pairs = list(combinations(by_variant, 2))
        wins = dict.fromkeys(by_variant, 0)
        for one, other in pairs:
            values, others = paired(by_variant[one], by_variant[other])
            better = is_better(
                values, others, MEASURED[measure], each_level(self.confidence, len(pairs))
            )
            if better is not None:
                wins[one if better else other] += 1
        return next((name for name, count in wins.items() if 0 < count == len(wins) - 1), None)

    def rows(self, measures: tuple[str, ...] = ()) -> Iterator[dict[str, Any]]:
        """One row a measure and variant, with its difference to the baseline, and whether it wins.

        Measures that some run does not know come after the others.
        """
        against = {(row["measure"], row["variant"]): row for row in self.differences.to_pylist()}
        winners: dict[str, str | None] = {}
        rows = self.measures.to_pylist()
        dark = {row["measure"] for row in rows if row["unknown"]}
        for row in sorted(rows, key=lambda row: row["measure"] in dark):
            measure = row["measure"]
            if measures and measure not in measures:
                continue
            if measure not in winners:
                winners[measure] = self._winner(measure)
            other = against.get((measure, row["variant"]), {})
            yield {
                "measure": measure,
                "variant": row["variant"],
                **{
                    name: row[name]
                    for name in ("n", "unknown", "failed", "mean", "low", "high", "median")
                },
                "baseline": self.baseline,
                "difference": other.get("difference"),
                "difference_low": other.get("low"),
                "difference_high": other.get("high"),
                **{name: other.get(name) for name in sorted(words.RATIOS)},
                "better": other.get("better"),
                "winner": winners[measure] == row["variant"],
                "confidence": self.confidence,
            }

    def _winner(self, measure: str) -> str | None:
        return None if MEASURED[measure].better is None else self.winner(measure)

    def verdict(self) -> str:
        """Return one sentence: which variant is better by which measure, and how each would go.

        The age of the oldest record, at its 95th percentile, and the time until the lag is gone
        decide; see `sharelag.whatif.comparison.verdict`.
        """
        return sentence.verdict(self)

    def sentences(self) -> Iterator[str]:
        """What to know when reading it."""
        variants = len(set(self.runs.column("variant").to_pylist()))
        seeds = len(set(self.runs.column("seed").to_pylist()))
        yield (
            f"{counted(variants, 'variant')}, {counted(seeds, 'seed')}, "
            f"compared seed by seed with {self.baseline}; "
            f"{100 * self.confidence:g} % confidence intervals, corrected for the number of "
            "variants but not of measures: among many measures, one may differ by chance"
        )
        yield from words.too_few(
            self.differences.to_pylist(), seeds, each_level(self.confidence, variants - 1)
        )
        names = self.runs.column_names
        if "error" in names and (errors := self.runs.column("error").drop_null().to_pylist()):
            yield f"{len(errors)} failed runs are left out; the first error is: {min(errors)}"


def by_variant_and_seed(runs: pa.Table, measure: str) -> dict[str, dict[int, float]]:
    """A measure by variant and seed, NaN where it is unknown, without failed runs."""
    found: dict[str, dict[int, float]] = {name: {} for name in runs.column("variant").to_pylist()}
    if "error" in runs.column_names:
        runs = runs.filter(pc.is_null(runs.column("error")))
    columns = (runs.column(name).to_pylist() for name in ("variant", "seed", measure))
    for name, seed, value in zip(*columns, strict=True):
        found[name][seed] = np.nan if value is None else float(value)
    return found


def paired(one: Mapping[int, float], other: Mapping[int, float]) -> tuple[Floats, Floats]:
    """The values of the seeds that both have."""
    seeds = [seed for seed in one if seed in other]
    return np.array([one[seed] for seed in seeds]), np.array([other[seed] for seed in seeds])
