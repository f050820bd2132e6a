"""What some columns mean in one table, where that is not what they mean everywhere."""

from __future__ import annotations

_PLACE = {
    "topic": "topic the record was read from",
    "offset": "its offset there",
    "timestamp": "when it was written",
}
_OF_LOG = {"topic": "name of the topic", "partition": "partition of the topic"}

#: By table of `sharelag.pipeline.tables.TABLES`, and column.
IN_TABLES: dict[str, dict[str, str]] = {
    "raw": _PLACE
    | {"value": "value, as bytes; null: a tombstone", "partition": "partition of the topic"},
    "records": _PLACE
    | {
        "snapshot_epoch": "of the snapshot, or of the one that an update belongs to",
        "state_epoch": "of the state; null in updates",
        "leader_epoch": "of the partition's leader when it wrote",
        "start_offset": "first offset of the window; null: not known yet, or unchanged",
        "create_timestamp": "when the state was created; null in updates",
        "write_timestamp": "when the snapshot was written; null in updates",
    },
    "rejects": _PLACE | {"value": "value, as bytes"},
    "windows": {
        "window_end_offset": "offset after the last persisted batch",
        "effective_start_offset": "first offset that is not finished; null where not known",
        "record_topic": "topic of the last record that the state rests on",
        "record_partition": "partition of that record",
        "record_offset": "offset of that record",
        "record_timestamp": "when that record was written",
    },
    "history": {
        "effective_start_offset": "first offset that is not finished; null where not known",
        "window_end_offset": "offset after the last persisted batch",
        "runs": "runs of offsets with the same state and delivery count in the window",
        "record_partition": "partition of the record",
    },
    "observed": {
        "records": "state records in the span",
        "finished": "offsets finished in the span: acknowledged, archived, or passed by the start "
        "offset",
        "archived": "offsets archived in the span",
        "released": "offsets given back in the span",
    },
    "snapshots": {
        "snapshot_epoch": "of that snapshot",
        "from_snapshot": "false: no snapshot was seen, or a record may be missing since",
        "record_topic": "topic of its state records",
        "record_partition": "partition of the state topic that its records are in",
        "record_offset": "offset of its last record there",
        "record_timestamp": "when that record was written",
    },
    "group_records": _PLACE
    | {
        "record_type": "10 to 15: member, group, target assignment of the group and of a member, "
        "current assignment, state partitions",
        "tombstone": "true: no value; what the key names was deleted",
        "assignment_epoch": "of the target assignment",
        "state": "of the member's assignment, as Kafka numbers it",
        "assigned_partitions": "current assignment of the member",
        "initialized_topics": "topics and partitions whose state is there",
    },
    "groups": {
        "changed": "last record of the group",
        "state": "Stable, or Empty without members",
    },
    "offsets": _OF_LOG
    | {
        "leader_epoch": "of the partition's leader",
        "as_of": "when it was read; null: of that moment nothing is known",
    },
    "past_offsets": _OF_LOG
    | {"leader_epoch": "of the partition's leader", "as_of": "moment that the row describes"},
    "logs": _OF_LOG | {"as_of": "when it was read"},
    "leaders": _OF_LOG | {"as_of": "when it was read"},
    "nodes": {"as_of": "when it was read"},
    "brokers": {"as_of": "when the leaders were read; null where they are not known"},
    "times": _OF_LOG
    | {
        "offset": "of the first record there or after; null: there is none",
        "timestamp": "when that record was produced",
    },
    "settings": {"value": "in force; null where not known, or secret"},
    "gaps": _OF_LOG
    | {
        "first_offset": "first that is missing",
        "end_offset": "offset after the last that is missing",
    },
    "health": _OF_LOG
    | {
        "end_offset": "offset after the last record",
        "finished": "offsets that these records finished, where known",
    },
    "lag": {
        "as_of": "when the end offset was read",
        "topic": "name of the topic; null where it is not known",
    },
    "progress": {
        "breaks": "places in it where records are missing: with any, rates are lower bounds",
    },
    "imbalance": {
        "topic": "null: over the whole group",
        "topic_id": "null: over the whole group",
        "measure": "what is spread: lag, arrived, finished, members or partitions",
    },
}
