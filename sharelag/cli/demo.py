"""`sharelag demo`: how the groups of the recorded cluster are that comes with sharelag."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sharelag.cli import options as option
from sharelag.cli.options import VERBOSE, command, path, with_options
from sharelag.cli.output import print_rows, read_by, start, write
from sharelag.cli.telling import tell
from sharelag.errors import InputError
from sharelag.inputs.recorded import DEMO, folder_of

if TYPE_CHECKING:
    from sharelag.inputs import CaptureInput

#: The recorded cluster.
CAPTURE = folder_of(DEMO)
#: What to try after it, and what for.
_NEXT = {
    "sharelag explain --capture demo": "why there is lag, and what to do",
    "sharelag lag --capture demo": "every share partition",
    "sharelag simulate --capture demo --group analytics --members 2,4 --compare": "what would help",
    "sharelag lag --bootstrap-server HOST:PORT": "your own cluster",
}
#: Where the notebooks are; an installed package comes without them.
_CHECKOUT = Path(__file__).resolve().parents[2] / "Makefile"


@command()
@path(
    "--out",
    default=Path("out/demo"),
    show_default=True,
    metavar="DIR",
    help="The folder to write to.",
)
@click.option(
    "--report/--no-report", default=True, show_default=True, help="Also make the daily report."
)
@with_options(option.engine("auto", " Of the table: the report takes auto."), VERBOSE)
def demo(out: Path, report: bool, engine: str) -> None:
    """Show how the share groups of a recorded cluster are, and why, the worst first.

    Prints a table, and makes the daily report in OUT/reports.
    """
    from sharelag.engine.engines import choose
    from sharelag.inputs import CaptureInput

    tell("reading the recorded cluster")
    source = CaptureInput(CAPTURE)
    # Only without a report can it do without the packages that `start` spares it.
    _groups(source, choose(engine, source) if report else start(engine, source))
    if report:
        _report(out / "reports")


def _groups(source: CaptureInput, engine: str) -> None:
    from sharelag.tables import views
    from sharelag.workbench.bench import Workbench

    bench = Workbench(source=source, engine=engine, bars=False)
    answer = bench.overview()
    write([f"{answer.title}\n"])
    print_rows(answer.table, "human", views.OVERVIEW_IN_SHORT.columns)
    read_by(bench.evidence(), source)


def _report(out: Path) -> None:
    from sharelag.reports import report
    from sharelag.reports.execute import execute

    made = report(
        "daily",
        {"capture": str(CAPTURE), "engine": "auto"},
        out,
        keep=5,
        run=partial(execute, progress=tell),
        progress=tell,
    )
    if made.run.error is not None:
        raise InputError(f"the daily report failed ({made.run.error}): see {made.html}")
    page = out / "daily" / "latest" / "report.html"
    click.echo(f"\nThe daily report, {made.run.level}: {page}")
    click.echo("\nNext:")
    notebooks = {"make lab": "the notebooks"} if _CHECKOUT.is_file() else {}
    for line, purpose in (_NEXT | notebooks).items():
        # Commands alone fit into 80 columns.
        click.echo(f"  {line}\n      {purpose}")
