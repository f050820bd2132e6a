"""`sharelag lint`: a command line of Kafka's tools, checked before it is run."""

from __future__ import annotations

import shlex

import click

from sharelag.cli.grouped import Command
from sharelag.cli.options import OUTPUT, VERBOSE, with_options
from sharelag.cli.output import print_rows, start_local
from sharelag.cli.telling import tell
from sharelag.model.versions import NEWEST, basis
from sharelag.tables import views


@click.command(
    cls=Command, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@with_options(OUTPUT, VERBOSE)
@click.option(
    "--kafka-version",
    metavar="VERSION",
    help=f"Of the tools, such as 4.3.1.  [default: {NEWEST}]",
)
@click.argument("line", nargs=-1, type=click.UNPROCESSED, required=True, metavar="COMMAND...")
def lint(output: str, kafka_version: str | None, line: tuple[str, ...]) -> int:
    """Check a command of Kafka's tools for share groups; it is not run.

    The tools are kafka-share-groups.sh and kafka-console-share-consumer.sh. Write the command
    after lint as it is, or in quotes. A row is an option with its value, or with
    Kafka's default; the exit code is 1 when Kafka would refuse the command.
    """
    from sharelag.metrics.settings import lint_table
    from sharelag.model.kafka_commands import check_command
    from sharelag.tables.words import counted

    start_local()
    words = shlex.split(line[0]) if len(line) == 1 else line
    judged = basis(kafka_version)
    checked = check_command(words, judged.version)
    print_rows(lint_table(checked), output, views.LINTED.columns)
    count = len(checked.problems)
    why = f"refuses it: {counted(count, 'problem')}" if count else "accepts it"
    tell(f"{checked.tool.name} of Kafka {judged}{',' if judged.why else ''} {why}")
    return int(bool(checked.problems))
