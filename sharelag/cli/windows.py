"""`sharelag windows` and `decode`: states of share partitions, and the records they come from."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import click

from sharelag.cli.once import Command
from sharelag.cli.options import (
    CHOICE,
    ENGINE,
    INPUT,
    OUTPUT,
    REQUESTS,
    TIMEOUT,
    VERBOSE,
    choice_of,
    moment_of,
    requests_of,
    source_of,
    with_options,
)
from sharelag.cli.output import (
    groups_in,
    note_requests,
    require_rows,
    start,
    summarise,
    write,
)
from sharelag.cli.partial import (
    below_table,
    note_partial,
    silent_in,
    whole_or_partial,
    write_rows,
)
from sharelag.cli.progress_bar import reading_bar
from sharelag.cli.telling import tell
from sharelag.tables import views
from sharelag.tables.words import counted


@click.command(cls=Command)
@with_options(INPUT, REQUESTS, CHOICE, OUTPUT, ENGINE, TIMEOUT, VERBOSE)
@click.option(
    "--since",
    metavar="WHEN",
    help="Show what changed since a time, or in the last time such as 2h.",
)
@click.option(
    "--picture",
    is_flag=True,
    help="Draw each window: offsets, states and delivery counts, long runs folded.",
)
def windows(
    output: str, engine: str, since: str | None, picture: bool, **options: Any
) -> int | None:
    """Show the state of each share partition: epochs, offsets, state batches.

    With -o json, yaml and csv the fields of a window have Kafka's values, in which -1 means
    unknown, and so does 0 of a timestamp.
    """
    from sharelag.tables.lines import plain_rows
    from sharelag.workbench import engine as engines
    from sharelag.workbench.show import window_rows

    if picture and (since is not None or output != "human"):
        raise click.UsageError("--picture is text of one moment: leave out --since and -o.")
    if since is not None and options["requests"]:
        raise click.UsageError("--requests tells who holds what at one moment: leave out --since.")
    source, moment, choice = source_of(options), moment_of(options), choice_of(options)
    log = requests_of(options)

    def ask(source: Any) -> engines.Answer:
        with reading_bar(source) as read:
            return engines.windows(read, start(engine, source), moment, choice, log)

    if since is None:
        answer, source = whole_or_partial(source, ask)
        rows = window_rows(answer.table)
        columns = views.windows_with(log is not None)
    else:
        with (
            reading_bar(source) as read,
            engines.reading(read, start(engine, source), moment, choice, history=False) as begun,
        ):
            answer = engines.Answer.of(begun, engines.diff_of(begun, since))
        rows, columns = plain_rows(answer.table), views.DIFF.columns
    groups = groups_in(answer.table)
    if not silent_in(source):
        require_rows(choice, moment, groups, source, answer.rejected)
    if picture:
        from sharelag.metrics.holders import held_runs
        from sharelag.workbench.picture import pictures

        if answer.holders is not None:
            held = held_runs(answer.holders)
            key = ("group_id", "topic_id", "partition")
            rows = [row | {"held": held.get(tuple(row[n] for n in key), [])} for row in rows]
        write(pictures(rows, _painted if sys.stdout.isatty() else None))
        write(below_table(source, output, answer.lacks))
    else:
        write_rows(rows, output, columns, answer, source)
    summarise(answer, source, options["as_of"], "share partition")
    if log is not None:
        note_requests(log, answer.now)
    return note_partial(source, output, answer.lacks, choice.groups - groups)


def _painted(text: str, colour: str) -> str:
    """Colour a text, unless the user asks for no colours (https://no-color.org)."""
    return text if os.environ.get("NO_COLOR") else click.style(text, fg=colour)


@click.command(cls=Command)
@with_options(INPUT, CHOICE, OUTPUT, TIMEOUT, VERBOSE)
@click.option(
    "--records",
    type=click.Choice(["state", "group", "all"]),
    default="all",
    show_default=True,
    help="Records of __share_group_state, of share groups in __consumer_offsets, or both.",
)
def decode(output: str, records: str, **options: Any) -> None:
    """Print the records as JSON, as Kafka's own formatters do.

    A record that cannot be decoded is printed as a reject. Records name topics by their ids:
    --topic takes ids here, and applies to state records.
    """
    from sharelag.quick.records import decoded
    from sharelag.tables.lines import lines
    from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC
    from sharelag.wire.group_types import group_types
    from sharelag.workbench.group_types import drafted_types
    from sharelag.workbench.show import decoded_rows, decoded_texts, older_generations

    source, moment, choice = source_of(options), moment_of(options), choice_of(options)
    start("local", source)
    topics = {"state": [STATE_TOPIC], "group": [GROUP_TOPIC], "all": [STATE_TOPIC, GROUP_TOPIC]}[
        records
    ]
    skipped, older = 0, Counter[str]()
    types: list[Any] = []

    def note_types(batch: Any) -> None:
        types.append(group_types(batch))

    def batches() -> Iterator[Any]:
        nonlocal skipped
        for topic in topics:
            see = note_types if topic == GROUP_TOPIC else None
            for batch in decoded(source, topic, moment, choice, see):
                skipped += batch.skipped
                older.update(older_generations(batch.records))
                yield batch

    if output in ("human", "json"):
        write(text for batch in batches() for text in decoded_texts(batch))
    else:
        rows = (row for batch in batches() for row in decoded_rows(batch, output == "csv"))
        write(lines(rows, output))
    tell(f"skipped {counted(skipped, 'record')} of other kinds")
    for name, count in sorted(older.items()):
        tell(f"{counted(count, 'record')} in an older format, {name}")
    for sentence in drafted_types(types, choice.groups):
        tell(sentence)
