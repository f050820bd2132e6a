"""The story of one group: lag and age with their causes, events and projection."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.charts import rows, text
from sharelag.charts.figure import (
    TIME_AXIS,
    Figure,
    Story,
    axis,
    bar,
    empty,
    figure,
    hovers,
    note,
    plotly,
    row_figure,
    shade,
)
from sharelag.charts.over_time import lag_over_time_records
from sharelag.charts.palette import KINDS, PAPER, SEVERITIES, Theme, line
from sharelag.charts.simulations import draw_projection, projections
from sharelag.metrics.events import ARCHIVED, DELETED, DEPARTED, EMPTIED, JOINED, NEW_LEADER, RESET
from sharelag.schemas import Arrow
from sharelag.tables.arrow import as_table, ascending, table_of
from sharelag.tables.level import rank
from sharelag.tables.words import spell_out
from sharelag.whatif.compare import PROJECTED

# ---- lag and age, with causes and events ---------------------------------------------------------

#: A group, or some of its share partitions, at one moment.
GROUP_STORY = pa.schema(
    [
        ("group_id", pa.string()),
        ("as_of", schemas.TIMESTAMP),
        ("partitions", pa.int64()),  # number of share partitions
        ("lag", pa.int64()),  # of all of them; null: that of one is unknown
        ("age_ms", pa.int64()),  # of the oldest; null: unknown
    ]
)
#: Margins at the sides of the plot in pixels, fixed so that a slider can follow the time axis.
LEFT, RIGHT = 64, 18
#: Maximum number of shaded causes that can be distinguished, worst first.
_MOST_CAUSES = 3
#: Height of the name of a cause, which must not cover the lag, as a share of the panel.
_NAME = 0.15
#: Maximum number of share partitions or members that an event names.
_MOST_PLACES = 3
_SYMBOLS = {
    JOINED: "triangle-up",
    DEPARTED: "triangle-down-open",
    EMPTIED: "triangle-down",
    NEW_LEADER: "diamond",
    ARCHIVED: "x",
    RESET: "square",
    DELETED: "square-x",
}


def group_story_records(timeline: Arrow) -> pa.Table:
    """Sum the lag of a `schemas.TIMELINE` by group and moment, with the age of the oldest."""
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
    return table_of(columns, GROUP_STORY).sort_by(ascending("group_id", "as_of"))


def group_story_figure(
    records: pa.Table,
    causes: Arrow,
    events: Arrow,
    theme: Theme = "light",
    projected: pa.Table | None = None,
    begun: datetime | None = None,
) -> Figure:
    """Draw lag above age, with causes as shaded spans and events as marks.

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
        `sharelag.whatif.compare.PROJECTED`: lag from ``begun`` on.
    begun : datetime, optional
        Default: the last moment.
    """
    schemas.require(causes, schemas.CAUSES, "causes")
    schemas.require(events, schemas.EVENTS, "events")
    as_of = rows.latest(records)
    unit = "Lag of all its share partitions, and the age of the oldest record."
    if as_of is None:
        story = Story("No moment of this group is known", None, unit)
        return empty("The timeline is empty: choose another time", story, theme)
    begin = records.column("as_of")[0].as_py()
    ages = rows.floats(records, "age_ms")
    scale, words = text.time_unit(float(np.nanmax(ages, initial=0)))
    traces = _lag_and_age(records, ages / scale, theme) + _event_marks(events, begin, theme)
    until, borders = as_of, []
    if projected is not None and len(projected):
        schemas.require(projected, PROJECTED, "projection")
        begun = begun or as_of
        traces += _projection(projected, begun, theme)
        longest = timedelta(milliseconds=float(pc.max(projected.column("time_ms")).as_py()))
        # Beside a long past the projection would be too narrow, so the past is cut.
        begin, until = max(begin, begun - 4 * longest), max(as_of, begun + longest)
    if until > as_of:  # a line between past and projection
        at = text.axis_time(as_of)
        edges = {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": at, "x1": at}
        borders = [edges | {"line": {"width": 1, "color": PAPER[theme]["soft"]}}]
    shades, names = _shade_causes(causes, begin, as_of, until, theme)
    above = float(np.nanmax(rows.floats(records, "lag"), initial=0)) * (1 + _NAME * len(names))
    story = Story(
        title=_title(records),
        as_of=as_of,
        unit=unit,
        unknown=text.not_known(_gaps(records, "lag"), _gaps(records, "age_ms")),
    )
    if not traces:
        why = "Lines begin at the first moment whose end offsets are known"
        return empty(why, replace(story, unit=""), theme)
    span = [text.axis_time(begin), text.axis_time(until)]
    # Without a known age, the lag takes its space.
    foot = 0.33 if any(trace.name == "age" for trace in traces) else 0
    return figure(
        traces,
        story,
        theme,
        250,
        xaxis={"type": "date", "anchor": "free", "range": span, "automargin": "bottom"},
        # The margin has room for 40,000; from 100,000 on, labels are 400k and 4M.
        yaxis=axis(
            "lag (offsets)",
            domain=[foot + 0.09, 1],
            automargin=False,
            minexponent=4,
            autorangeoptions={"include": [above]},
        ),
        yaxis2=axis(f"age ({words})", domain=[0, 0.3], automargin=False, visible=foot > 0),
        yaxis3={
            "domain": [foot, foot + 0.06],
            "visible": False,
            "range": [-1, 1],
            "fixedrange": True,
        },
        margin={"l": LEFT, "r": RIGHT},
        shapes=shades + borders,
        annotations=names,
        hovermode="closest",
    )


def _lag_and_age(records: pa.Table, ages: Any, theme: Theme) -> list[Any]:
    """Return lag as an area of steps, and the age below it; only those with known values."""
    plain = records.to_pylist()
    texts = (
        (
            text.moment(one["as_of"]),
            f"lag {text.number(one['lag'])}",
            f"oldest {text.span(one['age_ms'])}",
        )
        for one in plain
    )
    colour = KINDS["unread"].fill[theme]
    parts = ",".join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))
    area = {"fill": "tozeroy", "fillcolor": f"rgba({parts},.18)"}
    look = {"color": colour, "width": 2}
    shared = hovers(texts) | {
        "x": [text.axis_time(one["as_of"]) for one in plain],
        "mode": "lines",
        "connectgaps": False,
        "showlegend": False,
    }
    lag, scatter = rows.optional(rows.floats(records, "lag")), plotly().Scatter
    lines = [
        scatter(**shared, **area, name="lag", y=lag, line=look | {"shape": "hv"}),
        scatter(**shared, name="age", y=rows.optional(ages), line=look, yaxis="y2"),
    ]
    return [line for line in lines if any(value is not None for value in line.y)]


def _shade_causes(
    causes: Arrow, begin: datetime, as_of: datetime, until: datetime, theme: Theme
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Shade the worst causes whose beginning is known, and name each at its beginning.

    Names are stacked, and right-aligned if the rest of the chart has no room for them.
    """
    found = [row for row in causes.to_pylist() if row["since"] is not None]
    found.sort(key=lambda row: (-rank(row["severity"]), row["rank"]))
    look = {"showarrow": False, "yref": "paper", "y": 1, "yanchor": "top"}
    look |= {"font": {"size": 11, "color": PAPER[theme]["ink"]}}
    shades, names = [], []
    for place, row in enumerate(found[:_MOST_CAUSES]):
        at = max(row["since"], begin)
        since, is_late = text.axis_time(at), 3 * (until - at) < until - begin
        colour = SEVERITIES[row["severity"]].fill[theme]
        shades.append(shade(since, text.axis_time(as_of), colour, 0.16))
        words = text.escape(spell_out(row["cause"]))
        look["xanchor"] = "right" if is_late else "left"
        names.append(look | {"x": since, "yshift": -2 - 15 * place, "text": words})
    return shades, names


