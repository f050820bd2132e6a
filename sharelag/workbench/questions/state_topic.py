"""Health of the state topic, and the cost of its records in other designs."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.engine import ORDER, Reading, add_topic_names
from sharelag.metrics.health import findings as findings_of
from sharelag.metrics.health import formats, in_words
from sharelag.schemas import SHARE_PARTITION
from sharelag.tables import gaps, views
from sharelag.tables.arrow import ascending, beside, keys
from sharelag.tables.words import pluralize
from sharelag.wire.fields import STATE_TOPIC
from sharelag.workbench.ask import question
from sharelag.workbench.base import Tables, count_share_partitions, only
from sharelag.workbench.result import Result, chart


@question("health")
def health(t: Tables, findings: bool = False) -> Result:
    """Return the health of the state topic as of its last record, or its problems."""
    with t.read.whole() as whole:
        table, found = judge_state_topic(whole)
        base = t.bench.base_of_state(whole, table)
    partitions = t.bench.source.partitions(STATE_TOPIC)
    view = views.FINDINGS if findings else views.HEALTH
    notes = in_words(found)
    if table.num_rows:
        notes = [f"format of the records: {formats(table)}", *notes]
    charts = {
        "records": chart("state_record", table),
        "keys": chart("state_key", table, partitions),
    }
    return replace(base, notes=() if findings else tuple(notes)).answer(
        f"State topic: {pluralize(len(table), 'partition')}",
        found if findings else table,
        view,
        "" if findings else "records",
        as_of=pc.max(table.column("last_timestamp")).as_py(),
        charts={} if findings else charts,
        notes=base.notes,
    )


def judge_state_topic(whole: Reading) -> tuple[pa.Table, pa.Table]:
    """Return `sharelag.schemas.HEALTH`, and the problems (`FINDINGS`)."""
    table, partitions = whole.table("health"), whole.source.partitions(STATE_TOPIC)
    return table, findings_of(table, whole.table("windows"), partitions)


@question("snapshots", "offsets")
def snapshots(t: Tables) -> Result:
    """Return the last snapshot of each share partition, and the number of updates after it."""
    table = add_topic_names(t.read.table("snapshots"), t.read.table("offsets"))
    table = t.bench.choice.of(table).sort_by(ORDER)
    return t.bench.base_of_state(t.read, table).answer(
        f"Last snapshots: {pluralize(count_share_partitions(table), 'share partition')}",
        table,
        views.SNAPSHOTS,
        "updates_since",
        as_of=pc.max(table.column("record_timestamp")).as_py(),
        unknown=gaps.of_column(table, "snapshot_offset", "the last snapshot"),
    )


@question("records", "lag")
def designs(t: Tables, group: str | None = None) -> Result:
    """Return the cost of the recorded history in each design of durable share state."""
    from sharelag.whatif.designs import DESIGN_COSTS, design_costs

    lag = only(t.read.table("lag"), group)
    costs = t.read.over_records(design_costs, DESIGN_COSTS, lag)
    base = t.bench.base(t.read)
    ends = beside(keys(costs, SHARE_PARTITION), lag, SHARE_PARTITION).column("end_offset")
    behind = pc.subtract(ends, costs.column("scanned_from"))
    is_there = pc.greater(costs.column("user_topic_records"), 0)
    scanned = pc.if_else(is_there, pc.max_element_wise(behind, 0, skip_nulls=False), 0)
    size = pc.add(costs.column("key_bytes"), costs.column("value_bytes"))
    table = costs.append_column("scanned_offsets", scanned).append_column("bytes", size)
    names = views.DESIGNS.names[2:]
    whole = pc.ScalarAggregateOptions(skip_nulls=False)
    by = ["group_id", "design"]
    sums = table.group_by(by).aggregate([(name, "sum", whole) for name in names])
    sums = sums.rename_columns([name.removesuffix("_sum") for name in sums.schema.names])
    return base.answer(
        "What would this history cost in other designs?",
        sums.select(views.DESIGNS.names).sort_by(ascending(*by)),
        views.DESIGNS,
        notes=(
            "Nobody writes G0 to G2, and Kafka 4.0 wrote G3; today's records are G4.",
            "Leaders of G0 and G1 look for their records among the user's: SCANNED is the most.",
        ),
    )
