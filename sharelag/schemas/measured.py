"""Figures that Kafka itself measures: of brokers by their MBeans, and of clients."""

from __future__ import annotations

import pyarrow as pa

from sharelag.schemas.records import SHARE_PARTITION_COLUMNS, TIMESTAMP

#: One figure at one moment. What is not known of Kafka keeps its name, without an MBean.
BROKER_METRICS = pa.schema(
    [
        ("as_of", TIMESTAMP),  # when it was read there
        ("read_from", pa.string()),  # the file or address
        ("broker", pa.string()),  # as the user, a label or the source itself names it
        ("mbean", pa.string()),  # domain and type: kafka.server:type=ShareGroupMetrics
        ("metric", pa.string()),  # RecordAcknowledgementsPerSec
        ("attribute", pa.string()),  # Value, Count, OneMinuteRate ...
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("ack_type", pa.string()),  # accept, release, reject or renew
        ("client_instance_id", pa.string()),
        ("tags", pa.list_(pa.string())),  # the other labels, as name=value
        ("figure", pa.float64()),
        ("legacy", pa.bool_()),  # by its name in KIP-932 while under discussion
    ]
)

#: What the figures of brokers say of one share partition, beside its lag.
MEASURED = pa.schema(
    [
        *SHARE_PARTITION_COLUMNS,
        (
            "in_flight_offsets",
            pa.int64(),
        ),  # length of the window in the leader's memory, in offsets
        ("in_flight_batches", pa.int64()),
        ("acquired_low", pa.int64()),  # offsets without a persisted state that members hold
        ("acquired_high", pa.int64()),
        ("never_delivered_low", pa.int64()),  # beyond the window in the leader's memory
        ("never_delivered_high", pa.int64()),
        ("lock_timeouts", pa.int64()),  # since the leader loaded the share partition
        ("lock_timeout_rate", pa.float64()),  # per second between two readings
    ]
)
