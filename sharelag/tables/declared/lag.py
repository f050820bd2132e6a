"""Lag and its sums; columns that nearly all tables share."""

from __future__ import annotations

import pyarrow as pa

from sharelag.tables.table import Column, Own, Table, declare
from sharelag.tables.table import Format as F

#: Meanings of offsets in views with one row per run.
OF_RUN = {"first_offset": "first offset of the run", "last_offset": "last offset of the run"}

declare(
    Column("topic", F.TEXT, "topic, or its id where the name is not known"),
    Column("as_of", F.TIME, "moment, in UTC", "TIME"),
)  # fmt: skip

#: The identities between its columns are in `sharelag.metrics.lag`.
LAG = Table(
    "lag", "a share partition with every term of its lag",
    Column("group_id", F.TEXT, "share group", "GROUP"),
    Own("topic", "name of the topic; null where it is not known"),
    Column("topic_id", F.TEXT, "id of the topic, as Kafka prints it"),
    Column("partition", F.ORDINAL, "partition of the topic; with the group it makes the share "
           "partition"),
    # as kafka-share-groups.sh prints it
    Column("leader_epoch", F.ORDINAL, "epoch of the partition's leader when it last wrote the "
           "state; null without a start offset"),
    Column("start_offset", F.OFFSET, "first offset of the window (SPSO)"),
    Column("effective_start_offset", F.OFFSET, "first offset that is not finished, and still in "
           "the log", "EFFECTIVE-START"),
    Column("log_start_offset", F.OFFSET, "first offset that is still in the log", "LOG-START"),
    Column("window_end_offset", F.OFFSET, "offset after the window's last", "WINDOW-END"),
    Column("end_offset", F.OFFSET, "offset after the log's last record"),
    Column("delivery_complete_count", F.COUNT, "offsets after the start offset that are "
           "finished, as the coordinator counts them; null where not written, as before Kafka "
           "4.2", "COMPLETE", type=pa.int32()),
    Column("lag", F.OFFSETS, "end offset - start offset - delivery complete count (KIP-1226), in "
           "offsets; offsets without a record count until a consumer reaches them"),
    Column("effective_lag", F.OFFSETS, "offsets that are not finished and still in the log, by "
           "the batches themselves", "EFFECTIVE"),
    Column("unread", F.OFFSETS, "offsets beyond the window: never delivered, as far as the state "
           "topic shows"),
    Column("window_available", F.OFFSETS, "offsets in the window that wait for another delivery: "
           "released, or their lock expired", "AVAILABLE"),
    Column("window_unknown", F.OFFSETS, "offsets in the window without a persisted state: "
           "acquired, or never persisted", "UNKNOWN"),
    Column("window_complete", F.OFFSETS, "offsets in the window that are acknowledged or "
           "archived, not yet passed by the start offset", "COMPLETE"),
    Column("lag_reason", F.TEXT, "why the lag is not known", "WHY-UNKNOWN"),
    Column("notes", F.LIST, "what else to know about the row"),
    Own("as_of", "when the end offset was read"),
    view="group_id topic partition leader_epoch start_offset lag end_offset unread "
         "window_available window_unknown window_complete notes",
)  # fmt: skip

BRIEF_LAG = Table(
    "brief_lag",
    "a share partition with only its lag",
    "group_id topic topic_id partition leader_epoch start_offset log_start_offset end_offset",
    "delivery_complete_count lag lag_reason as_of",
    view="group_id topic partition leader_epoch start_offset lag end_offset",
)  # fmt: skip

ROLLUP = Table(
    "rollup", "a group, or a topic of it, with the sums over its share partitions",
    "group_id",
    Own("topic", "name of the topic; null when summed up by group"),
    "topic_id",
    Column("partitions", F.COUNT, "share partitions", "#PARTITIONS"),
    Column("unknown_lags", F.COUNT, "share partitions whose lag is not known"),
    Own("lag", "sum of the lags that are known"),
    Column("max_lag", F.OFFSETS, "largest lag of one share partition, in offsets"),
    Column("unknown_effective_lags", F.COUNT, "share partitions whose effective lag is not known"),
    Own("effective_lag", "sum of the effective lags that are known"),
    "unread window_available window_unknown window_complete as_of",
    view="group_id topic partitions lag max_lag unread window_available window_unknown "
         "window_complete",
)  # fmt: skip
