"""How the state topic does, and what its records would be in other designs."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.metrics.evidence import Evidence
from sharelag.metrics.placement import Partitions
from sharelag.schemas import SHARE_PARTITION
from sharelag.schemas.arrow import beside, keys
from sharelag.tables import gaps, views
from sharelag.tables.words import counted
from sharelag.wire.fields import STATE_TOPIC
from sharelag.workbench import charts, investigate
from sharelag.workbench.engine import Answer
from sharelag.workbench.opened import Opened
from sharelag.workbench.result import Result, drawing


class WithStateTopic(Opened):
    """Questions about the state topic."""

    def health(self) -> Result:
        """How the state topic does, as of its last record."""
        (answer, findings), partitions = self._ask(
            "health",
            lambda: (
                investigate.health_of(self.reading),
                self.source.partitions(STATE_TOPIC),
            ),
        )
        return _health_answer(answer, findings, self._base_of_state(answer.table), partitions)

    def snapshots(self) -> Result:
        """The last snapshot of each share partition, and how many updates followed it.

        A new coordinator begins with that snapshot. The drafts of KIP-932 call it a checkpoint, and
        where it is the share checkpoint offset.
        """
        answer = self._ask("snapshots", lambda: investigate.snapshots_of(self.reading))
        return _snapshots_answer(answer, self._base_of_state(answer.table))

    def designs(self, group: str | None = None) -> Result:
        """What the recorded history would cost in each design of durable share state."""
        from sharelag.whatif.designs import DESIGN_COSTS, design_costs

        evidence = self.evidence(group)
        costs = self._ask(
            ("designs", group),
            lambda: self.reading.over_records(design_costs, DESIGN_COSTS, evidence.lag),
        )
        return _designs_answer(evidence, costs, self._base())


def _health_answer(
    answer: Answer, findings: pa.Table, base: Result, partitions: Partitions = None
) -> Result:
    """How the state topic does."""
    table = answer.table
    last: datetime | None = pc.max(table.column("last_timestamp")).as_py()
    return replace(
        base,
        title=f"State topic: {counted(len(table), 'partition')}",
        table=table,
        columns=views.HEALTH.columns,
        means=views.HEALTH.means,
        as_of=last,
        order="records",
        charts={
            "records": drawing(charts.state_record_figure, charts.state_record_records, table),
            "keys": drawing(charts.state_key_figure, charts.state_key_records, table, partitions),
        },
        notes=(
            *gaps.of_repeated(answer.repeated),
            *findings.column("summary").to_pylist(),
            *base.notes,
        ),
        unknown=gaps.of_rejected(answer.rejected, answer.generation),
        engine=answer.engine,
    )


def _snapshots_answer(answer: Answer, base: Result) -> Result:
    """The last snapshot of each share partition."""
    table = answer.table
    return replace(
        base,
        title=f"Last snapshots: {counted(len(table), 'share partition')}",
        table=table,
        columns=views.SNAPSHOTS.columns,
        means=views.SNAPSHOTS.means,
        as_of=pc.max(table.column("record_timestamp")).as_py(),
        order="updates_since",
        notes=base.notes + gaps.of_repeated(answer.repeated),
        unknown=gaps.of_column(table, "snapshot_offset", "the last snapshot")
        + gaps.of_rejected(answer.rejected, answer.generation),
        engine=answer.engine,
    )


def _designs_answer(evidence: Evidence, costs: pa.Table, base: Result) -> Result:
    """What a history would cost in each design of share state, by group."""
    ends = beside(keys(costs, SHARE_PARTITION), evidence.lag, SHARE_PARTITION).column("end_offset")
    behind = pc.subtract(ends, costs.column("scanned_from"))
    is_there = pc.greater(costs.column("user_topic_records"), 0)
    scanned = pc.if_else(is_there, pc.max_element_wise(behind, 0, skip_nulls=False), 0)
    size = pc.add(costs.column("key_bytes"), costs.column("value_bytes"))
    table = costs.append_column("scanned_offsets", scanned).append_column("bytes", size)
    names = views.DESIGNS.names[2:]
    whole = pc.ScalarAggregateOptions(skip_nulls=False)
    sums = table.group_by(["group_id", "design"]).aggregate(
        [(name, "sum", whole) for name in names]
    )
    sums = sums.rename_columns([name.removesuffix("_sum") for name in sums.schema.names])
    return replace(
        base,
        title="What would this history cost in other designs?",
        table=sums.select(views.DESIGNS.names).sort_by(
            [("group_id", "ascending"), ("design", "ascending")]
        ),
        columns=views.DESIGNS.columns,
        means=views.DESIGNS.means,
        notes=(
            *base.notes,
            "Nobody writes G0 to G2, and Kafka 4.0 wrote G3; today's records are G4.",
            "Leaders of G0 and G1 look for their records among the user's: SCANNED is the most.",
        ),
    )
