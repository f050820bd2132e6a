"""The distance between simulator and broker: medians over paired runs, and bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from tools.record.fidelity.experiments import Experiment
from tools.record.fidelity.measure import Run

#: Maximum relative errors of the simulator; those of lag curves relative to the real one's range.
BOUNDS = {"drain": 0.10, "deliveries": 0.02, "archived": 0.05, "lag": 0.10}


@dataclass(frozen=True)
class Comparison:
    """Simulator and broker in one experiment.

    Attributes
    ----------
    simulated, real
        Medians of drain time (ms), deliveries and archived records.
    errors
        By the names of `BOUNDS`. Lag: the mean distance over time between the median curves,
        relative to the range of the real one. Others: the relative distance of medians.
    lag_at_most
        The largest distance between the curves, likewise. Lag falls by whole polls, so equal curves
        that are shifted by a moment differ by a whole step in that moment; therefore it has no
        bound.
    misses
        Names of errors beyond the bounds.
    """

    experiment: Experiment
    simulated: tuple[float, float, float]
    real: tuple[float, float, float]
    errors: Mapping[str, float]
    lag_at_most: float

    @property
    def misses(self) -> list[str]:
        """Names of errors beyond the bounds."""
        return [name for name, bound in BOUNDS.items() if abs(self.errors[name]) > bound]

    @property
    def surprises(self) -> list[str]:
        """Sentences about errors that exceed their known misses, or are smaller."""
        known = {name: bound for name, bound, _ in self.experiment.misses}
        found = []
        for name, bound in BOUNDS.items():
            error = self.errors[name]
            if abs(error) > known.get(name, bound):
                found.append(f"{self.experiment.name}: {name} is off by {100 * error:+.1f} %")
            elif name in known and abs(error) <= bound:
                found.append(
                    f"{self.experiment.name}: {name} is off by {100 * error:+.1f} % only: "
                    "no longer a known miss"
                )
        return found


def compared(experiment: Experiment, simulated: Sequence[Run], real: Sequence[Run]) -> Comparison:
    """Compare medians."""
    ours, theirs = _medians(simulated), _medians(real)
    names = ("drain", "deliveries", "archived")
    errors = {
        name: _relative(our, their) for name, our, their in zip(names, ours, theirs, strict=True)
    }
    steps = max(len(run.lag) for run in (*simulated, *real))
    our_curve, their_curve = _median_curve(simulated, steps), _median_curve(real, steps)
    apart = np.abs(our_curve - their_curve) / np.ptp(their_curve)
    return Comparison(
        experiment, ours, theirs, errors | {"lag": float(apart.mean())}, float(apart.max())
    )


_COLUMNS = (
    "experiment",
    "brokers, partitions, members",
    *("drained after: simulated", "live", "off", "deliveries: simulated", "live", "off"),
    *("archived: simulated", "live", "curve off", "too far off"),
)
_HEAD = (f"| {' | '.join(_COLUMNS)} |", "|---" * len(_COLUMNS) + "|")


def table(comparisons: Sequence[Comparison]) -> str:
    """Return all comparisons in Markdown: medians, and reasons for large errors."""
    notes = [
        f"* **{one.experiment.name}** is calibration: `Costs.{one.experiment.calibration}` was "
        "fitted to it"
        for one in comparisons
        if one.experiment.calibration
    ]
    for one in comparisons:
        why = dict.fromkeys(reason for _, _, reason in one.experiment.misses)
        notes += [f"* **{one.experiment.name}**: {reason}" for reason in why]
    return "\n".join([*_HEAD, *map(_row, comparisons), "", *notes])


def _row(one: Comparison) -> str:
    scenario, errors = one.experiment.scenario, one.errors
    drains, deliveries, archived = zip(one.simulated, one.real, strict=True)
    sizes = (scenario.brokers, scenario.topics[0].partitions, len(scenario.each_member()))
    fitted = " (calibration)" if one.experiment.calibration else ""
    cells = [
        f"**{scenario.name}**{fitted}: {scenario.about}",
        ", ".join(map(str, sizes)),
        *(f"{drain / 1000:.2f} s" for drain in drains),
        f"{100 * errors['drain']:+.1f} %",
        *(f"{number:,g}" for number in deliveries),
        f"{100 * errors['deliveries']:+.1f} %",
        *(f"{number:,g}" for number in archived),
        f"{100 * errors['lag']:.1f} %",
        ", ".join(one.misses) or "-",
    ]
    return f"| {' | '.join(cells)} |"


def _medians(runs: Sequence[Run]) -> tuple[float, float, float]:
    return (
        median(run.drain_ms for run in runs),
        median(run.deliveries for run in runs),
        median(run.archived for run in runs),
    )


def _median_curve(runs: Sequence[Run], steps: int) -> NDArray[np.float64]:
    """Return the median at each step; a curve that has ended keeps its last value."""
    padded = [
        np.pad(np.array(run.lag, np.float64), (0, steps - len(run.lag)), mode="edge")
        for run in runs
    ]
    return np.asarray(np.median(padded, axis=0))


def _relative(our: float, their: float) -> float:
    if their:
        return our / their - 1
    return 0.0 if not our else float("inf")
