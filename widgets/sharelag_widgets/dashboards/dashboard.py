"""The base of all dashboards: header, controls, parts, and refreshing in the background.

A dashboard reads in a separate thread while somebody looks at it: the browser asks for it, so
that a dashboard that is gone from the page, or in a tab behind others, reads nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import ipywidgets as W  # noqa: N812
import pyarrow as pa
from IPython import get_ipython

from sharelag.charts import text
from sharelag.errors import InputError
from sharelag.inputs import KafkaInput
from sharelag.inputs.files.archive import ArchiveInput
from sharelag.tables.words import terminal
from sharelag.workbench import Workbench
from sharelag.workbench.next_steps import input_name

from .. import still
from ..run import Run
from ..view import PICKED, Deaf, Selection, in_other_forms
from .pieces import Finder, Header, Part, words_of

_NO_BREAK = "\u00a0"
#: Seconds between two refreshes of something that goes on, and after which it is called stale.
EVERY, STALE_AFTER = 30.0, 120.0
_GRID = {
    # Two columns from 1,440 to 1,920 pixels; with three, odd rows would have empty space.
    "grid_template_columns": "repeat(auto-fit, minmax(min(100%, 640px), 1fr))",
    "grid_gap": "0 20px",
    "align_items": "flex-start",
    "width": "100%",
}


class Dashboard(Deaf, W.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """Controls, charts and tables over a workbench.

    A subclass defines its title and help, makes its controls and parts (`_make`), and fills them
    (`_show`).

    Parameters
    ----------
    bench : Workbench
    selection : Selection, optional
        Dashboards with the same selection are linked.
    every : float, optional
        Seconds between refreshes; 0: manual only. Default: 30 for a cluster or an archive.
    live : bool, optional
        Whether reading again can change the answers. Default: by the input.
    stale_after : float
        Seconds after which the dashboard is labelled stale.
    """

    TITLE = ""
    #: Whether parts stand side by side where the page is wide enough for two.
    IS_GRID = True
    HELP: Mapping[str, str] = {}

    def __init__(
        self,
        bench: Workbench,
        *,
        selection: Selection | None = None,
        every: float | None = None,
        live: bool | None = None,
        stale_after: float = STALE_AFTER,
    ) -> None:
        self._bench, self._lock = bench, threading.RLock()
        self._run: Run | None = None
        self._trouble = ""  # an error that leaves the content in place
        self._is_filled = False
        self._selection = Selection() if selection is None else selection
        goes_on = isinstance(bench.source, KafkaInput | ArchiveInput) if live is None else live
        self.header = Header(
            self.refresh_soon,
            title=self.TITLE,
            level=2,
            help=[list(pair) for pair in self.HELP.items()],
            source=input_name(bench.source) or bench.describe(),
            about=bench.describe(),
            live=goes_on and bench.as_of is None,
            every=(EVERY if goes_on else 0.0) if every is None else float(every),
            stale_after=float(stale_after),
        )
        controls, parts = self._make()
        self.controls = W.HBox(
            list(controls), layout=W.Layout(flex_flow="row wrap", grid_gap="4px 14px")
        )
        boxed = W.GridBox if self.IS_GRID else W.VBox
        self.body = boxed(list(parts), layout=_GRID if self.IS_GRID else {})
        super().__init__([*self._top(), self.body], layout=W.Layout(width="100%"))
        self.add_class("sharelag-dashboard")
        self._begin()
        self.header.observe(self.redraw, names=["theme"])
        self._selection.observe(self._on_pick, names=["keys"])
        self._selection.observe(self._say_code, names=PICKED)
        self._say_code()
        self._shell = get_ipython()
        if self._shell is not None:  # each cell may define variables
            self._shell.events.register("post_run_cell", self._say_names)

    @property
    def bench(self) -> Workbench:
        """The workbench that is shown."""
        return self._bench

    @bench.setter
    def bench(self, bench: Workbench) -> None:
        with self._lock:
            self._bench = bench
            self._say_names()
            self.show()

    @property
    def selection(self) -> Selection:
        """The picked share partitions, offsets and moment."""
        return self._selection

    @property
    def theme(self) -> Any:
        """The theme of the page."""
        return self.header.theme

    def show(self, *_: Any) -> None:
        """Fill all parts from the workbench and the controls; the header shows errors."""
        self._try(self._show, self._draw)

    def redraw(self, *_: Any) -> None:
        """Fill the parts that depend on selection, theme and controls; all after a failure."""
        with self._lock:
            self._try(*([self._draw] if self._is_filled else [self._show, self._draw]))

    def chosen(self, rows: pa.Table) -> pa.Table:
        """Return the rows of the picked share partitions; all if none of them is in the table."""
        picked = self._selection.of(rows)
        return picked if len(picked) else rows

    def _try(self, *acts: Callable[[], None]) -> None:
        with self._lock:
            self._is_filled = False
            try:
                for act in acts:
                    act()
                self._say_once()
            except Exception as error:
                # any exception becomes a sentence, so that the controls stay usable
                self.header.failure = words_of(error)
                self.body.layout.display = "none"
            else:
                self._is_filled = True
                self.header.failure = self._trouble
                self.body.layout.display = None

    def _say_once(self) -> None:
        """Show moment, unknown values and notes of all parts in the header."""
        parts = list(_parts(self.body))
        for part in parts:
            part.header.above = self.header.as_of
            part.header.notes = [one for one in part.header.notes if one not in self.header.notes]
        unknown = [*self.header.own_unknown, *(one for part in parts for one in part.unknown)]
        self.header.unknown = list(dict.fromkeys(unknown))

    def summary(self) -> str:
        """Return a summary of the content as lines of text."""
        parts = [part.header for part in _parts(self.body)]
        found = [f"{part.title}: {part.finding}" for part in parts if part.finding]
        return "\n".join(self._summary_lines(*found))

    def _summary_lines(self, *found: str) -> list[str]:
        """Return title, findings and unknown values as lines of text."""
        header, at = self.header, self.header.as_of
        when = text.moment(None if at is None else datetime.fromtimestamp(at / 1000, UTC))
        lines = [
            f"{' of '.join(filter(None, [header.title, header.source]))}, as of {when}",
            *([header.failure] if header.failure else []),
            *found,
            *(f"not known: {one}" for one in header.unknown),
        ]
        return [terminal(line.replace(_NO_BREAK, " ")) for line in lines]

    def still(self) -> str:
        """Return the HTML for a saved notebook without a kernel, charts with their text."""
        about = "".join(map(still.words, self._summary_lines()))
        return about + "".join(part.still() for part in _parts(self.body))

    def _ipython_display_(self, **_: Any) -> None:
        still.show(self)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        made = super()._repr_mimebundle_(**options)
        return in_other_forms(made, plain=self.summary(), html=self.still())

    def refresh(self) -> None:
        """Read again, and wait for it."""
        self.refresh_soon()
        run = self._run
        if run is not None:
            run.join()

    def refresh_soon(self) -> None:
        """Start to read again, one read at a time; the content stays in the meantime."""
        with self._lock:
            if self.header.busy:
                return
            self.header.busy = True
            run = Run(self._read, self._was_read)
            self._run = run
        run.start()

    def __del__(self) -> None:
        if self.comm is not None:  # otherwise it is closed, or was never complete
            self.close()

    def close(self) -> None:
        """Close all views, and discard a read in progress."""
        with self._lock:
            if self._run is not None:
                self._run.cancel()
            self._run = None
        if self.comm is not None:  # the garbage collector closes it again
            self._selection.unobserve(self._on_pick, names=["keys"])
            self._selection.unobserve(self._say_code, names=PICKED)
            if self._shell is not None:
                self._shell.events.unregister("post_run_cell", self._say_names)
            for part in self.children:
                _close(part)
        super().close()

    def _on_pick(self, _: Any) -> None:
        self.redraw()

    def _say_code(self, _: Any = None) -> None:
        is_picked = any(getattr(self._selection, name) for name in PICKED)
        self.header.code = self._selection.to_code("bench.lag().table") if is_picked else ""

    def _say_names(self, _: Any = None) -> None:
        """Show the line that assigns the workbench to ``bench``, for copied Python.

        It uses a variable with the workbench or the dashboard, or the result of a cell such as
        ``_2``; it is empty without any.
        """
        shell = get_ipython()
        names = {} if shell is None else dict(shell.user_ns)
        # `_`, `__` and `___` will be other results when the line runs.
        lasting = sorted(filter(lambda one: one.strip("_"), names), key=lambda one: one[0] == "_")
        ways = (
            f"bench = {name}{'' if names[name] is self._bench else '.bench'}\n"
            for name in lasting
            if names[name] is self._bench or names[name] is self
        )
        self.header.names = "" if names.get("bench") is self._bench else next(ways, "")

    def _begin(self) -> None:
        self.show()

    def _top(self) -> Sequence[W.Widget]:
        return [self.header, self.controls]

    def _make(self) -> tuple[Sequence[W.Widget], Sequence[W.Widget]]:
        raise NotImplementedError

    def _show(self) -> None:
        raise NotImplementedError

    def _draw(self) -> None:
        """Fill the parts that depend on the selection."""

    def _prepare(self, bench: Workbench) -> None:
        """Compute the answers to show, in the reading thread."""

    def _is_busy(self) -> bool:
        """Return whether other work than reading is in progress."""
        return False

    def _read(self, _: Callable[[], bool], __: Callable[[int, int], None]) -> Workbench:
        fresh = self._bench.refresh()
        fresh.evidence()
        self._prepare(fresh)
        return fresh

    def _was_read(self, run: Run, fresh: Workbench | None, error: BaseException | None) -> None:
        with self._lock:
            if run is not self._run:
                return
            if error is not None:
                self._trouble = f"Not refreshed; the earlier state is shown: {words_of(error)}"
                self.header.failure = self._trouble
            elif fresh is not None:
                self._trouble = ""
                self.bench = fresh
            self.header.busy = self._is_busy()  # only once everything is shown


def _close(widget: W.Widget) -> None:
    """Close a widget and its children, which listen to a selection that may outlive them."""
    for child in getattr(widget, "children", ()):
        _close(child)
    widget.close()


def _parts(box: W.Box) -> Iterator[Part]:
    for child in box.children:
        if isinstance(child, Part):
            yield child
        elif isinstance(child, W.Box) and child.layout.display != "none":
            yield from _parts(child)


#: Columns that a table of one group omits.
IN_A_GROUP = ("group_id", "leader_epoch")


class GroupDashboard(Dashboard):
    """A dashboard of one group at a time.

    Parameters
    ----------
    bench : Workbench
    group : str, optional
        Default: the group with the most lag.
    **options
        As for `Dashboard`.
    """

    def __init__(self, bench: Workbench, group: str | None = None, **options: Any) -> None:
        self._asked = group
        super().__init__(bench, **options)

    @property
    def group(self) -> str | None:
        """The group shown; set it to show another."""
        chosen: str | None = self._asked if self._asked is not None else self.groups.value
        return chosen

    @group.setter
    def group(self, group: str) -> None:
        self._asked = group
        self.show()

    def _group_choice(self) -> Finder:
        self.groups = Finder(label="Group")
        self.groups.observe(self._picked_group, names=["value"])
        return self.groups

    def _picked_group(self, change: Any) -> None:
        if change["new"] is not None and not self._filling:
            self._asked, self._filling = change["new"], True
            self.selection.clear()
            self._filling = False
            self.show()

    def _on_pick(self, change: Any) -> None:
        """Show the group of share partitions that were picked in a linked dashboard."""
        if self._filling:
            return
        groups = {key[0] for key in change["new"]}
        if len(groups) == 1 and groups != {self._asked}:
            self.group = groups.pop()
        else:
            super()._on_pick(change)

    _filling = False

    def _prepare(self, bench: Workbench) -> None:
        if self.group in bench.groups:  # otherwise the page says that it is gone
            self._prepare_group(bench, str(self.group))

    def _prepare_group(self, bench: Workbench, group: str) -> None:
        """Compute the answers on the group shown."""

    def _known_group(self) -> str:
        """Update the choice of groups, and return the group to show."""
        sums = self.bench.lag(by="group").table
        there = sums.column("group_id").to_pylist()
        if self._asked is None and there:
            self._asked = self._first_group()
        if not there:
            raise InputError(
                f"no share group has any state in {self.bench.describe()}: check that one has "
                "consumed there"
            )
        self._filling = True
        try:
            if self.groups.options != tuple(there):
                self.groups.options = there
            self.groups.value = self._asked if self._asked in there else None
        finally:
            self._filling = False
        self.bench.evidence(self._asked)
        self.header.title = self._title()
        return str(self._asked)

    def _title(self) -> str:
        return f"{self.TITLE}: {text.name(self._asked, None)}"

    def _first_group(self) -> str:
        """Return the default group: the one with the most lag."""
        sums = self.bench.lag(by="group").table
        lags = [lag or 0 for lag in sums.column("lag").to_pylist()]
        return str(sums.column("group_id")[lags.index(max(lags))])
