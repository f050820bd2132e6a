"""How groups are, why they lag, and what becomes of their lag."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.durations import duration
from sharelag.metrics.evidence import Evidence
from sharelag.metrics.explain import explain
from sharelag.metrics.in_flight import with_measured
from sharelag.schemas.arrow import as_table, rows_by_group
from sharelag.tables import gaps, views
from sharelag.workbench import charts
from sharelag.workbench.explained import summarize_groups
from sharelag.workbench.judged import headline, judged_groups
from sharelag.workbench.opened import Opened
from sharelag.workbench.result import Result, drawing


class WithCauses(Opened):
    """Questions about causes and forecasts."""

    def overview(self) -> Result:
        """How each group is, the worst first; the title says it in a sentence."""
        return self._once(
            ("answer", "overview"),
            lambda: _overview_answer(self.evidence(), self.patience, self._base()),
        )

    def explain(self, group: str | None = None) -> Result:
        """Why there is lag: causes with their evidence, the most severe first."""
        answer = self._once(
            ("answer", "explain", group),
            lambda: _explained_answer(self.evidence(group), self.patience, self._base()),
        )
        return self._counted(answer, group)

    def progress(self, group: str | None = None) -> Result:
        """How old the lag is, how fast it grows or drains, and how long its records are kept."""
        answer = self._once(
            ("answer", "progress", group),
            lambda: _progress_answer(self.evidence(group), self._base()),
        )
        return self._counted(answer, group)

    def _counted(self, result: Result, group: str | None) -> Result:
        """A result with what brokers count of acknowledgements and letters."""
        groups = self.groups if group is None else (group,)
        said = () if self.metrics is None else self.metrics.words(groups)
        return replace(result, notes=(*result.notes, *said))


def _overview_answer(evidence: Evidence, patience: timedelta | None, base: Result) -> Result:
    """How each group is, the worst first."""
    groups = judged_groups(evidence, patience)
    progress = rows_by_group(evidence.progress, ["group_id", "arrival_rate", "completion_rate"])
    members = {row["group_id"]: row["members"] for row in evidence.groups.to_pylist()}
    rows = [
        group
        | {
            "arrival_rate": _sum_of(progress[group["group_id"]], "arrival_rate"),
            "completion_rate": _sum_of(progress[group["group_id"]], "completion_rate"),
            "gone": group["drain"],
            "members": members.get(group["group_id"]),
            "cause": group["causes"][0]["cause"] if group["causes"] else None,
        }
        for group in groups
    ]
    names = schemas.OVERVIEW.names
    return replace(
        base,
        title=headline(groups, []),
        table=pa.Table.from_pylist(
            [{name: row[name] for name in names} for row in rows], schemas.OVERVIEW
        ),
        columns=views.OVERVIEW.columns,
        means=views.OVERVIEW.means,
    )


def _sum_of(rows: list[dict[str, Any]], name: str) -> float | None:
    """A sum, and None where one of its parts is unknown."""
    values = [row[name] for row in rows]
    return None if None in values or not values else float(sum(values))


def _explained_answer(evidence: Evidence, patience: timedelta | None, base: Result) -> Result:
    """Why the groups lag."""
    causes = as_table(explain(evidence, patience))
    return replace(
        base,
        title="Why is there lag?",
        table=causes,
        columns=views.CAUSES.columns,
        summaries=tuple(summarize_groups(evidence, causes, patience)),
        charts={
            "causes": lambda theme: charts.cause_figure(
                charts.cause_records(causes, evidence.as_of), theme, as_of=evidence.as_of
            )
        },
    )


def _progress_answer(evidence: Evidence, base: Result) -> Result:
    """Age, rates, and when the lag will be gone."""
    table = with_measured(evidence.progress, evidence.measured)
    spans = table.column("observed_ms")
    over = pc.max(spans).as_py()
    notes = (f"rates are over the {duration(over)} before that moment",) if over else ()
    breaks = pc.sum(pc.greater(table.column("breaks"), 0)).as_py() or 0
    unknown = (
        *gaps.of_column(table, "age_ms", "the age"),
        *gaps.of_column(table, "arrival_rate", "how fast records arrive"),
        *gaps.of_column(table, "completion_rate", "how fast they are finished"),
        *gaps.of_rows(
            breaks, len(table), "all changes", ["records are missing: the rates are lower bounds"]
        ),
    )
    return replace(
        base,
        title="Age, rates and forecast",
        table=table,
        columns=views.progress(evidence.measured.num_rows > 0).columns,
        order="age_ms",
        charts={
            "drain": drawing(charts.drain_figure, charts.drain_records, table),
            "rates": drawing(charts.rates_figure, charts.rates_records, table),
        },
        notes=base.notes + notes,
        unknown=unknown + base.unknown,
    )
