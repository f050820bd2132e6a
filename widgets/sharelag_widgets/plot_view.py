"""Plotly figures in a notebook, without five megabytes per instance.

`plotly.graph_objects.FigureWidget` carries plotly.js in every instance and does not save its
figure. Here plotly.js is sent once per page, when the first figure requests it; a figure's arrays
are sent as bytes, the rest of it as JSON.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

import numpy as np
import traitlets
from jinja2.filters import do_striptags

from sharelag.errors import InputError, SetupError

from . import still
from .bundle import script, style
from .columns import Column, pack
from .view import Selection, View, key_text


class PlotView(View):
    """A plotly figure in the theme of the page, readable as a table.

    Points may have keys of share partitions in their ``customdata`` (tuples, the values of the
    selection's columns), which picking a point picks. With ``times=True`` x is time, and picking a
    point picks its moment.

    Parameters
    ----------
    figure : plotly.graph_objects.Figure or mapping
    alt : str
        Text alternative of the figure, in a sentence. Default: its title.
    times : bool
    selection : Selection, optional
    title : str
        A heading above the figure, in addition to the title in its layout.
    dark : plotly.graph_objects.Figure or mapping, optional
        The figure for a dark page, with its own colours. `PlotView.of` makes both.
    """

    _esm = script("plot_view.js")
    _css = style("plot_view.css")

    alt = traitlets.Unicode("").tag(sync=True)
    times = traitlets.Bool(False).tag(sync=True)
    drawing = traitlets.Unicode("").tag(sync=True)  # an image until plotly has loaded
    #: Keys of the picked points as JSON texts, and the moment in milliseconds.
    picked_keys = traitlets.List(traitlets.Unicode()).tag(sync=True)
    picked_moment = traitlets.Float(None, allow_none=True).tag(sync=True)

    _PICKS = ("picked_keys", "picked_moment")

    def __init__(
        self,
        figure: Any,
        *,
        alt: str = "",
        times: bool = False,
        selection: Selection | None = None,
        title: str = "",
        dark: Any = None,
    ) -> None:
        super().__init__(selection, times=times, title=title)
        self._alt, self._dark = alt, dark
        self.figure = figure
        self._hear()

    @classmethod
    def of(cls, result: Any, kind: str | None = None, **options: Any) -> PlotView:
        """Draw a chart of an answer in the colours of the page, light or dark.

        Parameters
        ----------
        result : sharelag.Result
        kind : str, optional
            One of its ``charts``. Default: the first.
        **options
            As for `PlotView`.
        """
        return cls(result.figure(kind, "light"), dark=result.figure(kind, "dark"), **options)

    @property
    def figure(self) -> Any:
        """The figure, as a new plotly figure; set it to draw another."""
        import plotly.graph_objects as go

        return go.Figure(self._given)

    @figure.setter
    def figure(self, figure: Any) -> None:
        self._figure, self._given = _plain(figure), figure
        dark, self._dark = self._dark, None  # only for the figure that it was given with
        arrays: list[bytes] = []
        specs = {"spec": _without_arrays(self._figure, arrays)}
        if dark is not None:
            specs["dark"] = _without_arrays(_plain(dark), arrays)
        words = _title(self._figure.get("layout", {}))
        drawn = bool(self._figure.get("data"))
        with self.hold_sync():
            self.note = "" if drawn else _in_words(self._figure.get("layout", {}))
            self.drawing = still.drawing(self._figure)
            self.alt = self._alt or words or self.title or "Chart"
            columns = {
                name: Column(np.zeros(1, np.int32), "text", (json.dumps(spec),))
                for name, spec in specs.items()
            }
            columns |= {
                str(n): Column(np.frombuffer(array, np.uint8)) for n, array in enumerate(arrays)
            }
            self.data = pack(columns) if drawn else b""

    @property
    def rows(self) -> Any:
        """The figure, under the name that all views share."""
        return self.figure

    def summary(self) -> str:
        """Return the text of the figure in a sentence, with the names in its legend."""
        names = [trace.get("name") for trace in self._figure.get("data", [])]
        # distinct, in order
        named = dict.fromkeys(_plain_text(str(name)) for name in names if name)
        return self.note or ": ".join(filter(None, [self.alt, ", ".join(named)]))

    def still(self, title: str = "") -> str:
        """Return the figure as HTML, with a sentence and an image."""
        return still.picture(title, self.drawing, self.summary())

    def _picked(self, trait: str) -> dict[str, Any]:
        if trait == "picked_keys":
            return {"keys": tuple(tuple(json.loads(key)) for key in self.picked_keys)}
        moment = self.picked_moment
        return {"moment": None if moment is None else datetime.fromtimestamp(moment / 1000, UTC)}

    def _show(self, selection: Selection) -> None:
        self.picked_keys = [key_text(key) for key in selection.keys]
        self.picked_moment = (
            None if selection.moment is None else selection.moment.timestamp() * 1000
        )

    def _answer(self, message: Mapping[str, Any]) -> None:
        super()._answer(message)
        if message.get("want") == "plotly":
            self.send({"plotly": True}, [_plotly_js()])


@cache
def _plotly_js() -> bytes:
    from plotly.offline import get_plotlyjs

    return gzip.compress(get_plotlyjs().encode(), 6, mtime=0)


def _plain(figure: Any) -> dict[str, Any]:
    """Return the figure in JSON form, with arrays as plotly writes them: base64 with a type."""
    if not isinstance(figure, Mapping) and not hasattr(figure, "to_plotly_json"):
        raise InputError(
            f"{type(figure).__name__} is not a plotly figure: give a plotly.graph_objects.Figure "
            "or its dict"
        )
    try:
        from plotly.io import to_json
    except ImportError as missing:
        raise SetupError("charts need plotly: pip install 'sharelag[notebook]'") from missing
    found: dict[str, Any] = json.loads(to_json(figure, validate=False))
    return found


def _title(layout: Mapping[str, Any]) -> str:
    title, meta = layout.get("title", {}), layout.get("meta", {})
    if isinstance(meta, Mapping) and "title" in meta:
        return str(meta["title"])  # sharelag's figures have it as plain text
    return _plain_text(str(title.get("text", "") if isinstance(title, Mapping) else title))


def _in_words(layout: Mapping[str, Any]) -> str:
    """Return the text of a figure without traces, for sharelag's figures the reason."""
    meta = layout.get("meta")
    facts = meta.get("facts", []) if isinstance(meta, Mapping) else []
    if not facts:
        return "There is nothing to draw: the figure has no traces."
    return " ".join([f"{_title(layout)}.", *map(str, facts)])


def _plain_text(text: str) -> str:
    return do_striptags(text.replace("<br>", " "))


def _without_arrays(node: Any, arrays: list[bytes]) -> Any:
    """Replace every base64 array of a figure by its index in ``arrays``."""
    if isinstance(node, Mapping):
        if "bdata" in node and "dtype" in node:
            arrays.append(base64.b64decode(node["bdata"]))
            return {"dtype": node["dtype"], "shape": node.get("shape"), "array": len(arrays) - 1}
        return {name: _without_arrays(value, arrays) for name, value in node.items()}
    is_list = isinstance(node, list | tuple)
    return [_without_arrays(item, arrays) for item in node] if is_list else node
