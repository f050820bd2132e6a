"""A table of any length to sort, filter, scroll and copy as CSV."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import traitlets

from sharelag.schemas import AMOUNT
from sharelag.tables.table import COLUMNS
from sharelag.tables.words import MEASURES, pluralize

from . import still
from .bundle import script, style
from .columns import Column, Rows, column_of, require, table_of
from .view import RowsView, Selection, key_names, selection_for

_EMPTY = "There are no rows to show."
#: Default columns of `sharelag.schemas.LAG`.
_FIRST = ("group_id", "topic", "partition", "lag", "start_offset", "end_offset")


class LagTable(RowsView):
    """A table of any length. Make one with `LagTable.of`.

    A list of numbers is drawn as a sparkline, with a gap for null.
    """

    _esm = script("lag_table.js")
    _css = style("lag_table.css")

    names = traitlets.List(traitlets.Unicode()).tag(sync=True)  # columns in order
    sort = traitlets.Unicode("").tag(sync=True)
    descending = traitlets.Bool(True).tag(sync=True)
    amounts = traitlets.List(traitlets.Unicode()).tag(sync=True)  # those of them that are `AMOUNT`
    sparks = traitlets.List(traitlets.Unicode()).tag(sync=True)  # those that are lists of numbers
    #: Whether a selection elsewhere hides all other rows.
    narrows = traitlets.Bool(True).tag(sync=True)
    #: Folded rows: those with ``value`` in ``column``, named by ``words``. A table without other
    #: rows shows them.
    folded = traitlets.Dict().tag(sync=True)
    #: Compact layout: texts are shortened earlier, and a level is a symbol.
    dense = traitlets.Bool(False).tag(sync=True)
    headings = traitlets.Dict().tag(sync=True)  # of declared columns
    #: Columns to omit without enough space, in this order.
    optional = traitlets.List(traitlets.Unicode()).tag(sync=True)
    hints = traitlets.Dict().tag(sync=True)  # meanings of columns, as tooltips of headings

    @classmethod
    def of(
        cls,
        rows: Rows,
        *,
        columns: Sequence[str] | None = None,
        keys: Sequence[str] | None = None,
        sort: str | None = None,
        descending: bool = True,
        selection: Selection | None = None,
        title: str = "Lag",
    ) -> LagTable:
        """Return a view of any table; by default `sharelag.schemas.LAG` has its main columns.

        Parameters
        ----------
        rows : table
        columns : sequence of str, optional
            Columns to show, in this order. Default: all with a value in any row.
        keys : sequence of str, optional
            The columns that identify a row.
        sort : str, optional
            The column to sort by. Default: ``lag``, if there is one, else the order of the rows.
        descending : bool
        selection : Selection, optional
        title : str

        Raises
        ------
        InputError
            A column is missing.
        """
        table = table_of(rows)
        names = key_names(table, keys)
        shown = list(columns) if columns is not None else _telling(table)
        by = sort if sort is not None else ("lag" if "lag" in shown else "")
        require(table, [*shown, *filter(None, [by])])
        fields = [table.schema.field(name) for name in shown]
        return cls(
            table,
            names,
            selection_for(selection, names),
            _EMPTY,
            names=shown,
            amounts=[field.name for field in fields if field.metadata == AMOUNT],
            sparks=[field.name for field in fields if _is_series(field.type)],
            headings={name: COLUMNS[name].words for name in shown if name in COLUMNS},
            title=title,
            sort=by,
            descending=descending,
        )

    def summary(self) -> str:
        """Return a summary of the table in a sentence."""
        if not len(self.rows):
            return self.note
        order = f", by {self.sort}{' descending' if self.descending else ''}" if self.sort else ""
        return f"{self.title}: {pluralize(len(self.rows), 'row')} of {', '.join(self.names)}{order}"

    def still(self, title: str = "") -> str:
        """Return the first rows as HTML."""
        names = [name for name in self.names if name not in self.sparks]
        return still.table(title or self.title, self.rows, names, self.sort, self.hints)

    def _columns(self) -> dict[str, Column]:
        shown = dict.fromkeys([*self.names, *([self.sort] if self.sort else [])])
        return super()._columns() | {
            name: _in_words(column_of(self.rows.column(name)), name) for name in shown
        }


def _in_words(column: Column, name: str) -> Column:
    """Return a column with measures named as in a terminal."""
    if name != "measure" or column.texts is None:
        return column
    return column._replace(texts=tuple(MEASURES.get(one, one) for one in column.texts))


def _is_series(kind: pa.DataType) -> bool:
    """Return whether values are lists of numbers, which are drawn as sparklines."""
    return bool(
        pa.types.is_list(kind)
        and (pa.types.is_integer(kind.value_type) or pa.types.is_floating(kind.value_type))
    )


def _telling(table: pa.Table) -> list[str]:
    names = [
        name for name in table.schema.names if table.column(name).null_count < len(table)
    ] or table.schema.names
    first = [name for name in _FIRST if name in names]
    return first + [name for name in names if name not in first]
