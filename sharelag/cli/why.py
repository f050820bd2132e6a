"""Why is there lag: what happened, what holds it, how it is spread, and how the state topic does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import click

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
from sharelag.cli.output import groups_in, read_by, require_rows, shown, start, summarise, write
from sharelag.tables import views

#: Of records that came from Spark, so many are shown to people.
_MOST_LINES = 20_000
OVER = click.option(
    "--over",
    type=Duration(),
    default="1h",
    show_default=True,
    metavar="DURATION",
    help="How far back rates and trends look.",
)


@click.command()
@with_options(INPUT, CHOICE, OUTPUT, ENGINE, TIMEOUT, VERBOSE)
@click.option("--since", metavar="WHEN", help="Start at this time, or so long before the end: 2h.")
@click.option(
    "--every",
    type=Duration(),
    metavar="DURATION",
    help="The lag at regular moments, instead of a row a record.",
)
def history(
    output: str, engine: str, since: str | None, every: timedelta | None, **options: Any
) -> None:
    """What happened to each share partition, record by record; or its lag at regular moments.

    FINISHED, RELEASED and ARCHIVED are offsets that a record changed, `-` where that is not known:
    records before it may be missing. PARTIAL marks states that do not rest on a whole snapshot.
    """
    from sharelag.replay.moment import parse_since, parse_time
    from sharelag.workbench import engine as engines
    from sharelag.workbench import investigate, show

    source, moment, choice = source_of(options), moment_of(options), choice_of(options)
    with (
        shown(source) as read,
        engines.reading(read, start(engine, source), moment, choice) as begun,
    ):
        begin = parse_since(since, lambda: begun.now, parse_time) if since else None
        if every is not None:
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
            require_rows(choice, moment or begin, groups_in(begun.table("windows")))
            rows = (row for table in begun.history_tables(begin) for row in show.each_row(table))
            write(show.lines(rows, output))
            read_by(begun.evidence, source, options["as_of"] is not None)
            return
    require_rows(choice, moment or begin, groups_in(answer.table))
    write(show.lines(show.each_row(answer.table), output, columns))
    if answer.left_out:
        click.echo(
            f"sharelag: {answer.left_out:,} earlier records are not shown; -o csv prints all",
            err=True,
        )
    summarise(answer, source, options["as_of"], unit)


@click.command()
@with_options(INPUT, CHOICE, OUTPUT, ENGINE, TIMEOUT, VERBOSE, OVER)
@click.option(
    "--patience",
    type=Duration(timedelta()),
    metavar="DURATION",
    help="For how long something may go on before it is called stuck.  [default: as long as a lock of the group lasts]",
)
def explain(
    output: str, engine: str, over: timedelta, patience: timedelta | None, **options: Any
) -> None:
    """Why each group lags: causes with their evidence, the weightiest first; nothing where nothing is wrong."""
    from sharelag.metrics.explain import explain as causes
    from sharelag.workbench import show
    from sharelag.workbench.explained import explained

    evidence, source = _gather(engine, over, options)
    table = causes(evidence, patience)
    if output == "human":
        write(explained(evidence, table))
    else:
        write(show.lines(show.plain_rows(table), output))
    read_by(evidence, source, options["as_of"] is not None)


@click.command()
@with_options(INPUT, CHOICE, OUTPUT, ENGINE, TIMEOUT, VERBOSE, OVER)
@click.option(
    "--by", type=click.Choice(["partition", "topic", "member"]), help="Only the spread over these."
)
@click.option(
    "--every",
    type=Duration(),
    metavar="DURATION",
    help="The trend: the imbalance of lag at regular moments.",
)
@click.option(
    "--verdict", is_flag=True, help="What the lag of each group crowds around, with idle members."
)
def imbalance(
    output: str,
    engine: str,
    over: timedelta,
    by: str | None,
    every: timedelta | None,
    verdict: bool,
    **options: Any,
) -> None:
    """How evenly lag, arrivals, work and partitions are spread, and what the lag crowds around.

    GINI and CV are 0 where all is even; MAX/MEAN and JAIN are 1.
    """
    from sharelag.workbench import investigate, show

    if every is not None:
        if by == "member":
            raise click.UsageError(
                "the trend is over partitions and topics: members of the past are not kept."
            )
        source, moment, choice = source_of(options), moment_of(options), choice_of(options)
        engine = start(engine, source)
        with shown(source) as read:
            answer = investigate.trend(read, every, engine, moment, choice, by, over)
        rows = show.plain_rows(answer.table)
        require_rows(choice, moment, groups_in(answer.table))
        write(show.lines(rows, output, views.IMBALANCE_OVER_TIME.columns))
        summarise(answer, source, options["as_of"], "row")
        return
    with reading_of(engine, over, options) as (begun, source):
        evidence, skew = begun.evidence, begun.skew()
        rows = [] if verdict else show.plain_rows(begun.imbalance(by))
    if verdict:
        write(show.lines(show.plain_rows(skew), output, views.SKEW.columns))
        read_by(evidence, source, options["as_of"] is not None)
        return
    write(show.lines(rows, output, views.IMBALANCE.columns))
    if output == "human":
        for row in skew.to_pylist():
            write([show.terminal(f"{row['group_id']}: {show.verdict(row)}")])
    read_by(evidence, source, options["as_of"] is not None)


@click.command()
@with_options(INPUT, CHOICE, OUTPUT, ENGINE, TIMEOUT, VERBOSE)
@click.option(
    "--described",
    type=click.File(errors="replace"),
    metavar="FILE",
    help="What `kafka-share-groups.sh --describe --offsets` printed, to be held against ours; - reads it here.",
)
@click.option(
    "--true",
    is_flag=True,
    help="Read the whole backlog, and count the records that are really there.",
)
def reconcile(output: str, engine: str, described: Any, true: bool, **options: Any) -> None:
    """The lag in several ways, and why they differ.

    NAIVE is end - start, EFFECTIVE what the batches say is unfinished, TRUE what is a record and
    not aborted.
    """
    from sharelag.workbench import investigate, show

    source, moment, choice = source_of(options), moment_of(options), choice_of(options)
    text = described.read() if described else None
    with shown(source) as read:
        answer = investigate.reconcile(read, start(engine, source), moment, choice, text, true)
    rows = show.plain_rows(answer.table)
    require_rows(choice, moment, groups_in(answer.table))
    write(show.lines(rows, output, views.reconciled(described is not None, true).columns))
    summarise(answer, source, options["as_of"], "share partition")


@click.command()
@with_options(INPUT, CHOICE, OUTPUT, ENGINE, TIMEOUT, VERBOSE, OVER)
def progress(output: str, engine: str, over: timedelta, **options: Any) -> None:
    """How old the lag is, how fast it grows or drains, and how long its records are kept.

    AGE is that of the oldest unfinished record; rates are records a second over the span; DRAIN
    says whether the lag goes away, and when at the earliest, about, and at the latest; MARGIN is
    the time until records are deleted.
    """
    from sharelag.workbench import show

    evidence, source = _gather(engine, over, options)
    write(show.lines(show.plain_rows(evidence.progress), output, views.PROGRESS.columns))
    read_by(evidence, source, options["as_of"] is not None)


@click.command()
@with_options(INPUT, OUTPUT, ENGINE, TIMEOUT, VERBOSE)
@click.option(
    "--findings", "only_findings", is_flag=True, help="Only what should not be so, as a table."
)
def health(output: str, engine: str, only_findings: bool, **options: Any) -> None:
    """How the state topic does: snapshots and updates, bytes, what holds pruning back, records in wrong places."""
    from sharelag.workbench import investigate, show

    source = source_of(options | {"as_of": None})
    engine = start(engine, source)
    with shown(source) as read:
        answer, findings = investigate.health(read, engine)
    if only_findings:
        write(show.lines(show.plain_rows(findings), output, views.FINDINGS.columns))
        summarise(answer, source, None, "state partition")
        return
    write(show.lines(show.plain_rows(answer.table), output, views.HEALTH.columns))
    for finding in findings.column("summary").to_pylist():
        click.echo(f"sharelag: {show.terminal(finding)}", err=True)
    summarise(answer, source, None, "state partition")


@contextmanager
def reading_of(engine: str, over: timedelta, options: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """A reading of what was asked for, and its input; what was asked for and is not there was said."""
    from sharelag.workbench import engine as engines

    source, moment, choice = source_of(options), moment_of(options), choice_of(options)
    with (
        shown(source) as read,
        engines.reading(read, start(engine, source), moment, choice, over) as begun,
    ):
        require_rows(choice, moment, groups_in(begun.evidence.lag))
        yield begun, source


def _gather(engine: str, over: timedelta, options: dict[str, Any]) -> tuple[Any, Any]:
    with reading_of(engine, over, options) as (begun, source):
        return begun.evidence, source


COMMANDS = (history, explain, progress, imbalance, reconcile, health)
