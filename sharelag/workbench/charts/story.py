"""The story of one group: its lag and age, what caused them, what happened, and what may follow."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.schemas import Arrow
from sharelag.whatif.projection import PROJECTED
from sharelag.workbench.charts import rows, text
from sharelag.workbench.charts.lag_over_time import lag_over_time_records
from sharelag.workbench.charts.layout import Story, empty, figure, plotly
from sharelag.workbench.charts.palette import KINDS, PAPER, Theme, line
from sharelag.workbench.charts.projection import band
from sharelag.workbench.charts.story_marks import marks, shaded, spans, words

#: A group, or some of its share partitions, at one moment.
GROUP_STORY = pa.schema(
    [
        ("group_id", pa.string()),
        ("as_of", schemas.TIMESTAMP),
        ("partitions", pa.int64()),  # share partitions that there were
        ("lag", pa.int64()),  # of all of them; null: that of one is not known
        ("age_ms", pa.int64()),  # of the oldest; null: not known
    ]
)
#: Pixels at the sides of the plot, where a slider can be laid along the time axis.
LEFT, RIGHT = 64, 18
_UNIT = "Above: lag of all its share partitions in offsets. Below: age of the oldest record."


def group_story_records(timeline: Arrow) -> pa.Table:
    """Sum the lag of share partitions moment by moment, with the age of the oldest record.

    Parameters
    ----------
    timeline : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.TIMELINE`.

    Returns
    -------
    pyarrow.Table
        `GROUP_STORY`, sorted by group and moment.
    """
    each = rows.at_known_ends(lag_over_time_records(timeline))
    whole = pc.ScalarAggregateOptions(skip_nulls=False)
    sums = each.group_by(["group_id", "as_of"], use_threads=False).aggregate(
        [("partition", "count"), ("lag", "sum", whole), ("age_ms", "max", whole)]
    )
    columns = {
        "group_id": sums.column("group_id"),
        "as_of": sums.column("as_of"),
        "partitions": sums.column("partition_count"),
        "lag": sums.column("lag_sum"),
        "age_ms": sums.column("age_ms_max"),
    }
    ordered = [("group_id", "ascending"), ("as_of", "ascending")]
    return rows.conformed(columns, GROUP_STORY).sort_by(ordered)


def group_story_figure(
    records: pa.Table,
    causes: Arrow,
    events: Arrow,
    theme: Theme = "light",
    projected: pa.Table | None = None,
) -> Any:
    """Lag above age, shaded as long as each cause lasted, with marks where something happened.

    Parameters
    ----------
    records : pyarrow.Table
        `GROUP_STORY` of one group.
    causes : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.CAUSES` of it.
    events : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.EVENTS` of it.
    theme : {"light", "dark"}
    projected : pyarrow.Table, optional
        `sharelag.whatif.projection.PROJECTED`: how lag would go on from the last moment.
    """
    schemas.require(causes, schemas.CAUSES, "causes")
    schemas.require(events, schemas.EVENTS, "events")
    as_of = rows.latest(records)
    if as_of is None:
        story = Story("No moment of this group is known", None, _UNIT)
        return empty("The timeline is empty: choose another time", story, theme)
    begin = records.column("as_of")[0].as_py()
    ages = rows.floats(records, "age_ms")
    scale, unit = text.time_unit(float(np.nanmax(ages, initial=0)))
    found = shaded(causes)
    traces = _now(records, ages / scale, theme)
    traces += marks(events, begin, theme)
    until = as_of
    if projected is not None and len(projected):
        schemas.require(projected, PROJECTED, "projection")
        traces += _projection(projected, as_of, theme)
        longest = timedelta(milliseconds=float(pc.max(projected.column("time_ms")).as_py()))
        # Of a long past, what may follow would be a hair's breadth: that past is cut short.
        begin, until = max(begin, as_of - 4 * longest), as_of + longest
    story = Story(_title(records), as_of, _UNIT, unknown=_unknown(records))
    return figure(
        traces,
        story,
        theme,
        300,
        xaxis={
            "anchor": "y2",
            "type": "date",
            "range": [text.axis_time(begin), text.axis_time(until)],
            "automargin": False,
        },
        yaxis={
            "title": {"text": "lag (offsets)"},
            "domain": [0.42, 1],
            "rangemode": "tozero",
            "automargin": False,
        },
        yaxis2={
            "title": {"text": f"age ({unit})"},
            "domain": [0, 0.3],
            "rangemode": "tozero",
            "automargin": False,
        },
        yaxis3={"domain": [0.33, 0.39], "visible": False, "range": [-1, 1], "fixedrange": True},
        margin={"l": LEFT, "r": RIGHT},
        shapes=spans(found, begin, as_of, theme) + _border(until > as_of, as_of, theme),
        annotations=words(found, begin, theme),
        hovermode="closest",
    )


def _now(records: pa.Table, ages: Any, theme: Theme) -> list[Any]:
    """Lag as an area of steps, and the age below it."""
    times = [text.axis_time(at) for at in records.column("as_of").to_pylist()]
    hovers = [
        text.hover(
            text.moment(one["as_of"]),
            f"lag {text.number(one['lag'])}",
            f"oldest {text.span(one['age_ms'])}",
        )
        for one in records.to_pylist()
    ]
    colour = KINDS["unread"].fill[theme]
    look = {"color": colour, "width": 2}
    shared: dict[str, Any] = {"x": times, "mode": "lines", "hovertext": hovers, "hoverinfo": "text"}
    shared |= {"connectgaps": False, "showlegend": False}
    lag = rows.optional(rows.floats(records, "lag"))
    scatter = plotly().Scatter
    steps = look | {"shape": "hv"}
    return [
        scatter(**shared, name="lag", y=lag, line=steps, fill="tozeroy", fillcolor=_faint(colour)),
        scatter(**shared, name="age", y=rows.optional(ages), line=look, yaxis="y2"),
    ]


def _faint(colour: str) -> str:
    """A colour through which others are seen."""
    parts = ",".join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))
    return f"rgba({parts},.18)"


def _border(is_ahead: bool, as_of: datetime, theme: Theme) -> list[dict[str, Any]]:
    """The line between what was and what may be."""
    look = {"type": "line", "yref": "paper", "y0": 0, "y1": 1}
    look |= {"line": {"width": 1, "color": PAPER[theme]["soft"]}}
    at = text.axis_time(as_of)
    return [look | {"x0": at, "x1": at}] if is_ahead else []


def _projection(projected: pa.Table, as_of: datetime, theme: Theme) -> list[Any]:
    """How lag would go on, a curve a variant with the interval that luck allows."""
    traces = []
    for number, name in enumerate(dict.fromkeys(projected.column("variant").to_pylist())):
        mine = projected.filter(pc.equal(projected.column("variant"), name))
        times = [
            text.axis_time(as_of + timedelta(milliseconds=float(one)))
            for one in mine.column("time_ms").to_pylist()
        ]
        lag, low, high = (rows.floats(mine, one) for one in ("lag", "low", "high"))
        look = line(number + 1, theme)["line"]
        if not np.isnan(low).any():
            traces.append(band(np.array(times), np.maximum(low, 0), high, look["color"]))
        traces.append(
            plotly().Scatter(
                x=times,
                y=rows.optional(lag),
                mode="lines",
                name=text.escaped(text.name(name)),
                line=look,
                hovertext=[
                    text.hover(f"simulated, {text.name(name)}", f"lag {text.number(round(one))}")
                    for one in lag
                ],
                hoverinfo="text",
            )
        )
    return traces


def _title(records: pa.Table) -> str:
    group = rows.groups_of(records)
    known = records.filter(records.column("lag").is_valid()).to_pylist()
    if not known:
        return f"No lag of {group} is known at any of these moments"
    first, last = known[0], known[-1]
    if not any(row["lag"] for row in known):
        return f"{group}: no lag at any of the moments at which it is known"
    moved = last["lag"] - first["lag"]
    span = text.span((last["as_of"] - first["as_of"]).total_seconds() * 1000)
    change = f"{text.number(abs(moved))} {'more' if moved > 0 else 'less'} than"
    ago = f", {change if moved else 'as much as'} {span} before" if len(known) > 1 else ""
    late = "" if last["as_of"] == rows.latest(records) else f" at {text.moment(last['as_of'])}"
    return f"{group}: lag {text.counted(last['lag'], 'offset')}{late}{ago}"


def _unknown(records: pa.Table) -> str:
    lag, age = (records.column(name).null_count for name in ("lag", "age_ms"))
    many = text.number(len(records))
    return text.not_known(
        f"the lag at {text.counted(lag, 'moment')} of {many}: a gap" if lag else "",
        f"the age at {text.counted(age, 'moment')} of {many}: a gap" if age else "",
    )
