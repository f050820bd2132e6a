"""Width of windows over time: a cell a share partition and stretch of time, from the history."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.columns import bools, numbers
from sharelag.model import milliseconds
from sharelag.schemas import SHARE_PARTITION, Arrow
from sharelag.schemas.arrow import as_table
from sharelag.workbench.charts import rows, text
from sharelag.workbench.charts.layout import (
    COLOUR_BAR,
    Story,
    colour_bar,
    empty,
    figure,
    plotly,
    row_axis,
    rows_height,
    unknown_bars,
)
from sharelag.workbench.charts.palette import Theme, ladder

#: What can be drawn, in words.
MEASURES = {
    "span": "window span: offsets from the effective start offset to the window's end",
    "available": "available offsets: given back, waiting for another delivery",
    "complete": "complete offsets: finished, but not yet passed by the start offset",
    "deliveries": "highest delivery count of the offsets that are not finished",
}
_LARGEST = {
    "span": "had the widest window, {} offsets",
    "available": "had the most available offsets, {}",
    "complete": "had the most complete offsets in its window, {}",
    "deliveries": "had the highest delivery count, {}",
}
#: One share partition at the end of one stretch of time.
WINDOW_HEAT = pa.schema(
    [
        *schemas.NAMED_SHARE_PARTITION,
        ("begin", schemas.TIMESTAMP),  # of the stretch
        ("as_of", schemas.TIMESTAMP),  # its end
        ("measure", pa.string()),  # one of MEASURES
        ("value", pa.int64()),  # null: no state was known then
    ]
)


def window_heat_records(
    history: Arrow,
    measure: str = "span",
    stretches: int = 120,
    as_of: datetime | None = None,
    begin: datetime | None = None,
) -> pa.Table:
    """A measure of each window at the end of each of equal stretches of time.

    Parameters
    ----------
    history : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.HISTORY`, sorted by share partition and record; ``topic`` beside, if
        known.
    measure : {"span", "available", "complete", "deliveries"}
    stretches : int
        In how many the time from the first record on is cut.
    as_of : datetime, optional
        Until when: nothing was written since the last record, so that it is as that left it.
        Without it, until then.
    begin : datetime, optional
        From when on; without it, from the first record.

    Returns
    -------
    pyarrow.Table
        `WINDOW_HEAT`, all stretches of a share partition together. Null before its first record,
        after a tombstone, and where the state is partial.

    Raises
    ------
    InputError
        There is no such measure.
    """
    if measure not in MEASURES:
        raise InputError(f"unknown measure {measure!r}: choose one of {', '.join(MEASURES)}")
    schemas.require(history, schemas.HISTORY, "history")
    if not history.num_rows:
        return WINDOW_HEAT.empty_table()
    time, _ = numbers(history, "record_timestamp")
    first_time = time.min() if begin is None else milliseconds(begin)
    last_time = time.max() if as_of is None else max(time.max(), milliseconds(as_of))
    edges = np.linspace(first_time, max(last_time, first_time + stretches), stretches + 1).astype(
        np.int64
    )
    code = rows.codes(history).indices.to_numpy().astype(np.int64)
    found, there = _last_rows(code, time, edges[1:])
    first = np.unique(code, return_index=True)[1]
    value = np.where(there, _values(history, measure)[found], np.nan)
    size = len(first)
    table = as_table(history)
    topic = (
        table.column("topic")
        if "topic" in table.column_names
        else pa.nulls(len(table), pa.string())
    )
    which = pa.array(np.repeat(first, stretches))
    columns = {name: table.column(name).take(which) for name in SHARE_PARTITION} | {
        "topic": topic.take(which),
        "begin": pa.array(np.tile(edges[:-1], size)).view(schemas.TIMESTAMP),
        "as_of": pa.array(np.tile(edges[1:], size)).view(schemas.TIMESTAMP),
        "measure": pa.repeat(measure, size * stretches),
        "value": pa.array(value, from_pandas=True),
    }
    return rows.conformed(columns, WINDOW_HEAT)


def window_heat_figure(records: pa.Table, theme: Theme = "light", most: int = 40) -> Any:
    """A row a share partition, time from left to right, darker (on dark paper: lighter) for more.

    Parameters
    ----------
    records : pyarrow.Table
        `WINDOW_HEAT`.
    theme : {"light", "dark"}
    most : int
        Share partitions to draw: those with the largest value at any time.
    """
    as_of = rows.latest(records)
    if not len(records):
        return empty(
            "The history is empty: choose another time, or other groups",
            Story("No window", as_of, ""),
            theme,
        )
    measure = records.column("measure")[0].as_py()
    chosen, others = rows.largest(records, "value", most)
    names, whole = rows.labels(chosen), rows.labels(chosen, None)
    grid = rows.floats(chosen, "value").reshape(len(names), -1)
    begins, ends = (rows.floats(chosen, name)[: grid.shape[1]] for name in ("begin", "as_of"))
    shown = [text.moment(at) for at in chosen.column("as_of").slice(0, grid.shape[1]).to_pylist()]
    hovers = [
        [
            text.hover(label, at, f"{text.number(value)} {MEASURES[measure]}")
            for at, value in zip(shown, line, strict=True)
        ]
        for label, line in zip(whole, grid.tolist(), strict=True)
    ]
    heat = plotly().Heatmap(
        x=[_text(at) for at in (begins + ends) / 2],
        y=list(range(len(names))),
        z=[rows.optional(line) for line in grid.tolist()],
        text=hovers,
        hoverinfo="text",
        colorscale=ladder(theme),
        zmin=0,
        zmax=max(float(np.nanmax(grid, initial=0)), 1),
        ygap=2,
        colorbar=colour_bar(measure),
    )
    base, length, row = _stretches_unknown(grid, begins, ends)
    gaps = unknown_bars([_text(at) for at in base], length, row, "no state known", theme)
    story = Story(
        title=_title(records, measure),
        as_of=as_of,
        unit=f"{MEASURES[measure].capitalize()}, at the end of stretches of "
        f"{text.span(float(ends[0] - begins[0]))}.",
        unknown="Not known: the hatched stretches (no record yet, state deleted, or records "
        "missing)."
        if len(base)
        else "",
        facts=rows.left_out(others, "share partition", f"with less {measure}"),
    )
    return figure(
        [heat, gaps] if len(base) else [heat],
        story,
        theme,
        rows_height(len(names), COLOUR_BAR),
        legend=bool(len(base)),
        xaxis={"title": {"text": "time (UTC)"}, "type": "date", "showgrid": False},
        yaxis=row_axis(names),
        barmode="overlay",
    )


def _last_rows(
    code: NDArray[np.int64], time: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The last row of each share partition until each end, and whether there is one."""
    order = np.argsort(code, kind="stable")
    begins = np.flatnonzero(np.diff(code[order], prepend=-1))
    width = int(max(time.max(), ends.max()) - time.min()) + 2
    # Clocks of brokers may differ: a record counts from when all before it do.
    sorted_by = np.maximum.accumulate(code[order] * width + (time[order] - time.min()))
    requested = (np.arange(len(begins))[:, None] * width + (ends - time.min())[None, :]).ravel()
    found = np.searchsorted(sorted_by, requested, side="right") - 1
    there = found >= np.repeat(begins, len(ends))
    return order[np.maximum(found, 0)], there


def _values(history: Arrow, measure: str) -> NDArray[np.float64]:
    names = {
        "available": "window_available",
        "complete": "window_complete",
        "deliveries": "max_delivery_count",
    }
    if measure == "span":
        start, end = (
            rows.floats(history, name) for name in ("effective_start_offset", "window_end_offset")
        )
        value = np.where(np.isnan(start), np.nan, np.maximum(np.nan_to_num(end) - start, 0))
    else:
        value = rows.floats(history, names[measure])
    kind = as_table(history).column("record_kind")
    gone = pc.equal(kind, "tombstone").to_numpy()
    return np.asarray(np.where(bools(history, "from_snapshot") & ~gone, value, np.nan), float)


def _stretches_unknown(
    grid: NDArray[np.float64], begins: NDArray[np.float64], ends: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Begin, length and rows of the stretches that are not known, neighbours joined."""
    edge = np.diff(np.pad(np.isnan(grid).astype(np.int8), ((0, 0), (1, 1))), axis=1)
    row, first = np.nonzero(edge == 1)
    last = np.nonzero(edge == -1)[1] - 1
    return begins[first], ends[last] - begins[first], row


def _text(milliseconds: float) -> str:
    return str(np.datetime64(int(milliseconds), "ms")).replace("T", " ")


def _title(records: pa.Table, measure: str) -> str:
    groups = rows.groups_of(records)
    known = records.filter(records.column("value").is_valid())
    if not len(known):
        return f"{groups}: no state is known at any of these moments"
    peak = known.slice(int(np.argmax(known.column("value").to_numpy())), 1).to_pylist()[0]
    if peak["value"] == 0:
        return f"{groups}: {measure} was 0 in every window at all of these moments"
    place = text.share_partition(peak, True)
    largest = _LARGEST[measure].format(text.number(peak["value"]))
    return f"{place} {largest}, at {text.moment(peak['as_of'])}"
