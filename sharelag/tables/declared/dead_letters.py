"""Dead-letter queues of share groups (KIP-1191): their letters, and those that should exist."""

from __future__ import annotations

import pyarrow as pa

from sharelag.tables.declared.lag import OF_RUN
from sharelag.tables.declared.records import RAW
from sharelag.tables.table import Column, Own, Table, declare, view
from sharelag.tables.table import Format as F

_LETTER_COLUMNS = OF_RUN | {
    "reason": "rejected, or delivery limit, according to the queue; without a record in it, by "
    "the delivery count: delivery limit, else rejected or gap; if unreadable, what is wrong"
}

declare(Column("copied", F.FLAG, "whether the queue has their key or value; null: no record in it"))

WITH_HEADERS = Table(
    "with_headers", "a record of a queue, as Spark's own Kafka source gives it with headers",
    RAW,
    Column("headers", F.LIST, "headers of the record",
           type=pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
)  # fmt: skip

LETTERS = Table(
    "letters", "a record of a dead-letter queue, without its payload",
    Column("queue", F.TEXT, "topic that is the dead-letter queue"),
    Column("queue_partition", F.ORDINAL, "partition of the queue", "Q-PARTITION"),
    Column("queue_offset", F.OFFSET, "offset of a record of the queue"),
    Own("timestamp", "when it was written to the queue"),
    Own("group_id", "of the source record, by the headers; null where they are missing or "
        "unreadable"),
    "topic partition offset",
    Own("delivery_count", "how often it was delivered; null: the broker did not say"),
    Column("message", F.TEXT, "why it was given up, in the broker's words"),
    Own("copied", "whether it has the key or the value of the source record"),
    Column("marker", F.FLAG, "whether key and value are those of a transaction marker; null: not "
           "copied"),
    Own("problem", "why it is not a dead letter of a share group; else null"),
)  # fmt: skip

#: Letters with the same problem are counted together.
COUNTED_LETTERS = Table(
    "count_letters", "a record of a queue, or all of its records with the same problem",
    LETTERS,
    "topic_id records",
)  # fmt: skip

ARCHIVED_RUNS = Table(
    "archived_runs",
    "a run of offsets that are archived, or being archived, in a history",
    "group_id topic_id partition first_offset last_offset",
    Column("delivery_state", F.ORDINAL, "4 archived, 3 archiving", type=pa.int8()),
    "delivery_count",
    Own("since", "first record with that state"),
    Column("record", F.TEXT, "record of the state topic with that state: state partition:offset"),
)  # fmt: skip

LEDGER = Table(
    "ledger", "a run of offsets of a share partition with the same outcome",
    "group_id topic topic_id partition first_offset last_offset",
    Column("offsets", F.OFFSETS, "number of offsets"),
    Column("status", F.TEXT, "written: archived, with one record in the queue; duplicate: with "
           "several; missing: with none; archiving: on its way; stuck: on its way for longer than "
           "a lock lasts; passed: in the queue, with its state pruned; unexpected: in the queue, "
           "but not finished; unknown: only the id or only the name of its topic is known; "
           "unreadable: not a dead letter"),
    "reason delivery_count",
    Own("since", "when it was archived, or began to be; null: not in the history", in_view=True),
    "record queue queue_partition",
    Column("first_queue_offset", F.OFFSET, "offset of the first of their records in the queue",
           "Q-FIRST"),
    Column("last_queue_offset", F.OFFSET, "offset of the last of their records in the queue",
           "Q-LAST"),
    Column("letters", F.COUNT, "records of the queue about these offsets"),
    Own("copied", "whether the queue has key or value of all of them"),
    Column("retained", F.FLAG, "whether the log of the topic still has these offsets, unless it "
           "was compacted; null: not known"),
    view=view(
        "group_id topic partition first_offset last_offset status reason delivery_count since "
        "record letters queue queue_partition first_queue_offset copied retained",
        _LETTER_COLUMNS,
    ),
)  # fmt: skip

REDRIVE = Table(
    "redrive", "a run of offsets that could be sent again, and how",
    "group_id topic partition first_offset last_offset offsets status reason",
    Column("from", F.TEXT, "where the records still are: source topic, queue, or lost"),
    Column("command", F.TEXT, "Kafka's command that sends them again; null: no single one does"),
    view=view(
        "group_id topic partition first_offset last_offset offsets status reason from command",
        _LETTER_COLUMNS,
    ),
)  # fmt: skip
