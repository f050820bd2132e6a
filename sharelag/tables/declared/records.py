"""Tables of Kafka's data: raw and decoded records, offsets, logs; health of the state topic."""

from __future__ import annotations

import pyarrow as pa

from sharelag.tables.table import Column, Own, Table, declare, view
from sharelag.tables.table import Format as F

#: The years 1 to 9999, the range of Python and Spark, in milliseconds.
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
#: A tagged field that this version of sharelag does not know; kept so that nothing is lost.
UNKNOWN_TAG = pa.struct(
    [
        ("path", pa.string()),  # "" for the record itself, else the array: "state_batches"
        ("element", pa.int32()),  # index in that array over the whole record, or null
        ("tag", pa.int32()),
        ("data", pa.binary()),
    ]
)
TOPIC_PARTITIONS = pa.list_(
    pa.struct([("topic_id", pa.string()), ("partitions", pa.list_(pa.int32()))])
)
_NAMED = [("topic_id", pa.string()), ("topic_name", pa.string())]
NAMED_TOPIC_PARTITIONS = pa.list_(pa.struct([*_NAMED, ("partitions", pa.list_(pa.int32()))]))
#: The position of a record in its topic.
_PLACE = (Own("topic", "topic the record was read from"), "record_partition offset timestamp")
TOPIC, PARTITION = Own("topic", "name of the topic"), Own("partition", "partition of the topic")

declare(
    Column("value", F.TEXT, "value of the setting"),
    Column("offset", F.OFFSET, "its offset there"),
    Column("timestamp", F.TIME, "when it was written"),
    Column("assignment_epoch", F.ORDINAL, "group epoch that the target assignment belongs to"),
    Column("state", F.TEXT, "Stable with members, Empty without; Dead: deleted, with state left "
           "in the state topic; Unknown: a name that Kafka 4.3 does not use for share groups"),
    Column("assigned_partitions", F.LIST, "partitions that the member was assigned",
           type=TOPIC_PARTITIONS),
    Column("initialized_topics", F.LIST, "topics and partitions whose state is there: they can "
           "be assigned", type=NAMED_TOPIC_PARTITIONS),
    Column("first_offset", F.OFFSET, "of the first record"),
    Column("finding", F.TEXT, "what is wrong"),
)  # fmt: skip

RAW = Table(
    "raw", "a Kafka record of the state topic or the groups' topic, of any group and time",
    Column("key", F.TEXT, "key, as bytes", type=pa.binary()),
    Own("value", "value, as bytes; null: a tombstone", type=pa.binary()),
    Own("topic", "topic the record was read from"),
    PARTITION,
    "offset timestamp",
    Column("timestampType", F.COUNT, "0: set by the producer, 1: by the broker", type=pa.int32()),
)  # fmt: skip

RECORDS = Table(
    "records", "a decoded record of __share_group_state",
    *_PLACE,
    # the first int16 of the key
    Column("record_type", F.COUNT, "0 snapshot, 1 update", type=pa.int16()),
    Column("tombstone", F.FLAG, "true: no value; the state of the share partition was deleted"),
    "group_id topic_id partition",
    Own("snapshot_epoch", "epoch of the snapshot, or of the one that an update belongs to"),
    Own("state_epoch", "epoch of the state; null in updates"),
    Own("leader_epoch", "epoch of the partition's leader when it wrote"),
    Own("start_offset", "first offset of the window; null: not known yet, or unchanged"),
    Own("create_timestamp", "when the state was created; null in updates"),
    Own("write_timestamp", "when the snapshot was written; null in updates"),
    Column("state_batches", F.RUNS, "offsets with their state and delivery count, as written"),
    "delivery_complete_count",
    Column("generation", F.COUNT, "design of the format: null is that of today, 0 to 3 are older "
           "ones", type=pa.int8()),
    # end_offset, back_offset, delta_index
    Column("older_fields", F.LIST, "fields that exist only in an older design, such as back_offset",
           type=pa.map_(pa.string(), pa.int64())),
    Column("unknown_tags", F.LIST, "tagged fields that this version does not know, with their "
           "bytes", type=pa.list_(UNKNOWN_TAG)),
)  # fmt: skip

#: Types 10 to 15; a column that is not part of the record's type is null.
GROUP_RECORDS = Table(
    "group_records", "a decoded share-group record of __consumer_offsets, from any time",
    *_PLACE,
    Own("record_type", "10 to 15: member, group, target assignment of the group and of a member, "
        "current assignment, state partitions"),
    Own("tombstone", "true: no value; what the key names was deleted"),
    "group_id",
    # 10, 13, 14
    Column("member_id", F.TEXT, "member of the group", "MEMBER"),
    # 10, as the next three
    Column("rack_id", F.TEXT, "client.rack of the member", "RACK"),
    Column("client_id", F.TEXT, "client.id of the member", "CLIENT"),
    Column("client_host", F.TEXT, "address of the member, as the coordinator saw it", "HOST"),
    Column("subscribed_topic_names", F.LIST, "topics that the member subscribes to"),
    # 11, as the next
    Column("epoch", F.ORDINAL, "epoch of the group"),
    Column("metadata_hash", F.TEXT, "hash of the topics that the group reads", type=pa.int64()),
    # 12, as the next, which is null when 0
    Own("assignment_epoch", "epoch of the target assignment"),
    Column("assignment_timestamp", F.TIME, "when the target assignment was computed, since Kafka "
           "4.3"),
    # 13
    Column("topic_partitions", F.LIST, "target assignment of the member", type=TOPIC_PARTITIONS),
    # 14, as the next two
    Column("member_epoch", F.ORDINAL, "epoch of the member's assignment", "EPOCH"),
    Column("previous_member_epoch", F.ORDINAL, "previous epoch of the member"),
    Own("state", "state of the member's assignment, as Kafka numbers it", type=pa.int8()),
    # 14
    Own("assigned_partitions", "current assignment of the member"),
    # 15, as the next two
    Column("initializing_topics", F.LIST, "topics and partitions whose state is being created",
           type=NAMED_TOPIC_PARTITIONS),
    Own("initialized_topics", "topics and partitions whose state is there"),
    Column("deleting_topics", F.LIST, "topics whose state is being deleted",
           type=pa.list_(pa.struct([("topic_id", pa.string()), ("topic_name", pa.string())]))),
    "unknown_tags",
)  # fmt: skip

