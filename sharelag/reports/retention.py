"""What Kafka retains without need: logs that all groups have passed, records that are too old."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.metrics.reclaim import reclaimable_arrow
from sharelag.metrics.ttl import archived_by_ttl
from sharelag.reports.inputs import Case
from sharelag.tables.lines import plain_rows

_SUMS = ("effective_lag", "archived", "archived_low", "archived_high")


def reclaimable(case: Case) -> list[dict[str, Any]]:
    """List topic partitions by the offsets that all share groups have passed; unknown ones last."""
    rows = plain_rows(pa.Table.from_batches([reclaimable_arrow(case.evidence.lag)]))
    return sorted(rows, key=lambda row: (row["reclaimable"] is None, -(row["reclaimable"] or 0)))


def archived(case: Case, ttl: timedelta) -> list[dict[str, Any]]:
    """Estimate what a record TTL would archive, by group, the largest lag first.

    Returns
    -------
    list of dict
        Sums over the share partitions. The estimate and the upper bound are unknown if one of them
        is; the lower bound counts those that are known.
    """
    evidence = case.evidence
    ids = sorted(set(evidence.lag.column("topic_id").to_pylist()))
    # A cluster knows where its logs ended then, and a capture may have recorded it.
    then = case.bench.source.past_offsets(ids, [evidence.as_of - ttl])
    found = archived_by_ttl(
        evidence.lag,
        evidence.windows,
        pa.concat_tables([evidence.past_offsets, then]),
        pa.concat_tables([evidence.times, evidence.committed]),
        evidence.as_of,
        ttl,
    )
    wanted = [
        (name, "sum", pc.ScalarAggregateOptions(skip_nulls=name == "archived_low"))
        for name in _SUMS
    ]
    sums = pa.Table.from_batches([found]).group_by("group_id").aggregate(wanted)
    rows = [
        {name.removesuffix("_sum"): value for name, value in row.items()}
        for row in sums.to_pylist()
    ]
    return sorted(rows, key=lambda row: (-(row["effective_lag"] or 0), row["group_id"]))
