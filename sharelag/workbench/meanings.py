"""Meaning and unit of each column, for the help of tables and dashboards."""

from __future__ import annotations

from collections.abc import Iterable

_SHARE_PARTITIONS = "share partitions"
#: By the name of the column in `sharelag.schemas`.
MEANINGS = {
    "group_id": "share group",
    "topic": "topic, or its id where the name is not known",
    "partition": "partition of the topic; with the group it makes the share partition",
    "partitions": _SHARE_PARTITIONS,
    "leader_epoch": "of the partition's leader when it last wrote the state; - without a start offset",
    "state_epoch": "of the state: grows when the share partition is initialised anew or its offsets are reset",
    "start_offset": "first offset of the window (SPSO)",
    "effective_start_offset": "first offset that is not finished, and still in the log",
    "window_end_offset": "offset after the window's last",
    "end_offset": "offset after the log's last record",
    "lag": "end offset - start offset - delivery complete count (KIP-1226), in offsets",
    "max_lag": "largest lag of one share partition, in offsets",
    "effective_lag": "offsets that are not finished and still in the log, by the batches themselves",
    "naive_lag": "end offset - start offset, in offsets: the lag of a consumer group at the start offset",
    "true_lag": "records that are there: without transaction markers, aborted records and compacted offsets",
    "described_lag": "lag as kafka-share-groups.sh printed it, in offsets",
    "differences": "why the numbers differ, as number:reason:offsets",
    "age_ms": "time that the oldest unfinished record has been waiting; 0 when nothing is left to do",
    "unread": "offsets beyond the window: never delivered, as far as the state topic tells",
    "window_available": "offsets in the window that wait for another delivery: released, or their lock ran out",
    "window_unknown": "offsets in the window without a persisted state: acquired, or never persisted",
    "window_complete": "offsets in the window that are acknowledged or archived, not yet passed by the start offset",
    "notes": "what else to know about the row",
    "runs": "offsets in the window as first-last:state/delivery count",
    "record_timestamp": "when the state record was written",
    "record_kind": "snapshot, update, or tombstone of a deleted share partition",
    "max_delivery_count": "highest delivery count of an offset in the window",
    "finished": "offsets that the record finished: acknowledged, archived, or passed by the start offset",
    "released": "offsets given back: released, or their lock ran out",
    "archived": "offsets archived: rejected, at the delivery limit, or gaps",
    "partial": "the state does not rest on a whole snapshot",
    "as_of": "moment, in UTC",
    "lag_reason": "why the lag is not known",
    "oldest_offset": "first offset that is not finished; - when there is none, or it is not known",
    "arrival_rate": "records that arrive a second, over the span",
    "completion_rate": "offsets finished a second, over the span",
    "redelivery_rate": "deliveries a second beyond the first of their offset",
    "drain": "drained, drains, never (arrivals win), stalled (nothing is finished), paused (nothing lately), nobody "
    "(the group is empty), or unknown",
    "drain_ms": "time until the lag is gone at these rates",
    "drain_low_ms": "the same at the earliest (95 % confidence)",
    "drain_high_ms": "the same at the latest (95 % confidence); - where it may be never",
    "margin_ms": "time until the oldest unfinished record may be deleted; - for never, or when not known",
    "lost": "unfinished offsets that the log has deleted already",
    "over": "what the measure is spread over: partitions, topics or members",
    "measure": "what is spread",
    "items": "partitions, topics or members",
    "unknown": "of how many of these the measure is not known",
    "total": "sum of the measure",
    "max": "largest of the measure",
    "max_mean": "largest / mean: 1 is even",
    "gini": "Gini coefficient: 0 is even, 1 - 1/items is all on one",
    "cv": "standard deviation / mean: 0 is even",
    "top_share": "part of the total that the largest has",
    "jain": "Jain's index: 1 is even, 1/items is all on one",
    "records": "records of the state topic",
    "snapshots": "records that hold a whole state",
    "updates": "records that hold a change",
    "tombstones": "records that delete a share partition",
    "rejects": "records that could not be decoded",
    "missing": "offsets between the first and the last record that were not there",
    "bytes": "bytes of keys and values",
    "share_partitions": "share partitions whose state is there",
    "updates_per_snapshot": "updates for every snapshot (Kafka's default is up to 500)",
    "bytes_per_finished": "bytes written for every finished offset",
    "misplaced": "records whose key hashes to another partition",
    "needed_from": "oldest last snapshot: the coordinator may prune what is below",
    "prunable": "records below that which are still there",
    "pinned_by": "share partition that snapshot is of, as group:topic id:partition",
    "change": "new, gone, reset, moved, same, or unknown (pruned)",
    "member_id": "member of the group",
    "client_id": "client.id of the member",
    "client_host": "address of the member, as the coordinator saw it",
    "rack_id": "client.rack of the member",
    "assigned": "topic partitions assigned to the member",
    "member_epoch": "of the member's assignment",
    "joined": "first record of the member that was seen; it may be older",
}
_LATER = ("start_offset_before", "window_end_offset_before", "runs_before")
MEANINGS |= {
    name: f"{MEANINGS[name.removesuffix('_before')]}, at the first moment" for name in _LATER
}
MEANINGS |= {
    name.replace(
        "_before", "_after"
    ): f"{MEANINGS[name.removesuffix('_before')]}, at the second moment"
    for name in _LATER
}


def meanings_of(columns: Iterable[str]) -> dict[str, str]:
    """The meanings of some columns, in their order; without those that have none."""
    return {name: MEANINGS[name] for name in columns if name in MEANINGS}
