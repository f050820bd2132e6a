"""How fast share partitions move, and when they will be drained."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.charts import rows, text
from sharelag.charts.figure import (
    Figure,
    Story,
    axis,
    empty,
    hovers,
    interval,
    note,
    plotly,
    row_figure,
)
from sharelag.charts.palette import PAPER, Theme, line
from sharelag.metrics.rates import (
    DRAINED,
    DRAINS,
    DRAINS_OF,
    NEVER,
    NOBODY,
    PAUSED,
    STALLED,
    UNCERTAIN,
    UNKNOWN,
)
from sharelag.schemas import Arrow
from sharelag.tables.arrow import as_table, ascending

_NO_PARTITION = "There is no share partition: choose other groups"


def _progress(*names: str) -> list[Any]:
    return [*schemas.NAMED_SHARE_PARTITION, *map(schemas.PROGRESS.field, names)]


# ---- rates ---------------------------------------------------------------------------------------

_RATES = ("arrival_rate", "completion_rate", "redelivery_rate")
#: One share partition over the span that was observed of it: columns of `schemas.PROGRESS`.
RATES = pa.schema(_progress("observed_ms", "breaks", *_RATES, "drain", "as_of"))


def rates_records(progress: Arrow) -> pa.Table:
    """Return the rates in each row of a `schemas.PROGRESS`, as `RATES`."""
    schemas.require(progress, schemas.PROGRESS, "progress")
    return as_table(progress).select(RATES.names).cast(RATES)


def rates_figure(records: pa.Table, theme: Theme = "light", most: int = 30) -> Figure:
    """Draw how fast records arrive, are finished and are redelivered, per share partition.

    Parameters
    ----------
    records : pyarrow.Table
        `RATES`.
    theme : {"light", "dark"}
    most : int
        Share partitions to draw: those with the most arrivals.
    """
    as_of = rows.latest(records)
    unit = "Offsets a second of each share partition, since its rates last changed."
    if not len(records):
        return empty(_NO_PARTITION, Story("No rate is known", as_of, unit), theme)
    chosen, others = rows.largest(records, "arrival_rate", most)
    names, whole = rows.labels(chosen), rows.labels(chosen, None)
    plain = chosen.to_pylist()
    shown = hovers((whole[one["row"]], *_rate_lines(one)) for one in plain)
    each = [rows.floats(chosen, name) for name in _RATES]
    both = np.stack([*each[:2], np.full(len(chosen), np.nan)], axis=1).ravel()
    scatter, place = plotly().Scatter, chosen.column("row").to_numpy()
    link: dict[str, Any] = {"mode": "lines", "line": {"color": PAPER[theme]["soft"], "width": 2}}
    link |= {"hoverinfo": "skip", "showlegend": False}
    traces = [scatter(x=rows.optional(both), y=np.repeat(place, 3), **link)]
    for number, words in enumerate(("arrivals", "completions", "redeliveries")):
        look = line(number, theme)["marker"] | {"size": 11}
        if number == 0:  # so that what lies upon it shows
            look |= {"symbol": "circle-open", "size": 15, "line": {"width": 2.5}}
        points = {"x": rows.optional(each[number]), "y": place, "mode": "markers", "marker": look}
        traces.append(scatter(**points, name=words, cliponaxis=False, **shown))
    # A rate of 0 is drawn at the left edge; one that is not known has words, where no mark is.
    furthest = max((one[name] or 0 for one in plain for name in _RATES), default=0)
    notes = [
        note(_free(one, furthest), one["row"], f"? {' and '.join(missing)} rate not known", 14)
        for one in plain
        if (missing := [n for n in ("arrival", "completion") if one[f"{n}_rate"] is None])
    ]
    partial = pc.sum(pc.greater(records.column("breaks"), 0)).as_py() or 0
    gaps = text.counted(partial, "share partition")
    unknown = [
        f"{name} rate of {text.counted(count, 'share partition')}"
        for name in ("arrival", "completion")
        if (count := records.column(f"{name}_rate").null_count)
    ]
    story = Story(
        title=_rates_title(records),
        as_of=as_of,
        unit=unit,
        unknown=f"Not known: {' and '.join(unknown)}; marked with ?." if unknown else "",
        facts=rows.left_out(others, "share partition", "with fewer arrivals")
        + (f"Records are missing for {gaps}, so the rates are at least these.",) * bool(partial),
    )
    down = {"showgrid": len(names) <= 30}
    across = axis("offsets a second")
    return row_figure(traces, story, theme, names, across, yaxis=down, annotations=notes)


def _rate_lines(one: dict[str, Any]) -> tuple[str, ...]:
    return (
        f"arrivals {text.number(one['arrival_rate'])} offsets/s",
        f"completions {text.number(one['completion_rate'])} offsets/s",
        f"redeliveries {text.number(one['redelivery_rate'])} offsets/s",
        f"observed {text.span(one['observed_ms'])}",
        f"{one['drain']}: {DRAINS_OF.get(one['drain'], '')}" if one["drain"] else "",
    )


def _free(one: dict[str, Any], furthest: float) -> float:
    """Where a row has the most room between its marks."""
    marks: list[float] = sorted({0.0, *(one[name] for name in _RATES if one[name] is not None)})
    ends = [*marks[1:], furthest]
    widest: int = max(range(len(marks)), key=lambda place: ends[place] - marks[place])
    return marks[widest]


def _rates_title(records: pa.Table) -> str:
    groups = rows.groups_of(records)
    arrival, completion = (rows.floats(records, name) for name in _RATES[:2])
    known = int((~np.isnan(arrival + completion)).sum())
    of = text.counted(known, "share partition")
    if not known:
        ways = {"arrive": arrival, "are finished": completion}
        lost = [words for words, rate in ways.items() if np.isnan(rate).all()]
        return f"{groups}: how fast records {' and '.join(lost or ways)} is not known"
    behind = int((arrival > completion).sum())
    if not behind:
        return f"{groups}: in none of {of} more arrives than is finished"
    return f"{groups}: more arrives than is finished in {text.number(behind)} of {of}"


# ---- time to drain -------------------------------------------------------------------------------

_DRAIN = ("drain", "drain_ms", "drain_low_ms", "drain_high_ms")
#: Columns of `schemas.PROGRESS`, and how urgent the row is: the order of the rows, highest first.
DRAIN_FORECAST = pa.schema(
    [*_progress(*_DRAIN, "arrival_rate", "completion_rate", "as_of"), ("urgency", pa.int8())]
)
#: The most urgent first, and what a title says where one is.
_URGENCY = {
    NOBODY: "there are no members in",
    STALLED: "nothing is finished in",
    NEVER: "at these rates it never drains in",
    PAUSED: "nothing was finished lately in",
    UNCERTAIN: "it is uncertain whether the lag goes away in",
    DRAINS: "",
    UNKNOWN: "",
    DRAINED: "",
}
#: Sentences on forecasts without a time.
_MOST_SENTENCES = 6


def drain_records(progress: Arrow) -> pa.Table:
    """Return the forecast in each row of a `schemas.PROGRESS`, as `DRAIN_FORECAST`.

    First come those whose group has no members, then stalled ones, those that grow, those of which
    nothing was finished lately, uncertain ones, those that drain (the longest first), unknown and
    drained ones.
    """
    schemas.require(progress, schemas.PROGRESS, "progress")
    table = as_table(progress)
    urgent = {kind: place for place, kind in enumerate(reversed(_URGENCY))}
    urgency = [urgent.get(kind, urgent[UNKNOWN]) for kind in table.column("drain").to_pylist()]
    columns = {name: table.column(name) for name in DRAIN_FORECAST.names if name != "urgency"}
    made = rows.conform(columns | {"urgency": pa.array(urgency, pa.int8())}, DRAIN_FORECAST)
    names = ascending("group_id", "topic", "topic_id", "partition")
    return made.sort_by([("urgency", "descending"), ("drain_ms", "descending"), *names])


def drain_figure(records: pa.Table, theme: Theme = "light", most: int = 30) -> Figure:
    """Draw one point per share partition that drains, with its 95 % interval.

    A forecast without a time is a sentence below the title: nothing is drawn of it.

    Parameters
    ----------
    records : pyarrow.Table
        `DRAIN_FORECAST`, as sorted.
    theme : {"light", "dark"}
    most : int
        Share partitions to draw, from the first on.
    """
    as_of = rows.latest(records)
    unit = "Time until nothing is left, at the observed rates."
    if not len(records):
        return empty(_NO_PARTITION, Story("There is no forecast", as_of, unit), theme)
    timed = [one for one in records.to_pylist() if _has_time(one)]
    unknown = pc.sum(pc.equal(records.column("drain"), UNKNOWN)).as_py() or 0
    story = Story(
        title=_drain_title(records),
        as_of=as_of,
        unit=unit,
        unknown=f"Not known: the forecast of {text.counted(unknown, 'share partition')}."
        * bool(unknown),
        facts=(
            *_drain_sentences(records),
            *rows.left_out(max(len(timed) - most, 0), "share partition", "with less urgency"),
        ),
    )
    if not timed:
        return empty("No share partition has a time to drain", replace(story, unit=""), theme)
    story = replace(story, unit=f"{unit[:-1]}; lines are 95 % confidence intervals.")
    several, draining = rows.has_several_groups(records), timed[:most]
    names = [text.share_partition(one, several) for one in draining]
    longest = max(one[name] or 0 for one in draining for name in _DRAIN[1:])
    scale, words = text.time_unit(longest)
    right = longest * 1.12 / scale or 1.0
    look = line(0, theme)["marker"]
    shown = hovers((name, *_drain_lines(one)) for name, one in zip(names, draining, strict=True))
    low = [_reach(one, "drain_low_ms", one["drain_ms"]) / scale for one in draining]
    high = [_reach(one, "drain_high_ms", right * scale) / scale for one in draining]
    scatter = plotly().Scatter
    points = scatter(
        x=[one["drain_ms"] / scale for one in draining],
        y=list(range(len(draining))),
        mode="markers",
        name="drains in",
        marker=look | {"size": 10},
        error_x=interval(low, high, {"color": look["color"], "thickness": 2, "width": 6}),
        **shown,
    )
    never = [row for row, one in enumerate(draining) if one["drain_high_ms"] is None]
    open_end = scatter(
        x=[right] * len(never),
        y=never,
        mode="markers",
        name="may be never",
        marker={"symbol": "triangle-right", "size": 13, "color": look["color"]},
        hoverinfo="skip",
    )
    across = {"title": {"text": f"time to drain ({words})"}, "range": [0, right * 1.04]}
    return row_figure([points, open_end] if never else [points], story, theme, names, across)


def _drain_sentences(records: pa.Table) -> tuple[str, ...]:
    """Return what the forecasts without a time say, once for all share partitions of a group."""
    several = rows.has_several_groups(records)
    together: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in records.to_pylist():
        if not _has_time(row):
            kind = row["drain"] or UNKNOWN
            words, low = f"{kind}, {DRAINS_OF.get(kind, '')}", row["drain_low_ms"]
            if kind == UNCERTAIN and low is not None:
                words += f" (at best in {text.span(low)})"
            together.setdefault((row["group_id"], words), []).append(row)
    said = []
    for (group, words), mine in together.items():
        who = text.counted(len(mine), "share partition")
        if len(mine) == 1:
            who = text.share_partition(mine[0], several)
        elif several:
            who = f"{text.name(group)}: {who}"
        said.append(f"{who}: {words}.")
    others = sum(map(len, list(together.values())[_MOST_SENTENCES:]))
    more = f"And {text.counted(others, 'more share partition')} without a time to drain."
    return (*said[:_MOST_SENTENCES], *([more] if others else []))


def _has_time(row: dict[str, Any]) -> bool:
    return row["drain"] == DRAINS and row["drain_ms"] is not None


def _reach(one: dict[str, Any], name: str, otherwise: float) -> float:
    """How far the interval goes to one side; where it has no end, to the edge of the figure."""
    if one[name] is None:
        return max(otherwise - one["drain_ms"], 0) if name == "drain_high_ms" else 0.0
    return float(abs(one[name] - one["drain_ms"]))


def _drain_lines(one: dict[str, Any]) -> tuple[str, ...]:
    at = one["as_of"] + timedelta(milliseconds=min(one["drain_ms"], 1e14))
    high = "never" if one["drain_high_ms"] is None else text.span(one["drain_high_ms"])
    arrivals, completions = (text.number(one[name]) for name in _RATES[:2])
    return (
        f"drains in {text.span(one['drain_ms'])}, at {text.moment(at)}",
        f"interval of 95 % confidence: {text.span(one['drain_low_ms'])} to {high}",
        f"arrivals {arrivals}/s, completions {completions}/s",
    )


def _drain_title(records: pa.Table) -> str:
    groups = rows.groups_of(records)
    kinds = records.column("drain").to_pylist()
    of = text.counted(len(kinds), "share partition")
    for kind, words in _URGENCY.items():
        if words and kind in kinds:
            return f"{groups}: {words} {text.number(kinds.count(kind))} of {of}"
    spans = rows.floats(records.filter(pc.equal(records.column("drain"), DRAINS)), "drain_ms")
    if len(spans) and not np.isnan(spans).all():
        longest = text.span(float(np.nanmax(spans)))
        return f"{groups}: nothing will be left in {longest}, at the rates observed"
    if DRAINED in kinds:
        rest = f"; {kinds.count(UNKNOWN)} not known" if UNKNOWN in kinds else ""
        return f"{groups}: {text.number(kinds.count(DRAINED))} of {of} drained{rest}"
    return f"{groups}: no forecast can be made"
