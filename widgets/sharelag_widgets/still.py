"""Static tables and pictures of views, for saved notebooks without kernel or scripts.

Sites that show notebooks (GitHub, nbconvert) keep images and tables but drop scripts and inline
SVG, so a chart is an image whose source is an SVG.

It is a second output below the view, because nbconvert and JupyterLab prefer the view if the
widgets' state is saved, and show nothing if they cannot render it. A class of the view hides the
picture in pages that show the view.
"""

from __future__ import annotations

import base64
import html
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from IPython import get_ipython
from IPython.display import publish_display_data
from ipywidgets import DOMWidget
from ipywidgets.widgets.widget import _instances
from jinja2.filters import do_striptags

from sharelag.tables import render
from sharelag.tables.declared import heading_of
from sharelag.tables.presentation import Presentation
from sharelag.tables.words import THOUSANDS, number

#: Pixels of a picture: width, default height, x axis, and a line of the legend.
_WIDTH, _HIGH, _BELOW, _LINE = 760, 300, 28, 18
#: Approximate width of a letter in pixels, and maximum letters of a row's name.
_LETTER, _LETTERS = 7, 28
#: Maximum number of points of a line.
_MOST = 200
_COLOURS = ("#0F5C9C", "#B35900", "#00785A", "#8A2E6B", "#4A1A5C", "#5A5F6B")

#: IPython has no types for this.
_publish: Any = publish_display_data
_VIEW = "application/vnd.jupyter.widget-view+json"
#: The picture stays hidden while the view loads. Without a kernel, JupyterLab's loading message
#: would stay forever, so it is hidden. In its dark theme, pictures are dark, too.
#: Within `:has`, `*` and `:not` let browsers find styles of a whole page anew for any new element.
_STYLE = """<style>
:root:has(.{live}) .{still} {{ display: none; }}
@media screen {{ .{still} {{ animation: sharelag-late 3s step-end; }} }}
:root:not(:has(.{live}))
  .jp-OutputArea-child:has(> .lm-Panel):not(:has(> .jupyter-widgets)):has(
    + .jp-OutputArea-child .{still}
  ) {{ display: none; }}
[data-jp-theme-light="false"] .{still} img {{ filter: invert(.93) hue-rotate(180deg); }}
@keyframes sharelag-late {{ from {{ visibility: hidden; height: 0; overflow: hidden; }} }}
</style>"""


#: About how many items of a variable are searched for views, as it may have millions.
_MOST_ITEMS = 1_000
#: Views by the id of the cell that shows them, and of the request that ran the cell.
_SHOWN: dict[str, dict[str, list[DOMWidget]]] = {}


def is_of_voila() -> bool:
    """Return whether this process is a Voila kernel, whose pages stay live."""
    return "VOILA_KERNEL_ID" in os.environ


def show(view: DOMWidget) -> None:
    """Show a view, followed by its static replacement, until the cell runs again without it."""
    cell, run = _running()
    if cell:
        get_ipython().events.register("post_run_cell", _close_former)  # only once
        _SHOWN.setdefault(cell, {}).setdefault(run, []).append(view)
    data, metadata = view._repr_mimebundle_()
    if is_of_voila() or _VIEW not in data:
        _publish(data, metadata)
        return
    live, still = (f"sharelag-{kind}-{view.model_id}" for kind in ("live", "still"))
    view.add_class(live)
    style = _STYLE.format(live=live, still=still)
    pictures = f'{style}<div class="{still}">{data["text/html"]}</div>'
    # Empty, so that nbconvert has an output if no state is saved.
    _publish({_VIEW: data[_VIEW], "text/html": ""}, metadata)
    forms = {"text/plain": data["text/plain"], "text/html": pictures}
    _publish(forms, {"sharelag": "still"})


def _running() -> tuple[str, str]:
    """Return the ids of the cell that runs and of its request; empty where pages send none."""
    request = getattr(get_ipython(), "get_parent", dict[str, Any])()
    cell = request.get("metadata", {}).get("cellId", "")
    return cell, request.get("header", {}).get("msg_id", "")


