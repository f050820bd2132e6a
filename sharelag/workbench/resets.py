"""Planned resets of start offsets, as tables, with the commands of Kafka that do them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import InputError
from sharelag.metrics.evidence import Evidence
from sharelag.metrics.reset import kafkas_commands, plan_reset
from sharelag.reading import Reading
from sharelag.sources.files.printed_offsets import read_printed_offsets
from sharelag.tables import views
from sharelag.tables.words import number
from sharelag.workbench.result import Result

_WANTED = "give to='earliest', 'latest', an offset or a datetime, or shift_by=N"


def reset_of(
    reading: Reading,
    evidence: Evidence,
    to: str | int | datetime | None,
    shift_by: int | None,
    topic: str | None,
    local_offsets: str | Path | None = None,
) -> pa.Table:
    """Return `sharelag.schemas.RESET_PLAN` of the groups in the evidence.

    Raises
    ------
    InputError
        The target is unknown, or the group has no state of the topic.
    """
    if (to is None) == (shift_by is None):
        raise InputError(f"one target is needed: {_WANTED}")
    if isinstance(to, str) and to not in ("earliest", "latest"):
        raise InputError(f"unknown target {to!r}: {_WANTED}")
    if isinstance(to, bool) or (isinstance(to, int) and to < 0):
        raise InputError(f"{to!r} is not an offset: {_WANTED}")
    if isinstance(to, datetime) and to.tzinfo is None:
        raise InputError(f"{to} has no time zone: append Z for UTC, or an offset such as +01:00")
    lag = evidence.lag
    if topic is not None:
        lag = lag.filter(pc.equal(lag.column("topic"), topic))
        if not lag.num_rows:
            raise InputError(f"the group has no state of topic {topic!r}: check its name")
    windows = evidence.windows
    local = None if local_offsets is None else read_printed_offsets(local_offsets)
    if not isinstance(to, datetime):
        return plan_reset(lag, windows, evidence.progress, to, shift_by, local=local)
    ids = sorted(set(lag.column("topic_id").to_pylist()))
    # Kafka goes to the first record at that time or later; ends are those before a later one.
    at = reading.source.past_offsets(ids, [to - timedelta(milliseconds=1)])
    return plan_reset(lag, windows, evidence.progress, at=at, local=local)


def reset_answer(
    plan: pa.Table,
    evidence: Evidence,
    group: str,
    to: str | int | datetime | None,
    topic: str | None,
    base: Result,
    server: str | None = None,
    simulated: str = "",
) -> Result:
    """What a reset would do, and how Kafka's own command does it."""
    commands = kafkas_commands(group, topic, to, server)
    notes = [
        "Nothing was written. Delivery counts and locks of all records are forgotten by a reset.",
        simulated,
        refused(evidence, group),
        *(f"Kafka's command: {command}" for command in commands),
        *_remote_reads(plan),
        "" if commands else "kafka-share-groups.sh has no such reset: alterShareGroupOffsets has.",
    ]
    unknown = plan.column("new_start_offset").null_count
    gap = f"the new start offset in {unknown} of {plan.num_rows} share partitions"
    return replace(
        base,
        title=f"What would a reset of {group} do?",
        table=plan,
        columns=views.RESET_PLAN.columns,
        order="new_lag",
        notes=tuple(note for note in notes if note),
        unknown=((gap,) if unknown else ()) + base.unknown,
    )


def refused(evidence: Evidence, group: str) -> str:
    """Say that Kafka refuses while a group has members; empty where it has none."""
    members = evidence.groups.filter(pc.equal(evidence.groups.column("group_id"), group))
    count = members.column("members")[0].as_py() if members.num_rows else None
    why = "Kafka refuses it while the group has members (NON_EMPTY_GROUP)"
    return f"{why}: it has {count} now." if count else ""


def _remote_reads(plan: pa.Table) -> list[str]:
    """Warn of records that only remote storage has (KIP-405): fetching them takes longer."""
    far = plan.filter(pc.greater(plan.column("remote"), 0)).sort_by([("remote", "descending")])
    if not far.num_rows:
        return []
    worst, total = far.slice(0, 1).to_pylist()[0], pc.sum(far.column("remote")).as_py()
    words = (
        f"Remote reads: {number(total)} offsets in {far.num_rows} of {plan.num_rows} share "
        "partitions are in remote storage alone, which is slower; most in "
        f"{worst['topic']}:{worst['partition']}, {number(worst['remote'])} from "
        f"{number(worst['new_start_offset'])} on."
    )
    return [words]
