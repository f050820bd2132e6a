"""Pieces of a dashboard: header, verdict, cards, fields, and parts with a chart or table."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import ipywidgets as W  # noqa: N812
import pyarrow as pa
import pyarrow.compute as pc
import traitlets

from sharelag import schemas
from sharelag.charts import text
from sharelag.charts.figure import FACT_LINE, TITLE_LINE, merge_layouts
from sharelag.errors import ShareLagError, first_line, list_names
from sharelag.metrics.holders import holder_lines
from sharelag.tables.declared import meanings_of, units_in_words
from sharelag.tables.words import moment, pluralize, spell_out
from sharelag.workbench import Result, Workbench
from sharelag.workbench.base import delivery_limit, worst_first
from sharelag.workbench.next_steps import input_options, next_command

from .. import still
from ..bundle import script, style
from ..lag_table import LagTable
from ..partition_grid import PartitionGrid
from ..plot_view import PlotView
from ..view import Heard, Selection, View, in_other_forms
from ..window_strip import WindowStrip


class Piece(Heard):
    """A view with a textual form outside of pages."""

    def _words(self) -> str:
        raise NotImplementedError

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return in_other_forms(super()._repr_mimebundle_(**options), plain=self._words())


def words_of(error: BaseException) -> str:
    """Return an error as one line without a stack trace."""
    if isinstance(error, ShareLagError):
        return str(error)
    return f"unexpected {type(error).__name__}: {first_line(error)}; please report it"


class Header(Piece):
    """A title with its moment, age, help that opens by keyboard, and error.

    The browser's clock updates the age, so a dashboard without refreshes visibly becomes stale.
    """

    _esm = script("dashboards/header.js")
    _css = style("shared/board.css", "dashboards/header.css")

    title = traitlets.Unicode("").tag(sync=True)
    level = traitlets.Int(3).tag(sync=True)  # of the heading: 2 above a dashboard, 3 above a part
    as_of = traitlets.Float(None, allow_none=True).tag(sync=True)  # milliseconds
    # of a part: the moment of the dashboard's header; the part's own is shown only if it differs
    above = traitlets.Float(None, allow_none=True).tag(sync=True)
    units = traitlets.Unicode("").tag(sync=True)
    source = traitlets.Unicode("").tag(sync=True)  # short name; empty: in the title
    about = traitlets.Unicode("").tag(sync=True)  # the source in full
    # pairs of a term and its meaning
    help: traitlets.List[list[str]] = traitlets.List().tag(sync=True)
    unknown = traitlets.List(traitlets.Unicode()).tag(sync=True)
    finding = traitlets.Unicode("").tag(sync=True)  # the finding of a chart, as a sentence
    facts = traitlets.List(traitlets.Unicode()).tag(sync=True)  # how to read the chart
    notes = traitlets.List(traitlets.Unicode()).tag(sync=True)
    failure = traitlets.Unicode("").tag(sync=True)
    code = traitlets.Unicode("").tag(sync=True)  # Python for the selection
    names = traitlets.Unicode("").tag(sync=True)  # the line that defines its variables
    busy = traitlets.Bool(False).tag(sync=True)
    # whether a moment before the last is shown
    earlier = traitlets.Bool(False).tag(sync=True)
    live = traitlets.Bool(False).tag(sync=True)  # whether reading again can change the answers
    # seconds between refreshes while the page is visible; 0: manual only
    every = traitlets.Float(0).tag(sync=True)
    paused = traitlets.Bool(False).tag(sync=True)
    stale_after = traitlets.Float(120).tag(sync=True)  # seconds
    theme = traitlets.Enum(["light", "dark"], "light").tag(sync=True)  # set by the browser

    def __init__(self, refresh: Callable[[], Any] | None = None, **traits: Any) -> None:
        super().__init__(**traits)
        self.own_unknown = list(self.unknown)  # `unknown` also includes that of the parts
        self._refresh = refresh

    def tell(
        self,
        as_of: datetime | None,
        unknown: Sequence[str] = (),
        notes: Sequence[str] = (),
        meanings: Mapping[str, str] | None = None,
        units: str = "",
    ) -> None:
        """Set the texts about the content."""
        with self.hold_sync():
            self.as_of = None if as_of is None else as_of.timestamp() * 1000
            self.own_unknown = list(unknown)
            self.units, self.unknown, self.notes = units, self.own_unknown, list(notes)
            if meanings is not None:
                self.help = [[term, meaning] for term, meaning in meanings.items()]

    def _answer(self, message: Mapping[str, Any]) -> None:
        if message.get("refresh") and self._refresh is not None:
            self._refresh()

    def _words(self) -> str:
        return f"{self.title}{': ' if self.failure else ''}{self.failure}"


class Acting(Piece):
    """A sentence with buttons for ``acts``, by name; the browser copies texts."""

    sentence = traitlets.Unicode("").tag(sync=True)
    #: Pairs of a button's label or a row's name, and the text to copy.
    copies: traitlets.List[list[str]] = traitlets.List().tag(sync=True)
    busy = traitlets.Unicode("").tag(sync=True)  # current work, which disables its buttons

    def __init__(self, acts: Mapping[str, Callable[[], Any]], **traits: Any) -> None:
        super().__init__(**traits)
        self._acts = dict(acts)

    def _answer(self, message: Mapping[str, Any]) -> None:
        if act := self._acts.get(message.get("act", "")):
            act()


class Verdict(Acting):
    """A sentence with its level."""

    _esm = script("dashboards/verdict.js")
    _css = style("dashboards/verdict.css")

    level = traitlets.Unicode("").tag(sync=True)
    #: Name, label, and optionally why it cannot help, of each button.
    actions: traitlets.List[list[str]] = traitlets.List().tag(sync=True)

    def _words(self) -> str:
        return f"{self.level}: {self.sentence}" if self.level else self.sentence


class Tries(Acting):
    """Possible changes of a group, a row each, with the three numbers of their outcome.

    ``acts`` has the action of each row's button, by the row's name, and ``cancel``. The sentence
    says why nothing can be tried; ``busy`` is the label of a row.
    """

    _esm = script("dashboards/tries.js")
    _css = style("dashboards/tries.css")

    #: For each row: ``name`` (empty: as it is), ``words``, ``why`` it cannot help; after a run also
    #: ``age``, ``drains``, ``difference``, ``verdict`` and ``span``: low, mean and high.
    rows: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)
    assumed = traitlets.List(traitlets.Unicode()).tag(sync=True)  # assumptions of a simulation
    begun = traitlets.Unicode("").tag(sync=True)  # which state all of them began with

    def _words(self) -> str:
        found = [f"{row['words']}: p95 age {row['age']}" for row in self.rows if row["age"]]
        return "\n".join(filter(None, [*found, self.begun])) or self.sentence


class PeekView(Piece):
    """A button that reads one record, which is shown in the page but never saved."""

    _esm = script("dashboards/peek_view.js")
    _css = style("dashboards/peek_view.css")

    about = traitlets.Unicode("").tag(sync=True)  # the record that the button reads; empty: none

    def __init__(self, read: Callable[[], str]) -> None:
        super().__init__()
        self._read = read

    def _answer(self, message: Mapping[str, Any]) -> None:
        if not message.get("peek"):
            return
        try:
            reply = {"text": self._read()}
        except Exception as error:  # shown as a sentence
            reply = {"failure": words_of(error)}
        self.send({"peeked": reply})  # a message, because traits are saved with notebooks

    def _words(self) -> str:
        return self.about


CAUSES_HELP = {
    "cause": "what causes lag, most severe first; each with its evidence and what to do",
    "holds": "how many offsets of lag the cause explains",
    "nothing found": "no cause could be shown; with everything known, nothing is wrong",
}
#: Fields of `CauseSummary` on a card.
_CARD = ("severity", "cause", "where", "summary", "evidence", "advice")


#: Maximum number of cards, most severe first.
MOST_CARDS = 20


class CauseCards(Piece):
    """The state of a group in a sentence, and a card per cause with its what-if, worst first."""

    _esm = script("dashboards/cards.js")
    _css = style("dashboards/cards.css")

    group = traitlets.Unicode("").tag(sync=True)
    state = traitlets.Unicode("").tag(sync=True)
    #: For each cause: ``severity``, ``cause``, ``where``, ``summary``, ``evidence``, ``advice``,
    #: ``command`` (a line for a shell), ``fix`` (the what-if that fits) and ``why`` it cannot help.
    cards: traitlets.List[dict[str, str]] = traitlets.List().tag(sync=True)

    def __init__(self, fix: Callable[[str], Any] | None = None, **traits: Any) -> None:
        super().__init__(**traits)
        self._fix = fix

    def _answer(self, message: Mapping[str, Any]) -> None:
        if self._fix is not None and "fix" in message:
            self._fix(message["fix"])

    def show(
        self,
        bench: Workbench,
        group: str,
        fits: Callable[[str], tuple[str, str]] | None = None,
        later: Workbench | None = None,
    ) -> None:
        """Show the causes of a group's lag.

        ``fits`` maps a cause to its what-if, and the reason why that cannot help. ``later`` is the
        cluster as of a later moment, whose causes that had begun by then are shown, too.
        """
        explained = bench.explain(group)
        (summary,) = explained.summaries
        source = input_options(bench.source)
        known = bench.overview().table.select(["group_id", "members"]).to_pylist()
        (members,) = (row["members"] for row in known if row["group_id"] == group)
        rows = explained.table.sort_by([("rank", "ascending")]).to_pylist()
        causes = {row["cause"] for row in rows}
        begun = [] if later is None else _earlier(later, group, bench.evidence(group).as_of, causes)
        cards = [
            {name: str(getattr(words, name)) for name in _CARD}
            | {"command": next_command(row, source, members)}
            | dict(zip(("fix", "why"), fits(row["cause"]) if fits else ("", ""), strict=True))
            for words, row in zip(summary.causes[:MOST_CARDS], rows[:MOST_CARDS], strict=True)
        ]
        known_now = [f"known now: {list_names(begun)}"] if begun else []
        left = len(rows) - len(cards)
        more = [f"and {pluralize(left, 'more cause')} in bench.explain()"] if left else []
        self.tell(summary.group, "; ".join([summary.state, *known_now, *more]), cards)

    def tell(self, group: str, state: str, cards: list[dict[str, str]]) -> None:
        """Show a sentence on a group, with cards."""
        with self.hold_sync():
            self.group, self.state, self.cards = group, state, cards

    def still(self, title: str = "") -> str:
        """Return the state and a paragraph per cause as HTML for a saved notebook."""
        found = still.words(f"{self.group} {self.state}", title)
        for one in self.cards:
            evidence = f" ({one['evidence']})" if one["evidence"] else ""
            head = f"{one['severity']}: {spell_out(one['cause'])} {one['where']}"
            found += still.words(f"{one['summary']}{evidence}; {one['advice']}", head)
        return found

    def _words(self) -> str:
        lines = [f"{one['severity']}: {one['cause']} {one['where']}" for one in self.cards]
        return "\n".join([f"{self.group}  {self.state}", *lines])


def _earlier(later: Workbench, group: str, then: datetime, known: Collection[str]) -> list[str]:
    """Return the causes that had begun by then but were unknown, most severe first."""
    rows = later.explain(group).table.sort_by([("rank", "ascending")]).to_pylist()
    return [
        f"{spell_out(row['cause'])} since {moment(row['since'])}"
        for row in rows
        if row["since"] is not None and row["since"] <= then and row["cause"] not in known
    ]


class Field(Piece):
    """A text field with a label and an error; ``entered`` is called on Enter."""

    _esm = script("dashboards/field.js")
    _css = style("dashboards/field.css")

    label = traitlets.Unicode("").tag(sync=True)
    value: Any = traitlets.Unicode("").tag(sync=True)
    hint = traitlets.Unicode("").tag(sync=True)  # meaning of an empty field
    error = traitlets.Unicode("").tag(sync=True)
    disabled = traitlets.Bool(False).tag(sync=True)
    #: Whether buttons count up and down, and their start for an empty field.
    step = traitlets.Bool(False).tag(sync=True)
    start = traitlets.Int(0).tag(sync=True)
    options: traitlets.List[str] = traitlets.List().tag(sync=True)
    now = traitlets.Unicode("").tag(sync=True)
    about: traitlets.Dict[str, str] = traitlets.Dict().tag(sync=True)  # meanings of options

    def __init__(
        self, label: str, *, entered: Callable[[], Any] | None = None, **traits: Any
    ) -> None:
        super().__init__(label=label, **traits)
        self._entered = entered

    def _answer(self, message: Mapping[str, Any]) -> None:
        if self._entered is not None and message == {"act": "enter"} and not self.disabled:
            self._entered()

    def _words(self) -> str:
        words = self.value if isinstance(self.value, str) else ", ".join(self.value)
        return f"{self.label}: {words or self.hint}"


class Chips(Field):
    """Toggle buttons for names; ``now`` is the one in force."""

    value: Any = traitlets.Tuple().tag(sync=True)

    def __init__(self, label: str, options: Sequence[str], **traits: Any) -> None:
        super().__init__(label, options=list(options), **traits)

    @traitlets.validate("value")
    def _known(self, proposal: Any) -> tuple[str, ...]:
        unknown = [name for name in proposal["value"] if name not in self.options]
        if unknown:
            raise traitlets.TraitError(
                f"unknown choice {unknown[0]!r}: choose some of {', '.join(self.options)}"
            )
        return tuple(name for name in self.options if name in proposal["value"])


class FoldButton(Heard):
    """A button that toggles ``display`` of its target, even without a kernel."""

    _esm = script("dashboards/fold.js")
    _css = style("dashboards/fold.css")

    label = traitlets.Unicode("").tag(sync=True)
    display = traitlets.Unicode("none").tag(sync=True)


class Fold(W.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """Parts that are hidden until the user opens them."""

    def __init__(self, label: str, parts: Sequence[W.Widget]) -> None:
        self.button = FoldButton(label=label)
        self.content = W.VBox(list(parts), layout=W.Layout(width="100%", display="none"))
        super().__init__([self.button, self.content], layout=W.Layout(width="100%"))
        ends = (self.button, "display"), (self.content.layout, "display")
        traitlets.link(*ends)
        self._in_the_page = W.jslink(*ends)

    @property
    def is_open(self) -> bool:
        """Whether the parts are shown."""
        return bool(self.button.display != "none")

    @is_open.setter
    def is_open(self, is_open: bool) -> None:
        self.button.display = "" if is_open else "none"

    def close(self) -> None:
        """Close the link, too."""
        self._in_the_page.close()
        super().close()


#: Maximum characters of a name.
_WIDTH = 60


class Finder(Piece):
    """A choice of one external name by typing a part of it.

    The browser gets names shortened and with isolated text direction.
    """

    _esm = script("dashboards/finder.js")
    _css = style("dashboards/finder.css")

    label = traitlets.Unicode("").tag(sync=True)
    labels: traitlets.List[str] = traitlets.List(traitlets.Unicode()).tag(sync=True)
    index = traitlets.Int(-1).tag(sync=True)  # of the chosen name; -1: none
    disabled = traitlets.Bool(False).tag(sync=True)
    value = traitlets.Unicode(None, allow_none=True)

    @property
    def options(self) -> tuple[str, ...]:
        """The names."""
        return self._options

    @options.setter
    def options(self, names: Sequence[str]) -> None:
        self._options = tuple(names)
        shown = [text.name(name, _WIDTH) for name in names]
        seen = Counter[str]()
        for place, label in enumerate(shown):
            seen[label] += 1
            if seen[label] > 1:  # two names with the same short form
                shown[place] = f"{label} ({seen[label]})"
        with self.hold_sync():
            self.labels = shown
            self.index = self._options.index(self.value) if self.value in self._options else -1

    @traitlets.observe("value")
    def _to_index(self, _: Any) -> None:
        self.index = self._options.index(self.value) if self.value in self._options else -1

    @traitlets.observe("index")
    def _to_value(self, _: Any) -> None:
        if 0 <= self.index < len(self._options):
            self.value = self._options[self.index]

    @traitlets.validate("value")
    def _known(self, proposal: Any) -> Any:
        if proposal["value"] is not None and proposal["value"] not in self._options:
            raise traitlets.TraitError(f"unknown choice {proposal['value']!r}")
        return proposal["value"]

    def _words(self) -> str:
        return f"{self.label}: {self.labels[self.index] if self.index >= 0 else 'none'}"

    _options: tuple[str, ...] = ()


#: The prefix of a figure's sentence on unknown values.
_NOT_KNOWN = "Not known: "
#: Pixels to remove below a chart with its text; plotly adds its own for long labels.
_SPARED = 20
#: Pixels to remove above a chart, in addition to the lines of its title.
_TITLE = 24
#: Axes of the charts' template, without colours.
_AXIS = {
    "title": {"standoff": 8, "font": {"size": 12}},
    "showline": True,
    "ticks": "outside",
    "ticklen": 4,
}


class Part(W.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """A chart or table with a heading and definitions."""

    def __init__(self, title: str, meanings: Mapping[str, str], *views: W.Widget) -> None:
        self.header = Header(title=title, help=[list(pair) for pair in meanings.items()])
        super().__init__([self.header, *views], layout=W.Layout(width="100%"))

    def wait(self, words: str) -> None:
        """Show that the content is being computed."""
        with self.header.hold_sync():
            self.header.busy, self.header.finding = True, ""
            self.header.facts, self.header.unknown = [words], []
        for view in self.children[1:]:
            view.layout.display = "none"

    def put(self, view: W.Widget) -> None:
        """Replace the view, and close the previous one."""
        box: Any = self
        old, box.children = box.children[1:], [self.header, view]
        for one in old:
            one.close()

    def still(self) -> str:
        """Return heading and views as HTML for a saved notebook."""
        shown = self.children[1:] if self.layout.display != "none" else ()
        return "".join(
            one.value if isinstance(one, W.HTML) else one.still(self.header.title)
            for one in shown
            if isinstance(one, W.HTML | View | CauseCards)
        )

    @property
    def unknown(self) -> list[str]:
        """Unknown values of the content."""
        return list(self.header.unknown)


class ChartPart(Part):
    """A chart with the text of its figure above it.

    The text has the moment only if it differs from the dashboard's; unknown values are in the
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
        """Show a chart with its text above it, where it wraps at any width."""
        meta = figure.layout.meta or {}
        with self.header.hold_sync():
            self.header.busy = False
            self.header.finding = meta.get("title", "")
            self.header.as_of = meta.get("as_of")
            missing = meta.get("unknown", "")
            gaps = [missing.removeprefix(_NOT_KNOWN)] if _NOT_KNOWN in missing else []
            here = [f"Not drawn: {one}" for one in gaps if self._says_gaps]
            self.header.facts = [*meta.get("reading", []), *here]
            self.header.unknown = [] if here else gaps
        self.view._alt = meta.get("title", "")
        # The view has its own template; the layout is the chart's.
        given = figure.to_plotly_json()
        layout = given["layout"]
        _without_words(layout)
        below = {"legend": layout["template"]["layout"]["legend"]}
        below |= {name: _AXIS for name in layout if name.startswith(("xaxis", "yaxis"))}
        self.view.figure = given | {"layout": merge_layouts(below, layout)}
        # A sentence instead of an empty chart.
        self.view.layout.display = None if figure.data else "none"
        if not figure.data:
            self.view.note = " ".join(html.unescape(one.text) for one in figure.layout.annotations)
            self.header.facts = [f"{self.view.note}.", *self.header.facts]

    @property
    def unknown(self) -> list[str]:
        """The figure's unknown values with the name of the part, for the common header."""
        return [f"in {self.header.title!r}: {one.removesuffix('.')}" for one in self.header.unknown]


