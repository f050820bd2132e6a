"""Columns about dead-letter queues."""

from __future__ import annotations

from sharelag.tables.columns.column import Column, Format

COLUMNS = {
    "queue": Column(Format.TEXT, "topic that is the dead-letter queue"),
    "queue_partition": Column(Format.ORDINAL, "partition of the queue", "Q-PARTITION"),
    "queue_offset": Column(Format.OFFSET, "offset of a record of the queue"),
    "first_queue_offset": Column(
        Format.OFFSET, "offset of the first of their records in the queue", "Q-FIRST"
    ),
    "last_queue_offset": Column(
        Format.OFFSET, "offset of the last of their records in the queue", "Q-LAST"
    ),
    "letters": Column(Format.COUNT, "records of the queue about these offsets"),
    "status": Column(
        Format.TEXT,
        "written: archived, with one record in the queue; duplicate: with several; missing: with "
        "none; archiving: on its way; stuck: so for longer than a lock; passed: in the queue, and "
        "its state is pruned; unexpected: in the queue, but not finished; unknown: its topic "
        "is known by its id or its name alone; unreadable: not a dead letter",
    ),
    "record": Column(
        Format.TEXT, "record of the state topic that has it so: state partition:offset"
    ),
    "copied": Column(Format.FLAG, "whether the queue has their key or value; null: nothing of it"),
    "retained": Column(
        Format.FLAG,
        "whether the log of the topic still has these offsets, unless it was compacted; null: not "
        "known",
    ),
    "message": Column(Format.TEXT, "why it was given up, in the broker's words"),
    "from": Column(
        Format.TEXT, "where the records still are: source topic, queue, or lost", "FROM"
    ),
    "command": Column(Format.TEXT, "of Kafka, that sends them again; null: no single one does"),
}
