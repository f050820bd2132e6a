"""What comes out of Kafka: raw and decoded records, offsets, logs, settings."""

from __future__ import annotations

import pyarrow as pa

TIMESTAMP = pa.timestamp("ms", tz="UTC")
#: The years 1 to 9999, which is what Python and Spark know, in milliseconds.
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999

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
        # index in that array (over the whole record); null for the record itself
        ("element", pa.int32()),
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

#: The columns that name a share partition.
SHARE_PARTITION = ("group_id", "topic_id", "partition")
#: Their types. A topic id is 22 characters of URL-safe base64, as Kafka prints it.
SHARE_PARTITION_COLUMNS = [
    ("group_id", pa.string()),
    ("topic_id", pa.string()),
    ("partition", pa.int32()),
]
#: The same with the topic's name; null: no offsets for the topic id.
NAMED_SHARE_PARTITION = [
    SHARE_PARTITION_COLUMNS[0],
    ("topic", pa.string()),
    *SHARE_PARTITION_COLUMNS[1:],
]

#: One decoded record of ``__share_group_state``.
RECORDS = pa.schema(
    [
        *POSITION,
        ("record_type", pa.int16()),  # 0 snapshot, 1 update: the first int16 of the key
        ("tombstone", pa.bool_()),  # no value: the share partition's state was deleted
        *SHARE_PARTITION_COLUMNS,
        ("snapshot_epoch", pa.int32()),
        ("state_epoch", pa.int32()),  # snapshots only
        ("leader_epoch", pa.int32()),
        # null: not known yet (snapshot) or unchanged (update); -1 in Kafka
        ("start_offset", pa.int64()),
        ("create_timestamp", TIMESTAMP),  # snapshots only
        ("write_timestamp", TIMESTAMP),  # snapshots only
        ("state_batches", pa.list_(STATE_BATCH)),
        ("delivery_complete_count", pa.int32()),  # null: not written (brokers before 4.2) or -1
        ("generation", pa.int8()),  # null: the format of today; 0 to 3: an older design of it
        (
            "older_fields",
            pa.map_(pa.string(), pa.int64()),
        ),  # what only an older design has: end_offset, back_offset, delta_index; else null
        ("unknown_tags", pa.list_(UNKNOWN_TAG)),
    ]
)

TOPIC_PARTITIONS = pa.list_(
    pa.struct([("topic_id", pa.string()), ("partitions", pa.list_(pa.int32()))])
)
NAMED_TOPIC_PARTITIONS = pa.list_(
    pa.struct(
        [
            ("topic_id", pa.string()),
            ("topic_name", pa.string()),
            ("partitions", pa.list_(pa.int32())),
        ]
    )
)

#: One decoded share-group record of ``__consumer_offsets`` (types 10 to 15). A column that is not
#: part of the record's type is null.
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
REJECTS = pa.schema(
    [*POSITION, ("reason", pa.string()), ("key", pa.binary()), ("value", pa.binary())]
)

#: Offsets of a topic that are not among the records, although records before and after are.
GAPS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("first_offset", pa.int64()),
        ("end_offset", pa.int64()),
    ]
)

#: One topic partition at one moment.
OFFSETS = pa.schema(
    [
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("log_start_offset", pa.int64()),
        # high watermark: read_uncommitted, also for read_committed groups
        ("end_offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("as_of", TIMESTAMP),  # null: offsets of the chosen moment are not known
    ]
)

#: What else is known of one topic partition's log. Kafka's -1 for "no limit" stays, since it is
#: known.
LOGS = pa.schema(
    [
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        # the end for read_committed groups; below the end: open transactions
        ("last_stable_offset", pa.int64()),
        ("cleanup_policy", pa.string()),  # delete, compact, or both with a comma
        ("retention_ms", pa.int64()),
        ("retention_bytes", pa.int64()),
        ("as_of", TIMESTAMP),
    ]
)

#: When a record was produced.
TIMES = pa.schema(
    [
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("asked_offset", pa.int64()),  # the offset that was looked up ...
        # ... and that of the first record there or after; null: there is none
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),  # of that record
    ]
)

#: One setting in force, of a group, a topic, or the brokers.
SETTINGS = pa.schema(
    [
        ("scope", pa.string()),  # group, topic or broker
        ("entity", pa.string()),  # the group's or topic's name; null for the brokers
        ("name", pa.string()),  # as kafka-configs.sh knows it in that scope
        ("value", pa.string()),  # null: not known, or secret
        ("source", pa.string()),  # where it comes from: group, topic, broker, default, ...
    ]
)
