"""What simulations found: variants against a baseline, lag from now on, and cost against age."""

from __future__ import annotations

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
    plotly,
    row_figure,
)
from sharelag.charts.palette import Theme, line
from sharelag.durations import duration
from sharelag.whatif.compare import PROJECTED
from sharelag.whatif.comparison.rows import measure_words
from sharelag.whatif.comparison.tables import DIFFERENCES, MEASURED

if TYPE_CHECKING:
    from sharelag.whatif.compare import Comparison

# ---- variants against a baseline -----------------------------------------------------------------

#: One variant: a row of `sharelag.whatif.comparison.tables.DIFFERENCES`, and over how many seeds.
COMPARED = pa.schema([*DIFFERENCES, ("seeds", pa.int32())])
_SIDES = {
    "lower": "left of 0 is better",
    "higher": "right of 0 is better",
    None: "neither side is better",
}


def compared_records(comparison: Comparison, measure: str) -> pa.Table:
    """Return how far each variant is from the baseline, by one measure.

    Parameters
    ----------
    comparison : Comparison
    measure : str
        A key of `sharelag.whatif.comparison.tables.MEASURED`.

    Returns
    -------
    pyarrow.Table
        `COMPARED`.
    """
    found = comparison.differences
    found = found.filter(pc.equal(found.column("measure"), measure))
    seeds = pc.count_distinct(comparison.runs.column("seed")).as_py()
    return found.append_column(COMPARED.field("seeds"), pa.array([seeds] * len(found), pa.int32()))


def compared_figure(records: pa.Table, theme: Theme = "light") -> Figure:
    """Draw one point per variant with its interval, of all variants together.

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
        unknown=f"Not known: {text.listed(lost)}; a run of it or of the baseline has no such "
        "value." * bool(lost),
        facts=(f"{text.counted(first['seeds'], 'run')} of each, with the same seeds.",),
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
            return f"{words}: {text.listed(names)} {verdict} than {text.name(baseline)}"
    return (
        f"{words}: the runs do not show that anything is better or worse than {text.name(baseline)}"
    )


# ---- lag from now on -----------------------------------------------------------------------------


def projection_figure(records: pa.Table, theme: Theme = "light") -> Figure:
    """Draw one curve per variant, with a band around it.

    Parameters
    ----------
    records : pyarrow.Table
        `sharelag.whatif.compare.PROJECTED`.
    theme : {"light", "dark"}
    """
    schemas.require(records, PROJECTED, "projection")
    unit = "Lag of the whole group; bands are 95 % confidence intervals of the mean."
    if not len(records):
        story = Story("Nothing was simulated", None, unit, simulated=True)
        return empty("There is no projection: try a change", story, theme)
    longest = pc.max(records.column("time_ms")).as_py()
    scale, words = text.time_unit(float(longest))
    traces: list[Any] = []
    ends = []
    for number, (name, mine) in enumerate(projections(records).items()):
        times = mine.column("time_ms").to_numpy() / scale
        lag = mine.column("lag").to_numpy()
        ends.append(f"{text.number(round(float(lag[-1])))} for {text.name(name)}")
        about = {"hovertemplate": f"%{{y:,.0f}} offsets after %{{x:.3g}} {words}<extra></extra>"}
        traces += projected_curve(mine, times, name, line(number, theme)["line"], about)
    title = f"Lag after {text.span(longest)}: {'; '.join(ends)}"
    across = {"title": {"text": f"time from the beginning ({words})"}}
    story = Story(title, None, unit, simulated=True)
    up = axis("lag (offsets)")
    return figure(traces, story, theme, 220, xaxis=across, yaxis=up, hovermode="x unified")


def projections(records: pa.Table) -> dict[str, pa.Table]:
    """Return the rows of each variant, in the order of the table."""
    variant = records.column("variant")
    names = dict.fromkeys(variant.to_pylist())
    return {name: records.filter(pc.equal(variant, name)) for name in names}


def projected_curve(
    mine: pa.Table, times: Any, name: str, look: dict[str, Any], about: dict[str, Any]
) -> list[Any]:
    """Return the curve of a variant, over the band that luck allows if it is known."""
    lag, low, high = (
        mine.column(one).to_numpy(zero_copy_only=False) for one in ("lag", "low", "high")
    )
    curve = plotly().Scatter(
        x=times, y=lag, mode="lines", name=text.escaped(text.name(name)), line=look, **about
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
    )
    return [band, curve]


# ---- cost against age ----------------------------------------------------------------------------


def scaling_cost_figure(records: pa.Table, theme: Theme = "light") -> Figure:
    """Draw a numbered point per variant with its 95 % interval; a line along the best ones.

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
        facts=(f"Runs of each variant: {text.listed(counts)}.",) * bool(plain),
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
        f"drained in {text.number(row['drained'])} of {text.counted(row['n'], 'run')}",
    )
    return plotly().Scatter(
        x=[row["member_hours"]],
        y=[row["age_p95_ms"] / scale],
        mode="markers+text",
        name=text.escaped(f"{number}: {text.name(row['variant'])}"),
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
