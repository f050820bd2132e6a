"""The Arrow schemas of all tables by name; `sharelag.tables.declared` declares them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from sharelag.tables.arrow import Bools as Bools
from sharelag.tables.arrow import Floats as Floats
from sharelag.tables.arrow import Ints as Ints
from sharelag.tables.conform import Arrow as Arrow
from sharelag.tables.conform import conform as conform
from sharelag.tables.conform import conform_given as conform_given
from sharelag.tables.conform import require as require
from sharelag.tables.conform import require_conformable as require_conformable
from sharelag.tables.declared import answers, dead_letters, groups, lag, records, requests, windows
from sharelag.tables.declared.records import FIRST_MS as FIRST_MS
from sharelag.tables.declared.records import LAST_MS as LAST_MS
from sharelag.tables.declared.records import NAMED_TOPIC_PARTITIONS as NAMED_TOPIC_PARTITIONS
from sharelag.tables.declared.records import TOPIC_PARTITIONS as TOPIC_PARTITIONS
from sharelag.tables.declared.records import UNKNOWN_TAG as UNKNOWN_TAG
from sharelag.tables.table import AMOUNT as AMOUNT
from sharelag.tables.table import COLUMNS, Table
from sharelag.tables.table import DIFFERENCE as DIFFERENCE
from sharelag.tables.table import INSTANT as INSTANT
from sharelag.tables.table import STATE_BATCH as STATE_BATCH
from sharelag.tables.table import TIMESTAMP as TIMESTAMP

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    def __getattr__(name: str) -> pa.Schema: ...


#: Version of printed and written JSON: objects contain it, rows have it in the name of their schema
#: (``docs/schemas``).
SCHEMA_VERSION = 1
#: The type of share groups, as ``kafka-groups.sh`` prints it (``GroupType.SHARE``).
SHARE = "Share"
#: Names of Kafka's acknowledgement types, by number.
ACKNOWLEDGE_WORDS = ("gap", "accept", "release", "reject", "renew")


def _with_types(names: str) -> list[tuple[str, pa.DataType]]:
    return [(name, COLUMNS[name].field.type) for name in names.split()]


#: The key of a share partition.
SHARE_PARTITION = ("group_id", "topic_id", "partition")
#: Its columns. A topic id is 22 characters of URL-safe base64, as Kafka prints it.
SHARE_PARTITION_COLUMNS = _with_types("group_id topic_id partition")
#: The same with the topic's name; null without offsets for the topic id.
NAMED_SHARE_PARTITION = _with_types("group_id topic topic_id partition")
#: The position of a record in its topic: the first columns of every decoded table.
POSITION = _with_types("topic record_partition offset timestamp")

# The schema of each declared table has the table's name: `LAG`, `WINDOWS`, `HISTORY` and so on.
for _room in (lag, windows, records, groups, answers, requests, dead_letters):
    globals().update({n: one.schema for n, one in vars(_room).items() if isinstance(one, Table)})

#: Tables from a broker's request log, by name.
REQUEST_TABLES = {table.name: table.schema for table in requests.OF_LINES}
#: Tables from the output of consumers, by name.
CONSUMED_TABLES = {table.name: table.schema for table in requests.CONSUMED}


def spark_schema(schema: pa.Schema) -> StructType:
    """Return Spark's form of one of the schemas above.

    Returns
    -------
    pyspark.sql.types.StructType
        Same names and order, every column nullable.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)
