"""`sharelag lag`: share-partition lag, once or again and again."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import click

from sharelag.cli import options as option
from sharelag.cli.ask import ask
from sharelag.cli.options import Order, command, flag, source_of, with_options
from sharelag.cli.output import plain
from sharelag.cli.telling import tell
from sharelag.errors import BrokerUnreachableError, NoLeaderError

_KEYS = ("group_id", "topic_id", "partition")


@command(option.INPUT, option.CHOICE, option.REQUESTS, option.METRICS, option.ANSWER)
@click.option(
    "--by",
    type=click.Choice(["partition", "group", "topic"]),
    default="partition",
    show_default=True,
    help="A row for each share partition, or sums by group or topic.",
)
@option.switch("--brief", "Only Kafka's columns.")
@with_options(option.order("lag"))
@option.duration(
    "--watch",
    "Refresh at this interval and show the change; Ctrl-C ends it.",
    least=timedelta(milliseconds=100),
)
def lag(
    output: str,
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
    from sharelag.inputs import KafkaInput

    if brief and by != "partition":
        raise click.UsageError("--brief needs --by partition.")
    for name in ("requests", "broker_metrics"):
        if options[name] and (brief or by != "partition" or watch):
            raise click.UsageError(
                f"{flag(name)} needs --by partition, without --brief and --watch."
            )
    asked: dict[str, Any] = {"by": None if by == "partition" else by, "brief": brief}
    order = Order(sort, top)
    if watch is None:
        return _lag(output, options, asked, order)[1]
    if options["as_of"] or not isinstance(source_of(options), KafkaInput):
        raise click.UsageError(
            "--watch needs a running cluster (--bootstrap-server) and no --as-of."
        )
    before: Mapping[Any, int | None] | None = None
    while True:
        try:
            before, _ = _lag(output, options, asked, order, before or {})
        except (NoLeaderError, BrokerUnreachableError) as error:
            if before is None and isinstance(error, BrokerUnreachableError):
                raise  # what never answered may be the wrong address
            tell(str(error))
        time.sleep(watch.total_seconds())


def _lag(
    output: str,
    options: dict[str, Any],
    asked: dict[str, Any],
    order: Order,
    before: Mapping[Any, int | None] | None = None,
) -> tuple[dict[Any, int | None], int | None]:
    """Print the lag, with its change since ``before``; return it by row, and the exit code."""
    from sharelag.tables.declared import heading_of

    answered = ask("lag", options, **asked)
    rows, columns = plain(answered.result.table), dict(answered.result.columns)
    now = {tuple(row.get(name) for name in _KEYS): row["lag"] for row in rows}
    if before is not None:
        for key, row in zip(now, rows, strict=True):
            was = before.get(key)
            row["change"] = None if None in (was, row["lag"]) else row["lag"] - was
        columns[heading_of("change")] = "change"
        if output == "human" and sys.stdout.isatty():
            click.clear()
    answered.write(output, order.of(rows, "lag" if output == "human" else None), columns)
    return now, answered.note(output, asked["by"] or "share partition")
