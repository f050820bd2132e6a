"""Every share partition of a cluster as a cell, coloured by one measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import traitlets

from sharelag.errors import InputError

from . import still
from .bundle import script, style
from .columns import Column, Rows, column_of, require, table_of
from .view import Key, RowsView, Selection, key_names, labels_of, selection_for

#: Maximum number of values of a text column that counts as a verdict, and not as names.
MOST_VERDICTS = 7
_EMPTY = (
    "There is no share partition to show: the table has no rows. Is the group's name "
    "right, and has it fetched?"
)
_NO_MEASURE = ("_offset", "_epoch", "_id", "_timestamp")
_NAMED = ("group_id", "topic", "partition")
_NAMES = ("group_id", "topic", "topic_id", "partition", "as_of", "notes")


class PartitionGrid(RowsView):
    """Share partitions as cells, in bands by group: higher values are larger and darker.

    Make one with `PartitionGrid.of`.
    """

    _esm = script("partition_grid.js")
    _css = style("partition_grid.css")

    measures = traitlets.List(traitlets.Unicode()).tag(sync=True)
    measure = traitlets.Unicode("").tag(sync=True)
    order = traitlets.Unicode("name").tag(sync=True)  # name, most or least
    noun = traitlets.Unicode("share partition").tag(sync=True)  # name of a cell
    marked = traitlets.Unicode("").tag(sync=True)  # the highlighted band
    # show only cells from this value on
    least = traitlets.Float(None, allow_none=True).tag(sync=True)
    band = traitlets.Unicode(None, allow_none=True)  # the column that forms bands
    labels: Any = traitlets.Dict(allow_none=True)  # labels of rows by key

    @classmethod
    def of(
        cls,
        rows: Rows,
        *,
        measures: Sequence[str] | None = None,
        keys: Sequence[str] | None = None,
        band: str | None = "group_id",
        labels: Mapping[Key, str] | None = None,
        selection: Selection | None = None,
        title: str = "Share partitions",
        measure: str = "",
        noun: str = "share partition",
    ) -> PartitionGrid:
        """Return a grid of a table with one row per share partition.

        Parameters
        ----------
        rows : table
            `sharelag.schemas.LAG`, optionally with further columns (``age_ms``, ``cause``, a
            verdict).
        measures : sequence of str, optional
            Columns that may colour cells: numbers, or texts of few values. Default: all of these.
        keys : sequence of str, optional
            The columns that identify a row.
        band : str, optional
            The column that forms bands when sorted by name.
        labels : mapping of key to str, optional
        selection : Selection, optional
        title : str
        measure : str
            The initial measure.
        noun : str
            The name of a cell.

        Raises
        ------
        InputError
            A column is missing, or there is nothing to colour cells by.
        """
        table = table_of(rows)
        names = key_names(table, keys)
        chosen = list(measures) if measures is not None else _measures(table, names)
        require(table, [*chosen, *filter(None, [measure])])
        if not chosen and len(table):
            raise InputError(
                "there is nothing to colour cells by: name number columns with measures=[...]"
            )
        if measure and measure not in chosen:
            chosen.insert(0, measure)
        return cls(
            table,
            names,
            selection_for(selection, names),
            _EMPTY,
            measures=chosen,
            measure=measure or ("lag" if "lag" in chosen else next(iter(chosen), "")),
            band=band if band in table.schema.names else None,
            labels=labels,
            title=title,
            noun=noun,
        )

    def summary(self) -> str:
        """Return a summary of the cells in a sentence."""
        if not len(self.rows):
            return self.note
        values = self.rows.column(self.measure)
        unknown = f", {values.null_count:,} not known" if values.null_count else ""
        head = f"{self.title}: {len(self.rows):,} by {self.measure}"
        if not pa.types.is_integer(values.type) and not pa.types.is_floating(values.type):
            counts = ", ".join(
                f"{row['values']} {row['counts']:,}" for row in pc.value_counts(values).to_pylist()
            )
            return f"{head}: {counts}"
        ends = pc.min_max(values)
        return f"{head}, from {ends['min'].as_py()} to {ends['max'].as_py()}{unknown}"

    def still(self, title: str = "") -> str:
        """Return the cells with the highest values as HTML."""
        if not self.measure:
            return super().still(title)
        keys = [name for name in self.rows.schema.names if name in _NAMED]
        names = [*keys, self.measure]
        return still.table(title or self.title, self.rows, names, self.measure)

    def _columns(self) -> dict[str, Column]:
        columns = super()._columns()
        columns["_label"] = column_of(labels_of(self.rows, self._row_keys, self.labels))
        bands = self.rows.column(self.band) if self.band else pa.nulls(len(self.rows))
        columns["_band"] = column_of(pc.fill_null(bands.cast(pa.string()), ""))
        return columns | {name: _to_column(self.rows.column(name)) for name in self.measures}


def _to_column(values: pa.ChunkedArray) -> Column:
    """Return a column as numbers, or as verdicts sorted by name.

    There are `MOST_VERDICTS` looks; the rarest of more verdicts share the last one.
    """
    column = column_of(values, is_exact=False)
    words = column.texts
    if words is None:
        return column
    counts = np.bincount(column.values[column.values >= 0], minlength=len(words))
    often = sorted(range(len(words)), key=lambda code: (-counts[code], words[code]))
    alone = often if len(often) <= MOST_VERDICTS else often[: MOST_VERDICTS - 1]
    texts = sorted(words[code] for code in alone)
    place = {text: number for number, text in enumerate(texts)}
    if rest := len(often) - len(alone):
        texts.append(f"one of {rest} others")
    codes = np.array([place.get(text, len(texts) - 1) for text in words] + [-1], np.int32)
    return Column(codes[column.values], "text", tuple(texts))


def _measures(table: pa.Table, keys: Sequence[str]) -> list[str]:
    return [
        field.name
        for field in table.schema
        if field.name not in (*_NAMES, *keys)
        and not field.name.endswith(_NO_MEASURE)
        and table.column(field.name).null_count < len(table)
        and (_is_number(field.type) or _is_verdict(field.type, table.column(field.name)))
    ]


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _is_verdict(kind: pa.DataType, values: pa.ChunkedArray) -> bool:
    if pa.types.is_boolean(kind):
        return True
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    texts = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return bool(texts and 0 < pc.count_distinct(values, mode="only_valid").as_py() <= MOST_VERDICTS)
