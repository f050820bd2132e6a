"""The ledger of reports: a line per run, kept for ever, and an HTML index of the newest runs.

Programs read `LEDGER`, people `INDEX`, which has no scripts. Neither contains secrets.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sharelag.reports.blocks import environment

LEDGER = "ledger.jsonl"
INDEX = "index.html"
#: Most runs on the index page.
_MOST = 500
#: Parameters that may differ between runs that are compared: engines agree, and a capture of
#: another cluster has another cluster id.
_PASSING = ("as_of", "since", "previous", "capture", "engine")


@dataclass(frozen=True)
class Run:
    """One run. Times are ISO 8601 in UTC."""

    run_id: str
    report: str
    parameters: dict[str, Any]
    version: str  # of sharelag
    notebook: str  # its SHA-256
    started: str
    seconds: float
    level: str  # one of sharelag.tables.level.LEVELS
    headline: str
    as_of: str | None  # of the data; None: the run failed before
    error: str | None  # why it failed; None: it did not
    figures: str | None = None  # why there are no images; None: there are
    cluster_id: str | None = None  # of the data; None: unknown, or the run failed before

    @property
    def comparable_parameters(self) -> dict[str, Any]:
        """What makes runs comparable: the parameters that do not differ from run to run."""
        return comparable_parameters(self.parameters)


def comparable_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters without those that differ from run to run."""
    return {name: value for name, value in parameters.items() if name not in _PASSING}


def append(folder: Path, run: Run) -> None:
    """Append a run to the ledger, in one write; `read` ignores truncated lines."""
    line = json.dumps(asdict(run), ensure_ascii=False).encode() + b"\n"
    file = os.open(folder / LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        # If the last writer was killed within its line, begin a new one.
        if not _ends_whole(folder / LEDGER):
            line = b"\n" + line
        os.write(file, line)
        os.fsync(file)
    finally:
        os.close(file)


def read(folder: Path) -> list[Run]:
    """Read all runs, in the order of the ledger."""
    path = folder / LEDGER
    return (
        []
        if not path.exists()
        else list(_runs(path.read_text("utf-8", errors="replace").splitlines()))
    )


def from_json(text: str) -> Run | None:
    """Parse a run; None if its JSON is truncated or of another version."""
    try:
        known = json.loads(text)
        return Run(
            **{field.name: known[field.name] for field in fields(Run) if field.name in known}
        )
    except (ValueError, TypeError):
        return None


def write_index(out: Path) -> Path:
    """Write the index of a folder of reports; returns its path."""
    css = resources.files(__package__).joinpath("templates", "report.css").read_text("utf-8")
    found = rows(out)
    written = (
        environment()
        .get_template("index.html.j2")
        .render(rows=found[:_MOST], total=len(found), latest=_latest(found), css=css)
    )
    _write_whole(out / INDEX, written)
    return out / INDEX


def rows(out: Path) -> list[dict[str, Any]]:
    """List the runs, the newest first, each with the address of its report if that still exists."""
    found = []
    for run in sorted(read(out), key=lambda run: (run.started, run.run_id), reverse=True):
        place = out / run.report / "runs" / run.run_id
        address = "/".join(map(quote, (run.report, "runs", run.run_id, "report.html")))
        found.append({"run": run, "address": address if place.is_dir() else None})
    return found


def _latest(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Select the newest run of each report."""
    newest: dict[str, dict[str, Any]] = {}
    for row in found:
        newest.setdefault(row["run"].report, row)
    return [newest[name] for name in sorted(newest)]


def _write_whole(path: Path, text: str) -> None:
    """Write a file atomically."""
    half = path.with_name(f".{path.name}-{os.getpid()}")
    half.write_text(text, "utf-8")
    half.replace(path)


def _runs(lines: Iterable[str]) -> Iterable[Run]:
    return (run for line in lines if (run := from_json(line)) is not None)


def _ends_whole(path: Path) -> bool:
    size = path.stat().st_size
    if size == 0:
        return True
    with path.open("rb") as file:
        file.seek(size - 1)
        return file.read(1) == b"\n"
