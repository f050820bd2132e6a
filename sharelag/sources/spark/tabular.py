"""Tables of this process where Spark's DataFrames are taken, and DataFrames with a schema's types.

What is taken is what `sharelag.schemas.types` says; a DataFrame's columns are cast in its plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import pyarrow as pa

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.schemas.arrow import as_table, for_spark, one_batch
from sharelag.schemas.types import PLACE, not_whole, without_place
from sharelag.sources.spark import session

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField

    class ArrowStream(Protocol):
        """A table of any library that passes tables on as Arrow, such as polars."""

        def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
            """Return the rows in a capsule."""

    #: Rows of the user's own.
    Tabular: TypeAlias = DataFrame | pd.DataFrame | pa.Table | pa.RecordBatch | ArrowStream


def is_of_spark(given: Any) -> bool:
    """Whether a table is a DataFrame of Spark, classic or Connect."""
    return hasattr(given, "sparkSession")


def as_frame(
    given: Tabular, schema: pa.Schema, what: str, spark: SparkSession | None = None
) -> DataFrame:
    """Return a DataFrame with the types of a schema: one of Spark, or a table of this process.

    Parameters
    ----------
    given : DataFrame of Spark, pandas or polars, pyarrow.Table or pyarrow.RecordBatch
        What `sharelag.schemas.types.conform` takes; further columns are welcome.
    schema : pyarrow.Schema
        The columns it has; times in any unit.
    what : str
        How to call the table in messages.
    spark : pyspark.sql.SparkSession, optional
        Else the active one, or one for this machine.

    Returns
    -------
    pyspark.sql.DataFrame
        One of Spark that has these types already is returned as it is. In another one, a value
        that does not fit is found when its row is read.

    Raises
    ------
    InputError
        It is not a table, or a column is missing or of another type.
    """
    if is_of_spark(given):
        return _with_types(cast("DataFrame", given), schema, what)
    batch = one_batch(schemas.conform_given(given, schema, what))
    used = spark or session()
    if not batch.num_rows:  # Spark knows no types of nothing
        return used.createDataFrame([], schemas.spark_schema(schema))
    return used.createDataFrame(as_table(for_spark(batch, schema)))


def _with_types(frame: DataFrame, schema: pa.Schema, what: str) -> DataFrame:
    """Cast what has other types, in the plan."""
    schemas.require_conformable(frame.schema, schema, what)
    there = {field.name: field for field in frame.schema.fields}
    casts = {
        wanted.name: made
        for wanted in schemas.spark_schema(schema).fields
        if (made := _cast(there.get(wanted.name), wanted, schema, what)) is not None
    }
    if not casts:
        return frame
    return frame.select([casts.get(name, name) for name in schema.names])


def _cast(
    got: StructField | None, wanted: StructField, schema: pa.Schema, what: str
) -> Column | None:
    """Return a column as its type in a schema; None: it is that already."""
    from pyspark.sql import functions as f
    from pyspark.sql import types as t

    name, kind = wanted.name, wanted.dataType
    if got is None:
        return f.lit(None).cast(kind).alias(name)
    column = found = f.col(name)
    is_same = got.dataType.simpleString() == kind.simpleString()
    if isinstance(got.dataType, t.TimestampNTZType):
        # A cast would take the zone of the session.
        column = f.concat(column.cast("string"), f.lit("Z")).cast(kind)
    elif isinstance(got.dataType, t.NumericType) and not is_same:
        column = _whole(column, got.dataType, kind, not_whole(what, schema.field(name)))
    elif not is_same:
        column = column.cast(kind)
    if schema is schemas.OFFSETS and name in PLACE and got.nullable:
        column = f.coalesce(column, _refuse(without_place(what), kind))
    return None if column is found else column.alias(name)


def _whole(column: Column, got: Any, wanted: Any, advice: str) -> Column:
    """Return numbers as those of another type; what that cannot hold is an error, NaN a null."""
    from pyspark.sql import functions as f
    from pyspark.sql import types as t

    if not isinstance(wanted, t.IntegralType):
        return column.cast(wanted)
    if isinstance(got, t.FloatType | t.DoubleType):
        column = f.when(~f.isnan(column), column)
    number = column.try_cast(wanted)
    fits = column.isNull() | (number.isNotNull() & (number == column))
    return f.when(fits, number).otherwise(_refuse(advice, wanted))


def _refuse(advice: str, kind: Any) -> Column:
    """Raise an error when a row is read; its line is what the answer's error says."""
    from pyspark.sql import functions as f

    return f.raise_error(f.lit(f"{InputError.__name__}: {advice}\n")).cast(kind)
