"""Results of simulations: variants against a baseline, projected lag, clearing it, costs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.charts import text
from sharelag.charts.figure import (
    Figure,
    Story,
    axis,
    empty,
    figure,
    hovers,
    interval,
    label_axis,
    plotly,
    row_figure,
)
from sharelag.charts.palette import KINDS, PAPER, Theme, line
from sharelag.durations import duration
from sharelag.whatif.clearing import CELLS, costs_in_words, drain_words
from sharelag.whatif.compare import PROJECTED
from sharelag.whatif.comparison.rows import measure_words
from sharelag.whatif.comparison.tables import DIFFERENCES, MEASURED
from sharelag.whatif.otherwise import HAPPENED_NAME

if TYPE_CHECKING:
    from datetime import datetime

    from sharelag.whatif.compare import Comparison
    from sharelag.whatif.otherwise import Otherwise

# ---- variants against a baseline -----------------------------------------------------------------

#: One variant: a row of `sharelag.whatif.comparison.tables.DIFFERENCES`, with its seeds, and why it
#: is not known whether it is better (null: the interval says).
COMPARED = pa.schema([*DIFFERENCES, ("seeds", pa.int32()), ("why", pa.string())])
_SIDES = {
    "lower": "left of 0 is better",
    "higher": "right of 0 is better",
    None: "neither side is better",
}


def compared_records(comparison: Comparison, measure: str) -> pa.Table:
    """Return the difference of each variant from the baseline by a measure, as `COMPARED`."""
    found = comparison.differences
    found = found.filter(pc.equal(found.column("measure"), measure))
    seeds = pc.count_distinct(comparison.runs.column("seed")).as_py()
    for name, value in (("seeds", seeds), ("why", comparison.unknown_work or None)):
        column = pa.repeat(pa.scalar(value, COMPARED.field(name).type), len(found))
        found = found.append_column(COMPARED.field(name), column)
    return found


def compared_figure(records: pa.Table, theme: Theme = "light") -> Figure:
    """Draw one point per variant with its simultaneous interval.

    Parameters
    ----------
    records : pyarrow.Table
        `COMPARED`, of one measure.
    theme : {"light", "dark"}
    """
    plain = records.to_pylist()
    if not plain:
        story = Story("No difference", None, "", simulated=True)
        return empty("Nothing is compared: give two variants or more", story, theme)
    first, known = plain[0], [row for row in plain if row["difference"] is not None]
    how = MEASURED[first["measure"]]
    scale, unit = 1.0, how.unit or "a ratio without a unit"
    if how.unit == "ms":
        scale, unit = 1000.0, "seconds"
    lost = [text.name(row["variant"]) for row in plain if row["difference"] is None]
    story = Story(
        simulated=True,
        title=_compared_title(known, first["measure"], first["baseline"]),
        as_of=None,
        unit=f"Variant less baseline, in {unit}, with intervals of "
        f"{100 * first['confidence']:g} % together; {_SIDES[how.better]}.",
        unknown=f"Not known: {text.list_names(lost)}; a run of it or of the baseline has no such "
        "value." * bool(lost),
        facts=(f"{text.pluralize(first['seeds'], 'run')} of each, with the same seeds.",),
    )
    if not known:
        words = measure_words(first["measure"])
        return empty(f"No difference of {words} is known", story, theme)
    colour = line(0, theme)["line"]["color"]
    low, high = (
        [0.0 if row[side] is None else abs(row[side] - row["difference"]) / scale for row in known]
        for side in ("low", "high")
    )
    points = plotly().Scatter(
        x=[row["difference"] / scale for row in known],
        y=list(range(len(known))),
        mode="markers",
        marker={"size": 10, "color": colour},
        error_x=interval(low, high, {"color": colour}),
        showlegend=False,
        **hovers((row["variant"], _compared_line(row)) for row in known),
    )
    names = [text.name(row["variant"]) for row in known]
    across = axis(f"difference, {unit}", zeroline=True)
    return row_figure([points], story, theme, names, across, legend=False)


def _compared_line(row: dict[str, Any]) -> str:
    is_time = MEASURED[row["measure"]].unit == "ms"
    words = []
    for value in (row["difference"], row["low"], row["high"]):
        if value is not None:
            sign = "-" if value < 0 else "+" if value > 0 else ""
            words.append(f"{sign}{duration(abs(value)) if is_time else text.number(abs(value))}")
    return f"{words[0]} ({words[1]} to {words[2]})" if len(words) == 3 else words[0]


def _compared_title(known: list[dict[str, Any]], measure: str, baseline: str) -> str:
    words = measure_words(measure).split(" (", maxsplit=1)[0]
    for better, verdict in ((True, "better"), (False, "worse")):
        if names := [text.name(row["variant"]) for row in known if row["better"] is better]:
            return f"{words}: {text.list_names(names)} {verdict} than {text.name(baseline)}"
    if known and known[0]["why"]:
        return f"{words}: {known[0]['why']}"
    return (
        f"{words}: the runs do not show that anything is better or worse than {text.name(baseline)}"
    )


# ---- projected lag and age -----------------------------------------------------------------------

#: Distinguishable lines; pixels of both panels, and between the labels at the ends of lines.
_MOST_CURVES, _PANELS, _LABEL_LINE = 6, 380, 15
#: Maximum number of curves whose last values the title states.
_MOST_NAMED = 3
#: The panels from the bottom: columns, and shares of the height.
_LAG, _AGE = ("lag", "low", "high"), ("age_ms", "age_low_ms", "age_high_ms")
_ABOVE, _BELOW = [0.55, 1.0], [0.0, 0.45]
#: Characters of a label, and pixels of one.
_LABEL, _CHARACTER = 30, 6.6
#: Marks closer than this share of the time share one label.
_CLOSE = 0.12
#: An axis begins at 0 unless all values exceed this share of the largest.
_FROM_ZERO = 0.4


def projection_figure(
    records: pa.Table,
    theme: Theme = "light",
    since: str = "the beginning",
    levels: Mapping[str, float] | None = None,
    seen: tuple[str, datetime] | None = None,
) -> Figure:
    """Draw lag above and the age of the oldest record below, one line per variant.

    Axes are fitted to the differences; a dot marks where the lag is gone.

    Parameters
    ----------
    records : pyarrow.Table
        `sharelag.whatif.compare.PROJECTED`.
    theme : {"light", "dark"}
    since : str
        The origin of the time axis, in words.
    levels : mapping of str to float, optional
        Levels to mark: of ``lag`` in offsets, of ``age_ms`` in milliseconds.
    seen : tuple of str and datetime, optional
        The variant that was observed and not simulated, and its last moment.
    """
    schemas.require(records, PROJECTED, "projection")
    unit = (
        "Lag of the whole group above, age of its oldest record below; bands are 95 % confidence "
        "intervals of the mean."
    )
    if not len(records):
        story = Story("Nothing was simulated", None, unit, simulated=True)
        return empty("There is no projection: try a change", story, theme)
    if seen is not None:
        unit = f"{text.name(seen[0]).capitalize()} was recorded, all else is simulated. {unit}"
    every = projections(records)
    drawn = _to_draw(every)
    longest = pc.max(records.column("time_ms")).as_py()
    scale, words = text.time_unit(float(longest))
    old_scale, old_words = text.time_unit(float(pc.max(records.column("age_ms")).as_py() or 0))
    panels = {
        "y": (_LAG, 1.0, "lag (offsets)", "%{y:,.0f} offsets"),
        "y2": (_AGE, old_scale, f"oldest record ({old_words})", f"%{{y:.3g}} {old_words} old"),
    }
    traces = _mark_drains(drawn, scale, longest, theme)
    layout: dict[str, Any] = {"annotations": [], "shapes": []}
    for place, (columns, unit_ms, title, hover) in panels.items():
        ends: dict[str, float] = {}
        values: list[Any] = []
        for number, (name, mine) in enumerate(drawn.items()):
            times = mine.column("time_ms").to_numpy() / scale
            look = line(number, theme)
            about = {"hovertemplate": f"{hover} after %{{x:.3g}} {words}", "yaxis": place}
            traces += draw_projection(mine, times, name, look["line"], about, columns, unit_ms)
            known = [mine.column(column).drop_null().to_numpy() / unit_ms for column in columns]
            values += known
            if len(known[0]):
                ends[name] = float(known[0][-1])
        low, high = _fit_axis(np.concatenate(values))
        layout[f"yaxis{place[1:]}"] = axis(
            title, range=[low, high], domain=_ABOVE if place == "y" else _BELOW, rangemode="normal"
        )
        layout["annotations"] += _labels(ends, place, low, high, theme)
        if (level := (levels or {}).get(columns[0])) is not None:
            layout["shapes"].append(_level(level / unit_ms, place, theme))
    final = {name: round(float(mine.column("lag")[-1].as_py())) for name, mine in drawn.items()}
    if len(final) > _MOST_NAMED:  # of many, the first and the smallest
        extremes = (next(iter(final)), min(final, key=lambda name: final[name]))
        final = {name: final[name] for name in extremes}
    finals = [f"{text.number(lag)} for {text.name(name)}" for name, lag in final.items()]
    left = len(every) - len(drawn)
    story = Story(
        f"Lag after {text.span(longest)}: {'; '.join(finals)}",
        None if seen is None else seen[1],
        unit,
        simulated=seen is None,
        facts=(f"Not drawn: {text.pluralize(left, 'variant')} with more lag at the end.",)
        * bool(left),
    )
    widest = max(len(text.name(name, _LABEL)) for name in drawn)
    layout["xaxis"] = {
        "title": {"text": f"time from {since} ({words})"},
        "range": [0, longest / scale],
        "anchor": "y2",
    }
    layout["margin"] = {"r": 24 + round(widest * _CHARACTER)}
    return figure(traces, story, theme, _PANELS, False, hovermode="x unified", **layout)


def otherwise_figure(found: Otherwise, theme: Theme = "light") -> Figure:
    """Draw lag above and the age of the oldest record below, with the level of the alert.

    Parameters
    ----------
    found : Otherwise
    theme : {"light", "dark"}
    """
    alert = found.alert
    levels = {} if alert is None else {alert.column: alert.level}
    happened = (HAPPENED_NAME, found.past.end)
    return projection_figure(found.curves, theme, text.moment(found.past.begin), levels, happened)


def _level(value: float, place: str, theme: Theme) -> dict[str, Any]:
    look = {"dash": "dot", "width": 1.5, "color": PAPER[theme]["ink"]}
    across = {"xref": "paper", "x0": 0, "x1": 1}
    return {"type": "line", "line": look, **across, "yref": place, "y0": value, "y1": value}


def _to_draw(every: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """Choose distinguishable lines: the first, and those with the least lag at the end."""
    first, *others = every
    least = sorted(others, key=lambda name: every[name].column("lag")[-1].as_py())
    kept = {first, *least[: _MOST_CURVES - 1]}
    return {name: mine for name, mine in every.items() if name in kept}


def _fit_axis(values: Any) -> tuple[float, float]:
    """Return the ends of an axis: from 0, unless all values are far above it."""
    if not len(values):
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    spare = 0.06 * (high - low) or 1.0
    return (0.0 if low < _FROM_ZERO * high else max(low - spare, 0.0)), high + spare


def _mark_drains(
    drawn: dict[str, pa.Table], scale: float, longest: float, theme: Theme
) -> list[Any]:
    """Return marks where variants drain, for those that drain in every run."""
    known = {name: mine.column("drain_ms")[0].as_py() for name, mine in drawn.items()}
    marks: list[Any] = []
    written = -longest
    for name in sorted((one for one in known if known[one] is not None), key=known.__getitem__):
        drain_ms, mine = known[name], drawn[name]
        colour = line(list(drawn).index(name), theme)["line"]["color"]
        is_far = drain_ms - written > _CLOSE * longest
        written = drain_ms if is_far else written
        lags = mine.column("lag").to_numpy()
        mark = {"size": 11, "color": colour, "symbol": "circle-open", "line": {"width": 3}}
        marks.append(
            plotly().Scatter(
                x=[drain_ms / scale],
                y=[float(np.interp(drain_ms, mine.column("time_ms").to_numpy(), lags))],
                mode="markers+text",
                text=[text.span(drain_ms) if is_far else ""],
                textposition="top center",
                cliponaxis=False,
                marker=mark,
                showlegend=False,
                **hovers([(f"{text.name(name)} drains in {text.span(drain_ms)}",)]),
            )
        )
    return marks


def _labels(
    ends: dict[str, float], place: str, low: float, high: float, theme: Theme
) -> list[dict[str, Any]]:
    """Return names at the ends of lines, in their colours, without overlaps."""
    pixels = _PANELS * (_BELOW[1] - _BELOW[0])
    names = sorted(ends, key=lambda name: ends[name])
    if not names:
        return []  # all are unknown
    at = [(ends[name] - low) / (high - low) * pixels for name in names]
    for number in range(1, len(at)):
        at[number] = max(at[number], at[number - 1] + _LABEL_LINE)
    beyond = max(at[-1] - pixels, 0)
    at[-1] -= beyond
    for number in range(len(at) - 2, -1, -1):
        at[number] = min(at[number], at[number + 1] - _LABEL_LINE)
    colours = {name: line(number, theme)["line"]["color"] for number, name in enumerate(ends)}
    return [
        {
            "x": 1,
            "xref": "paper",
            "xanchor": "left",
            "xshift": 6,
            "y": low + pixel / pixels * (high - low),
            "yref": place,
            "yanchor": "middle",
            "text": text.escape(text.name(name, _LABEL)),
            "font": {"color": colours[name]},
            "showarrow": False,
        }
        for name, pixel in zip(names, at, strict=True)
    ]


def projections(records: pa.Table) -> dict[str, pa.Table]:
    """Return the rows of each variant, in the order of the table."""
    variant = records.column("variant")
    names = dict.fromkeys(variant.to_pylist())
    return {name: records.filter(pc.equal(variant, name)) for name in names}


def draw_projection(
    mine: pa.Table,
    times: Any,
    name: str,
    look: dict[str, Any],
    about: dict[str, Any],
    columns: tuple[str, str, str] = _LAG,
    unit: float = 1.0,
) -> list[Any]:
    """Return the curve of a variant, over its interval if known."""
    mean, low, high = (mine.column(one).to_numpy(zero_copy_only=False) / unit for one in columns)
    curve = plotly().Scatter(
        x=times, y=mean, mode="lines", name=text.escape(text.name(name)), line=look, **about
    )
    if np.isnan(low).any():
        return [curve]
    band = plotly().Scatter(
        x=np.concatenate([times, times[::-1]]),
        y=np.concatenate([high, np.maximum(low, 0)[::-1]]),
        fill="toself",
        fillcolor=look["color"],
        opacity=0.18,
        line={"width": 0},
        hoverinfo="skip",
        showlegend=False,
        yaxis=about.get("yaxis", "y"),
    )
    return [band, curve]


# ---- assignors by members ------------------------------------------------------------------------

#: Lines of a row, each of 26 pixels, including the space between two rows.
_CELL_LINES = 3


def clearing_figure(cells: pa.Table, theme: Theme = "light") -> Figure:
    """Draw assignors by members as a grid: time to drain, p95 age and member-hours.

    Parameters
    ----------
    cells : pyarrow.Table
        `sharelag.whatif.clearing.CELLS`.
    theme : {"light", "dark"}
    """
    schemas.require(cells, CELLS, "cells")
    rows = cells.to_pylist()
    unit = "When the lag is gone, p95 age of the oldest record, member-hours; means over the runs."
    if not rows:
        story = Story("Nothing was simulated", None, unit, simulated=True)
        return empty("Nothing was tried", story, theme)
    assignors = list(dict.fromkeys(row["assignor"] for row in rows))
    members = list(dict.fromkeys(row["members"] for row in rows))
    places = [(members.index(row["members"]), assignors.index(row["assignor"])) for row in rows]
    texts = [(drain_words(row), *costs_in_words(row)) for row in rows]
    # How often it drains has a separate line: narrow pages have no room for both.
    shown = [
        f"<b>{re.sub(' (?=in [0-9]+ of)', '<br>', first)}</b>" + "<br>".join(["", *more])
        for first, *more in (map(text.escape, each) for each in texts)
    ]
    words = plotly().Scatter(
        x=[across for across, _ in places],
        y=[down for _, down in places],
        mode="text",
        text=shown,
        textfont={"size": 13, "color": PAPER[theme]["ink"]},
        showlegend=False,
        **hovers((row["variant"], *lines) for row, lines in zip(rows, texts, strict=True)),
    )
    boxes = [_cell(x, y, row, theme) for row, (x, y) in zip(rows, places, strict=True)]
    bare = {"showline": False, "ticks": ""}
    across = label_axis([text.number(count) for count in members], "members") | bare
    story = Story(
        _clearing_title(rows),
        None,
        unit,
        simulated=True,
        facts=("Filled: the lag is gone in every run; framed: with the fewest members.",),
    )
    return row_figure(
        [words],
        story,
        theme,
        assignors,
        across,
        legend=False,
        lines=_CELL_LINES,
        shapes=boxes,
        yaxis=bare,
    )


def _cell(across: int, down: int, row: dict[str, Any], theme: Theme) -> dict[str, Any]:
    """Return the box of a cell: filled if it clears the lag, framed if it is the answer."""
    clears, paper = KINDS["acknowledged"].fill[theme], PAPER[theme]
    look = {"color": paper["ink"], "width": 3} if row["answer"] else {"width": 0}
    return {
        "type": "rect",
        "layer": "below",
        "x0": across - 0.47,
        "x1": across + 0.47,
        "y0": down - 0.45,
        "y1": down + 0.45,
        "line": look,
        "fillcolor": clears if row["clears"] else paper["head"],
    }


def _clearing_title(rows: list[dict[str, Any]]) -> str:
    answers = [row for row in rows if row["answer"]]
    if why := rows[0]["why"]:
        return f"{why[:1].upper()}{why[1:]}"
    if not answers:
        return f"Nothing that was tried clears the lag within {text.span(rows[0]['horizon_ms'])}"
    names = text.list_names(text.name(row["assignor"]) for row in answers)
    soonest = min(row["drain_ms"] for row in answers)
    with_ = text.pluralize(answers[0]["members"], "member")
    return f"{names} with {with_} clear{'s' * (len(answers) == 1)} the lag in {text.span(soonest)}"


# ---- cost against age ----------------------------------------------------------------------------


def scaling_cost_figure(records: pa.Table, theme: Theme = "light") -> Figure:
    """Draw a numbered point per variant with its 95 % interval, and a line along the best ones.

    Parameters
    ----------
    records : pyarrow.Table
        `sharelag.whatif.comparison.intervals.COST_AGAINST_AGE`.
    theme : {"light", "dark"}
    """
    plain = records.to_pylist()
    counts = [text.number(one) for one in sorted({row["n"] for row in plain})]
    single = counts == ["1"]
    front = [row for row in plain if row["is_on_front"]]
    story = Story(
        simulated=True,
        title=_cost_title(front),
        as_of=None,
        unit="Member-hours against the age of the oldest unfinished record (95th percentile "
        "over the run): means, with intervals of 95 % confidence.",
        unknown="Not known: how far the means are from the truth, with a single run each." * single,
        facts=(f"Runs of each variant: {text.list_names(counts)}.",) * bool(plain),
    )
    if not plain:
        return empty("There is no run with an age: compare some variants first", story, theme)
    scale, words = text.time_unit(max(row["age_p95_ms"] for row in plain))
    along = plotly().Scatter(
        x=[row["member_hours"] for row in front],
        y=[row["age_p95_ms"] / scale for row in front],
        mode="lines",
        name="no other is cheaper and quicker",
        line=line(0, theme)["line"],
        hoverinfo="skip",
    )
    points = [_cost_point(row, number, scale, theme) for number, row in enumerate(plain, 1)]
    across, up = axis("member-hours"), axis(f"age ({words})")
    return figure([along, *points], story, theme, 380, xaxis=across, yaxis=up)


def _cost_point(row: dict[str, Any], number: int, scale: float, theme: Theme) -> Any:
    look = line(0 if row["is_on_front"] else 1, theme)["marker"]

    def bars(mean: str, name: str, unit: float) -> Any:
        low, high = (row[name.format(side)] for side in ("low", "high"))
        below = 0 if low is None else (row[mean] - low) / unit
        above = 0 if high is None else (high - row[mean]) / unit
        return interval([below], [above], {"color": look["color"], "thickness": 1.5, "width": 4})

    age = f"age {text.span(row['age_p95_ms'])}"
    if row["age_p95_low_ms"] is not None:
        low, high = (text.span(max(row[f"age_p95_{side}_ms"], 0)) for side in ("low", "high"))
        age += f", between {low} and {high}"
    lines = (
        text.name(row["variant"], None),
        f"{text.number(row['member_hours'])} member-hours",
        age,
        f"drained in {text.number(row['drained'])} of {text.pluralize(row['n'], 'run')}",
    )
    return plotly().Scatter(
        x=[row["member_hours"]],
        y=[row["age_p95_ms"] / scale],
        mode="markers+text",
        name=text.escape(f"{number}: {text.name(row['variant'])}"),
        text=[str(number)],
        textposition="top right",
        error_x=bars("member_hours", "member_hours_{}", 1),
        error_y=bars("age_p95_ms", "age_p95_{}_ms", scale),
        marker=look | {"size": 10},
        **hovers([lines]),
    )


def _cost_title(front: list[dict[str, Any]]) -> str:
    if not front:
        return "There is no cost to compare"
    cheapest = front[0]
    quickest = min(front, key=lambda row: (row["age_p95_ms"], row["member_hours"]))
    costs = [
        f"{text.number(row['member_hours'])} member-hours, age {text.span(row['age_p95_ms'])}"
        for row in (cheapest, quickest)
    ]
    name, other = (text.name(row["variant"]) for row in (cheapest, quickest))
    if cheapest is quickest:
        return f"{name} is both the cheapest and the quickest: {costs[0]}"
    return f"From {name} ({costs[0]}) to {other} ({costs[1]})"
