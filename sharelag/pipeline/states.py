"""Records replayed: the state of share partitions, now and after each record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from sharelag import schemas
from sharelag.arrow import for_spark
from sharelag.metrics.observed import observe
from sharelag.pipeline.records import chosen
from sharelag.replay.columns import KEY
from sharelag.replay.history import HISTORY_KEY, histories
from sharelag.replay.moment import Moment, of_groups, up_to
from sharelag.replay.state import latest, replay_arrow, split_last_key, whole_keys
from sharelag.wire.decode import decode_arrow

# What replay reads; the rest stays where it is.
_REPLAYED = pa.schema([field for field in schemas.RECORDS if field.name != "unknown_tags"])


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

    def thin_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield for_spark(latest(batches, _REPLAYED), _REPLAYED)

    return _replayed(
        chosen(records, as_of).select(_REPLAYED.names).mapInArrow(thin_task, schemas.spark_schema(_REPLAYED))
    )


def windows_of_raw(
    raw: DataFrame, as_of: Moment = None, groups: frozenset[str] = frozenset(), rejected: Any = None
) -> DataFrame:
    """`windows` straight from raw records: decoded and thinned out where they are read, so that few bytes move.

    Parameters
    ----------
    raw, as_of
        As for `decode` and `windows`.
    groups : frozenset of str
        Only these groups; empty means all.
    rejected : pyspark.Accumulator, optional
        Receives how many records could not be decoded.
    """
    schemas.require(raw, schemas.RAW, "raw records")

    def decode_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        def kept() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                decoded = decode_arrow(batch)
                if rejected is not None:
                    rejected.add(decoded.rejects.num_rows)
                yield up_to(of_groups(decoded.records, groups), as_of).select(_REPLAYED.names)

        yield for_spark(latest(kept(), _REPLAYED), _REPLAYED)

    return _replayed(raw.select(schemas.RAW.names).mapInArrow(decode_task, schemas.spark_schema(_REPLAYED)))


def history(records: DataFrame, gaps: pa.Table | None = None) -> DataFrame:
    """The state of every share partition after each of its records.

    Parameters
    ----------
    records : pyspark.sql.DataFrame
        `sharelag.schemas.RECORDS`.
    gaps : pyarrow.Table, optional
        `sharelag.schemas.GAPS`: what `missing_offsets` found, so that nothing is bridged silently.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.HISTORY`, a row a record; share partitions stand together, each in the order of the log.
    """
    schemas.require(records, schemas.RECORDS, "records")

    def history_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in histories(batches, gaps):
            yield for_spark(batch, schemas.HISTORY)

    return _together(records.select(_REPLAYED.names)).mapInArrow(history_task, schemas.spark_schema(schemas.HISTORY))


def observed(history: DataFrame, end: datetime, over: timedelta) -> DataFrame:
    """What a span of history says of each share partition; see `sharelag.metrics.observed.observe`.

    Parameters
    ----------
    history : pyspark.sql.DataFrame
        As `history` gives it.
    end : datetime
    over : timedelta

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.OBSERVED`, a row a share partition.
    """
    columns = HISTORY_KEY[:-1]

    def observe_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for whole in whole_keys(batches, columns):
            yield for_spark(observe(whole, end, over), schemas.OBSERVED)

    sorted_by_key = history.select(schemas.HISTORY.names).repartition(*columns).sortWithinPartitions(*HISTORY_KEY)
    return sorted_by_key.mapInArrow(observe_task, schemas.spark_schema(schemas.OBSERVED))


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
