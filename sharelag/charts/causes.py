"""Causes of lag: since when, and how much they hold."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from sharelag import schemas
from sharelag.charts import rows, text
from sharelag.charts.figure import (
    TIME_AXIS,
    Figure,
    Story,
    bar,
    empty,
    hovers,
    note,
    plotly,
    row_figure,
)
from sharelag.charts.palette import SEVERITIES, Theme
from sharelag.schemas import Arrow
from sharelag.tables.arrow import as_table
from sharelag.tables.level import rank

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
    """Return `schemas.CAUSES` as of a moment, as `CAUSE_SPANS` by group and rank."""
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
    order = [("group_id", "ascending"), ("rank", "ascending")]
    return rows.conform(columns, CAUSE_SPANS).sort_by(order)


def cause_figure(
    records: pa.Table, theme: Theme = "light", most: int = 30, as_of: datetime | None = None
) -> Figure:
    """Draw one bar per cause, from when it began; an open mark where its beginning is not known.

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
    if as_of is None or not len(records):
        story = Story("Nothing wrong was found", as_of, "Causes are named only for what is known.")
        return empty("No cause of lag holds for these groups", story, theme)
    plain = sorted(records.to_pylist(), key=_urgency)[:most]
    several = rows.has_several_groups(records)
    unsince, unheld = (records.column(name).null_count for name in ("since", "held"))
    begin, held = text.counted(unsince, "cause"), text.counted(unheld, "cause")
    story = Story(
        title=_cause_title(plain[0], len(records) - 1),
        as_of=as_of,
        unit="How long each cause has lasted; beside it the offsets of lag that it holds.",
        unknown=text.not_known(
            f"the beginning of {begin}, an open mark at the moment of judging" * bool(unsince),
            f"how much {held} holds" * bool(unheld),
        ),
        facts=rows.left_out(max(len(records) - most, 0), "cause", "with less severity"),
    )
    names = [f"{row['cause'].replace('_', ' ')}, {_place(row, several)}" for row in plain]
    begun = [row["since"] for row in plain if row["since"]]
    spanned = (as_of - min(begun)).total_seconds() if begun else 10.0
    edges = [text.axis_time(as_of + timedelta(seconds=part * spanned)) for part in (-1.04, 0.3)]
    notes = [note(text.axis_time(row["as_of"]), n, _held(row), 10) for n, row in enumerate(plain)]
    return row_figure(
        [trace for severity in SEVERITIES for trace in _cause_traces(plain, severity, theme)],
        story,
        theme,
        names,
        TIME_AXIS | {"range": edges},
        barmode="overlay",
        annotations=notes,
    )


def _cause_traces(plain: list[dict[str, Any]], severity: str, theme: Theme) -> list[Any]:
    mine = [row | {"place": n} for n, row in enumerate(plain) if row["severity"] == severity]
    begun = [row for row in mine if row["since"]]
    open_ones = [row for row in mine if not row["since"]]
    shared = {"name": severity, "legendgroup": severity}
    traces = []
    if begun:
        lasted = [(row["as_of"] - row["since"]).total_seconds() * 1000 for row in begun]
        traces.append(
            bar(
                SEVERITIES[severity],
                theme,
                map(_cause_lines, begun),
                **shared,
                orientation="h",
                base=[text.axis_time(row["since"]) for row in begun],
                x=[max(one, 1) for one in lasted],
                y=[row["place"] for row in begun],
                width=0.6,
                showlegend=True,
            )
        )
    if open_ones:
        look = {"symbol": "diamond-open", "size": 12, "line": {"width": 3}}
        traces.append(
            plotly().Scatter(
                **shared,
                x=[text.axis_time(row["as_of"]) for row in open_ones],
                y=[row["place"] for row in open_ones],
                mode="markers",
                marker=look | {"color": SEVERITIES[severity].fill[theme]},
                showlegend=not begun,
                **hovers(map(_cause_lines, open_ones)),
            )
        )
    return traces


def _place(row: dict[str, Any], several: bool, width: int | None = text.LABEL) -> str:
    topic = row["topic"] or row["topic_id"]
    if topic is None:
        return text.name(row["group_id"], width)
    place = text.name(topic, width)
    if partitions := row["where"] or ("" if row["partition"] is None else str(row["partition"])):
        place += f":{text.name(partitions, width)}"
    return f"{text.name(row['group_id'], width)}: {place}" if several else place


def _held(row: dict[str, Any]) -> str:
    return f"holds {'? offsets' if row['held'] is None else text.counted(row['held'], 'offset')}"


def _cause_lines(row: dict[str, Any]) -> tuple[str, ...]:
    since = f"since {text.moment(row['since'])}" if row["since"] else "since when is not known"
    return (
        f"{row['severity']}: {row['cause']}, {_place(row, True, None)}",
        f"{since}, {_held(row)}",
        text.name(row["summary"], None),
        f"-> {text.name(row['advice'], None)}",
    )


def _cause_title(worst: dict[str, Any], others: int) -> str:
    more = f", and {text.counted(others, 'other cause')}" if others else ""
    summary = text.name(worst["summary"], 160).rstrip(".")
    return f"{text.name(worst['group_id'])}: {summary[:1].lower()}{summary[1:]}{more}"


def _urgency(row: dict[str, Any]) -> tuple[int, int]:
    return -rank(row["severity"]), -(row["held"] or 0)
