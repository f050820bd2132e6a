"""What a capture of an incident says of the change, beside what came of it live."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import sharelag
from sharelag.whatif.compare import compare
from sharelag.whatif.knobs import turn
from sharelag.whatif.otherwise import AS_IT_WAS, Otherwise, otherwise
from sharelag.whatif.scenario import Service
from tools.record.incidents.table import Incident

FOLDER = Path(__file__).resolve().parents[3] / "data" / "incidents"
SEEDS = 20


def told(folder: Path) -> dict[str, Any]:
    """Return what was noted of both plays: ``as_it_was`` and ``changed``."""
    found: dict[str, Any] = json.loads((folder / "played.json").read_text())
    return found


def foretold(incident: Incident, folder: Path, service: Service | None = None) -> Otherwise:
    """Answer by the capture of an incident alone what the change would have brought."""
    was = told(folder)["as_it_was"]
    bench = sharelag.open(folder, engine="local")
    begin, end = (datetime.fromtimestamp(was[one] / 1000, UTC) for one in ("begin_ms", "end_ms"))
    past = bench.past(was["group"], since=begin, until=end, service=service)
    changes = {incident.change_text: turn(past.scenario, incident.change)}
    return otherwise(past, changes, seeds=range(SEEDS))
