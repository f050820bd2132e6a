"""Convert users' tables to the columns and types of a schema.

`conform` defines what is accepted; Spark DataFrames follow the same rules
(`sharelag.inputs.spark.frames`), with the same errors.

| column | is taken from |
|---|---|
| bytes | any kind of binary; texts are not what was written |
| text | any kind of text, categories of them |
| whole number | any number without a fraction that the column can hold; NaN is null |
| time | a timestamp in any unit and zone; without a zone it is in UTC; no date, no number |

A column with only nulls may have any type. Other columns, and another order, are accepted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import InputError
from sharelag.tables.declared.records import OFFSETS

#: Types that functions over Arrow accept.
Arrow: TypeAlias = pa.RecordBatch | pa.Table
_Rows = TypeVar("_Rows", pa.RecordBatch, pa.Table)
#: Names and types of columns; the type is text if Arrow has no such type.
Columns: TypeAlias = Sequence[tuple[str, pa.DataType | str]]

#: Columns that sinks may omit, and that no answer needs.
OPTIONAL = frozenset({"timestampType"})
#: Without these columns, a row of offsets belongs to no topic partition.
PLACE = ("topic_id", "partition")
_NUMBERS = ("integer", "floating", "decimal")
#: Accepted types for each kind of column, by their names in `pyarrow.types`.
_TAKEN = {
    "binary": ("binary", "large_binary", "binary_view", "fixed_size_binary"),
    "string": ("string", "large_string", "string_view"),
    "integer": _NUMBERS,
    "floating": _NUMBERS,
    "timestamp": ("timestamp",),
}
#: Arrow's equivalents of Spark's simple types.
_SPARK_TYPES = {
    "byte": pa.int8(), "short": pa.int16(), "integer": pa.int32(), "long": pa.int64(),
    "float": pa.float32(), "double": pa.float64(), "boolean": pa.bool_(), "void": pa.null(),
    "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip


def conform(rows: _Rows, schema: pa.Schema, what: str) -> _Rows:
    """Return a table or a batch with exactly the columns and types of a schema.

    ``what`` is the table's name in messages: an `InputError` says which column is missing, or has a
    type or a value that cannot be converted.
    """
    if not rows.schema.equals(schema):
        require_conformable(rows.schema, schema, what)
        there = set(rows.schema.names)
        arrays = [
            _as(rows.column(field.name), field, what)
            if field.name in there
            else pa.nulls(rows.num_rows, field.type)
            for field in schema
        ]
        rows = type(rows).from_arrays(arrays, schema=schema)
    return rows


def conform_given(given: Any, schema: pa.Schema, what: str) -> pa.Table:
    """Convert a table of this process, from any library, to Arrow with a schema's columns.

    That is a pandas or polars DataFrame, an Arrow table, or any object with ``__arrow_c_stream__``
    or ``__arrow_c_array__``, Arrow's interface between libraries; see `conform`.
    """
    kind = type(given)  # a Spark Column seems to have every attribute, as names of its fields
    if hasattr(kind, "iloc") and hasattr(kind, "to_spark"):  # its rows are in Spark
        raise InputError(f"{what}: give the Spark DataFrame behind this one: to_spark() returns it")
    if hasattr(kind, "iloc") and hasattr(kind, "columns"):
        table = _of_pandas(given, schema, what)
    elif hasattr(kind, "__arrow_c_stream__") or hasattr(kind, "__arrow_c_array__"):
        table = pa.table(given)
    else:
        raise InputError(
            f"cannot read {what} from a {type(given).__name__}: give a DataFrame of Spark, pandas "
            "or polars, or an Arrow table (of files by spark.read.parquet, of a list of rows by "
            "pyarrow.Table.from_pylist)"
        )
    rows = conform(table, schema, what)
    if schema is OFFSETS.schema and any(rows.column(name).null_count for name in PLACE):
        raise InputError(without_place(what))
    return rows


def require(table: Any, schema: pa.Schema, what: str) -> None:
    """Check that a table has all columns of a schema, as steps pass them to each other.

    Of a column, only the unit of its times and the size of its offsets may be others. What people
    bring becomes such a table by `conform`. The `InputError` has every column that is missing,
    there twice or of another type: name, expected, got.
    """
    if isinstance(table, pa.Table | pa.RecordBatch) and table.schema.equals(schema):
        return
    found = table if isinstance(table, pa.Schema) else table.schema
    _refuse(columns_of(found), schema, what, _is_same)


def require_conformable(given: Any, schema: pa.Schema, what: str) -> None:
    """Raise the error of `conform` unless it accepts the columns of a schema, Arrow or Spark."""
    _refuse(columns_of(given), schema, what, _is_taken, OPTIONAL)


def columns_of(schema: Any) -> Columns:
    """Return the names and types of the columns of a schema, Arrow or Spark."""
    if isinstance(schema, pa.Schema):
        return [(field.name, field.type) for field in schema]
    return [(field.name, _of_spark(field.dataType)) for field in schema.fields]


def _of_spark(kind: Any) -> pa.DataType | str:
    try:
        return _arrow_type(kind)
    except KeyError:  # Arrow has no such type
        return str(kind.simpleString())


def _arrow_type(kind: Any) -> pa.DataType:
    # The parameters of pyspark's own function differ between versions.
    match kind.typeName():
        case "array":
            return pa.list_(_arrow_type(kind.elementType))
        case "map":
            return pa.map_(_arrow_type(kind.keyType), _arrow_type(kind.valueType))
        case "struct":
            return pa.struct([(field.name, _arrow_type(field.dataType)) for field in kind.fields])
        case "decimal":
            return pa.decimal128(kind.precision, kind.scale)
        case name:
            return _SPARK_TYPES[name]


def without_place(what: str) -> str:
    """Return the error for rows of offsets without their topic partition."""
    return (
        f"{what}: rows without a topic_id or a partition belong to no topic partition: remove "
        "them, or fill in what is missing"
    )


def not_whole(what: str, field: pa.Field) -> str:
    """Return the error for numbers that do not fit into a column."""
    return (
        f"{what}: {field.name} has values that {_plain(field.type)} cannot hold: give whole "
        "numbers in its range, and nulls for what is not known"
    )


def _refuse(
    columns: Columns,
    schema: pa.Schema,
    what: str,
    fits: Callable[[Any, pa.DataType], bool],
    optional: frozenset[str] = frozenset(),
) -> None:
    count = Counter(name for name, _ in columns)
    got = dict(columns)
    alike = {name.lower(): name for name in got}
    wrong, advice = [], ""
    for name, expected in columns_of(schema):
        if count[name] == 0 and name not in optional:
            but = f", but {alike[name.lower()]}" if name.lower() in alike else ""
            wrong.append((name, expected, f"no such column{but}"))
        elif count[name] > 1:  # ambiguous
            wrong.append((name, expected, f"{count[name]} columns of this name"))
        elif count[name] and not fits(got[name], expected):
            is_same = _plain(got[name]) == _plain(expected)  # except for details not in its name
            wrong.append((name, expected, str(got[name]) if is_same else _plain(got[name])))
            if pa.types.is_binary(expected) and _plain(got[name]) == "string":
                advice = (
                    "Where Spark read bytes as texts, spark.sql.parquet.binaryAsString is true: "
                    "set it to false, or cast the column to binary; texts in base64 or hex become "
                    "bytes by unbase64 or unhex. "
                )
            if pa.types.is_timestamp(expected) and _plain(got[name]) == "int64":
                advice += (
                    "Milliseconds become times by timestamp_millis in Spark, and by "
                    "to_datetime(..., unit='ms') in pandas; a cast takes them for seconds. "
                )
    if wrong:
        misfits = [f"{name}: expected {_plain(kind)}, got {found}" for name, kind, found in wrong]
        raise InputError(
            f"{what}: {len(wrong)} of {len(schema)} columns do not fit: {'; '.join(misfits)}. "
            f"{advice}Expected the columns {', '.join(schema.names)}; rename or cast yours before "
            "handing the table over."
        )


def _is_same(got: pa.DataType | str, expected: pa.DataType) -> bool:
    # Arrow can neither filter rows of views nor compare them with texts.
    return _plain(got) == _plain(expected) and "_view" not in str(got)


def _is_taken(got: pa.DataType | str, expected: pa.DataType) -> bool:
    if isinstance(got, str):
        return False
    if pa.types.is_dictionary(got):
        return _is_taken(got.value_type, expected)
    for kind, taken in _TAKEN.items():
        if _is(kind, expected):
            return pa.types.is_null(got) or any(_is(one, got) for one in taken)
    return pa.types.is_null(got) or _plain(got) == _plain(expected)


def _is(kind: str, got: pa.DataType) -> bool:
    return bool(getattr(pa.types, f"is_{kind}")(got))


def _plain(kind: pa.DataType | str) -> str:
    """Return one name for equivalent types: large variants, units of timestamps, views."""
    if isinstance(kind, str):
        return kind
    if pa.types.is_timestamp(kind):
        return "timestamp"
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    # Spark has another name for the items of lists.
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list<{_plain(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return "struct<" + ", ".join(f"{field.name}: {_plain(field.type)}" for field in kind) + ">"
    if pa.types.is_map(kind):
        return f"map<{_plain(kind.key_type)}, {_plain(kind.item_type)}>"
    return str(kind).removeprefix("large_").removesuffix("_view")


def _as(column: pa.Array | pa.ChunkedArray, field: pa.Field, what: str) -> Any:
    """Convert a column to a field's type, which is known to be accepted."""
    if column.type == field.type:
        return column
    try:
        if isinstance(column, pa.ChunkedArray):
            return pa.chunked_array([_cast(one, field.type) for one in column.chunks], field.type)
        return _cast(column, field.type)
    except pa.ArrowInvalid as error:
        if pa.types.is_integer(field.type):
            raise InputError(not_whole(what, field)) from error
        raise InputError(
            f"{what}: column {field.name!r} cannot be read as {_plain(field.type)}: {error}"
        ) from error


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        # explicitly, because Arrow cannot cast dictionaries of views
        return _cast(column.dictionary, kind).take(column.indices)
    if pa.types.is_floating(column.type) and pa.types.is_integer(kind):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    # Kafka's times have milliseconds: drop finer units.
    is_finer = pa.types.is_timestamp(column.type) and column.type.unit in ("us", "ns")
    return column.cast(kind, safe=not is_finer)


def _of_pandas(given: Any, schema: pa.Schema, what: str) -> pa.Table:
    """Return the columns of a pandas DataFrame that a schema names, with their own types."""
    names, columns = [], []
    if lost := [n for n in given.index.names if n in schema.names and n not in given.columns]:
        raise InputError(
            f"{what}: the index has {', '.join(lost)}: reset_index() makes columns of it"
        )
    for at, name in enumerate(given.columns):
        if name in schema.names:
            # Infer the type of object columns from their values, except for lists of numbers.
            kind, values = schema.field(name).type, given.iloc[:, at]
            try:
                target = kind if pa.types.is_nested(kind) else None
                column = pa.array(values, target, from_pandas=True)
                may_mix = pa.types.is_binary(column.type) and values.dtype == object
                if may_mix and str in set(map(type, values)):  # Arrow encodes the texts
                    raise pa.ArrowTypeError("it has texts among bytes")
            except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
                raise InputError(
                    f"{what}: column {name!r} cannot be read: {error}. Give it one type"
                ) from error
            # pandas represents nulls alone as NaN, in any column.
            columns.append(column if column.null_count < len(column) else pa.nulls(len(column)))
            names.append(name)
    return pa.table(columns, names=names)
