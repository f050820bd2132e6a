"""One selection for all views that share it: share partitions, offsets, a moment."""

from __future__ import annotations

import json
import unicodedata
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import traitlets

from sharelag.errors import InputError
from sharelag.model import iso
from sharelag.schemas import SHARE_PARTITION as SHARE_PARTITION
from sharelag.tables.arrow import flat, of_distinct

from .columns import Rows, require, table_of

Key = tuple[Any, ...]
_TURNING = {"R", "AL", "RLO", "LRO", "RLE", "LRE", "RLI", "LRI", "FSI", "PDI", "PDF"}


class Selection(traitlets.HasTraits):
    """The picked share partitions, offsets and moment; views that share it are linked.

    Parameters
    ----------
    keys : iterable of tuples
        The values of `columns` of every share partition that is picked; empty: all.
    offsets : (int, int), optional
        First and last offset, both inclusive.
    moment : datetime or str, optional
        With a time zone.
    columns : sequence of str
        What the values of a key are called in the tables.
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
        #: Names the selection in the browser, where the views hear each other.
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
        """Pick nothing."""
        with self.hold_trait_notifications():
            self.keys, self.offsets, self.moment = (), None, None

    def of(self, rows: Rows) -> pa.Table:
        """The rows of the picked share partitions, in their order; all rows if none is picked.

        Raises
        ------
        InputError
            The table lacks a column of the key.
        """
        table = table_of(rows)
        if not self.keys:
            return table
        wanted = set(self.keys)
        return table.filter(
            pa.array([key in wanted for key in keys_of(table, self.columns)], pa.bool_())
        )

    def to_code(self, rows: str | None = None) -> str:
        """Python that makes this selection again.

        Parameters
        ----------
        rows : str, optional
            Name of a table: the code then chooses its rows.
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
    from sharelag.replay.moment import parse_time  # brings numba along

    return parse_time(text)


def keys_of(table: pa.Table, columns: Iterable[str]) -> list[Key]:
    """Return the key of every row."""
    names = list(columns)
    require(table, names, more=". Say with keys=(...) which columns name a row")
    return list(zip(*(table.column(name).to_pylist() for name in names), strict=True))


def selection_for(selection: Selection | None, keys: Iterable[str]) -> Selection:
    """Return the selection given, or a new one of these keys, if it has none others."""
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
    """A name within a sentence: one that runs from right to left must not turn what follows."""
    turns = any(unicodedata.bidirectional(letter) in _TURNING for letter in name)
    return f"\u2068{name}\u2069" if turns else name


def key_texts(table: pa.Table, columns: Iterable[str]) -> pa.Array:
    """Return the key of every row as `key_text` has it; each value of a column is written once."""
    parts = []
    for name in columns:
        column = flat(table.column(name))
        words = of_distinct(column, lambda value: key_text((value,))[1:-1], pa.string())
        parts.append(words.fill_null("null"))
    joined = pc.binary_join_element_wise(*parts, ",")
    return pc.binary_join_element_wise("[", joined, "]", "")


def key_text(key: Key) -> str:
    """Return a key as the browser's views tell it to each other."""
    return json.dumps(key, default=str, ensure_ascii=False, separators=(",", ":"))
