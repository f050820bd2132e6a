"""How load is spread, over whom: members, groups and brokers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.metrics.drift import drift_arrow
from sharelag.metrics.evidence import Evidence
from sharelag.metrics.skew import verdict_words
from sharelag.model import iso
from sharelag.tables import views
from sharelag.tables.words import counted, shown_name
from sharelag.workbench import charts, membership
from sharelag.workbench.membership import unknown_brokers, unknown_states
from sharelag.workbench.one_group import of_group, only
from sharelag.workbench.opened import Opened
from sharelag.workbench.result import Result, drawing

#: Members that notes name one by one.
_MOST_NOTES = 10


class WithBalance(Opened):
    """Questions about balance, members and brokers."""

    def imbalance(self, group: str | None = None, by: str | None = None) -> Result:
        """How unevenly load is spread.

        Parameters
        ----------
        group : str, optional
        by : {"partition", "topic", "member", "broker"}, optional
            Only the spread over these.
        """
        evidence = self.evidence(group)
        table = self._ask(("imbalance", by), lambda: self.reading.imbalance(by))
        rows, skew = (only(found, group) for found in (table, self.skew()))
        return _imbalance_answer(evidence, rows, skew, self._base(), by)

    def skew(self) -> pa.Table:
        """Where the lag of each group is concentrated, as `sharelag.metrics.skew.SKEW`."""
        return self._ask("balance", lambda: self.reading.skew())

    def members(self, group: str | None = None) -> Result:
        """Who is in the groups, and which partitions each member has."""
        self.group_states(group)  # a group can have members before it has any state
        table = self._ask("members", lambda: membership.members_of(self.reading))
        evidence = of_group(self.evidence(), group)
        return _members_answer(only(table, group), evidence, self._base())

    def group_states(self, group: str | None = None, states: Iterable[str] = ()) -> Result:
        """The state, epochs, members and lag of every group; ``states`` such as ``["Empty"]``."""
        table = self._ask("group states", lambda: membership.group_states_of(self.reading))
        if group is not None and group not in table.column("group_id").to_pylist():
            self._require(self.evidence(), group)
        found = membership.in_states(only(table, group), states)
        return _group_states_answer(found, self._base(), self.as_of is not None)

    def brokers(self, group: str | None = None) -> Result:
        """Which brokers lead the partitions of a group, and which keep their state."""
        self._require(self.evidence(), group)
        table = self._ask("brokers", lambda: self.reading.table("brokers"))
        return _brokers_answer(only(table, group), self._base())


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
            *(f"{shown_name(row['group_id'])}: {verdict_words(row)}" for row in verdicts),
            *base.notes,
        ),
        charts=_spread(evidence),
        unknown=(unknown_brokers(evidence.brokers) if by == "broker" else ())
        + (("members of the groups",) if not evidence.groups.num_rows else ())
        + base.unknown,
    )


def _spread(evidence: Evidence) -> dict[str, Any]:
    """Charts of how lag and partitions are spread."""
    drawn: dict[str, Any] = {
        "lorenz": drawing(charts.lorenz_figure, charts.lorenz_records, evidence.lag),
        "assigned": drawing(
            charts.assigned_figure, charts.assigned_records, evidence.members, evidence.lag
        ),
    }
    if len(pc.unique(evidence.lag.column("group_id"))) != 1:
        drawn.pop("assigned")  # a chart of one group
    return drawn


def _members_answer(table: pa.Table, evidence: Evidence, base: Result) -> Result:
    """Who is in the groups, and what each has to fetch."""
    return replace(
        base,
        title=counted(len(table), "member"),
        table=table,
        columns=views.MEMBERS.columns,
        order="assigned",
        charts=_spread(evidence) if len(table) else {},
        notes=(*_drifting(evidence), *base.notes),
        unknown=(("members of the groups",) if not evidence.groups.num_rows else ()) + base.unknown,
    )


def _drifting(evidence: Evidence) -> Iterator[str]:
    """Who does not have the partitions that the assignor chose for it."""
    rows = drift_arrow(evidence.members, evidence.groups).to_pylist()
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
        unknown=unknown_states(table, is_past) + base.unknown,
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
            "load": drawing(charts.broker_load_figure, charts.broker_load_records, table),
        },
        unknown=unknown_brokers(table) + base.unknown,
    )
