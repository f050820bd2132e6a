"""Columns of Kafka's records, as they were read and as they were decoded."""

from __future__ import annotations

from sharelag.tables.columns.column import Column, Format

COLUMNS = {
    "key": Column(Format.TEXT, "key, as bytes"),
    "offset": Column(Format.OFFSET, "its offset there"),
    "timestamp": Column(Format.TIME, "when it was written"),
    "timestampType": Column(Format.COUNT, "0: set by the producer, 1: by the broker"),
    "record_topic": Column(Format.TEXT, "topic of the record"),
    "record_partition": Column(
        Format.ORDINAL, "its partition there, which is not the share partition's"
    ),
    "record_offset": Column(Format.OFFSET, "offset of the record"),
    "record_type": Column(Format.COUNT, "0 snapshot, 1 update"),
    "tombstone": Column(
        Format.FLAG, "true: no value; the state of the share partition was deleted"
    ),
    "state_batches": Column(Format.RUNS, "offsets with their state and delivery count, as written"),
    "unknown_tags": Column(
        Format.LIST, "tagged fields that this version does not know, with their bytes"
    ),
    "generation": Column(
        Format.COUNT, "design of the format: null is that of today, 0 to 3 are older ones"
    ),
    "older_fields": Column(
        Format.LIST, "fields that only an older design has, such as back_offset"
    ),
    "reason": Column(Format.TEXT, "why it could not be decoded"),
    "records": Column(Format.COUNT, "records of the state topic"),
    "snapshots": Column(Format.COUNT, "records that hold a whole state"),
    "updates": Column(Format.COUNT, "records that hold a change"),
    "tombstones": Column(Format.COUNT, "records that delete a share partition"),
    "rejects": Column(Format.COUNT, "records that could not be decoded"),
    "missing": Column(
        Format.OFFSETS, "offsets between the first and the last record that were not there"
    ),
    "design": Column(Format.TEXT, "generation of the format, or one way to write it"),
    "user_topic_records": Column(
        Format.COUNT, "state records among the user's own records", "IN-USER-TOPICS"
    ),
    "state_topic_records": Column(
        Format.COUNT, "state records in __share_group_state", "IN-STATE-TOPIC"
    ),
    "replayed_records": Column(
        Format.COUNT, "state records that new leaders would replay now", "REPLAYED"
    ),
    "scanned_offsets": Column(
        Format.OFFSETS, "offsets of users' topics that they would scan for them", "SCANNED"
    ),
    "bytes": Column(Format.BYTES, "bytes of keys and values"),
    "snapshot_offset": Column(
        Format.OFFSET,
        "offset of the last snapshot in the state partition; null: none was seen",
        "SNAPSHOT-OFFSET",
    ),
    "snapshot_timestamp": Column(Format.TIME, "when that snapshot was written", "SNAPSHOT"),
    "updates_since": Column(Format.COUNT, "updates after it, which are replayed on top of it"),
    "rejected_since": Column(Format.COUNT, "updates after it that do not count"),
    "share_partitions": Column(Format.COUNT, "share partitions whose state is there"),
    "updates_per_snapshot": Column(
        Format.RATIO,
        "updates for every snapshot (Kafka's default is up to 500)",
        "UPDATES/SNAPSHOT",
    ),
    "bytes_per_finished": Column(
        Format.BYTES, "bytes written for every finished offset", "BYTES/FINISHED"
    ),
    "misplaced": Column(Format.COUNT, "records whose key hashes to another partition"),
    "needed_from": Column(
        Format.COUNT, "oldest last snapshot: the coordinator may prune what is below"
    ),
    "prunable": Column(Format.COUNT, "records below that which are still there"),
    "pinned_by": Column(
        Format.TEXT, "share partition of that snapshot, as group:topic id:partition"
    ),
    "generations": Column(Format.LIST, "kinds of records seen, such as update v0 with count"),
    "first_offset": Column(Format.OFFSET, "of the first record"),
    "first_timestamp": Column(Format.TIME, "when the first record was written"),
    "last_timestamp": Column(Format.TIME, "when the last record was written"),
    "finding": Column(Format.TEXT, "what is wrong"),
    "belongs": Column(Format.COUNT, "partition where it belongs"),
    "summary": Column(Format.TEXT, "what was found, in a sentence"),
}
