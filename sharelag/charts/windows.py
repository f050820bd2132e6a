"""Windows over time, the states of a window's offsets, and their delivery counts."""

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
from sharelag.charts.palette import KINDS, LAST, PAPER, Kind, Theme, marker, state_kind
from sharelag.errors import InputError
from sharelag.metrics.columns import begins as is_first
from sharelag.metrics.columns import bools, numbers
from sharelag.metrics.lag import last_rows
from sharelag.model import DeliveryState, milliseconds
from sharelag.schemas import Arrow
from sharelag.tables.arrow import as_table, ascending, flat, table_of

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
        "measure": measure,
        "value": pa.array(cells, from_pandas=True),
    }
    return table_of(columns, WINDOW_HEAT)


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


# ---- the offsets of one window -------------------------------------------------------------------

#: A run of a window's offsets with the same state from one moment to the next.
WINDOW_STATES = pa.schema(
    [
        *schemas.NAMED_SHARE_PARTITION,
        ("as_of", schemas.TIMESTAMP),
        # the next moment; the last one lasts as long as the one before
        ("until", schemas.TIMESTAMP),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),  # inclusive
        ("delivery_state", pa.int8()),  # null: no persisted state
        ("delivery_count", pa.int16()),
    ]
)


def window_state_records(windows: Arrow, moments: pa.Array | None = None) -> pa.Table:
    """Return the runs of windows and the gaps between them, as `WINDOW_STATES`.

    ``windows`` has several moments, with ``topic`` if known; ``moments`` has the moment of each
    row, by default the time of its last record. The result is sorted by share partition, moment and
    offset; a window without offsets has no row.
    """
    schemas.require(windows, schemas.WINDOWS, "windows")
    table = as_table(windows)
    at = flat(table.column("record_timestamp")) if moments is None else moments
    table = table.append_column("moment", at.cast(schemas.TIMESTAMP))
    code = rows.codes(table).indices.to_numpy()
    time, _ = numbers(table, "moment")
    order = np.lexsort((time, code))
    table, code, time = table.take(pa.array(order)), code[order], time[order]
    # The last moment of a share partition lasts as long as the one before.
    is_last = np.append(np.diff(code) != 0, True)
    lasted = np.where(np.roll(is_last, 1), 1000, time - np.roll(time, 1))
    until = np.where(is_last, time + np.maximum(lasted, 1), np.append(time[1:], 0))
    pieces = _pieces(table)
    order = np.lexsort((pieces[1], pieces[0]))
    window, first, last, state, count = (values[order] for values in pieces)
    wide = table.take(pa.array(window))
    columns = rows.names_of(wide) | {
        "as_of": wide.column("moment"),
        "until": pa.array(until[window]).view(schemas.TIMESTAMP),
        "first_offset": pa.array(first),
        "last_offset": pa.array(last),
        "delivery_state": pa.array(state, from_pandas=True),
        "delivery_count": pa.array(count, from_pandas=True),
    }
    return table_of(columns, WINDOW_STATES)


def window_state_figure(
    records: pa.Table, theme: Theme = "light", limit: int | None = None
) -> Figure:
    """Draw one box per run: its offsets upwards, its time across.

    Parameters
    ----------
    records : pyarrow.Table
        `WINDOW_STATES` of one share partition.
    theme : {"light", "dark"}
    limit : int, optional
        ``share.delivery.count.limit`` of the group, to mark offsets whose next delivery is the
        last.

    Raises
    ------
    InputError
        The records have several share partitions.
    """
    partitions = len(rows.codes(records).dictionary)
    if partitions > 1:
        raise InputError(
            f"only one window can be drawn, and these records belong to {partitions}: "
            "filter them by partition"
        )
    as_of = rows.latest(records)
    unit = (
        "Offsets of the window from the effective start offset to the window's end, "
        "as persisted at each moment."
    )
    if not len(records):
        why = "The window is empty at all of these moments"
        return empty(why, Story("The window is empty", as_of, unit), theme)
    states = pc.unique(records.column("delivery_state")).to_pylist()
    kinds: list[tuple[pa.Table, Kind]] = []
    for state in sorted(states, key=lambda one: (one is None, one)):
        mine = _of_state(records, state)
        kind = KINDS["unknown"] if state is None else state_kind(state)
        if limit is not None and kind is KINDS["available"]:
            last = pc.greater_equal(mine.column("delivery_count"), limit - 1)
            kinds += [(mine.filter(pc.invert(last)), kind), (mine.filter(last), LAST)]
        else:
            kinds.append((mine, kind))
    label = text.share_partition(records.slice(0, 1).to_pylist()[0], True, None)
    ends = records.filter(pc.equal(records.column("as_of"), pa.scalar(as_of, schemas.TIMESTAMP)))
    stateless = _of_state(ends, None)
    length = pc.subtract(stateless.column("last_offset"), stateless.column("first_offset"))
    count = (pc.sum(length).as_py() or 0) + len(stateless)
    story = Story(
        title=_state_title(records, ends),
        as_of=as_of,
        unit=unit,
        unknown=f"Not known: the state of {text.pluralize(count, 'offset')} at the last moment, "
        "hatched." * bool(count),
    )
    return figure(
        [_boxes(mine, kind, label, theme) for mine, kind in kinds if len(mine)],
        story,
        theme,
        380,
        barmode="overlay",
        xaxis=TIME_AXIS,
        yaxis={"title": {"text": "offset"}, "tickformat": ",d"},
        plot_bgcolor=PAPER[theme]["paper"],
    )