class TablePart(Part):
    """A table of a result, without the columns that its title implies (``without``).

    ``looks`` are traits of `LagTable`; with ``narrows``, a selection elsewhere hides other rows.
    """

    def __init__(
        self,
        title: str,
        selection: Selection,
        meanings: Mapping[str, str] | None = None,
        without: Sequence[str] = (),
        **looks: Any,
    ) -> None:
        self._selection, self._without, self._looks = selection, without, looks
        self.view: LagTable | None = None
        super().__init__(title, meanings or {})

    def fill(
        self, result: Result, rows: pa.Table | None = None, columns: Sequence[str] = ()
    ) -> None:
        """Show a result, or some of its rows and columns."""
        table = result.table if rows is None else rows
        chosen = columns or [name for name in result.columns.values() if name not in self._without]
        names = [name for name in chosen if name in table.schema.names]
        if "unknown_lags" in table.schema.names and pc.sum(table.column("unknown_lags")).as_py():
            names.insert(names.index("lag") + 1, "unknown_lags")  # what the sum beside it lacks
        own = {name: meaning for name, meaning in result.means.items() if name in names}
        self.header.tell(
            *(result.as_of, result.unknown, result.notes),
            *(meanings_of(names) | own, units_in_words(names)),
        )
        shown = table.select(dict.fromkeys([*self._selection.columns, *names]))
        self._put(shown, names, result.order if result.order in names else "")

    def show(self, rows: pa.Table, meanings: Mapping[str, str], notes: Sequence[str] = ()) -> None:
        """Show rows without a moment."""
        self.header.tell(None, notes=notes, meanings=meanings)
        self._put(rows, rows.column_names, "")

    def _put(self, rows: pa.Table, names: list[str], order: str) -> None:
        if self.view is not None and self.view.names == names:
            self.view.rows = rows
            self.view.hints = self._hints()
            return
        of, title = self._selection, self.header.title
        view = LagTable.of(
            rows, columns=names, keys=of.columns, sort=order, selection=of, title=title
        )
        view.hints = self._hints()
        for name, value in self._looks.items():
            setattr(view, name, value)
        self.view = view
        self.put(view)

    def _hints(self) -> dict[str, str]:
        """Return the meanings of the heading's help as tooltips of columns."""
        return dict(self.header.help)


