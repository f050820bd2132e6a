"""The pipeline on Spark: raw Kafka records in, lag out, on a laptop or a cluster.

Every function takes and gives DataFrames, and only distributes what `wire`, `replay` and `metrics` compute
over Arrow. Nothing runs before an action is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import reduce
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sharelag import schemas
from sharelag.metrics.lag import OFFSET_COLUMNS, OFFSET_KEYS, ROLLUP_KEYS, ROLLUP_SUMS, lag_columns
from sharelag.replay.moment import Moment
from sharelag.replay.state import KEY, drop_superseded, replay_arrow, split_last_key
from sharelag.wire.decode import decode_arrow
from sharelag.wire.fields import STATE_TOPIC

# What replay does not read stays where it is.
_NOT_REPLAYED = ("topic", "unknown_tags")
# Microseconds are all that Spark's timestamps hold; beyond, a number in a record is no time.
_LAST_MILLISECOND = (2**63 - 1) // 1000


class Decoded(NamedTuple):
    """The two halves of a decoded DataFrame. Cache the raw one before using both."""

    records: DataFrame
    rejects: DataFrame


def decode(raw: DataFrame, topic: str = STATE_TOPIC) -> Decoded:
    """Decode raw Kafka records, from whatever connector, table or stream.

    Parameters
    ----------
    raw : pyspark.sql.DataFrame
        The columns of Spark's own Kafka source (`sharelag.schemas.RAW`); further ones are ignored. Rows of
        both topics may be mixed.
    topic : str
        ``__share_group_state``, or ``__consumer_offsets`` for the share groups' members and assignments.

    Returns
    -------
    Decoded
        ``records`` as `sharelag.schemas.RECORDS` (or `GROUP_RECORDS`), ``rejects`` as
        `sharelag.schemas.REJECTS`. Records of other kinds are in neither.

    Raises
    ------
    InputError
        When a column is missing or of another type.
    """
    return split(decoded_rows(raw, topic), topic)


def decoded_rows(raw: DataFrame, topic: str = STATE_TOPIC) -> DataFrame:
    """Records and rejects in one DataFrame, for who wants to read the input only once; `split` parts them."""
    schemas.require(raw, schemas.RAW, "raw records")
    good = _records_schema(topic)
    both = pa.schema([*good, *(f for f in schemas.REJECTS if f.name not in good.names)])

    def decode_batch(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        decoded = decode_arrow(batch, topic)
        yield decoded.records
        yield decoded.rejects

    return _map(raw.select(schemas.RAW.names), decode_batch, both)


def split(rows: DataFrame, topic: str = STATE_TOPIC) -> Decoded:
    """Part what `decoded_rows` gave: a reject has a reason."""
    is_reject = F.col("reason").isNotNull()
    records = rows.where(~is_reject).select(_records_schema(topic).names)
    return Decoded(records, rows.where(is_reject).select(schemas.REJECTS.names))


def windows(records: DataFrame, as_of: Moment = None) -> DataFrame:
    """The state of every share partition, as of a moment.

    Parameters
    ----------
    records : pyspark.sql.DataFrame
        `sharelag.schemas.RECORDS`.
    as_of : datetime, mapping of state partition to offset, or None
        The last record to take into account; offsets leave out the state partitions they do not name.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.WINDOWS`, a row a share partition that exists.

    Notes
    -----
    Each task first drops what its own snapshots supersede, so what is shuffled per share partition is at most
    the updates since its last snapshot (500 by default) for each task that read some of them.
    """
    schemas.require(records, schemas.RECORDS, "records")
    chosen = records if as_of is None else records.where(_written_by(as_of))
    narrow = chosen.drop(*_NOT_REPLAYED)
    kept = pa.schema([field for field in schemas.RECORDS if field.name not in _NOT_REPLAYED])
    latest = _map(narrow, lambda batch: [drop_superseded(batch)], kept)
    sorted_by_key = latest.repartition(*KEY).sortWithinPartitions(*KEY, "offset")

    def replay_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pending = None
        for batch in batches:
            ready, pending = split_last_key(pending, batch)
            yield _for_spark(replay_arrow(ready), schemas.WINDOWS)
        if pending is not None:
            yield _for_spark(replay_arrow(pending), schemas.WINDOWS)

    return sorted_by_key.mapInArrow(replay_task, schemas.spark_schema(schemas.WINDOWS))


def lag(windows: DataFrame, offsets: DataFrame) -> DataFrame:
    """The lag of every share partition, term by term.

    Parameters
    ----------
    windows : pyspark.sql.DataFrame
        `sharelag.schemas.WINDOWS`, read before the offsets.
    offsets : pyspark.sql.DataFrame
        `sharelag.schemas.OFFSETS`.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.LAG`; see `sharelag.metrics.lag` for what the terms mean.
    """
    schemas.require(windows, schemas.WINDOWS, "windows")
    schemas.require(offsets, schemas.OFFSETS, "offsets")
    joined = windows.drop("batches").join(offsets.select(OFFSET_COLUMNS), OFFSET_KEYS, "left")
    return _map(joined, lambda batch: [lag_columns(batch)], schemas.LAG)


def rollup(lag: DataFrame, by: str) -> DataFrame:
    """Sum a lag table up by ``"group"`` or ``"topic"``; see `sharelag.metrics.lag.rollup_arrow`."""
    counted = lag.withColumn("unknown_lags", F.col("lag").isNull().cast("long"))
    sums = [getattr(F, how)(F.col(column)).alias(name) for name, column, how in ROLLUP_SUMS]
    rolled = counted.groupBy(*ROLLUP_KEYS[by]).agg(F.count("partition").alias("partitions"), *sums)
    wanted = schemas.spark_schema(schemas.ROLLUP).fields
    columns = [
        F.col(f.name) if f.name in rolled.columns else F.lit(None).cast(f.dataType).alias(f.name) for f in wanted
    ]
    return rolled.select(columns)


def _records_schema(topic: str) -> pa.Schema:
    return schemas.RECORDS if topic == STATE_TOPIC else schemas.GROUP_RECORDS


def _written_by(moment: datetime | Any) -> Column:
    if isinstance(moment, datetime):
        return F.col("timestamp") <= F.lit(moment)
    each = [
        (F.col("record_partition") == partition) & (F.col("offset") <= offset) for partition, offset in moment.items()
    ]
    return reduce(Column.__or__, each, F.lit(False))


def _map(frame: DataFrame, each: Callable[[pa.RecordBatch], Iterable[pa.RecordBatch]], schema: pa.Schema) -> DataFrame:
    """Apply a function to every Arrow batch; columns of the schema that it does not give are null."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for result in each(batch):
                if result.num_rows:
                    yield _for_spark(result, schema)

    return frame.mapInArrow(task, schemas.spark_schema(schema))


def _for_spark(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same rows with Spark's timestamps, which count microseconds."""
    arrays, fields = [], []
    for field in schema:
        column = batch.column(field.name) if field.name in batch.schema.names else pa.nulls(len(batch), field.type)
        kind = field.type
        if pa.types.is_timestamp(kind):
            column, kind = _microseconds(column), pa.timestamp("us", tz="UTC")
        arrays.append(column)
        fields.append(pa.field(field.name, kind))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _microseconds(column: pa.Array) -> pa.Array:
    numbers = column.cast(schemas.TIMESTAMP, safe=False).view(pa.int64())
    is_time = pc.and_(pc.less(numbers, _LAST_MILLISECOND), pc.greater(numbers, -_LAST_MILLISECOND))
    milliseconds = pc.if_else(is_time, numbers, pa.scalar(None, pa.int64()))
    return milliseconds.view(schemas.TIMESTAMP).cast(pa.timestamp("us", tz="UTC"))
