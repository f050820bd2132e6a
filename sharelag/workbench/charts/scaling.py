"""The cost of keeping records from getting old: a point an autoscaler, member-hours against age."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from sharelag.workbench.charts import text
from sharelag.workbench.charts.layout import Story, empty, figure, interval, plotly
from sharelag.workbench.charts.palette import Theme, line


def scaling_cost_figure(records: pa.Table, theme: Theme = "light") -> Any:
    """A numbered point for each variant with its 95 % interval; a line along the best ones.

    Parameters
    ----------
    records : pyarrow.Table
        `sharelag.whatif.comparison.cost.COST_AGAINST_AGE`.
    theme : {"light", "dark"}
    """
    plain = records.to_pylist()
    story = Story(
        simulated=True,
        title=_title(plain),
        as_of=None,
        unit=(
            "Member-hours against the age of the oldest unfinished record (95th percentile "
            "over the run): means, with "
            "intervals of 95 % confidence."
        ),
        unknown="Not known: how far the means are from the truth, with a single run each."
        if plain and all(row["n"] == 1 for row in plain)
        else "",
        facts=(f"Runs of each variant: {text.listed(_counts(plain))}.",) if plain else (),
    )
    if not plain:
        return empty("There is no run with an age: compare some variants first", story, theme)
    scale, words = text.time_unit(max(row["age_p95_ms"] for row in plain))
    front = [row for row in plain if row["is_on_front"]]
    along = plotly().Scatter(
        x=[row["member_hours"] for row in front],
        y=[row["age_p95_ms"] / scale for row in front],
        mode="lines",
        name="no other is cheaper and quicker",
        line=line(0, theme)["line"],
        hoverinfo="skip",
    )
    points = [_point(row, number, scale, theme) for number, row in enumerate(plain, 1)]
    return figure(
        [along, *points],
        story,
        theme,
        380,
        xaxis={"title": {"text": "member-hours"}, "rangemode": "tozero"},
        yaxis={"title": {"text": f"age ({words})"}, "rangemode": "tozero"},
    )


def _point(row: dict[str, Any], number: int, scale: float, theme: Theme) -> Any:
    marker = line(0 if row["is_on_front"] else 1, theme)["marker"]
    return plotly().Scatter(
        x=[row["member_hours"]],
        y=[row["age_p95_ms"] / scale],
        mode="markers+text",
        name=text.escaped(f"{number}: {text.name(row['variant'])}"),
        text=[str(number)],
        textposition="top right",
        hovertext=[text.hover(*_hover(row))],
        hoverinfo="text",
        error_x=_bars(
            row, "member_hours", "member_hours_low", "member_hours_high", 1, marker["color"]
        ),
        error_y=_bars(
            row, "age_p95_ms", "age_p95_low_ms", "age_p95_high_ms", scale, marker["color"]
        ),
        marker=marker | {"size": 10},
    )


def _bars(row: dict[str, Any], mean: str, low: str, high: str, scale: float, colour: str) -> Any:
    below = 0 if row[low] is None else (row[mean] - row[low]) / scale
    above = 0 if row[high] is None else (row[high] - row[mean]) / scale
    return interval([below], [above], {"color": colour, "thickness": 1.5, "width": 4})


def _hover(row: dict[str, Any]) -> tuple[str, ...]:
    between = (
        ""
        if row["age_p95_low_ms"] is None
        else f", between {_span(row, 'low')} and {_span(row, 'high')}"
    )
    return (
        text.name(row["variant"], None),
        f"{text.number(row['member_hours'])} member-hours",
        f"age {text.span(row['age_p95_ms'])}{between}",
        f"drained in {text.number(row['drained'])} of {text.counted(row['n'], 'run')}",
    )


def _span(row: dict[str, Any], side: str) -> str:
    return text.span(max(row[f"age_p95_{side}_ms"], 0))


def _counts(plain: list[dict[str, Any]]) -> list[str]:
    return [text.number(one) for one in sorted({row["n"] for row in plain})]


def _title(plain: list[dict[str, Any]]) -> str:
    if not plain:
        return "There is no cost to compare"
    front = [row for row in plain if row["is_on_front"]]
    cheapest, quickest = (
        front[0],
        min(front, key=lambda row: (row["age_p95_ms"], row["member_hours"])),
    )
    if cheapest is quickest:
        return (
            f"{text.name(cheapest['variant'])} is both the cheapest and the quickest: "
            f"{_both(cheapest)}"
        )
    return (
        f"From {text.name(cheapest['variant'])} ({_both(cheapest)}) to "
        f"{text.name(quickest['variant'])} "
        f"({_both(quickest)})"
    )


def _both(row: dict[str, Any]) -> str:
    return f"{text.number(row['member_hours'])} member-hours, age {text.span(row['age_p95_ms'])}"
