"""The columns of every table, declared once, in Arrow; Spark's schema is derived from it.

Nulls mean *unknown* (or *not part of this kind of record*), never zero. Offsets called ``end`` are
exclusive. All timestamps are UTC milliseconds, as Kafka's are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

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
from sharelag.schemas.types import Arrow, conform, conform_given, require, require_conformable

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
    "conform",
    "conform_given",
    "require",
    "require_conformable",
    "spark_schema",
]

#: Metadata of a column of words that are amounts, such as ``1m 37s``: they stand at the right, as
#: numbers do.
AMOUNT = {b"sharelag": b"amount"}
#: Of what is printed or written as JSON: objects carry it, rows have it in the name of their
#: schema (``docs/schemas``).
SCHEMA_VERSION = 1


def spark_schema(schema: pa.Schema) -> StructType:
    """Spark's form of one of the schemas above.

    Returns
    -------
    pyspark.sql.types.StructType
        Same names and order, every column nullable.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)
