"""The distance from start offset to end offset, by what it is made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.metrics.lag import ROLLUP_KEYS, rollup_arrow
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import as_table
from sharelag.tables.reasons import REASONS
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
from sharelag.workbench.charts.palette import KINDS, Theme, marker

#: Part, the column of it, what it is drawn as; the order of a bar.
PARTS = (
    ("unread", "unread", "unread"),
    ("available", "window_available", "available"),
    ("unknown", "window_unknown", "unknown"),
    ("complete", "window_complete", "finished"),
)
#: One part of the distance of one share partition, topic or group.
DECOMPOSITION = pa.schema(
    [
        *schemas.NAMED_SHARE_PARTITION,  # what is summed up over is null
        ("part", pa.string()),  # one of PARTS; all but complete are lag
        ("offsets", pa.int64()),  # null: not known
        ("lag", pa.int64()),  # of all parts together, as Kafka counts it; null: not known
        ("lag_reason", pa.string()),  # why
        ("unknown_lags", pa.int64()),  # share partitions that are not in the sum
        ("as_of", schemas.TIMESTAMP),
    ]
)
_WORDS = {
    "unread": "Unread",
    "available": "Available",
    "unknown": "No state persisted",
    "complete": "Complete (no lag)",
}


def decomposition_records(lag: Arrow, by: str = "partition") -> pa.Table:
    """The parts of lag, a row each.

    Parameters
    ----------
    lag : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.LAG`.
    by : {"partition", "topic", "group"}

    Returns
    -------
    pyarrow.Table
        `DECOMPOSITION`, four rows a share partition, topic or group.
    """
    schemas.require(lag, schemas.LAG, "lag")
    if by == "partition":
        table = as_table(lag)
        unknown = pc.is_null(table.column("lag")).cast(pa.int64())
        table = table.append_column("unknown_lags", unknown)
    else:
        table = as_table(rollup_arrow(lag, by))
        missing = [name for name, _ in schemas.NAMED_SHARE_PARTITION if name not in ROLLUP_KEYS[by]]
        for name in [*missing, "lag_reason"]:
            if name not in table.column_names:
                table = table.append_column(name, pa.nulls(len(table)))
    place = np.repeat(np.arange(len(table)), len(PARTS))
    offsets = np.stack([rows.floats(table, column) for _, column, _ in PARTS], axis=1).ravel()
    wide = table.take(pa.array(place))
    columns = {
        name: wide.column(name) for name in DECOMPOSITION.names if name not in ("part", "offsets")
    } | {
        "part": pa.array([part for part, *_ in PARTS] * len(table), pa.string()),
        "offsets": pa.array(offsets, from_pandas=True),
    }
    return rows.conformed(columns, DECOMPOSITION)


def decomposition_figure(records: pa.Table, theme: Theme = "light", most: int = 30) -> Any:
    """A bar a share partition, topic or group, whose parts are stacked.

    Parameters
    ----------
    records : pyarrow.Table
        `DECOMPOSITION`.
    theme : {"light", "dark"}
    most : int
        Rows to draw: those with the most lag.
    """
    as_of = rows.latest(records)
    if not len(records):
        return empty(
            "There is no share partition: choose other groups or topics",
            Story("There is no lag", as_of, ""),
            theme,
        )
    chosen, others = rows.largest(records, "lag", most)
    names, whole = rows.labels(chosen), rows.labels(chosen, None)
    hovers = [
        [*_hover(one)]
        for one in chosen.filter(pc.equal(chosen.column("part"), "unread")).to_pylist()
    ]
    one_each = chosen.column("partition").null_count == 0
    traces = []
    for part, _, kind in PARTS:
        mine = chosen.filter(pc.equal(chosen.column("part"), part))
        row = mine.column("row").to_numpy()
        traces.append(
            plotly().Bar(
                orientation="h",
                x=rows.optional(rows.floats(mine, "offsets")),
                y=row,
                name=_WORDS[part],
                marker=marker(KINDS[kind], theme),
                hovertext=[
                    text.hover(
                        whole[n],
                        f"{part} {text.number(value)} offsets: {KINDS[kind].means}",
                        *hovers[n],
                    )
                    for n, value in zip(row, mine.column("offsets").to_pylist(), strict=True)
                ],
                hoverinfo="text",
                # Sums over share partitions have none.
                customdata=[rows.key(one) for one in mine.to_pylist()] if one_each else None,
            )
        )
    story = Story(
        title=_title(records),
        as_of=as_of,
        unit="Offsets between start offset and end offset; all but complete are lag.",
        unknown=_unknown(records),
        facts=rows.left_out(others, "bar", "with less lag"),
    )
    return figure(
        traces,
        story,
        theme,
        rows_height(len(names)),
        barmode="stack",
        xaxis={"title": {"text": "offsets"}, "rangemode": "tozero"},
        yaxis=row_axis(names),
        annotations=[note(0, n, f"? {why}") for n, why in _without_size(chosen)],
    )


def _hover(one: dict[str, Any]) -> tuple[str, ...]:
    lag = f"lag {text.number(one['lag'])} offsets"
    if one["lag_reason"]:
        lag += f": {REASONS.get(one['lag_reason'], one['lag_reason'])}"
    unknown = f"{text.counted(one['unknown_lags'], 'share partition')} of unknown lag left out"
    return (lag, unknown) if one["unknown_lags"] and one["partition"] is None else (lag,)


def _without_size(chosen: pa.Table) -> list[tuple[int, str]]:
    """Rows of which no part is known, and why."""
    found = chosen.filter(
        pc.and_(pc.equal(chosen.column("part"), "unread"), pc.is_null(chosen.column("offsets")))
    )
    return [
        (one["row"], REASONS.get(one["lag_reason"] or "", NOT_KNOWN)) for one in found.to_pylist()
    ]


def _title(records: pa.Table) -> str:
    groups = rows.groups_of(records)
    sums = {
        part: pc.sum(
            records.filter(pc.equal(records.column("part"), part)).column("offsets")
        ).as_py()
        for part, *_ in PARTS
    }
    if all(value is None for value in sums.values()):
        return f"What the lag of {groups} consists of is not known"
    behind = {part: sums[part] or 0 for part in ("unread", "available", "unknown")}
    total = sum(behind.values())
    if total == 0:
        return f"{groups}: nothing is unread, available or without a state"
    part = max(behind, key=lambda one: behind[one])
    words = {
        "unread": "unread: beyond the windows, never delivered",
        "available": "available: delivered before, waiting for another delivery",
        "unknown": "in the windows without a persisted state: acquired, or never persisted",
    }[part]
    return (
        f"{groups}: {text.counted(total, 'offset')} of lag, "
        f"{text.percent(behind[part], total)} of it {words}"
    )


def _unknown(records: pa.Table) -> str:
    once = records.filter(pc.equal(records.column("part"), "unread"))
    count = pc.sum(once.column("unknown_lags")).as_py() or 0
    return (
        f"Not known: the lag of {text.counted(count, 'share partition')}; marked with ?, never "
        "counted as 0."
        if count
        else ""
    )
