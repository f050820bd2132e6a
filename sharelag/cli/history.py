"""`sharelag history`: what happened to each share partition, or its lag at regular moments."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from sharelag.cli.ask import Answered, open_bench, print_answer
from sharelag.cli.options import ANSWER, CHOICE, INPUT, command, duration, source_of
from sharelag.cli.output import groups_in, require_rows

#: Of records that came from Spark, so many are shown to people.
_MOST_LINES = 20_000


@command(INPUT, CHOICE, ANSWER)
@click.option(
    "--since", metavar="WHEN", help="Start at this time, or this long before the end (2h)."
)
@click.option(
    "--events",
    is_flag=True,
    help="Show resets, new leaders, archived records and members instead of every record.",
)
@duration("--every", help="Show the lag at this interval instead of every record.")
def history(
    output: str, since: str | None, events: bool, every: timedelta | None, **options: Any
) -> int | None:
    """Show how each share partition changed, record by record or at intervals.

    FINISHED, RELEASED and ARCHIVED count offsets that a record changed, `-` where that is unknown
    because earlier records may be missing. PARTIAL marks states without a complete snapshot.
    """
    if events:
        return print_answer("events", output, options, unit="event", since=since, every=every)
    if every is not None:
        return print_answer(
            "timeline", output, options, unit="row", since=since, every=every, whole=True
        )
    if output == "human":
        return print_answer("history", output, options, unit="record", since=since)
    return _print_all(output, since, options)


def _print_all(output: str, since: str | None, options: dict[str, Any]) -> int | None:
    """Print every row, piece by piece: there may be millions."""
    from sharelag.tables.lines import each_row
    from sharelag.workbench.questions.history import begin_of

    source = source_of(options)
    with open_bench(source, options) as bench:
        read = bench.reading
        begin, base = begin_of(since, read.now), bench.base(read)
        groups = groups_in(read.table("windows"))
        require_rows(bench.choice, bench.as_of or begin, groups, source, base.rejected)
        answered = Answered(base, source, groups, bench.choice, options["as_of"])
        rows = (row for table in read.history_tables(begin) for row in each_row(table))
        answered.write(output, rows, None)
        return answered.note(output)
