"""Windows and lag as Spark streams or Delta tables, up to date after each micro-batch.

After each micro-batch come the rows that it changed, and what they say is exactly what
`sharelag.engine.spark` says of all records so far. The sink gets changes (output mode ``update``),
so a share partition that is gone needs a row, too: `WINDOWS` and `LAG` here have the column
``deleted`` beside the usual ones. `updated` applies the changes to a table in hand.

Raw records are packed as bytes where Spark has them, and go to the task of their partition of the
state topic, which decodes and replays them (`sharelag.engine.spark.stream.state`). So a micro-batch
calls Python once for each partition of the state topic, however many share partitions there are.
pandas is what Spark hands keys and bytes over in, and no more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from sharelag import schemas
from sharelag.engine.spark.packing import (
    PACKED,
    PACKED_COLUMNS,
    pack_records,
    to_bytes,
    unpack_records,
)
from sharelag.engine.spark.states import is_raw
from sharelag.engine.spark.stream.state import REPLAYED, WINDOWS, State
from sharelag.errors import InputError
from sharelag.inputs.files.parquet import open_table, remove_old_files, replace_table
from sharelag.inputs.offsets import latest_ends
from sharelag.inputs.spark.ends import Ends, ends_beside_stream, read_ends
from sharelag.inputs.spark.frames import as_frame, latest_offsets
from sharelag.inputs.spark.workers import map_in_arrow, with_packages
from sharelag.metrics.lag import OFFSET_COLUMNS, OFFSET_KEYS, lag_arrow, lag_columns
from sharelag.model.versions import Told, require_version
from sharelag.replay.moment import filter_groups
from sharelag.replay.repeats import drop_repeats
from sharelag.schemas import Arrow
from sharelag.tables.arrow import as_table, ascending, beside, for_spark, keys, one_batch
from sharelag.wire.decode import decode_arrow, of_state
from sharelag.wire.fields import STATE_TOPIC
from sharelag.wire.generations import require_generation
from sharelag.wire.interpreter import find_unplaced

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.state import GroupState

    from sharelag.inputs.spark.frames import Tabular

#: `sharelag.schemas.LAG` with ``deleted``: of a deleted share partition little more is known.
LAG = schemas.LAG.append(WINDOWS.field("deleted"))

#: Kafka's number of partitions of the state topic: more tasks than these have nothing to do.
_MOST_TASKS = 50
_LOG = logging.getLogger(__name__)
#: What replay reads of records of a partition of the state topic.
_Decode = Callable[[pa.RecordBatch], pa.RecordBatch]


def windows(
    records: DataFrame,
    *,
    groups: Iterable[str] = (),
    generation: int | None = None,
    kafka_version: Told = None,
) -> DataFrame:
    """Return the state of every share partition that a micro-batch changed.

    Records may come out of order and more than once: each counts once, at its place in the log. Of
    those that come out of order, a few thousand of each partition of the state topic may wait for
    others; one that comes later than that ends the query, unless a snapshot has replaced it.

    Parameters
    ----------
    records : pyspark.sql.DataFrame
        A stream of `sharelag.schemas.RAW`, of any connector or table; other columns and topics are
        left out. Or one of `sharelag.schemas.RECORDS`, which costs more: decoded records are moved.
    groups : iterable of str
        Only these share groups.
    generation : int, optional
        As for `sharelag.decode`, of raw records.
    kafka_version : str or callable, optional
        As for `sharelag.windows`.

    Returns
    -------
    pyspark.sql.DataFrame
        A stream of `WINDOWS`, for output mode ``update``.

    Raises
    ------
    InputError
        When it is not a stream, or a column is missing or of another type.
    """
    of_raw = is_raw(records)
    schema = schemas.RAW if of_raw else schemas.RECORDS
    records = as_frame(records, schema, "raw records" if of_raw else "records")
    require_generation(generation)
    require_version(kafka_version)
    if not records.isStreaming:
        raise InputError(
            "the records are not a stream: use sharelag.windows, or read them with spark.readStream"
        )
    tasks = int(records.sparkSession.conf.get("spark.sql.shuffle.partitions") or 0)
    if tasks > _MOST_TASKS:
        _LOG.warning(
            "spark.sql.shuffle.partitions is %d: each is a task and a state store in every "
            "micro-batch, so set it to the number of cores before the query starts for the first "
            "time",
            tasks,
        )
    if of_raw:
        columns: Sequence[str] = PACKED_COLUMNS
        choose: Callable[[pa.RecordBatch], Arrow] = partial(of_state, generation=generation)
        decode: _Decode = partial(_decode, generation=generation, kafka_version=kafka_version)
    else:
        columns, choose, decode = REPLAYED.names, lambda rows: rows, lambda rows: rows
    places = ("topic", "partition" if of_raw else "record_partition", "offset")
    packed = map_in_arrow(
        records.select(*columns), partial(_pack, places=places, choose=choose), PACKED
    )
    rows = "rows binary"
    keep = partial(
        _keep,
        decoded="" if of_raw else STATE_TOPIC,
        decode=decode,
        groups=frozenset(groups),
        kafka_version=kafka_version,
    )
    kept = packed.groupBy("topic", "partition").applyInPandasWithState(
        with_packages(keep), rows, rows, "update", "NoTimeout"
    )
    return map_in_arrow(kept, _unpack, WINDOWS)


def lag(windows: DataFrame, offsets: Ends | Tabular) -> DataFrame:
    """Return the lag of every share partition that a micro-batch changed.

    Of share partitions that did not change only the end offset can be another: `sharelag.lag` of
    the windows kept so far tells it, and `watch` and `to_delta` keep it current.

    Parameters
    ----------
    windows : pyspark.sql.DataFrame
        The stream that `windows` gives, or in ``foreachBatch`` the rows of one micro-batch.
    offsets : path, name of a table, function, or DataFrame
        `sharelag.schemas.OFFSETS`, read anew for each micro-batch, after its records:

        - a folder of Parquet files or of a Delta table, which Spark's workers can read;
        - the name of a table that Spark knows, or a DataFrame that Spark reads anew, such as one
          of Kafka or of a catalog that lists its files for each query;
        - a function without arguments that gives rows of pandas or Arrow. It runs in a worker of
          Spark, so it cannot use the session; in ``foreachBatch``, call it yourself.

        A DataFrame of files, which Spark lists once, is refused; rows of this process are taken,
        and a warning in the log says that they stay as they are.

    Returns
    -------
    pyspark.sql.DataFrame
        `LAG`, a stream where the windows are one.

    Raises
    ------
    InputError
        When a column is missing or of another type, or the offsets cannot be read anew.
    """
    schemas.require(windows, WINDOWS, "windows")
    ends = ends_beside_stream(offsets, windows)
    rows = windows.select(WINDOWS.names)
    if callable(ends):
        # One task: the function is called once for each micro-batch.
        return map_in_arrow(rows.repartition(1), partial(_lag_with, ends=ends), LAG)
    last = latest_offsets(ends).select(OFFSET_COLUMNS)
    return map_in_arrow(rows.drop("batches").join(last, OFFSET_KEYS, "left"), _lag, LAG)


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
    new = come.filter(pc.invert(come.column("deleted"))).select(table.schema.names)
    return pa.concat_tables([stay, new.cast(table.schema)]).sort_by(ascending(*names))


# ---- what Spark's tasks run ----------------------------------------------------------------------


def _pack(
    batches: Iterable[pa.RecordBatch],
    places: Sequence[str],
    choose: Callable[[pa.RecordBatch], Arrow],
) -> Iterator[pa.RecordBatch]:
    """Pack those records of a task that have a place in a log; a damaged one may have none."""

    def keep_placed(rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.filter(pa.array(~find_unplaced(rows, places)))

    return pack_records((keep_placed(one_batch(choose(batch))) for batch in batches), places)


def _keep(
    key: tuple[Any, ...],
    frames: Iterator[pd.DataFrame],
    state: GroupState,
    decoded: str,
    decode: _Decode,
    groups: frozenset[str],
    kafka_version: Told,
) -> Iterator[pd.DataFrame]:
    """Add the records of one partition of the state topic to what is kept of it."""
    import pandas as pd

    rows = [row for frame in frames for row in frame["rows"]]
    place = {"topic": key[0], "partition": int(key[1]), "first_offset": None}
    packed = pa.Table.from_pylist([place | {"rows": row} for row in rows], PACKED)
    came = one_batch(pa.Table.from_batches(list(unpack_records(packed, decoded))))
    before = State.from_bytes(state.get[0]) if state.exists else State.begin()
    chosen = filter_groups(decode(came), groups)
    after, changed = before.apply(chosen, came.column("offset").to_numpy(), kafka_version)
    if after is not before:
        state.update((after.to_bytes(),))
    yield pd.DataFrame({"rows": [to_bytes(as_table(changed))]})


def _decode(rows: pa.RecordBatch, generation: int | None, kafka_version: Told) -> pa.RecordBatch:
    raw, _ = drop_repeats(rows)
    return decode_arrow(raw, STATE_TOPIC, generation, kafka_version).records.select(REPLAYED.names)


def _unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for rows in batch.column("rows"):
            for found in _from_bytes(rows.as_py()):
                yield for_spark(found, WINDOWS)


def _lag_with(
    batches: Iterable[pa.RecordBatch], ends: Callable[[], pa.Table]
) -> Iterator[pa.RecordBatch]:
    rows = [batch for batch in batches if batch.num_rows]
    if rows:
        changed = pa.Table.from_batches(rows).drop_columns("batches")
        found = beside(keys(changed, OFFSET_KEYS), latest_ends(ends()), OFFSET_KEYS)
        for name in OFFSET_COLUMNS:
            if name not in OFFSET_KEYS:
                changed = changed.append_column(name, found.column(name))
        yield from _lag([one_batch(changed)])


def _lag(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        deleted = batch.column("deleted")
        found = lag_columns(batch.filter(pc.invert(deleted)))
        flag = pa.repeat(pa.scalar(False), found.num_rows)
        yield for_spark(pa.RecordBatch.from_arrays([*found.columns, flag], names=LAG.names), LAG)
        names = ["group_id", "topic", "topic_id", "partition", "deleted"]
        yield for_spark(batch.filter(deleted).select(names), LAG)


def _from_bytes(data: bytes) -> Iterator[pa.RecordBatch]:
    yield from pa.ipc.open_stream(pa.py_buffer(data))


#: How long readers may use rows that were replaced, and after how many micro-batches they go.
_KEEP, _TIDY_EVERY = timedelta(hours=1), 100
_BATCH = "sharelag.batch"


def to_delta(folder: Path | str, offsets: Ends | Tabular) -> Callable[[DataFrame, int], None]:
    """Return what keeps ``FOLDER/windows`` and ``FOLDER/lag`` current, for ``foreachBatch``.

    Both have one row per share partition. Each micro-batch computes the lag of all of them, with
    end offsets of that moment, and replaces both tables, each in one commit. A query that is
    started again goes on with them, and a micro-batch that is repeated changes nothing: what it
    says is a state, not a difference. While no record comes there is no micro-batch, so ``as_of``
    says how old the lag is.

    Parameters
    ----------
    folder : path or str
        Where Spark's driver writes.
    offsets : path, name of a table, function, or DataFrame
        As for `watch`: a function may use the session.

    Returns
    -------
    callable
        Takes rows of `WINDOWS` and the number of their micro-batch. It raises `InputError` when
        the tables are not those that the query wrote, or cannot be written.

    Raises
    ------
    InputError
        When deltalake is not installed, or the folder cannot be read.

    Examples
    --------
    >>> windows = sharelag.stream.windows(raw)  # doctest: +SKIP
    >>> writer = windows.writeStream.outputMode("update")  # doctest: +SKIP
    >>> writer = writer.option("checkpointLocation", "checkpoint")  # doctest: +SKIP
    >>> sink = sharelag.stream.to_delta("tables", offsets="offsets")  # doctest: +SKIP
    >>> writer.foreachBatch(sink).start()  # doctest: +SKIP
    """
    place = str(folder) if "://" in str(folder) else str(Path(folder).absolute())
    open_table(f"{place}/windows")
    return partial(_replace, place=place, offsets=offsets)


def _replace(changes: DataFrame, batch: int, place: str, offsets: Ends | Tabular) -> None:
    schemas.require(changes, WINDOWS, "windows")
    windows = updated(_before(f"{place}/windows", batch), changes.toArrow())
    ends = latest_ends(read_ends(offsets, changes.sparkSession))
    lag = pa.Table.from_batches([lag_arrow(windows, ends)])
    for name, table in (("windows", windows), ("lag", lag)):
        replace_table(f"{place}/{name}", table, f"{name} of a stream", {_BATCH: str(batch)})
        if batch % _TIDY_EVERY == 0:
            remove_old_files(f"{place}/{name}", _KEEP)


def _before(place: str, batch: int) -> pa.Table:
    """Return the windows that the micro-batch before has left."""
    found = open_table(place)
    last = None if found is None else found.history(1)[0].get(_BATCH)
    if found is not None and last is None:
        raise InputError(f"{place} is a different table: choose another folder")
    if batch == 0:  # a new query begins with all records
        return schemas.WINDOWS.empty_table()
    if found is None or last not in (str(batch - 1), str(batch)):
        there = "no table" if found is None else f"the table of micro-batch {last}"
        raise InputError(
            f"{place} is {there}, and the query goes on with micro-batch {batch}: bring back the "
            "table that it wrote, or start the query with a new checkpoint"
        )
    return found.to_pyarrow_table(columns=schemas.WINDOWS.names).cast(schemas.WINDOWS)
