"""`sharelag explain`, `progress` and `imbalance`: why there is lag, and where it is going."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from sharelag.cli.once import Command
from sharelag.cli.options import (
    CHOICE,
    ENGINE,
    INPUT,
    METRICS,
    OUTPUT,
    OVER,
    REQUESTS,
    TIMEOUT,
    VERBOSE,
    Duration,
    choice_of,
    metrics_in,
    moment_of,
    requests_of,
    source_of,
    with_options,
)
from sharelag.cli.order import Order, order_options
from sharelag.cli.output import (
    groups_in,
    note,
    note_metrics,
    note_requests,
    read_by,
    reading_of,
    require_rows,
    start,
    summarise,
    write,
)
from sharelag.cli.partial import below_table, note_partial, write_lacking, write_rows
from sharelag.cli.progress_bar import reading_bar
from sharelag.tables import views


@click.command(cls=Command)
@with_options(INPUT, CHOICE, REQUESTS, METRICS, OUTPUT, ENGINE, TIMEOUT, VERBOSE, OVER)
@click.option(
    "--patience",
    type=Duration(timedelta()),
    metavar="DURATION",
    help="How long something may last before it counts as stuck.  [default: the group's "
    "lock duration]",
)
def explain(
    output: str, engine: str, over: timedelta, patience: timedelta | None, **options: Any
) -> int | None:
    """Show why each group lags: causes with their evidence, the most severe first."""
    from sharelag.metrics.explain import explain as causes
    from sharelag.tables.lines import plain_rows
    from sharelag.workbench.broker_metrics import with_metrics
    from sharelag.workbench.explained import explained
    from sharelag.workbench.requests import with_requests

    log, metrics = requests_of(options), metrics_in(options)
    evidence, source, rejects = _gather(engine, over, options)
    evidence = with_metrics(with_requests(evidence, log), metrics, source)
    table = causes(evidence, patience)
    lacks = (*rejects, *(log.lacks if log else ()))
    if output == "human":
        write(explained(evidence, table, patience))
        write(below_table(None, output, lacks))
    else:
        write_lacking(plain_rows(table), output, None, lacks, evidence.repeated)
    read_by(evidence, source, options["as_of"] is not None, lacks)
    note_requests(log, evidence.as_of)
    note_metrics(metrics, evidence.measured)
    return note_partial(None, output, lacks)


@click.command(cls=Command)
@with_options(INPUT, CHOICE, OUTPUT, ENGINE, TIMEOUT, VERBOSE, OVER)
@click.option(
    "--by",
    type=click.Choice(["partition", "topic", "member", "broker"]),
    help="Only the spread over these; a broker's load is that of the partitions it leads.",
)
@click.option(
    "--every",
    type=Duration(),
    metavar="DURATION",
    help="Show the imbalance of lag at this interval.",
)
@with_options(order_options("gini"))
@click.option(
    "--verdict",
    is_flag=True,
    help="Show where the lag of each group concentrates, and idle members.",
)
def imbalance(
    output: str,
    engine: str,
    over: timedelta,
    by: str | None,
    every: timedelta | None,
    verdict: bool,
    sort: str | None,
    top: int | None,
    **options: Any,
) -> int | None:
    """Show how evenly lag, arrivals, work and partitions are spread.

    GINI and CV are 0 for an even spread; MAX/MEAN and JAIN are 1.
    """
    from sharelag.metrics.skew import verdict_words
    from sharelag.tables.lines import plain_rows
    from sharelag.tables.words import shown_name, terminal
    from sharelag.workbench import engine as engines
    from sharelag.workbench import investigate
    from sharelag.workbench.membership import unknown_brokers

    order = Order(sort, top)
    if every is not None:
        if by in ("member", "broker"):
            raise click.UsageError(
                "--every works with --by partition or topic: past members and leaders are not "
                "recorded."
            )
        source, moment, choice = source_of(options), moment_of(options), choice_of(options)
        with (
            reading_bar(source) as read,
            engines.reading(read, start(engine, source), moment, choice) as begun,
        ):
            answer = investigate.trend_of(begun, every, by, over)
        rows = order.of(plain_rows(answer.table), None)
        require_rows(choice, moment, groups_in(answer.table), source, answer.rejected)
        write_rows(rows, output, views.IMBALANCE_OVER_TIME.columns, answer)
        summarise(answer, source, options["as_of"], "row")
        return note_partial(None, output, answer.lacks)
    with reading_of(engine, over, options) as (begun, source):
        evidence, skew = begun.evidence, begun.skew()
        answer = engines.Answer.of(begun, skew)
        rows = [] if verdict else plain_rows(begun.imbalance(by))
        unknown = unknown_brokers(evidence.brokers) if by == "broker" else ()
    if verdict:
        write_rows(order.of(plain_rows(skew), None), output, views.SKEW.columns, answer)
        read_by(evidence, source, options["as_of"] is not None, answer.lacks)
        return note_partial(None, output, answer.lacks)
    rows = order.of(rows, "gini" if output == "human" else None)
    write_rows(rows, output, views.IMBALANCE.columns, answer)
    if output == "human":
        for row in skew.to_pylist():
            write([f"{shown_name(row['group_id'])}: {terminal(verdict_words(row))}"])
    note(unknown)
    read_by(evidence, source, options["as_of"] is not None, answer.lacks)
    return note_partial(None, output, answer.lacks)


@click.command(cls=Command)
@with_options(INPUT, CHOICE, METRICS, OUTPUT, ENGINE, TIMEOUT, VERBOSE, OVER)
@with_options(order_options("age_ms"))
def progress(
    output: str, engine: str, over: timedelta, sort: str | None, top: int | None, **options: Any
) -> int | None:
    """Show the age of the lag, how fast it grows or drains, and its retention.

    AGE is the age of the oldest unfinished record; rates are records per second over the span, or
    since they last changed in it; DRAIN is the estimated time until the lag is gone, with its
    bounds; MARGIN is the time until unread records are deleted. People get the oldest lag first.
    """
    from sharelag.metrics.in_flight import with_measured
    from sharelag.tables.lines import plain_rows
    from sharelag.workbench.broker_metrics import with_metrics

    metrics = metrics_in(options)
    evidence, source, lacks = _gather(engine, over, options)
    evidence = with_metrics(evidence, metrics, source)
    rows = plain_rows(with_measured(evidence.progress, evidence.measured))
    rows = Order(sort, top).of(rows, "age_ms" if output == "human" else None)
    write_lacking(
        rows, output, views.progress(metrics is not None).columns, lacks, evidence.repeated
    )
    read_by(evidence, source, options["as_of"] is not None, lacks)
    note_metrics(metrics, evidence.measured)
    return note_partial(None, output, lacks)


def _gather(engine: str, over: timedelta, options: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return evidence, its input, and what it lacks."""
    from sharelag.workbench.engine import rejects_of

    with reading_of(engine, over, options) as (begun, source):
        return begun.evidence, source, rejects_of(begun)
