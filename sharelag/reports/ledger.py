"""The ledger of reports: a line a run, for ever, and a page of the newest lines.

Programs read `LEDGER`, people `INDEX`, which has no script. Secrets are in neither.
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
#: A page of more lines is not read.
_MOST = 500
#: Parameters that differ from night to night. Where a capture is of another cluster, the run says
#: so by its id.
_PASSING = ("as_of", "since", "previous", "capture")


@dataclass(frozen=True)
class Run:
    """What is known of one run. Times are ISO 8601 in UTC."""

    run_id: str
    report: str
    parameters: dict[str, Any]
    version: str  # of sharelag
    notebook: str  # SHA-256 of it, so that it is known which one this was
    started: str
    seconds: float
    level: str  # one of sharelag.tables.level.LEVELS
    headline: str
    as_of: str | None  # of the data; None: it did not come to that
    error: str | None  # why it failed; None: it did not
    figures: str | None = None  # why there are no pictures; None: there are
    cluster_id: str | None = (
        None  # of the data; None: it did not come to that, or the input does not tell
    )

    @property
    def asked(self) -> dict[str, Any]:
        """What a reader would call the same report: its parameters without those that differ from night to night."""
        return asked(self.parameters)


def asked(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters without those that differ from night to night."""
    return {name: value for name, value in parameters.items() if name not in _PASSING}


def append(folder: Path, run: Run) -> None:
    """Add a run to the ledger, in one write: of a line that was cut off, `read` takes nothing."""
    line = json.dumps(asdict(run), ensure_ascii=False).encode() + b"\n"
    file = os.open(folder / LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        # Should the last writer have been killed within its line, ours begins on a new one.
        if not _ends_whole(folder / LEDGER):
            line = b"\n" + line
        os.write(file, line)
        os.fsync(file)
    finally:
        os.close(file)


def read(folder: Path) -> list[Run]:
    """All runs, in the order of the ledger."""
    path = folder / LEDGER
    return (
        []
        if not path.exists()
        else list(_runs(path.read_text("utf-8", errors="replace").splitlines()))
    )


def from_json(text: str) -> Run | None:
    """A run from its JSON; None if that is cut off, or of another version."""
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
    """The runs of the ledger, the newest first, each with the address of its report if that is still there."""
    found = []
    for run in sorted(read(out), key=lambda run: (run.started, run.run_id), reverse=True):
        place = out / run.report / "runs" / run.run_id
        address = "/".join(map(quote, (run.report, "runs", run.run_id, "report.html")))
        found.append({"run": run, "address": address if place.is_dir() else None})
    return found


def _latest(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each report the newest run."""
    newest: dict[str, dict[str, Any]] = {}
    for row in found:
        newest.setdefault(row["run"].report, row)
    return [newest[name] for name in sorted(newest)]


def _write_whole(path: Path, text: str) -> None:
    """A file that is there as a whole, or as it was before."""
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
