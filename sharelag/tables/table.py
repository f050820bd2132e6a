"""What tables and columns are declared with: `sharelag.tables.declared` has the declarations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

import pyarrow as pa

TIMESTAMP = pa.timestamp("ms", tz="UTC")
#: Of what brokers' logs and consumers print, which is finer than Kafka's own times.
INSTANT = pa.timestamp("us", tz="UTC")
#: Metadata of a column of words that are amounts, such as ``1m 37s``: they stand at the right, as
#: numbers do.
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
#: By how much a number differs from another one, for one reason; null: the reason is known, its
#: size is not.
DIFFERENCE = pa.struct([("number", pa.string()), ("reason", pa.string()), ("offsets", pa.int64())])


class Format(Enum):
    """How values read, with their unit, and the type that columns of them usually have."""

    unit: str
    type: pa.DataType

    TEXT = ("text", "", pa.string())
    FLAG = ("flag", "", pa.bool_())
    TIME = ("time", "UTC", TIMESTAMP)
    DURATION = ("duration", "ms", pa.int64())
    ORDINAL = ("ordinal", "", pa.int32())  # partitions, epochs: no separators between thousands
    COUNT = ("count", "", pa.int64())
    OFFSET = ("offset", "offset", pa.int64())  # a place in a log, to be copied: without them, too
    OFFSETS = ("offsets", "offsets", pa.int64())  # how many of them
    BYTES = ("bytes", "bytes", pa.int64())
    RATE = ("rate", "1/s", pa.float64())
    RATIO = ("ratio", "", pa.float64())
    LIST = ("list", "", pa.list_(pa.string()))
    RUNS = ("runs", "", pa.list_(STATE_BATCH))  # offsets with their state and delivery count
    DIFFERENCES = ("differences", "", pa.list_(DIFFERENCE))  # why two numbers of one row differ

    def __new__(cls, word: str, unit: str, kind: pa.DataType) -> Format:
        """Keep unit and type beside the word."""
        made = object.__new__(cls)
        made._value_ = word
        made.unit, made.type = unit, kind
        return made


class Column(NamedTuple):
    """One column, in whichever tables it is.

    Attributes
    ----------
    name
        Of all tables that have it, and in JSON and CSV.
    format
        How its values read, and their unit.
    meaning
        In people's words; ``null`` is what is not known.
    heading
        On a terminal, where it is not the name in capitals.
    type
        In Arrow, where it is not the usual one of the format.
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
        """The column of an Arrow table."""
        return pa.field(self.name, self.type or self.format.type)

    def means(self, null: str = "-") -> str:
        """Say what it means, with what stands there where a value is not known."""
        return self.meaning.replace("null", null)


class Own(NamedTuple):
    """A column that is declared elsewhere, and that one table has otherwise."""

    name: str
    meaning: str = ""  # empty: as elsewhere
    type: pa.DataType | None = None  # None: as elsewhere
    in_view: bool = False  # the table's view tells this meaning, too

    @property
    def column(self) -> Column:
        """The column with what this table has otherwise."""
        common = COLUMNS[self.name]
        return common._replace(
            meaning=self.meaning or common.meaning, type=self.type or common.type
        )


#: Every column by name.
COLUMNS: dict[str, Column] = {}


def declare(*columns: Column) -> None:
    """Declare columns that many tables have, or that are in no table but are shown; each once."""
    for column in columns:
        if column.name in COLUMNS:
            raise ValueError(f"column {column.name} is declared twice")
        COLUMNS[column.name] = column


@dataclass(frozen=True)
class View:
    """Columns that people are shown, in their order.

    Attributes
    ----------
    names
        Of `COLUMNS`.
    headings
        Of columns that are called otherwise here.
    meanings
        Of columns that have a special meaning here.
    """

    names: tuple[str, ...]
    headings: Mapping[str, str] = field(default_factory=dict)
    meanings: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> dict[str, str]:
        """Heading to column, as results and printed tables take them."""
        return {self.headings.get(name) or COLUMNS[name].title: name for name in self.names}

    @property
    def means(self) -> dict[str, str]:
        """What each column means, by name."""
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
    """Return a view of columns whose names are given in one text."""
    return View(tuple(names.split()), headings, meanings or {})


def in_words(names: str, **headings: str) -> View:
    """Return a view for a page: headings in words, where none is given those of a terminal."""
    chosen = tuple(names.split())
    return View(chosen, {name: COLUMNS[name].words for name in chosen} | headings)


class Table:
    """One table: its columns, and those that people are shown.

    Parameters
    ----------
    name : str
        As `bench.frames`, SQL or an option calls it.
    row : str
        What one row is.
    *columns : str, Column, Own or Table
        In their order: names of columns that are declared already, a column that this declares for
        all tables, a column that this table has otherwise, or the columns of another table.
    view : str or View
        The columns that people are shown without asking.

    Attributes
    ----------
    columns
        With the meanings and types that they have in this table.
    schema
        The same in Arrow.
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
        told = {one.name: one.column.means() for one in own}
        self.view = replace(shown, meanings=told | dict(shown.meanings))
