"""Write the tables of ``docs/frames.md``: each frame with its columns, their types, units and meanings.

``python tools/frames_page.py`` writes them between the two marks of that page. Types come from the
schemas, what one row is from `sharelag.pipeline.tables`, meanings from
`sharelag.workbench.meanings` where results show the column, and from `WORDS` where they do not, or
where it means something else in that table.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from sharelag import schemas
from sharelag.pipeline.tables import TABLES
from sharelag.workbench.meanings import MEANINGS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "frames.md"
BEGIN, END = "<!-- tables: python tools/frames_page.py -->", "<!-- end of tables -->"

_PLACE = {
    "topic": "topic the record was read from",
    "record_partition": "its partition there, which is not the share partition's",
    "offset": "its offset there",
    "timestamp": "when it was written",
}
_LAST_RECORD = {
    "record_topic": "topic of the last record that the state rests on",
    "record_partition": "partition of that record",
    "record_offset": "offset of that record",
    "record_timestamp": "when that record was written",
}
_OF_LOG = {"topic": "name of the topic", "partition": "partition of the topic"}
#: By column, and by table and column where a column means something else there.
WORDS: dict[str, str | dict[str, str]] = {
    "topic_id": "id of the topic, as Kafka prints it",
    "log_start_offset": "first offset that is still in the log",
    "delivery_complete_count": "offsets after the start offset that are finished, as the coordinator counts them; "
    "null: not written, as before Kafka 4.2",
    "snapshot_epoch": "of the last snapshot",
    "create_timestamp": "when the state was created; null: no snapshot was seen",
    "write_timestamp": "when the last snapshot was written",
    "from_snapshot": "false: only updates were seen, so that the state is partial",
    "head_delivery_count": "deliveries of the first unfinished offset; 0: it was not given back",
    "redelivered": "deliveries that ended, beyond the first of their offset",
    "unknown_tags": "tagged fields that this version does not know, with their bytes",
    "raw": {
        "key": "key, as bytes",
        "value": "value, as bytes; null: a tombstone",
        "partition": "partition of the topic",
        "timestampType": "0: set by the producer, 1: by the broker",
    }
    | {name: text for name, text in _PLACE.items() if name != "record_partition"},
    "records": {
        "record_type": "0 snapshot, 1 update",
        "tombstone": "true: no value; the state of the share partition was deleted",
        "snapshot_epoch": "of the snapshot, or of the one that an update belongs to",
        "state_epoch": "of the state; null in updates",
        "leader_epoch": "of the partition's leader when it wrote",
        "start_offset": "first offset of the window; null: not known yet, or unchanged",
        "create_timestamp": "when the state was created; null in updates",
        "write_timestamp": "when the snapshot was written; null in updates",
        "state_batches": "offsets with their state and delivery count, as written",
    }
    | _PLACE,
    "rejects": {
        "reason": "why it could not be decoded",
        "key": "key, as bytes",
        "value": "value, as bytes",
    }
    | _PLACE,
    "windows": {
        "batches": "state batches exactly as the coordinator holds them",
        "window_end_offset": "offset after the last persisted batch",
        "rejected_records": "records of the share partition that could not be replayed",
        "effective_start_offset": "first offset that is not finished; null: not known",
    }
    | _LAST_RECORD,
    "history": {
        "snapshot_epoch": "of the last snapshot",
        "effective_start_offset": "first offset that is not finished; null: not known",
        "window_end_offset": "offset after the last persisted batch",
        "runs": "how many runs of offsets alike the window has",
        "record_topic": "topic of the record",
        "record_partition": "partition of the record",
        "record_offset": "offset of the record",
        "replaced": "true: the record replaced the state: created, reset or altered",
        "follows": "false: records may be missing before this one; changes are null then",
    },
    "observed": {
        "begin": "of the span",
        "end": "of the span",
        "records": "state records in the span",
        "breaks": "records before which others may be missing, or whose state is partial",
        "replacements": "times the state was created or reset",
        "finished": "offsets finished in the span: acknowledged, archived, or passed by the start offset",
        "archived": "offsets archived in the span",
        "released": "offsets given back in the span",
        "finished_bins": "the same in ten equal parts of the span",
        "last_finished": "when anything was finished last",
        "last_released": "when anything was given back last",
        "release_every_ms": "median time between records that gave offsets back; null: fewer than three",
        "head_offset": "first offset that is not finished, at the end",
        "head_since": "since when it is that",
        "head_is_older": "true: since that time or longer",
        "start_back": "times the start offset fell although the state was not replaced",
        "start_back_at": "the last of these times",
        "count_back": "times start offset + delivery complete count fell likewise",
        "count_back_at": "the last of these times",
    },
    "group_records": {
        "record_type": "10 to 15: member, group, target assignment of the group and of a member, current "
        "assignment, state partitions",
        "tombstone": "true: no value; what the key names was deleted",
        "epoch": "of the group",
        "metadata_hash": "of the topics that the group reads",
        "assignment_epoch": "of the target assignment",
        "assignment_timestamp": "when it was computed, since Kafka 4.3",
        "subscribed_topic_names": "topics that the member subscribes to",
        "topic_partitions": "target assignment of the member",
        "previous_member_epoch": "epoch before that",
        "state": "of the member's assignment, as Kafka numbers it",
        "assigned_partitions": "current assignment of the member",
        "initializing_topics": "topics and partitions whose state is being created",
        "initialized_topics": "topics and partitions whose state is there",
        "deleting_topics": "topics whose state is being deleted",
    }
    | _PLACE,
    "members": {
        "subscribed_topic_names": "topics that the member subscribes to",
        "previous_member_epoch": "epoch before that",
        "assigned_partitions": "what the member was told to fetch",
        "target_partitions": "what the assignor wants it to fetch",
        "changed": "last record of the member",
    },
    "groups": {
        "state": "Stable, or Empty without members",
        "group_epoch": "grows when members or subscriptions change",
        "assignment_epoch": "group epoch that the target assignment is of",
        "assignment_timestamp": "when that was computed, since Kafka 4.3",
        "members": "how many",
        "initialized_topics": "topics and partitions whose state is there: they can be assigned",
        "initializing_topics": "topics and partitions whose state is being created",
        "deleting_topics": "topics whose state is being deleted",
        "emptied": "when the last member left; null while there are members, or when not seen",
        "changed": "last record of the group",
    },
    "offsets": {
        "leader_epoch": "of the partition's leader",
        "as_of": "when it was asked; null: of that moment nothing is known",
    }
    | _OF_LOG,
    "past_offsets": {"leader_epoch": "of the partition's leader", "as_of": "moment that it is of"}
    | _OF_LOG,
    "logs": {
        "last_stable_offset": "end for groups that read committed records; below the end: open transactions",
        "cleanup_policy": "delete, compact, or both",
        "retention_ms": "of the topic; -1 keeps for ever",
        "retention_bytes": "of the topic's partitions; -1: no limit",
        "as_of": "when it was asked",
    }
    | _OF_LOG,
    "times": {
        "asked_offset": "offset that was asked for",
        "offset": "of the first record there or after; null: there is none",
        "timestamp": "when that record was produced",
    }
    | _OF_LOG,
    "settings": {
        "scope": "group, topic or broker",
        "entity": "name of the group or topic; null for the brokers",
        "name": "of the setting, as kafka-configs.sh knows it",
        "value": "in force; null: not known, or secret",
        "source": "where it comes from: group, topic, broker or default",
    },
    "gaps": {
        "first_offset": "first that is missing",
        "end_offset": "offset after the last that is missing",
    }
    | _OF_LOG,
    "health": {
        "first_offset": "of the first record",
        "end_offset": "offset after the last record",
        "first_timestamp": "when the first record was written",
        "last_timestamp": "when the last record was written",
        "finished": "offsets that these records finished, where known",
        "generations": "kinds of records seen, such as update v0 with count",
    }
    | _OF_LOG,
    "lag": {
        "as_of": "when the end offset was asked",
        "topic": "name of the topic; null where it is not known",
    },
    "progress": {
        "oldest_timestamp": "when that record was produced",
        "oldest_from": "record: read from it; interpolated: between known times of its neighbours",
        "observed_ms": "span that the rates are of",
        "breaks": "places in it where records are missing: with any, rates are lower bounds",
        "retention_ms": "of the topic; -1 keeps for ever",
    },
    "imbalance": {
        "topic": "null: over the whole group",
        "topic_id": "null: over the whole group",
        "measure": "what is spread: lag, arrived, finished, members or partitions",
        "mean": "of the measure",
        "min": "smallest of the measure",
        "top3_share": "part of the total that the three largest have together",
    },
}
_RATES, _OFFSETS = ("arrival_rate", "completion_rate", "redelivery_rate"), (
    "lag", "effective_lag", "unread", "window_available", "window_unknown", "window_complete", "finished", "archived",
    "released", "lost", "missing",
)  # fmt: skip


def columns() -> Iterator[tuple[str, str, str, str, str]]:
    """Table, column, Spark's type, unit and meaning of each column of each frame."""
    for table, (schema, _) in TABLES.items():
        for field, spark in zip(schema, schemas.spark_schema(schema).fields, strict=True):
            yield (
                table,
                field.name,
                spark.dataType.simpleString(),
                unit(field),
                meaning(table, field.name),
            )


