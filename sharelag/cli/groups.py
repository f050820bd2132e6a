"""`sharelag groups` and `members`: who is there, as the group coordinator knows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
from sharelag.cli.order import Order, order_options
from sharelag.cli.output import groups_in, note, require_rows, start, summarise, write
from sharelag.cli.partial import note_partial, write_rows
from sharelag.cli.progress_bar import reading_bar
from sharelag.cli.telling import tell
from sharelag.cli.validate import flags, given_options
from sharelag.tables import views
from sharelag.tables.words import client_words, counted, shell_word, terminal

_PRINTED = click.option(
    "--kafka-output",
    type=click.File("rb"),
    metavar="FILE",
    help="What kafka-share-groups.sh --list or --describe (--state, --members, --offsets) printed, "
    "or kafka-groups.sh --list, in place of an input; - is stdin.",
)
#: Options that do not go with it.
_OF_INPUT = (
    *("bootstrap_server", "command_config", "command_property", "capture", "raw", "segments"),
    *("generation", "topic", "as_of", "engine", "timeout"),
)


@click.command(cls=Command)
@with_options(INPUT, _PRINTED, CHOICE, OUTPUT, ENGINE, TIMEOUT, VERBOSE)
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    help="Only groups in this state: Empty, Stable or Dead; repeatable, or with commas between.",
)
@with_options(order_options("lag"))
def groups(
    output: str,
    engine: str,
    states: tuple[str, ...],
    sort: str | None,
    top: int | None,
    kafka_output: Any,
    **options: Any,
) -> int | None:
    """Show the groups: type, state, epochs, members, topics and lag.

    STATE is Stable with members and Empty without. Dead groups were deleted, but the state topic
    still has state of them.
    """
    import pyarrow.compute as pc

    from sharelag.model.group_state import parse_states
    from sharelag.tables.lines import lines, plain_rows
    from sharelag.workbench import engine as engines
    from sharelag.workbench import membership

    parse_states(states)  # before anything is read

    def sort_rows(table: Any) -> list[dict[str, Any]]:
        return Order(sort, top).of(plain_rows(table), "lag" if output == "human" else None)

    if kafka_output is not None:
        every = _printed(kafka_output, options)
        found = membership.in_states(every.groups, states)
        write(lines(sort_rows(found), output, views.GROUP_STATES.columns))
        count, known = counted(found.num_rows, "group"), pc.sum(found.column("members")).as_py()
        is_whole = not found.column("members").null_count
        members = f", {counted(known or 0, 'member')}" if is_whole else ""
        _note_printed(f"{count}{members}", every.others)
        note(membership.unknown_members(found))
        return None
    source, moment, choice = source_of(options), moment_of(options), choice_of(options)
    with (
        _or_kafkas_command(options, "--state"),
        reading_bar(source) as read,
        engines.reading(read, start(engine, source), moment, choice, history=False) as begun,
    ):
        every = membership.group_states_of(begun)
        answer = engines.Answer.of(begun, membership.in_states(every, states))
    require_rows(choice, moment, groups_in(every), source, answer.rejected)
    write_rows(sort_rows(answer.table), output, views.GROUP_STATES.columns, answer)
    note(membership.unknown_states(every, moment is not None))
    summarise(answer, source, options["as_of"], "group")
    return note_partial(None, output, answer.lacks)


@click.command(cls=Command)
@with_options(INPUT, _PRINTED, CHOICE, OUTPUT, ENGINE, TIMEOUT, VERBOSE)
def members(output: str, engine: str, kafka_output: Any, **options: Any) -> int | None:
    """Show the members of each group: client, host, rack, epoch, and assigned partitions."""
    from sharelag.tables.lines import lines, plain_rows
    from sharelag.workbench import engine as engines
    from sharelag.workbench import membership

    if kafka_output is not None:
        of_groups, found, others = _printed(kafka_output, options)
        write(lines(plain_rows(found), output, views.MEMBERS.without("rack_id").columns))
        members = counted(found.num_rows, "member")
        _note_printed(f"{members} of {counted(of_groups.num_rows, 'group')}", others)
        note(membership.unknown_members(of_groups, found))
        return None
    source, moment, choice = source_of(options), moment_of(options), choice_of(options)
    with (
        _or_kafkas_command(options, "--members"),
        reading_bar(source) as read,
        engines.reading(read, start(engine, source), moment, choice, history=False) as begun,
    ):
        every = membership.group_states_of(begun)
        answer = engines.Answer.of(begun, membership.members_of(begun))
    there = groups_in(every) | groups_in(answer.table)
    require_rows(choice, moment, there, source, answer.rejected)
    write_rows(plain_rows(answer.table), output, views.MEMBERS.columns, answer)
    note(membership.unknown_states(every, moment is not None))
    summarise(answer, source, options["as_of"], "member")
    return note_partial(None, output, answer.lacks)


def _printed(file: Any, options: dict[str, Any]) -> Any:
    """Read what Kafka's command printed of the chosen groups."""
    from sharelag.errors import InputError, unknown_group
    from sharelag.sources.kafka.described_groups import described_groups, of_groups
    from sharelag.sources.texts import text_of

    if ignored := given_options(_OF_INPUT):
        raise click.UsageError(f"{flags(ignored)} with --kafka-output: remove one of them.")
    every = described_groups(text_of(file.read(), "replace"))
    chosen = choice_of(options).groups
    there = groups_in(every.groups)
    if missing := sorted(chosen - there):
        raise InputError(unknown_group(missing[0], there, "in what Kafka's command printed"))
    return of_groups(every, chosen)


def _note_printed(counts: str, others: Sequence[str]) -> None:
    tell(f"{counts}, as Kafka's command printed them")
    if others:
        first = terminal(repr(others[0][:80]))
        tell(f"{counted(len(others), 'line')} that the command does not print, such as {first}")


@contextmanager
def _or_kafkas_command(options: dict[str, Any], what: str) -> Iterator[None]:
    """Say which command of Kafka's may answer where a topic may not be read."""
    from sharelag.errors import AuthorizationError

    try:
        yield
    except AuthorizationError as error:
        words = client_words(options["bootstrap_server"], options["command_config"])
        raise AuthorizationError(
            f"{error}. Describing groups takes fewer rights; --kafka-output reads what this "
            f"prints: kafka-share-groups.sh {' '.join(map(shell_word, words))} --describe "
            f"--all-groups {what} --verbose"
        ) from error