REJECTS = Table(
    "rejects", "a record that could not be decoded, with the reason, of any group and time",
    *_PLACE,
    Column("reason", F.TEXT, "why it could not be decoded"),
    "key",
    Own("value", "value, as bytes", type=pa.binary()),
)  # fmt: skip

GAPS = Table(
    "gaps", "a range of the state topic's offsets that is missing, of any time",
    TOPIC, PARTITION,
    Own("first_offset", "first that is missing"),
    Own("end_offset", "offset after the last that is missing"),
)  # fmt: skip

OFFSETS = Table(
    "offsets", "a topic partition with its log start and end offset",
    TOPIC, "topic_id", PARTITION,
    "log_start_offset",
    "end_offset",  # high watermark: read_uncommitted, also for read_committed groups
    Own("leader_epoch", "epoch of the partition's leader"),
    Own("as_of", "when it was read; null: nothing is known about that moment"),
)  # fmt: skip

PAST_OFFSETS = Table(
    "past_offsets", "a topic partition at one moment of the span",
    TOPIC, "topic_id", PARTITION,
    "log_start_offset end_offset",
    Own("leader_epoch", "epoch of the partition's leader"),
    Own("as_of", "moment that the row describes"),
)  # fmt: skip

#: Kafka's -1 for "no limit" is kept, because it is known.
LOGS = Table(
    "logs", "a topic partition with its last stable offset and retention",
    TOPIC, "topic_id", PARTITION,
    Column("last_stable_offset", F.OFFSET, "end for groups that read committed records; if below "
           "the end offset, transactions are open"),
    Column("cleanup_policy", F.TEXT, "delete, compact, or both"),
    Column("retention_ms", F.DURATION, "retention of the topic; -1: no limit"),
    Column("retention_bytes", F.BYTES, "retention of each partition of the topic; -1: no limit"),
    Own("as_of", "when it was read"),
)  # fmt: skip

TIMES = Table(
    "times", "an offset that was looked up, with the time of its record",
    TOPIC, "topic_id", PARTITION,
    Column("asked_offset", F.OFFSET, "offset that was looked up"),
    Own("offset", "offset of the first record at or after it; null: there is none"),
    Own("timestamp", "when that record was produced"),
)  # fmt: skip

HEALTH = Table(
    "health", "a partition of the state topic, as of its last record",
    TOPIC, PARTITION,
    "first_offset",
    Own("end_offset", "offset after the last record"),
    Column("first_timestamp", F.TIME, "when the first record was written"),
    Column("last_timestamp", F.TIME, "when the last record was written"),
    "records",
    Column("snapshots", F.COUNT, "records that hold a whole state"),
    Column("updates", F.COUNT, "records that hold a change"),
    Column("tombstones", F.COUNT, "records that delete a share partition"),
    Column("rejects", F.COUNT, "records that could not be decoded"),
    Column("bytes", F.BYTES, "bytes of keys and values"),
    Column("missing", F.OFFSETS, "missing offsets between the first and the last record"),
    Column("share_partitions", F.COUNT, "share partitions with state there"),
    Column("updates_per_snapshot", F.RATIO, "updates for every snapshot (Kafka's default is up "
           "to 500)", "UPDATES/SNAPSHOT"),
    Own("finished", "offsets that these records finished, where known"),
    Column("bytes_per_finished", F.BYTES, "bytes written for every finished offset",
           "BYTES/FINISHED", type=pa.float64()),
    Column("misplaced", F.COUNT, "records whose key hashes to another partition"),
    Column("needed_from", F.COUNT, "oldest last snapshot: the coordinator may prune all below it"),
    Column("prunable", F.COUNT, "records below it that still exist"),
    Column("pinned_by", F.TEXT, "share partition of that snapshot, as group:topic id:partition"),
    Column("generations", F.LIST, "kinds of records seen, such as update v0 with count"),
    view=view("partition records snapshots updates tombstones rejects missing bytes "
              "share_partitions updates_per_snapshot bytes_per_finished misplaced needed_from "
              "prunable pinned_by", {"partition": "partition of the state topic"}),
)  # fmt: skip

FINDINGS = Table(
    "findings", "a problem of the state topic",
    Own("finding", "misplaced, non_durable_state, undecodable, missing or holds_pruning"),
    "group_id topic_id partition record_topic record_partition",
    Column("belongs", F.COUNT, "partition where it belongs", type=pa.int32()),
    Column("summary", F.TEXT, "what was found, in a sentence"),
    view="finding group_id topic_id partition record_partition belongs summary",
)  # fmt: skip

declare(
    Column("design", F.TEXT, "generation of the format, or one way to write it"),
    Column("user_topic_records", F.COUNT, "state records among the user's own records",
           "IN-USER-TOPICS"),
    Column("state_topic_records", F.COUNT, "state records in __share_group_state",
           "IN-STATE-TOPIC"),
    Column("replayed_records", F.COUNT, "state records that new leaders would replay now",
           "REPLAYED"),
    Column("scanned_offsets", F.OFFSETS, "offsets of users' topics that they would scan for them",
           "SCANNED"),
)  # fmt: skip
