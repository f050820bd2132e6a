"""`sharelag dlq` and `peek`: records that were given up or are stuck, and their contents."""

from __future__ import annotations

import json
import re
from typing import Any

import click

from sharelag.cli.ask import ask, print_answer
from sharelag.cli.options import ANSWER, INPUT, command, pick, repeat, source_of, switch, text
from sharelag.cli.output import reading_bar, start, write
from sharelag.metrics.dead_letters import STATUSES
from sharelag.tables import views

_PLACE = re.compile(r"(?P<topic>[^:]+):(?P<partition>\d+):(?P<offset>\d+)")


@command(INPUT, ANSWER)
@text("--group", "GROUP", "The share group; else all.")
@text(
    "--queue",
    "TOPIC_OR_PATH",
    "The topic that is the queue, or Parquet files of it with headers; else what the group's "
    "setting errors.deadletterqueue.topic.name says.",
)
@switch("--redrive", "Plan how to send them again. It sends nothing.")
@pick(
    "--status",
    "statuses",
    "Only these; repeatable. With --redrive: written, duplicate, missing and passed.",
    among=STATUSES,
    multiple=True,
)
def dlq(
    output: str,
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
    asked: dict[str, Any] = {"group": group, "queue": queue}
    if not redrive:
        return print_answer("dead_letters", output, options, unit="", statuses=statuses, **asked)
    from sharelag.tables.words import terminal

    answered = ask("redrive", options, statuses=statuses, **asked)
    table = answered.result.table
    answered.write(output, table, views.REDRIVE.without("command").columns)
    commands = [one for one in table.column("command").to_pylist() if one]
    if commands and output == "human":
        write(["", *map(terminal, commands)])
    return answered.note(output)


@command(INPUT, ANSWER)
@click.argument("group")
@click.argument("place", metavar="TOPIC:PARTITION:OFFSET")
@pick(
    *("--as", "form", "How key, headers and value are shown."),
    among=["auto", "text", "json", "hex"],
    default="auto",
    show_default=False,
)
@repeat(
    "--mask",
    "FIELD",
    "Hide a field of JSON, such as card.number; repeatable. What is not JSON is hidden whole.",
)
def peek(
    output: str,
    engine: str,
    group: str,
    place: str,
    form: str,
    mask: tuple[str, ...],
    **options: Any,
) -> None:
    """Show the record at an offset: key, headers, value, size, time, and its state in the GROUP.

    It is read by a consumer of this one offset, which joins no group and commits nothing. This
    shows payloads: nothing else of sharelag shows or keeps them.
    """
    from sharelag.workbench import open_workbench

    found = _PLACE.fullmatch(place)
    if found is None:
        raise click.UsageError(f"{place!r} is not TOPIC:PARTITION:OFFSET, such as orders:0:4142.")
    if output not in ("human", "json"):
        raise click.UsageError("A record is text or JSON: choose -o human or -o json.")
    source = source_of(options)
    with reading_bar(source) as read:
        bench = open_workbench(read, engine=start(engine, source), groups=group)
        record = bench.peek(
            group, found["topic"], int(found["partition"]), int(found["offset"]), mask=mask
        )
    click.echo(json.dumps(record.fields(form)) if output == "json" else record.text(form))
