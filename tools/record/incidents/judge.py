"""Predictions from a capture of an incident with a change, compared with the live outcome."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

import sharelag
from sharelag.whatif.knobs import turn
from sharelag.whatif.otherwise import SEEDS, Otherwise, otherwise
from sharelag.whatif.past import Past
from tools.record.incidents.table import STEP_MS, Incident

FOLDER = Path(__file__).resolve().parents[3] / "data" / "incidents"
#: Maximum relative error of predicted drain times.
WITHIN = 0.10
#: A lag that never exceeded this is not a backlog.
_BACKLOG = 200


@dataclass(frozen=True)
class Outcome:
    """A predicted number with its bounds, and its live value: offsets, or ms."""

    live: float
    foretold: float
    low: float
    high: float

    @property
    def is_inside(self) -> bool:
        """Whether it was between the bounds."""
        return self.low <= self.live <= self.high

    @property
    def off(self) -> float:
        """The relative error."""
        return self.foretold / self.live - 1


@dataclass(frozen=True)
class Judged:
    """An incident, and the prediction for its change.

    Attributes
    ----------
    incident
    lag
        At the end of the incident; None: the simulation does not explain the incident, so there is
        no prediction.
    drain
        Until nothing was left; None: not reached in every simulated run, or not live, or there was
        no backlog, or it was not gone without the change, so that no interval is known.
    explained, curve
        Mean distance over time of the simulated lag, without the change (from the capture) and with
        it (from the live run), relative to the highest lag without the change.
    was
        The lag without the change: the highest, and at the end.
    load
        Load of the machine in both plays.
    """

    incident: Incident
    lag: Outcome | None
    drain: Outcome | None
    explained: float
    curve: float | None
    was: tuple[int, int]
    load: tuple[float, float]

    @property
    def outcome(self) -> Outcome | None:
        """The drain if it is known, else the lag at the end if it is predicted."""
        return self.drain or self.lag


def told(folder: Path) -> dict[str, Any]:
    """Return the notes of both plays: ``as_it_was`` and ``changed``."""
    found: dict[str, Any] = json.loads((folder / "played.json").read_text())
    return found


def gather(folder: Path) -> Past:
    """Reconstruct the incident from its capture only."""
    was = told(folder)["as_it_was"]
    begin, end = (datetime.fromtimestamp(was[one] / 1000, UTC) for one in ("begin_ms", "end_ms"))
    bench = sharelag.open(folder, engine="local", bars=False)
    return bench.past(was["group"], since=begin, until=end)


def foretold(incident: Incident, folder: Path) -> Otherwise:
    """Predict the effect of the change from the capture only."""
    past = gather(folder)
    changes = {incident.change_text: turn(past.scenario, incident.change)}
    return otherwise(past, changes, seeds=range(SEEDS))


def judged(incident: Incident, folder: Path) -> Judged:
    """Compare the predicted effect of the change with the live outcome."""
    was, live = (told(folder)[name] for name in ("as_it_was", "changed"))
    found = foretold(incident, folder)
    row, name = found.rows[2], incident.change_text
    highest, load = (max(was["lag"]), was["lag"][-1]), (was["load"], live["load"])
    explained = found.explained.share or 0.0
    if not found.explained.is_close:
        return Judged(incident, None, None, explained, None, highest, load)
    drain = None
    low, high = row["drain_low_ms"], row["drain_high_ms"]
    if live["drained_ms"] and max(live["lag"]) > _BACKLOG and low is not None:
        drain = Outcome(live["drained_ms"], row["drain_ms"], low, high)
    curve = found.curves.filter(pc.equal(found.curves.column("variant"), name))
    times = np.arange(len(live["lag"])) * STEP_MS
    simulated = np.interp(times, *(curve.column(one).to_numpy() for one in ("time_ms", "lag")))
    return Judged(
        incident,
        Outcome(live["lag"][-1], row["lag_end"], row["low"], row["high"]),
        drain,
        explained,
        float(np.abs(simulated - live["lag"]).mean()) / highest[0],
        highest,
        load,
    )
