"""Lag from now on: as it is and with something changed, with the interval that luck allows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.whatif.projection import PROJECTED
from sharelag.workbench.charts import text
from sharelag.workbench.charts.layout import Story, empty, figure, plotly
from sharelag.workbench.charts.palette import Theme, line

_UNIT = "Lag of the whole group; bands are 95 % confidence intervals of the mean."


def projection_figure(records: pa.Table, theme: Theme = "light") -> Any:
    """A curve for each variant, with a band around it.

    Parameters
    ----------
    records : pyarrow.Table
        `sharelag.whatif.projection.PROJECTED`.
    theme : {"light", "dark"}
    """
    schemas.require(records, PROJECTED, "projection")
    if not len(records):
        story = Story("Nothing was simulated", None, _UNIT, simulated=True)
        return empty("There is no projection: try a change", story, theme)
    longest = pc.max(records.column("time_ms")).as_py()
    scale, unit = text.time_unit(float(longest))
    names = list(dict.fromkeys(records.column("variant").to_pylist()))
    traces = []
    ends = []
    for number, name in enumerate(names):
        mine = records.filter(pc.equal(records.column("variant"), name))
        times = mine.column("time_ms").to_numpy() / scale
        lag, low, high = (
            mine.column(one).to_numpy(zero_copy_only=False) for one in ("lag", "low", "high")
        )
        look = line(number, theme)["line"]
        ends.append(f"{text.number(round(float(lag[-1])))} for {text.name(name)}")
        if not np.isnan(low).any():
            traces.append(band(times, np.maximum(low, 0), high, look["color"]))
        traces.append(
            plotly().Scatter(
                x=times,
                y=lag,
                mode="lines",
                name=text.escaped(text.name(name)),
                line=look,
                hovertemplate=f"%{{y:,.0f}} offsets after %{{x:.3g}} {unit}<extra></extra>",
            )
        )
    story = Story(f"Lag after {text.span(longest)}: {'; '.join(ends)}", None, _UNIT, simulated=True)
    return figure(
        traces,
        story,
        theme,
        220,
        xaxis={"title": {"text": f"time from the beginning ({unit})"}},
        yaxis={"title": {"text": "lag (offsets)"}, "rangemode": "tozero"},
        hovermode="x unified",
    )


def band(times: Any, low: Any, high: Any, colour: str) -> Any:
    """The area between two curves."""
    return plotly().Scatter(
        x=np.concatenate([times, times[::-1]]),
        y=np.concatenate([high, low[::-1]]),
        fill="toself",
        fillcolor=colour,
        opacity=0.18,
        line={"width": 0},
        hoverinfo="skip",
        showlegend=False,
    )
