"""`sharelag groups`, `members` and `brokers`: who is there, and who leads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from sharelag.cli import options as option
from sharelag.cli.ask import print_answer
from sharelag.cli.options import Order, choice_of, command, with_options
from sharelag.cli.output import groups_in, note, plain, print_rows
from sharelag.cli.telling import tell
from sharelag.cli.validate import flags, given_options
from sharelag.tables import views
from sharelag.tables.words import client_words, counted, shell_word

_PRINTED = option.text(
    "--kafka-output",
    "FILE",
    "What kafka-share-groups.sh --list or --describe (--state, --members, --offsets) printed, "
    "or kafka-groups.sh --list, in place of an input; - is stdin.",
    type=click.File("rb"),
)
#: Options that do not go with it.
_OF_INPUT = (
    *("bootstrap_server", "command_config", "command_property", "capture", "raw", "segments"),
    *("generation", "topic", "as_of", "engine", "timeout"),
)


@command(option.INPUT, _PRINTED, option.CHOICE, option.ANSWER)
@option.repeat(
    "--state",
    "states",
    "STATE",
    "Only groups in this state: Empty, Stable or Dead; repeatable, or with commas between.",
)
@with_options(option.order("lag"))
def groups(
    output: str,
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

    from sharelag.model import parse_states
    from sharelag.tables import gaps
    from sharelag.workbench.questions.balance import in_states

    parse_states(states)  # before anything is read

    def sort_rows(table: Any) -> list[dict[str, Any]]:
        return Order(sort, top).of(plain(table), "lag" if output == "human" else None)

    if kafka_output is not None:
        every = _read_printed(kafka_output, options)
        found = in_states(every.groups, states)
        print_rows(sort_rows(found), output, views.GROUP_STATES.columns)
        count, known = counted(found.num_rows, "group"), pc.sum(found.column("members")).as_py()
        is_whole = not found.column("members").null_count
        members = f", {counted(known or 0, 'member')}" if is_whole else ""
        _note_printed(f"{count}{members}", every.others)
        note(gaps.of_members(found))
        return None
    with _or_kafkas_command(options, "--state"):
        return print_answer(
            "group_states", output, options, order=Order(sort, top), unit="group", states=states
        )


@command(option.INPUT, _PRINTED, option.CHOICE, option.ANSWER)
def members(output: str, kafka_output: Any, **options: Any) -> int | None:
    """Show the members of each group: client, host, rack, epoch, and assigned partitions."""
    from sharelag.tables import gaps

    if kafka_output is not None:
        of_groups, found, others = _read_printed(kafka_output, options)
        print_rows(found, output, views.MEMBERS.without("rack_id").columns)
        members = counted(found.num_rows, "member")
        _note_printed(f"{members} of {counted(of_groups.num_rows, 'group')}", others)
        note(gaps.of_members(of_groups, found))
        return None
    with _or_kafkas_command(options, "--members"):
        return print_answer("members", output, options, unit="member")


def _read_printed(file: Any, options: dict[str, Any]) -> Any:
    """Read what Kafka's command printed of the chosen groups."""
    from sharelag.errors import InputError, unknown_group
    from sharelag.inputs.kafka.described import of_groups, parse_groups
    from sharelag.inputs.texts import text_of

    if ignored := given_options(_OF_INPUT):
        raise click.UsageError(f"{flags(ignored)} with --kafka-output: remove one of them.")
    every = parse_groups(text_of(file.read(), "replace"))
    chosen = choice_of(options).groups
    there = groups_in(every.groups)
    if missing := sorted(chosen - there):
        raise InputError(unknown_group(missing[0], there, "in what Kafka's command printed"))
    return of_groups(every, chosen)


def _note_printed(counts: str, others: Sequence[str]) -> None:
    tell(f"{counts}, as Kafka's command printed them")
    if others:
        words = f"{counted(len(others), 'line')} that the command does not print"
        tell(f"{words}, such as {others[0][:80]!r}")


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


@command(option.INPUT, option.CHOICE, option.ANSWER, option.order("lag"))
def brokers(output: str, sort: str | None, top: int | None, **options: Any) -> int | None:
    """Show which broker leads each share partition, and which brokers keep its state and group.

    A share partition is led by the leader of its topic partition. Its state is kept by the leader
    of STATE-PARTITION of __share_group_state, its group by the leader of a partition of
    __consumer_offsets. CSV and JSON have the replicas in sync and the racks of replicas, too.
    """
    return print_answer("brokers", output, options, order=Order(sort, top))
