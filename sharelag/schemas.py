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
from sharelag.tables.declared import (
    answers,
    dead_letters,
    groups,
    lag,
    records,
    requests,
    windows,
)
from sharelag.tables.declared.records import FIRST_MS as FIRST_MS
from sharelag.tables.declared.records import LAST_MS as LAST_MS
from sharelag.tables.declared.records import NAMED_TOPIC_PARTITIONS as NAMED_TOPIC_PARTITIONS
from sharelag.tables.declared.records import TOPIC_PARTITIONS as TOPIC_PARTITIONS
from sharelag.tables.declared.records import UNKNOWN_TAG as UNKNOWN_TAG
from sharelag.tables.table import AMOUNT as AMOUNT
from sharelag.tables.table import COLUMNS
from sharelag.tables.table import DIFFERENCE as DIFFERENCE
from sharelag.tables.table import INSTANT as INSTANT
from sharelag.tables.table import STATE_BATCH as STATE_BATCH
from sharelag.tables.table import TIMESTAMP as TIMESTAMP

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

#: Of what is printed or written as JSON: objects carry it, rows have it in the name of their
#: schema (``docs/schemas``).
SCHEMA_VERSION = 1
#: The type of share groups, as ``kafka-groups.sh`` prints it (``GroupType.SHARE``).
SHARE = "Share"
#: What Kafka's numbers of acknowledgements mean.
ACKNOWLEDGE_WORDS = ("gap", "accept", "release", "reject", "renew")


def _typed(names: str) -> list[tuple[str, pa.DataType]]:
    return [(name, COLUMNS[name].field.type) for name in names.split()]


#: The columns that name a share partition.
SHARE_PARTITION = ("group_id", "topic_id", "partition")
#: Their types. A topic id is 22 characters of URL-safe base64, as Kafka prints it.
SHARE_PARTITION_COLUMNS = _typed("group_id topic_id partition")
#: The same with the topic's name; null: no offsets for the topic id.
NAMED_SHARE_PARTITION = _typed("group_id topic topic_id partition")
#: Where a record stands in its topic: the first columns of every decoded table.
POSITION = _typed("topic record_partition offset timestamp")

LAG = lag.LAG.schema
BRIEF_LAG = lag.BRIEF_LAG.schema
ROLLUP = lag.ROLLUP.schema

WINDOWS = windows.WINDOWS.schema
HISTORY = windows.HISTORY.schema
OBSERVED = windows.OBSERVED.schema
SNAPSHOTS = windows.SNAPSHOTS.schema
TIMELINE = windows.TIMELINE.schema
DIFF = windows.DIFF.schema

RAW = records.RAW.schema
RECORDS = records.RECORDS.schema
GROUP_RECORDS = records.GROUP_RECORDS.schema
REJECTS = records.REJECTS.schema
GAPS = records.GAPS.schema
OFFSETS = records.OFFSETS.schema
PAST_OFFSETS = records.PAST_OFFSETS.schema
LOGS = records.LOGS.schema
TIMES = records.TIMES.schema
HEALTH = records.HEALTH.schema
FINDINGS = records.FINDINGS.schema

MEMBERS = groups.MEMBERS.schema
MEMBER_ROWS = groups.MEMBER_ROWS.schema
GROUPS = groups.GROUPS.schema
GROUP_STATES = groups.GROUP_STATES.schema
NODES = groups.NODES.schema
LEADERS = groups.LEADERS.schema
BROKERS = groups.BROKERS.schema
BROKER_METRICS = groups.BROKER_METRICS.schema
MEASURED = groups.MEASURED.schema
SETTINGS = groups.SETTINGS.schema
IN_FORCE = groups.IN_FORCE.schema
LINT = groups.LINT.schema
SETTINGS_DRIFT = groups.SETTINGS_DRIFT.schema
ASKED_RIGHTS = groups.ASKED_RIGHTS.schema
ACLS = groups.ACLS.schema
RIGHTS = groups.RIGHTS.schema

PROGRESS = answers.PROGRESS.schema
CAUSES = answers.CAUSES.schema
OVERVIEW = answers.OVERVIEW.schema
EVENTS = answers.EVENTS.schema
IMBALANCE = answers.IMBALANCE.schema
RESET_PLAN = answers.RESET_PLAN.schema
DESCRIBED = answers.DESCRIBED.schema
SCANNED = answers.SCANNED.schema
RECONCILED = answers.RECONCILED.schema
RECLAIMABLE = answers.RECLAIMABLE.schema
CHECKED = answers.CHECKED.schema
ARCHIVED = answers.ARCHIVED.schema

FORECASTS = answers.FORECASTS.schema
CALIBRATION = answers.CALIBRATION.schema

REQUESTS = requests.REQUESTS.schema
ACQUISITIONS = requests.ACQUISITIONS.schema
ACKNOWLEDGEMENTS = requests.ACKNOWLEDGEMENTS.schema
HEARTBEATS = requests.HEARTBEATS.schema
STATE_CALLS = requests.STATE_CALLS.schema
OFFSET_CALLS = requests.OFFSET_CALLS.schema
DESCRIPTIONS = requests.DESCRIPTIONS.schema
LISTINGS = requests.LISTINGS.schema
SESSION_PARTITIONS = requests.SESSION_PARTITIONS.schema
DESCRIBED_MEMBERS = requests.DESCRIBED_MEMBERS.schema
CURRENT_LEADERS = requests.CURRENT_LEADERS.schema
LINE_REJECTS = requests.LINE_REJECTS.schema
HOLDS = requests.HOLDS.schema
HOLDERS = requests.HOLDERS.schema
REQUEST_FINDINGS = requests.REQUEST_FINDINGS.schema
REQUEST_ERRORS = requests.REQUEST_ERRORS.schema
MEMBERSHIPS = requests.MEMBERSHIPS.schema
SESSIONS = requests.SESSIONS.schema
BATCHING = requests.BATCHING.schema
DELIVERIES = requests.DELIVERIES.schema
OUTCOMES = requests.OUTCOMES.schema
OUTPUT_REJECTS = requests.OUTPUT_REJECTS.schema

WITH_HEADERS = dead_letters.WITH_HEADERS.schema
LETTERS = dead_letters.LETTERS.schema
COUNTED_LETTERS = dead_letters.COUNTED_LETTERS.schema
ARCHIVED_RUNS = dead_letters.ARCHIVED_RUNS.schema
LEDGER = dead_letters.LEDGER.schema
REDRIVE = dead_letters.REDRIVE.schema

#: What a broker's log of requests tells, by name.
REQUEST_TABLES = {table.name: table.schema for table in requests.OF_LINES}
#: What the output of consumers tells, by name.
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
