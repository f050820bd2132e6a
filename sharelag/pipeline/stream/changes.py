"""Windows and lag as Spark streams, up to date after each micro-batch.

After each micro-batch come the rows that it changed, and what they say is exactly what
`sharelag.pipeline` says of all records so far: the state that Spark keeps of a share partition is
its records since the last snapshot, the same ones that `drop_superseded` leaves, and they are
replayed as always. There is nothing to drift.

The sink gets changes (output mode ``update``), so a share partition that is gone needs a row, too:
`WINDOWS` and `LAG` here have the column ``deleted`` beside the usual ones. `updated` applies the
changes to a table in hand.

Micro-batches must come in the order of the log, as from
``spark.readStream.format("sharelag_kafka")``; within one the order does not matter. Spark keeps
state in memory; from some ten thousand share partitions on, choose its RocksDB provider
(``spark.sql.streaming.stateStore.providerClass``). pandas is what Spark hands keys and bytes over
in, and no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.lag import OFFSET_COLUMNS, OFFSET_KEYS, lag_columns
from sharelag.replay.columns import KEY
from sharelag.replay.state import drop_superseded, latest, replay_arrow
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import as_table, for_spark, keys, one_batch
from sharelag.sources.spark.frames import latest_ends

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.state import GroupState

_DELETED = pa.field(
    "deleted", pa.bool_()
)  # true: there is no state of this share partition any more
#: `sharelag.schemas.WINDOWS` and `LAG`, each with ``deleted``; of a deleted share partition little
#: more is known.
WINDOWS, LAG = schemas.WINDOWS.append(_DELETED), schemas.LAG.append(_DELETED)

# What replay reads; the rest stays where it is.
_REPLAYED = pa.schema([field for field in schemas.RECORDS if field.name != "unknown_tags"])
_PACKED = pa.schema([*(schemas.RECORDS.field(name) for name in KEY), ("records", pa.binary())])


def windows(records: DataFrame) -> DataFrame:
    """The state of every share partition that a micro-batch changed.

    Parameters
    ----------
    records : pyspark.sql.DataFrame
        A stream of `sharelag.schemas.RECORDS`, such as ``sharelag.decode`` gives of a stream.

    Returns
    -------
    pyspark.sql.DataFrame
        A stream of `WINDOWS`, for output mode ``update``.

    Raises
    ------
    InputError
        When it is not a stream, or a column is missing or of another type.
    """
    schemas.require(records, schemas.RECORDS, "records")
    if not records.isStreaming:
        raise InputError(
            "the records are not a stream: use sharelag.windows, or read them with spark.readStream"
        )
    packed = records.select(_REPLAYED.names).mapInArrow(_pack, schemas.spark_schema(_PACKED))
    state = "records binary"
    kept = packed.groupBy(*KEY).applyInPandasWithState(_keep, state, state, "update", "NoTimeout")
    return kept.mapInArrow(_replay, schemas.spark_schema(WINDOWS))


def lag(windows: DataFrame, offsets: DataFrame) -> DataFrame:
    """The lag of every share partition that a micro-batch changed.

    Parameters
    ----------
    windows : pyspark.sql.DataFrame
        The stream that `windows` gives.
    offsets : pyspark.sql.DataFrame
        `sharelag.schemas.OFFSETS`, no stream: Spark reads it anew for each micro-batch. Of share
        partitions that did not change only the end offset can be another; `sharelag.lag` of the
        windows kept so far tells it.

    Returns
    -------
    pyspark.sql.DataFrame
        A stream of `LAG`.
    """
    schemas.require(windows, WINDOWS, "windows")
    schemas.require(offsets, schemas.OFFSETS, "offsets")
    ends = latest_ends(offsets).select(OFFSET_COLUMNS)
    joined = windows.select(WINDOWS.names).drop("batches").join(ends, OFFSET_KEYS, "left")
    return joined.mapInArrow(_lag, schemas.spark_schema(LAG))


def updated(table: pa.Table, changes: Arrow) -> pa.Table:
    """Apply the changes of one micro-batch, for example in ``foreachBatch``.

    Parameters
    ----------
    table : pyarrow.Table
        `sharelag.schemas.WINDOWS` or `LAG`: what was there before; at first an empty table.
    changes : pyarrow.Table or pyarrow.RecordBatch
        Rows of `WINDOWS` or `LAG`.

    Returns
    -------
    pyarrow.Table
        With the columns of ``table``, sorted by share partition.
    """
    names = ["group_id", "topic_id", "partition"]
    names += ["record_topic", "record_partition"] if "record_topic" in table.schema.names else []
    come = as_table(changes)
    stay = table.filter(pc.invert(pc.is_in(keys(table, names), keys(come, names))))
    new = (
        come.filter(pc.invert(come.column("deleted"))).select(table.schema.names).cast(table.schema)
    )
    return pa.concat_tables([stay, new]).sort_by([(name, "ascending") for name in names])


# ---- what Spark's tasks run ----------------------------------------------------------------------


def _pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Drop superseded records of a task and pack each share partition into one row of bytes."""
    records = latest(batches, _REPLAYED).sort_by([(name, "ascending") for name in (*KEY, "offset")])
    if records.num_rows == 0:
        return
    changed = [pc.not_equal(column[1:], column[:-1]) for column in map(records.column, KEY)]
    begins = np.append(
        0,
        1
        + np.flatnonzero(np.logical_or.reduce([c.to_numpy(zero_copy_only=False) for c in changed])),
    )
    ends = np.append(begins[1:], records.num_rows)
    keys = records.select(list(KEY)).take(pa.array(begins))
    texts = [
        _to_bytes(records.slice(begin, end - begin))
        for begin, end in zip(begins, ends, strict=True)
    ]
    columns = [*keys.columns, pa.array(texts, pa.binary())]
    yield for_spark(pa.RecordBatch.from_arrays(columns, names=_PACKED.names), _PACKED)


