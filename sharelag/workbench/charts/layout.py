"""Layout of every figure: the finding, its moment and unit, and what is not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from typing import Any

from sharelag.errors import SetupError
from sharelag.tables.words import THIN_SPACE
from sharelag.workbench.charts import text
from sharelag.workbench.charts.palette import KINDS, PAPER, Theme, checked, marker, template

#: Options of ``Plotly.newPlot`` for every figure: no logo, nothing that sends data anywhere, no
#: TeX.
CONFIG = {
    "displaylogo": False,
    "responsive": True,
    "showSendToCloud": False,
    "plotlyServerURL": "",
    "typesetMath": False,
    "modeBarButtonsToRemove": ["lasso2d", "select2d"],
}
#: Pixels of a row beside a category axis.
ROW = 26
#: As high as a colour bar has to be.
COLOUR_BAR = 150
#: Pixels of a line of the title, and of what stands below it.
TITLE_LINE, FACT_LINE = 20, 16
_TITLE_WIDTH, _FACT_WIDTH = 92, 124
#: For how wide a figure room is left for the legend; pixels of a character, and of a legend's
#: symbol.
_WIDTH, _CHARACTER, _SYMBOL = 860, 7, 46


@dataclass(frozen=True)
class Story:
    """What a figure says in words: plain text, with names made safe by `charts.text.name`."""

    title: str  # the finding, as a sentence
    as_of: datetime | None
    unit: str  # what is drawn, in which unit; empty: nothing is
    unknown: str = ""  # what is not known, and how it is drawn; empty: nothing is unknown
    facts: tuple[str, ...] = field(
        default_factory=tuple
    )  # what else to know, such as what is left out
    simulated: bool = False  # then it has no moment

    @property
    def reading(self) -> tuple[str, ...]:
        """How the figure is to be read, where its moment and what is unknown stand elsewhere."""
        first = f"Simulated. {self.unit}" if self.simulated else self.unit
        return (*([first] if first else []), *self.facts)

    @property
    def lines(self) -> tuple[str, ...]:
        """What stands below the title."""
        when = "Simulated." if self.simulated else f"As of {text.moment(self.as_of)}."
        return (f"{when} {self.unit}".rstrip(), self.unknown or "Nothing is unknown.", *self.facts)


def figure(
    traces: Sequence[Any],
    story: Story,
    theme: Theme,
    height: int = 320,
    legend: bool = True,
    **layout: Any,
) -> Any:
    """A figure in our look.

    Parameters
    ----------
    traces : sequence of plotly traces
    story : Story
    theme : {"light", "dark"}
    height : int
        Of the plot itself, in pixels; titles and axes come on top.
    legend : bool
        Whether it has one; above the plot.
    **layout
        More of plotly's layout.

    Returns
    -------
    plotly.graph_objects.Figure
        ``layout.meta`` holds the story as plain text, for labels that screen readers read, and in
        parts for pages that say moment and unknowns once for many figures.
    """
    checked(theme)
    title = text.lines_of(story.title, _TITLE_WIDTH)
    facts = [line for fact in story.lines for line in text.lines_of(fact, _FACT_WIDTH)]
    top = (
        26
        + TITLE_LINE * len(title)
        + FACT_LINE * len(facts)
        + (_legend_height(traces, layout) if legend else 0)
        + 8
    )
    bottom = 64
    look = {
        "template": _whole_template(theme),
        "title": {
            "text": "<br>".join(f"<b>{line}</b>" for line in title),
            "subtitle": {
                "text": "<br>".join(facts),
                "font": {"size": 12, "color": PAPER[theme]["soft"]},
            },
            "yref": "container",
            "y": 1 - 20 / (top + height + bottom),
            "yanchor": "top",
        },
        "margin": {"t": top, "b": bottom, "l": 60, "r": 24},
        "height": top + height + bottom,
        "showlegend": legend,
        # Also where a page brings its own template: at the right it would lie on a colour bar.
        "legend": template(theme)["layout"]["legend"],
        "separators": f".{THIN_SPACE}",
        "meta": {
            "title": story.title,
            "facts": list(story.lines),
            "as_of": None if story.as_of is None else story.as_of.timestamp() * 1000,
            "reading": list(story.reading),
            "unknown": story.unknown,
        },
    }
    # At once: plotly takes ten times as long to update a layout that is there.
    return plotly().Figure(data=list(traces), layout=merged(look, layout))


@cache
def _whole_template(theme: Theme) -> Any:
    """Our template over plotly's own one, which has what ours leaves open."""
    drawn = plotly().Figure(layout={"template": "plotly"})
    drawn.update_layout(template=template(theme))
    return drawn.layout.template


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return both of two layouts, with what the second says where both say something."""
    both = dict(below)
    for name, value in above.items():
        is_deep = isinstance(value, Mapping) and isinstance(both.get(name), Mapping)
        both[name] = merged(both[name], value) if is_deep else value
    return both


def _legend_height(traces: Sequence[Any], layout: dict[str, Any]) -> int:
    """The height of the legend: entries side by side, in columns where a line is too short."""
    entries = [
        len(trace.name) * _CHARACTER + _SYMBOL
        for trace in traces
        if trace.name and trace.showlegend is not False
    ]
    labels = layout.get("yaxis", {}).get("ticktext", [])
    room = _WIDTH - _CHARACTER * max(map(len, labels), default=0)
    columns = len(entries) if sum(entries) <= room else max(room // max(entries), 1)
    line = 30 if any(trace.type == "scatter" for trace in traces) else 20
    return -(-len(entries) // max(columns, 1)) * line + 4


def row_axis(labels: Sequence[str], title: str = "") -> dict[str, Any]:
    """A vertical axis of rows from the top, numbered: two shortened names may look the same."""
    return {
        "tickvals": list(range(len(labels))),
        "ticktext": [text.escaped(label) for label in labels],
        "range": [len(labels) - 0.5, -0.5],
        "title": {"text": title},
        "showgrid": False,
        "zeroline": False,
    }


def rows_height(rows: int, least: int = 2 * ROW) -> int:
    """How high so many rows are; beside a colour bar they need more."""
    return max(rows * ROW, least) + 20


def note(x: Any, row: float, words: str, shift: int = 4) -> dict[str, Any]:
    """Words beside a place in a row, where there is no mark, or more to say than it shows."""
    look = {"showarrow": False, "xanchor": "left", "xshift": shift}
    return look | {"x": x, "y": row, "text": text.escaped(words)}


def interval(below: Sequence[float], above: Sequence[float], look: dict[str, Any]) -> Any:
    """How far the intervals of some points go to both sides."""
    sides = {"array": list(above), "arrayminus": list(below)}
    return {"type": "data", "symmetric": False, **sides, **look}


def colour_bar(title: str) -> dict[str, Any]:
    """The scale of a heat map, for whole numbers."""
    words = {"title": {"text": title, "side": "right"}, "tickformat": ",d"}
    return words | {"thickness": 14, "outlinewidth": 1}


def unknown_bars(base: Sequence[str], length: Any, rows: Any, words: str, theme: Theme) -> Any:
    """Hatched stretches along rows where a value is not known."""
    return plotly().Bar(
        orientation="h",
        base=list(base),
        x=list(length),
        y=list(rows),
        width=1,
        name=text.escaped(words),
        marker=marker(KINDS["unknown"], theme),
        hovertext=[text.hover(words)] * len(length),
        hoverinfo="text",
    )


def empty(why: str, story: Story, theme: Theme) -> Any:
    """A figure that says why there is nothing to draw."""
    note = {
        "text": text.escaped(why),
        "showarrow": False,
        "x": 0.5,
        "y": 0.5,
        "xref": "paper",
        "yref": "paper",
    }
    hidden = {"visible": False}
    story = replace(story, unknown=story.unknown or "Nothing is drawn.")
    return figure([], story, theme, 80, False, annotations=[note], xaxis=hidden, yaxis=hidden)


def plotly() -> Any:
    """Plotly's figure classes: imported when the first figure is made.

    Raises
    ------
    SetupError
        plotly is not installed.
    """
    try:
        import plotly.graph_objects
    except ImportError as error:
        raise SetupError("figures need plotly: pip install 'sharelag[notebook]'") from error
    return plotly.graph_objects
