"""The Lorenz curve of lag, and the Gini coefficient that it stands for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.spread import spread_columns
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import as_table, flat
from sharelag.workbench.charts import rows, text
from sharelag.workbench.charts.layout import Story, empty, figure, plotly
from sharelag.workbench.charts.palette import MOST_LINES, PAPER, Theme, line

#: One share partition on the curve of its group, smallest first; unknown ones are not on it.
LORENZ = pa.schema(
    [
        *schemas.NAMED_SHARE_PARTITION,
        ("measure", pa.string()),  # what is spread, such as lag
        ("value", pa.float64()),
        ("item_share", pa.float64()),  # the part of the share partitions up to this one
        # and the part of the total that they have together; null: the total is 0
        ("value_share", pa.float64()),
        ("gini", pa.float64()),  # of the group; null: the total is 0
        ("items", pa.int64()),  # share partitions of the group
        ("unknown", pa.int64()),  # those among them whose measure is not known
        ("as_of", schemas.TIMESTAMP),
    ]
)


def lorenz_records(loads: Arrow, measure: str = "lag") -> pa.Table:
    """The points of each group's Lorenz curve.

    Parameters
    ----------
    loads : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.LAG`, or what `sharelag.metrics.loads.partition_loads` gave: a row a share
        partition.
    measure : str
        A column of numbers in it.

    Returns
    -------
    pyarrow.Table
        `LORENZ`, sorted by group and value.

    Raises
    ------
    InputError
        The table has no such column.
    """
    if measure not in loads.schema.names:
        raise InputError(
            f"the table has no column {measure!r}: give lag or partition loads, and one of its "
            "columns"
        )
    groups = flat(loads.column("group_id")).dictionary_encode()
    code = groups.indices.to_numpy().astype(np.int64)
    value = rows.floats(loads, measure)
    spread = spread_columns(value, code, len(groups.dictionary))
    order = np.lexsort((value, code))
    order = order[~np.isnan(value[order])]
    code, value = code[order], value[order]
    known = (spread.items - spread.unknown)[code]
    begins = np.searchsorted(code, code, side="left")
    rank = np.arange(len(code)) - begins + 1
    running = np.cumsum(value)
    so_far = running - np.where(begins > 0, running[begins - 1], 0)
    total = np.where(spread.total[code] > 0, spread.total[code], np.nan)
    wide = as_table(loads).take(pa.array(order))
    columns = rows.names_of(wide) | {
        "measure": pa.repeat(measure, len(order)),
        "value": pa.array(value),
        "item_share": pa.array(rank / np.maximum(known, 1)),
        "value_share": pa.array(so_far / total, from_pandas=True),
        "gini": pa.array(spread.gini[code], from_pandas=True),
        "items": pa.array(spread.items[code]),
        "unknown": pa.array(spread.unknown[code]),
        "as_of": wide.column("as_of"),
    }
    curve = rows.conformed(columns, LORENZ)
    names = pc.rank(groups.dictionary).to_numpy()
    return curve.take(pa.array(np.argsort(names[code], kind="stable")))


def lorenz_figure(records: pa.Table, theme: Theme = "light", most: int = MOST_LINES) -> Any:
    """A curve a group, below the diagonal of an even spread.

    Parameters
    ----------
    records : pyarrow.Table
        `LORENZ`.
    theme : {"light", "dark"}
    most : int
        Groups to draw: the most uneven.
    """
    as_of = rows.latest(records)
    ginis = records.group_by("group_id").aggregate(
        [("gini", "max"), ("items", "max"), ("unknown", "max")]
    )
    uneven = ginis.filter(ginis.column("gini_max").is_valid()).sort_by(
        [("gini_max", "descending"), ("group_id", "ascending")]
    )
    measure = records.column("measure")[0].as_py() if len(records) else "lag"
    unit = (
        f"Part of the {measure} in the share partitions with the least of it. "
        "The diagonal is an even spread."
    )
    unknown = sum(ginis.column("unknown_max").to_pylist())
    even = len(ginis) - len(uneven)
    story = Story(
        title=_title(records, uneven.to_pylist(), measure),
        as_of=as_of,
        unit=unit,
        unknown=f"Not known: the {measure} of {text.counted(unknown, 'share partition')}; not "
        "on the curves."
        if unknown
        else "",
        facts=rows.left_out(max(len(uneven) - most, 0), "group", "with a more even share")
        + rows.left_out(even, "group", f"without any {measure}"),
    )
    if not len(uneven):
        return empty(f"There is no {measure} to spread", story, theme)
    soft = PAPER[theme]["soft"]
    diagonal = plotly().Scatter(
        x=[0, 1],
        y=[0, 1],
        mode="lines",
        name="even",
        line={"color": soft, "width": 1},
        hoverinfo="skip",
    )
    curves = [
        _curve(records.filter(pc.equal(records.column("group_id"), one["group_id"])), number, theme)
        for number, one in enumerate(uneven.slice(0, most).to_pylist())
    ]
    return figure(
        [diagonal, *curves],
        story,
        theme,
        380,
        xaxis={
            "title": {"text": "share partitions, least first"},
            "range": [0, 1.02],
            "tickformat": ".0%",
        },
        yaxis={"title": {"text": measure}, "range": [0, 1.02], "tickformat": ".0%"},
    )


def _curve(mine: pa.Table, number: int, theme: Theme) -> Any:
    plain = mine.to_pylist()
    hovers = [
        text.hover(
            text.share_partition(row, True, None),
            f"{row['measure']} {text.number(row['value'])}",
            f"{row['item_share']:.1%} of the share partitions have {row['value_share']:.1%} of "
            f"the {row['measure']}",
        )
        for row in plain
    ]
    label = f"{text.name(plain[0]['group_id'])} (Gini {plain[0]['gini']:.2f})"
    return plotly().Scatter(
        x=[0, *(row["item_share"] for row in plain)],
        y=[0, *(row["value_share"] for row in plain)],
        mode="lines+markers" if len(plain) <= 60 else "lines",
        name=text.escaped(label),
        hovertext=["", *hovers],
        hoverinfo="text",
        **line(number, theme),
    )


def _title(records: pa.Table, uneven: list[dict[str, Any]], measure: str) -> str:
    if not uneven:
        return f"There is no {measure} to spread"
    group = uneven[0]
    mine = records.filter(pc.equal(records.column("group_id"), group["group_id"]))
    value = mine.column("value").to_numpy()[::-1]
    half, some = int(np.searchsorted(np.cumsum(value), value.sum() / 2)) + 1, int(np.sum(value > 0))
    part, count = ("all", some) if some <= half else ("half", half)
    return (
        f"{text.name(group['group_id'])}: {part} of the {measure} is in {text.number(count)} of "
        f"{text.counted(group['items_max'], 'share partition')} (Gini {group['gini_max']:.2f})"
    )
