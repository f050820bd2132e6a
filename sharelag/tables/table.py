"""The types that declare tables and columns; `sharelag.tables.declared` has the declarations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

import pyarrow as pa

TIMESTAMP = pa.timestamp("ms", tz="UTC")
#: The type of times in brokers' logs and consumers' output, finer than Kafka's own.
INSTANT = pa.timestamp("us", tz="UTC")
#: Metadata of a text column with amounts, such as ``1m 37s``, which are right-aligned like
#: numbers.
AMOUNT = {b"sharelag": b"amount"}
#: One state batch: offsets first..last inclusive, as Kafka stores them.
STATE_BATCH = pa.struct(
    [
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("delivery_state", pa.int8()),
        ("delivery_count", pa.int16()),
    ]
)
#: The difference between two numbers for one reason; null: the reason is known, the size is not.
DIFFERENCE = pa.struct([("number", pa.string()), ("reason", pa.string()), ("offsets", pa.int64())])


class Format(Enum):
    """The format of values, with their unit, and the usual type of their columns."""

    unit: str
    type: pa.DataType

    TEXT = ("text", "", pa.string())
    FLAG = ("flag", "", pa.bool_())
    TIME = ("time", "UTC", TIMESTAMP)
    DURATION = ("duration", "ms", pa.int64())
    ORDINAL = ("ordinal", "", pa.int32())  # partitions, epochs: no separators between thousands
    COUNT = ("count", "", pa.int64())
    OFFSET = ("offset", "offset", pa.int64())  # a position in a log, without separators for copying
    OFFSETS = ("offsets", "offsets", pa.int64())  # a number of offsets
    BYTES = ("bytes", "bytes", pa.int64())
    RATE = ("rate", "1/s", pa.float64())
    RATIO = ("ratio", "", pa.float64())
    LIST = ("list", "", pa.list_(pa.string()))
    RUNS = ("runs", "", pa.list_(STATE_BATCH))  # offsets with their state and delivery count
    DIFFERENCES = ("differences", "", pa.list_(DIFFERENCE))  # reasons why two numbers differ

    def __new__(cls, word: str, unit: str, kind: pa.DataType) -> Format:
        """Store unit and type with the word."""
        made = object.__new__(cls)
        made._value_ = word
        made.unit, made.type = unit, kind
        return made


class Column(NamedTuple):
    """One column, in all tables that have it.

    Attributes
    ----------
    name
        Its name in all tables, and in JSON and CSV.
    format
        The format of its values, and their unit.
    meaning
        Its meaning in plain words; ``null`` stands for an unknown value.
    heading
        Its heading on a terminal, if that is not the name in capitals.
    type
        Its Arrow type, if that is not the usual one of the format.
    """

    name: str
    format: Format
    meaning: str
    heading: str = ""
    type: pa.DataType | None = None

    @property
    def title(self) -> str:
        """The heading on a terminal."""
        return self.heading or self.name.upper().replace("_", "-")

    @property
    def words(self) -> str:
        """The same heading on a page."""
        return self.title.removeprefix("#").replace("-", " ").capitalize()

    @property
    def field(self) -> pa.Field:
        """The field of an Arrow schema."""
        return pa.field(self.name, self.type or self.format.type)

    def means(self, null: str = "-") -> str:
        """Return its meaning, with the given text for an unknown value."""
        return self.meaning.replace("null", null)


class Own(NamedTuple):
    """A column that is declared elsewhere, with another meaning or type in one table."""

    name: str
    meaning: str = ""  # empty: unchanged
    type: pa.DataType | None = None  # None: unchanged
    in_view: bool = False  # whether the table's view uses this meaning, too

    @property
    def column(self) -> Column:
        """The column, with the changes of this table."""
        common = COLUMNS[self.name]
        return common._replace(
            meaning=self.meaning or common.meaning, type=self.type or common.type
        )


#: Every column by name.
COLUMNS: dict[str, Column] = {}


def declare(*columns: Column) -> None:
    """Declare columns of many tables, or of none that are only shown; each column once."""
    for column in columns:
        if column.name in COLUMNS:
            raise ValueError(f"column {column.name} is declared twice")
        COLUMNS[column.name] = column


@dataclass(frozen=True)
class View:
    """Columns to show, in their order.

    Attributes
    ----------
    names
        Names in `COLUMNS`.
    headings
        Headings that differ from those of the columns.
    meanings
        Meanings that differ from those of the columns.
    """

    names: tuple[str, ...]
    headings: Mapping[str, str] = field(default_factory=dict)
    meanings: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> dict[str, str]:
        """Headings and their columns, as results and printed tables need them."""
        return {self.headings.get(name) or COLUMNS[name].title: name for name in self.names}

    @property
    def means(self) -> dict[str, str]:
        """The meaning of each column, by name."""
        common = (name for name in self.names if name not in self.meanings)
        return {name: COLUMNS[name].means() for name in common} | dict(self.meanings)

    def without(self, *names: str) -> View:
        """Return the view without some columns."""
        return replace(self, names=tuple(name for name in self.names if name not in names))

    def after(self, name: str, *others: str) -> View:
        """Return the view with other columns after one of its columns."""
        at = self.names.index(name) + 1
        return replace(self, names=(*self.names[:at], *others, *self.names[at:]))


def view(names: str, meanings: Mapping[str, str] | None = None, **headings: str) -> View:
    """Create a view from names of columns in one text."""
    return View(tuple(names.split()), headings, meanings or {})


def in_words(names: str, **headings: str) -> View:
    """Create a view for a page: headings in words, by default those of a terminal."""
    chosen = tuple(names.split())
    return View(chosen, {name: COLUMNS[name].words for name in chosen} | headings)


class Table:
    """One table: its columns, and those to show by default.

    Parameters
    ----------
    name : str
        Its name in `bench.frames`, SQL or an option.
    row : str
        The meaning of one row.
    *columns : str, Column, Own or Table
        Its columns in order: names of declared columns, a column that this declares for all tables,
        a column with changes for this table, or the columns of another table.
    view : str or View
        The columns to show by default.

    Attributes
    ----------
    columns
        Its columns, with their meanings and types in this table.
    schema
        The Arrow schema.
    """

    columns: tuple[Column, ...]
    schema: pa.Schema
    view: View

    def __init__(
        self, name: str, row: str, *columns: str | Column | Own | Table, view: str | View = ""
    ) -> None:
        self.name, self.row = name, row
        made: list[Column] = []
        for one in columns:
            match one:
                case str():
                    made += [COLUMNS[name] for name in one.split()]
                case Table():
                    made += one.columns
                case Own():
                    made.append(one.column)
                case Column():
                    declare(one)
                    made.append(one)
        self.columns = tuple(made)
        self.schema = pa.schema([column.field for column in made])
        shown = View(tuple(view.split())) if isinstance(view, str) else view
        own = (one for one in columns if isinstance(one, Own) and one.in_view)
        meanings = {one.name: one.column.means() for one in own}
        self.view = replace(shown, meanings=meanings | dict(shown.meanings))
