"""What a group's story has beside its curves: shades as long as causes lasted, marks of events."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.metrics.events import ARCHIVED, DEPARTED, EMPTIED, JOINED, NEW_LEADER, RESET
from sharelag.schemas import Arrow
from sharelag.tables.level import rank
from sharelag.workbench.charts import text
from sharelag.workbench.charts.layout import plotly
from sharelag.workbench.charts.palette import PAPER, SEVERITIES, Theme

#: Causes that are shaded, the worst first: more cannot be distinguished.
MOST_CAUSES = 3
#: How many share partitions an event names.
MOST_PLACES = 3
_SYMBOLS = {
    JOINED: "triangle-up",
    DEPARTED: "triangle-down-open",
    EMPTIED: "triangle-down",
    NEW_LEADER: "diamond",
    ARCHIVED: "x",
    RESET: "square",
}


def shaded(causes: Arrow) -> list[dict[str, Any]]:
    """The causes whose beginning is known, the worst first."""
    found = [row for row in causes.to_pylist() if row["since"] is not None]
    return sorted(found, key=lambda row: (-rank(row["severity"]), row["rank"]))[:MOST_CAUSES]


def spans(
    found: list[dict[str, Any]], begin: datetime, as_of: datetime, theme: Theme
) -> list[dict[str, Any]]:
    """The shades, from where a cause began or the picture does."""
    look = {"type": "rect", "yref": "paper", "y0": 0, "y1": 1, "layer": "below", "opacity": 0.16}
    return [
        look
        | {
            "x0": text.axis_time(max(row["since"], begin)),
            "x1": text.axis_time(as_of),
            "line": {"width": 0},
            "fillcolor": SEVERITIES[row["severity"]].fill[theme],
        }
        for row in found
    ]


def words(found: list[dict[str, Any]], begin: datetime, theme: Theme) -> list[dict[str, Any]]:
    """What a shade stands for, where it begins; one below the other."""
    look: dict[str, Any] = {
        "showarrow": False,
        "yref": "paper",
        "yanchor": "top",
        "font": {"size": 11},
    }
    look["font"] |= {"color": PAPER[theme]["ink"]}
    return [
        look
        | {
            "x": text.axis_time(max(row["since"], begin)),
            "y": 1,
            "yshift": -2 - 15 * place,
            "xanchor": "left",
            "text": text.escaped(row["cause"].replace("_", " ")),
        }
        for place, row in enumerate(found)
    ]


def marks(events: Arrow, begin: datetime, theme: Theme) -> list[Any]:
    """A mark for each time something happened, in a line between lag and age."""
    later = events.filter(pc.greater_equal(events.column("happened_at"), pa.scalar(begin)))
    traces = []
    for event, symbol in _SYMBOLS.items():
        mine = later.filter(pc.equal(later.column("event"), event)).to_pylist()
        by_time: dict[datetime, list[dict[str, Any]]] = {}
        for row in mine:
            by_time.setdefault(row["happened_at"].replace(microsecond=0), []).append(row)
        if not by_time:
            continue
        hovers = [
            text.hover(text.moment(at), f"{event}: {_who(happened)}")
            for at, happened in by_time.items()
        ]
        traces.append(
            plotly().Scatter(
                x=[text.axis_time(at) for at in by_time],
                y=[0] * len(by_time),
                yaxis="y3",
                mode="markers",
                name=event,
                hovertext=hovers,
                hoverinfo="text",
                marker={
                    "symbol": symbol,
                    "size": 9,
                    "color": PAPER[theme]["ink"],
                    "line": {"width": 1, "color": PAPER[theme]["ink"]},
                },
            )
        )
    return traces


def _who(happened: list[dict[str, Any]]) -> str:
    count = sum(row["occurrences"] for row in happened)
    places = [
        text.name(row["member_id"] or f"{row['topic'] or row['topic_id']}-{row['partition']}")
        for row in happened
        if row["member_id"] or row["topic_id"]
    ]
    shown = places[:MOST_PLACES]
    more = [f"{len(places) - MOST_PLACES} more"] if len(places) > MOST_PLACES else []
    return f"{text.number(count)}{f', {text.listed(shown + more)}' if shown else ''}"
