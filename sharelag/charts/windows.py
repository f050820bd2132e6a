"""Windows over time, and the delivery counts of their offsets."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.charts import rows, text
from sharelag.charts.figure import (
    COLOUR_BAR,
    TIME_AXIS,
    Figure,
    Story,
    axis,
    bar,
    empty,
    figure,
    heat_map,
    row_figure,
)
from sharelag.charts.palette import KINDS, PAPER, Theme, state_kind
from sharelag.errors import InputError
from sharelag.metrics.columns import begins as is_first
from sharelag.metrics.columns import bools, numbers
from sharelag.metrics.lag import last_rows
from sharelag.model import DeliveryState, milliseconds
from sharelag.schemas import Arrow
from sharelag.tables.arrow import as_table, ascending, flat

# ---- a cell per share partition and span of time -------------------------------------------------

#: Measures in words, with their phrase for the largest value in a title.
MEASURES = {
    "span": (
        "window span: offsets from the effective start offset to the window's end",
        "had the widest window, {} offsets",
    ),
    "available": (
        "available offsets: given back, waiting for another delivery",
        "had the most available offsets, {}",
    ),
    "complete": (
        "complete offsets: finished, but not yet passed by the start offset",
        "had the most complete offsets in its window, {}",
    ),
    "deliveries": (
        "highest delivery count of the offsets that are not finished",
        "had the highest delivery count, {}",
    ),
}
_COLUMNS = {
    "available": "window_available",
    "complete": "window_complete",
    "deliveries": "max_delivery_count",
}
#: One share partition at the end of one span of time.
WINDOW_HEAT = pa.schema(
    [
        *schemas.NAMED_SHARE_PARTITION,
        ("begin", schemas.TIMESTAMP),  # of the span
        ("as_of", schemas.TIMESTAMP),  # its end
        ("measure", pa.string()),  # one of MEASURES
        ("value", pa.int64()),  # null: the state is unknown
    ]
)


def window_heat_records(
    history: Arrow,
    measure: str = "span",
    stretches: int = 120,
    as_of: datetime | None = None,
    begin: datetime | None = None,
) -> pa.Table:
    """Return a measure of each window at the end of equal spans of time, as `WINDOW_HEAT`.

    The history is sorted by share partition and record, with ``topic`` if known. The time from
    ``begin``, or else the first record, to ``as_of``, or else the last record, is divided into
    ``stretches``; the state stays as the last record left it. Rows are grouped by share partition;
    the value is null before its first record, after a tombstone, and where the state is partial.
    """
    if measure not in MEASURES:
        raise InputError(f"unknown measure {measure!r}: choose one of {', '.join(MEASURES)}")
    schemas.require(history, schemas.HISTORY, "history")
    # The coordinator of a former state partition only rewrites its snapshots.
    code = rows.codes(history).indices.to_numpy()
    several = np.bincount(code[is_first(history)])[code] > 1
    kept = ~(several & bools(history, "rewritten"))
    time, _ = numbers(history, "record_timestamp")
    history = as_table(history).filter(pa.array(kept))
    if not history.num_rows:
        return WINDOW_HEAT.empty_table()
    first_time = time.min() if begin is None else milliseconds(begin)
    last_time = time.max() if as_of is None else max(time.max(), milliseconds(as_of))
    last_time = max(last_time, first_time + stretches)
    edges = np.linspace(first_time, last_time, stretches + 1).astype(np.int64)
    code = rows.codes(history).indices.to_numpy().astype(np.int64)
    found, at = last_rows(history, edges[1:])
    value = rows.spans(history) if measure == "span" else rows.floats(history, _COLUMNS[measure])
    gone = pc.equal(as_table(history).column("record_kind"), "tombstone").to_numpy()
    value = np.where(bools(history, "from_snapshot") & ~gone, value, np.nan)
    first = np.unique(code, return_index=True)[1]
    # Of several states of a share partition, the one that changed last counts.
    order = np.argsort(time[kept][found], kind="stable")
    cells = np.full(len(first) * stretches, np.nan)
    cells[(code[found] * stretches + at)[order]] = value[found[order]]
    which = pa.array(np.repeat(first, stretches))
    columns = {name: column.take(which) for name, column in rows.names_of(history).items()} | {
        "begin": pa.array(np.tile(edges[:-1], len(first))).view(schemas.TIMESTAMP),
        "as_of": pa.array(np.tile(edges[1:], len(first))).view(schemas.TIMESTAMP),
        "measure": pa.repeat(measure, len(which)),
        "value": pa.array(cells, from_pandas=True),
    }
    return rows.conform(columns, WINDOW_HEAT)


def window_heat_figure(records: pa.Table, theme: Theme = "light", most: int = 40) -> Figure:
    """Draw one row per share partition over time, darker (lighter in dark theme) for more.

    Parameters
    ----------
    records : pyarrow.Table
        `WINDOW_HEAT`.
    theme : {"light", "dark"}
    most : int
        Maximum number of share partitions: those with the largest value at any time.
    """
    as_of = rows.latest(records)
    if not len(records):
        why = "The history is empty: choose another time, or other groups"
        return empty(why, Story("No window", as_of, ""), theme)
    measure = records.column("measure")[0].as_py()
    meaning, largest = MEASURES[measure]
    chosen, others = rows.largest(records, "value", most)
    names, whole = rows.labels(chosen), rows.labels(chosen, None)
    grid = rows.floats(chosen, "value").reshape(len(names), -1)
    begins, ends = (rows.floats(chosen, name)[: grid.shape[1]] for name in ("begin", "as_of"))
    shown = [text.moment(at) for at in chosen.column("as_of").slice(0, grid.shape[1]).to_pylist()]
    lines = [
        [
            text.hover(label, at, f"{text.number(value)} {meaning}")
            for at, value in zip(shown, values, strict=True)
        ]
        for label, values in zip(whole, grid.tolist(), strict=True)
    ]
    cells = [rows.optional(values) for values in grid.tolist()]
    heat = heat_map(
        cells, theme, measure, x=rows.axis_times((begins + ends) / 2), text=lines, ygap=2
    )
    # Merge adjacent unknown cells.
    edge = np.diff(np.pad(np.isnan(grid).astype(np.int8), ((0, 0), (1, 1))), axis=1)
    row, first = np.nonzero(edge == 1)
    last = np.nonzero(edge == -1)[1] - 1
    dark, words = rows.axis_times(begins[first]), "no state known"
    gaps = bar(
        KINDS["unknown"],
        theme,
        [[words]] * len(dark),
        name=words,
        orientation="h",
        base=dark,
        x=(ends[last] - begins[first]).tolist(),
        y=row.tolist(),
        width=1,
    )
    story = Story(
        title=_heat_title(records, measure, largest),
        as_of=as_of,
        unit=f"{meaning.capitalize()}, at the end of stretches of "
        f"{text.span(float(ends[0] - begins[0]))}.",
        unknown="Not known: the hatched stretches (no record yet, state deleted, or records "
        "missing)." * bool(dark),
        facts=rows.left_out(others, "share partition", f"with less {measure}"),
    )
    return row_figure(
        [heat, gaps] if dark else [heat],
        story,
        theme,
        names,
        TIME_AXIS | {"showgrid": False},
        least=COLOUR_BAR,
        legend=bool(dark),
        barmode="overlay",
    )


def _heat_title(records: pa.Table, measure: str, largest: str) -> str:
    groups = rows.groups_of(records)
    known = records.filter(records.column("value").is_valid())
    if not len(known):
        return f"{groups}: no state is known at any of these moments"
    (peak,) = known.slice(int(np.argmax(known.column("value").to_numpy())), 1).to_pylist()
    if peak["value"] == 0:
        return f"{groups}: {measure} was 0 in every window at all of these moments"
    place = text.share_partition(peak, True)
    return f"{place} {largest.format(text.number(peak['value']))}, at {text.moment(peak['as_of'])}"


# ---- delivery counts -----------------------------------------------------------------------------

LIMIT = "share.delivery.count.limit"
#: Offsets in the windows of one group with the same state and delivery count.
DELIVERY_COUNTS = pa.schema(
    [
        ("group_id", pa.string()),
        ("delivery_state", pa.int8()),  # null: neither state nor count is persisted
        ("delivery_count", pa.int16()),
        ("offsets", pa.int64()),
        ("share_partitions", pa.int64()),  # with at least one of them
        # of the windows, or of the group's last record; null: unknown
        ("as_of", schemas.TIMESTAMP),
    ]
)


def delivery_count_records(windows: Arrow, as_of: datetime | None = None) -> pa.Table:
    """Count offsets by state and delivery count, as `DELIVERY_COUNTS`.

    Rows are sorted by group, state and count; offsets without a persisted state come last in a
    group. ``as_of`` is the moment of the windows, by default that of the group's last record.
    """
    schemas.require(windows, schemas.WINDOWS, "windows")
    table = as_table(windows)
    lists = flat(table.column("runs"))
    runs, window = pc.list_flatten(lists), pc.list_parent_indices(lists).to_numpy()
    first, last, state, count = (pc.struct_field(runs, n) for n in range(4))
    length = pc.add(pc.subtract(last, first), 1).to_numpy()
    # Offsets between runs have no persisted state.
    holes = np.nan_to_num(rows.spans(table)) - np.bincount(window, length, len(table))
    without = np.flatnonzero(holes > 0)
    place, stateless = pa.array(np.append(window, without)), pa.nulls(len(without), pa.int8())
    each = pa.table(
        {
            "group_id": flat(table.column("group_id")).dictionary_encode().take(place),
            "delivery_state": pa.concat_arrays([state.cast(pa.int8()), stateless]),
            "delivery_count": pa.concat_arrays([count, stateless.cast(count.type)]),
            "offsets": np.append(length, holes[without].astype(np.int64)),
            "window": place,
            "as_of": table.column("record_timestamp").take(place),
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
    """Draw one bar per delivery count, with parts by state, over all groups of the records.

    Parameters
    ----------
    records : pyarrow.Table
        `DELIVERY_COUNTS`.
    theme : {"light", "dark"}
    limit : int, optional
        ``share.delivery.count.limit``, if it is known and equal in all groups.
    """
    has_state = records.column("delivery_state").is_valid()
    known = records.filter(has_state)
    stateless = pc.sum(records.filter(pc.invert(has_state)).column("offsets")).as_py() or 0
    story = Story(
        title=_delivery_title(known, limit),
        as_of=rows.latest(records),
        unit="Offsets in the windows, by how often they were delivered.",
        unknown=f"Not known: state and delivery count of {text.pluralize(stateless, 'offset')} in "
        "the windows, which are acquired or were never persisted; not drawn." * bool(stateless),
        facts=() if limit is not None else (f"{LIMIT} is not known, so no mark shows it.",),
    )
    if not len(known):
        return empty("No offset in these windows has a persisted state", story, theme)
    keys = ["delivery_state", "delivery_count"]
    summed = known.group_by(keys).aggregate([("offsets", "sum"), ("share_partitions", "sum")])
    summed = summed.sort_by(ascending(*keys))
    # Several states of a count stand side by side, close to the count's label.
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
                            f"{text.pluralize(one['offsets_sum'], 'offset')} {kind.words.lower()}: "
                            f"{kind.means}"
                        ),
                        f"delivery count {one['delivery_count']}",
                        f"in {text.pluralize(one['share_partitions_sum'], 'share partition')}",
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
    least, most = (pc.min_max(summed.column("offsets_sum"))[one].as_py() for one in ("min", "max"))
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


def _delivery_title(known: pa.Table, limit: int | None) -> str:
    if not len(known):
        return "No offset in these windows has a persisted delivery count"
    groups = rows.groups_of(known)
    available = pc.equal(known.column("delivery_state"), int(DeliveryState.AVAILABLE))
    waiting = known.filter(pc.and_(available, pc.not_equal(known.column("delivery_count"), 0)))
    if not len(waiting):
        return f"{groups}: no offset waits for another delivery"
    highest = pc.max(waiting.column("delivery_count")).as_py()
    worst = waiting.filter(pc.equal(waiting.column("delivery_count"), highest))
    sums = (pc.sum(some.column("offsets")).as_py() for some in (worst, waiting))
    count, total = (text.pluralize(one, "offset") for one in sums)
    left = ""
    if limit is not None:
        below = text.pluralize(max(limit - highest, 0), "delivery", "deliveries")
        left = f", {below} below the limit"
    return (
        f"{groups}: {total} given back and waiting; the highest delivery count is {highest} "
        f"({count}){left}"
    )
