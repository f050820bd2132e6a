"""`sharelag dlq`: archived records against the dead-letter queue, and how to send them again."""

from __future__ import annotations

from typing import Any

import click

from sharelag.cli.once import Command
from sharelag.cli.options import (
    ENGINE,
    INPUT,
    OUTPUT,
    TIMEOUT,
    VERBOSE,
    source_of,
    with_options,
)
from sharelag.cli.output import start, write
from sharelag.cli.partial import below_table, marked, note_result
from sharelag.cli.progress_bar import reading_bar
from sharelag.metrics.dead_letter_ledger import STATUSES
from sharelag.metrics.redrive import REDRIVEN
from sharelag.tables import views


@click.command(cls=Command)
@with_options(INPUT, OUTPUT, ENGINE, TIMEOUT, VERBOSE)
@click.option("--group", metavar="GROUP", help="The share group; else all.")
@click.option(
    "--queue",
    metavar="TOPIC_OR_PATH",
    help="The topic that is the queue, or Parquet files of it with headers; else what the group's "
    "setting errors.deadletterqueue.topic.name says.",
)
@click.option("--redrive", is_flag=True, help="Plan how to send them again. It sends nothing.")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice(STATUSES),
    help="Only these; repeatable. With --redrive: written, duplicate, missing and passed.",
)
def dlq(
    output: str,
    engine: str,
    group: str | None,
    queue: str | None,
    redrive: bool,
    statuses: tuple[str, ...],
    **options: Any,
) -> int | None:
    """Compare archived records of a group with its dead-letter queue (KIP-1191).

    One row is a run of offsets with the same status: written, duplicate, missing, archiving, stuck,
    passed, unexpected, unknown or unreadable, with the reason. No payload is shown; sharelag peek
    shows one.
    """
    from sharelag.tables.lines import lines, plain_rows
    from sharelag.tables.words import terminal
    from sharelag.workbench import open_workbench
    from sharelag.workbench.engine import rejects_of
    from sharelag.workbench.questions.dead_letters import NAMELESS

    source = source_of(options)
    with reading_bar(source) as read:
        bench = open_workbench(read, engine=start(engine, source))
        if redrive:
            result = bench.redrive(group, queue, statuses or REDRIVEN)
        else:
            result = bench.dead_letters(group, queue)
        rejects = rejects_of(bench.reading)
    table = result.table
    if statuses and not redrive:
        table = table.filter([status in statuses for status in table.column("status").to_pylist()])
    view = views.REDRIVE.without("command") if redrive else views.LEDGER
    lacks = (*rejects, *(one for one in result.unknown if one == NAMELESS))
    write(lines(marked(plain_rows(table), None, lacks), output, view.columns))
    if redrive and output == "human":
        commands = [one for one in table.column("command").to_pylist() if one]
        write(["", *map(terminal, commands)] if commands else [])
    write(below_table(None, output, lacks))
    return note_result(result, output, lacks)
