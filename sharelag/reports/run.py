"""One report, from its notebook to the folder that readers look into; also when it fails."""

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

from sharelag.model import iso
from sharelag.reports import notebooks, shelf
from sharelag.reports.cluster import cluster_in
from sharelag.reports.execute import Executed, execute
from sharelag.reports.ledger import Run, asked, write_index
from sharelag.reports.secrets import scrubbed, secrets_of
from sharelag.version import __version__

_LOG = logging.getLogger(__name__)
#: How a notebook is run; tests that need many runs put something quicker there.
Execute = Callable[[Path, Path, Mapping[str, Any], Mapping[str, str], frozenset[str]], Executed]
_NOT_MADE = "This report could not be made."


@dataclass(frozen=True)
class Report:
    """A report that was published; it may be one that says why it failed."""

    run: Run
    folder: Path
    verdict: Mapping[str, Any] | None

    @property
    def html(self) -> Path:
        """The page."""
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
) -> Report:
    """Make a report.

    Parameters
    ----------
    name : str
        One of `sharelag.reports.notebooks.names`, or the path of a notebook with a cell tagged
        ``parameters``.
    params : mapping, optional
        Parameters of the notebook; secrets are refused, for they would be written into it.
    out : path
        The folder of all reports, see `sharelag.reports.shelf`.
    properties : mapping, optional
        Kafka client properties, which may be secret: they are written nowhere.
    wait : bool
        For another run of the same report into the same folder; otherwise raise.
    keep, keep_days : optional
        How many runs that were asked the same of the same cluster, and those of how many days,
        stay.
    figures : bool
        Whether charts are drawn into files, too, which takes seconds.
    now : callable
        The clock.
    run : callable
        How the notebook is executed.
    tell : callable
        Called with sentences for people; by default they are logged.

    Returns
    -------
    Report
        A failed one, too: ``report.run.error`` says why.

    Raises
    ------
    InputError
        There is no such report, or a parameter cannot be given to it, or its place is taken.
    """
    path = notebooks.notebook(name)
    given = notebooks.checked(path, params or {})
    known = secrets_of(given.get("command_config"), properties or {}, params)
    folder_of = Path(out)
    with shelf.reserved(folder_of, path.stem, wait, tell) as folder, shelf.scratch(folder) as half:
        clean = {name: scrubbed(value, known) for name, value in given.items()}
        previous = _previous(folder, clean) if "previous" in notebooks.declared(path) else None
        if previous is not None and "previous" not in given:
            given["previous"] = str(previous)
        started, begun = now(), time.monotonic()
        ran = run(path, half / "notebook.ipynb", given, properties or {}, known)
        made = _run(path, clean, started, time.monotonic() - begun, ran)
        good = [one.run_id for one in shelf.runs_of(folder) if one.error is None]
        last_good = good[-1] if good else None
        try:
            made = _write(half, made, ran, figures, last_good)
        except Exception as error:  # a notebook of one's own may show anything
            _LOG.debug("the notebook could not be put on a page", exc_info=True)
            made = _failed(made, scrubbed(f"{type(error).__name__}: {error}", known))
            made = _write(half, made, Executed(new_notebook(), made.error), False, last_good)  # type: ignore[no-untyped-call]
        place = shelf.publish(folder_of, folder, half, made)
        shelf.retain(folder, started, keep, keep_days)
        with shelf.shared(
            folder_of
        ):  # else one that read the ledger earlier could write its index later
            write_index(folder_of)
    return Report(made, place, ran.verdict)


def _previous(folder: Path, given: Mapping[str, Any]) -> Path | None:
    """The verdict of the newest run that did not fail, and was asked the same.

    Of which cluster a capture is can be seen before it is read; else the verdict looks at that.
    """
    cluster = cluster_in(given["capture"]) if given.get("capture") else None
    alike = [
        run
        for run in shelf.runs_of(folder)
        if run.error is None and run.asked == asked(given) and cluster in (None, run.cluster_id)
    ]
    return (folder / "runs" / alike[-1].run_id / "verdict.json").resolve() if alike else None


def _run(
    path: Path, parameters: dict[str, Any], started: datetime, seconds: float, ran: Executed
) -> Run:
    told = ran.verdict or {}
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
        level="failed" if failed else told.get("level", "unknown"),
        headline=_NOT_MADE if failed else told.get("headline", "The notebook ran to its end."),
        as_of=told.get("as_of"),
        error=ran.error,
        cluster_id=told.get("cluster_id"),
    )


def _failed(run: Run, what: str) -> Run:
    why = f"the notebook ran, but what it shows cannot be put on a page ({what}): see the executed notebook beside"
    return replace(run, level="failed", headline=_NOT_MADE, error=why)


def _write(half: Path, run: Run, ran: Executed, figures: bool, last_good: str | None) -> Run:
    """Everything that is made of the executed notebook."""
    from sharelag.reports.figures import draw
    from sharelag.reports.mail import mail
    from sharelag.reports.page import page, title_of

    run = replace(run, figures=draw(ran.notebook, half / "figures") if figures else "not asked for")
    told = None if ran.verdict is None else dict(ran.verdict)
    (half / "report.html").write_text(
        page(ran.notebook, run, told, last_good if run.error else None), "utf-8"
    )
    (half / "mail.html").write_text(mail(title_of(ran.notebook) or run.report, run, told), "utf-8")
    verdict = (told or {}) | {
        "level": run.level,
        "headline": run.headline,
        "error": run.error,
        "run_id": run.run_id,
    }
    for name, value in (("verdict.json", verdict), (shelf.RUN, asdict(run))):
        (half / name).write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return run