def meaning(table: str, column: str) -> str:
    """What a column means in a table; empty where nobody has said it."""
    here = WORDS.get(table)
    said = here.get(column) if isinstance(here, dict) else None
    general = WORDS.get(column)
    words = said or (general if isinstance(general, str) else None) or MEANINGS.get(column, "")
    return words.replace("; - ", "; null ")  # the dash is what people see of a null


def unit(field: pa.Field) -> str:
    """In what a column is counted; empty for names, flags and ratios."""
    if pa.types.is_timestamp(field.type):
        return "UTC"
    if field.name.endswith("_ms"):
        return "ms"
    if field.name in _RATES:
        return "1/s"
    if "bytes" in field.name:
        return "bytes"
    if pa.types.is_integer(field.type) and (
        field.name.endswith("offset") or field.name in _OFFSETS
    ):
        return "offsets" if field.name in _OFFSETS else "offset"
    return ""


def tables() -> str:
    """The part of the page that is made."""
    parts: list[str] = []
    for name, (_, row) in TABLES.items():
        rows = [
            f"| `{column}` | {kind} | {unit} | {text} |"
            for table, column, kind, unit, text in columns()
            if table == name
        ]
        parts.append("\n".join([f"### {name}", "", f"One row is {row}.", "", _HEAD, *rows]))
    return "\n\n".join(parts)


_HEAD = "| column | type | unit | meaning |\n|---|---|---|---|"


def page(text: str) -> str:
    """The page with its tables as they have to be."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}"


def main() -> int:
    """Bring the page up to date."""
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