def _close_former(_: Any) -> None:
    """Close what a cell showed when it ran before, unless something else shows or holds it.

    Its page shows it no more, but it would be saved with the notebook, and IPython's ``Out`` keeps
    it in the kernel. A view stays open if another cell or open widget shows it or a part of it,
    or if a variable has either, itself or in lists, tuples, sets and dicts, nested or not, of about
    1,000 items in all. Larger ones, other objects and functions that have it do not count.
    """
    cell, run = _running()
    former = _SHOWN.pop(cell, {})
    if shown := former.pop(run, []):
        _SHOWN[cell] = {run: shown}
    views = [*chain(*former.values())]
    if not views:
        return
    parts = {id(part): part for part in _with_parts(views)}
    shell = get_ipython()
    names = shell.user_ns.copy()  # as other threads may set variables
    named = (value for name, value in names.items() if name not in shell.user_ns_hidden)
    others = (_parts(one) for one in [*_instances.values()] if id(one) not in parts)
    found = chain.from_iterable(chain(map(_with_items, chain(named, _SHOWN.values())), others))
    kept = {id(one) for one in _with_parts(parts[id(one)] for one in found if id(one) in parts)}
    for view in views:
        if kept.isdisjoint(map(id, _with_parts([view]))):
            view.close()


def _parts(widget: Any) -> Sequence[Any]:
    """Return the children of a widget."""
    children = getattr(widget, "children", ())
    return children if isinstance(children, list | tuple) else ()


def _with_parts(widgets: Iterable[Any]) -> Iterator[Any]:
    """Yield widgets, their children, and those of the children."""
    for widget in widgets:
        yield widget
        yield from _with_parts(_parts(widget))


def _with_items(value: Any) -> list[Any]:
    """Return a value and, if it is a collection, its items and theirs, up to a number."""
    found, seen = [value], set[int]()
    for one in found:
        is_collection = isinstance(one, list | tuple | set | dict)
        if is_collection and len(found) + len(one) <= _MOST_ITEMS and id(one) not in seen:
            seen.add(id(one))
            # Copied at once, as other threads may change it.
            found += [*one, *one.values()] if isinstance(one, dict) else list(one)
    return found


def words(text: str, title: str = "") -> str:
    """Return a title and a sentence as HTML."""
    head = f"<p><strong>{html.escape(title)}</strong></p>" if title else ""
    return f"{head}<p>{html.escape(text)}</p>"


def table(
    title: str,
    rows: pa.Table,
    names: Sequence[str],
    order: str = "",
    means: Mapping[str, str] | None = None,
) -> str:
    """Return the rows of a table with the largest ``order`` as escaped HTML.

    ``means`` has meanings of columns that differ from the declared ones.
    """
    columns = {heading_of(name): name for name in names}
    by = order if order in names else ""
    shown = Presentation(title or "Rows", "", rows, columns, "", order=by, means=means or {})
    return render.as_html(shown)


def picture(title: str, source: str, alt: str) -> str:
    """Return an image with its text as HTML; only the text without an image."""
    image = f'<img alt="{html.escape(alt)}" src="{source}">' if source else ""
    return words(alt, title) + image


