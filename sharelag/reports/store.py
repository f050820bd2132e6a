"""Where reports lie: a reader finds a whole one at any moment, whenever a run is killed.

OUT/index.html, ledger.jsonl      past reports, for people and for programs
OUT/NAME/runs/RUN_ID/             one run: report.html, notebook.ipynb, verdict.json, mail.html, run.json, figures/
OUT/NAME/latest -> runs/RUN_ID    the newest of them

A run is written beside and renamed into place when it is whole; then `latest` is turned, which is
one rename, too. What a killed run left over, the next one puts in order.
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
    """The place of a report, for one run at a time; yields its folder.

    Parameters
    ----------
    out : pathlib.Path
    name : str
    wait : bool
        For a run that is under way; otherwise say so and give up.
    tell : callable
        Called with a sentence before waiting.

    Raises
    ------
    InputError
        Another run is under way and ``wait`` is false, or the folder cannot be written.
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
                    f"another run of report {name!r} is under way in {out}: wait for it (--overlap wait), or name "
                    "another folder"
                ) from None
            tell(f"another run of report {name!r} is under way in {out}: waiting for its end")
            lock.acquire()
    except OSError as error:
        raise InputError(
            f"cannot write reports to {out} ({error.strerror or error}): check the place"
        ) from error
    try:
        put_in_order(out, name)
        yield folder
    finally:
        lock.release()


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """A folder for a run that is not whole yet; gone afterwards, unless it was published."""
    half = Path(mkdtemp(prefix=_HALF, dir=folder))
    try:
        yield half
    finally:
        shutil.rmtree(half, ignore_errors=True)


def publish(out: Path, folder: Path, half: Path, run: Run) -> Path:
    """Make a whole run the newest one."""
    place = folder / "runs" / run.run_id
    half.chmod(0o755)  # not before: what a cell has just said has not been searched for secrets
    half.rename(place)
    with shared(out):
        ledger.append(out, run)
    point_latest(folder, run.run_id)
    return place


def point_latest(folder: Path, run_id: str) -> None:
    """Turn ``latest`` to a run, in one rename."""
    pointer = folder / f".latest-{os.getpid()}"
    pointer.unlink(missing_ok=True)
    pointer.symlink_to(Path("runs") / run_id, target_is_directory=True)
    pointer.replace(folder / "latest")


def runs_of(folder: Path) -> list[Run]:
    """The runs that are there, the oldest first."""
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
        So many are kept of those that were asked the same of the same cluster.
    keep_days : float, optional
        Those of so many days are kept.

    Returns
    -------
    list of Run
        What was removed. Of each kind the newest run stays, and the newest that did not fail; and
        so does the one that ``latest`` names, which is not the newest where the clock was set back.
    """
    since = None if keep_days is None else now - timedelta(days=keep_days)
    latest = (folder / "latest").resolve().name
    old = [
        run
        for runs in _alike(runs_of(folder))
        for place, run in enumerate(runs[::-1])
        if run.run_id
        not in {latest, runs[-1].run_id, *[one.run_id for one in runs if one.error is None][-1:]}
        and (
            (keep is not None and place >= keep)
            or (since and datetime.fromisoformat(run.started) < since)
        )
    ]
    for run in old:
        # First out of the readers' sight, at once; then away.
        gone = Path(mkdtemp(prefix=_HALF, dir=folder)) / run.run_id
        (folder / "runs" / run.run_id).rename(gone)
        shutil.rmtree(gone.parent, ignore_errors=True)
    return old


def _alike(runs: list[Run]) -> Iterable[list[Run]]:
    """Runs by what was asked of which cluster. One that did not come to the data counts for the cluster before it."""
    kinds: dict[tuple[str, str | None], list[Run]] = {}
    last: dict[str, str | None] = {}
    for run in runs:
        words = json.dumps(run.asked, sort_keys=True)
        last[words] = run.cluster_id if run.cluster_id or run.error is None else last.get(words)
        kinds.setdefault((words, last[words]), []).append(run)
    return kinds.values()


def put_in_order(out: Path, name: str) -> None:
    """Finish what a killed run had begun: half folders away, whole runs into the ledger, ``latest`` to the newest."""
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
        # By the ledger, since a clock may have been set back.
        place = {run.run_id: number for number, run in enumerate(ledger.read(out))}
    newest = max(runs, key=lambda run: place[run.run_id], default=None)
    if newest and (
        not (folder / "latest").exists() or (folder / "latest").resolve().name != newest.run_id
    ):
        point_latest(folder, newest.run_id)


def shared(out: Path) -> FileLock:
    """What reports of all names write to; for moments only."""
    return FileLock(out / ".lock")
