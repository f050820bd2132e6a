"""`sharelag explain`, `progress`, `forecasts`, `imbalance`: why there is lag, where it goes."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from sharelag.cli import options as option
from sharelag.cli.ask import ask, print_answer
from sharelag.cli.options import Order, command, with_options
from sharelag.cli.output import write
from sharelag.cli.partial import below_table


@command(option.INPUT, option.CHOICE, option.REQUESTS, option.METRICS, option.ANSWER, option.OVER)
@option.duration(
    "--patience",
    least=timedelta(),
    help="How long something may last before it counts as stuck.  [default: the group's "
    "lock duration]",
)
def explain(output: str, patience: timedelta | None, **options: Any) -> int | None:
    """Show why each group lags: causes with their evidence, the most severe first."""
    from sharelag.workbench.explained import summary_lines

    answered = ask("explain", options, patience=patience)
    if output == "human":
        write(summary_lines(answered.result.summaries))
        write(below_table(None, output, answered.result.lacks))
    else:
        answered.write(output, answered.result.table, {})
    return answered.note(output)


@command(option.INPUT, option.CHOICE, option.ANSWER, option.OVER)
@click.option(
    "--by",
    type=click.Choice(["partition", "topic", "member", "broker"]),
    help="Only the spread over these; a broker's load is that of the partitions it leads.",
)
@option.duration("--every", help="Show the imbalance of lag at this interval.")
@with_options(option.order("gini"))
@click.option(
    "--verdict",
    is_flag=True,
    help="Show where the lag of each group concentrates, and idle members.",
)
def imbalance(
    output: str,
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
    if every is not None:
        if by in ("member", "broker"):
            raise click.UsageError(
                "--every works with --by partition or topic: past members and leaders are not "
                "recorded."
            )
        name, unit, asked = "imbalance_trend", "row", {"every": every, "by": by}
    elif verdict:
        name, unit, asked = "skew", "", {}
    else:
        name, unit, asked = "imbalance", "", {"by": by}
    # Moments and verdicts come in a separate order.
    order = Order(sort or ("gini" if name == "imbalance" and output == "human" else None), top)
    return print_answer(name, output, options, order=order, unit=unit, by_default=False, **asked)


@command(
    option.INPUT, option.CHOICE, option.METRICS, option.ANSWER, option.OVER, option.order("age_ms")
)
def progress(output: str, sort: str | None, top: int | None, **options: Any) -> int | None:
    """Show the age of the lag, how fast it grows or drains, and its retention.

    AGE is the age of the oldest unfinished record; rates are records per second over the span, or
    since they last changed in it; DRAIN is the estimated time until the lag is gone, with its
    bounds; MARGIN is the time until unread records are deleted. People get the oldest lag first.
    """
    return print_answer("progress", output, options, order=Order(sort, top), unit="")


@command(option.INPUT, option.CHOICE, option.ANSWER, option.OVER)
@option.path(
    "--ledger",
    required=True,
    metavar="DIR",
    help="The Delta table that keeps forecasts and what became of them, one per cluster; created "
    "if missing.",
)
@option.duration(
    "--horizon",
    least=timedelta(seconds=1),
    default="5m",
    help="After how long ages are forecast; a drain that takes longer is not.",
)
def forecasts(output: str, ledger: Path, horizon: timedelta, **options: Any) -> int | None:
    """Forecast age and drain of the lag, and score the forecasts that are due.

    FROM to TO should hold 80 % of outcomes; both are `-` until enough forecasts like it were
    scored, and where such intervals were further off than lag / rate. How often they came true is
    said beside the table. Run it at regular moments: each run scores what has come due since.
    """
    return print_answer(
        "forecasts", output, options, unit="forecast", ledger=str(ledger), horizon=horizon
    )
