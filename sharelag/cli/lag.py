"""`sharelag lag`: share-partition lag, once or again and again."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
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
    REQUESTS,
    TIMEOUT,
    VERBOSE,
    Duration,
    choice_of,
    flag,
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
    require_rows,
    start,
    summarise,
)
from sharelag.cli.partial import (
    note_partial,
    require_whole,
    silent_in,
    whole_or_partial,
    write_rows,
)
from sharelag.cli.progress_bar import reading_bar
from sharelag.cli.telling import tell
from sharelag.errors import BrokerUnreachableError, NoLeaderError
from sharelag.tables import views


@click.command(cls=Command)
@with_options(INPUT, CHOICE, REQUESTS, METRICS, OUTPUT, ENGINE, TIMEOUT, VERBOSE)
@click.option(
    "--by",
    type=click.Choice(["partition", "group", "topic"]),
    default="partition",
    show_default=True,
    help="A row for each share partition, or sums by group or topic.",
)
@click.option("--brief", is_flag=True, help="Only Kafka's columns; the other terms take longer.")
@with_options(order_options("lag"))
@click.option(
    "--watch",
    type=Duration(timedelta(milliseconds=100)),
    metavar="DURATION",
    help="Refresh at this interval and show the change; Ctrl-C ends it.",
)
def lag(
    output: str,
    engine: str,
    by: str,
    brief: bool,
    sort: str | None,
    top: int | None,
    watch: timedelta | None,
    **options: Any,
) -> int | None:
    """Show the lag of share partitions, and its terms.

    LAG is Kafka's: end offset - start offset - delivery complete count, `-` where Kafka does not
    know it. UNREAD offsets are beyond the window, AVAILABLE ones wait for another delivery, UNKNOWN
    ones are acquired or have no persisted state, COMPLETE ones are finished but not yet passed by
    the start offset. People get the largest lag first, and its sum.
    """
    from sharelag.sources.inputs import KafkaInput

    if brief and by != "partition":
        raise click.UsageError("--brief needs --by partition.")
    for name in ("requests", "broker_metrics"):
        if options[name] and (brief or by != "partition" or watch):
            raise click.UsageError(
                f"{flag(name)} needs --by partition, without --brief and --watch."
            )
    by = "brief" if brief else by
    order = Order(sort, top)
    if watch is None:
        return _lag(output, engine, by, order, options)[1]
    if options["as_of"] or not isinstance(source_of(options), KafkaInput):
        raise click.UsageError(
            "--watch needs a running cluster (--bootstrap-server) and no --as-of."
        )
    before: Mapping[Any, int | None] | None = None
    while True:
        try:
            before, _ = _lag(output, engine, by, order, options, before or {})
        except (NoLeaderError, BrokerUnreachableError) as error:
            if before is None and isinstance(error, BrokerUnreachableError):
                raise  # what never answered may be the wrong address
            tell(str(error))
        time.sleep(watch.total_seconds())


def _lag(
    output: str,
    engine: str,
    by: str,
    order: Order,
    options: dict[str, Any],
    before: Mapping[Any, int | None] | None = None,
) -> tuple[dict[Any, int | None], int | None]:
    """Print the lag, with its change since ``before``; return it by share partition.

    The second is the exit code of an answer that is not whole.
    """
    from sharelag.sources.inputs import KafkaInput
    from sharelag.tables.gaps import of_hidden
    from sharelag.tables.lines import plain_rows
    from sharelag.workbench import engine as engines

    source, moment, choice = source_of(options), moment_of(options), choice_of(options)
    log, metrics = requests_of(options), metrics_in(options)

    def ask(source: Any) -> engines.Answer:
        with reading_bar(source) as read:
            chosen = start(engine, source)
            if log is not None or metrics is not None:
                return engines.lag_beside(read, log, metrics, chosen, moment, choice)
            if by == "brief":
                return engines.brief(read, chosen, moment, choice)
            return engines.lag(read, chosen, moment, choice, None if by == "partition" else by)

    if by in ("group", "topic"):  # a sum without some of its parts is another number
        answer = ask(source)
        require_whole(answer.lacks)
    else:
        answer, source = whole_or_partial(source, ask)
    whole = views.lag(metrics is not None)
    view = {"partition": whole, "brief": views.BRIEF}.get(by, views.ROLLUP)
    if by == "group":
        view = view.without("topic")
    rows = plain_rows(answer.table)
    groups = groups_in(answer.table)
    if not silent_in(source):
        require_rows(choice, moment, groups, source, answer.rejected)
    now = {
        tuple(row.get(name) for name in ("group_id", "topic_id", "partition")): row["lag"]
        for row in rows
    }
    if before is not None:
        view = view.after("lag", "change")
        rows = [
            row | {"change": _minus(row["lag"], before.get(key))}
            for key, row in zip(now, rows, strict=True)
        ]
        if output == "human" and sys.stdout.isatty():
            click.clear()
    shown = order.of(rows, "lag" if output == "human" else None)
    write_rows(shown, output, view.columns, answer, source)
    summarise(
        answer, source, options["as_of"], by if by in ("group", "topic") else "share partition"
    )
    if isinstance(source, KafkaInput) and by in ("partition", "brief"):
        note(of_hidden(answer.table))
    if log is not None:
        note_requests(log, answer.now)
    note_metrics(metrics, answer.table)
    return now, note_partial(source, output, answer.lacks, choice.groups - groups)


def _minus(now: int | None, before: int | None) -> int | None:
    return None if now is None or before is None else now - before
