"""`sharelag plan-reset` and `plan-delete`: what it would do to reset or delete offsets."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from sharelag.cli.ask import print_answer
from sharelag.cli.options import ANSWER, INPUT, command, duration, flag, repeat, switch, text

if TYPE_CHECKING:
    from sharelag.workbench.questions.planned import Target

_SIMULATE = switch("--simulate", "Also simulate how long the group takes, at today's rates.")
_MEMBERS = text(
    "--members",
    "N",
    "For --simulate: with so many members; else as many as there are now.",
    type=click.IntRange(min=1, max=1000),
)

_KAFKA_VERSION = text(
    "--kafka-version", "VERSION", "Of Kafka's command, such as 4.3.1; else that of the input."
)


@command(INPUT, ANSWER, name="plan-reset")
@text("--group", "GROUP", "The share group.", required=True)
@repeat(
    "--topic",
    "topics",
    "TOPIC[:0,1]",
    "Only this topic, or these partitions of it; repeatable. The group of a running cluster "
    "need not have any state of it.",
)
@switch("--to-earliest", "To the start of each log.")
@switch("--to-latest", "To the end of each log.")
@text("--to-offset", "OFFSET", "To one offset.", type=click.IntRange(min=0))
@text(
    "--shift-by",
    "N",
    "By N offsets from the first unfinished one, within the log; backwards if negative.",
    type=int,
)
@text(
    "--to-datetime",
    "TIME",
    "To the first record at a time or later, such as 2026-11-21T03:10:00.000; without a "
    "zone it is UTC, as for Kafka's command.",
)
@duration("--by-duration", "To what was written so long before: 30m, 2h.")
@text(
    "--local-offsets",
    "FILE",
    "What kafka-get-offsets.sh --time earliest-local printed: warns of reads from remote storage.",
    type=click.Path(dir_okay=False),
)
@_SIMULATE
@_MEMBERS
@_KAFKA_VERSION
def plan_reset(output: str, **options: Any) -> int | None:
    """Show what a reset of a group's start offsets would do. It writes nothing.

    For each share partition: the new start offset and lag, what would be delivered again, what
    would be skipped; with --simulate how long the new lag takes; then Kafka's command.
    """
    from sharelag.workbench.questions.planned import require_target

    _require_simulate(options)
    chosen = {name: options.pop(name) for name in _TARGETS}
    given = [name for name, value in chosen.items() if value not in (None, False)]
    if len(given) != 1:
        *others, last = map(flag, _TARGETS)
        raise click.UsageError(f"choose one of {', '.join(others)} or {last}.")
    to, shift_by = _target(given[0], chosen[given[0]])
    require_target(to, shift_by)
    asked = {name: options.pop(name) for name in ("topics", "local_offsets", *_ASKED)}
    return print_answer("plan_reset", output, options, to=to, shift_by=shift_by, **asked)


@command(INPUT, ANSWER, name="plan-delete")
@text("--group", "GROUP", "The share group.", required=True)
@repeat(
    "--topic",
    "topics",
    "TOPIC",
    "Only the offsets of this topic; repeatable. Without it the group is deleted.",
)
@_SIMULATE
@_MEMBERS
@_KAFKA_VERSION
def plan_delete(output: str, **options: Any) -> int | None:
    """Show what a deletion of a group, or of its offsets, would do. It writes nothing.

    For each share partition: where members that come back would begin, by the group's
    share.auto.offset.reset, what would be delivered again, and what would be skipped; then Kafka's
    command.
    """
    _require_simulate(options)
    asked = {name: options.pop(name) for name in ("topics", *_ASKED)}
    return print_answer("plan_delete", output, options, **asked)


def _require_simulate(options: dict[str, Any]) -> None:
    from sharelag.model.versions import require_version

    if options["members"] is not None and not options["simulate"]:
        raise click.UsageError("--members needs --simulate: add it.")
    require_version(options["kafka_version"])


def _in_utc(text: str) -> datetime | None:
    """Read a time without a zone as Kafka's command does: as UTC."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else None


#: Options that are passed on as they are.
_ASKED = ("group", "simulate", "members", "kafka_version")
_TARGETS = ("to_earliest", "to_latest", "to_offset", "shift_by", "to_datetime", "by_duration")


def _target(name: str, value: Any) -> tuple[Target, int | None]:
    """Return what a reset goes to, or by how many offsets."""
    from sharelag.replay.moment import parse_time

    if name == "shift_by":
        return None, value
    if name == "to_datetime":
        return _in_utc(value) or parse_time(value), None
    return (value if name in ("to_offset", "by_duration") else name.removeprefix("to_")), None