def _event_marks(events: Arrow, begin: datetime, theme: Theme) -> list[Any]:
    """Return a mark for each moment with events, in a line between lag and age."""
    later = events.filter(pc.greater_equal(events.column("happened_at"), pa.scalar(begin)))
    ink = PAPER[theme]["ink"]
    traces = []
    for event, symbol in _SYMBOLS.items():
        by_time: dict[datetime, list[dict[str, Any]]] = {}
        for row in later.filter(pc.equal(later.column("event"), event)).to_pylist():
            by_time.setdefault(row["happened_at"].replace(microsecond=0), []).append(row)
        if not by_time:
            continue
        look = {"symbol": symbol, "size": 9, "color": ink, "line": {"width": 1, "color": ink}}
        lines = ((text.moment(at), f"{event}: {_who(some)}") for at, some in by_time.items())
        traces.append(
            plotly().Scatter(
                x=[text.axis_time(at) for at in by_time],
                y=[0] * len(by_time),
                yaxis="y3",
                mode="markers",
                name=event,
                marker=look,
                **hovers(lines),
            )
        )
    return traces


def _who(happened: list[dict[str, Any]]) -> str:
    count = text.number(sum(row["occurrences"] for row in happened))
    places = [
        text.name(row["member_id"] or f"{row['topic'] or row['topic_id']}-{row['partition']}")
        for row in happened
        if row["member_id"] or row["topic_id"]
    ]
    return f"{count}, {text.list_names(places, _MOST_PLACES)}" if places else count


def _projection(projected: pa.Table, as_of: datetime, theme: Theme) -> list[Any]:
    """Return the projected lag, one curve with its interval per variant."""
    traces: list[Any] = []
    for number, (name, mine) in enumerate(projections(projected).items()):
        later = (timedelta(milliseconds=float(one)) for one in mine.column("time_ms").to_pylist())
        times = np.array([text.axis_time(as_of + one) for one in later])
        lines = (
            (f"simulated, {text.name(name)}", f"lag {text.number(round(one))}")
            for one in mine.column("lag").to_pylist()
        )
        traces += draw_projection(mine, times, name, line(number + 1, theme)["line"], hovers(lines))
    return traces


