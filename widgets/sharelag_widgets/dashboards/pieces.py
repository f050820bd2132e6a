"""Pieces of a dashboard: header, verdict, cards and fields; charts and tables below a heading."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import ipywidgets as W  # noqa: N812
import pyarrow as pa
import traitlets

from sharelag import schemas
from sharelag.charts import text
from sharelag.charts.figure import FACT_LINE, TITLE_LINE, merge_layouts
from sharelag.errors import ShareLagError, first_line, list_names
from sharelag.metrics.holders import holder_lines
from sharelag.tables.declared import meanings_of, units_in_words
from sharelag.tables.words import counted, moment, spell_out
from sharelag.workbench import Result, Workbench
from sharelag.workbench.next_steps import input_options, next_command
from sharelag.workbench.opened import delivery_limit, worst_first

from ..bundle import script, style
from ..lag_table import LagTable
from ..partition_grid import PartitionGrid
from ..plot_view import PlotView
from ..view import Heard, Selection, View, in_other_forms
from ..window_strip import WindowStrip


class Piece(Heard):
    """A view that shows itself in words where no page is."""

    def _words(self) -> str:
        raise NotImplementedError

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return in_other_forms(super()._repr_mimebundle_(**options), plain=self._words())


def words_of(error: BaseException) -> str:
    """Return what went wrong, in a line and without a stack trace."""
    if isinstance(error, ShareLagError):
        return str(error)
    return f"unexpected {type(error).__name__}: {first_line(error)}; please report it"


class Header(Piece):
    """A title with its moment, its age, help that opens by keyboard, and what went wrong.

    The browser's clock says how old it is; so a dashboard that nobody refreshes turns stale before
    one's eyes.
    """

    _esm = script("dashboards/header.js")
    _css = style("shared/board.css", "dashboards/header.css")

    title = traitlets.Unicode("").tag(sync=True)
    level = traitlets.Int(3).tag(sync=True)  # of the heading: 2 above a dashboard, 3 above a part
    as_of = traitlets.Float(None, allow_none=True).tag(sync=True)  # milliseconds
    # of a part: the moment that the dashboard's header says; its own is said where it is another
    above = traitlets.Float(None, allow_none=True).tag(sync=True)
    units = traitlets.Unicode("").tag(sync=True)
    source = traitlets.Unicode("").tag(sync=True)  # what people call it; empty: the title has it
    about = traitlets.Unicode("").tag(sync=True)  # the same in full
    # pairs of a term and its meaning
    help: traitlets.List[list[str]] = traitlets.List().tag(sync=True)
    unknown = traitlets.List(traitlets.Unicode()).tag(sync=True)
    finding = traitlets.Unicode("").tag(sync=True)  # what a chart shows, as a sentence
    facts = traitlets.List(traitlets.Unicode()).tag(sync=True)  # and how it is to be read
    notes = traitlets.List(traitlets.Unicode()).tag(sync=True)
    failure = traitlets.Unicode("").tag(sync=True)
    code = traitlets.Unicode("").tag(sync=True)  # Python of what is picked
    names = traitlets.Unicode("").tag(sync=True)  # the line that any Python needs before it
    busy = traitlets.Bool(False).tag(sync=True)
    # whether what is shown is earlier than the last moment
    earlier = traitlets.Bool(False).tag(sync=True)
    live = traitlets.Bool(False).tag(sync=True)  # whether reading again can give something else
    # seconds between two refreshes while somebody looks; 0: by hand only
    every = traitlets.Float(0).tag(sync=True)
    paused = traitlets.Bool(False).tag(sync=True)
    stale_after = traitlets.Float(120).tag(sync=True)  # seconds
    theme = traitlets.Enum(["light", "dark"], "light").tag(sync=True)  # as the browser says

    def __init__(self, refresh: Callable[[], Any] | None = None, **traits: Any) -> None:
        super().__init__(**traits)
        self.own_unknown = list(self.unknown)  # `unknown` is also what the parts below do not know
        self._refresh = refresh

    def tell(
        self,
        as_of: datetime | None,
        unknown: Sequence[str] = (),
        notes: Sequence[str] = (),
        meanings: Mapping[str, str] | None = None,
        units: str = "",
    ) -> None:
        """Say what is shown now."""
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
    """A sentence with buttons that do ``acts``, by their names; the browser copies texts."""

    sentence = traitlets.Unicode("").tag(sync=True)
    #: Pairs of what is copied, the words on a button or the name of a row, and the text.
    copies: traitlets.List[list[str]] = traitlets.List().tag(sync=True)
    busy = traitlets.Unicode("").tag(sync=True)  # what goes on; its buttons are off meanwhile

    def __init__(self, acts: Mapping[str, Callable[[], Any]], **traits: Any) -> None:
        super().__init__(**traits)
        self._acts = dict(acts)

    def _answer(self, message: Mapping[str, Any]) -> None:
        if act := self._acts.get(message.get("act", "")):
            act()


class Verdict(Acting):
    """A level before the sentence."""

    _esm = script("dashboards/verdict.js")
    _css = style("dashboards/verdict.css")

    level = traitlets.Unicode("").tag(sync=True)
    #: For each button a name, its words, and why it cannot help, if so.
    actions: traitlets.List[list[str]] = traitlets.List().tag(sync=True)

    def _words(self) -> str:
        return f"{self.level}: {self.sentence}" if self.level else self.sentence


class Tries(Acting):
    """What can be changed of a group, a row each: what was found of it in three numbers.

    ``acts`` are what the button of a row does, by the row's name; and ``cancel``. The sentence says
    why nothing can be tried, and what is ``busy`` is a row by its words.
    """

    _esm = script("dashboards/tries.js")
    _css = style("dashboards/tries.css")

    #: For each row: ``name`` (empty: as it is), ``words``, ``why`` it cannot help; and once it was
    #: tried ``age``, ``drains``, ``difference``, ``verdict`` and ``span``: low, mean and high.
    rows: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)
    assumed = traitlets.List(traitlets.Unicode()).tag(sync=True)  # what a simulation assumes

    def _words(self) -> str:
        found = [row for row in self.rows if row["age"]]
        return "\n".join(f"{row['words']}: p95 age {row['age']}" for row in found) or self.sentence


class PeekView(Piece):
    """A button that reads one record; what it holds goes to the page and into no saved notebook."""

    _esm = script("dashboards/peek_view.js")
    _css = style("dashboards/peek_view.css")

    about = traitlets.Unicode("").tag(sync=True)  # which record the button reads; empty: none

    def __init__(self, read: Callable[[], str]) -> None:
        super().__init__()
        self._read = read

    def _answer(self, message: Mapping[str, Any]) -> None:
        if not message.get("peek"):
            return
        try:
            said = {"text": self._read()}
        except Exception as error:  # people get a sentence
            said = {"failure": words_of(error)}
        self.send({"peeked": said})  # a message, and no trait: traits are saved with notebooks

    def _words(self) -> str:
        return self.about


CAUSES_HELP = {
    "cause": "what causes lag, most severe first; each with its evidence and what to do",
    "holds": "how many offsets of lag the cause explains",
    "nothing found": "no cause could be shown; with everything known, nothing is wrong",
}
#: What a card says of a cause, as `CauseSummary` names it.
_CARD = ("severity", "cause", "where", "summary", "evidence", "advice")


#: Cards that are shown, most severe first.
MOST_CARDS = 20


class CauseCards(Piece):
    """How a group is in a sentence, and a card for each cause with its what-if, worst first."""

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

        ``fits`` gives for a cause the what-if that fits it, and why that cannot help. ``later`` is
        the same cluster as of a later moment: what it knows had begun is said as well.
        """
        explained = bench.explain(group)
        (said,) = explained.summaries
        source = input_options(bench.source)
        known = bench.overview().table.select(["group_id", "members"]).to_pylist()
        (members,) = (row["members"] for row in known if row["group_id"] == group)
        rows = explained.table.sort_by([("rank", "ascending")]).to_pylist()
        causes = {row["cause"] for row in rows}
        begun = [] if later is None else _begun(later, group, bench.evidence(group).as_of, causes)
        cards = [
            {name: str(getattr(words, name)) for name in _CARD}
            | {"command": next_command(row, source, members)}
            | dict(zip(("fix", "why"), fits(row["cause"]) if fits else ("", ""), strict=True))
            for words, row in zip(said.causes[:MOST_CARDS], rows[:MOST_CARDS], strict=True)
        ]
        known_now = [f"known now: {list_names(begun)}"] if begun else []
        left = len(rows) - len(cards)
        more = [f"and {counted(left, 'more cause')} in bench.explain()"] if left else []
        self.tell(said.group, "; ".join([said.state, *known_now, *more]), cards)

    def tell(self, group: str, state: str, cards: list[dict[str, str]]) -> None:
        """Show a sentence on a group, and cards."""
        with self.hold_sync():
            self.group, self.state, self.cards = group, state, cards

    def _words(self) -> str:
        lines = [f"{one['severity']}: {one['cause']} {one['where']}" for one in self.cards]
        return "\n".join([f"{self.group}  {self.state}", *lines])


