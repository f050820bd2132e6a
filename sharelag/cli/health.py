"""`sharelag health` and `reconcile`: the state topic, and lag computed in several ways."""

from __future__ import annotations

from typing import Any

import click

from sharelag.cli.ask import print_answer
from sharelag.cli.options import ANSWER, CHOICE, INPUT, command


@command(INPUT, CHOICE, ANSWER)
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
def reconcile(output: str, described: Any, true: bool, **options: Any) -> int | None:
    """Compare the lag computed in several ways, and explain the differences.

    NAIVE is end - start, EFFECTIVE counts unfinished offsets of the state batches, TRUE counts
    records that exist and are not aborted.
    """
    from sharelag.inputs.texts import text_of

    text = text_of(described.read(), "replace") if described else None
    return print_answer("reconcile", output, options, described=text, true=true)


@command(INPUT, ANSWER)
@click.option(
    "--findings", "only_findings", is_flag=True, help="Show only the problems, as a table."
)
@click.option(
    "--snapshots",
    "of_each",
    is_flag=True,
    help="Show the last snapshot of each share partition instead, and the updates since.",
)
def health(output: str, only_findings: bool, of_each: bool, **options: Any) -> int | None:
    """Show the health of the state topic: records, bytes, pruning, misplaced records."""
    if only_findings and of_each:
        raise click.UsageError("--findings and --snapshots are two tables: choose one.")
    if of_each:
        return print_answer("snapshots", output, options)
    unit = "finding" if only_findings else "state partition"
    return print_answer("health", output, options, unit=unit, findings=only_findings)
