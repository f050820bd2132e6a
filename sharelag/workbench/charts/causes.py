"""Causes of lag: since when, and how much they hold."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import as_table
from sharelag.tables.level import rank
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
from sharelag.workbench.charts.palette import SEVERITIES, Theme, marker

#: One cause, as long as it has lasted.
CAUSE_SPANS = pa.schema(
    [
        *schemas.NAMED_SHARE_PARTITION,  # null where it concerns the whole group
        ("rank", pa.int32()),
        ("cause", pa.string()),
        ("severity", pa.string()),
        ("held", pa.int64()),  # offsets of lag that it explains; null: unknown
        ("since", schemas.TIMESTAMP),  # null: not known
        ("as_of", schemas.TIMESTAMP),
        ("where", pa.string()),  # the partitions, where there are several
        ("summary", pa.string()),
        ("advice", pa.string()),
    ]
)


def cause_records(causes: Arrow, as_of: datetime) -> pa.Table:
    """Causes with the moment they were judged at.

    Parameters
    ----------
    causes : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.CAUSES`.
    as_of : datetime
        Of the evidence.

    Returns
    -------
    pyarrow.Table
        `CAUSE_SPANS`, sorted by group and rank.
    """
    schemas.require(causes, schemas.CAUSES, "causes")
    table = as_table(causes)
    where = [
        next((one["value"] for one in evidence if one["name"] == "partitions"), None)
        for evidence in table.column("evidence").to_pylist()
    ]
    columns = {name: table.column(name) for name in schemas.CAUSES.names if name != "evidence"} | {
        "as_of": pa.repeat(pa.scalar(as_of, schemas.TIMESTAMP), len(table)),
        "where": pa.array(where, pa.string()),
    }
    return rows.conformed(columns, CAUSE_SPANS).sort_by(
        [("group_id", "ascending"), ("rank", "ascending")]
    )


def cause_figure(
    records: pa.Table, theme: Theme = "light", most: int = 30, as_of: datetime | None = None
) -> Any:
    """A bar a cause, from when it began until now; an open mark where its beginning is not known.

    Parameters
    ----------
    records : pyarrow.Table
        `CAUSE_SPANS`.
    theme : {"light", "dark"}
    most : int
        Causes to draw: the worst first.
    as_of : datetime, optional
        Of the evidence; needed only to say that there was no cause then.
    """
    as_of = rows.latest(records) or as_of
    unit = "How long each cause has lasted; beside it the offsets of lag that it holds."
    if not len(records):
        story = Story("Nothing wrong was found", as_of, "Causes are named only for what is known.")
        return empty("No cause of lag holds for these groups", story, theme)
    plain = sorted(records.to_pylist(), key=_urgency)[:most]
    several = len(pc.unique(records.column("group_id"))) > 1
    unsince, unheld = (records.column(name).null_count for name in ("since", "held"))
    begin = (
        f"the beginning of {text.counted(unsince, 'cause')}, an open mark at the moment of judging"
    )
    held = f"how much {text.counted(unheld, 'cause')} holds"
    story = Story(
        title=_title(records),
        as_of=as_of,
        unit=unit,
        unknown=text.not_known(begin if unsince else "", held if unheld else ""),
        facts=rows.left_out(max(len(records) - most, 0), "cause", "with less severity"),
    )
    labels = [f"{row['cause'].replace('_', ' ')}, {_place(row, several)}" for row in plain]
    traces = [trace for severity in SEVERITIES for trace in _traces(plain, severity, theme)]
    begun = [row["since"] for row in plain if row["since"]]
    spanned = (as_of - min(begun)).total_seconds() if begun and as_of else 10.0
    notes = [note(text.axis_time(row["as_of"]), n, _held(row), 10) for n, row in enumerate(plain)]
    edges = [_shifted(as_of, part * spanned) for part in (-1.04, 0.3)] if as_of else None
    return figure(
        traces,
        story,
        theme,
        rows_height(len(plain)),
        xaxis={"title": {"text": "time (UTC)"}, "type": "date", "range": edges},
        yaxis=row_axis(labels),
        barmode="overlay",
        annotations=notes,
    )


def _traces(plain: list[dict[str, Any]], severity: str, theme: Theme) -> list[Any]:
    mine = [(n, row) for n, row in enumerate(plain) if row["severity"] == severity]
    if not mine:
        return []
    look = marker(SEVERITIES[severity], theme)
    begun = [(n, row) for n, row in mine if row["since"]]
    open_ones = [(n, row) for n, row in mine if not row["since"]]
    shared = {"hoverinfo": "text", "name": severity, "legendgroup": severity}
    go = plotly()
    bars = go.Bar(
        **shared,
        orientation="h",
        base=[text.axis_time(row["since"]) for _, row in begun],
        x=[max((row["as_of"] - row["since"]).total_seconds() * 1000, 1) for _, row in begun],
        y=[n for n, _ in begun],
        width=0.6,
        marker=look,
        hovertext=[_hover(row) for _, row in begun],
        showlegend=bool(begun),
    )
    marks = go.Scatter(
        **shared,
        x=[text.axis_time(row["as_of"]) for _, row in open_ones],
        y=[n for n, _ in open_ones],
        mode="markers",
        marker={"symbol": "diamond-open", "size": 12, "color": look["color"], "line": {"width": 3}},
        hovertext=[_hover(row) for _, row in open_ones],
        showlegend=not begun,
    )
    return [trace for trace, some in ((bars, begun), (marks, open_ones)) if some]


def _place(row: dict[str, Any], several: bool, width: int | None = text.LABEL) -> str:
    topic = row["topic"] or row["topic_id"]
    if topic is None:
        return text.name(row["group_id"], width)
    partitions = row["where"] or ("" if row["partition"] is None else str(row["partition"]))
    place = (
        f"{text.name(topic, width)}:{text.name(partitions, width)}"
        if partitions
        else text.name(topic, width)
    )
    return f"{text.name(row['group_id'], width)}: {place}" if several else place


def _held(row: dict[str, Any]) -> str:
    return (
        "holds ? offsets" if row["held"] is None else f"holds {text.counted(row['held'], 'offset')}"
    )


def _hover(row: dict[str, Any]) -> str:
    since = (
        "since when is not known" if row["since"] is None else f"since {text.moment(row['since'])}"
    )
    return text.hover(
        f"{row['severity']}: {row['cause']}, {_place(row, True, None)}",
        f"{since}, {_held(row)}",
        text.name(row["summary"], None),
        f"-> {text.name(row['advice'], None)}",
    )


def _title(records: pa.Table) -> str:
    worst = min(records.to_pylist(), key=_urgency)
    others = len(records) - 1
    more = f", and {text.counted(others, 'other cause')}" if others else ""
    summary = text.name(worst["summary"], 160).rstrip(".")
    return f"{text.name(worst['group_id'])}: {summary[:1].lower()}{summary[1:]}{more}"


def _urgency(row: dict[str, Any]) -> tuple[int, int]:
    return -rank(row["severity"]), -(row["held"] or 0)


def _shifted(at: datetime, seconds: float) -> str:
    return text.axis_time(datetime.fromtimestamp(at.timestamp() + seconds, at.tzinfo))
