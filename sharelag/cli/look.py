"""What is there now, or was there then: lag, windows, records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from sharelag.cli.output import require_rows, start, summarise, write
from sharelag.options import (
    CHOICE,
    ENGINE,
    INPUT,
    OUTPUT,
    TIMEOUT,
    VERBOSE,
    choice_of,
    moment_of,
    source_of,
    with_options,
)


@click.command()
@with_options(INPUT, CHOICE, OUTPUT, ENGINE, TIMEOUT, VERBOSE)
@click.option("--by", type=click.Choice(["partition", "group", "topic"]), default="partition", show_default=True)
def lag(output: str, engine: str, by: str, **options: Any) -> None:
    """Share-partition lag, and what it consists of.

    LAG is Kafka's: end offset - start offset - delivery complete count, `-` where Kafka does not know it.
    UNREAD was never persisted, AVAILABLE waits for another delivery, UNKNOWN is acquired or was never
    persisted, COMPLETE is finished but not yet passed by the start offset.
    """
    from sharelag import engine as engines
    from sharelag import show

    source, moment, choice = source_of(options), moment_of(options), choice_of(options)
    engine = start(engine, source)
    answer = engines.lag(source, engine, moment, choice, None if by == "partition" else by)
    columns = show.LAG_COLUMNS if by == "partition" else show.ROLLUP_COLUMNS
    if by == "group":
        columns = {heading: name for heading, name in columns.items() if name != "topic"}
    rows = show.plain_rows(answer.table)
    require_rows(choice, moment, rows)
    write(show.lines(rows, output, columns))
    summarise(answer, source, options["as_of"], "share partition" if by == "partition" else by)


@click.command()
@with_options(INPUT, CHOICE, OUTPUT, ENGINE, TIMEOUT, VERBOSE)
def windows(output: str, engine: str, **options: Any) -> None:
    """What the share coordinator holds of each share partition: epochs, offsets, state batches.

    With -o json, yaml and csv the fields of a window are raw, as Kafka holds them: -1 is Kafka's unknown.
    """
    from sharelag import engine as engines
    from sharelag import show

    source, moment, choice = source_of(options), moment_of(options), choice_of(options)
    engine = start(engine, source)
    answer = engines.windows(source, engine, moment, choice)
    rows = show.window_rows(answer.table)
    require_rows(choice, moment, rows)
    write(show.lines(rows, output, show.WINDOW_COLUMNS))
    summarise(answer, source, options["as_of"], "share partition")


@click.command()
@with_options(INPUT, CHOICE, OUTPUT, TIMEOUT, VERBOSE)
@click.option(
    "--records",
    type=click.Choice(["state", "group", "all"]),
    default="all",
    show_default=True,
    help="Those of __share_group_state, the share groups' in __consumer_offsets, or both.",
)
def decode(output: str, records: str, **options: Any) -> None:
    """Every record, in the JSON of Kafka's own formatters; what cannot be decoded is printed as a reject.

    Records know topics by their ids: --topic takes those here, and applies to state records.
    """
    from sharelag import engine as engines
    from sharelag import show
    from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC

    source, moment, choice = source_of(options), moment_of(options), choice_of(options)
    start("local", source)
    topics = {"state": [STATE_TOPIC], "group": [GROUP_TOPIC], "all": [STATE_TOPIC, GROUP_TOPIC]}[records]
    skipped = 0

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal skipped
        for topic in topics:
            for batch in engines.decoded(source, topic, moment, choice):
                skipped += batch.skipped
                yield from show.decoded_rows(batch, columns=output == "csv")

    write(show.lines(rows(), "json" if output == "human" else output))
    click.echo(f"sharelag: {skipped} records of other kinds skipped", err=True)


COMMANDS = (lag, windows, decode)
