"""The folder of reports: readers find complete reports at any moment, even if a run is killed.

OUT/index.html, ledger.jsonl      all runs, for people (without scripts) and for programs
OUT/NAME/runs/RUN_ID/             one run: report.html, notebook.ipynb, verdict.json, mail.html,
                                  run.json, figures/
OUT/NAME/latest -> runs/RUN_ID    the newest run

A run is written to a scratch folder and renamed when it is complete; then `latest` is replaced,
also by one rename. The next run cleans up after one that was killed. No file contains secrets.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from importlib import resources
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from urllib.parse import quote

from filelock import FileLock, Timeout

from sharelag.errors import InputError
from sharelag.reports.blocks import environment

LEDGER = "ledger.jsonl"
INDEX = "index.html"
RUN = "run.json"
_HALF = ".half-"
#: Maximum number of runs on the index page.
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
    as_of: str | None  # of the data; None if the run failed before reading them
    error: str | None  # why it failed; None: success
    figures: str | None = None  # why there are no images; None: there are images
    cluster_id: str | None = None  # of the data; None: unknown, or the run failed before


def comparable_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters without those that differ from run to run."""
    return {name: value for name, value in parameters.items() if name not in _PASSING}


def append(folder: Path, run: Run) -> None:
    """Append a run to the ledger, in one write; `read` ignores truncated lines."""
    line = json.dumps(asdict(run), ensure_ascii=False).encode() + b"\n"
    with (folder / LEDGER).open("ab+", buffering=0) as file:
        # If the last writer was killed within its line, begin a new one.
        if size := file.tell():
            file.seek(size - 1)
            line = line if file.read(1) == b"\n" else b"\n" + line
        file.write(line)
        os.fsync(file)


def read(folder: Path) -> list[Run]:
    """Read all runs, in the order of the ledger."""
    path = folder / LEDGER
    lines = path.read_text("utf-8", errors="replace").splitlines() if path.exists() else []
    return [run for line in lines if (run := _from_json(line)) is not None]


def _from_json(text: str) -> Run | None:
    """Parse a run; None if its JSON is truncated or of another version."""
    try:
        known = json.loads(text)
        return Run(**{one.name: known[one.name] for one in fields(Run) if one.name in known})
    except (ValueError, TypeError):
        return None


def write_index(out: Path) -> Path:
    """Write the index of a folder of reports; returns its path."""
    css = resources.files(__package__).joinpath("templates", "report.css").read_text("utf-8")
    found = rows(out)
    # The newest run of each report.
    latest = {row["run"].report: row for row in reversed(found)}
    page = environment().get_template("index.html.j2")
    half = out / f".{INDEX}-{os.getpid()}"
    newest = [latest[name] for name in sorted(latest)]
    text = page.render(rows=found[:_MOST], total=len(found), latest=newest, css=css)
    half.write_text(text, "utf-8")
    half.replace(out / INDEX)
    return out / INDEX


def rows(out: Path) -> list[dict[str, Any]]:
    """List the runs, newest first, each with the address of its report if that still exists."""
    found = []
    for run in sorted(read(out), key=lambda run: (run.started, run.run_id), reverse=True):
        place = out / run.report / "runs" / run.run_id
        address = "/".join(map(quote, (run.report, "runs", run.run_id, "report.html")))
        found.append({"run": run, "address": address if place.is_dir() else None})
    return found


