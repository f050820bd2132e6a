"""Imbalance of load over members, groups and brokers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.durations import duration
from sharelag.engine import Reading
from sharelag.metrics import members_now
from sharelag.metrics.imbalance import require_over, trend, verdict_words
from sharelag.metrics.members_now import drift_arrow, member_rows
from sharelag.model import iso, parse_states
from sharelag.tables import gaps, views
from sharelag.tables.arrow import flat
from sharelag.tables.words import pluralize, shown_name
from sharelag.workbench.ask import question
from sharelag.workbench.base import Tables, only
from sharelag.workbench.questions.timeline import regular_moments, timeline_of
from sharelag.workbench.result import Result, chart

#: Maximum number of members or groups that notes name.
_MOST_NOTES = 10


@question("evidence")
def imbalance(t: Tables, group: str | None = None, by: str | None = None) -> Result:
    """Return the imbalance of load."""
    evidence = t.bench.evidence(group)
    require_over(by)
    table = only(t.bench.keep(("imbalance", by), lambda: t.read.imbalance(by)), group)
    by_broker = by == "broker" or "broker" in table.column("over").to_pylist()
    verdicts = t.bench.ask("skew", group=group).table.sort_by([("lag", "descending")]).to_pylist()
    notes = [f"{shown_name(row['group_id'])}: {verdict_words(row)}" for row in verdicts]
    if (left := len(notes) - _MOST_NOTES) > 0:
        rest = f"where the lag of {pluralize(left, 'more group')} is concentrated"
        notes[_MOST_NOTES:] = [f"{rest}: see bench.skew() or imbalance --verdict"]
    return t.bench.base_of(evidence).answer(
        "How is the load spread?",
        table,
        views.IMBALANCE,
        "gini",
        notes=notes,
        charts=_spread(evidence.lag, evidence.members),
        unknown=gaps.of_lag(evidence.lag)
        + gaps.of_spreads(table)
        + (gaps.of_brokers(evidence.brokers) if by_broker else ())
        + _without_members(evidence.groups),
    )


@question("evidence")
def skew(t: Tables, group: str | None = None) -> Result:
    """Return where each group's lag is concentrated, and idle members."""
    table, base = only(t.read.skew(), group), t.bench.base_of(t.bench.evidence(group))
    unknown = gaps.of_lag(only(t.read.table("lag"), group))
    return base.answer("Where is the lag concentrated?", table, views.SKEW, unknown=unknown)


@question("history", "lag", of_deleted=True)
def imbalance_trend(
    t: Tables, every: timedelta, by: str | None = None, group: str | None = None
) -> Result:
    """Return the imbalance of lag over partitions and topics at regular moments."""
    require_over(by, over_time=True)
    moments = regular_moments(t.read, every, over=t.bench.over)
    table = only(trend(timeline_of(t.read, moments, every).table, by), group)
    title = f"How was the load spread every {duration(every / timedelta(milliseconds=1))}?"
    return t.bench.base(t.read, past=True).answer(
        title,
        table,
        views.IMBALANCE_OVER_TIME,
        "as_of",
        notes=t.bench.of_past_ends(only(t.read.ever, group), is_past=True),
        unknown=gaps.of_spreads(table),
    )


@question("lag", "members", "groups", "leaders", "nodes", any_group=True)
def members(t: Tables, group: str | None = None) -> Result:
    """Return the members of the groups and the partitions assigned to each."""
    # A group can have members before it has state.
    states = t.bench.ask("group_states", group=group).table
    table = only(t.bench.keep("members", lambda: members_of(t.read)), group)
    lag, assigned, groups = (only(t.read.table(one), group) for one in ("lag", "members", "groups"))
    base = t.bench.base(t.read, of_groups=True)
    unknown = (*_unknown_states(t, states), *_without_members(groups))
    are_known = len(table) or not (unknown or base.unknown)
    return base.answer(
        pluralize(len(table), "member") if are_known else "Members",
        table,
        views.MEMBERS,
        "assigned",
        charts=_spread(lag, assigned) if len(table) else {},
        notes=(*_drifting(assigned, groups), *t.bench.of_past_ends(lag)),
        unknown=unknown,
    )


@question("lag", "groups", "leaders", "nodes", any_group=True)
def group_states(t: Tables, group: str | None = None, states: Iterable[str] = ()) -> Result:
    """Return the state, epochs, members and lag of every group."""
    table = t.bench.keep("group states", lambda: group_states_of(t.read))
    if group is not None and group not in table.column("group_id").to_pylist():
        t.bench.require_group(t.read.table("lag"), group)
    found, base = in_states(only(table, group), states), t.bench.base(t.read, of_groups=True)
    lag = t.read.table("lag")
    lag = lag.filter(pc.is_in(lag.column("group_id"), found.column("group_id").combine_chunks()))
    return base.answer(
        pluralize(len(found), "group"),
        found,
        views.GROUP_STATES,
        "lag",
        notes=t.bench.of_past_ends(lag),
        unknown=(*_unknown_states(t, found), *gaps.of_lag(lag)),
    )