def _gaps(records: pa.Table, name: str) -> str:
    """Return the number of moments with an unknown column in words; empty without any."""
    count, words = records.column(name).null_count, name.removesuffix("_ms")
    if count == len(records):
        return f"the {words} at any moment"
    many = text.pluralize(len(records), "moment")
    return f"the {words} at {text.number(count)} of {many}" * bool(count)


def _title(records: pa.Table) -> str:
    group = rows.groups_of(records)
    known = records.filter(records.column("lag").is_valid()).to_pylist()
    if not known:
        return f"No lag of {group} is known at any of these moments"
    first, last = known[0], known[-1]
    if not any(row["lag"] for row in known):
        return f"{group}: no lag at any of the moments at which it is known"
    since = (last["as_of"] - first["as_of"]).total_seconds() * 1000
    ago = f", {text.change(last['lag'] - first['lag'], since)}" if len(known) > 1 else ""
    late = "" if last["as_of"] == rows.latest(records) else f" at {text.moment(last['as_of'])}"
    return f"{group}: lag {text.pluralize(last['lag'], 'offset')}{late}{ago}"


# ---- durations of causes -------------------------------------------------------------------------

#: One cause with its duration.
CAUSE_SPANS = pa.schema(
    [
        *schemas.NAMED_SHARE_PARTITION,  # null if it concerns the whole group
        ("rank", pa.int32()),
        ("cause", pa.string()),
        ("severity", pa.string()),
        ("held", pa.int64()),  # offsets of lag that it explains; null: unknown
        ("since", schemas.TIMESTAMP),  # null: unknown
        ("as_of", schemas.TIMESTAMP),
        ("where", pa.string()),  # the partitions, if there are several
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
        "as_of": as_of,
        "where": pa.array(where, pa.string()),
    }
    return table_of(columns, CAUSE_SPANS).sort_by(ascending("group_id", "rank"))


def cause_figure(
    records: pa.Table, theme: Theme = "light", most: int = 30, as_of: datetime | None = None
) -> Figure:
    """Draw one bar per cause from its beginning, or an open mark if that is unknown.

    Parameters
    ----------
    records : pyarrow.Table
        `CAUSE_SPANS`.
    theme : {"light", "dark"}
    most : int
        Causes to draw: the worst first.
    as_of : datetime, optional
        The moment of the evidence; only needed if there are no causes.
    """
    as_of = rows.latest(records) or as_of
    if as_of is None or not len(records):
        story = Story("Nothing wrong was found", as_of, "Causes are named only for what is known.")
        return empty("No cause of lag holds for these groups", story, theme)
    plain = sorted(records.to_pylist(), key=_urgency)[:most]
    several = rows.has_several_groups(records)
    unsince, unheld = (records.column(name).null_count for name in ("since", "held"))
    begin, held = text.pluralize(unsince, "cause"), text.pluralize(unheld, "cause")
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
    starts = [row["since"] for row in plain if row["since"]]
    spanned = (as_of - min(starts)).total_seconds() if starts else 10.0
    held_by = [_held(row) for row in plain]
    room = 0.02 * max(map(len, held_by))
    edges = [text.axis_time(as_of + timedelta(seconds=part * spanned)) for part in (-1.04, room)]
    notes = [note(text.axis_time(as_of), n, words, 10) for n, words in enumerate(held_by)]
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
    dated = [row for row in mine if row["since"]]
    open_ones = [row for row in mine if not row["since"]]
    shared = {"name": severity, "legendgroup": severity}
    traces = []
    if dated:
        lasted = [(row["as_of"] - row["since"]).total_seconds() * 1000 for row in dated]
        traces.append(
            bar(
                SEVERITIES[severity],
                theme,
                map(_cause_lines, dated),
                **shared,
                orientation="h",
                base=[text.axis_time(row["since"]) for row in dated],
                x=[max(one, 1) for one in lasted],
                y=[row["place"] for row in dated],
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
                showlegend=not dated,
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
    return f"holds {'? offsets' if row['held'] is None else text.pluralize(row['held'], 'offset')}"


def _cause_lines(row: dict[str, Any]) -> tuple[str, ...]:
    since = f"since {text.moment(row['since'])}" if row["since"] else "since when is not known"
    return (
        f"{row['severity']}: {row['cause']}, {_place(row, True, None)}",
        f"{since}, {_held(row)}",
        text.name(row["summary"], None),
        f"-> {text.name(row['advice'], None)}",
    )


def _cause_title(worst: dict[str, Any], others: int) -> str:
    more = f", and {text.pluralize(others, 'other cause')}" if others else ""
    summary = text.name(worst["summary"], 160).rstrip(".")
    return f"{text.name(worst['group_id'])}: {summary[:1].lower()}{summary[1:]}{more}"


def _urgency(row: dict[str, Any]) -> tuple[int, int]:
    return -rank(row["severity"]), -(row["held"] or 0)
