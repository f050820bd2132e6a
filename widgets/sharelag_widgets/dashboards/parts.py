"""Parts of dashboards: charts and tables with a heading and a definition, and choices."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import ipywidgets as W  # noqa: N812
import pyarrow as pa

from sharelag import schemas
from sharelag.charts.figure import FACT_LINE, TITLE_LINE, merge_layouts
from sharelag.metrics.holders import holder_lines
from sharelag.tables.declared import meanings_of, units_in_words
from sharelag.workbench import Result, Workbench
from sharelag.workbench.opened import delivery_limit, worst_first

from ..lag_table import LagTable
from ..partition_grid import PartitionGrid
from ..plot_view import PlotView
from ..selection import Selection
from ..view import View
from ..window_strip import WindowStrip
from .pieces import Header

#: How a figure begins to say what it does not know.
_NOT_KNOWN = "Not known: "
#: Pixels below a chart that the line under it has room for; plotly takes more for long labels.
_SPARED = 20
#: Pixels above a chart's title, but for a few.
_TITLE = 24
#: What the charts' template says of axes, but for its colours.
_AXIS = {
    "title": {"standoff": 8, "font": {"size": 12}},
    "showline": True,
    "ticks": "outside",
    "ticklen": 4,
}


class Part(W.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """One chart or table, with a heading and its definition."""

    def __init__(self, title: str, meanings: Mapping[str, str], *views: W.Widget) -> None:
        self.header = Header(title=title, help=[list(pair) for pair in meanings.items()])
        super().__init__([self.header, *views], layout=W.Layout(width="100%"))

    def wait(self, words: str) -> None:
        """Say that what it shows is on its way."""
        with self.header.hold_sync():
            self.header.busy, self.header.finding = True, ""
            self.header.facts, self.header.unknown = [words], []
        for view in self.children[1:]:
            view.layout.display = "none"

    def still(self) -> str:
        """Return its heading and its views as a saved notebook shows them, as HTML."""
        html = "".join(one.value for one in self.children[1:] if isinstance(one, W.HTML))
        return html + "".join(view.still(self.header.title) for view in self._views())

    def _views(self) -> list[View]:
        shown = self.layout.display != "none"
        return [view for view in self.children[1:] if shown and isinstance(view, View)]

    @property
    def unknown(self) -> list[str]:
        """What is not known of what it shows."""
        return list(self.header.unknown)


class ChartPart(Part):
    """A chart; what its figure says in words stands above it.

    Its moment stands there only where it is not the dashboard's; what is unknown stands in the
    dashboard's header or, with ``says_gaps``, above the chart.
    """

    def __init__(
        self,
        title: str,
        meanings: Mapping[str, str],
        selection: Selection | None = None,
        times: bool = False,
        says_gaps: bool = False,
    ) -> None:
        self._says_gaps = says_gaps
        self.view = PlotView({}, alt=title, times=times, selection=selection)
        super().__init__(title, meanings, self.view)

    def draw(self, figure: Any) -> None:
        """Show a chart; what it says in words stands above it, where it wraps at any width."""
        meta = figure.layout.meta or {}
        with self.header.hold_sync():
            self.header.busy = False
            self.header.finding = meta.get("title", "")
            self.header.as_of = meta.get("as_of")
            said = meta.get("unknown", "")
            gaps = [said.removeprefix(_NOT_KNOWN)] if _NOT_KNOWN in said else []
            here = [f"Not drawn: {one}" for one in gaps if self._says_gaps]
            self.header.facts = [*meta.get("reading", []), *here]
            self.header.unknown = [] if here else gaps
        self.view._alt = meta.get("title", "")
        # The view brings its own template; where things stand is the chart's matter.
        given = figure.to_plotly_json()
        layout = given["layout"]
        _without_words(layout)
        below = {"legend": layout["template"]["layout"]["legend"]}
        below |= {name: _AXIS for name in layout if name.startswith(("xaxis", "yaxis"))}
        self.view.figure = given | {"layout": merge_layouts(below, layout)}
        # What has nothing to draw is a sentence, and no empty chart.
        self.view.layout.display = None if figure.data else "none"
        if not figure.data:
            self.view.note = " ".join(html.unescape(one.text) for one in figure.layout.annotations)
            self.header.facts = [f"{self.view.note}.", *self.header.facts]

    @property
    def unknown(self) -> list[str]:
        """As the figure says it, with the name of the part: the header says it for all parts."""
        return [f"in {self.header.title!r}: {one.removesuffix('.')}" for one in self.header.unknown]


class TablePart(Part):
    """A table of a result; what its name says already (``without``) is not among its columns.

    With ``narrows``, what is picked elsewhere hides all other rows; ``folded``, ``dense`` and
    ``optional`` are those of `LagTable`.
    """

    def __init__(
        self,
        title: str,
        selection: Selection,
        meanings: Mapping[str, str] | None = None,
        without: Sequence[str] = (),
        narrows: bool = True,
        folded: Mapping[str, str] | None = None,
        dense: bool = False,
        optional: Sequence[str] = (),
    ) -> None:
        self._selection, self._without, self._narrows = selection, without, narrows
        self._folded, self._dense, self._optional = dict(folded or {}), dense, list(optional)
        self.view: LagTable | None = None
        self._slot = W.VBox([], layout=W.Layout(width="100%"))
        super().__init__(title, meanings or {}, self._slot)

    def fill(
        self, result: Result, rows: pa.Table | None = None, columns: Sequence[str] = ()
    ) -> None:
        """Show a result, or some of its rows and columns."""
        table = result.table if rows is None else rows
        wanted = columns or [name for name in result.columns.values() if name not in self._without]
        names = [name for name in wanted if name in table.schema.names]
        own = {name: meaning for name, meaning in result.means.items() if name in names}
        self.header.tell(
            *(result.as_of, result.unknown, result.notes),
            *(meanings_of(names) | own, units_in_words(names)),
        )
        shown = table.select(dict.fromkeys([*self._selection.columns, *names]))
        self._put(shown, names, result.order if result.order in names else "")

    def show(self, rows: pa.Table, meanings: Mapping[str, str], notes: Sequence[str] = ()) -> None:
        """Show rows that have no moment."""
        self.header.tell(None, notes=notes, meanings=meanings)
        self._put(rows, rows.column_names, "")

    def _put(self, rows: pa.Table, names: list[str], order: str) -> None:
        if self.view is not None and self.view.names == names:
            self.view.rows = rows
            self.view.hints = self._hints()
            return
        of = self._selection
        view = LagTable.of(rows, columns=names, keys=of.columns, sort=order, selection=of, title="")
        view.hints, view.narrows, view.folded = self._hints(), self._narrows, self._folded
        view.dense, view.optional = self._dense, self._optional
        self.view = view
        put(self._slot, view)

    def _views(self) -> list[View]:
        return [] if self.view is None else [self.view]

    def _hints(self) -> dict[str, str]:
        """Return the meanings in the heading's help, for who points at a column."""
        return dict(self.header.help)