@contextmanager
def writing(out: Path, otherwise: str = "") -> Iterator[None]:
    """Raise `InputError` if reports cannot be written to a folder in the ``with`` block."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"cannot write reports to {out} ({error.strerror or error}): check the path and "
            f"permissions, or choose another folder (--out){otherwise}"
        ) from error


@contextmanager
def reserve(out: Path, name: str, wait: bool, tell: Callable[[str], None]) -> Iterator[Path]:
    """Lock a report for one run at a time; yields its folder.

    With ``wait``, report a run in progress with ``tell``, and wait for it.
    """
    folder = out / name
    with writing(out):
        (folder / "runs").mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            if not wait:
                raise InputError(
                    f"another run of report {name!r} is under way in {out}: wait for it "
                    "(--overlap wait), or choose another folder"
                ) from None
            tell(f"waiting for another run of report {name!r}, which is under way in {out}")
            lock.acquire()
    try:
        put_in_order(out, name)
        yield folder
    finally:
        lock.release()


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """Yield a folder for an incomplete run; removed afterwards unless it was published."""
    half = Path(mkdtemp(prefix=_HALF, dir=folder))
    try:
        yield half
    finally:
        shutil.rmtree(half, ignore_errors=True)


def publish(out: Path, folder: Path, half: Path, run: Run) -> Path:
    """Publish a complete run as the newest one."""
    place = folder / "runs" / run.run_id
    half.chmod(0o755)  # not earlier: outputs had not been searched for secrets
    half.rename(place)
    with lock_shared(out):
        append(out, run)
    point_latest(folder, run.run_id)
    return place


def point_latest(folder: Path, run_id: str) -> None:
    """Point ``latest`` to a run, by one rename."""
    pointer = folder / f".latest-{os.getpid()}"
    pointer.unlink(missing_ok=True)
    pointer.symlink_to(Path("runs") / run_id, target_is_directory=True)
    pointer.replace(folder / "latest")


def runs_of(folder: Path) -> list[Run]:
    """List the existing runs, oldest first."""
    found = (
        _from_json((place / RUN).read_text("utf-8"))
        for place in sorted((folder / "runs").glob("*"))
        if (place / RUN).is_file()
    )
    return sorted((run for run in found if run is not None), key=lambda run: run.run_id)


def retain(folder: Path, now: datetime, keep: int | None, keep_days: float | None) -> list[Run]:
    """Remove old runs of a report's folder; return them.

    ``keep`` is the number of runs to keep of those with the same parameters and cluster,
    ``keep_days`` their maximum age. Of each kind, the newest run and the newest successful one are
    kept; so is the target of ``latest``, which is not the newest if the clock was set back.
    """
    since = None if keep_days is None else now - timedelta(days=keep_days)
    latest = (folder / "latest").resolve().name
    old = [
        run
        for runs in _comparable(runs_of(folder))
        for place, run in enumerate(runs[::-1])
        if run.run_id
        not in {latest, runs[-1].run_id, *[one.run_id for one in runs if one.error is None][-1:]}
        and (
            (keep is not None and place >= keep)
            or (since and datetime.fromisoformat(run.started) < since)
        )
    ]
    for run in old:
        # Rename it first, so that readers never see an incomplete run.
        gone = Path(mkdtemp(prefix=_HALF, dir=folder)) / run.run_id
        (folder / "runs" / run.run_id).rename(gone)
        shutil.rmtree(gone.parent, ignore_errors=True)
    return old


def _comparable(runs: list[Run]) -> Iterable[list[Run]]:
    """Group runs by parameters and cluster; one that failed early joins the cluster before it."""
    kinds: dict[tuple[str, str | None], list[Run]] = {}
    last: dict[str, str | None] = {}
    for run in runs:
        words = json.dumps(comparable_parameters(run.parameters), sort_keys=True)
        last[words] = run.cluster_id if run.cluster_id or run.error is None else last.get(words)
        kinds.setdefault((words, last[words]), []).append(run)
    return kinds.values()


def put_in_order(out: Path, name: str) -> None:
    """Clean up after a killed run: scratch folders, ledger lines and ``latest``."""
    folder = out / name
    for left in folder.glob(f"{_HALF}*"):
        shutil.rmtree(left, ignore_errors=True)
    for left in folder.glob(".latest-*"):
        left.unlink(missing_ok=True)
    runs = runs_of(folder)
    with lock_shared(out):
        noted = {run.run_id for run in read(out)}
        for run in runs:
            if run.run_id not in noted:
                append(out, run)
        # In ledger order, as a clock may have been set back.
        place = {run.run_id: number for number, run in enumerate(read(out))}
    newest = max(runs, key=lambda run: place[run.run_id], default=None)
    latest = folder / "latest"
    if newest and not (latest.exists() and latest.resolve().name == newest.run_id):
        point_latest(folder, newest.run_id)


def lock_shared(out: Path) -> FileLock:
    """Return the lock for files that all reports share; hold it only briefly."""
    return FileLock(out / ".lock")
