"""Width of each window against its limit, where delivery stops until the head moves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.model.settings import each_in_force
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import flat
from sharelag.tables.words import NOT_KNOWN
from sharelag.workbench.charts import rows, text
from sharelag.workbench.charts.layout import (
    Story,
    empty,
    figure,
    note,
    plotly,
    row_axis,
    rows_height,
)
from sharelag.workbench.charts.palette import KINDS, WARN, Theme, marker

LIMIT = "share.partition.max.record.locks"
#: The window of one share partition.
WINDOW_SPANS = pa.schema(
    [
        *schemas.NAMED_SHARE_PARTITION,
        ("head_offset", pa.int64()),  # the effective start offset
        ("span", pa.int64()),  # from it to the window's end, in offsets; null: not known
        ("limit", pa.int64()),  # share.partition.max.record.locks; null: not known
        ("limit_from", pa.string()),  # group, broker, default, or assumed
        ("unread", pa.int64()),  # what waits behind the window
        ("as_of", schemas.TIMESTAMP),
    ]
)


def window_span_records(lag: Arrow, settings: pa.Table) -> pa.Table:
    """Each window's span beside its limit.

    Parameters
    ----------
    lag : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.LAG`.
    settings : pyarrow.Table
        `sharelag.schemas.SETTINGS`; empty where not known.

    Returns
    -------
    pyarrow.Table
        `WINDOW_SPANS`, a row a row of the lag table, in its order.
    """
    schemas.require(lag, schemas.LAG, "lag")
    schemas.require(settings, schemas.SETTINGS, "settings")
    head, end = rows.floats(lag, "effective_start_offset"), rows.floats(lag, "window_end_offset")
    # A window without batches ends where it began, or earlier when the log start has moved on.
    span = np.where(np.isnan(head), np.nan, np.maximum(np.nan_to_num(end) - head, 0))
    groups = flat(lag.column("group_id")).dictionary_encode()
    names = groups.dictionary.to_pylist()
    each = each_in_force(settings, names)
    limits = [each[name][LIMIT] for name in names]
    values = pa.array(
        [value.value if isinstance(value.value, int) else None for value in limits], pa.int64()
    )
    columns = rows.names_of(lag) | {
        "head_offset": lag.column("effective_start_offset"),
        "span": pa.array(span, from_pandas=True),
        "limit": values.take(groups.indices),
        "limit_from": pa.array([value.source for value in limits], pa.string()).take(
            groups.indices
        ),
        "unread": lag.column("unread"),
        "as_of": lag.column("as_of"),
    }
    return rows.conformed(columns, WINDOW_SPANS)


def window_span_figure(records: pa.Table, theme: Theme = "light", most: int = 30) -> Any:
    """A bar a window, and a mark at its limit.

    Parameters
    ----------
    records : pyarrow.Table
        `WINDOW_SPANS`.
    theme : {"light", "dark"}
    most : int
        Windows to draw: the widest.
    """
    as_of = rows.latest(records)
    if not len(records):
        return empty(
            "There is no window: choose other groups or topics",
            Story("There is no window", as_of, ""),
            theme,
        )
    chosen, others = rows.largest(records, "span", most)
    names, whole = rows.labels(chosen), rows.labels(chosen, None)
    plain = chosen.to_pylist()
    hovers = [text.hover(whole[row["row"]], *_hover(row)) for row in plain]
    go, place = plotly(), chosen.column("row").to_numpy()
    shared = {"y": place, "hovertext": hovers, "hoverinfo": "text"}
    traces = [
        go.Bar(
            **shared,
            orientation="h",
            x=rows.optional(rows.floats(chosen, "span")),
            name="window span",
            marker=marker(KINDS["window"], theme),
        ),
        go.Scatter(
            **shared,
            x=rows.optional(rows.floats(chosen, "limit")),
            mode="markers",
            name=LIMIT,
            marker={"symbol": "line-ns", "size": 18, "line": {"width": 3, "color": WARN[theme]}},
        ),
    ]
    notes = [note(0, row["row"], "? no start offset yet") for row in plain if row["span"] is None]
    assumed = pc.sum(pc.equal(records.column("limit_from"), "assumed")).as_py()
    story = Story(
        title=_title(records),
        as_of=as_of,
        unit="Window span in offsets: from the effective start offset to the window's end, as "
        "persisted.",
        unknown=_unknown(records),
        facts=rows.left_out(others, "window", "with fewer offsets")
        + (
            ("The limit is Kafka's default: the settings in force are not known.",)
            if assumed
            else ()
        ),
    )
    return figure(
        traces,
        story,
        theme,
        rows_height(len(names)),
        xaxis={"title": {"text": "offsets"}, "rangemode": "tozero"},
        yaxis=row_axis(names),
        annotations=notes,
    )


def _hover(row: dict[str, Any]) -> tuple[str, ...]:
    of = (
        NOT_KNOWN
        if row["limit"] is None or row["span"] is None
        else text.percent(row["span"], row["limit"])
    )
    limit = f"{LIMIT} {text.number(row['limit'])} ({row['limit_from']})"
    return (
        f"window span {text.number(row['span'])} offsets, {of} of {limit}",
        f"effective start offset {text.number(row['head_offset'])}",
        f"unread behind the window {text.number(row['unread'])}",
    )


def _title(records: pa.Table) -> str:
    share = rows.floats(records, "span") / rows.floats(records, "limit")
    if np.isnan(share).all():
        return f"{rows.groups_of(records)}: how full the windows are is not known"
    row = records.slice(int(np.nanargmax(share)), 1).to_pylist()[0]
    place = text.share_partition(row, True)
    if row["span"] >= row["limit"]:
        return (
            f"{place}: the window is full, {text.number(row['span'])} of "
            f"{text.number(row['limit'])} offsets; "
            f"{text.number(row['unread'])} unread wait for offset {row['head_offset']}"
        )
    return (
        f"No window is full; the fullest is {place} with {text.number(row['span'])} of "
        f"{text.counted(row['limit'], 'offset')} ({text.percent(row['span'], row['limit'])})"
    )


def _unknown(records: pa.Table) -> str:
    spans, limits = (records.column(name).null_count for name in ("span", "limit"))
    return text.not_known(
        f"the span of {text.counted(spans, 'window')}, marked with ?" if spans else "",
        f"the limit of {text.counted(limits, 'window')}, without a mark" if limits else "",
    )