def drawing(figure: Mapping[str, Any]) -> str:
    """Draw the lines and bars of a figure in JSON form as the source of an image.

    Empty if it has neither.
    """
    layout, series = figure.get("layout", {}), list(_series_of(figure.get("data", [])))
    if not series:
        return ""
    axes = {one.up: layout.get(f"yaxis{one.up[1:]}", {}) for one in series}
    names = [text for axis in axes.values() for text in _names(axis)[1]]
    left = 20 + _LETTER * max(8, *map(len, names)) if names else 70
    legend, high = _legend(series), layout.get("height") or _HIGH
    above = 8 + _LINE * len(legend)
    across = _reach(layout.get("xaxis", {}), [one.x for one in series])
    to_x, drawn = _scale(across, left, _WIDTH - 16), list[str]()
    for name, axis in axes.items():
        mine = [one for one in series if one.up == name]
        up = _reach(axis, [one.y for one in mine] + [np.zeros(1)])
        domain = np.array(axis.get("domain", (0, 1)))
        top, bottom = (high - _BELOW - above) * (1 - domain)[::-1] + above
        to_y = _scale(up, bottom, top)
        drawn += _frame(axis, left, (top, bottom), up, to_y)
        for one in mine:
            drawn += (_bars if one.trace.get("type") == "bar" else _line)(one, to_x, to_y)
    drawn += _ends(layout.get("xaxis", {}), across, series[0].trace.get("x"), left, high - 10)
    for row, line in enumerate(legend):
        at, middle = 0, 9 + _LINE * row
        for name, colour in line:
            box = f'<rect x="{at}" y="{middle - 5}" width="10" height="10" fill="{colour}"/>'
            drawn += [box, f'<text x="{at + 14}" y="{middle + 4}">{name}</text>']
            at += _width_of(name)
    size = f'width="{_WIDTH}" height="{high}" viewBox="0 0 {_WIDTH} {high}"'
    paper = f'<rect width="{_WIDTH}" height="{high}" fill="#fff"/>'
    font = 'font-family="sans-serif" font-size="12" fill="#1c2330"'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>{paper}{"".join(drawn)}</svg>'
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


class _Series(NamedTuple):
    trace: Mapping[str, Any]
    x: Any
    y: Any
    colour: str
    up: str  # its y axis


def _series_of(traces: Sequence[Mapping[str, Any]]) -> Iterator[_Series]:
    count = 0
    for trace in traces:
        x, y = _values(trace.get("x")), _values(trace.get("y"))
        is_drawn = trace.get("type", "scatter") in ("scatter", "bar")
        if is_drawn and "lines" in trace.get("mode", "lines") and len(x):
            yield _Series(trace, x, y, _colour(trace, count), trace.get("yaxis", "y"))
            count += 1


