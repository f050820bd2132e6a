"""`sharelag history`: what happened to each share partition, or its lag at regular moments."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from sharelag.cli.once import Command
from sharelag.cli.options import (
    CHOICE,
    ENGINE,
    INPUT,
    OUTPUT,
    TIMEOUT,
    VERBOSE,
    Duration,
    choice_of,
    moment_of,
    source_of,
    with_options,
)
from sharelag.cli.output import (
    groups_in,
    read_by,
    require_rows,
    start,
    summarise,
)
from sharelag.cli.partial import note_partial, write_rows
from sharelag.cli.progress_bar import reading_bar
from sharelag.cli.telling import tell
from sharelag.tables import views

#: Of records that came from Spark, so many are shown to people.
_MOST_LINES = 20_000


@click.command(cls=Command)
@with_options(INPUT, CHOICE, OUTPUT, ENGINE, TIMEOUT, VERBOSE)
@click.option(
    "--since", metavar="WHEN", help="Start at this time, or this long before the end (2h)."
)
@click.option(
    "--events",
    is_flag=True,
    help="Show resets, new leaders, archived records and members instead of every record.",
)
@click.option(
    "--every",
    type=Duration(),
    metavar="DURATION",
    help="Show the lag at this interval instead of every record.",
)
def history(
    output: str,
    engine: str,
    since: str | None,
    events: bool,
    every: timedelta | None,
    **options: Any,
) -> int | None:
    """Show how each share partition changed, record by record or at intervals.

    FINISHED, RELEASED and ARCHIVED count offsets that a record changed, `-` where that is unknown
    because earlier records may be missing. PARTIAL marks states without a complete snapshot.
    """
    from sharelag.replay.moment import parse_since, parse_time
    from sharelag.tables.lines import each_row
    from sharelag.workbench import engine as engines
    from sharelag.workbench import investigate

    source, moment, choice = source_of(options), moment_of(options), choice_of(options)
    with (
        reading_bar(source) as read,
        engines.reading(read, start(engine, source), moment, choice) as begun,
    ):
        begin = parse_since(since, lambda: begun.now, parse_time) if since else None
        if events:
            answer = investigate.events_of(begun, begin, every)
            columns, unit = views.EVENTS.columns, "event"
        elif every is not None:
            answer = investigate.timeline_of(
                begun, investigate.regular_moments(begun, every, begin), every
            )
            columns, unit = views.TIMELINE.columns, "row"
        elif output == "human" or begun.engine == "local":
            answer = engines.history_of(
                begun, begin, None if begun.engine == "local" else _MOST_LINES
            )
            columns, unit = views.HISTORY.columns, "record"
        else:
            groups = groups_in(begun.table("windows"))
            require_rows(choice, moment or begin, groups, source, begun.counted.rejected)
            rows = (row for table in begun.history_tables(begin) for row in each_row(table))
            counts = engines.Answer.of(begun, begun.table("windows"))
            write_rows(rows, output, None, counts)
            read_by(begun.evidence, source, options["as_of"] is not None, counts.lacks)
            return note_partial(None, output, counts.lacks)
        # Where nothing happened there are no events, and yet there is the group.
        found = groups_in(begun.table("windows") if events else answer.table)
    require_rows(choice, moment or begin, found, source, answer.rejected)
    write_rows(each_row(answer.table), output, columns, answer)
    if answer.left_out:
        tell(f"{answer.left_out:,} earlier records are not shown; -o csv prints all")
    summarise(answer, source, options["as_of"], unit)
    return note_partial(None, output, answer.lacks)
