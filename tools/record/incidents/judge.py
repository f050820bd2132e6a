"""What a capture of an incident says of the change, beside what came of it live."""

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
#: Drains are to be foretold within so large a part of the real time.
WITHIN = 0.10
#: A lag that was never more than this is no backlog whose end could be asked for.
_BACKLOG = 200


@dataclass(frozen=True)
class Outcome:
    """A number that was foretold, with its bounds, and what it was live: offsets, or ms."""

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
        """How far it was off, as a part of the real one."""
        return self.foretold / self.live - 1


@dataclass(frozen=True)
class Judged:
    """An incident, and what would have been otherwise.

    Attributes
    ----------
    incident
    lag
        At the end of the incident; None: the simulation does not explain what happened, so that no
        answer is given.
    drain
        Until nothing was left; None: not in every simulated run, not live, there was no backlog, or
        it was not gone as it was, so that no interval is known.
    explained, curve
        How far the simulated lag is off on average over time, as it was (by what the capture tells)
        and with the change (by what was live), of the highest lag as it was.
    was
        The lag without the change: the highest, and at the end.
    load
        Of the machine in both plays.
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
        """The drain, where there is one; else the lag at the end, if that is foretold."""
        return self.drain or self.lag


def told(folder: Path) -> dict[str, Any]:
    """Return what was noted of both plays: ``as_it_was`` and ``changed``."""
    found: dict[str, Any] = json.loads((folder / "played.json").read_text())
    return found


def gather(folder: Path) -> Past:
    """Gather by the capture of an incident alone what happened."""
    was = told(folder)["as_it_was"]
    begin, end = (datetime.fromtimestamp(was[one] / 1000, UTC) for one in ("begin_ms", "end_ms"))
    bench = sharelag.open(folder, engine="local", bars=False)
    return bench.past(was["group"], since=begin, until=end)


def foretold(incident: Incident, folder: Path) -> Otherwise:
    """Answer by the capture of an incident alone what the change would have brought."""
    past = gather(folder)
    changes = {incident.change_text: turn(past.scenario, incident.change)}
    return otherwise(past, changes, seeds=range(SEEDS))


def judged(incident: Incident, folder: Path) -> Judged:
    """Compare what is foretold of the change with what came of it live."""
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
