"""The distance of the simulator from the broker: medians over runs side by side, and bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from tools.record.fidelity.experiments import Experiment
from tools.record.fidelity.measure import Run

#: How far the simulator may be off: relative, and for lag curves by the range of the real one.
BOUNDS = {"drain": 0.10, "deliveries": 0.05, "archived": 0.05, "lag": 0.10}


@dataclass(frozen=True)
class Comparison:
    """Simulator and broker in one experiment.

    Attributes
    ----------
    simulated, real
        Medians of drain time (ms), deliveries and archived records.
    errors
        By the names of `BOUNDS`. Lag: the mean distance over time between the median curves, by the
        range of the real one. Others: the distance of medians by the real one.
    lag_at_most
        The largest distance between the curves, likewise. Lag falls by what a poll brings, so that
        two equal staircases that are a moment apart are a whole step apart in that moment;
        therefore it has no bound.
    misses
        Names whose error is beyond the bound.
    """

    experiment: Experiment
    simulated: tuple[float, float, float]
    real: tuple[float, float, float]
    errors: Mapping[str, float]
    lag_at_most: float

    @property
    def misses(self) -> list[str]:
        """What is too far off."""
        return [name for name, bound in BOUNDS.items() if abs(self.errors[name]) > bound]

    @property
    def surprises(self) -> list[str]:
        """List in sentences what is off by more than expected, or by less than its known miss."""
        known = {name: bound for name, bound, _ in self.experiment.misses}
        found = []
        for name, bound in BOUNDS.items():
            error = self.errors[name]
            if abs(error) > known.get(name, bound):
                found.append(f"{self.experiment.name}: {name} is off by {error:+.1%}")
            elif name in known and abs(error) <= bound:
                found.append(
                    f"{self.experiment.name}: {name} is off by {error:+.1%} only: "
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


def table(comparisons: Sequence[Comparison]) -> str:
    """All comparisons, as text for a wide terminal."""
    shown = Table(title="Simulator (sim) and Kafka (real), medians")
    shown.add_column("experiment")
    for name in (
        "partitions",
        "members",
        "drain s sim",
        "real",
        "error",
        "deliveries sim",
        "real",
        "error",
    ):
        shown.add_column(name, justify="right")
    for name in ("archived sim", "real", "error", "lag curve error", "at most"):
        shown.add_column(name, justify="right")
    shown.add_column("misses")
    for one in comparisons:
        scenario, errors = one.experiment.scenario, one.errors
        fitted = " (calibration)" if one.experiment.calibration else ""
        cells = [
            scenario.name + fitted,
            str(scenario.topics[0].partitions),
            str(len(scenario.each_member())),
        ]
        for name, our, their in zip(errors, one.simulated, one.real, strict=False):
            numbers = (our / 1000, their / 1000) if name == "drain" else (our, their)
            cells += [f"{number:.2f}" if name == "drain" else f"{number:g}" for number in numbers]
            cells.append(f"{errors[name]:+.1%}")
        shown.add_row(
            *cells, f"{errors['lag']:.1%}", f"{one.lag_at_most:.0%}", ", ".join(one.misses) or "-"
        )
    console = Console(width=180, color_system=None)
    with console.capture() as capture:
        console.print(shown)
    reasons = [
        f"{one.experiment.name}, {name}: {why}"
        for one in comparisons
        for name, _, why in one.experiment.misses
    ]
    fits = [
        f"{one.experiment.name}: calibration, Costs.{one.experiment.calibration} was fitted to it"
        for one in comparisons
        if one.experiment.calibration
    ]
    return "\n".join([capture.get(), *fits, *reasons])


def _medians(runs: Sequence[Run]) -> tuple[float, float, float]:
    return (
        median(run.drain_ms for run in runs),
        median(run.deliveries for run in runs),
        median(run.archived for run in runs),
    )


def _median_curve(runs: Sequence[Run], steps: int) -> NDArray[np.float64]:
    """Return the median at each step; a curve that has ended stays where it was."""
    padded = [
        np.pad(np.array(run.lag, np.float64), (0, steps - len(run.lag)), mode="edge")
        for run in runs
    ]
    return np.asarray(np.median(padded, axis=0))


def _relative(our: float, their: float) -> float:
    if their:
        return our / their - 1
    return 0.0 if not our else float("inf")
