"""`sharelag demo`: the lag of the recorded cluster that comes with sharelag."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click
from click.core import ParameterSource

from sharelag.cli.options import VERBOSE, engine_option, with_options
from sharelag.cli.order import Order
from sharelag.cli.output import summarise
from sharelag.cli.telling import tell
from sharelag.errors import InputError
from sharelag.sources.recorded import DEMO, folder_of

#: The recorded cluster.
CAPTURE = folder_of(DEMO)
#: What to try after it, and what for.
_NEXT = {
    "sharelag explain --capture demo": "why there is lag",
    "sharelag simulate --capture demo --group analytics --members 2,4 --compare": "what would help",
    "sharelag lag --bootstrap-server HOST:PORT": "your own cluster",
}
#: Where the notebooks are; an installed package comes without them.
_CHECKOUT = Path(__file__).resolve().parents[2] / "Makefile"


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("out/demo"),
    show_default=True,
    metavar="DIR",
    help="The folder to write to.",
)
@click.option(
    "--report/--no-report", default=True, show_default=True, help="Also make the daily report."
)
@with_options(
    engine_option("spark", " The report takes auto unless this is given."),
    VERBOSE,
)
@click.pass_context
def demo(context: click.Context, out: Path, report: bool, engine: str) -> None:
    """Show the lag of a recorded cluster.

    Prints a table, and makes the daily report in OUT/reports.
    """
    from sharelag.sources.inputs import CaptureInput
    from sharelag.tables import views
    from sharelag.tables.lines import lines, plain_rows
    from sharelag.workbench import engine as engines

    source = CaptureInput(CAPTURE)
    answer = engines.lag(source, engine)
    rows = Order().of(plain_rows(answer.table), "lag")
    for line in lines(rows, "human", views.LAG.columns):
        click.echo(line)
    summarise(answer, source, None, "share partition")
    if report:
        is_given = context.get_parameter_source("engine") is not ParameterSource.DEFAULT
        _report(out / "reports", engine if is_given else "auto")


def _report(out: Path, engine: str) -> None:
    from sharelag.reports import report
    from sharelag.reports.execute import execute

    def say(words: str) -> None:
        tell(words)

    made = report(
        "daily",
        {"capture": str(CAPTURE), "engine": engine},
        out,
        keep=5,
        run=partial(execute, progress=say),
        progress=say,
    )
    if made.run.error is not None:
        raise InputError(f"the daily report failed ({made.run.error}): see {made.html}")
    page = out / "daily" / "latest" / "report.html"
    click.echo(f"\nThe daily report, {made.run.level}: {page}")
    click.echo("\nNext:")
    notebooks = {"make lab": "the notebooks"} if _CHECKOUT.is_file() else {}
    for command, purpose in (_NEXT | notebooks).items():
        # Commands alone fit into 80 columns.
        click.echo(f"  {command}\n      {purpose}")
