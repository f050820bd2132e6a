"""Runs of reports that tests make."""

import json
from pathlib import Path
from typing import Any

from sharelag.reports import store
from sharelag.reports.store import Run
from tests.support.nightly import night


def groups(result: Any) -> dict[str, Any]:
    return {group["group_id"]: group for group in result["groups"]}


def made_run(
    out: Path, number: int, error: str | None = None, cluster: str | None = None, **requested: Any
) -> Run:
    at = night(number)
    run_id = f"{at:%Y%m%dT%H%M%S}000Z-{number:06x}"
    made = (run_id, "daily", requested, "1", "", at.isoformat(), 1.0, "ok", "", None, error)
    run = Run(*made, cluster_id=cluster)
    folder = out / "daily"
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    with store.scratch(folder) as half:
        (half / store.RUN).write_text(json.dumps(run.__dict__))
        store.publish(out, folder, half, run)
    return run


def kept(out: Path) -> list[str]:
    return [run.run_id for run in store.runs_of(out / "daily")]
