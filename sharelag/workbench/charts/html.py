"""Figures as one HTML file that opens with the network off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jinja2

from sharelag.workbench.charts.layout import CONFIG, plotly
from sharelag.workbench.charts.palette import PAPER, Theme, checked

# plotly escapes what it writes into a script; all else is escaped here.
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
h1 { font-size: 1.4rem; overflow-wrap: anywhere; } figure { margin: 0 0 1.5rem; }</style>
<script>{{ script|safe }}</script></head>
<body><h1><bdi>{{ title }}</bdi></h1>
{% for label, drawn in charts %}<figure role="figure" aria-label="{{ label }}">
{{ drawn|safe }}</figure>
{% endfor %}</body></html>
"""


def to_html(figures: Sequence[Any], title: str, theme: Theme = "light") -> str:
    """Write figures as a page.

    Parameters
    ----------
    figures : sequence of plotly.graph_objects.Figure
        As the figure functions of this package make them, in the same theme.
    title : str
    theme : {"light", "dark"}

    Returns
    -------
    str
        A whole HTML document with plotly's script in it (5 MB), which asks the network for nothing.
    """
    plotly()
    from plotly.io import to_html as one
    from plotly.offline import get_plotlyjs

    drawn = [
        one(
            figure,
            config=CONFIG,
            include_plotlyjs=False,
            include_mathjax=False,
            full_html=False,
            div_id=f"chart-{number}",
        )
        for number, figure in enumerate(figures)
    ]
    labels = [
        " ".join([figure.layout.meta["title"], *figure.layout.meta["facts"]]) for figure in figures
    ]
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(_PAGE).render(
        title=title,
        theme=theme,
        paper=PAPER[checked(theme)],
        charts=list(zip(labels, drawn, strict=True)),
        script=get_plotlyjs(),
    )
