"""Time to drain, with what the variation of the rates allows."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
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
from sharelag.schemas.arrow import as_table
from sharelag.workbench.charts import rows, text
from sharelag.workbench.charts.layout import (
    Story,
    empty,
    figure,
    interval,
    plotly,
    row_axis,
    rows_height,
)
from sharelag.workbench.charts.palette import Theme, line

#: Columns of `sharelag.schemas.PROGRESS`, and how urgent the row is.
DRAIN_FORECAST = pa.schema(
    [
        *schemas.NAMED_SHARE_PARTITION,
        *[
            schemas.PROGRESS.field(name)
            for name in (
                "drain",
                "drain_ms",
                "drain_low_ms",
                "drain_high_ms",
                "arrival_rate",
                "completion_rate",
                "as_of",
            )
        ],
        ("urgency", pa.int8()),  # the order of the rows, highest first
    ]
)
#: Sentences on forecasts without a time.
_MOST_SENTENCES = 6
_URGENCY = {
    NOBODY: 7,
    STALLED: 6,
    NEVER: 5,
    PAUSED: 4,
    UNCERTAIN: 3,
    DRAINS: 2,
    UNKNOWN: 1,
    DRAINED: 0,
}


def drain_records(progress: Arrow) -> pa.Table:
    """The forecast for each share partition.

    Parameters
    ----------
    progress : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.PROGRESS`.

    Returns
    -------
    pyarrow.Table
        `DRAIN_FORECAST`: first those whose group has no members, then stalled ones, those that
        grow, those of which nothing was finished lately, uncertain ones, those that drain (the
        longest first), unknown and drained ones.
    """
    schemas.require(progress, schemas.PROGRESS, "progress")
    table = as_table(progress)
    urgency = [_URGENCY.get(kind, _URGENCY[UNKNOWN]) for kind in table.column("drain").to_pylist()]
    columns = {name: table.column(name) for name in DRAIN_FORECAST.names if name != "urgency"}
    made = rows.conformed(columns | {"urgency": pa.array(urgency, pa.int8())}, DRAIN_FORECAST)
    names = [(name, "ascending") for name in ("group_id", "topic", "topic_id", "partition")]
    return made.sort_by([("urgency", "descending"), ("drain_ms", "descending"), *names])


def drain_figure(records: pa.Table, theme: Theme = "light", most: int = 30) -> Any:
    """A point for each share partition that drains, with its 95 % interval.

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
        return empty(
            "There is no share partition: choose other groups",
            Story("There is no forecast", as_of, unit),
            theme,
        )
    timed = [one for one in records.to_pylist() if _has_time(one)]
    unknown = pc.sum(pc.equal(records.column("drain"), UNKNOWN)).as_py() or 0
    story = Story(
        title=_title(records),
        as_of=as_of,
        unit=unit,
        unknown=f"Not known: the forecast of {text.counted(unknown, 'share partition')}."
        if unknown
        else "",
        facts=(
            *drain_sentences(records),
            *rows.left_out(max(len(timed) - most, 0), "share partition", "with less urgency"),
        ),
    )
    if not timed:
        known = replace(story, unit="", unknown=story.unknown or "Nothing is unknown.")
        return empty("No share partition has a time to drain", known, theme)
    story = replace(story, unit=f"{unit[:-1]}; lines are 95 % confidence intervals.")
    several = len(pc.unique(records.column("group_id"))) > 1
    draining = [one | {"row": row} for row, one in enumerate(timed[:most])]
    names = [text.share_partition(one, several) for one in draining]
    longest = max(
        one[name] or 0 for one in draining for name in ("drain_ms", "drain_low_ms", "drain_high_ms")
    )
    scale, words = text.time_unit(longest)
    right = longest * 1.12 / scale or 1.0
    look = line(0, theme)
    points = plotly().Scatter(
        y=[one["row"] for one in draining],
        mode="markers",
        hovertext=[
            text.hover(name, *_hover(one)) for name, one in zip(names, draining, strict=True)
        ],
        hoverinfo="text",
        x=[one["drain_ms"] / scale for one in draining],
        name="drains in",
        marker=look["marker"] | {"size": 10},
        error_x=interval(
            [_reach(one, "drain_low_ms", one["drain_ms"]) / scale for one in draining],
            [_reach(one, "drain_high_ms", right * scale) / scale for one in draining],
            {"color": look["marker"]["color"], "thickness": 2, "width": 6},
        ),
    )
    never = [one for one in draining if one["drain_high_ms"] is None]
    open_end = plotly().Scatter(
        x=[right] * len(never),
        y=[one["row"] for one in never],
        mode="markers",
        name="may be never",
        marker={"symbol": "triangle-right", "size": 13, "color": look["marker"]["color"]},
        hoverinfo="skip",
    )
    return figure(
        [points, open_end] if never else [points],
        story,
        theme,
        rows_height(len(names)),
        xaxis={"title": {"text": f"time to drain ({words})"}, "range": [0, right * 1.04]},
        yaxis=row_axis(names),
    )


def drain_sentences(records: pa.Table) -> tuple[str, ...]:
    """What the forecasts without a time say, once for all share partitions of a group.

    Parameters
    ----------
    records : pyarrow.Table
        `DRAIN_FORECAST`, as sorted.
    """
    several = len(pc.unique(records.column("group_id"))) > 1
    together: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in records.to_pylist():
        if not _has_time(row):
            together.setdefault((row["group_id"], _words(row)), []).append(row)
    said = [f"{_called(mine, several)}: {words}." for (_, words), mine in together.items()]
    others = sum(map(len, list(together.values())[_MOST_SENTENCES:]))
    more = f"And {text.counted(others, 'share partition')} more without a time to drain."
    return (*said[:_MOST_SENTENCES], *([more] if others else []))


def _has_time(row: dict[str, Any]) -> bool:
    return row["drain"] == DRAINS and row["drain_ms"] is not None


def _called(mine: list[dict[str, Any]], several: bool) -> str:
    if len(mine) == 1:
        return text.share_partition(mine[0], several)
    count = text.counted(len(mine), "share partition")
    return f"{text.name(mine[0]['group_id'])}: {count}" if several else count


def _reach(one: dict[str, Any], name: str, otherwise: float) -> float:
    """How far the interval goes to one side; where it has no end, to the edge of the figure."""
    if one[name] is None:
        return max(otherwise - one["drain_ms"], 0) if name == "drain_high_ms" else 0.0
    return float(abs(one[name] - one["drain_ms"]))


def _hover(one: dict[str, Any]) -> tuple[str, ...]:
    high = "never" if one["drain_high_ms"] is None else text.span(one["drain_high_ms"])
    return (
        f"drains in {text.span(one['drain_ms'])}, at {text.moment(_at(one))}",
        f"interval of 95 % confidence: {text.span(one['drain_low_ms'])} to {high}",
        (
            f"arrivals {text.number(one['arrival_rate'])}/s, completions "
            f"{text.number(one['completion_rate'])}/s"
        ),
    )


def _at(one: dict[str, Any]) -> datetime:
    at: datetime = one["as_of"] + timedelta(milliseconds=min(one["drain_ms"], 1e14))
    return at


def _words(one: dict[str, Any]) -> str:
    kind = one["drain"] or UNKNOWN
    words = f"{kind}, {DRAINS_OF.get(kind, '')}"
    low = one["drain_low_ms"]
    return words + (
        f" (at best in {text.span(low)})" if kind == UNCERTAIN and low is not None else ""
    )


def _title(records: pa.Table) -> str:
    groups = rows.groups_of(records)
    kinds = records.column("drain").to_pylist()
    counts = {kind: kinds.count(kind) for kind in _URGENCY}
    for kind, words in (
        (NOBODY, "there are no members in"),
        (STALLED, "nothing is finished in"),
        (NEVER, "at these rates it never drains in"),
        (PAUSED, "nothing was finished lately in"),
        (UNCERTAIN, "it is uncertain whether the lag goes away in"),
    ):
        if counts[kind]:
            return (
                f"{groups}: {words} {text.number(counts[kind])} of "
                f"{text.counted(len(kinds), 'share partition')}"
            )
    spans = rows.floats(records.filter(pc.equal(records.column("drain"), DRAINS)), "drain_ms")
    if len(spans) and not np.isnan(spans).all():
        return (
            f"{groups}: nothing will be left in {text.span(float(np.nanmax(spans)))}, at "
            "the rates observed"
        )
    if counts[DRAINED]:
        rest = f"; {counts[UNKNOWN]} not known" if counts[UNKNOWN] else ""
        of = text.counted(len(kinds), "share partition")
        return f"{groups}: {text.number(counts[DRAINED])} of {of} drained{rest}"
    return f"{groups}: no forecast can be made"
