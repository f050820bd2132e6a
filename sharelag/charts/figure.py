"""The frame of every figure: its finding, moment, unit, unknown values and axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from math import inf
from typing import TYPE_CHECKING, Any

import jinja2

from sharelag.charts import text
from sharelag.charts.palette import PAPER, Kind, Theme, check_theme, ladder, marker, template
from sharelag.errors import SetupError

if TYPE_CHECKING:
    from plotly.graph_objects import Figure as Figure  # for the charts
else:
    Figure = "plotly.graph_objects.Figure"  # plotly is imported when the first figure is made

#: Options of ``Plotly.newPlot``: no logo, nothing that sends data anywhere, no TeX.
CONFIG = {
    "displaylogo": False,
    "responsive": True,
    "showSendToCloud": False,
    "plotlyServerURL": "",
    "typesetMath": False,
    "modeBarButtonsToRemove": ["lasso2d", "select2d"],
}
#: Pixels of a row with a category axis, and minimum pixels of a colour bar.
_ROW, COLOUR_BAR = 26, 150
#: Pixels of a line of the title, and of the lines below it.
TITLE_LINE, FACT_LINE = 20, 16
_TITLE_WIDTH, _FACT_WIDTH = 92, 124
#: Pixels of the width that the legend is laid out for, of a character, and of a legend's symbol.
_WIDTH, _CHARACTER, _SYMBOL = 860, 7, 46
#: The axis of moments.
TIME_AXIS = {"title": {"text": "time (UTC)"}, "type": "date"}


@dataclass(frozen=True)
class Story:
    """A figure's text: plain, with names made safe by `charts.text.name`."""

    title: str  # the finding, as a sentence
    as_of: datetime | None
    unit: str  # the quantity with its unit; empty: nothing is drawn
    unknown: str = ""  # unknown values, and how they are drawn; empty: none
    facts: tuple[str, ...] = ()  # further facts, such as rows left out
    simulated: bool = False  # without a moment

    @property
    def reading(self) -> tuple[str, ...]:
        """Lines on how to read the figure, without its moment and unknown values."""
        first = f"Simulated. {self.unit}" if self.simulated else self.unit
        return (*([first] if first else []), *self.facts)

    @property
    def lines(self) -> tuple[str, ...]:
        """All lines below the title."""
        when = "Simulated." if self.simulated else f"As of {text.moment(self.as_of)}."
        return (f"{when} {self.unit}".rstrip(), *filter(None, [self.unknown]), *self.facts)


def figure(
    traces: Sequence[Any],
    story: Story,
    theme: Theme,
    height: int = 320,
    legend: bool = True,
    **layout: Any,
) -> Any:
    """Return a figure with sharelag's template.

    ``height`` is that of the plot area in pixels, without titles and axes. ``layout.meta`` has the
    story as plain text for screen readers, and in parts for pages that show moment and unknown
    values once for many figures.
    """
    check_theme(theme)
    title = text.lines_of(story.title, _TITLE_WIDTH)
    facts = [line for fact in story.lines for line in text.lines_of(fact, _FACT_WIDTH)]
    top = 34 + TITLE_LINE * len(title) + FACT_LINE * len(facts)
    top += _legend_height(traces, layout) if legend else 0
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
        # In case a page has another template, whose legend would cover a colour bar.
        "legend": template(theme)["layout"]["legend"],
        "meta": {
            "title": story.title,
            "facts": list(story.lines),
            "as_of": None if story.as_of is None else story.as_of.timestamp() * 1000,
            "reading": list(story.reading),
            "unknown": story.unknown,
        },
    }
    # In one call: updating an existing layout takes plotly ten times as long, and validating every
    # part of the constant template as long again.
    return plotly().Figure(data=list(traces), layout=merge_layouts(look, layout), _validate=False)


def row_figure(
    traces: Sequence[Any],
    story: Story,
    theme: Theme,
    labels: Sequence[str],
    xaxis: Mapping[str, Any],
    rows: str = "",
    **layout: Any,
) -> Any:
    """Return a figure with one labelled row per item, the first on top.

    Labels are as for `label_axis`, and ``rows`` is the title of their axis. In the layout,
    ``least`` is the minimum height of the rows in pixels, ``lines`` the number of bars in a row,
    and ``yaxis`` extends that of the rows.
    """
    down = label_axis(labels, rows) | {"range": [len(labels) - 0.5, -0.5]}
    lines, least = layout.pop("lines", 1), layout.pop("least", 2 * _ROW)
    height = max(len(labels) * lines * _ROW, least) + 20
    down |= layout.pop("yaxis", {})
    return figure(traces, story, theme, height, xaxis=dict(xaxis), yaxis=down, **layout)


def empty(why: str, story: Story, theme: Theme) -> Any:
    """Return a figure that says why there is nothing to draw."""
    place = {"x": 0.5, "y": 0.5, "xref": "paper", "yref": "paper", "showarrow": False}
    words = place | {"text": text.escape(why)}
    hidden = {"visible": False}
    story = replace(story, unknown=story.unknown or "Nothing is drawn.")
    return figure([], story, theme, 80, False, annotations=[words], xaxis=hidden, yaxis=hidden)


