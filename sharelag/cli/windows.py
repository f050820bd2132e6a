"""States of share partitions, what happened to them, and their records."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import click

from sharelag.cli import options as option
from sharelag.cli.ask import Answered, ask, below_table, open_bench, print_answer
from sharelag.cli.options import choice_of, command, moment_of, source_of
from sharelag.cli.output import groups_in, require_rows, start, tell, write
from sharelag.tables.words import counted


@command(option.INPUT, option.REQUESTS, option.CHOICE, option.ANSWER)
@option.text("--since", "WHEN", "Show what changed since a time, or in the last time such as 2h.")
@option.switch(
    "--picture", "Draw each window: offsets, states and delivery counts, long runs folded."
)
def windows(output: str, since: str | None, picture: bool, **options: Any) -> int | None:
    """Show the state of each share partition: epochs, offsets, state batches.

    With -o json, yaml and csv the fields of a window have Kafka's values, in which -1 means
    unknown, and so does 0 of a timestamp.
    """
    from sharelag.workbench.show import window_rows

    if picture and (since is not None or output != "human"):
        raise click.UsageError("--picture is text of one moment: leave out --since and -o.")
    if since is not None:
        if options["requests"]:
            raise click.UsageError(
                "--requests tells who holds what at one moment: leave out --since."
            )
        return print_answer("diff", output, options, before=since)
    answered = ask("windows", options, held=picture)
    rows = window_rows(answered.result.table)
    if picture:
        from sharelag.workbench.show import pictures

        write(pictures(rows, _paint if sys.stdout.isatty() else None))
        write(below_table(answered.source, output, answered.result.lacks))
    else:
        answered.write(output, rows, answered.result.columns)
    return answered.note(output, "share partition")


def _paint(text: str, colour: str) -> str:
    """Colour a text, unless the user asks for no colours (https://no-color.org)."""
    return text if os.environ.get("NO_COLOR") else click.style(text, fg=colour)


@command(option.INPUT, option.CHOICE, option.OUTPUT, option.TIMEOUT, option.VERBOSE)
@option.pick(
    "--records",
    "Records of __share_group_state, of share groups in __consumer_offsets, or both.",
    among=["state", "group", "all"],
    default="all",
)
def decode(output: str, records: str, **options: Any) -> None:
    """Print the records as JSON, as Kafka's own formatters do.

    A record that cannot be decoded is printed as a reject. Records name topics by their ids:
    --topic takes ids here, and applies to state records.
    """
    from sharelag.engine.local import decode_topic
    from sharelag.tables.lines import lines
    from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC
    from sharelag.wire.generations import group_types
    from sharelag.workbench.show import decode_rows, decode_texts, draft_types, older_generations

    source, moment, choice = source_of(options), moment_of(options), choice_of(options)
    start("local", source)
    topics = {"state": [STATE_TOPIC], "group": [GROUP_TOPIC]}
    skipped, older = 0, Counter[str]()
    types: list[Any] = []

    def batches() -> Iterator[Any]:
        nonlocal skipped
        for topic in topics.get(records, [STATE_TOPIC, GROUP_TOPIC]):
            see = (lambda one: types.append(group_types(one))) if topic == GROUP_TOPIC else None
            for batch in decode_topic(source, topic, moment, choice, see):
                skipped += batch.skipped
                older.update(older_generations(batch.records))
                yield batch

    if output in ("human", "json"):
        write(text for batch in batches() for text in decode_texts(batch))
    else:
        rows = (row for batch in batches() for row in decode_rows(batch, output == "csv"))
        write(lines(rows, output))
    tell(f"skipped {counted(skipped, 'record')} of other kinds")
    for name, count in sorted(older.items()):
        tell(f"{counted(count, 'record')} in an older format, {name}")
    tell(*draft_types(types, choice.groups))


#: Of records that came from Spark, so many are shown to people.
_MOST_LINES = 20_000


@command(option.INPUT, option.CHOICE, option.ANSWER)
@option.text("--since", "WHEN", "Start at this time, or this long before the end (2h).")
@option.switch(
    "--events", "Show resets, new leaders, archived records and members instead of every record."
)
@option.duration("--every", "Show the lag at this interval instead of every record.")
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
    from sharelag.workbench.questions.timeline import begin_of

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
