"""`sharelag demo`: the lag of the recorded cluster that comes with sharelag."""

from __future__ import annotations

from pathlib import Path

import click

from sharelag.cli.options import VERBOSE, engine_option, with_options
from sharelag.errors import InputError
from sharelag.sources.recorded import DEMO, folder_of

#: What to try after it.
_NEXT = """
Next:
  sharelag explain --capture demo                                             why there is lag
  sharelag simulate --capture demo --group analytics --members 2,4 --compare  what would help
  sharelag lag --bootstrap-server HOST:PORT                                   your own cluster
  jupyter lab notebooks                                                       the notebooks"""
#: The recorded cluster.
CAPTURE = folder_of(DEMO)


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
@with_options(engine_option("spark"), VERBOSE)
def demo(out: Path, report: bool, engine: str) -> None:
    """Show the lag of a recorded cluster.

    Prints a table, and makes the daily report in OUT/reports.
    """
    from sharelag.sources.inputs import CaptureInput
    from sharelag.tables import views
    from sharelag.tables.lines import lines, plain_rows
    from sharelag.workbench import engine as engines

    answer = engines.lag(CaptureInput(CAPTURE), engine)
    for line in lines(plain_rows(answer.table), "human", views.LAG.columns):
        click.echo(line)
    if report:
        _report(out / "reports", engine)


def _report(out: Path, engine: str) -> None:
    from sharelag.reports import report

    made = report("daily", {"capture": str(CAPTURE), "engine": engine}, out, keep=5)
    if made.run.error is not None:
        raise InputError(f"the daily report failed ({made.run.error}): see {made.html}")
    page = out / "daily" / "latest" / "report.html"
    click.echo(f"\nThe daily report, {made.run.level}: {page}")
    click.echo(_NEXT)