def label_axis(labels: Sequence[str], title: str) -> dict[str, Any]:
    """Return an axis of unescaped labels, each at its index.

    Labels are placed by index because two shortened names may be equal.
    """
    return {
        "tickvals": list(range(len(labels))),
        "ticktext": [text.escape(label) for label in labels],
        "range": [-0.5, len(labels) - 0.5],
        "title": {"text": title},
        "showgrid": False,
        "zeroline": False,
    }


def axis(title: str, most: float = inf, **look: Any) -> dict[str, Any]:
    """Return a numeric axis that starts at 0; few things, ``most`` of them, have no halves."""
    whole = {"dtick": 1} if most < 5 else {}
    return {"title": {"text": title}, "rangemode": "tozero"} | whole | look


def hovers(lines: Iterable[Iterable[str]]) -> dict[str, Any]:
    """Return the hover text of each point as arguments of a trace."""
    return {"hovertext": [text.hover(*some) for some in lines], "hoverinfo": "text"}


def bar(kind: Kind, theme: Theme, lines: Iterable[Iterable[str]], **look: Any) -> Any:
    """Return bars in the look of their kind, with hover text."""
    look = {"name": kind.words, "marker": marker(kind, theme)} | look
    return plotly().Bar(**look, **hovers(lines))


def note(x: Any, row: float, words: str, shift: int = 4) -> dict[str, Any]:
    """Return an annotation in a row, in place of a mark or beside one."""
    look = {"showarrow": False, "xanchor": "left", "xshift": shift}
    return look | {"x": x, "y": row, "text": text.escape(words)}


def interval(below: Sequence[float], above: Sequence[float], look: dict[str, Any]) -> Any:
    """Return error bars from the lengths of intervals to both sides."""
    sides = {"array": list(above), "arrayminus": list(below)}
    return {"type": "data", "symmetric": False, **sides, **look}


def heat_map(values: list[list[float | None]], theme: Theme, title: str, **look: Any) -> Any:
    """Return a heat map of integers from 0 on, with its colour bar at the right."""
    known = [value for row in values for value in row if value is not None]
    scale = {"title": {"text": title, "side": "right"}, "tickformat": ",d"}
    return plotly().Heatmap(
        z=values,
        y=list(range(len(values))),
        hoverinfo="text",
        colorscale=ladder(theme),
        zmin=0,
        zmax=max([*known, 1]),
        colorbar=scale | {"thickness": 14, "outlinewidth": 1},
        **look,
    )


def shade(begin: str, end: str, colour: str, opacity: float) -> dict[str, Any]:
    """Return a coloured span of time, as high as the figure and below all traces."""
    look = {"type": "rect", "yref": "paper", "y0": 0, "y1": 1, "layer": "below"}
    look |= {"opacity": opacity, "line": {"width": 0}, "fillcolor": colour}
    return look | {"x0": begin, "x1": end}


def merge_layouts(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two layouts recursively; the second takes precedence."""
    both = dict(below)
    for name, value in above.items():
        is_deep = isinstance(value, Mapping) and isinstance(both.get(name), Mapping)
        both[name] = merge_layouts(both[name], value) if is_deep else value
    return both


def plotly() -> Any:
    """Return plotly's figure classes, imported when the first figure is made."""
    try:
        import plotly.graph_objects
    except ImportError as error:
        raise SetupError("figures need plotly: pip install 'sharelag[notebook]'") from error
    return plotly.graph_objects


@cache
def _whole_template(theme: Theme) -> Any:
    """Return sharelag's template over plotly's default one."""
    drawn = plotly().Figure(layout={"template": "plotly"})
    drawn.update_layout(template=template(theme))
    return drawn.layout.template


def _legend_height(traces: Sequence[Any], layout: dict[str, Any]) -> int:
    """Return the height of the legend, whose entries wrap into columns."""
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


# plotly escapes what it writes into a script; everything else is escaped here.
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline';
  img-src data: blob:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>:root { color-scheme: {{ theme }}; }
body { margin: 0 auto; max-width: 72rem; padding: 1rem; color: {{ paper.ink }};
  background: {{ paper.paper }};
font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; }
figure { margin: 0 0 1.5rem; overflow-x: auto; } figure > div { min-width: 900px; }</style>
<script>{{ script|safe }}</script></head>
<body><h1><bdi>{{ title }}</bdi></h1>
{% for label, drawn in charts %}<figure role="figure" aria-label="{{ label }}">
{{ drawn|safe }}</figure>
{% endfor %}</body></html>
"""


def to_html(figures: Sequence[Any], title: str, theme: Theme = "light") -> str:
    """Return figures as a page.

    Parameters
    ----------
    figures : sequence of plotly.graph_objects.Figure
        Figures of this package, in the same theme.
    title : str
    theme : {"light", "dark"}

    Returns
    -------
    str
        A complete HTML document that includes plotly's script (5 MB) and needs no network.
    """
    plotly()
    from plotly.io import to_html as write
    from plotly.offline import get_plotlyjs

    plain = {"include_plotlyjs": False, "include_mathjax": False, "full_html": False}
    drawn = [
        (
            " ".join([figure.layout.meta["title"], *figure.layout.meta["facts"]]),
            write(figure, config=CONFIG, div_id=f"chart-{number}", **plain),
        )
        for number, figure in enumerate(figures)
    ]
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(_PAGE).render(
        title=title,
        theme=theme,
        paper=PAPER[check_theme(theme)],
        charts=drawn,
        script=get_plotlyjs(),
    )
