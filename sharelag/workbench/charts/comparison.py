"""Variants against a baseline: a point each with its interval, left or right of the baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.durations import duration
from sharelag.whatif.comparison.rows import measure_words
from sharelag.whatif.comparison.tables import DIFFERENCES, MEASURED
from sharelag.workbench.charts import text
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

if TYPE_CHECKING:
    from sharelag.whatif.compare import Comparison

#: One variant: a row of `sharelag.whatif.comparison.tables.DIFFERENCES`, and over how many seeds.
COMPARED = pa.schema([*DIFFERENCES, ("seeds", pa.int32())])
_SIDES = {
    "lower": "left of 0 is better",
    "higher": "right of 0 is better",
    None: "neither side is better",
}


def compared_records(comparison: Comparison, measure: str) -> pa.Table:
    """How far each variant is from the baseline, by one measure.

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
    rows = comparison.differences.filter(
        pc.equal(comparison.differences.column("measure"), measure)
    )
    seeds = pc.count_distinct(comparison.runs.column("seed")).as_py()
    return rows.append_column(COMPARED.field("seeds"), pa.array([seeds] * len(rows), pa.int32()))


def compared_figure(records: pa.Table, theme: Theme = "light") -> Any:
    """A point a variant with its interval, of all variants together.

    Parameters
    ----------
    records : pyarrow.Table
        `COMPARED`, of one measure.
    theme : {"light", "dark"}
    """
    rows = records.to_pylist()
    if not rows:
        return empty(
            "Nothing is compared: give two variants or more",
            Story("No difference", None, "", simulated=True),
            theme,
        )
    measure, known = rows[0]["measure"], [row for row in rows if row["difference"] is not None]
    how = MEASURED[measure]
    scale, unit = (
        (1000.0, "seconds") if how.unit == "ms" else (1.0, how.unit or "a ratio without a unit")
    )
    lost = [text.name(row["variant"]) for row in rows if row["difference"] is None]
    confidence = 100 * rows[0]["confidence"]
    story = Story(
        simulated=True,
        title=_title(known, measure, rows[0]["baseline"]),
        as_of=None,
        unit=f"Variant less baseline, in {unit}, with intervals of {confidence:g} % together; "
        f"{_SIDES[how.better]}.",
        unknown=f"Not known: {text.listed(lost)}; a run of it or of the baseline has no such value."
        if lost
        else "",
        facts=(f"{text.counted(rows[0]['seeds'], 'run')} of each, with the same seeds.",),
    )
    if not known:
        return empty(f"No difference of {measure_words(measure)} is known", story, theme)
    colour = line(0, theme)["line"]["color"]
    points = plotly().Scatter(
        x=[row["difference"] / scale for row in known],
        y=list(range(len(known))),
        mode="markers",
        marker={"size": 10, "color": colour},
        error_x=interval(
            [_reach(row, "low") / scale for row in known],
            [_reach(row, "high") / scale for row in known],
            {"color": colour},
        ),
        hovertext=[text.hover(row["variant"], _hover(row)) for row in known],
        hoverinfo="text",
        showlegend=False,
    )
    return figure(
        [points],
        story,
        theme,
        rows_height(len(known)),
        False,
        xaxis={"title": {"text": f"difference, {unit}"}, "zeroline": True, "rangemode": "tozero"},
        yaxis=row_axis([text.name(row["variant"]) for row in known]),
    )


def _reach(row: dict[str, Any], side: str) -> float:
    return 0.0 if row[side] is None else abs(row[side] - row["difference"])


def _hover(row: dict[str, Any]) -> str:
    if row["low"] is None or row["high"] is None:
        return _amount(row, "difference")
    return f"{_amount(row, 'difference')} ({_amount(row, 'low')} to {_amount(row, 'high')})"


def _amount(row: dict[str, Any], name: str) -> str:
    value = row[name]
    sign = "-" if value < 0 else "+" if value > 0 else ""
    is_time = MEASURED[row["measure"]].unit == "ms"
    return f"{sign}{duration(abs(value)) if is_time else text.number(abs(value))}"


def _title(known: list[dict[str, Any]], measure: str, baseline: str) -> str:
    words = measure_words(measure).split(" (", maxsplit=1)[0]
    for better, verdict in ((True, "better"), (False, "worse")):
        if names := [text.name(row["variant"]) for row in known if row["better"] is better]:
            return f"{words}: {text.listed(names)} {verdict} than {text.name(baseline)}"
    return (
        f"{words}: the runs do not show that anything is better or worse than {text.name(baseline)}"
    )
