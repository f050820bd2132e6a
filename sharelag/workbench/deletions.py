"""Planned deletions of groups and offsets, and how long groups would take afterwards."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.durations import UNITS
from sharelag.engine import Reading
from sharelag.errors import InputError, unknown_topic
from sharelag.inputs import Input
from sharelag.metrics.evidence import Evidence
from sharelag.metrics.reset import delete_command
from sharelag.model.settings import in_force
from sharelag.replay.moment import FIRST
from sharelag.tables.words import counted, shown_name
from sharelag.whatif.after_reset import after_reset, drained
from sharelag.whatif.scenario import Scenario
from sharelag.workbench.resets import (
    address_of,
    commands_in_words,
    plan_result,
    refused,
    reset_of,
)
from sharelag.workbench.result import Result

_RESET = "share.auto.offset.reset"


def deletion_of(
    reading: Reading, evidence: Evidence, group: str, topics: Sequence[str]
) -> tuple[pa.Table, str]:
    """Return what would be left after offsets were deleted, and where the group would begin.

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.RESET_PLAN`, with the start offsets that members would find if they
        came back at once.
    str
        Where that is, in words.

    Raises
    ------
    InputError
        The group has no state of a topic.
    """
    there = evidence.lag.column("topic").to_pylist()
    if unknown := [topic for topic in topics if topic not in there]:
        raise InputError(unknown_topic(unknown[0], there, group))
    found = in_force(evidence.settings, group)[_RESET]
    if found.value is None:
        raise InputError(
            f"{_RESET} of share group {group!r} is not a value of Kafka's: sharelag settings shows "
            "which are"
        )
    begins = str(found.value)
    to: str | datetime = begins
    if begins.startswith("by_duration:"):
        to = _before(evidence.as_of, begins)
    mine = evidence
    if topics:
        chosen = pc.is_in(evidence.lag.column("topic"), pa.array(topics, pa.string()))
        mine = replace(evidence, lag=evidence.lag.filter(chosen))
    words = f"{_RESET}={begins}" + (
        ", Kafka's default, as the group's own setting is not known"
        if found.source == "assumed"
        else ""
    )
    return reset_of(reading, mine, group, to, None), words


def _before(as_of: datetime, begins: str) -> datetime | str:
    """Go back by a duration; brokers take any, and none of their records is older than `FIRST`."""
    parts = re.findall(r"(\d+[.,]?\d*)([dhms])", begins.partition(":")[2].lower())
    back = sum(
        float(count.replace(",", ".")) * UNITS[unit].total_seconds() for count, unit in parts
    )
    longest = (as_of - FIRST).total_seconds()
    return "earliest" if back >= longest else as_of - timedelta(seconds=back)


def deletion_answer(
    plan: pa.Table,
    evidence: Evidence,
    group: str,
    topics: Sequence[str],
    begins: str,
    base: Result,
    source: Input,
    said: str = "",
    kafka_version: str | None = None,
) -> Result:
    """What a deletion would do, and how Kafka's own command does it."""
    what = f"its offsets of {', '.join(topics)}" if topics else "the group"
    gone = (
        f"A deletion of {what} forgets the state of {counted(plan.num_rows, 'share partition')}. "
        f"Members that subscribe again begin where {begins} says."
    )
    command = delete_command(group, topics, *address_of(source))
    notes = [
        f"Nothing was written. {gone}",
        said,
        refused(evidence, group),
        "" if topics else "Settings of the group stay: kafka-configs.sh deletes them.",
        *commands_in_words([command], source, kafka_version, asks=False),
    ]
    title = f"What would a deletion of {what if topics else shown_name(group)} do?"
    return plan_result(base, title, plan, notes)


def not_simulated(by: str = "--simulate (simulate=True)") -> str:
    """Say that nothing was simulated, and what would."""
    return f"How long the new lag takes is not known: {by} simulates it."


def simulated(scenario: Scenario, plan: pa.Table, members: int | None) -> tuple[pa.Table, str]:
    """Simulate how long the new lag takes at today's rates.

    Returns
    -------
    pyarrow.Table
        The plan with ``new_drain_ms``: the median of the runs, null where one did not finish.
    str
        How long it takes in all, in words.

    Raises
    ------
    InputError
        The group has no members and none are given, or too much work to be simulated.
    """
    found = drained(after_reset(scenario, plan, members))
    at = plan.schema.get_field_index("new_drain_ms")
    times = [found.of_partition(row["topic"], row["partition"]) for row in plan.to_pylist()]
    filled = plan.set_column(at, plan.schema.field(at), pa.array(times, pa.int64()))
    return filled, f"At today's rates, {found.words()}."
