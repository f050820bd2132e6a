"""JSON objects, one per line, as rows of a table: whole columns at once, despite damaged lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

#: The start of the first object: pyarrow 26 crashes on a text that begins with null.
_OBJECT = re.compile(rb"(\xef\xbb\xbf)?\s*\{")


def json_rows(
    objects: pa.Array, schema: pa.Schema, is_good: Callable[[pa.Table], bool] = lambda _: True
) -> tuple[pa.Table, pa.Array]:
    """Return the rows of the readable objects, and a mask of these objects.

    Fields that are not in the schema are ignored; ``is_good`` checks whether all rows of a table
    are valid.
    """
    good = np.ones(len(objects), dtype=bool)
    tables = [schema.empty_table()]
    if len(objects):
        tables += _bisect(objects, 0, len(objects), schema, is_good, good)
    return pa.concat_tables(tables).combine_chunks(), pa.array(good)


def _bisect(
    objects: pa.Array,
    begin: int,
    end: int,
    schema: pa.Schema,
    is_good: Callable[[pa.Table], bool],
    good: np.ndarray,
) -> Iterator[pa.Table]:
    """Yield the rows of a range in order; unreadable ones are found by bisection."""
    table = _parse(objects[begin:end], schema)
    if table is not None and is_good(table):
        yield table
    elif end - begin == 1:
        good[begin] = False
    else:
        middle = (begin + end) // 2
        yield from _bisect(objects, begin, middle, schema, is_good, good)
        yield from _bisect(objects, middle, end, schema, is_good, good)


def _parse(objects: pa.Array, schema: pa.Schema) -> pa.Table | None:
    """Return one row per object; None if any of them does not match the schema."""
    ends = pa.array([0, len(objects)], pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(ends, objects), "\n")[0]
    table = read_objects(joined.as_buffer(), schema, "ignore")
    return table if table is not None and table.num_rows == len(objects) else None


def read_objects(text: pa.Buffer, schema: pa.Schema, others: str) -> pa.Table | None:
    """Return one row per object of a text; None if any of them does not match the schema.

    ``others`` is pyarrow's ``unexpected_field_behavior``.
    """
    if not _OBJECT.match(memoryview(text)):
        return None
    options = pa.json.ParseOptions(schema, unexpected_field_behavior=others)
    size = pa.json.ReadOptions(use_threads=False, block_size=max(text.size + 1, 1 << 16))
    try:
        return pa.json.read_json(pa.BufferReader(text), size, options)
    except pa.ArrowInvalid:
        return None
