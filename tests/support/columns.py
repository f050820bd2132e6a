"""Tables with other values in a column."""

from collections.abc import Sequence
from typing import TypeVar

import pyarrow as pa

T = TypeVar("T", pa.Table, pa.RecordBatch)


def with_column(
    table: T, name: str, values: Sequence[object] | pa.Array | pa.ChunkedArray | pa.Scalar
) -> T:
    """Return a table or batch with these values in a column: one for all rows, or one each."""
    place = table.schema.get_field_index(name)
    field = table.schema.field(place)
    if isinstance(values, pa.Scalar):
        values = pa.repeat(values.cast(field.type), table.num_rows)
    elif not isinstance(values, pa.Array | pa.ChunkedArray):
        values = pa.array(values, field.type)
    return table.set_column(place, field if values.type == field.type else name, values)