def _names(axis: Mapping[str, Any]) -> tuple[Any, list[str]]:
    """Return the positions of an axis's names, and the names, shortened."""
    texts = [html.unescape(do_striptags(str(text))) for text in axis.get("ticktext") or ()]
    cut = [text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…" for text in texts]
    return axis.get("tickvals") or (), cut


def _legend(series: Sequence[_Series]) -> list[list[tuple[str, str]]]:
    """Return the legend's names and colours by line, as far as they fit; none for one colour."""
    named = {_plain(one.trace.get("name") or ""): one.colour for one in series}
    named.pop("", None)
    lines, room = list[list[tuple[str, str]]](), 0
    for name, colour in named.items() if len({*named.values()}) > 1 else ():
        takes = _width_of(name)
        if takes > room:
            lines.append([])
            room = _WIDTH
        lines[-1].append((name, colour))
        room -= takes
    return lines


def _width_of(name: str) -> int:
    return 30 + _LETTER * len(html.unescape(name))


def _scale(ends: tuple[float, float], begin: float, stop: float) -> Callable[[Any], Any]:
    """Return a function from values between ``ends`` to pixels."""
    low, high = ends
    return lambda value: begin + (value - low) / (high - low) * (stop - begin)


def _values(given: Any) -> Any:
    """Return values as numbers: moments in milliseconds, and names by index."""
    if isinstance(given, Mapping):
        flat = np.frombuffer(base64.b64decode(given["bdata"]), given["dtype"])
        return flat.astype(float)
    listed = list(given or [])
    if any(isinstance(one, str) for one in listed):
        import pandas as pd

        moments = pd.to_datetime(listed, utc=True, errors="coerce", format="ISO8601")
        known = moments.notna()
        if not known.any():
            return np.arange(len(listed), dtype=float)
        return np.where(known, moments.as_unit("ms").asi8, np.nan)
    return np.array([np.nan if one is None else one for one in listed], float)


def _reach(axis: Mapping[str, Any], values: Sequence[Any]) -> tuple[float, float]:
    known = np.concatenate([_values(axis.get("range") or []), *values])
    if axis.get("range"):
        known = _values(axis["range"])
    known = known[np.isfinite(known)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    return low, high if high > low else low + 1


def _colour(trace: Mapping[str, Any], number: int) -> str:
    for part in ("line", "marker"):
        given = (trace.get(part) or {}).get("color")
        if isinstance(given, str):
            return html.escape(given)
    return _COLOURS[number % len(_COLOURS)]


def _line(series: _Series, to_x: Callable[[Any], Any], to_y: Callable[[Any], Any]) -> Iterator[str]:
    every = max(1, len(series.x) // _MOST)
    is_step = (series.trace.get("line") or {}).get("shape") == "hv"
    path, before = "", None
    for at, value in zip(to_x(series.x[::every]), to_y(series.y[::every]), strict=True):
        if not np.isfinite(value):
            before = None
            continue
        step = f"H{at:.0f}V{value:.0f}" if is_step else f"L{at:.0f} {value:.0f}"
        path += f"M{at:.0f} {value:.0f}" if before is None else step
        before = value
    yield f'<path d="{path}" fill="none" stroke="{series.colour}" stroke-width="2"/>'


def _bars(series: _Series, to_x: Callable[[Any], Any], to_y: Callable[[Any], Any]) -> Iterator[str]:
    trace, count = series.trace, len(series.x)
    if trace.get("orientation") != "h":
        return
    base = _values(trace.get("base")) if trace.get("base") is not None else np.zeros(count)
    for begin, long, row in zip(np.resize(base, count), series.x, series.y, strict=False):
        if not np.isfinite(long):
            continue
        left, right = to_x(begin), to_x(begin + long)
        up, down = sorted((to_y(row - 0.35), to_y(row + 0.35)))
        box = f'x="{left:.1f}" y="{up:.1f}" width="{max(right - left, 0):.1f}"'
        yield f'<rect {box} height="{down - up:.1f}" fill="{series.colour}"/>'


def _frame(
    axis: Mapping[str, Any], left: int, place: Any, up: Any, to_y: Callable[[Any], Any]
) -> Iterator[str]:
    """Draw a y axis: its ends, or its rows by name, and its title."""
    sides = 'y1="{:.1f}" y2="{:.1f}"'.format(*place)
    yield f'<line x1="{left}" x2="{left}" {sides} stroke="#8a93a3"/>'
    places, texts = _names(axis)
    if not texts:
        places, texts = up, [number(one, THOUSANDS) for one in up]
    for value, text in zip(_values(places), texts, strict=False):
        at = f'x="{left - 6}" y="{to_y(value) + 4:.1f}" text-anchor="end"'
        yield f"<text {at}>{html.escape(text)}</text>"
    title = (axis.get("title") or {}).get("text", "")
    yield f'<text x="{left + 6}" y="{place[0] + 12:.1f}">{_plain(title)}</text>'


def _ends(
    axis: Mapping[str, Any], across: tuple[float, float], given: Any, left: int, foot: int
) -> Iterator[str]:
    is_time = axis.get("type") == "date" or (isinstance(given, list) and isinstance(given[0], str))
    thousands = "" if axis.get("separatethousands") is False else THOUSANDS
    for end, anchor, at in zip(across, ("start", "end"), (left, _WIDTH - 16), strict=True):
        when = str(np.datetime64(int(end), "ms").astype("datetime64[s]")).replace("T", " ")
        label = f"{when} UTC" if is_time else number(end, thousands)
        yield f'<text x="{at}" y="{foot}" text-anchor="{anchor}">{label}</text>'


def _plain(text: Any) -> str:
    """Convert a text from plotly's escapes to those of SVG."""
    return html.escape(html.unescape(do_striptags(str(text))))
