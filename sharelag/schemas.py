"""What columns does each table have? Declared once, in Arrow; Spark's schema is derived from it.

Nulls mean *unknown* (or *not part of this kind of record*), never zero. Offsets called ``end`` are
exclusive. All timestamps are UTC milliseconds, as Kafka's are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from sharelag.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

#: What the functions over Arrow take.
Arrow: TypeAlias = pa.RecordBatch | pa.Table

TIMESTAMP = pa.timestamp("ms", tz="UTC")

#: One Kafka record, with the columns of Spark's own Kafka source.
RAW = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("timestampType", pa.int32()),
    ]
)

#: One state batch: offsets first..last inclusive, as Kafka stores them.
STATE_BATCH = pa.struct(
    [
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("delivery_state", pa.int8()),
        ("delivery_count", pa.int16()),
    ]
)

#: One tagged field that this version of sharelag does not know; kept so that nothing is lost.
UNKNOWN_TAG = pa.struct(
    [
        ("path", pa.string()),  # "" for the record itself, else the array: "state_batches"
        ("element", pa.int32()),  # index in that array (over the whole record); null for the record itself
        ("tag", pa.int32()),
        ("data", pa.binary()),
    ]
)

#: Where a record stands in its topic: the first columns of every decoded table.
POSITION = [
    ("topic", pa.string()),  # the topic the record was read from
    ("record_partition", pa.int32()),  # its partition there (not the share partition's)
    ("offset", pa.int64()),
    ("timestamp", TIMESTAMP),
]

#: One decoded record of ``__share_group_state``.
RECORDS = pa.schema(
    [
        *POSITION,
        ("record_type", pa.int16()),  # 0 snapshot, 1 update: the first int16 of the key
        ("tombstone", pa.bool_()),  # no value: the share partition's state was deleted
        ("group_id", pa.string()),
        ("topic_id", pa.string()),  # 22 characters of URL-safe base64, as Kafka prints it
        ("partition", pa.int32()),  # of the share partition
        ("snapshot_epoch", pa.int32()),
        ("state_epoch", pa.int32()),  # snapshots only
        ("leader_epoch", pa.int32()),
        ("start_offset", pa.int64()),  # null: not known yet (snapshot) or unchanged (update); -1 in Kafka
        ("create_timestamp", TIMESTAMP),  # snapshots only
        ("write_timestamp", TIMESTAMP),  # snapshots only
        ("state_batches", pa.list_(STATE_BATCH)),
        ("delivery_complete_count", pa.int32()),  # null: not written (brokers before 4.2) or -1
        ("unknown_tags", pa.list_(UNKNOWN_TAG)),
    ]
)

TOPIC_PARTITIONS = pa.list_(pa.struct([("topic_id", pa.string()), ("partitions", pa.list_(pa.int32()))]))
NAMED_TOPIC_PARTITIONS = pa.list_(
    pa.struct([("topic_id", pa.string()), ("topic_name", pa.string()), ("partitions", pa.list_(pa.int32()))])
)

#: One decoded share-group record of ``__consumer_offsets`` (types 10 to 15). A column that is not part of
#: the record's type is null.
GROUP_RECORDS = pa.schema(
    [
        *POSITION,
        ("record_type", pa.int16()),
        ("tombstone", pa.bool_()),
        ("group_id", pa.string()),
        ("member_id", pa.string()),  # 10, 13, 14
        ("rack_id", pa.string()),  # 10
        ("client_id", pa.string()),  # 10
        ("client_host", pa.string()),  # 10
        ("subscribed_topic_names", pa.list_(pa.string())),  # 10
        ("epoch", pa.int32()),  # 11
        ("metadata_hash", pa.int64()),  # 11
        ("assignment_epoch", pa.int32()),  # 12
        ("assignment_timestamp", TIMESTAMP),  # 12, since 4.3; null when 0
        ("topic_partitions", TOPIC_PARTITIONS),  # 13, the target assignment
        ("member_epoch", pa.int32()),  # 14
        ("previous_member_epoch", pa.int32()),  # 14
        ("state", pa.int8()),  # 14
        ("assigned_partitions", TOPIC_PARTITIONS),  # 14, the current assignment
        ("initializing_topics", NAMED_TOPIC_PARTITIONS),  # 15
        ("initialized_topics", NAMED_TOPIC_PARTITIONS),  # 15
        (
            "deleting_topics",
            pa.list_(pa.struct([("topic_id", pa.string()), ("topic_name", pa.string())])),
        ),  # 15
        ("unknown_tags", pa.list_(UNKNOWN_TAG)),
    ]
)

#: One record that could not be decoded: where it was, why, and its bytes.
REJECTS = pa.schema([*POSITION, ("reason", pa.string()), ("key", pa.binary()), ("value", pa.binary())])

#: One share partition as of one moment. Should its records stand in several state partitions or topics (a mirror,
#: another cluster's, a misplaced record), each of them is a state of its own, as it is to Kafka.
WINDOWS = pa.schema(
    [
        ("group_id", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("snapshot_epoch", pa.int32()),
        ("state_epoch", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("start_offset", pa.int64()),  # as persisted; null: not known yet
        ("effective_start_offset", pa.int64()),  # past the leading finished offsets (C-33); null: not known
        ("window_end_offset", pa.int64()),  # exclusive: after the last persisted batch; a durable lower bound
        ("delivery_complete_count", pa.int32()),  # null: not known
        ("create_timestamp", TIMESTAMP),  # null: no snapshot seen
        ("write_timestamp", TIMESTAMP),
        ("batches", pa.list_(STATE_BATCH)),  # exactly as Kafka's coordinator holds them
        ("runs", pa.list_(STATE_BATCH)),  # for people: clipped, sorted, neighbours merged
        ("from_snapshot", pa.bool_()),  # false: only updates were seen, so the state is partial
        ("rejected_records", pa.int32()),  # records of this share partition that could not be replayed
        ("record_topic", pa.string()),  # the last record this state rests on ...
        ("record_partition", pa.int32()),
        ("record_offset", pa.int64()),
        ("record_timestamp", TIMESTAMP),
    ]
)

#: One topic partition at one moment.
OFFSETS = pa.schema(
    [
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("log_start_offset", pa.int64()),
        ("end_offset", pa.int64()),  # high watermark: read_uncommitted, also for read_committed groups
        ("leader_epoch", pa.int32()),
        ("as_of", TIMESTAMP),  # null: offsets of the moment that was asked for are not known
    ]
)

#: One share partition: every term of its lag. See ``sharelag.metrics.lag`` for the identities between them.
LAG = pa.schema(
    [
        ("group_id", pa.string()),
        ("topic", pa.string()),  # null: the topic id is not among the offsets
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        (
            "leader_epoch",
            pa.int32(),
        ),  # as persisted and as kafka-share-groups.sh prints it: null without a start offset
        ("start_offset", pa.int64()),
        ("effective_start_offset", pa.int64()),  # past finished offsets, and not below the log start
        ("log_start_offset", pa.int64()),
        ("window_end_offset", pa.int64()),
        ("end_offset", pa.int64()),
        ("delivery_complete_count", pa.int32()),
        ("lag", pa.int64()),  # end - start - count, never negative (KIP-1226)
        ("effective_lag", pa.int64()),  # unfinished offsets still in the log, by the batches themselves
        ("unread", pa.int64()),  # beyond the window: never persisted
        ("window_available", pa.int64()),  # released or timed out: waiting for another delivery
        ("window_unknown", pa.int64()),  # acquired, or never persisted: Kafka does not write which
        ("window_complete", pa.int64()),  # acknowledged or archived, but not yet passed by the start offset
        ("lag_reason", pa.string()),  # why lag is null
        ("notes", pa.list_(pa.string())),  # what to know about this row
        ("as_of", TIMESTAMP),  # when the end offset was asked
    ]
)

#: Many share partitions together: those of a group, or of one topic in a group.
ROLLUP = pa.schema(
    [
        ("group_id", pa.string()),
        ("topic", pa.string()),  # null when summed up by group
        ("topic_id", pa.string()),
        ("partitions", pa.int64()),  # share partitions
        ("unknown_lags", pa.int64()),  # those among them whose lag is null
        ("lag", pa.int64()),  # of the others
        ("max_lag", pa.int64()),
        ("effective_lag", pa.int64()),
        ("unread", pa.int64()),
        ("window_available", pa.int64()),
        ("window_unknown", pa.int64()),
        ("window_complete", pa.int64()),
        ("as_of", TIMESTAMP),
    ]
)


def spark_schema(schema: pa.Schema) -> StructType:
    """Spark's form of one of the schemas above.

    Parameters
    ----------
    schema : pyarrow.Schema

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
        With every column that is missing or of another type: name, expected, got.
    """
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
            f"Expected the columns {', '.join(wanted)}; rename or cast yours before handing the table over."
        )


def _arrow_types() -> tuple[type, ...]:
    return (pa.Schema, pa.Table, pa.RecordBatch)


def _column_types(table: Any) -> dict[str, str]:
    schema = table if isinstance(table, pa.Schema) else table.schema
    if isinstance(table, _arrow_types()):
        return {field.name: _plain(field.type) for field in schema}
    return {field.name: field.dataType.simpleString() for field in schema.fields}


def _spark_types(schema: pa.Schema) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in spark_schema(schema).fields}


def _plain(kind: pa.DataType) -> str:
    """One name for the spellings of a type that we treat alike: large and view variants, timestamp units."""
    if pa.types.is_timestamp(kind):
        return "timestamp"
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    return str(kind).removeprefix("large_").removesuffix("_view")


def _fits(got: str | None, wanted: str) -> bool:
    return got == wanted