def _begun(later: Workbench, group: str, then: datetime, known: Collection[str]) -> list[str]:
    """Return the causes that had begun by then and were not known yet, most severe first."""
    rows = later.explain(group).table.sort_by([("rank", "ascending")]).to_pylist()
    return [
        f"{spell_out(row['cause'])} since {moment(row['since'])}"
        for row in rows
        if row["since"] is not None and row["since"] <= then and row["cause"] not in known
    ]


class Field(Piece):
    """A text with a label, and what is wrong with it; ``entered`` is called on Enter."""

    _esm = script("dashboards/field.js")
    _css = style("dashboards/field.css")

    label = traitlets.Unicode("").tag(sync=True)
    value: Any = traitlets.Unicode("").tag(sync=True)
    hint = traitlets.Unicode("").tag(sync=True)  # what no text means
    error = traitlets.Unicode("").tag(sync=True)
    disabled = traitlets.Bool(False).tag(sync=True)
    #: Whether buttons count up and down, and where they begin while there is no text.
    step = traitlets.Bool(False).tag(sync=True)
    start = traitlets.Int(0).tag(sync=True)
    options: traitlets.List[str] = traitlets.List().tag(sync=True)
    now = traitlets.Unicode("").tag(sync=True)
    about: traitlets.Dict[str, str] = traitlets.Dict().tag(sync=True)  # what each option means

    def __init__(
        self, label: str, *, entered: Callable[[], Any] | None = None, **traits: Any
    ) -> None:
        super().__init__(label=label, **traits)
        self._entered = entered

    def _answer(self, message: Mapping[str, Any]) -> None:
        if self._entered is not None and message == {"act": "enter"} and not self.disabled:
            self._entered()

    def _words(self) -> str:
        said = self.value if isinstance(self.value, str) else ", ".join(self.value)
        return f"{self.label}: {said or self.hint}"


