"""What all views have in common: bytes out, picks back, and words where no picture is."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import anywidget
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import traitlets

from sharelag.tables.arrow import flat, of_distinct

from . import still
from .columns import Column, Rows, column_of, pack, table_of
from .selection import SHARE_PARTITION, Key, Selection, isolate, key_texts, keys_of


class Heard(anywidget.AnyWidget):
    """A widget whose view asks for the state again where messages were lost.

    anywidget hands its views no model that they could ask with, but their page knows models by
    their ids (`shared/hearing.js`). What people change there comes as a message as well, which
    nothing sent later overtakes.
    """

    own_id = traitlets.Unicode("").tag(sync=True)

    def __init__(self, **traits: Any) -> None:
        own = uuid.uuid4().hex
        super().__init__(model_id=own, own_id=own, **traits)
        self.on_msg(self._hear_page)

    def _hear_page(self, _: Any, message: Any, __: Any) -> None:
        if isinstance(message, dict):
            if "changed" in message:
                self.set_state(message["changed"])
            self._answer(message)

    def _answer(self, message: Mapping[str, Any]) -> None:
        """Do what the page asks for."""


#: Traits of a selection that people pick.
PICKED = ["keys", "offsets", "moment"]


class Deaf:
    """Somebody who changes what it also hears of."""

    _hearing = False

    @contextmanager
    def _deaf(self) -> Iterator[None]:
        # What it sent must not come back, nor what it received go out again.
        self._hearing = True
        try:
            yield
        finally:
            self._hearing = False


def in_other_forms(made: Any, **forms: str) -> Any:
    """How a widget shows itself, with words for GitHub, mail and terminals."""
    if made is None:
        return None
    data, metadata = made if isinstance(made, tuple) else (made, {})
    return {**data, **{f"text/{form}": words for form, words in forms.items()}}, metadata


class View(Deaf, Heard):
    """A picture of some rows.

    A subclass makes ``data`` of its rows, says which of its traits people change (`_PICKS`), and
    translates between them and the selection (`_picked`, `_show`).
    """

    title = traitlets.Unicode("").tag(sync=True)
    data = traitlets.Bytes(b"").tag(sync=True)
    #: What to say where there is nothing to show.
    note = traitlets.Unicode("").tag(sync=True)
    link = traitlets.Unicode("").tag(sync=True)

    _PICKS: tuple[str, ...] = ()

    def __init__(self, selection: Selection | None = None, **traits: Any) -> None:
        self._selection = Selection() if selection is None else selection
        super().__init__(link=self._selection.id, **traits)
        self.observe(self._tell, names=list(self._PICKS))
        self._selection.observe(self._hear, names=PICKED)

    @property
    def selection(self) -> Selection:
        """What is picked, here or in a linked view."""
        return self._selection

    @selection.setter
    def selection(self, selection: Selection) -> None:
        self._selection.unobserve(self._hear, names=PICKED)
        self._selection = selection
        self._selection.observe(self._hear, names=PICKED)
        self.link = selection.id
        self._hear()

    def summary(self) -> str:
        """Return what the picture shows, in a sentence."""
        return self.note or self.title

    def to_code(self) -> str:
        """Python that makes the selection again."""
        return self._selection.to_code()

    def close(self) -> None:
        """Let go of the selection, which may outlive the view."""
        if self.comm is not None:  # it is closed once more when it is collected
            self._selection.unobserve(self._hear, names=PICKED)
        super().close()

    def _picked(self, trait: str) -> dict[str, Any]:
        """Return what a change of this trait means for the selection, as its traits."""
        raise NotImplementedError

    def _show(self, selection: Selection) -> None:
        """Set the traits in `_PICKS` by the selection."""
        raise NotImplementedError

    def _tell(self, change: Any) -> None:
        if self._hearing:
            return
        with self._deaf(), self._selection.hold_trait_notifications():
            for name, value in self._picked(change["name"]).items():
                setattr(self._selection, name, value)

    def _hear(self, _: Any = None) -> None:
        if not self._hearing:
            with self._deaf(), self.hold_sync():
                self._show(self._selection)

    def _answer(self, message: Mapping[str, Any]) -> None:
        if "ping" in message:
            self.send({"pong": message["ping"]})

    def still(self, title: str = "") -> str:
        """Return what a saved notebook shows where no kernel is, as HTML."""
        return still.words(self.summary(), title)

    def _ipython_display_(self, **_: Any) -> None:
        still.show(self)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        made = super()._repr_mimebundle_(**options)
        return in_other_forms(made, plain=self.summary(), html=self.still())


class RowsView(View):
    """Rows with a key each; several rows may have the same."""

    #: Numbers of the rows that are picked (uint32, ascending).
    picked = traitlets.CBytes(b"").tag(sync=True)  # a message brings a memoryview
    filter = traitlets.Unicode("").tag(sync=True)  # words that a row must hold

    _PICKS = ("picked",)

    def __init__(
        self,
        rows: pa.Table,
        keys: Sequence[str],
        selection: Selection | None,
        empty: str,
        **traits: Any,
    ) -> None:
        self._empty = empty
        self._key_columns = tuple(keys)
        self._take(rows)
        super().__init__(selection, **traits)
        self._publish()
        self._hear()

    @property
    def rows(self) -> pa.Table:
        """What is shown; set it to show something else. What is picked stays picked by key."""
        return self._rows

    @rows.setter
    def rows(self, rows: Rows) -> None:
        self._take(table_of(rows))
        with self._deaf(), self.hold_sync():
            self._publish()
            self._show(self._selection)

    @property
    def picked_rows(self) -> pa.Table:
        """The rows that are picked; none where none is."""
        return self._rows.take(pa.array(np.frombuffer(self.picked, np.uint32)))

    def to_code(self, rows: str = "rows") -> str:
        """Python that gives the rows of the selection again, from a table of this name."""
        return self._selection.to_code(rows)

    def _take(self, rows: pa.Table) -> None:
        self._rows = rows
        self._row_keys = keys_of(rows, self._key_columns)
        self._by_key: dict[Key, list[int]] = {}
        for row, key in enumerate(self._row_keys):
            self._by_key.setdefault(key, []).append(row)

    def _publish(self) -> None:
        self.note = "" if len(self._rows) else self._empty
        self.data = pack(self._columns()) if len(self._rows) else b""

    def _columns(self) -> dict[str, Column]:
        return {"_key": column_of(key_texts(self._rows, self._key_columns), "key")}

    def _picked(self, _: str) -> dict[str, Any]:
        chosen = np.frombuffer(self.picked, np.uint32)
        return {"keys": tuple(dict.fromkeys(self._row_keys[row] for row in chosen))}

    def _show(self, selection: Selection) -> None:
        rows = sorted(row for key in selection.keys for row in self._by_key.get(key, []))
        self.picked = np.array(rows, np.uint32).tobytes()


def key_names(rows: pa.Table, keys: Sequence[str] | None) -> tuple[str, ...]:
    """Return the columns that name a row: those given, else those of a share partition."""
    if keys is not None:
        return tuple(keys)
    return tuple(name for name in SHARE_PARTITION if name in rows.schema.names) or SHARE_PARTITION


def labels_of(rows: pa.Table, keys: Sequence[Key], labels: Mapping[Key, str] | None) -> pa.Array:
    """A name for people for every row: the one given, or its topic and partition, or its key."""
    names = rows.schema.names
    if labels is None and "partition" in names and ("topic" in names or "topic_id" in names):
        given = [rows.column(name) for name in ("topic", "topic_id") if name in names]
        names_of = flat(pc.coalesce(*(one.cast(pa.string()) for one in given)))
        shown = of_distinct(names_of, isolate, pa.string())
        numbers = rows.column("partition").combine_chunks().cast(pa.string())
        return pc.binary_join_element_wise(shown, numbers, "-")
    return pa.array(
        [(labels or {}).get(key, " / ".join(map(str, key))) for key in keys], pa.string()
    )
