"""Lag: of every share partition, summed by group or topic, and measured in several ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import InputError
from sharelag.inputs.kafka.described import parse_offsets
from sharelag.tables import gaps, views
from sharelag.tables.words import counted
from sharelag.workbench.ask import Beside, question
from sharelag.workbench.one_group import only
from sharelag.workbench.result import Result, chart

if TYPE_CHECKING:
    from sharelag.workbench.opened import Tables


@question("windows", "offsets", "lag", stands_alone=True, sums_with="by")
def lag(
    t: Tables,
    group: str | None = None,
    by: str | None = None,
    brief: bool = False,
) -> Result:
    """Return share partitions' lag with its terms, its sums, or what Kafka computes it from."""
    base = t.bench.base(t.read)
    each = only(t.read.brief if brief else t.read.table("lag"), group)
    told = Beside(each) if brief or by else t.bench.beside(t.read, each)
    table, view = told.table, views.BRIEF if brief else views.lag(t.bench.metrics is not None)
    if by is not None:
        table = only(t.read.rollup(by), group)
        view = views.ROLLUP.without("topic") if by == "group" else views.ROLLUP
    elif (
        "notes" not in table.column_names
        or not pc.any(pc.greater(pc.list_value_length(table.column("notes")), 0)).as_py()
    ):
        view = view.without("notes")
    charts = {
        "decomposition": chart("decomposition", each, by or "partition"),
        "spans": chart("window_span", each, lambda: t.read.table("settings")),
        "lorenz": chart("lorenz", each),
    }
    hidden = gaps.of_hidden(each) if hasattr(t.bench.source, "config") else ()
    return base.answer(
        f"Lag of {counted(len(each), 'share partition')}{f' by {by}' if by else ''}",
        table,
        view,
        "lag",
        charts={} if brief else charts,
        notes=told.notes,
        unknown=(*gaps.of_lag(each), *hidden, *told.unknown, *told.lacks),
        lacks=told.lacks,
    )


@question("windows", "offsets", "lag")
def reconcile(t: Tables, described: str | None = None, true: bool = False) -> Result:
    """Return the lag in several ways, and why they differ."""
    if true and (t.bench.as_of is not None or not hasattr(t.bench.source, "config")):
        raise InputError(
            "true lag is counted in the logs of a running cluster as of now: give "
            "--bootstrap-server and no --as-of"
        )
    printed = None if described is None else parse_offsets(described)
    if printed is not None and t.bench.choice.groups:
        chosen = pa.array(sorted(t.bench.choice.groups))
        printed = printed.filter(pc.is_in(printed.column("group_id"), chosen))
    base, table = t.bench.base(t.read), t.read.reconcile(printed, true)
    return base.answer(
        "The same lag, measured in several ways",
        table,
        views.choose_reconciled(described is not None, true),
        "lag",
        as_of=pc.max(table.column("as_of")).as_py(),
        unknown=gaps.of_column(table, "lag", "the lag"),
    )
