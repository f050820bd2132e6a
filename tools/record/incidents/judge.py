"""What a capture of an incident says of the change, beside what came of it live."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sharelag
from sharelag.whatif.knobs import turn
from sharelag.whatif.otherwise import SEEDS, Otherwise, otherwise
from tools.record.incidents.play import STEP_MS
from tools.record.incidents.table import Incident

FOLDER = Path(__file__).resolve().parents[3] / "data" / "incidents"
#: Drains are to be foretold within so large a part of the real time.
WITHIN = 0.10
#: A lag that was never more than this was no backlog whose end could be asked for.
BACKLOG = 200


@dataclass(frozen=True)
class Outcome:
    """A number that was foretold, and what it was live: records, or ms."""

    live: float
    foretold: float | None
    low: float | None
    high: float | None

    @property
    def is_inside(self) -> bool:
        """Whether it was between the bounds; nothing is, where nothing was foretold."""
        return self.low is not None and self.high is not None and self.low <= self.live <= self.high

    @property
    def off(self) -> float | None:
        """How far it was off, as a part of the real one."""
        return self.foretold / self.live - 1 if self.foretold is not None and self.live else None


@dataclass(frozen=True)
class Judged:
    """An incident, and what would have been otherwise.

    Attributes
    ----------
    lag
        When the last records had arrived.
    drain
        Until nothing was left; None: live it was never, or there was no backlog.
    explained
        How far the simulated as-it-was is off on average, of the highest lag.
    lag_was
        Without the change, when the last records had arrived.
    load
        Of the machine in both plays.
    """

    incident: Incident
    lag: Outcome
    drain: Outcome | None
    explained: float | None
    lag_was: int
    load: tuple[float, float]


def told(folder: Path) -> dict[str, Any]:
    """Return what was noted of both plays: ``as_it_was`` and ``changed``."""
    found: dict[str, Any] = json.loads((folder / "played.json").read_text())
    return found


def foretold(incident: Incident, folder: Path, lasts_ms: int | None = None) -> Otherwise:
    """Answer by the capture of an incident alone what the change would have brought.

    ``lasts_ms`` is how much of the incident is asked for; None: all.
    """
    was = told(folder)["as_it_was"]
    end_ms = was["end_ms"] if lasts_ms is None else was["begin_ms"] + lasts_ms
    begin, end = (datetime.fromtimestamp(one / 1000, UTC) for one in (was["begin_ms"], end_ms))
    bench = sharelag.open(folder, engine="local", bars=False)
    past = bench.past(was["group"], since=begin, until=end)
    changes = {incident.change_text: turn(past.scenario, incident.change)}
    return otherwise(past, changes, seeds=range(SEEDS))


def judged(incident: Incident, folder: Path) -> Judged:
    """Compare what is foretold of the change with what came of it live."""
    was, live = (told(folder)[name] for name in ("as_it_was", "changed"))
    at = incident.asked_ms // STEP_MS
    until_then, whole = foretold(incident, folder, incident.asked_ms), foretold(incident, folder)
    lag, drain = until_then.rows[2], whole.rows[2]
    is_backlog = live["drained_ms"] is not None and max(live["lag"]) > BACKLOG
    return Judged(
        incident,
        Outcome(live["lag"][at], lag["lag_end"], lag["low"], lag["high"]),
        Outcome(
            live["drained_ms"], drain["drain_ms"], drain["drain_low_ms"], drain["drain_high_ms"]
        )
        if is_backlog
        else None,
        whole.explained.share,
        was["lag"][at],
        (was["load"], live["load"]),
    )
