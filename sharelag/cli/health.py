"""`sharelag health` and `reconcile`: the state topic, and lag computed in several ways."""

from __future__ import annotations

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
    choice_of,
    moment_of,
    source_of,
    with_options,
)
from sharelag.cli.output import (
    groups_in,
    require_rows,
    start,
    summarise,
)
from sharelag.cli.partial import note_partial, write_rows
from sharelag.cli.progress_bar import reading_bar
from sharelag.cli.telling import tell
from sharelag.tables import views


@click.command(cls=Command)
@with_options(INPUT, CHOICE, OUTPUT, ENGINE, TIMEOUT, VERBOSE)
@click.option(
    "--described",
    type=click.File("rb"),
    metavar="FILE",
    help="Output of `kafka-share-groups.sh --describe --offsets` to compare with; - is stdin.",
)
@click.option(
    "--true",
    is_flag=True,
    help="Read the whole backlog and count the records that exist.",
)
def reconcile(output: str, engine: str, described: Any, true: bool, **options: Any) -> int | None:
    """Compare the lag computed in several ways, and explain the differences.

    NAIVE is end - start, EFFECTIVE counts unfinished offsets of the state batches, TRUE counts
    records that exist and are not aborted.
    """
    from sharelag.sources.texts import text_of
    from sharelag.tables.lines import plain_rows
    from sharelag.workbench import engine as engines
    from sharelag.workbench import investigate

    source, moment, choice = source_of(options), moment_of(options), choice_of(options)
    text = text_of(described.read(), "replace") if described else None
    with (
        reading_bar(source) as read,
        engines.reading(read, start(engine, source), moment, choice, history=False) as begun,
    ):
        answer = investigate.reconcile_of(begun, text, true)
    rows = plain_rows(answer.table)
    require_rows(choice, moment, groups_in(answer.table), source, answer.rejected)
    write_rows(rows, output, views.reconciled(described is not None, true).columns, answer)
    summarise(answer, source, options["as_of"], "share partition")
    return note_partial(None, output, answer.lacks)


@click.command(cls=Command)
@with_options(INPUT, OUTPUT, ENGINE, TIMEOUT, VERBOSE)
@click.option(
    "--findings", "only_findings", is_flag=True, help="Show only the problems, as a table."
)
@click.option(
    "--snapshots",
    "of_each",
    is_flag=True,
    help="Show the last snapshot of each share partition instead, and the updates since.",
)
def health(
    output: str, engine: str, only_findings: bool, of_each: bool, **options: Any
) -> int | None:
    """Show the health of the state topic: records, bytes, pruning, misplaced records."""
    from sharelag.metrics.health import formats
    from sharelag.metrics.placement import in_words
    from sharelag.replay.moment import Choice
    from sharelag.tables.lines import plain_rows
    from sharelag.tables.words import terminal
    from sharelag.workbench import engine as engines
    from sharelag.workbench import investigate

    if only_findings and of_each:
        raise click.UsageError("--findings and --snapshots are two tables: choose one.")
    source, every = source_of(options), Choice(generation=options["generation"])
    engine = start(engine, source)
    if of_each:
        with reading_bar(source) as read, engines.reading(read, engine, None, every) as begun:
            answer = investigate.snapshots_of(begun)
        write_rows(plain_rows(answer.table), output, views.SNAPSHOTS.columns, answer)
        summarise(answer, source, None, "share partition")
        return note_partial(None, output, answer.lacks)
    with (
        reading_bar(source) as read,
        engines.reading(read, engine, None, every, health=True) as begun,
    ):
        answer, findings = investigate.health_of(begun)
    if only_findings:
        write_rows(plain_rows(findings), output, views.FINDINGS.columns, answer)
        summarise(answer, source, None, "state partition")
        return note_partial(None, output, answer.lacks)
    write_rows(plain_rows(answer.table), output, views.HEALTH.columns, answer)
    if answer.table.num_rows:
        tell(f"format of the records: {formats(answer.table)}")
    else:
        tell(engines.without_records(source))
    for sentence in in_words(findings):
        tell(terminal(sentence))
    summarise(answer, source, None, "state partition")
    return note_partial(None, output, answer.lacks)
