"""The columns of every table, declared once, in Arrow; Spark's schema is derived from it.

Nulls mean *unknown* (or *not part of this kind of record*), never zero. Offsets called ``end`` are
exclusive. All timestamps are UTC milliseconds, as Kafka's are.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from sharelag.errors import InputError
from sharelag.schemas.answers import (
    CAUSES,
    DIFF,
    EVENTS,
    HEALTH,
    IMBALANCE,
    LAG,
    OVERVIEW,
    PROGRESS,
    RESET_PLAN,
    ROLLUP,
    TIMELINE,
)
from sharelag.schemas.brokers import BROKERS, LEADERS, NODES
from sharelag.schemas.measured import BROKER_METRICS, MEASURED
from sharelag.schemas.records import (
    GAPS,
    GROUP_RECORDS,
    LOGS,
    NAMED_SHARE_PARTITION,
    NAMED_TOPIC_PARTITIONS,
    OFFSETS,
    POSITION,
    RAW,
    RECORDS,
    REJECTS,
    SETTINGS,
    SHARE_PARTITION,
    SHARE_PARTITION_COLUMNS,
    STATE_BATCH,
    TIMES,
    TIMESTAMP,
    TOPIC_PARTITIONS,
    UNKNOWN_TAG,
)
from sharelag.schemas.rights import ACLS, ASKED_RIGHTS, RIGHTS
from sharelag.schemas.states import GROUPS, HISTORY, MEMBERS, OBSERVED, SNAPSHOTS, WINDOWS

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = [
    "ACLS",
    "AMOUNT",
    "ASKED_RIGHTS",
    "BROKERS",
    "BROKER_METRICS",
    "CAUSES",
    "DIFF",
    "EVENTS",
    "GAPS",
    "GROUPS",
    "GROUP_RECORDS",
    "HEALTH",
    "HISTORY",
    "IMBALANCE",
    "LAG",
    "LEADERS",
    "LOGS",
    "MEASURED",
    "MEMBERS",
    "NAMED_SHARE_PARTITION",
    "NAMED_TOPIC_PARTITIONS",
    "NODES",
    "OBSERVED",
    "OFFSETS",
    "OVERVIEW",
    "POSITION",
    "PROGRESS",
    "RAW",
    "RECORDS",
    "REJECTS",
    "RESET_PLAN",
    "RIGHTS",
    "ROLLUP",
    "SETTINGS",
    "SHARE_PARTITION",
    "SHARE_PARTITION_COLUMNS",
    "SNAPSHOTS",
    "STATE_BATCH",
    "TIMELINE",
    "TIMES",
    "TIMESTAMP",
    "TOPIC_PARTITIONS",
    "UNKNOWN_TAG",
    "WINDOWS",
    "Arrow",
    "require",
    "spark_schema",
]

#: Metadata of a column of words that are amounts, such as ``1m 37s``: they stand at the right, as
#: numbers do.
AMOUNT = {b"sharelag": b"amount"}
#: Of what is printed or written as JSON: objects carry it, rows have it in the name of their
#: schema (``docs/schemas``).
SCHEMA_VERSION = 1

#: What the functions over Arrow take.
Arrow: TypeAlias = pa.RecordBatch | pa.Table


def spark_schema(schema: pa.Schema) -> StructType:
    """Spark's form of one of the schemas above.

    Returns
    -------
    pyspark.sql.types.StructType
        Same names and order, every column nullable.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def require(table: Any, schema: pa.Schema, what: str) -> None:
    """Check that a table has all columns of a schema, with its types; further columns are welcome.

    Parameters
    ----------
    table : pyarrow.Schema, pyarrow.Table, pyarrow.RecordBatch or pyspark.sql.DataFrame
    schema : pyarrow.Schema
    what : str
        How to call the table in the message.

    Raises
    ------
    InputError
        With every column that is missing, there twice or of another type: name, expected, got.
    """
    if isinstance(table, (pa.Table, pa.RecordBatch)) and table.schema.equals(schema):
        return
    got = _column_types(table)
    wanted = _column_types(schema) if isinstance(table, _arrow_types()) else _spark_types(schema)
    wrong = [
        f"{name}: expected {kind}, got {got.get(name, 'no such column')}"
        for name, kind in wanted.items()
        if not _fits(got.get(name), kind)
    ]
    if wrong:
        raise InputError(
            f"{what}: {len(wrong)} of {len(wanted)} columns do not fit: " + "; ".join(wrong) + ". "
            f"Expected the columns {', '.join(wanted)}; rename or cast yours before handing "
            "the table over."
        )


def _arrow_types() -> tuple[type, ...]:
    return (pa.Schema, pa.Table, pa.RecordBatch)


def _column_types(table: Any) -> dict[str, str]:
    schema = table if isinstance(table, pa.Schema) else table.schema
    if isinstance(table, _arrow_types()):
        kinds = [(field.name, _plain(field.type)) for field in schema]
    else:
        kinds = [(field.name, field.dataType.simpleString()) for field in schema.fields]
    count = Counter(name for name, _ in kinds)
    # Of columns with one name, nobody could tell which is meant.
    return {
        name: kind if count[name] == 1 else f"{count[name]} columns of this name"
        for name, kind in kinds
    }


def _spark_types(schema: pa.Schema) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in spark_schema(schema).fields}


def _plain(kind: pa.DataType) -> str:
    """One name for types that count as the same: large variants, units of timestamps.

    Views are others: Arrow can neither take rows of them nor compare them with texts.
    """
    if pa.types.is_timestamp(kind):
        return "timestamp"
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    # Spark calls the items of lists otherwise.
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list<{_plain(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return "struct<" + ", ".join(f"{field.name}: {_plain(field.type)}" for field in kind) + ">"
    return str(kind).removeprefix("large_")


def _fits(got: str | None, wanted: str) -> bool:
    return got == wanted