def _pieces(table: pa.Table) -> tuple[Any, ...]:
    """Return runs, then the gaps between them: window, offsets, state, delivery count."""
    lists = flat(table.column("runs"))
    counts = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    window = np.repeat(np.arange(len(counts)), counts)
    runs = pc.list_flatten(lists)
    first, last, state, count = (
        pc.struct_field(runs, n).to_numpy(zero_copy_only=False).astype(float if n > 1 else np.int64)
        for n in range(4)
    )
    start, end = (
        rows.floats(table, name) for name in ("effective_start_offset", "window_end_offset")
    )
    has_window = np.flatnonzero(np.nan_to_num(end) > start)
    # Gaps: from the end of a run to the beginning of the next, and after the last one.
    places = np.concatenate([window, has_window])
    begins = np.concatenate([first, end[has_window].astype(np.int64)])
    finishes = np.concatenate([last + 1, end[has_window].astype(np.int64)])
    order = np.lexsort((begins, places))
    places, begins, finishes = places[order], begins[order], finishes[order]
    is_first = np.diff(places, prepend=-1) != 0
    before = np.where(is_first, np.nan_to_num(start[places]).astype(np.int64), np.roll(finishes, 1))
    hole = before < begins
    unknown = np.full(int(hole.sum()), np.nan)
    return tuple(
        np.concatenate(pair)
        for pair in (
            (window, places[hole]),
            (first, before[hole]),
            (last, begins[hole] - 1),
            (state, unknown),
            (count, unknown),
        )
    )


def _of_state(records: pa.Table, state: int | None) -> pa.Table:
    column = records.column("delivery_state")
    return records.filter(pc.is_null(column) if state is None else pc.equal(column, state))


def _boxes(mine: pa.Table, kind: Kind, label: str, theme: Theme) -> Any:
    begin, until = (rows.floats(mine, name) for name in ("as_of", "until"))
    first, last = (rows.floats(mine, name) for name in ("first_offset", "last_offset"))
    look = marker(kind, theme)
    look["line"] |= {"width": 0.4}
    lines = (
        (
            label,
            (
                f"offsets {one['first_offset']} to {one['last_offset']}: {kind.words.lower()}, "
                f"{kind.means}"
            ),
            "" if one["delivery_count"] is None else f"delivery count {one['delivery_count']}",
            text.moment(one["as_of"]),
        )
        for one in mine.to_pylist()
    )
    middle = rows.axis_times((begin + until) / 2)
    place = {"x": middle, "y": last - first + 1, "base": first - 0.5, "width": until - begin}
    return bar(kind, theme, lines, marker=look, **place)


def _state_title(records: pa.Table, ends: pa.Table) -> str:
    (head,) = ends.sort_by("first_offset").slice(0, 1).to_pylist()
    low = head["first_offset"]
    same = records.filter(pc.equal(records.column("first_offset"), low))
    since = text.moment(pc.min(same.column("as_of")).as_py())
    state = head["delivery_state"]
    words = "no state persisted" if state is None else state_kind(state).words.lower()
    width = text.pluralize(pc.max(ends.column("last_offset")).as_py() - low + 1, "offset")
    return (
        f"{text.share_partition(head, True)}: the window spans {width}; its head, offset {low} "
        f"({words}), was seen there since {since}"
    )


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
    window, first, last, state, count = _pieces(table)
    place = pa.array(window)
    each = pa.table(
        {
            "group_id": flat(table.column("group_id")).dictionary_encode().take(place),
            "delivery_state": pa.array(state, pa.int8(), from_pandas=True),
            "delivery_count": pa.array(count, pa.int16(), from_pandas=True),
            "offsets": last + 1 - first,
            "window": place,
            "as_of": table.column("record_timestamp").take(place),
        }
    )
    keys = ["group_id", "delivery_state", "delivery_count"]
    summed = each.group_by(keys).aggregate(
        [("offsets", "sum"), ("window", "count_distinct"), ("as_of", "max")]
    )
    columns = {name: summed.column(name) for name in keys} | {
        "offsets": summed.column("offsets_sum"),
        "share_partitions": summed.column("window_count_distinct"),
        "as_of": summed.column("as_of_max") if as_of is None else as_of,
    }
    return table_of(columns, DELIVERY_COUNTS).sort_by(ascending(*keys))


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
        yaxis=up if most > 50 * least else axis("offsets", most),
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
