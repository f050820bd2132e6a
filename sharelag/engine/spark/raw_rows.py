"""Which raw records matter, as conditions on a DataFrame and on the batches that a task reads."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from sharelag.engine.spark.packing import OTHER
from sharelag.replay.moment import Moment, as_moment
from sharelag.tables.arrow import one_batch
from sharelag.wire.decode import of_state, of_topic
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC
from sharelag.wire.generations import CONTROL_KEYS, control_key_sizes

#: Types of the records of share groups in the groups' topic: the first two bytes of their keys.
_GROUP_TYPES = [kind.to_bytes(2, "big") for kind in range(10, 16)]


def is_written_by(moment: Moment, partition: str = "partition") -> Column:
    """Return the condition that a record was written up to a time, or to offsets."""
    as_moment(moment)  # Spark would take it for a time of the driver's zone
    if isinstance(moment, datetime):
        # Kafka's times have milliseconds: what is finer in a table does not make it later.
        last = moment.replace(microsecond=moment.microsecond // 1000 * 1000 + 999)
        return F.col("timestamp") <= F.lit(last)
    each = [
        (F.col(partition) == number) & (F.col("offset") <= offset)
        for number, offset in (moment or {}).items()
    ]
    return reduce(Column.__or__, each, F.lit(False))


# Conditions of many parts are texts: a column is several messages to Java for each part.


def is_of(topic: str, generation: int | None) -> str:
    """Return the condition that a raw record may be of a topic that we decode."""
    is_named = f"endswith(topic, '{topic}')"
    if topic == GROUP_TOPIC:
        return f"{is_named} AND substring(key, 1, 2) IN ({_literals(*_GROUP_TYPES)})"
    sizes = ", ".join(map(str, control_key_sizes(generation)))
    control = f"length(key) IN ({sizes}) AND substring(key, 1, 4) IN ({_literals(*CONTROL_KEYS)})"
    # One without a topic is a reject.
    return f"topic IS NULL OR {is_named} OR ({control} AND NOT startswith(topic, '__'))"


def key_with_topic(usual: str) -> str:
    """Return the key of a raw record, with the topic if it is another: see `name_topics`."""
    other, equals, nul, instead = map(_literals, (OTHER, b"=", b"\0", "\ufffd".encode()))
    # A name ends where the first NUL is; Kafka's topics have none in theirs.
    name = f"translate(topic, CAST({nul} AS STRING), CAST({instead} AS STRING))"
    parts = f"CAST({name} AS BINARY)", "key"
    marked = [f"coalesce(concat({equals}, {part}), X'')" for part in parts]
    return (
        f"CASE WHEN topic = '{usual}' AND NOT startswith(key, {other}) THEN key "
        f"ELSE concat({other}, {marked[0]}, {nul}, {marked[1]}) END AS key"
    )


def _literals(*found: bytes) -> str:
    return ", ".join(f"X'{one.hex()}'" for one in found)


def of_topics(raw: pa.RecordBatch, topics: Sequence[str], generation: int | None) -> pa.RecordBatch:
    """Return the rows of some topics of files and logs, as `is_of` does of a DataFrame."""
    found = [
        of_state(raw, generation) if topic == STATE_TOPIC else of_topic(raw, topic)
        for topic in topics
    ]
    return one_batch(pa.Table.from_batches(found))
