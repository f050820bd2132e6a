"""`sharelag groups` and `members`: who is there, as the group coordinator knows it."""

from __future__ import annotations

from typing import Any

import click

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
from sharelag.cli.output import groups_in, require_rows, start, summarise, write
from sharelag.cli.progress_bar import reading_bar
from sharelag.tables import views


@click.command()
@with_options(INPUT, CHOICE, OUTPUT, ENGINE, TIMEOUT, VERBOSE)
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    help="Only groups in this state: Empty, Stable or Dead; repeatable, or with commas between.",
)
def groups(output: str, engine: str, states: tuple[str, ...], **options: Any) -> None:
    """Show the groups: type, state, epochs, members, topics and lag.

    STATE is Stable with members and Empty without. Dead groups were deleted, but the state topic
    still has state of them.
    """
    from sharelag.model.group_state import parse_states
    from sharelag.tables.lines import lines, plain_rows
    from sharelag.workbench import engine as engines
    from sharelag.workbench import membership

    parse_states(states)  # before anything is read
    source, moment, choice = source_of(options), moment_of(options), choice_of(options)
    with (
        reading_bar(source) as read,
        engines.reading(read, start(engine, source), moment, choice, history=False) as begun,
    ):
        every = membership.group_states_of(begun)
        answer = engines.Answer.of(begun, membership.in_states(every, states))
    require_rows(choice, moment, groups_in(every), source, answer.rejected)
    write(lines(plain_rows(answer.table), output, views.GROUP_STATES.columns))
    _note(membership.unknown_states(every, moment is not None))
    summarise(answer, source, options["as_of"], "group")


@click.command()
@with_options(INPUT, CHOICE, OUTPUT, ENGINE, TIMEOUT, VERBOSE)
def members(output: str, engine: str, **options: Any) -> None:
    """Show the members of each group: client, host, rack, epoch, and assigned partitions."""
    from sharelag.tables.lines import lines, plain_rows
    from sharelag.workbench import engine as engines
    from sharelag.workbench import membership

    source, moment, choice = source_of(options), moment_of(options), choice_of(options)
    with (
        reading_bar(source) as read,
        engines.reading(read, start(engine, source), moment, choice, history=False) as begun,
    ):
        every = membership.group_states_of(begun)
        answer = engines.Answer.of(begun, membership.members_of(begun))
    require_rows(choice, moment, groups_in(every), source, answer.rejected)
    write(lines(plain_rows(answer.table), output, views.MEMBERS.columns))
    _note(membership.unknown_states(every, moment is not None))
    summarise(answer, source, options["as_of"], "member")


def _note(unknown: tuple[str, ...]) -> None:
    for sentence in unknown:
        click.echo(f"sharelag: not known: {sentence}", err=True)
