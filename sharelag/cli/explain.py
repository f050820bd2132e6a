"""Why there is lag and where it goes: `explain`, `progress`, `forecasts`, `imbalance`, `health`."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from sharelag.cli import options as option
from sharelag.cli.ask import ask, below_table, print_answer
from sharelag.cli.options import Order, command, with_options
from sharelag.cli.output import write


@command(option.INPUT, option.CHOICE, option.REQUESTS, option.METRICS, option.ANSWER, option.OVER)
@option.duration(
    "--patience",
    "How long something may last before it counts as stuck.  [default: the group's lock duration]",
    least=timedelta(),
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
@option.duration("--every", "Show the imbalance of lag at this interval.")
@with_options(option.order("gini"))
@option.switch("--verdict", "Show where the lag of each group concentrates, and idle members.")
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

    GINI and STD-DEV/MEAN are 0 for an even spread; MAX/MEAN and JAIN are 1.
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
    "DIR",
    "The Delta table that keeps forecasts and what became of them, one per cluster; created "
    "if missing.",
    required=True,
)
@option.duration(
    "--horizon",
    "After how long ages are forecast; a drain that takes longer is not.",
    least=timedelta(seconds=1),
    default="5m",
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


@command(option.INPUT, option.CHOICE, option.ANSWER)
@option.text(
    "--described",
    "FILE",
    "Output of `kafka-share-groups.sh --describe --offsets` to compare with; - is stdin.",
    type=click.File("rb"),
)
@option.switch("--true", "Read the whole backlog and count the records that exist.")
def reconcile(output: str, described: Any, true: bool, **options: Any) -> int | None:
    """Compare the lag computed in several ways, and explain the differences.

    NAIVE is end - start, EFFECTIVE counts unfinished offsets of the state batches, TRUE counts
    records that exist and are not aborted.
    """
    from sharelag.inputs.texts import text_of

    text = text_of(described.read(), "replace") if described else None
    return print_answer("reconcile", output, options, described=text, true=true)


@command(option.INPUT, option.ANSWER)
@option.switch("--findings", "only_findings", "Show only the problems, as a table.")
@option.switch(
    "--snapshots",
    "of_each",
    "Show the last snapshot of each share partition instead, and the updates since.",
)
def health(output: str, only_findings: bool, of_each: bool, **options: Any) -> int | None:
    """Show the health of the state topic: records, bytes, pruning, misplaced records."""
    if only_findings and of_each:
        raise click.UsageError("--findings and --snapshots are two tables: choose one.")
    if of_each:
        return print_answer("snapshots", output, options)
    unit = "finding" if only_findings else "state partition"
    return print_answer("health", output, options, unit=unit, findings=only_findings)
