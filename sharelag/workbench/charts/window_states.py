"""One window over time: offsets upwards, time from left to right, coloured by state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.columns import numbers
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import as_table, flat
from sharelag.workbench.charts import rows, text
from sharelag.workbench.charts.layout import Story, empty, figure, plotly
from sharelag.workbench.charts.palette import KINDS, LAST, PAPER, Kind, Theme, marker, state_kind

#: Some offsets of a window that were in the same state from one moment until the next.
WINDOW_STATES = pa.schema(
    [
        *schemas.NAMED_SHARE_PARTITION,
        ("as_of", schemas.TIMESTAMP),
        # the next moment; the last one lasts as long as the one before
        ("until", schemas.TIMESTAMP),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),  # inclusive
        ("delivery_state", pa.int8()),  # null: no state persisted
        ("delivery_count", pa.int16()),
    ]
)


def window_state_records(windows: Arrow, moments: pa.Array | None = None) -> pa.Table:
    """The runs of windows at several moments, with what lies between them.

    Parameters
    ----------
    windows : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.WINDOWS` of several moments below each other; ``topic`` beside, if known.
    moments : pyarrow.Array of timestamps, optional
        When each row was so; without it, when its last record was written.

    Returns
    -------
    pyarrow.Table
        `WINDOW_STATES`, sorted by share partition, moment and offset. A window without offsets has
        no row.
    """
    schemas.require(windows, schemas.WINDOWS, "windows")
    table = as_table(windows)
    at = flat(table.column("record_timestamp")) if moments is None else moments
    table = table.append_column("moment", at.cast(schemas.TIMESTAMP))
    if "topic" not in table.column_names:
        table = table.append_column("topic", pa.nulls(len(table), pa.string()))
    code = rows.codes(table).indices.to_numpy()
    time, _ = numbers(table, "moment")
    order = np.lexsort((time, code))
    table, code, time = table.take(pa.array(order)), code[order], time[order]
    window, first, last, state, count = _pieces(table)
    until = _until(code, time)
    wide = table.take(pa.array(window))
    columns = {
        name: wide.column(name) for name in ("group_id", "topic", "topic_id", "partition")
    } | {
        "as_of": wide.column("moment"),
        "until": pa.array(until[window]).view(schemas.TIMESTAMP),
        "first_offset": pa.array(first),
        "last_offset": pa.array(last),
        "delivery_state": pa.array(state, from_pandas=True),
        "delivery_count": pa.array(count, from_pandas=True),
    }
    return rows.conformed(columns, WINDOW_STATES)


def window_state_figure(records: pa.Table, theme: Theme = "light", limit: int | None = None) -> Any:
    """A box for every run, as high as its offsets and as long as it lasted.

    Parameters
    ----------
    records : pyarrow.Table
        `WINDOW_STATES` of one share partition.
    theme : {"light", "dark"}
    limit : int, optional
        ``share.delivery.count.limit`` of the group: offsets whose next delivery is the last are
        marked.

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
        return empty(
            "The window is empty at all of these moments",
            Story("The window is empty", as_of, unit),
            theme,
        )
    label = text.share_partition(records.slice(0, 1).to_pylist()[0], True, None)
    states = sorted(
        pc.unique(records.column("delivery_state")).to_pylist(), key=lambda one: (one is None, one)
    )
    kinds = [(_of_state(records, state), _kind(state)) for state in states]
    traces = [_boxes(mine, kind, label, theme) for mine, kind in _with_last(kinds, limit)]
    ends = records.filter(pc.equal(records.column("as_of"), pa.scalar(as_of, schemas.TIMESTAMP)))
    stateless = _of_state(ends, None)
    count = pc.sum(_length(stateless)).as_py() or 0
    story = Story(
        title=_title(records, ends, text.share_partition(ends.slice(0, 1).to_pylist()[0], True)),
        as_of=as_of,
        unit=unit,
        unknown=f"Not known: the state of {text.counted(count, 'offset')} at the last moment, "
        "hatched."
        if count
        else "",
    )
    return figure(
        traces,
        story,
        theme,
        380,
        barmode="overlay",
        xaxis={"title": {"text": "time (UTC)"}, "type": "date"},
        yaxis={"title": {"text": "offset"}, "tickformat": ",d"},
        plot_bgcolor=PAPER[theme]["paper"],
    )


def _pieces(table: pa.Table) -> tuple[Any, Any, Any, Any, Any]:
    """Runs of all windows and the stretches between: window, offsets, state, delivery count."""
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
    # What lies before each run, and after the last one: from where the one before ended to where
    # this one begins.
    places = np.concatenate([window, has_window])
    begins = np.concatenate([first, end[has_window].astype(np.int64)])
    finishes = np.concatenate([last + 1, end[has_window].astype(np.int64)])
    order = np.lexsort((begins, places))
    places, begins, finishes = places[order], begins[order], finishes[order]
    is_first = np.diff(places, prepend=-1) != 0
    before = np.where(is_first, np.nan_to_num(start[places]).astype(np.int64), np.roll(finishes, 1))
    hole = before < begins
    unknown = np.full(int(hole.sum()), np.nan)
    every = [
        np.concatenate(pair)
        for pair in (
            (window, places[hole]),
            (first, before[hole]),
            (last, begins[hole] - 1),
            (state, unknown),
            (count, unknown),
        )
    ]
    order = np.lexsort((every[1], every[0]))
    window, first, last, state, count = (values[order] for values in every)
    return window, first, last, state, count


def _until(code: Any, time: Any) -> Any:
    """The next moment of the same share partition; the last one lasts as long as that before."""
    later = np.append(time[1:], 0)
    is_last = np.append(np.diff(code) != 0, True)
    lasted = np.where(np.roll(is_last, 1), 1000, time - np.roll(time, 1))
    return np.where(is_last, time + np.maximum(lasted, 1), later)


def _of_state(records: pa.Table, state: int | None) -> pa.Table:
    column = records.column("delivery_state")
    return records.filter(pc.is_null(column) if state is None else pc.equal(column, state))


def _length(records: pa.Table) -> Any:
    return pc.add(pc.subtract(records.column("last_offset"), records.column("first_offset")), 1)


def _kind(state: int | None) -> Kind:
    return KINDS["unknown"] if state is None else state_kind(state)


def _with_last(
    kinds: list[tuple[pa.Table, Kind]], limit: int | None
) -> list[tuple[pa.Table, Kind]]:
    """Those that wait for their last delivery apart from the others that are available."""
    if limit is None:
        return kinds
    parted: list[tuple[pa.Table, Kind]] = []
    for mine, kind in kinds:
        if kind is not KINDS["available"]:
            parted.append((mine, kind))
            continue
        last = pc.greater_equal(mine.column("delivery_count"), limit - 1)
        parted += [(mine.filter(pc.invert(last)), kind), (mine.filter(last), LAST)]
    return [(mine, kind) for mine, kind in parted if len(mine)]


def _boxes(mine: pa.Table, kind: Kind, label: str, theme: Theme) -> Any:
    begin, until = (rows.floats(mine, name) for name in ("as_of", "until"))
    first, length = rows.floats(mine, "first_offset"), rows.floats(mine, "last_offset")
    length = length - first + 1
    look = marker(kind, theme)
    look["line"] = look["line"] | {"width": 0.4}
    plain = mine.to_pylist()
    return plotly().Bar(
        x=[str(at).replace("T", " ") for at in ((begin + until) / 2).astype("datetime64[ms]")],
        y=length,
        base=first - 0.5,
        width=until - begin,
        name=kind.words,
        marker=look,
        hovertext=[
            text.hover(
                label,
                f"offsets {one['first_offset']} to {one['last_offset']}: {kind.words.lower()}, "
                f"{kind.means}",
                "" if one["delivery_count"] is None else f"delivery count {one['delivery_count']}",
                text.moment(one["as_of"]),
            )
            for one in plain
        ],
        hoverinfo="text",
    )


def _title(records: pa.Table, ends: pa.Table, place: str) -> str:
    low, high = (
        pc.min(ends.column("first_offset")).as_py(),
        pc.max(ends.column("last_offset")).as_py(),
    )
    head = records.filter(pc.equal(records.column("first_offset"), low))
    since = pc.min(head.column("as_of")).as_py()
    kind = ends.sort_by("first_offset").column("delivery_state")[0].as_py()
    words = "no state persisted" if kind is None else state_kind(kind).words.lower()
    return (
        f"{place}: the window spans {text.counted(high - low + 1, 'offset')}; its head, offset "
        f"{low} "
        f"({words}), was seen there since {text.moment(since)}"
    )