class Chips(Field):
    """Names of which several may be pressed; ``now`` is the one in force."""

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
    """Shows and hides something by its ``display``, also where no kernel is left."""

    _esm = script("dashboards/fold.js")
    _css = style("dashboards/fold.css")

    label = traitlets.Unicode("").tag(sync=True)
    display = traitlets.Unicode("none").tag(sync=True)


class Fold(W.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """Parts that are hidden until somebody asks for them."""

    def __init__(self, label: str, parts: Sequence[W.Widget]) -> None:
        self.button = FoldButton(label=label)
        self.content = W.VBox(list(parts), layout=W.Layout(width="100%", display="none"))
        super().__init__([self.button, self.content], layout=W.Layout(width="100%"))
        ends = (self.button, "display"), (self.content.layout, "display")
        traitlets.link(*ends)
        self._in_the_page = W.jslink(*ends)

    @property
    def is_open(self) -> bool:
        """Whether its parts are shown."""
        return bool(self.button.display != "none")

    @is_open.setter
    def is_open(self, is_open: bool) -> None:
        self.button.display = "" if is_open else "none"

    def close(self) -> None:
        """Let go of the link as well."""
        self._in_the_page.close()
        super().close()


#: Characters of a name.
_WIDTH = 60


class Finder(Piece):
    """One of some names from outside, of which a part can be typed.

    The names cross to the browser shortened, and unable to turn what is around them.
    """

    _esm = script("dashboards/finder.js")
    _css = style("dashboards/finder.css")

    label = traitlets.Unicode("").tag(sync=True)
    labels: traitlets.List[str] = traitlets.List(traitlets.Unicode()).tag(sync=True)
    index = traitlets.Int(-1).tag(sync=True)  # of the chosen one; -1: none
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
            if seen[label] > 1:  # two that are shortened to the same
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

    def put(self, view: W.Widget) -> None:
        """Show another view; the one before it is gone."""
        box: Any = self
        old, box.children = box.children[1:], [self.header, view]
        for one in old:
            one.close()

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

    ``looks`` are traits of `LagTable`; with ``narrows``, what is picked elsewhere hides all other
    rows.
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
        view.hints = self._hints()
        for name, value in self._looks.items():
            setattr(view, name, value)
        self.view = view
        self.put(view)

    def _hints(self) -> dict[str, str]:
        """Return the meanings in the heading's help, for who points at a column."""
        return dict(self.header.help)


class StripPart(Part):
    """The windows of a group at many moments; the view stays when they are read again."""

    def __init__(self, title: str, meanings: Mapping[str, str], selection: Selection) -> None:
        self.view = WindowStrip.of(schemas.WINDOWS.empty_table(), selection=selection, title="")
        super().__init__(title, meanings, W.VBox([self.view], layout=W.Layout(width="100%")))
        self.add_class("sharelag-row")  # the more offsets side by side, the better

    def show(self, bench: Workbench, group: str, moments: pa.Table | None = None) -> None:
        """Show a group, first the share partition of the first moment; that of its first cause.

        Beside it stands who holds offsets, where that is known.
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


def counter(words: str, value: int, least: int, most: int) -> W.BoundedIntText:
    """Return a field for a whole number."""
    look = {"style": {"description_width": "initial"}, "layout": W.Layout(width="14em")}
    return W.BoundedIntText(value, min=least, max=most, description=words, **look)
