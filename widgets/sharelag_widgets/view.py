"""The base of all views: selection, data for the browser, picks, and textual summaries."""

from __future__ import annotations

import json
import unicodedata
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import anywidget
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import traitlets

from sharelag.errors import InputError
from sharelag.model import iso
from sharelag.schemas import SHARE_PARTITION as SHARE_PARTITION
from sharelag.tables.arrow import flat, of_distinct

from . import still
from .columns import Column, Rows, column_of, pack, require, table_of

Key = tuple[Any, ...]
_TURNING = {"R", "AL", "RLO", "LRO", "RLE", "LRE", "RLI", "LRI", "FSI", "PDI", "PDF"}


class Selection(traitlets.HasTraits):
    """The picked share partitions, offsets and moment; views that share it are linked.

    Parameters
    ----------
    keys : iterable of tuples
        The values of `columns` for every picked share partition; empty: all.
    offsets : (int, int), optional
        First and last offset, both inclusive.
    moment : datetime or str, optional
        With a time zone.
    columns : sequence of str
        The key columns in the tables.
    """

    keys = traitlets.Tuple()
    offsets: Any = traitlets.Tuple(default_value=None, allow_none=True)
    moment = traitlets.Instance(datetime, allow_none=True)

    def __init__(
        self,
        keys: Iterable[Key] = (),
        offsets: tuple[int, int] | None = None,
        moment: datetime | str | None = None,
        columns: Iterable[str] = SHARE_PARTITION,
    ) -> None:
        super().__init__()
        self.columns = tuple(columns)
        #: Id of the selection in the browser, by which views are linked.
        self.id = uuid.uuid4().hex
        self.keys = tuple(keys)
        self.offsets = None if offsets is None else tuple(offsets)
        self.moment = _time(moment) if isinstance(moment, str) else moment

    @traitlets.validate("keys")
    def _keys_fit(self, proposal: Any) -> tuple[Key, ...]:
        keys = tuple(tuple(key) for key in proposal["value"])
        if wrong := [key for key in keys if len(key) != len(self.columns)]:
            raise InputError(
                f"{wrong[0]!r} is not a key: a key has the values of {', '.join(self.columns)}"
            )
        return keys

    @traitlets.validate("offsets")
    def _offsets_fit(self, proposal: Any) -> tuple[int, int] | None:
        value = proposal["value"]
        if value is not None and (len(value) != 2 or None in value or value[0] > value[1]):
            raise InputError(
                f"{value!r} is not a range of offsets: give the first and the last, both inclusive"
            )
        return None if value is None else (int(value[0]), int(value[1]))

    @traitlets.validate("moment")
    def _moment_fits(self, proposal: Any) -> datetime | None:
        moment = proposal["value"]
        if moment is not None and moment.tzinfo is None:
            raise InputError(
                f"{moment} has no time zone: append Z for UTC, or an offset such as +01:00"
            )
        return None if moment is None else moment.astimezone(UTC)

    def clear(self) -> None:
        """Clear the selection."""
        with self.hold_trait_notifications():
            self.keys, self.offsets, self.moment = (), None, None

    def of(self, rows: Rows) -> pa.Table:
        """Return the rows of the picked share partitions, in table order; all if none is picked.

        Raises
        ------
        InputError
            The table lacks a column of the key.
        """
        table = table_of(rows)
        if not self.keys:
            return table
        mine = set(self.keys)
        return table.filter(
            pa.array([key in mine for key in keys_of(table, self.columns)], pa.bool_())
        )

    def to_code(self, rows: str | None = None) -> str:
        """Return the Python that reproduces this selection.

        Parameters
        ----------
        rows : str, optional
            Name of a table whose rows the code then selects.
        """
        given = [f"{list(self.keys)!r}"] if self.keys else []
        given += [f"offsets={self.offsets!r}"] if self.offsets else []
        given += [f"moment={iso(self.moment)!r}"] if self.moment else []
        given += [f"columns={self.columns!r}"] if self.columns != SHARE_PARTITION else []
        choose = f".of({rows})" if rows else ""
        made = f"Selection({', '.join(given)}){choose}"
        return f"from sharelag_widgets import Selection\n\n{made}\n"

    def __repr__(self) -> str:
        return self.to_code().splitlines()[-1]


def _time(text: str) -> datetime:
    from sharelag.replay.moment import parse_time  # imported here, as it loads numba

    return parse_time(text)


def keys_of(table: pa.Table, columns: Iterable[str]) -> list[Key]:
    """Return the key of every row."""
    names = list(columns)
    require(table, names, more=". Say with keys=(...) which columns name a row")
    return list(zip(*(table.column(name).to_pylist() for name in names), strict=True))


def selection_for(selection: Selection | None, keys: Iterable[str]) -> Selection:
    """Return the given selection if it has these keys, or a new one."""
    names = tuple(keys)
    if selection is None:
        return Selection(columns=names)
    if selection.columns != names:
        raise InputError(
            f"the selection has keys {', '.join(selection.columns)}, and the rows have "
            f"{', '.join(names)}: give keys=selection.columns, or another selection"
        )
    return selection


def isolate(name: str) -> str:
    """Isolate the direction of a name, so that a right-to-left one does not turn the sentence."""
    turns = any(unicodedata.bidirectional(letter) in _TURNING for letter in name)
    return f"\u2068{name}\u2069" if turns else name


