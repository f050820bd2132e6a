"""The folder of reports: readers find complete reports at any moment, even if a run is killed.

OUT/index.html, ledger.jsonl      all runs, for people and for programs
OUT/NAME/runs/RUN_ID/             one run: report.html, notebook.ipynb, verdict.json, mail.html,
                                  run.json, figures/
OUT/NAME/latest -> runs/RUN_ID    the newest run

A run is written to a scratch folder and renamed when it is complete; then `latest` is replaced,
also by one rename. The next run cleans up after one that was killed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import mkdtemp

from filelock import FileLock, Timeout

from sharelag.errors import InputError
from sharelag.reports import ledger
from sharelag.reports.ledger import Run

RUN = "run.json"
_HALF = ".half-"


@contextmanager
def reserved(out: Path, name: str, wait: bool, tell: Callable[[str], None]) -> Iterator[Path]:
    """Lock a report for one run at a time; yields its folder.

    Parameters
    ----------
    out : pathlib.Path
    name : str
    wait : bool
        Wait for a run that is under way; otherwise raise.
    tell : callable
        Called with a message before waiting.

    Raises
    ------
    InputError
        Another run is under way and ``wait`` is false, or the folder cannot be written to.
    """
    folder = out / name
    try:
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
    except OSError as error:
        raise InputError(
            f"cannot write reports to {out} ({error.strerror or error}): "
            "check the path and permissions"
        ) from error
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
    with shared(out):
        ledger.append(out, run)
    point_latest(folder, run.run_id)
    return place


def point_latest(folder: Path, run_id: str) -> None:
    """Point ``latest`` to a run, by one rename."""
    pointer = folder / f".latest-{os.getpid()}"
    pointer.unlink(missing_ok=True)
    pointer.symlink_to(Path("runs") / run_id, target_is_directory=True)
    pointer.replace(folder / "latest")


def runs_of(folder: Path) -> list[Run]:
    """List the existing runs, the oldest first."""
    found = (
        ledger.from_json((place / RUN).read_text("utf-8"))
        for place in sorted((folder / "runs").glob("*"))
        if (place / RUN).is_file()
    )
    return sorted((run for run in found if run is not None), key=lambda run: run.run_id)


def retain(folder: Path, now: datetime, keep: int | None, keep_days: float | None) -> list[Run]:
    """Remove old runs.

    Parameters
    ----------
    folder : pathlib.Path
        Of a report.
    now : datetime
    keep : int, optional
        How many runs to keep of those with the same parameters and cluster.
    keep_days : float, optional
        For how many days to keep runs.

    Returns
    -------
    list of Run
        The runs removed. Of each kind the newest run stays, and the newest successful one; so does
        the target of ``latest``, which is not the newest if the clock was set back.
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
        # Renamed first, so that readers never see half of it.
        gone = Path(mkdtemp(prefix=_HALF, dir=folder)) / run.run_id
        (folder / "runs" / run.run_id).rename(gone)
        shutil.rmtree(gone.parent, ignore_errors=True)
    return old


def _comparable(runs: list[Run]) -> Iterable[list[Run]]:
    """Group runs by parameters and cluster; one that failed early counts for the cluster before."""
    kinds: dict[tuple[str, str | None], list[Run]] = {}
    last: dict[str, str | None] = {}
    for run in runs:
        words = json.dumps(run.comparable_parameters, sort_keys=True)
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
    with shared(out):
        noted = {run.run_id for run in ledger.read(out)}
        for run in runs:
            if run.run_id not in noted:
                ledger.append(out, run)
        # In ledger order, as a clock may have been set back.
        place = {run.run_id: number for number, run in enumerate(ledger.read(out))}
    newest = max(runs, key=lambda run: place[run.run_id], default=None)
    if newest and (
        not (folder / "latest").exists() or (folder / "latest").resolve().name != newest.run_id
    ):
        point_latest(folder, newest.run_id)


def shared(out: Path) -> FileLock:
    """Return the lock of what all reports write to; held for moments only."""
    return FileLock(out / ".lock")