@question("brokers", "lag")
def brokers(t: Tables, group: str | None = None) -> Result:
    """Return the brokers that lead a group's partitions, and those that keep their state."""
    table, base = only(t.read.table("brokers"), group), t.bench.base(t.read)
    return base.answer(
        f"Brokers of {pluralize(len(table), 'share partition')}",
        table,
        views.BROKERS,
        "lag",
        charts={"load": chart("broker_load", table)},
        notes=t.bench.of_past_ends(only(t.read.table("lag"), group)),
        unknown=gaps.of_lag(only(t.read.table("lag"), group))
        + gaps.of_brokers(table)
        + gaps.of_leaderless(table),
    )


def _unknown_states(t: Tables, states: pa.Table) -> tuple[str, ...]:
    counts = t.read.group_record_counts
    were_read = counts.records + counts.rejected > 0
    return gaps.of_group_states(states, t.bench.as_of is not None, were_read)


def _without_members(groups: pa.Table) -> tuple[str, ...]:
    return () if groups.num_rows else ("members of the groups",)


def _spread(lag: pa.Table, members: pa.Table) -> dict[str, Any]:
    drawn = {"lorenz": chart("lorenz", lag)}
    if len(pc.unique(lag.column("group_id"))) == 1:  # the chart shows one group
        drawn["assigned"] = chart("assigned", members, lag)
    return drawn


def _drifting(members: pa.Table, groups: pa.Table) -> Iterator[str]:
    """Yield members that do not have the partitions that the assignor chose for them."""
    rows = drift_arrow(members, groups).to_pylist()
    for row in rows[:_MOST_NOTES]:
        group, of, since = shown_name(row["group_id"]), row["assignment_epoch"], row["since"]
        yield (
            f"{group}: {row['member_id']} is not at its target assignment: epoch "
            f"{row['member_epoch']}{'' if of is None else f' of {of}'}, topic partitions to come: "
            f"{row['missing']}, to give up: {row['surplus']}"
            + (f", since {iso(since)}" if since else "")
        )
    if (left := len(rows) - _MOST_NOTES) > 0:
        yield f"not at their target assignment either: {pluralize(left, 'member')}"


def group_states_of(reading: Reading) -> pa.Table:
    """Return one row per group of a reading, as `sharelag.schemas.GROUP_STATES`."""
    reading.require_group_records()
    lag, groups = reading.table("lag"), reading.table("groups")
    unlisted = not pc.all(
        pc.is_in(flat(lag.column("group_id")), flat(groups.column("group_id")))
    ).as_py()
    # For an earlier moment, compaction may have removed the records of a group that existed.
    # Undecodable records, or records of other files, may belong to any group.
    may_tell = reading.as_of is None and not reading.group_record_counts.rejected
    is_complete = bool(
        unlisted
        and may_tell
        and "groups" not in reading.source.may_lack
        and (groups.num_rows > 0 or reading.has_group_records)
    )
    deleted = reading.group_record_counts.deleted if may_tell else frozenset()
    leaders, nodes = reading.table("leaders"), reading.table("nodes")
    table = members_now.group_states(groups, lag, is_complete, leaders, nodes, deleted)
    if reading.choice.topics:  # groups without state of these topics are left out
        table = table.filter(pc.greater(table.column("partitions"), 0))
    return table


def in_states(table: pa.Table, states: Iterable[str]) -> pa.Table:
    """Filter groups by state, like ``ListGroupsOptions.inGroupStates``; empty: all."""
    chosen = sorted(parse_states(states))
    if not chosen:
        return table
    return table.filter(pc.is_in(table.column("state"), pa.array(chosen, pa.string())))


def members_of(reading: Reading) -> pa.Table:
    """Return one row per member of a reading, as `sharelag.schemas.MEMBER_ROWS`.

    With selected topics, only members that subscribe to them or have their partitions.
    """
    reading.require_group_records()
    members, groups, lag = (reading.table(name) for name in ("members", "groups", "lag"))
    names = lag.select(["topic_id", "topic"])
    if reading.choice.topics:  # members may also have partitions of other topics
        lists = pc.list_flatten(flat(members.column("assigned_partitions")))
        ids = set(pc.unique(pc.struct_field(lists, "topic_id")).to_pylist())
        others = sorted(ids - set(names.column("topic_id").to_pylist()))
        more = reading.source.offsets(others).select(names.column_names).cast(names.schema)
        names = pa.concat_tables([names, more])
    return member_rows(members_now.of_topics(members, names, reading.choice), groups, names)
