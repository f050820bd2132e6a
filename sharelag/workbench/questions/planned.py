"""Effects of resetting or deleting offsets; nothing is written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from numbers import Integral
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.durations import UNITS, spell
from sharelag.engine import Reading
from sharelag.errors import InputError, list_names, unknown_topic
from sharelag.inputs import Input, KafkaInput
from sharelag.inputs.files.printed import read_printed_offsets
from sharelag.metrics import reset
from sharelag.metrics.columns import PARTITION
from sharelag.metrics.evidence import Evidence
from sharelag.metrics.lag import lag_arrow
from sharelag.metrics.settings import choose_basis
from sharelag.model.kafka_commands import refusal
from sharelag.model.settings import in_force
from sharelag.model.versions import given_or_own
from sharelag.replay.moment import FIRST, Choice, as_time, parse_topics
from sharelag.tables import gaps, views
from sharelag.tables.arrow import as_table, keys, table_of, with_columns
from sharelag.tables.words import pluralize, shown_name
from sharelag.whatif.comparison.rows import unknown_work
from sharelag.whatif.from_cluster import scenario_from
from sharelag.whatif.horizon import after_reset, simulate_drain
from sharelag.workbench.ask import question
from sharelag.workbench.base import Tables
from sharelag.workbench.next_steps import address_of
from sharelag.workbench.result import Result

_RESET = "share.auto.offset.reset"
_WANTED = "give to='earliest', 'latest', an offset, a datetime or a timedelta, or shift_by=N"
#: The largest exact integer of a float; no log gets that long.
_MOST_OFFSETS = 2**53
_NO_OFFSETS = "No command of Kafka's is shown: it would need offsets that are not known here."
#: The target of a reset: an offset for all, a time, or a duration before the moment.
Target: TypeAlias = str | int | datetime | timedelta | None


@question("windows", "lag", "groups", "settings", history_with="simulate")
def plan_reset(
    t: Tables,
    group: str,
    to: Target = None,
    shift_by: int | None = None,
    topics: tuple[str, ...] = (),
    local_offsets: str | Path | None = None,
    simulate: bool = False,
    members: int | None = None,
    kafka_version: str | None = None,
) -> Result:
    """Return the effects of a reset of a group's start offsets; nothing is written."""
    bench, source = t.bench, t.bench.source
    whole = simulate or bench.is_gathered
    evidence = bench.evidence(group) if whole else bench.state_of(group, "windows", "groups")
    plan = reset_of(t.read, evidence, group, to, shift_by, topics, local_offsets)
    plan, more = _simulate(evidence, group, plan, simulate, members)
    if isinstance(to, timedelta):
        to = _before(evidence.as_of, to)
    commands = reset.reset_commands(group, topics, to, *address_of(source), plan)
    notes = [
        "Nothing was written. A reset forgets the delivery counts and locks of all records.",
        more,
        _say_refused(evidence, group),
        _beyond(plan, to),
        *(_commands_in_words(commands, source, kafka_version) if commands else [_NO_OFFSETS]),
        *_remote_reads(plan),
    ]
    title = f"What would a reset of {shown_name(group)} do?"
    return _plan_result(bench.base_of(evidence), title, plan, notes)


@question("evidence")
def plan_delete(
    t: Tables,
    group: str,
    topics: tuple[str, ...] = (),
    simulate: bool = False,
    members: int | None = None,
    kafka_version: str | None = None,
) -> Result:
    """Return the effects of deleting a group, or its offsets of topics; nothing is written."""
    evidence, source = t.bench.evidence(group), t.bench.source
    plan, begins = deletion_of(t.read, evidence, group, topics)
    plan, more = _simulate(evidence, group, plan, simulate, members)
    what = f"its offsets of {', '.join(topics)}" if topics else "the group"
    gone = (
        f"Deleting {what} forgets the state of {pluralize(plan.num_rows, 'share partition')}. "
        f"Members that subscribe again start by {begins}."
    )
    command = reset.delete_command(group, topics, *address_of(source))
    notes = [
        f"Nothing was written. {gone}",
        more,
        _say_refused(evidence, group),
        "" if topics else "The group's settings stay: delete them with kafka-configs.sh.",
        *_commands_in_words([command], source, kafka_version, asks=False),
    ]
    title = f"What would a deletion of {what if topics else shown_name(group)} do?"
    return _plan_result(t.bench.base_of(evidence), title, plan, notes)


