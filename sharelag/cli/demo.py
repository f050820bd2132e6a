"""`sharelag demo`: the lag of the recorded cluster that comes with sharelag."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from sharelag.cli.options import VERBOSE, engine_option, with_options
from sharelag.errors import InputError
from sharelag.sources.recorded import DEMO, folder_of

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

    Prints a table, writes OUT/lag.html, and makes the daily report in OUT/reports.
    """
    for line in run_demo(out, engine, report):
        click.echo(line)


def run_demo(out: Path, engine: str = "spark", with_report: bool = False) -> Iterator[str]:
    """Compute the lag of the recorded cluster and write ``out/lag.html``, and the daily report.

    Parameters
    ----------
    out : pathlib.Path
        Created when missing.
    engine : {"auto", "local", "spark"}
    with_report : bool
        Also make the daily report in ``out/reports``.

    Yields
    ------
    str
        Lines for the terminal: the table, then where the pages are.
    """
    from sharelag.metrics.lag import rollup_arrow
    from sharelag.model import iso
    from sharelag.sources.inputs import CaptureInput
    from sharelag.tables import views
    from sharelag.tables.lines import lines, plain_rows
    from sharelag.workbench import engine as engines
    from sharelag.workbench.page import lag_page

    source = CaptureInput(CAPTURE)
    answer = engines.lag(source, engine)
    rows = plain_rows(answer.table)
    yield from lines(rows, "human", views.LAG.columns)
    facts = {
        "as of": iso(source.as_of()),
        "cluster": source.describe(),
        "share partitions": str(len(rows)),
        "lag not known": str(answer.table.column("lag").null_count),
        "records not decoded": str(answer.rejected),
        "computed by": f"the {answer.engine} engine",
    }
    groups = plain_rows(rollup_arrow(answer.table, "group"))
    out.mkdir(parents=True, exist_ok=True)
    page = out / "lag.html"
    page.write_text(
        lag_page("Share-partition lag of a recorded cluster", rows, groups, facts), encoding="utf-8"
    )
    yield ""
    yield f"The same with the terms of the lag: {page}"
    if with_report:
        yield from _report(out / "reports", engine)


def _report(out: Path, engine: str) -> Iterator[str]:
    from sharelag.reports import report

    made = report("daily", {"capture": str(CAPTURE), "engine": engine}, out, keep=5)
    if made.run.error is not None:
        raise InputError(f"the daily report failed ({made.run.error}): see {made.html}")
    yield f"The daily report, {made.run.level}: {out / 'daily' / 'latest' / 'report.html'}"
    if made.run.figures is not None:
        yield f"The charts of the report have no image files: {made.run.figures}"