def _keep(
    _: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """Add one share partition's new records to those that are kept of it."""
    import pandas as pd

    texts = [text for frame in frames for text in frame["records"]]
    known = [state.get[0]] if state.exists else []
    records = drop_superseded(_from_bytes([*known, *texts]))
    kept = _to_bytes(records)
    if (
        records.column("tombstone").to_pylist() == [True]
        and records.column("record_type")[0].as_py() == 0
    ):
        state.remove()  # what comes now begins anew
    else:
        state.update((kept,))
    yield pd.DataFrame({"records": [kept]})


def _replay(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows == 0:
            continue
        records = _from_bytes(batch.column("records").to_pylist())
        alive = replay_arrow(records)
        names = ["topic", "record_partition", "group_id", "topic_id", "partition"]
        theirs = ["record_topic", *names[1:]]
        last = _last_of_each(records)
        gone = last.filter(pc.invert(pc.is_in(keys(last, names), keys(alive, theirs))))
        renamed = {
            "topic": "record_topic",
            "offset": "record_offset",
            "timestamp": "record_timestamp",
        }
        for rows, is_gone in ((alive, False), (gone.select([*names, *list(renamed)[1:]]), True)):
            flag = pa.repeat(pa.scalar(is_gone), rows.num_rows)
            names_now = [renamed.get(name, name) if is_gone else name for name in rows.schema.names]
            found = pa.RecordBatch.from_arrays([*rows.columns, flag], names=[*names_now, "deleted"])
            yield for_spark(found, WINDOWS)


def _lag(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        deleted = batch.column("deleted")
        found = lag_columns(batch.filter(pc.invert(deleted)))
        flag = pa.repeat(pa.scalar(False), found.num_rows)
        yield for_spark(pa.RecordBatch.from_arrays([*found.columns, flag], names=LAG.names), LAG)
        gone = batch.filter(deleted).select(
            ["group_id", "topic", "topic_id", "partition", "deleted"]
        )
        yield for_spark(gone, LAG)


def _last_of_each(records: pa.RecordBatch) -> pa.RecordBatch:
    """The last record of every share partition."""
    ordered = records.sort_by([(name, "ascending") for name in (*KEY, "offset")])
    place = keys(ordered, KEY)
    last = pc.not_equal(place[1:], place[:-1]).to_numpy(zero_copy_only=False)
    return ordered.filter(pa.array(np.append(last, True)))


def _to_bytes(records: pa.RecordBatch) -> bytes:
    # With its schema, so that a state which another version has written is recognised.
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, records.schema) as writer:
        writer.write_batch(records)
    return bytes(sink.getvalue())


def _from_bytes(texts: Iterable[bytes]) -> pa.RecordBatch:
    batches = [batch for text in texts for batch in pa.ipc.open_stream(pa.py_buffer(text))]
    if any(batch.schema.names != _REPLAYED.names for batch in batches):
        raise InputError(
            "the stream's checkpoint is of another version of sharelag: start with a new one"
        )
    return one_batch(pa.Table.from_batches(batches))