def require_target(to: Target, shift_by: int | None) -> Target:
    """Return the target of a reset, times in UTC; raise `InputError` unless it is a valid one."""
    if (to is None) == (shift_by is None):
        raise InputError(f"one target is needed: {_WANTED}")
    given: Any = shift_by if to is None else to
    # Durations of NumPy are among its numbers.
    is_number = isinstance(given, Integral) and not isinstance(given, bool | np.timedelta64)
    is_named = isinstance(to, str) and to in ("earliest", "latest")
    if not (is_named or is_number or isinstance(to, datetime | timedelta)):
        raise InputError(f"unknown target {given!r}: {_WANTED}")
    if is_number and to is not None and given < 0:
        raise InputError(f"{to!r} is not an offset: {_WANTED}")
    if is_number and abs(given) > _MOST_OFFSETS:
        raise InputError(f"no log has more than {_MOST_OFFSETS:,} offsets: give a smaller number")
    if isinstance(to, timedelta) and to < timedelta():
        raise InputError(f"{to} is not a time before now: give a timedelta above 0")
    return as_time(to) if isinstance(to, datetime) else to


def reset_of(
    reading: Reading,
    evidence: Evidence,
    group: str,
    to: Target,
    shift_by: int | None,
    topics: Sequence[str] = (),
    local_offsets: str | Path | None = None,
) -> pa.Table:
    """Return `sharelag.schemas.RESET_PLAN` of a group from its evidence.

    For the target see `require_target`. ``topics`` selects topics, or with ``orders:0,2``
    partitions, like Kafka's command. On a running cluster they may be topics without state of the
    group.
    """
    lag = _of_topics(reading, evidence, group, topics) if topics else evidence.lag
    windows = evidence.windows
    local = None if local_offsets is None else read_printed_offsets(local_offsets)
    if isinstance(to, timedelta):
        to = _before(evidence.as_of, to)
    if not isinstance(to, datetime):
        return reset.plan_reset(lag, windows, to, shift_by, local=local)
    ids = sorted(set(lag.column("topic_id").to_pylist()))
    # Kafka resets to the first record at or after the time: the end one millisecond before.
    at = reading.source.past_offsets(ids, [to - timedelta(milliseconds=1)])
    return reset.plan_reset(lag, windows, at=at, local=local)


def _before(as_of: datetime, ago: timedelta) -> datetime:
    if ago > as_of - FIRST:
        raise InputError(
            f"{spell(ago)} ago is before 1970, where Kafka's timestamps start: give a shorter "
            "duration"
        )
    return as_of - ago


def _of_topics(reading: Reading, evidence: Evidence, group: str, topics: Sequence[str]) -> pa.Table:
    chosen = parse_topics(topics)
    stateless = _without_state(reading, evidence.lag, group, list(chosen))
    lag = Choice(topics=chosen).of(pa.concat_tables([evidence.lag, stateless]))
    for name, partitions in chosen.items():
        mine = lag.filter(pc.equal(lag.column("topic"), name)).column("partition").to_pylist()
        if lacking := sorted(partitions - set(mine)):
            raise InputError(
                f"topic {name!r} has no partition {lacking[0]} here: its partitions are "
                f"{list_names([str(one) for one in sorted(mine)]) or 'none of these'}"
            )
    return lag


def _without_state(reading: Reading, lag: pa.Table, group: str, topics: Sequence[str]) -> pa.Table:
    """Return lag rows, with ends only, of a cluster's partitions without state of a group."""
    source, there = reading.source, lag.column("topic").to_pylist()
    ids: dict[str, str] = {}
    if isinstance(source, KafkaInput):
        from sharelag.inputs.kafka.topics import topic_ids

        ids = topic_ids(source.config)
    if unknown := [topic for topic in topics if topic not in ids and topic not in there]:
        where = f"on the {source.describe()}" if ids else ""
        raise InputError(unknown_topic(unknown[0], ids or there, group, where))
    known = [ids[topic] for topic in topics if topic in ids]
    if not known:
        return lag.schema.empty_table()
    ends = source.offsets(known)
    ends = ends.filter(pc.invert(pc.is_in(keys(ends, PARTITION), keys(lag, PARTITION))))
    empty = {name: ends.column(name) for name in PARTITION} | {"group_id": group, "runs": []}
    return as_table(lag_arrow(table_of(empty, schemas.WINDOWS, pad=True), ends))