class StripPart(Part):
    """The windows of a group at many moments; the view stays when they are read again."""

    def __init__(self, title: str, meanings: Mapping[str, str], selection: Selection) -> None:
        self.view = WindowStrip.of(schemas.WINDOWS.empty_table(), selection=selection, title="")
        super().__init__(title, meanings, W.VBox([self.view], layout=W.Layout(width="100%")))
        self.add_class("sharelag-row")  # the more offsets side by side, the better

    def show(self, bench: Workbench, group: str) -> None:
        """Show a group, first the share partition that its first cause names."""
        evidence = bench.evidence(group)
        moments = worst_first(bench.moments(group).table, evidence, group)
        held = holder_lines(evidence.lag, evidence.holders)
        self.fill(moments, bench.lag(group).table, delivery_limit(evidence.settings, group), held)

    def fill(
        self, moments: pa.Table, lag: pa.Table, limit: int | None, held: Sequence[str] = ()
    ) -> None:
        """Show windows, the first share partition first, with log ends from a lag table.

        ``held`` says who holds offsets, where that is known.
        """
        self.header.tell(None, (), held)
        self.header.busy, self.header.facts = False, []
        self.children[1].layout.display = None
        self.view.limit = limit
        self.view.fill(moments, ends=lag)


def show_known(grid: PartitionGrid, rows: pa.Table, measures: Iterable[str]) -> None:
    """Show other rows in a grid, by those of the measures that are known of any."""
    grid.measures = [name for name in measures if rows.column(name).null_count < len(rows)]
    if grid.measure not in grid.measures:
        grid.measure = next(iter(grid.measures), "")
    grid.rows = rows


def _without_words(layout: dict[str, Any]) -> None:
    """Take the title with all below it away, and the room that it had."""
    title = layout.pop("title")
    lines = [words.count("<br>") + 1 for words in (title["text"], title["subtitle"]["text"])]
    spared = {"t": _TITLE + lines[0] * TITLE_LINE + lines[1] * FACT_LINE, "b": _SPARED}
    for side, pixels in spared.items():
        layout["margin"][side] -= pixels
        layout["height"] -= pixels


def put(slot: W.Box, view: W.Widget) -> None:
    """Show another view in a place; the one before it is gone."""
    old, slot.children = slot.children, [view]
    for one in old:
        one.close()


def choice(
    words: str, options: Iterable[Any], act: Callable[..., Any], value: Any = None
) -> W.Dropdown:
    """Return a choice of one; ``act`` is called when it changes."""
    made = W.Dropdown(
        description=words,
        options=list(options),
        style={"description_width": "initial"},
        layout=W.Layout(width="auto"),
    )
    if value is not None:
        made.value = value
    made.observe(act, names=["value"])
    return made
