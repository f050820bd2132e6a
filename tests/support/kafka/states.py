"""Replayed states in the form in which Kafka's classes print them."""

from typing import Any

from sharelag.model import SharePartition


def as_kafka(windows: dict[SharePartition, Any]) -> dict[str, Any]:
    return {
        str(key): {
            "snapshotEpoch": window.snapshot_epoch,
            "stateEpoch": window.state_epoch,
            "leaderEpoch": window.leader_epoch,
            "startOffset": window.start_offset,
            "deliveryCompleteCount": window.delivery_complete_count,
            "createTimestamp": window.create_timestamp,
            "writeTimestamp": window.write_timestamp,
            "batches": [list(batch) for batch in window.batches],
        }
        for key, window in windows.items()
    }
