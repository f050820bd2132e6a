"""Columns of lag, of its sums, and of the windows it is computed from."""

from __future__ import annotations

from sharelag.tables.columns.column import Column, Format

COLUMNS = {
    "group_id": Column(Format.TEXT, "share group", "GROUP"),
    "topic": Column(Format.TEXT, "topic, or its id where the name is not known"),
    "topic_id": Column(Format.TEXT, "id of the topic, as Kafka prints it"),
    "partition": Column(
        Format.ORDINAL, "partition of the topic; with the group it makes the share partition"
    ),
    "partitions": Column(Format.COUNT, "share partitions", "#PARTITIONS"),
    "leader_epoch": Column(
        Format.ORDINAL,
        "of the partition's leader when it last wrote the state; null without a start offset",
    ),
    "state_epoch": Column(
        Format.ORDINAL,
        "of the state: grows when the share partition is initialised again or its offsets are "
        "reset",
    ),
    "snapshot_epoch": Column(Format.ORDINAL, "of the last snapshot"),
    "start_offset": Column(Format.OFFSET, "first offset of the window (SPSO)"),
    "effective_start_offset": Column(
        Format.OFFSET, "first offset that is not finished, and still in the log", "EFFECTIVE-START"
    ),
    "window_end_offset": Column(Format.OFFSET, "offset after the window's last", "WINDOW-END"),
    "log_start_offset": Column(Format.OFFSET, "first offset that is still in the log", "LOG-START"),
    "end_offset": Column(Format.OFFSET, "offset after the log's last record"),
    "delivery_complete_count": Column(
        Format.COUNT,
        "offsets after the start offset that are finished, as the coordinator counts them; "
        "null where not written, as before Kafka 4.2",
        "COMPLETE",
    ),
    "lag": Column(
        Format.OFFSETS,
        "end offset - start offset - delivery complete count (KIP-1226), in offsets; offsets "
        "without a record count until a consumer meets them",
    ),
    "unknown_lags": Column(Format.COUNT, "share partitions whose lag is not known"),
    "max_lag": Column(Format.OFFSETS, "largest lag of one share partition, in offsets"),
    "effective_lag": Column(
        Format.OFFSETS,
        "offsets that are not finished and still in the log, by the batches themselves",
        "EFFECTIVE",
    ),
    "naive_lag": Column(
        Format.OFFSETS,
        "end offset - start offset, in offsets: the lag of a consumer group at the start offset",
        "NAIVE",
    ),
    "true_lag": Column(
        Format.OFFSETS,
        "records that are there: without transaction markers, aborted records and compacted "
        "offsets",
        "TRUE",
    ),
    "unfinished": Column(Format.OFFSETS, "offsets that are not finished, as in the effective lag"),
    "undecided": Column(
        Format.COUNT, "records at or beyond the last stable offset, held by an open transaction"
    ),
    "aborted": Column(
        Format.COUNT, "records of aborted transactions, delivered with read_uncommitted only"
    ),
    "no_record": Column(
        Format.OFFSETS,
        "offsets of transaction markers and of compacted records; the log does not say which",
    ),
    "deleted": Column(Format.OFFSETS, "offsets that are now below the log start"),
    "matches": Column(
        Format.FLAG, "whether Kafka's lag is the recomputed one; null where Kafka printed none"
    ),
    "described_lag": Column(
        Format.OFFSETS, "lag as kafka-share-groups.sh printed it, in offsets", "DESCRIBED"
    ),
    "differences": Column(Format.DIFFERENCES, "why the numbers differ, as number:reason:offsets"),
    "unread": Column(
        Format.OFFSETS,
        "offsets beyond the window: never delivered, as far as the state topic shows",
    ),
    "window_available": Column(
        Format.OFFSETS,
        "offsets in the window that wait for another delivery: released, or their lock expired",
        "AVAILABLE",
    ),
    "window_unknown": Column(
        Format.OFFSETS,
        "offsets in the window without a persisted state: acquired, or never persisted",
        "UNKNOWN",
    ),
    "window_complete": Column(
        Format.OFFSETS,
        "offsets in the window that are acknowledged or archived, not yet passed by the start "
        "offset",
        "COMPLETE",
    ),
    "lag_reason": Column(Format.TEXT, "why the lag is not known", "WHY-UNKNOWN"),
    "notes": Column(Format.LIST, "what else to know about the row"),
    "as_of": Column(Format.TIME, "moment, in UTC", "TIME"),
    "runs": Column(
        Format.RUNS,
        "offsets in the window as first-last:state/delivery count; counts are approximate: they "
        "are written when a delivery ends, and one may be lost",
    ),
    "batches": Column(
        Format.RUNS,
        "state batches as the coordinator holds them; where the version of Kafka is not known, as "
        "that of 4.4 does, and a boundary between equal neighbours means nothing",
    ),
    "from_snapshot": Column(
        Format.FLAG, "false: only updates were seen, so that the state is partial"
    ),
    "rejected_records": Column(
        Format.COUNT, "records of the share partition that could not be replayed"
    ),
    "create_timestamp": Column(
        Format.TIME, "when the state was created; null where no snapshot was seen"
    ),
    "write_timestamp": Column(Format.TIME, "when the last snapshot was written"),
}
