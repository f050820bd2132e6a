"""How load is spread, over whom: members, groups and brokers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.durations import duration
from sharelag.metrics.evidence import Evidence
from sharelag.metrics.members_now import drift_arrow
from sharelag.metrics.skew import verdict_words
from sharelag.model import iso
from sharelag.tables import gaps, views
from sharelag.tables.words import counted, shown_name
from sharelag.workbench import membership
from sharelag.workbench.ask import question
from sharelag.workbench.one_group import only
from sharelag.workbench.questions.timeline import trend_of
from sharelag.workbench.result import Result, chart

if TYPE_CHECKING:
    from sharelag.workbench.opened import Tables

#: Members that notes name one by one.
_MOST_NOTES = 10


@question("evidence")
def imbalance(t: Tables, group: str | None = None, by: str | None = None) -> Result:
    """How unevenly load is spread."""
    evidence = t.bench.evidence(group)
    table = t.bench.keep(("imbalance", by), lambda: t.read.imbalance(by))
    rows, spread = only(table, group), t.bench.ask("skew", group=group).table
    return _imbalance_answer(evidence, rows, spread, t.bench.base_of_evidence(group), by)


@question("evidence")
def skew(t: Tables, group: str | None = None) -> Result:
    """Where the lag of each group is concentrated, and idle members."""
    table = only(t.read.skew(), group)
    return replace(
        t.bench.base_of_evidence(group),
        title="Where does the lag concentrate?",
        table=table,
        columns=views.SKEW.columns,
        means=views.SKEW.means,
    )


@question("history", "lag")
def imbalance_trend(
    t: Tables, every: timedelta, by: str | None = None, group: str | None = None
) -> Result:
    """How unevenly lag was spread over partitions and topics at regular moments."""
    table = only(trend_of(t.read, every, by, t.bench.over), group)
    return replace(
        t.bench.base(t.read),
        title=f"How was the load spread every {duration(every / timedelta(milliseconds=1))}?",
        table=table,
        columns=views.IMBALANCE_OVER_TIME.columns,
        order="as_of",
    )


@question("lag", "members", "groups", "leaders", "nodes", any_group=True)
def members(t: Tables, group: str | None = None) -> Result:
    """Who is in the groups, and which partitions each member has."""
    # A group can have members before it has any state.
    states = t.bench.ask("group_states", group=group).table
    table = only(t.bench.keep("members", lambda: membership.members_of(t.read)), group)
    lag, assigned, groups = (only(t.read.table(one), group) for one in ("lag", "members", "groups"))
    base = t.bench.base(t.read)
    unknown = (*gaps.of_group_states(states, t.bench.as_of is not None), *base.unknown)
    return replace(
        base,
        title=counted(len(table), "member"),
        table=table,
        columns=views.MEMBERS.columns,
        order="assigned",
        charts=_spread(lag, assigned) if len(table) else {},
        notes=(*base.notes, *_drifting(assigned, groups)),
        unknown=(*_without_members(groups), *dict.fromkeys(unknown)),
    )


@question("lag", "groups", "leaders", "nodes", any_group=True)
def group_states(t: Tables, group: str | None = None, states: Iterable[str] = ()) -> Result:
    """The state, epochs, members and lag of every group."""
    table = t.bench.keep("group states", lambda: membership.group_states_of(t.read))
    if group is not None and group not in table.column("group_id").to_pylist():
        t.bench.require_group(t.read.table("lag"), group)
    found = membership.in_states(only(table, group), states)
    return _group_states_answer(found, t.bench.base(t.read), t.bench.as_of is not None)


@question("brokers")
def brokers(t: Tables, group: str | None = None) -> Result:
    """Which brokers lead the partitions of a group, and which keep their state."""
    return _brokers_answer(only(t.read.table("brokers"), group), t.bench.base(t.read))


def _imbalance_answer(
    evidence: Evidence, table: pa.Table, skew: pa.Table, base: Result, by: str | None = None
) -> Result:
    """How unevenly load is spread, and where the lag is concentrated."""
    verdicts = skew.to_pylist()
    return replace(
        base,
        title="How is the load spread?",
        table=table,
        columns=views.IMBALANCE.columns,
        means=views.IMBALANCE.means,
        order="gini",
        notes=(
            *base.notes,
            *(f"{shown_name(row['group_id'])}: {verdict_words(row)}" for row in verdicts),
        ),
        charts=_spread(evidence.lag, evidence.members),
        unknown=(gaps.of_brokers(evidence.brokers) if by == "broker" else ())
        + _without_members(evidence.groups)
        + base.unknown,
    )


def _without_members(groups: pa.Table) -> tuple[str, ...]:
    return () if groups.num_rows else ("members of the groups",)


def _spread(lag: pa.Table, members: pa.Table) -> dict[str, Any]:
    """Charts of how lag and partitions are spread."""
    drawn = {"lorenz": chart("lorenz", lag)}
    if len(pc.unique(lag.column("group_id"))) == 1:  # a chart of one group
        drawn["assigned"] = chart("assigned", members, lag)
    return drawn


def _drifting(members: pa.Table, groups: pa.Table) -> Iterator[str]:
    """Who does not have the partitions that the assignor chose for it."""
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
        yield f"and {left:,} more members that are not at their target assignment"


def _group_states_answer(table: pa.Table, base: Result, is_past: bool = False) -> Result:
    """Every group with its state, epochs and lag."""
    return replace(
        base,
        title=counted(len(table), "group"),
        table=table,
        columns=views.GROUP_STATES.columns,
        order="lag",
        unknown=gaps.of_group_states(table, is_past) + base.unknown,
    )


def _brokers_answer(table: pa.Table, base: Result) -> Result:
    """The brokers around each share partition."""
    return replace(
        base,
        title=f"Brokers of {counted(len(table), 'share partition')}",
        table=table,
        columns=views.BROKERS.columns,
        order="lag",
        charts={
            "load": chart("broker_load", table),
        },
        unknown=gaps.of_brokers(table) + gaps.of_leaderless(table) + base.unknown,
    )
