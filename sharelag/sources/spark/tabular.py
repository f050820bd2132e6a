"""Tables of this process where Spark's DataFrames are taken: pandas and Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, cast

import pyarrow as pa

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.schemas.arrow import as_table
from sharelag.sources.spark import session

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    #: Rows of the user's own.
    Tabular: TypeAlias = DataFrame | pd.DataFrame | pa.Table | pa.RecordBatch


def as_frame(
    given: Tabular, schema: pa.Schema, what: str, spark: SparkSession | None = None
) -> DataFrame:
    """Return a DataFrame of Spark as it is, and a table of this process as one.

    Parameters
    ----------
    given : DataFrame of Spark or pandas, pyarrow.Table or pyarrow.RecordBatch
        Further columns are welcome.
    schema : pyarrow.Schema
        The columns it has; times in any unit.
    what : str
        How to call the table in messages.
    spark : pyspark.sql.SparkSession, optional
        Else the active one, or one for this machine.

    Raises
    ------
    InputError
        It is not a table, or a column is missing or of another type.
    """
    if hasattr(given, "sparkSession"):
        schemas.require(given, schema, what)
        return cast("DataFrame", given)
    table = as_arrow(given, schema, what)
    schemas.require(table, schema, what)
    used = spark or session()
    if not table.num_rows:  # Spark knows no types of nothing
        return used.createDataFrame([], schemas.spark_schema(schema))
    return used.createDataFrame(table.select(schema.names))


def as_arrow(given: Any, schema: pa.Schema, what: str) -> pa.Table:
    """Return a table of this process as one of Arrow; parameters as for `as_frame`."""
    if isinstance(given, pa.Table | pa.RecordBatch):
        return as_table(given)
    if not hasattr(given, "iloc") or not hasattr(given, "columns"):
        raise InputError(
            f"cannot read {what} from a {type(given).__name__}: give a DataFrame of Spark or "
            "pandas, or an Arrow table"
        )
    there = [field for field in schema if field.name in given.columns]
    columns = []
    for field in there:
        # Times keep their unit; other columns have lost their type where pandas holds objects.
        kind = None if pa.types.is_timestamp(field.type) else field.type
        try:
            columns.append(pa.array(given[field.name], kind, from_pandas=True))
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise InputError(
                f"{what}: column {field.name!r} cannot be read as {field.type}: {error}"
            ) from error
    return pa.table(columns, names=[field.name for field in there])
