"""Views of rows that people can pick: what they share of data, keys and selection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import traitlets

from .columns import Column, Rows, column_of, pack, table_of
from .selection import SHARE_PARTITION, Key, Selection, isolated, key_texts, keys_of
from .view import View


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
        """The columns that the browser needs."""
        return {"_key": column_of(key_texts(self._rows, self._key_columns), "key")}

    def _picked(self, _: str) -> dict[str, Any]:
        chosen = np.frombuffer(self.picked, np.uint32)
        return {"keys": tuple(dict.fromkeys(self._row_keys[row] for row in chosen))}

    def _show(self, selection: Selection) -> None:
        rows = sorted(row for key in selection.keys for row in self._by_key.get(key, []))
        self.picked = np.array(rows, np.uint32).tobytes()


def key_names(rows: pa.Table, keys: Sequence[str] | None) -> tuple[str, ...]:
    """The columns that name a row: those given, else those of a share partition."""
    if keys is not None:
        return tuple(keys)
    return tuple(name for name in SHARE_PARTITION if name in rows.schema.names) or SHARE_PARTITION


def labels_of(rows: pa.Table, keys: Sequence[Key], labels: Mapping[Key, str] | None) -> pa.Array:
    """A name for people for every row: the one given, or its topic and partition, or its key."""
    names = rows.schema.names
    if labels is None and "partition" in names and ("topic" in names or "topic_id" in names):
        given = [rows.column(name) for name in ("topic", "topic_id") if name in names]
        coded = pc.coalesce(*(one.cast(pa.string()) for one in given)).dictionary_encode()
        coded = coded.combine_chunks()
        shown = pa.array(map(isolated, coded.dictionary.to_pylist()), pa.string())
        numbers = rows.column("partition").combine_chunks().cast(pa.string())
        return pc.binary_join_element_wise(shown.take(coded.indices), numbers, "-")
    return pa.array(
        [(labels or {}).get(key, " / ".join(map(str, key))) for key in keys], pa.string()
    )
