"""Archived and stuck records, and simulated resets and deletions."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from sharelag.cli import options as option
from sharelag.cli.ask import ask, print_answer
from sharelag.cli.output import reading_bar, start, write
from sharelag.metrics.dead_letters import STATUSES
from sharelag.tables import views

if TYPE_CHECKING:
    from sharelag.workbench.questions.planned import Target

_PLACE = re.compile(r"([^:]+):(\d+):(\d+)")  # topic, partition, offset


@option.command(option.INPUT, option.ANSWER)
@option.text("--group GROUP  The share group.  [default: all]")
@option.text(
    "--queue TOPIC_OR_PATH  Topic of the queue, or Parquet files of its records with headers.  "
    "[default: the group's errors.deadletterqueue.topic.name]"
)
@option.switch("--redrive  Plan how to send the records again; sends nothing.")
@option.pick(
    "--status statuses  Limit to a status; repeatable.  [default of --redrive: written, "
    "duplicate, missing, passed]",
    among=STATUSES,
    multiple=True,
)
def dlq(
    output: str,
    group: str | None,
    queue: str | None,
    redrive: bool,
    statuses: tuple[str, ...],
    **options: Any,
) -> int | None:
    """Compare archived records of a group with its dead-letter queue (KIP-1191).

    Each row is a run of offsets with the same status: written, duplicate, missing, archiving,
    stuck, passed, unexpected, unknown or unreadable, with the reason. No payload is shown; sharelag
    peek shows one.
    """
    rest: dict[str, Any] = {"group": group, "queue": queue}
    if not redrive:
        return print_answer("dead_letters", output, options, unit="", statuses=statuses, **rest)
    from sharelag.tables.words import terminal

    answered = ask("redrive", options, statuses=statuses, **rest)
    table = answered.result.table
    answered.write(output, table, views.REDRIVE.without("command").columns)
    commands = [one for one in table.column("command").to_pylist() if one]
    if commands and output == "human":
        write(["", *map(terminal, commands)])
    return answered.note(output)


@option.command(option.INPUT, option.ANSWER)
@click.argument("group")
@click.argument("place", metavar="TOPIC:PARTITION:OFFSET")
@option.pick(
    "--as form  Format of key, headers and value.",
    among=["auto", "text", "json", "hex"],
    default="auto",
    show_default=False,
)
@option.repeat(
    "--mask FIELD  Hide a JSON field, such as card.number; repeatable. What is not JSON is hidden "
    "entirely."
)
def peek(
    output: str,
    engine: str,
    group: str,
    place: str,
    form: str,
    mask: tuple[str, ...],
    **options: Any,
) -> None:
    """Show the record at an offset: key, headers, value, size, time, and its state in the GROUP.

    It is read by a consumer of this one offset, which joins no group and commits nothing. This
    command shows payloads; nothing else in sharelag shows or keeps them.
    """
    from sharelag.workbench import open_workbench

    found = _PLACE.fullmatch(place)
    if found is None:
        raise click.UsageError(f"{place!r} is not TOPIC:PARTITION:OFFSET, such as orders:0:4142.")
    if output not in ("human", "json"):
        raise click.UsageError("A record is text or JSON: choose -o human or -o json.")
    source = option.source_of(options)
    with reading_bar(source) as read:
        bench = open_workbench(read, engine=start(engine, source), groups=group)
        topic, partition, offset = found.groups()
        record = bench.peek(group, topic, int(partition), int(offset), mask=mask)
    write([json.dumps(record.fields(form)) if output == "json" else record.text(form)])


_SIMULATE = option.switch(
    "--simulate  Also simulate how long the group takes, at the current rates."
)
_MEMBERS = option.text(
    "--members N  With --simulate: the number of members.  [default: the current number]",
    type=click.IntRange(min=1, max=1000),
)

_KAFKA_VERSION = option.text(
    "--kafka-version VERSION  Version of the command, such as 4.3.1.  [default: the input's]"
)


@option.command(option.INPUT, option.ANSWER, name="plan-reset")
@option.text("--group GROUP  The share group.", required=True)
@option.repeat(
    "--topic topics TOPIC[:0,1]  Limit to this topic, or these partitions of it; repeatable. In a "
    "running cluster the group need not have state of it yet."
)
@option.switch("--to-earliest  Reset to the start of each log.")
@option.switch("--to-latest  Reset to the end of each log.")
@option.text("--to-offset OFFSET  Reset to this offset.", type=click.IntRange(min=0))
@option.text(
    "--shift-by N  Shift by N offsets from the first unfinished one, within the log; backwards if "
    "negative.",
    type=int,
)
@option.text(
    "--to-datetime TIME  Reset to the first record at or after this time, such as "
    "2026-11-21T03:10:00.000; UTC unless it has a zone, as in Kafka's command."
)
@option.duration(
    "--by-duration  Reset to the first record written at most this long before the moment of the "
    "input: 30m, 2h."
)
@option.text(
    "--local-offsets FILE  Output of kafka-get-offsets.sh --time earliest-local, to warn of reads "
    "from remote storage.",
    type=click.Path(dir_okay=False),
)
@_SIMULATE
@_MEMBERS
@_KAFKA_VERSION
def plan_reset(output: str, **options: Any) -> int | None:
    """Show what a reset of a group's start offsets would do, without writing anything.

    For each share partition: the new start offset and lag, what would be delivered again, what
    would be skipped; with --simulate how long the new lag takes; then Kafka's command.
    """
    from sharelag.workbench.questions.planned import require_target

    _require_simulate(options)
    chosen = {name: options.pop(name) for name in _TARGETS}
    given = [name for name, value in chosen.items() if value not in (None, False)]
    if len(given) != 1:
        *others, last = map(option.flag, _TARGETS)
        raise click.UsageError(f"choose one of {', '.join(others)} or {last}.")
    to, shift_by = _target(given[0], chosen[given[0]])
    require_target(to, shift_by)
    rest = {name: options.pop(name) for name in ("topics", "local_offsets", *_SHARED_OPTIONS)}
    return print_answer("plan_reset", output, options, to=to, shift_by=shift_by, **rest)


@option.command(option.INPUT, option.ANSWER, name="plan-delete")
@option.text("--group GROUP  The share group.", required=True)
@option.repeat(
    "--topic topics TOPIC  Delete only the offsets of this topic; repeatable. Without it, the "
    "group is deleted."
)
@_SIMULATE
@_MEMBERS
@_KAFKA_VERSION
def plan_delete(output: str, **options: Any) -> int | None:
    """Show what deleting a group, or its offsets, would do, without writing anything.

    For each share partition: where returning members would start, by the group's
    share.auto.offset.reset, what would be delivered again, and what would be skipped; then Kafka's
    command.
    """
    _require_simulate(options)
    rest = {name: options.pop(name) for name in ("topics", *_SHARED_OPTIONS)}
    return print_answer("plan_delete", output, options, **rest)


def _require_simulate(options: dict[str, Any]) -> None:
    from sharelag.model.versions import require_version

    if options["members"] is not None and not options["simulate"]:
        raise click.UsageError("--members needs --simulate: add it.")
    require_version(options["kafka_version"])


#: Options that are passed on unchanged.
_SHARED_OPTIONS = ("group", "simulate", "members", "kafka_version")
_TARGETS = ("to_earliest", "to_latest", "to_offset", "shift_by", "to_datetime", "by_duration")


def _target(name: str, value: Any) -> tuple[Target, int | None]:
    """Return the target of a reset, or the number of offsets to shift by."""
    from sharelag.replay.moment import parse_time

    if name == "shift_by":
        return None, value
    if name == "to_datetime":
        with suppress(ValueError):  # without a zone it is UTC, as for Kafka's command
            if (at := datetime.fromisoformat(value)).tzinfo is None:
                return at.replace(tzinfo=UTC), None
        return parse_time(value), None
    return (value if name in ("to_offset", "by_duration") else name.removeprefix("to_")), None
