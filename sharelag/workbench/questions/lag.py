"""How much lag there is, and how much by other ways to measure it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.metrics.evidence import Evidence
from sharelag.metrics.in_flight import with_measured
from sharelag.metrics.lag import ROLLUP_KEYS
from sharelag.schemas import SHARE_PARTITION
from sharelag.schemas.arrow import beside, keys
from sharelag.tables import gaps, views
from sharelag.tables.words import counted
from sharelag.workbench import charts, investigate
from sharelag.workbench.engine import Answer
from sharelag.workbench.one_group import only
from sharelag.workbench.opened import Opened
from sharelag.workbench.result import Result, drawing


class WithLag(Opened):
    """Questions about lag."""

    def lag(self, group: str | None = None, by: str | None = None) -> Result:
        """The lag of every share partition, or its sums by ``"group"`` or ``"topic"``."""
        sums = None if by is None else self._ask(("lag", by), lambda: self.reading.rollup(by))
        return self._once(
            ("answer", "lag", group, by),
            lambda: _lag_answer(self.evidence(group), by, self._base(), only(sums, group)),
        )

    def reconcile(self, described: str | None = None, true: bool = False) -> Result:
        """The lag in several ways, and why they differ.

        Parameters
        ----------
        described : str, optional
            What ``kafka-share-groups.sh --describe --offsets`` printed.
        true : bool
            Read the whole backlog of a running cluster, and count the records in it.
        """
        answer = self._ask(
            ("reconcile", described, true),
            lambda: investigate.reconcile_of(self.reading, described, true),
        )
        base = self._base_of_state(answer.table)
        return _reconciled_answer(answer, described is not None, true, base)


def _lag_answer(
    evidence: Evidence, by: str | None, base: Result, sums: pa.Table | None = None
) -> Result:
    """The lag of share partitions with its age, or its sums, which are given then."""
    table = evidence.lag
    age = beside(keys(table, SHARE_PARTITION), evidence.progress, SHARE_PARTITION).column("age_ms")
    aged = with_measured(table.append_column("age_ms", age), evidence.measured)
    drawn: dict[str, Any] = {
        "decomposition": drawing(
            charts.decomposition_figure, charts.decomposition_records, table, by or "partition"
        ),
        "spans": drawing(
            charts.window_span_figure, charts.window_span_records, table, evidence.settings
        ),
        "lorenz": drawing(charts.lorenz_figure, charts.lorenz_records, table),
    }
    title = f"Lag of {counted(len(table), 'share partition')}"
    view = views.lag(evidence.measured.num_rows > 0)
    if by and sums is not None:
        title += f" by {by}"
        aged = _with_oldest(sums, aged, by)
        view = views.ROLLUP
    view = view.after("lag", "age_ms")
    if by == "group":
        view = view.without("topic")
    if not pc.any(pc.greater(pc.list_value_length(table.column("notes")), 0)).as_py():
        view = view.without("notes")
    unknown = (*gaps.of_lag(table), *gaps.of_column(evidence.progress, "age_ms", "the age"))
    return replace(
        base,
        title=title,
        table=aged,
        columns=view.columns,
        order="lag",
        charts=drawn,
        unknown=unknown + base.unknown,
    )


def _with_oldest(sums: pa.Table, aged: pa.Table, by: str) -> pa.Table:
    """The sums with the age of the oldest record in each; null where one of the ages is null."""
    names = ROLLUP_KEYS[by]
    oldest = aged.group_by(names).aggregate(
        [("age_ms", "max", pc.ScalarAggregateOptions(skip_nulls=False))]
    )
    age = beside(keys(sums, names), oldest.rename_columns([*names, "age_ms"]), names).column(
        "age_ms"
    )
    return sums.append_column("age_ms", age)


def _reconciled_answer(answer: Answer, described: bool, true: bool, base: Result) -> Result:
    """The lag in several ways."""
    table = answer.table
    return replace(
        base,
        title="The same lag, measured in several ways",
        table=table,
        columns=views.reconciled(described, true).columns,
        as_of=pc.max(table.column("as_of")).as_py(),
        order="lag",
        notes=(*base.notes, *gaps.of_repeated(answer.repeated)),
        unknown=gaps.of_column(table, "lag", "the lag")
        + gaps.of_rejected(answer.rejected, answer.generation),
        engine=answer.engine,
    )
