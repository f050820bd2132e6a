"""Records replayed: the state of share partitions, now and after each record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sharelag import schemas
from sharelag.metrics.observed import observe
from sharelag.pipeline.records import chosen
from sharelag.reading import Each
from sharelag.replay.columns import KEY
from sharelag.replay.history import HISTORY_KEY, histories
from sharelag.replay.moment import Moment, filter_groups, up_to
from sharelag.replay.state import latest, replay_arrow, split_last_key, whole_keys
from sharelag.schemas.arrow import for_spark, one_batch
from sharelag.wire.decode import decode_arrow

# What replay reads; the rest stays where it is.
_REPLAYED = pa.schema([field for field in schemas.RECORDS if field.name != "unknown_tags"])
#: What `thinned` gives: records, and rows that count.
THIN = pa.schema(
    [
        *_REPLAYED,
        ("counted_records", pa.int64()),  # null: a record
        ("rejected", pa.int64()),  # that could not be decoded
        ("first", schemas.TIMESTAMP),  # when the first and the last of the records were written
        ("last", schemas.TIMESTAMP),
    ]
)


def windows(records: DataFrame, as_of: Moment = None) -> DataFrame:
    """Return the state of every share partition as of a moment.

    Parameters
    ----------
    records : pyspark.sql.DataFrame
        `sharelag.schemas.RECORDS`.
    as_of : datetime, mapping of state partition to offset, or None
        The last record to take into account; offsets leave out the state partitions they do not
        name.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.WINDOWS`, a row a share partition that exists.

    Notes
    -----
    Each task first drops what its own snapshots supersede, so what is shuffled per share partition
    is at most the updates since its last snapshot (500 by default) for each task that read some of
    them.
    """
    schemas.require(records, schemas.RECORDS, "records")

    def thin_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield for_spark(latest(batches, _REPLAYED), _REPLAYED)

    return _replayed(
        chosen(records, as_of)
        .select(_REPLAYED.names)
        .mapInArrow(thin_task, schemas.spark_schema(_REPLAYED))
    )


def thinned(
    raw: DataFrame, as_of: Moment = None, groups: frozenset[str] = frozenset()
) -> DataFrame:
    """Decode raw records and drop what is superseded where they are read, so that few bytes move.

    Parameters
    ----------
    raw, as_of
        As for `decode` and `windows`.
    groups : frozenset of str
        Only these groups; empty means all.

    Returns
    -------
    pyspark.sql.DataFrame
        `THIN`: the records that windows rest on, and a row a task that counts what it read, whose
        ``group_id`` is null. Persist it before asking both `windows_of` and `counts_of`, or the
        records are read twice.
    """
    schemas.require(raw, schemas.RAW, "raw records")

    def decode_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counts: list[pa.RecordBatch] = []

        def kept() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                decoded = decode_arrow(batch)
                records = up_to(filter_groups(decoded.records, groups), as_of).select(
                    _REPLAYED.names
                )
                counts.append(_counted(records, decoded.rejects.num_rows))
                yield records

        yield for_spark(latest(kept(), _REPLAYED), THIN)
        if counts:
            yield for_spark(one_batch(pa.Table.from_batches(counts)), THIN)

    return raw.select(schemas.RAW.names).mapInArrow(decode_task, schemas.spark_schema(THIN))


def windows_of(thin: DataFrame) -> DataFrame:
    """`windows` of what `thinned` left."""
    return _replayed(thin.where("counted_records is null").select(_REPLAYED.names))


def counts_of(thin: DataFrame) -> DataFrame:
    """Return one row that counts what `thinned` read: ``records rejected first last``."""
    return thin.agg(
        F.coalesce(F.sum("counted_records"), F.lit(0)).alias("records"),
        F.coalesce(F.sum("rejected"), F.lit(0)).alias("rejected"),
        F.min("first").alias("first"),
        F.max("last").alias("last"),
    )


def _counted(records: pa.RecordBatch, rejected: int) -> pa.RecordBatch:
    span = pc.min_max(records.column("timestamp"))
    row = [pa.array([value]) for value in (records.num_rows, rejected)]
    times = [
        pa.array([span[name].value], pa.int64()).view(schemas.TIMESTAMP) for name in ("min", "max")
    ]
    return pa.RecordBatch.from_arrays(
        [*row, *times], names=["counted_records", "rejected", "first", "last"]
    )


def history(records: DataFrame, gaps: pa.Table | None = None) -> DataFrame:
    """Return the state of every share partition after each of its records.

    Parameters
    ----------
    records : pyspark.sql.DataFrame
        `sharelag.schemas.RECORDS`.
    gaps : pyarrow.Table, optional
        `sharelag.schemas.GAPS`: what `missing_offsets` found, so that nothing is bridged silently.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.HISTORY`, a row a record; share partitions stand together, each in the
        order of the log.
    """
    schemas.require(records, schemas.RECORDS, "records")

    def history_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in histories(batches, gaps):
            yield for_spark(batch, schemas.HISTORY)

    return _together(records.select(_REPLAYED.names)).mapInArrow(
        history_task, schemas.spark_schema(schemas.HISTORY)
    )


def summarized(
    records: DataFrame, each: Each, schema: pa.Schema, gaps: pa.Table | None = None
) -> DataFrame:
    """Apply a function to the whole history of share partitions, in the tasks that replay them.

    Parameters
    ----------
    records, gaps
        As for `history`.
    each : callable
        Takes `sharelag.schemas.HISTORY` of some share partitions, all rows of each, and gives a
        batch or table; its rows cross to Spark instead of the history's.
    schema : pyarrow.Schema
        Of what it gives.
    """
    schemas.require(records, schemas.RECORDS, "records")

    def summarize_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for whole in whole_keys(histories(batches, gaps), HISTORY_KEY[:-1]):
            yield for_spark(one_batch(each(whole)), schema)

    return _together(records.select(_REPLAYED.names)).mapInArrow(
        summarize_task, schemas.spark_schema(schema)
    )


#: What `finished_of` gives.
FINISHED = pa.schema(
    [("record_topic", pa.string()), ("record_partition", pa.int32()), ("finished", pa.int64())]
)


def finished_of(history: pa.RecordBatch) -> pa.Table:
    """How many offsets the records of each state partition finished."""
    sums = (
        pa.Table.from_batches([history])
        .group_by(FINISHED.names[:2])
        .aggregate([("finished", "sum")])
    )
    return sums.rename_columns(FINISHED.names)


def replayed_by(records: DataFrame, each: Each, schema: pa.Schema) -> DataFrame:
    """Apply a function to all records of share partitions; parameters as for `summarized`."""

    def replay_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for whole in whole_keys(batches):
            yield for_spark(one_batch(each(whole)), schema)

    return _together(records.select(_REPLAYED.names)).mapInArrow(
        replay_task, schemas.spark_schema(schema)
    )


def observed(
    records: DataFrame, end: datetime, over: timedelta, gaps: pa.Table | None = None
) -> DataFrame:
    """Summarize the history of a span; see `sharelag.metrics.observed.observe`.

    Parameters
    ----------
    records, gaps
        As for `history`.
    end : datetime
    over : timedelta

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.OBSERVED`, a row a share partition.
    """
    return summarized(records, partial(observe, end=end, over=over), schemas.OBSERVED, gaps)


def _together(records: DataFrame) -> DataFrame:
    """Bring each share partition's records together, in the order of the log."""
    return records.repartition(*KEY).sortWithinPartitions(*KEY, "offset")


def _replayed(thin: DataFrame) -> DataFrame:
    def replay_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pending = None
        for batch in batches:
            ready, pending = split_last_key(pending, batch)
            yield for_spark(replay_arrow(ready), schemas.WINDOWS)
        if pending is not None:
            yield for_spark(replay_arrow(pending), schemas.WINDOWS)

    return _together(thin).mapInArrow(replay_task, schemas.spark_schema(schemas.WINDOWS))
