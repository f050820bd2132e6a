"""Delivery counts of the offsets in the windows; those near the limit will be archived."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.charts import rows, text
from sharelag.charts.figure import Figure, Story, axis, bar, empty, figure
from sharelag.charts.palette import PAPER, Theme, state_kind
from sharelag.model import DeliveryState
from sharelag.schemas import Arrow
from sharelag.tables.arrow import ascending, flat

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
    """Return how many offsets have which state and delivery count, as `DELIVERY_COUNTS`.

    They are sorted by group, state and count; offsets without a persisted state come last in a
    group. ``as_of`` is that of the windows, as nothing was written since; without it, of the
    group's last record.
    """
    schemas.require(windows, schemas.WINDOWS, "windows")
    lists = flat(windows.column("runs"))
    counts = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    runs = pc.list_flatten(lists)
    window = np.repeat(np.arange(len(counts)), counts)
    first, last = (pc.struct_field(runs, n).to_numpy(zero_copy_only=False) for n in (0, 1))
    length = last - first + 1
    span = np.nan_to_num(rows.spans(windows)).astype(np.int64)
    stateless = span - np.bincount(window, length, len(counts)).astype(np.int64)
    some = np.flatnonzero(stateless > 0)
    place = pa.array(np.concatenate([window, some]))
    state, count = (
        pa.concat_arrays(
            [pc.struct_field(runs, n), pa.nulls(len(some), DELIVERY_COUNTS.types[n - 1])]
        )
        for n in (2, 3)
    )
    each = pa.table(
        {
            "group_id": flat(windows.column("group_id")).take(place),
            "delivery_state": state,
            "delivery_count": count,
            "offsets": np.concatenate([length, stateless[some]]),
            "window": place,
            "as_of": flat(windows.column("record_timestamp")).take(place),
        }
    )
    keys = ["group_id", "delivery_state", "delivery_count"]
    summed = each.group_by(keys).aggregate(
        [("offsets", "sum"), ("window", "count_distinct"), ("as_of", "max")]
    )
    at = pa.repeat(pa.scalar(as_of, schemas.TIMESTAMP), len(summed))
    columns = {name: summed.column(name) for name in keys} | {
        "offsets": summed.column("offsets_sum"),
        "share_partitions": summed.column("window_count_distinct"),
        "as_of": summed.column("as_of_max") if as_of is None else at,
    }
    return rows.conform(columns, DELIVERY_COUNTS).sort_by(ascending(*keys))


def delivery_count_figure(
    records: pa.Table, theme: Theme = "light", limit: int | None = None
) -> Figure:
    """Draw one bar per delivery count, its parts by state; all groups of the records together.

    Parameters
    ----------
    records : pyarrow.Table
        `DELIVERY_COUNTS`.
    theme : {"light", "dark"}
    limit : int, optional
        ``share.delivery.count.limit`` of the groups, if it is known and the same for all.
    """
    has_state = records.column("delivery_state").is_valid()
    known = records.filter(has_state)
    stateless = pc.sum(records.filter(pc.invert(has_state)).column("offsets")).as_py() or 0
    story = Story(
        title=_title(known, limit),
        as_of=rows.latest(records),
        unit="Offsets in the windows, by how often they were delivered.",
        unknown=f"Not known: state and delivery count of {text.counted(stateless, 'offset')} in "
        "the windows, which are acquired or were never persisted; not drawn." * bool(stateless),
        facts=() if limit is not None else (f"{LIMIT} is not known, so no mark shows it.",),
    )
    if not len(known):
        return empty("No offset in these windows has a persisted state", story, theme)
    keys = ["delivery_state", "delivery_count"]
    summed = known.group_by(keys).aggregate([("offsets", "sum"), ("share_partitions", "sum")])
    summed = summed.sort_by(ascending(*keys))
    # Side by side where a count has several states, so that a bar is never far from its count.
    places: dict[int, list[int]] = {}
    by_state: dict[int, list[dict[str, Any]]] = {}
    for one in summed.to_pylist():
        places.setdefault(one["delivery_count"], []).append(one["delivery_state"])
        by_state.setdefault(one["delivery_state"], []).append(one)
    bars = []
    for state, mine in by_state.items():
        kind = state_kind(state)
        beside = [places[one["delivery_count"]] for one in mine]
        bars.append(
            bar(
                kind,
                theme,
                (
                    (
                        (
                            f"{text.counted(one['offsets_sum'], 'offset')} {kind.words.lower()}: "
                            f"{kind.means}"
                        ),
                        f"delivery count {one['delivery_count']}",
                        f"in {text.counted(one['share_partitions_sum'], 'share partition')}",
                    )
                    for one in mine
                ),
                x=[one["delivery_count"] for one in mine],
                y=[one["offsets_sum"] for one in mine],
                width=[0.8 / len(states) for states in beside],
                offset=[0.8 * states.index(state) / len(states) - 0.4 for states in beside],
            )
        )
    last = max([*places, limit or 1])
    least, most = (
        pc.min_max(summed.column("offsets_sum"))[name].as_py() for name in ("min", "max")
    )
    up: dict[str, Any] = {"title": {"text": "offsets"}, "type": "log", "dtick": 1}
    across = {"dtick": max(1, last // 12), "range": [-0.6, last + 0.6]}
    return figure(
        bars,
        story,
        theme,
        barmode="overlay",
        xaxis={"title": {"text": "delivery count"}} | across,
        yaxis=up if most > 50 * least else axis("offsets"),
        **({} if limit is None else _limit_mark(limit, theme)),
    )


def _limit_mark(limit: int, theme: Theme) -> dict[str, Any]:
    look = {"color": PAPER[theme]["ink"], "width": 2, "dash": "dash"}
    at = limit + 0.5
    mark = {"type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "paper", "line": look}
    place = {"x": at, "y": 1, "yref": "paper", "xanchor": "right", "xshift": -6, "yanchor": "top"}
    return {
        "shapes": [mark],
        "annotations": [place | {"showarrow": False, "text": f"limit {limit}"}],
    }


def _title(known: pa.Table, limit: int | None) -> str:
    if not len(known):
        return "No offset in these windows has a persisted delivery count"
    groups = rows.groups_of(known)
    available = pc.equal(known.column("delivery_state"), int(DeliveryState.AVAILABLE))
    waiting = known.filter(pc.and_(available, pc.not_equal(known.column("delivery_count"), 0)))
    if not len(waiting):
        return f"{groups}: no offset waits for another delivery"
    highest = pc.max(waiting.column("delivery_count")).as_py()
    worst = waiting.filter(pc.equal(waiting.column("delivery_count"), highest))
    count, total = (
        text.counted(pc.sum(some.column("offsets")).as_py(), "offset") for some in (worst, waiting)
    )
    left = ""
    if limit is not None:
        below = text.counted(max(limit - highest, 0), "delivery", "deliveries")
        left = f", {below} below the limit"
    return (
        f"{groups}: {total} given back and waiting; the highest delivery count is {highest} "
        f"({count}){left}"
    )
