"""`sharelag demo`: how the groups of the recorded cluster that comes with sharelag are doing."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sharelag.cli import options as option
from sharelag.cli.options import VERBOSE, command, with_options
from sharelag.cli.output import note, plain, print_rows, source_words, start, tell, write
from sharelag.errors import InputError
from sharelag.inputs.recorded import DEMO, folder_of
from sharelag.model import iso

if TYPE_CHECKING:
    from sharelag.inputs import CaptureInput

#: The recorded cluster.
CAPTURE = folder_of(DEMO)
#: Suggested next commands, and their purpose.
_NEXT = {
    "sharelag explain --capture demo": "why there is lag, and what to do",
    "sharelag lag --capture demo": "every share partition",
    "sharelag simulate --capture demo --group analytics --members 2,4 --compare": "what would help",
    "sharelag lag --bootstrap-server HOST:PORT": "your own cluster",
}
#: Where the notebooks are; an installed package does not include them.
_CHECKOUT = Path(__file__).resolve().parents[2] / "Makefile"


@command()
@option.path("--out DIR  The folder to write to.", default=Path("out/demo"))
@option.text("--report/--no-report  Also make the daily report.", default=True)
@with_options(option.ENGINE, VERBOSE)
def demo(out: Path, report: bool, engine: str) -> None:
    """Show how the share groups of a recorded cluster are doing, and why, worst first.

    Makes the daily report in OUT/reports, without image files of its charts, and prints a table.
    """
    from sharelag.inputs import CaptureInput
    from sharelag.tables import views

    source = CaptureInput(CAPTURE)
    if report:  # refuse before other imports, which take a second
        from sharelag.reports.store import writing

        with writing(out, ", or make no report (--no-report)"):
            out.mkdir(parents=True, exist_ok=True)
    how = _report(out / "reports", engine) if report else _overview(source, start(engine, source))
    write([f"{how['headline']}\n"])
    print_rows(how["groups"], "human", views.OVERVIEW_IN_SHORT.columns)
    tell(f"as of {how['as_of']}, {source_words(source, how['engine'])}")
    note(how["unknown"])
    if report:
        _say_next(out / "reports" / "daily" / "latest" / "report.html", how)


def _overview(source: CaptureInput, engine: str) -> dict[str, Any]:
    from sharelag.workbench.bench import Workbench

    tell("reading the recorded cluster")
    bench = Workbench(source=source, engine=engine, bars=False)
    answer, evidence = bench.overview(), bench.evidence()
    return {
        "headline": answer.title,
        "groups": plain(answer.table),
        "as_of": iso(evidence.as_of),
        "engine": evidence.engine,
        "unknown": answer.unknown,
    }


def _report(out: Path, engine: str) -> dict[str, Any]:
    """Make the daily report; return its verdict, as `_overview` does."""
    from sharelag.reports import report
    from sharelag.reports.execute import execute
    from sharelag.workbench.verdicts import worst_cause

    given, run = {"capture": str(CAPTURE), "engine": engine}, partial(execute, progress=tell)
    made = report("daily", given, out, keep=5, figures=False, run=run, progress=tell)
    if made.verdict is None or made.run.error is not None:
        raise InputError(f"the daily report failed ({made.run.error}): see {made.html}")
    groups = [group | {"cause": worst_cause(group)} for group in made.verdict["groups"]]
    return {**made.verdict, "groups": groups}


def _say_next(page: Path, how: dict[str, Any]) -> None:
    made = "on Spark" if how["engine"] == "spark" else "in one process"
    write([f"\nThe daily report, {how['level']}, made {made}: {page}", "\nNext:"])
    notebooks = {"make lab": "the notebooks"} if _CHECKOUT.is_file() else {}
    # Command and purpose together exceed 80 columns.
    write(f"  {line}\n      {purpose}" for line, purpose in (_NEXT | notebooks).items())
