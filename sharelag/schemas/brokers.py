"""Brokers: who leads a topic partition, and which brokers keep a share partition and its group."""

from __future__ import annotations

import pyarrow as pa

from sharelag.schemas.records import SHARE_PARTITION_COLUMNS, TIMESTAMP

#: One broker that is in the cluster.
NODES = pa.schema(
    [
        ("broker_id", pa.int32()),
        ("host", pa.string()),
        ("port", pa.int32()),
        ("rack", pa.string()),  # broker.rack; null: not set
        ("as_of", TIMESTAMP),
    ]
)

#: The replicas of one topic partition, of users' topics and of the two topics of coordinators.
LEADERS = pa.schema(
    [
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("leader_id", pa.int32()),  # null: no leader
        ("replicas", pa.list_(pa.int32())),  # the preferred leader first
        ("in_sync_replicas", pa.list_(pa.int32())),
        ("as_of", TIMESTAMP),
    ]
)

#: One share partition with the brokers around it. Null is what the input does not know.
BROKERS = pa.schema(
    [
        SHARE_PARTITION_COLUMNS[0],
        ("topic", pa.string()),
        *SHARE_PARTITION_COLUMNS[1:],
        ("lag", pa.int64()),
        ("leader_id", pa.int32()),
        ("leader_rack", pa.string()),
        ("current_leader_epoch", pa.int32()),  # of the topic partition's leader
        ("leader_epoch", pa.int32()),  # of the leader that last wrote the state
        ("replicas", pa.list_(pa.int32())),
        ("in_sync_replicas", pa.list_(pa.int32())),
        ("racks", pa.list_(pa.string())),  # of the replicas, in their order
        ("state_partition", pa.int32()),  # of __share_group_state, by Kafka's hash
        ("share_coordinator", pa.int32()),  # the leader of the state partition
        ("group_coordinator", pa.int32()),  # the leader of the group's offsets partition
        ("as_of", TIMESTAMP),  # when the leaders were read
    ]
)
