"""`sharelag peek`: the record at an offset, such as one that is stuck."""

from __future__ import annotations

import json
import re
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
from sharelag.cli.output import start
from sharelag.cli.progress_bar import reading_bar

_PLACE = re.compile(r"(?P<topic>[^:]+):(?P<partition>\d+):(?P<offset>\d+)")


@click.command(cls=Command)
@with_options(INPUT, OUTPUT, ENGINE, TIMEOUT, VERBOSE)
@click.argument("group")
@click.argument("place", metavar="TOPIC:PARTITION:OFFSET")
@click.option(
    "--as",
    "form",
    type=click.Choice(["auto", "text", "json", "hex"]),
    default="auto",
    help="How key, headers and value are shown.",
)
@click.option(
    "--mask",
    multiple=True,
    metavar="FIELD",
    help="Hide a field of JSON, such as card.number; repeatable. What is not JSON is hidden whole.",
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