class StripPart(Part):
    """The windows of a group at many moments; the view survives a refresh."""

    def __init__(self, title: str, meanings: Mapping[str, str], selection: Selection) -> None:
        self.view = WindowStrip.of(schemas.WINDOWS.empty_table(), selection=selection, title="")
        super().__init__(title, meanings, W.VBox([self.view], layout=W.Layout(width="100%")))
        self.add_class("sharelag-row")  # full width, for more offsets side by side

    def show(self, bench: Workbench, group: str, moments: pa.Table | None = None) -> None:
        """Show the windows of a group, first the share partition of its first cause.

        Notes list the holders of offsets, if known.
        """
        evidence = bench.evidence(group)
        if moments is None:
            moments = worst_first(bench.moments(group).table, evidence, group)
        self.header.tell(None, notes=holder_lines(evidence.lag, evidence.holders))
        self.header.busy, self.header.facts = False, []
        self.children[1].layout.display = None
        self.view.limit = delivery_limit(evidence.settings, group)
        self.view.fill(moments, ends=bench.lag(group).table)


def show_known(grid: PartitionGrid, rows: pa.Table, measures: Iterable[str]) -> None:
    """Show rows in a grid, with the measures that are known for any row."""
    grid.measures = [name for name in measures if rows.column(name).null_count < len(rows)]
    if grid.measure not in grid.measures:
        grid.measure = next(iter(grid.measures), "")
    grid.rows = rows


def _without_words(layout: dict[str, Any]) -> None:
    """Remove the title with its lines and margin."""
    title = layout.pop("title")
    lines = [words.count("<br>") + 1 for words in (title["text"], title["subtitle"]["text"])]
    spared = {"t": _TITLE + lines[0] * TITLE_LINE + lines[1] * FACT_LINE, "b": _SPARED}
    for side, pixels in spared.items():
        layout["margin"][side] -= pixels
        layout["height"] -= pixels


def choice(
    words: str, options: Iterable[Any], act: Callable[..., Any], value: Any = None
) -> W.Dropdown:
    """Return a dropdown; ``act`` is called when it changes."""
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


def counter(words: str, value: int, least: int, most: int) -> W.BoundedIntText:
    """Return a field for an integer."""
    look = {"style": {"description_width": "initial"}, "layout": W.Layout(width="14em")}
    return W.BoundedIntText(value, min=least, max=most, description=words, **look)
