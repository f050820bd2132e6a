"""Delivery counts of the offsets in the windows; those near the limit will be archived."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.model import DeliveryState
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import flat
from sharelag.workbench.charts import rows, text
from sharelag.workbench.charts.layout import Story, empty, figure, plotly
from sharelag.workbench.charts.palette import PAPER, Theme, marker, state_kind

LIMIT = "share.delivery.count.limit"
#: Offsets in the windows of one group with the same state and delivery count.
DELIVERY_COUNTS = pa.schema(
    [
        ("group_id", pa.string()),
        ("delivery_state", pa.int8()),  # null: no state persisted, so neither is the count
        ("delivery_count", pa.int16()),
        ("offsets", pa.int64()),
        ("share_partitions", pa.int64()),  # with at least one of them
        # of the windows, or of the group's last record; null: not known
        ("as_of", schemas.TIMESTAMP),
    ]
)


def delivery_count_records(windows: Arrow, as_of: datetime | None = None) -> pa.Table:
    """How many offsets have which state and delivery count.

    Parameters
    ----------
    windows : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.WINDOWS`.
    as_of : datetime, optional
        Of the windows: nothing was written since. Without it, of the group's last record.

    Returns
    -------
    pyarrow.Table
        `DELIVERY_COUNTS`, sorted by group, state and count; offsets without a persisted state come
        last in a group.
    """
    schemas.require(windows, schemas.WINDOWS, "windows")
    lists = flat(windows.column("runs"))
    counts = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    runs = pc.list_flatten(lists)
    window = np.repeat(np.arange(len(counts)), counts)
    first, last = (pc.struct_field(runs, n).to_numpy(zero_copy_only=False) for n in (0, 1))
    length = last - first + 1
    start, end = (
        rows.floats(windows, name) for name in ("effective_start_offset", "window_end_offset")
    )
    span = np.where(
        np.isnan(start), 0, np.maximum(np.nan_to_num(end) - np.nan_to_num(start), 0)
    ).astype(np.int64)
    stateless = span - np.bincount(window, length, len(counts)).astype(np.int64)
    some = np.flatnonzero(stateless > 0)
    place = pa.array(np.concatenate([window, some]))
    each = pa.table(
        {
            "group_id": flat(windows.column("group_id")).take(place),
            "delivery_state": pa.concat_arrays(
                [pc.struct_field(runs, 2), pa.nulls(len(some), pa.int8())]
            ),
            "delivery_count": pa.concat_arrays(
                [pc.struct_field(runs, 3), pa.nulls(len(some), pa.int16())]
            ),
            "offsets": np.concatenate([length, stateless[some]]),
            "window": place,
            "as_of": flat(windows.column("record_timestamp")).take(place),
        }
    )
    keys = ["group_id", "delivery_state", "delivery_count"]
    summed = each.group_by(keys).aggregate(
        [("offsets", "sum"), ("window", "count_distinct"), ("as_of", "max")]
    )
    columns = {name: summed.column(name) for name in keys} | {
        "offsets": summed.column("offsets_sum"),
        "share_partitions": summed.column("window_count_distinct"),
        "as_of": summed.column("as_of_max")
        if as_of is None
        else pa.repeat(pa.scalar(as_of, schemas.TIMESTAMP), len(summed)),
    }
    return rows.conformed(columns, DELIVERY_COUNTS).sort_by([(name, "ascending") for name in keys])


def delivery_count_figure(
    records: pa.Table, theme: Theme = "light", limit: int | None = None
) -> Any:
    """A bar a delivery count, its parts by state; all groups of the records together.

    Parameters
    ----------
    records : pyarrow.Table
        `DELIVERY_COUNTS`.
    theme : {"light", "dark"}
    limit : int, optional
        ``share.delivery.count.limit`` of the groups, if it is known and the same for all.
    """
    as_of = rows.latest(records)
    stateless = (
        pc.sum(records.filter(records.column("delivery_state").is_null()).column("offsets")).as_py()
        or 0
    )
    unit = "Offsets in the windows, by how often they were delivered."
    unknown = (
        f"Not known: state and delivery count of {text.counted(stateless, 'offset')} in the "
        "windows, "
        "which are acquired or were never persisted; not drawn."
        if stateless
        else ""
    )
    known = records.filter(records.column("delivery_state").is_valid())
    facts = () if limit is not None else (f"{LIMIT} is not known, so no mark shows it.",)
    story = Story(_title(known, limit), as_of, unit, unknown, facts)
    if not len(known):
        return empty("No offset in these windows has a persisted state", story, theme)
    summed = known.group_by(["delivery_state", "delivery_count"]).aggregate(
        [("offsets", "sum"), ("share_partitions", "sum")]
    )
    bars, most = [], 0
    states = sorted(pc.unique(summed.column("delivery_state")).to_pylist())
    # Side by side where a count has several states, so that a bar is never far from its count.
    places: dict[int, list[int]] = {}
    for one in summed.select(["delivery_count", "delivery_state"]).to_pylist():
        places.setdefault(one["delivery_count"], []).append(one["delivery_state"])
    for state in states:
        mine = (
            summed.filter(pc.equal(summed.column("delivery_state"), state))
            .sort_by("delivery_count")
            .to_pylist()
        )
        kind = state_kind(state)
        most = max(most, *(one["offsets_sum"] for one in mine))
        bars.append(
            plotly().Bar(
                x=[one["delivery_count"] for one in mine],
                y=[one["offsets_sum"] for one in mine],
                width=[0.8 / len(places[one["delivery_count"]]) for one in mine],
                offset=[_offset(sorted(places[one["delivery_count"]]), state) for one in mine],
                name=kind.words,
                marker=marker(kind, theme),
                hovertext=[
                    text.hover(
                        f"{text.counted(one['offsets_sum'], 'offset')} {kind.words.lower()}: "
                        f"{kind.means}",
                        f"delivery count {one['delivery_count']}",
                        f"in {text.counted(one['share_partitions_sum'], 'share partition')}",
                    )
                    for one in mine
                ],
                hoverinfo="text",
            )
        )
    last = max([*pc.unique(summed.column("delivery_count")).to_pylist(), limit or 1])
    least = pc.min(summed.column("offsets_sum")).as_py()
    scale = {"type": "log", "dtick": 1} if most > 50 * least else {"rangemode": "tozero"}
    return figure(
        bars,
        story,
        theme,
        barmode="overlay",
        xaxis={
            "title": {"text": "delivery count"},
            "dtick": max(1, last // 12),
            "range": [-0.6, last + 0.6],
        },
        yaxis={"title": {"text": "offsets"}, **scale},
        **(_limit(limit, theme) if limit is not None else {}),
    )


def _offset(states: list[int], state: int) -> float:
    """Where the bar of one state begins, of those that share a count."""
    return 0.8 * states.index(state) / len(states) - 0.4


def _limit(limit: int, theme: Theme) -> dict[str, Any]:
    look = {"color": PAPER[theme]["ink"], "width": 2, "dash": "dash"}
    at = {"x0": limit + 0.5, "x1": limit + 0.5, "y0": 0, "y1": 1, "yref": "paper"}
    note = {
        "x": limit + 0.5,
        "y": 1,
        "yref": "paper",
        "xanchor": "right",
        "xshift": -6,
        "yanchor": "top",
        "showarrow": False,
    }
    return {
        "shapes": [{"type": "line", **at, "line": look}],
        "annotations": [note | {"text": f"limit {limit}"}],
    }


def _title(known: pa.Table, limit: int | None) -> str:
    if not len(known):
        return "No offset in these windows has a persisted delivery count"
    groups = rows.groups_of(known)
    waiting = known.filter(pc.not_equal(known.column("delivery_count"), 0))
    unfinished = waiting.filter(
        pc.equal(waiting.column("delivery_state"), int(DeliveryState.AVAILABLE))
    )
    if not len(unfinished):
        return f"{groups}: no offset waits for another delivery"
    highest = pc.max(unfinished.column("delivery_count")).as_py()
    count = pc.sum(
        unfinished.filter(pc.equal(unfinished.column("delivery_count"), highest)).column("offsets")
    ).as_py()
    total = pc.sum(unfinished.column("offsets")).as_py()
    left = (
        ""
        if limit is None
        else f", {text.counted(max(limit - highest, 0), 'delivery', 'deliveries')} below the limit"
    )
    return (
        f"{groups}: {text.counted(total, 'offset')} given back and waiting; the highest "
        f"delivery count is {highest} "
        f"({text.counted(count, 'offset')}){left}"
    )