def deletion_of(
    reading: Reading, evidence: Evidence, group: str, topics: Sequence[str]
) -> tuple[pa.Table, str]:
    """Return the state after a deletion of offsets, and in words where the group would start.

    It is `sharelag.schemas.RESET_PLAN`, with the start offsets that members would get if they
    rejoined at once.
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
    is_ago = begins.startswith("by_duration:")
    to = _before_all(evidence.as_of, begins) if is_ago else begins
    mine = evidence
    if topics:
        chosen = pc.is_in(evidence.lag.column("topic"), pa.array(topics, pa.string()))
        mine = replace(evidence, lag=evidence.lag.filter(chosen))
    words = f"{_RESET}={begins}"
    if found.source == "assumed":
        words += " (Kafka's default; the group's own setting is not known)"
    return reset_of(reading, mine, group, to, None), words


def _before_all(as_of: datetime, begins: str) -> datetime | str:
    """Subtract a duration; brokers accept any, and no record is older than `FIRST`."""
    parts = re.findall(r"(\d+[.,]?\d*)([dhms])", begins.partition(":")[2].lower())
    spans = (float(n.replace(",", ".")) * UNITS[unit].total_seconds() for n, unit in parts)
    back = sum(spans)
    longest = (as_of - FIRST).total_seconds()
    return "earliest" if back >= longest else as_of - timedelta(seconds=back)


def not_simulated(by: str = "--simulate (simulate=True)") -> str:
    """Say that nothing was simulated, and how to simulate."""
    return f"How long the new lag takes is not known: {by} simulates it."


def _simulate(
    evidence: Evidence, group: str, plan: pa.Table, simulate: bool, members: int | None
) -> tuple[pa.Table, str]:
    """Add the time to drain the new lag at current rates, null if a run did not finish."""
    if not simulate:
        if members is not None:
            raise InputError("members are only for a simulation: add simulate=True")
        return plan, not_simulated()
    scenario = after_reset(scenario_from(evidence, group), plan, members)
    if unknown := unknown_work(scenario):
        return plan, f"How long the new lag takes is {unknown.partition('; give it')[0]}."
    found = simulate_drain(scenario)
    times = [found.of_partition(row["topic"], row["partition"]) for row in plan.to_pylist()]
    filled = with_columns(plan, {"new_drain_ms": pa.array(times, pa.int64())})
    return filled, f"At current rates, {found.words()}."


def _commands_in_words(
    commands: Sequence[str], source: Input, kafka_version: str | None, asks: bool = True
) -> list[str]:
    """Return Kafka's commands in words, with the version of the check, or why it is refused."""
    version, whose = given_or_own(kafka_version, source.kafka_version)
    settings = source.settings([], []) if version is None else schemas.SETTINGS.empty_table()
    judged = choose_basis(settings, version, whose=whose)
    if why := refusal(commands[-1], judged.version):
        whose = f"{judged}{',' if judged.why else ''}"
        return [f"kafka-share-groups.sh of Kafka {whose} refuses the command: {why}."]
    begin = f"Kafka's command{'' if asks else ', which asks nothing'}: "
    return [
        f"What follows is for kafka-share-groups.sh of Kafka {judged}.",
        *(f"{begin}{command}" for command in commands),
    ]


def _plan_result(base: Result, title: str, plan: pa.Table, notes: Sequence[str]) -> Result:
    """Return a plan as a result, without empty notes."""
    unknown = gaps.of_column(plan, "new_start_offset", "the new start offset")
    return replace(base, notes=()).answer(
        title, plan, views.RESET_PLAN, "new_lag", notes=filter(None, notes), unknown=unknown
    )


def _beyond(plan: pa.Table, to: Target) -> str:
    """Warn of start offsets beyond the end of a log, which Kafka accepts."""
    is_set, lag = plan.column("new_start_offset").is_valid(), plan.column("new_lag")
    beyond = plan.filter(pc.and_(is_set, lag.is_null()))
    if not beyond.num_rows:
        return ""
    return (
        f"Offset {to} is beyond the end of {beyond.num_rows:,} of "
        f"{pluralize(plan.num_rows, 'log')}. "
        "Admin.alterShareGroupOffsets does not refuse that: until such a log reaches it, Kafka "
        "does not know its lag and delivers nothing of it. kafka-share-groups.sh resets to the "
        "end of such a log."
    )


def _say_refused(evidence: Evidence, group: str) -> str:
    """Say that Kafka refuses while a group has members; empty if it has none."""
    members = evidence.groups.filter(pc.equal(evidence.groups.column("group_id"), group))
    count = members.column("members")[0].as_py() if members.num_rows else None
    why = "Kafka refuses it while the group has members (NON_EMPTY_GROUP)"
    return f"{why}: it has {count} now." if count else ""


def _remote_reads(plan: pa.Table) -> list[str]:
    """Warn of records only in remote storage (KIP-405), which are slower to fetch."""
    far = plan.filter(pc.greater(plan.column("remote"), 0)).sort_by([("remote", "descending")])
    if not far.num_rows:
        return []
    worst, total = far.slice(0, 1).to_pylist()[0], pc.sum(far.column("remote")).as_py()
    words = (
        f"Remote reads: {pluralize(total, 'offset')} in {far.num_rows:,} of "
        f"{pluralize(plan.num_rows, 'share partition')} {'is' if total == 1 else 'are'} in remote "
        f"storage alone, which is slower; most in {worst['topic']}:{worst['partition']}, "
        f"{worst['remote']:,} from {worst['new_start_offset']} on."
    )
    return [words]
