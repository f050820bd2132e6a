"""Make one report: run its notebook and publish the result, also if it fails."""

from __future__ import annotations

import hashlib
import json
import logging
import secrets as chance
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nbformat.v4 import new_notebook

from sharelag.durations import parse_duration
from sharelag.model import iso
from sharelag.reports import notebooks, store
from sharelag.reports.case import cluster_in
from sharelag.reports.execute import Executed, execute
from sharelag.reports.secrets import scrub, secrets_of
from sharelag.reports.store import Run, comparable_parameters, write_index
from sharelag.schemas import SCHEMA_VERSION
from sharelag.version import __version__

_LOG = logging.getLogger(__name__)
#: A function that runs a notebook.
Execute = Callable[[Path, Path, Mapping[str, Any], Mapping[str, str], frozenset[str]], Executed]
_NOT_MADE = "This report could not be made."


@dataclass(frozen=True)
class Report:
    """A published report, possibly of a failed run."""

    run: Run
    folder: Path
    verdict: Mapping[str, Any] | None
    in_part: bool = False  # only a part of the input was available

    @property
    def html(self) -> Path:
        """Its page."""
        return self.folder / "report.html"


def report(
    name: str,
    params: Mapping[str, Any] | None = None,
    out: str | Path = "reports",
    *,
    properties: Mapping[str, str] | None = None,
    wait: bool = True,
    keep: int | None = None,
    keep_days: float | None = None,
    figures: bool = True,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    run: Execute = execute,
    tell: Callable[[str], None] = _LOG.warning,
    progress: Callable[[str], None] = _LOG.info,
) -> Report:
    """Make a report.

    Parameters
    ----------
    name : str
        One of `sharelag.reports.notebooks.names`, or the path of a notebook with a cell tagged
        ``parameters``.
    params : mapping, optional
        Parameters of the notebook; secrets are rejected, as they would be written into it.
    out : path
        The folder of all reports, see `sharelag.reports.store`.
    properties : mapping, optional
        Kafka client properties; they may be secret and are never written anywhere.
    wait : bool
        Wait for another run of the same report in the same folder; otherwise raise.
    keep, keep_days : optional
        How many runs with the same parameters and cluster to keep, and for how many days.
    figures : bool
        Whether to write charts as images, which takes seconds.
    now : callable
        The clock.
    run : callable
        Executes the notebook.
    tell : callable
        Receives messages for the user; by default they are logged.
    progress : callable
        Receives a message before each step that takes seconds.

    Returns
    -------
    Report
        The report, also after a failure: ``report.run.error`` is the reason.

    Raises
    ------
    InputError
        There is no such report, a parameter is invalid, or another run is in progress.
    """
    path = notebooks.notebook(name)
    given = notebooks.check_parameters(path, params or {})
    parse_duration((keep_days or 0) * 86_400)  # validate it before the report is made
    known = secrets_of(given.get("command_config"), properties or {}, params)
    folder_of = Path(out)
    with store.reserve(folder_of, path.stem, wait, tell) as folder, store.scratch(folder) as half:
        clean = {name: scrub(value, known) for name, value in given.items()}
        if "previous" in notebooks.read_parameters(path) and "previous" not in given:
            previous = _previous(folder, clean)
            given |= {} if previous is None else {"previous": str(previous)}
        started, begun = now(), time.monotonic()
        progress(f"running the notebook of the report {path.stem}")
        ran = run(path, half / "notebook.ipynb", given, properties or {}, known)
        made = _run(path, clean, started, time.monotonic() - begun, ran)
        good = [one.run_id for one in store.runs_of(folder) if one.error is None]
        last_good = good[-1] if good else None
        if figures:
            progress("drawing its charts")
        try:
            made = _write(half, made, ran, figures, last_good)
        except Exception as error:  # a user's notebook may have any output
            _LOG.debug("the notebook could not be put on a page", exc_info=True)
            what = scrub(f"{type(error).__name__}: {error}", known)
            why = f"the notebook ran, but its outputs cannot be put on a page ({what}): "
            why += "see the notebook"
            made = replace(made, level="failed", headline=_NOT_MADE, error=why)
            made = _write(half, made, Executed(new_notebook(), made.error), False, last_good)
        place = store.publish(folder_of, folder, half, made)
        store.retain(folder, started, keep, keep_days)
        # Locked, or a process that read the ledger earlier could write its index later.
        with store.lock_shared(folder_of):
            write_index(folder_of)
    is_whole = (ran.verdict or {}).get("complete", True)
    return Report(made, place, ran.verdict, ran.in_part or not is_whole)


def _previous(folder: Path, given: Mapping[str, Any]) -> Path | None:
    """Return the verdict of the newest successful run with the same parameters and cluster."""
    # The cluster of a capture is known before it is read; for other inputs the verdict compares it.
    cluster = cluster_in(given["capture"]) if given.get("capture") else None
    mine = comparable_parameters(given)
    for run in reversed(store.runs_of(folder)):
        is_alike = comparable_parameters(run.parameters) == mine
        if run.error is None and is_alike and cluster in (None, run.cluster_id):
            return (folder / "runs" / run.run_id / "verdict.json").resolve()
    return None


def _run(
    path: Path, parameters: dict[str, Any], started: datetime, seconds: float, ran: Executed
) -> Run:
    outcome = ran.verdict or {}
    at = started.astimezone(UTC)
    failed = ran.error is not None
    return Run(
        run_id=f"{at:%Y%m%dT%H%M%S}{at.microsecond // 1000:03d}Z-{chance.token_hex(3)}",
        report=path.stem,
        parameters=parameters,
        version=__version__,
        notebook=hashlib.sha256(path.read_bytes()).hexdigest(),
        started=iso(started),
        seconds=round(seconds, 3),
        level="failed" if failed else outcome.get("level", "unknown"),
        headline=_NOT_MADE if failed else outcome.get("headline", "The notebook finished."),
        as_of=outcome.get("as_of"),
        error=ran.error,
        cluster_id=outcome.get("cluster_id"),
    )


def _write(half: Path, run: Run, ran: Executed, figures: bool, last_good: str | None) -> Run:
    from sharelag.reports.page import draw, mail, page, title_of

    run = replace(run, figures=draw(ran.notebook, half / "figures") if figures else "not requested")
    outcome = None if ran.verdict is None else dict(ran.verdict)
    document = page(ran.notebook, run, outcome, last_good if run.error else None)
    (half / "report.html").write_text(document, "utf-8")
    body = mail(title_of(ran.notebook) or run.report, run, outcome)
    (half / "mail.html").write_text(body, "utf-8")
    summary = {name: getattr(run, name) for name in ("level", "headline", "error", "run_id")}
    verdict = {"schema_version": SCHEMA_VERSION} | (outcome or {}) | summary
    for name, value in (("verdict.json", verdict), (store.RUN, asdict(run))):
        (half / name).write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return run
