"""Dead-letter queues of share groups (KIP-1191): what they hold, and what should be in them."""

from __future__ import annotations

import pyarrow as pa

from sharelag.schemas.records import RAW, SHARE_PARTITION_COLUMNS, TIMESTAMP

#: Records of a queue with their headers, as Spark's own Kafka source gives them on request.
WITH_HEADERS = RAW.append(
    pa.field(
        "headers",
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    )
)

#: One record of a queue, without its payload.
LETTERS = pa.schema(
    [
        ("queue", pa.string()),  # the topic that is the queue
        ("queue_partition", pa.int32()),
        ("queue_offset", pa.int64()),
        ("timestamp", TIMESTAMP),  # when it was written there
        # of the source record, by the headers; null where they are missing or unreadable
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("delivery_count", pa.int16()),  # null: the broker did not tell
        ("message", pa.string()),  # why, in the broker's words
        ("copied", pa.bool_()),  # it has the key or the value of the source record
        ("marker", pa.bool_()),  # these are those of a transaction's marker; null: not copied
        ("problem", pa.string()),  # why it is not a dead letter of a share group; else null
    ]
)

#: The same with the id of the source topic, and how many records a row is: those with the same
#: problem are put together.
COUNTED_LETTERS = LETTERS.append(pa.field("topic_id", pa.string())).append(
    pa.field("records", pa.int64())
)

#: One run of offsets that a history of state records has as archived, or as on their way there.
ARCHIVED_RUNS = pa.schema(
    [
        *SHARE_PARTITION_COLUMNS,
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("delivery_state", pa.int8()),  # 4 archived, 3 archiving
        ("delivery_count", pa.int16()),
        ("since", TIMESTAMP),  # the first record that has it so
        ("record", pa.string()),  # its state partition and offset
    ]
)

#: One run of offsets of a share partition with the same outcome.
LEDGER = pa.schema(
    [
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("offsets", pa.int64()),
        ("status", pa.string()),  # see `sharelag.metrics.dead_letters`
        ("reason", pa.string()),
        ("delivery_count", pa.int16()),
        ("since", TIMESTAMP),  # archived, or archiving, since; null: not in the history
        ("record", pa.string()),  # of the state topic, that shows the first of the offsets so
        ("queue", pa.string()),
        ("queue_partition", pa.int32()),
        ("first_queue_offset", pa.int64()),
        ("last_queue_offset", pa.int64()),
        ("letters", pa.int64()),  # records of the queue
        ("copied", pa.bool_()),  # the queue has key or value of all of them
        # whether the log of the source topic still has these offsets; null: not known
        ("retained", pa.bool_()),
    ]
)

#: One run of offsets that could be sent again, and how.
REDRIVE = pa.schema(
    [
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("offsets", pa.int64()),
        ("status", pa.string()),
        ("reason", pa.string()),
        ("from", pa.string()),  # source, queue, or lost
        ("command", pa.string()),  # null: nothing has these records any more
    ]
)