def key_texts(table: pa.Table, columns: Iterable[str]) -> pa.Array:
    """Return the `key_text` of every row; each distinct value is formatted once."""
    parts = []
    for name in columns:
        column = flat(table.column(name))
        words = of_distinct(column, lambda value: key_text((value,))[1:-1], pa.string())
        parts.append(words.fill_null("null"))
    joined = pc.binary_join_element_wise(*parts, ",")
    return pc.binary_join_element_wise("[", joined, "]", "")


def key_text(key: Key) -> str:
    """Return a key in the form that the browser's views exchange."""
    return json.dumps(key, default=str, ensure_ascii=False, separators=(",", ":"))


class Heard(anywidget.AnyWidget):
    """A widget whose view requests the state again after lost messages.

    anywidget's model cannot request it, but the page finds models by id (`shared/hearing.js`).
    Changes in the page also arrive as messages, which keep their order.
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
        """Handle a message of the page."""


#: Traits of a selection that users pick.
PICKED = ["keys", "offsets", "moment"]


class Deaf:
    """A listener that also changes what it observes."""

    _hearing = False

    @contextmanager
    def _deaf(self) -> Iterator[None]:
        # Changes that it sent must not return, and received ones must not be sent again.
        self._hearing = True
        try:
            yield
        finally:
            self._hearing = False


def in_other_forms(made: Any, **forms: str) -> Any:
    """Return a widget's MIME bundle with text for GitHub, mail and terminals."""
    if made is None:
        return None
    data, metadata = made if isinstance(made, tuple) else (made, {})
    return {**data, **{f"text/{form}": words for form, words in forms.items()}}, metadata


class View(Deaf, Heard):
    """A view of rows.

    A subclass makes ``data`` from its rows, lists the traits that users change (`_PICKS`), and
    converts between them and the selection (`_picked`, `_show`).
    """

    title = traitlets.Unicode("").tag(sync=True)
    data = traitlets.Bytes(b"").tag(sync=True)
    #: The text of an empty view.
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
        """The selection, which linked views share."""
        return self._selection

    @selection.setter
    def selection(self, selection: Selection) -> None:
        self._selection.unobserve(self._hear, names=PICKED)
        self._selection = selection
        self._selection.observe(self._hear, names=PICKED)
        self.link = selection.id
        self._hear()

    def summary(self) -> str:
        """Return a summary of the view in a sentence."""
        return self.note or self.title

    def to_code(self) -> str:
        """Return the Python that reproduces the selection."""
        return self._selection.to_code()

    def close(self) -> None:
        """Detach from the selection, which may outlive the view."""
        if self.comm is not None:  # the garbage collector closes it again
            self._selection.unobserve(self._hear, names=PICKED)
        super().close()

    def _picked(self, trait: str) -> dict[str, Any]:
        """Return the selection's traits after a change of this trait."""
        raise NotImplementedError

    def _show(self, selection: Selection) -> None:
        """Set the traits in `_PICKS` from the selection."""
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
        """Return the HTML for a saved notebook without a kernel."""
        return still.words(self.summary(), title)

    def _ipython_display_(self, **_: Any) -> None:
        still.show(self)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        made = super()._repr_mimebundle_(**options)
        return in_other_forms(made, plain=self.summary(), html=self.still())


class RowsView(View):
    """A view of rows with keys; several rows may have the same key."""

    #: Numbers of the picked rows (uint32, ascending).
    picked = traitlets.CBytes(b"").tag(sync=True)  # messages have memoryviews
    filter = traitlets.Unicode("").tag(sync=True)  # words that a row must contain

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
        """The table shown; set it to replace it. Picked keys stay picked."""
        return self._rows

    @rows.setter
    def rows(self, rows: Rows) -> None:
        self._take(table_of(rows))
        with self._deaf(), self.hold_sync():
            self._publish()
            self._show(self._selection)

    @property
    def picked_rows(self) -> pa.Table:
        """The picked rows; empty if none is picked."""
        return self._rows.take(pa.array(np.frombuffer(self.picked, np.uint32)))

    def to_code(self, rows: str = "rows") -> str:
        """Return the Python that selects the picked rows from a table of this name."""
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
        return {"_key": column_of(key_texts(self._rows, self._key_columns))}

    def _picked(self, _: str) -> dict[str, Any]:
        chosen = np.frombuffer(self.picked, np.uint32)
        return {"keys": tuple(dict.fromkeys(self._row_keys[row] for row in chosen))}

    def _show(self, selection: Selection) -> None:
        rows = sorted(row for key in selection.keys for row in self._by_key.get(key, []))
        self.picked = np.array(rows, np.uint32).tobytes()


def key_names(rows: pa.Table, keys: Sequence[str] | None) -> tuple[str, ...]:
    """Return the given key columns, or by default those of a share partition."""
    if keys is not None:
        return tuple(keys)
    return tuple(name for name in SHARE_PARTITION if name in rows.schema.names) or SHARE_PARTITION


def labels_of(rows: pa.Table, keys: Sequence[Key], labels: Mapping[Key, str] | None) -> pa.Array:
    """Return the label of every row: the given one, else topic and partition, else its key."""
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
