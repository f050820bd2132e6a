"""Windows and lag as Spark streams or Delta tables, up to date after each micro-batch.

Each micro-batch yields the rows that it changed, equal to those of `sharelag.engine.spark` for all
records so far. The sink receives changes (output mode ``update``), so a deleted share partition
needs a row, too: `WINDOWS` and `LAG` here have an additional column ``deleted``. `updated` applies
the changes to a table in memory.

Raw records are packed into bytes by the tasks that read them, and go to the task of their partition
of the state topic, which decodes and replays them (`State`). So a micro-batch calls Python once per
partition of the state topic, however many share partitions there are. pandas only carries keys and
bytes between Spark and Python.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from sharelag import schemas
from sharelag.engine.spark.answers import is_raw
from sharelag.engine.spark.packing import (
    PACKED,
    PACKED_COLUMNS,
    complete_columns,
    pack_records,
    to_bytes,
    unpack_records,
)
from sharelag.engine.spark.packing import REPLAYED as READ
from sharelag.errors import InputError
from sharelag.inputs.files.parquet import open_table, remove_old_files, replace_table
from sharelag.inputs.offsets import latest_ends
from sharelag.inputs.spark.ends import Ends, ends_beside_stream, read_ends
from sharelag.inputs.spark.frames import as_frame, latest_offsets
from sharelag.inputs.spark.workers import map_in_arrow, with_packages
from sharelag.metrics.lag import OFFSET_COLUMNS, OFFSET_KEYS, choose_states, lag_arrow, lag_columns
from sharelag.model.versions import Version, require_version
from sharelag.replay import layout as k
from sharelag.replay.columns import KEY, by_share_partition, kinds_of
from sharelag.replay.moment import filter_groups
from sharelag.replay.repeats import drop_repeats
from sharelag.replay.state import DELETED, replay_arrow
from sharelag.schemas import Arrow, Bools, Ints
from sharelag.tables.arrow import as_table, ascending, batch_of, beside, for_spark, keys, one_batch
from sharelag.wire.decode import decode_arrow, of_state
from sharelag.wire.fields import STATE_TOPIC
from sharelag.wire.generations import require_generation
from sharelag.wire.interpreter import find_unplaced

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.state import GroupState

    from sharelag.inputs.spark.frames import Tabular

#: `sharelag.schemas.WINDOWS`, and whether the share partition's state was deleted.
WINDOWS = schemas.WINDOWS.append(pa.field("deleted", pa.bool_()))
#: `sharelag.schemas.LAG` with ``deleted``; most columns of a deleted share partition are null.
LAG = schemas.LAG.append(WINDOWS.field("deleted"))

#: Columns of a record that replay reads.
REPLAYED = READ[STATE_TOPIC]
#: Kafka's number of partitions of the state topic: further tasks would be idle.
_MOST_TASKS = 50
_LOG = logging.getLogger(__name__)
#: Decodes raw records of a partition of the state topic.
_Decode = Callable[[pa.RecordBatch], pa.RecordBatch]


def windows(
    records: DataFrame,
    *,
    groups: Iterable[str] = (),
    generation: int | None = None,
    kafka_version: Version = None,
) -> DataFrame:
    """Return the state of every share partition that a micro-batch changed.

    Records may arrive out of order and more than once: each counts once, at its place in the log.
    A few thousand records per partition of the state topic may wait for earlier ones. A record that
    arrives later than that ends the query, unless a snapshot has replaced it.

    Parameters
    ----------
    records : pyspark.sql.DataFrame
        A stream of `sharelag.schemas.RAW`, from any connector or table; other columns and topics
        are ignored. Or a stream of `sharelag.schemas.RECORDS`, which is slower: decoded records are
        shuffled.
    groups : iterable of str
        Restrict the answer to these share groups. A query that continues needs the same ones.
    generation : int, optional
        As for `sharelag.decode`, for raw records. A query that continues needs the same one.
    kafka_version : str or callable, optional
        As for `sharelag.windows`.

    Returns
    -------
    pyspark.sql.DataFrame
        A stream of `WINDOWS`, for output mode ``update``.

    Raises
    ------
    InputError
        It is not a stream, or a column is missing or has the wrong type.
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
    chosen = frozenset(groups)
    keep = partial(
        _keep,
        decoded="" if of_raw else STATE_TOPIC,
        decode=decode,
        groups=chosen,
        options=f"groups={sorted(chosen)}, generation={generation}",
        kafka_version=kafka_version,
    )
    kept = packed.groupBy("topic", "partition").applyInPandasWithState(
        with_packages(keep), rows, rows, "update", "NoTimeout"
    )
    return map_in_arrow(kept, _unpack, WINDOWS)


def lag(windows: DataFrame, offsets: Ends | Tabular) -> DataFrame:
    """Return the lag of every share partition that a micro-batch changed.

    Share partitions without changes can only have a new end offset: `sharelag.lag` of all current
    windows returns their lag, and `watch` and `to_delta` keep it current. One with several states
    has a row for each of them that changed.

    Parameters
    ----------
    windows : pyspark.sql.DataFrame
        The stream of `windows`, or in ``foreachBatch`` the rows of one micro-batch.
    offsets : path, name of a table, function, or DataFrame
        `sharelag.schemas.OFFSETS`, read again for each micro-batch, after its records:

        - a folder of Parquet files or of a Delta table that Spark's workers can read;
        - the name of a table in Spark, or a DataFrame that Spark reads again, such as one from
          Kafka or from a catalog that lists its files for each query;
        - a function without arguments that returns rows of pandas or Arrow. It runs in a Spark
          worker, so it cannot use the session; in ``foreachBatch``, call it yourself.

        A DataFrame of files, which Spark lists only once, is refused. Rows of this process are
        accepted, with a warning in the log that they stay constant.

    Returns
    -------
    pyspark.sql.DataFrame
        `LAG`, a stream if the windows are one.

    Raises
    ------
    InputError
        A column is missing or has the wrong type, or the offsets cannot be read again.
    """
    schemas.require(windows, WINDOWS, "windows")
    ends = ends_beside_stream(offsets, windows)
    rows = windows.select(WINDOWS.names)
    if callable(ends):
        # One task, so that the function is called once for each micro-batch.
        return map_in_arrow(rows.repartition(1), partial(_lag_with, ends=ends), LAG)
    last = latest_offsets(ends).select(OFFSET_COLUMNS)
    return map_in_arrow(rows.drop("batches").join(last, OFFSET_KEYS, "left"), _lag, LAG)


def updated(table: pa.Table, changes: Arrow, deleted: bool = False) -> pa.Table:
    """Apply the changes of one micro-batch, for example in ``foreachBatch``.

    Parameters
    ----------
    table : pyarrow.Table
        The previous `sharelag.schemas.WINDOWS` or `LAG`; an empty table at first.
    changes : pyarrow.Table or pyarrow.RecordBatch
        Rows of `WINDOWS` or `LAG`.
    deleted : bool
        Whether the table has the deleted share partitions, rather than the others.

    Returns
    -------
    pyarrow.Table
        A table with the columns of ``table``, sorted by share partition.
    """
    names = ["group_id", "topic_id", "partition"]
    names += ["record_topic", "record_partition"] if "record_topic" in table.schema.names else []
    come = as_table(changes)
    stay = table.filter(pc.invert(pc.is_in(keys(table, names), keys(come, names))))
    new = come.filter(pc.equal(come.column("deleted"), deleted)).select(table.schema.names)
    return pa.concat_tables([stay, new.cast(table.schema)]).sort_by(ascending(*names))


# ---- Spark's tasks -------------------------------------------------------------------------------


def _pack(
    batches: Iterable[pa.RecordBatch],
    places: Sequence[str],
    choose: Callable[[pa.RecordBatch], Arrow],
) -> Iterator[pa.RecordBatch]:
    """Pack a task's records that have a place in a log; a damaged record may have none."""

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
    options: str,
    kafka_version: Version,
) -> Iterator[pd.DataFrame]:
    """Add the records of one partition of the state topic to its state."""
    import pandas as pd

    rows = [row for frame in frames for row in frame["rows"]]
    place = {"topic": key[0], "partition": int(key[1]), "first_offset": None}
    packed = pa.Table.from_pylist([place | {"rows": row} for row in rows], PACKED)
    came = one_batch(pa.Table.from_batches(list(unpack_records(packed, decoded))))
    before = State.from_bytes(state.get[0], options) if state.exists else State.begin()
    chosen = filter_groups(decode(came), groups)
    after, changed = before.apply(chosen, came.column("offset").to_numpy(), kafka_version)
    if after is not before:
        state.update((after.to_bytes(options),))
    yield pd.DataFrame({"rows": [to_bytes(as_table(changed))]})


def _decode(rows: pa.RecordBatch, generation: int | None, kafka_version: Version) -> pa.RecordBatch:
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


#: How long readers may use replaced rows, and after how many micro-batches those are deleted.
_KEEP, _TIDY_EVERY = timedelta(hours=1), 100
_BATCH = "sharelag.batch"


def to_delta(folder: Path | str, offsets: Ends | Tabular) -> Callable[[DataFrame, int], None]:
    """Return a function for ``foreachBatch`` that keeps three Delta tables current.

    ``FOLDER/windows`` and ``FOLDER/lag`` have one row per share partition, and ``FOLDER/deleted``
    those whose state was deleted. Each micro-batch computes the lag of all of them with current
    end offsets, and replaces the tables, each in one commit. A restarted query continues with them,
    and a repeated micro-batch changes nothing, because changes are states and not differences.
    Without records there are no micro-batches, so ``as_of`` says how old the lag is.

    Parameters
    ----------
    folder : path or str
        A folder to which Spark's driver can write.
    offsets : path, name of a table, function, or DataFrame
        As for `watch`: a function may use the session.

    Returns
    -------
    callable
        It takes rows of `WINDOWS` and the number of their micro-batch. It raises `InputError` if
        the tables are not those of the query, or cannot be written.

    Raises
    ------
    InputError
        deltalake is not installed, or the folder cannot be read.

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
    rows = changes.toArrow()
    windows, gone = (
        updated(_before(f"{place}/{name}", batch), rows, deleted=name == "deleted")
        for name in ("windows", "deleted")
    )
    ends = latest_ends(read_ends(offsets, changes.sparkSession))
    states = choose_states(windows, gone.select(DELETED.names))
    lag = pa.Table.from_batches([lag_arrow(states, ends)])
    for name, table in (("windows", windows), ("deleted", gone), ("lag", lag)):
        replace_table(f"{place}/{name}", table, f"{name} of a stream", {_BATCH: str(batch)})
        if batch % _TIDY_EVERY == 0:
            remove_old_files(f"{place}/{name}", _KEEP)


def _before(place: str, batch: int) -> pa.Table:
    found = open_table(place)
    last = None if found is None else found.history(1)[0].get(_BATCH)
    if found is not None and last is None:
        raise InputError(f"{place} is a different table: choose another folder")
    if batch == 0:  # a new query begins with all records
        return schemas.WINDOWS.empty_table()
    if found is None or last not in (str(batch - 1), str(batch)):
        there = "no table" if found is None else f"the table of micro-batch {last}"
        raise InputError(
            f"{place} is {there}, but the query continues with micro-batch {batch}: restore the "
            "table that it wrote, or start the query with a new checkpoint"
        )
    return found.to_pyarrow_table(columns=schemas.WINDOWS.names).cast(schemas.WINDOWS)


# ---- state of a partition of the state topic -----------------------------------------------------
# Like Kafka's coordinator, it has a snapshot of each share partition, made from its last window, so
# the state grows with share partitions and not with records. A record is folded into the snapshot
# when no earlier record of its share partition can still arrive, which the offsets seen so far
# show; until then it is stored unchanged. So records may arrive in any order and more than once,
# and the windows are those of `sharelag.windows` of all of them.


#: Maximum number of records of a state partition that wait for earlier ones.
WAITING = 4096

_KEPT = pa.schema(
    [
        *REPLAYED,
        ("folded", pa.bool_()),  # a snapshot that was made here; null: a record as it arrived
        # Parts of a snapshot's window that no record has: whether it includes a snapshot of the
        # log, how many records could not be replayed, and the offset of that snapshot.
        ("from_snapshot", pa.bool_()),
        ("rejected_records", pa.int32()),
        ("since", pa.int64()),
    ]
)
#: Columns of a window by their names in a record, and the reverse.
_TO_WINDOW = {"record_topic": "topic", "record_offset": "offset", "record_timestamp": "timestamp"}
_TO_RECORD = {name: column for column, name in _TO_WINDOW.items()} | {"state_batches": "batches"}
_SEEN, _FORGOTTEN = b"sharelag.seen", b"sharelag.forgotten"
_OPTIONS = b"sharelag.options"
_NEVER = -1


@dataclass(frozen=True)
class State:
    """State kept for a state partition: snapshots of share partitions, and waiting records.

    ``seen`` are the offsets that arrived, as first offset and end of each range; ``forgotten`` is
    the last tombstone that no longer waits.
    """

    records: pa.RecordBatch
    seen: Ints
    forgotten: int = _NEVER

    @classmethod
    def begin(cls) -> State:
        """Return the initial state."""
        return cls(one_batch(_KEPT.empty_table()), np.zeros((0, 2), np.int64))

    @classmethod
    def from_bytes(cls, data: bytes, options: str = "") -> State:
        """Return a state from `to_bytes`; of another version or other options: an InputError.

        Other options chose other records among those seen, which do not come again.
        """
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            about = reader.schema.metadata or {}
            if not {_SEEN, _FORGOTTEN} <= set(about) or reader.schema.names != _KEPT.names:
                raise InputError(
                    "another version of sharelag wrote the stream's checkpoint: start with a new "
                    "one"
                )
            if (before := about.get(_OPTIONS, b"").decode()) not in ("", options):
                raise InputError(
                    f"the stream's checkpoint was written with {before:.500}, not {options:.500}: "
                    "continue with the same options, or start with a new checkpoint"
                )
            records = one_batch(reader.read_all().replace_schema_metadata())
        seen = np.frombuffer(about[_SEEN], np.int64).reshape(-1, 2)
        return cls(records, seen, int(about[_FORGOTTEN]))

    def to_bytes(self, options: str = "") -> bytes:
        """Return the state as bytes, with the options that chose its records."""
        about = {_SEEN: self.seen.tobytes(), _FORGOTTEN: str(self.forgotten), _OPTIONS: options}
        return to_bytes(as_table(self.records).replace_schema_metadata(about))

    def apply(
        self, records: pa.RecordBatch, offsets: Ints, kafka_version: Version = None
    ) -> tuple[State, pa.RecordBatch]:
        """Return the state after records of a micro-batch, and the `WINDOWS` that they changed.

        ``records`` are `REPLAYED` of one state partition, in any order; repeated ones are ignored.
        ``offsets`` are all that arrived, including records of other kinds and rejects. A record
        that arrives too late to be placed is an InputError.
        """
        fresh = self._drop_seen(records)
        seen = _join(self.seen, offsets)
        if not fresh.num_rows and np.array_equal(seen, self.seen):
            return self, one_batch(WINDOWS.empty_table())
        rows = one_batch(pa.Table.from_batches([self.records, complete_columns(fresh, _KEPT)]))
        if not rows.num_rows:
            return State(rows, seen), one_batch(WINDOWS.empty_table())
        known = self.records.num_rows
        return _Step(rows, known, seen, self.forgotten, kafka_version).run()

    def _drop_seen(self, records: pa.RecordBatch) -> pa.RecordBatch:
        offsets = records.column("offset").to_numpy()
        _, first = np.unique(offsets, return_index=True)
        waiting = self.records.filter(self.records.column("folded").is_null()).column("offset")
        is_new = _range_of(self.seen, offsets[first]) < 0
        return records.take(pa.array(first[is_new & ~np.isin(offsets[first], waiting)]))


class _Step:
    """One micro-batch of a state partition: rows of the state, then the new ones."""

    def __init__(
        self, rows: pa.RecordBatch, known: int, seen: Ints, forgotten: int, version: Version
    ) -> None:
        self.rows, self.seen, self.forgotten, self.kafka_version = rows, seen, forgotten, version
        order, bounds = by_share_partition(rows)
        self.first_rows = order[bounds[:-1]]
        #: Number of share partitions, the one of each row, and the row's place.
        self.count = len(bounds) - 1
        self.key = np.empty(rows.num_rows, np.int64)
        self.key[order] = np.repeat(np.arange(self.count), np.diff(bounds))
        self.offsets = rows.column("offset").to_numpy()
        self.folded = rows.column("folded").is_valid().to_numpy(False)
        self.fresh = np.arange(rows.num_rows) >= known
        #: By share partition: the row of our snapshot, the offset up to which it applies, and its
        #: snapshot in the log; and the last reset since, which replaces it.
        self.snapshot_row = np.full(self.count, -1)
        self.snapshot_row[self.key[self.folded]] = np.flatnonzero(self.folded)
        self.folded_to = self._last(self.folded)
        self.since = np.full(self.count, _NEVER)
        since = rows.column("since").fill_null(_NEVER).to_numpy()
        self.since[self.key[self.folded]] = since[self.folded]
        kinds = kinds_of(rows)
        resets = ((kinds == k.SNAPSHOT) | (kinds == k.TOMBSTONE)) & ~self.folded
        self.reset = self._last(resets & (self.offsets > self.since[self.key]))

    def run(self) -> tuple[State, pa.RecordBatch]:
        """Return the next state, and the changed windows."""
        counts = (self.offsets >= self.reset[self.key]) & (self.offsets > self.since[self.key])
        unknown = ~self._have(~self.fresh)
        known_to = np.where(unknown, self.forgotten, self.folded_to)
        late = self.fresh & counts & (self.offsets <= known_to[self.key])
        if late.any():
            raise self._too_late(late)
        kept = np.where(self.folded, self.reset[self.key] == _NEVER, counts)
        records = kept & ~self.folded
        self.last = self._last(records)
        touched, waits = self._have(records & self.fresh), self._have(records)
        windows, of_key = self._windows(kept & waits[self.key])
        changed = self._find_changes(windows, of_key, touched)
        return self._next(windows, of_key, waits, kept), changed

    def _windows(self, replayed: Bools) -> tuple[pa.RecordBatch, Ints]:
        """Return the windows of some rows, and the window of each share partition."""
        rows = self.rows.filter(pa.array(replayed))
        windows = replay_arrow(rows.select(REPLAYED.names), self.kafka_version)
        names = list(schemas.SHARE_PARTITION)
        firsts = self.rows.select(names).take(pa.array(self.first_rows))
        of_key = pc.index_in(keys(firsts, names), keys(windows, names)).fill_null(-1).to_numpy()
        # Restore the parts of our snapshots' windows that records do not have.
        ours = np.flatnonzero((of_key >= 0) & (self.reset == _NEVER) & (self.snapshot_row >= 0))
        whole = windows.column("from_snapshot").to_numpy(zero_copy_only=False).copy()
        rejected = windows.column("rejected_records").to_numpy().copy()
        row = pa.array(self.snapshot_row[ours], pa.int64())
        before = self.rows.select(["from_snapshot", "rejected_records"]).take(row)
        whole[of_key[ours]] = before.column(0).to_numpy(zero_copy_only=False)
        rejected[of_key[ours]] += before.column(1).to_numpy()
        for name, values in (("from_snapshot", whole), ("rejected_records", rejected)):
            place = windows.schema.get_field_index(name)
            windows = windows.set_column(place, windows.schema.field(place), pa.array(values))
        return windows, of_key

    def _find_changes(
        self, windows: pa.RecordBatch, of_key: Ints, touched: Bools
    ) -> pa.RecordBatch:
        alive = windows.take(pa.array(of_key[touched & (of_key >= 0)]))
        gone = self.last[self.key] == self.offsets
        gone &= ~self.folded & (touched & (of_key < 0))[self.key]
        last = self.rows.select([*KEY, "offset", "timestamp"]).filter(pa.array(gone))
        deleted = _rename(last, schemas.WINDOWS, _TO_WINDOW)
        both = pa.Table.from_batches([alive, deleted])
        flag = pa.array(np.arange(len(both)) >= alive.num_rows)
        return one_batch(both.append_column(WINDOWS.field("deleted"), flag))

    def _next(self, windows: pa.RecordBatch, of_key: Ints, waits: Bools, kept: Bools) -> State:
        """Fold records that nothing can precede, and of the others those that waited longest."""
        begin = np.maximum(np.maximum(self.reset, self.folded_to), 0)
        whole = _range_of(self.seen, begin) == _range_of(self.seen, self.last)
        # The rules of older generations look at earlier records.
        may = waits & ~self._have(self.rows.column("generation").is_valid().to_numpy(False))
        folds = may & whole & (of_key >= 0)
        waiting = kept & ~self.folded & (may & ~folds)[self.key]
        if waiting.sum() > WAITING:
            folds |= may & (self.last <= np.sort(self.last[self.key[waiting]])[-WAITING // 2])
        gone = self.last[folds & (of_key < 0)]
        mine = np.flatnonzero(folds & (of_key >= 0))
        since = np.maximum(self.reset, self.since)[mine]
        made = {
            "record_type": pa.array(np.full(len(mine), k.SNAPSHOT), pa.int16()),
            "tombstone": pa.array(np.zeros(len(mine), bool)),
            "folded": pa.array(np.ones(len(mine), bool)),
            "since": pa.array(since, mask=since == _NEVER),
        }
        snapshots = _rename(windows.take(pa.array(of_key[mine])), _KEPT, _TO_RECORD, made)
        stay = self.rows.filter(pa.array(kept & ~folds[self.key]))
        records = one_batch(pa.Table.from_batches([stay, snapshots]))
        forgotten = int(max([self.forgotten, *gone]))
        return State(records, self.seen[-WAITING:], forgotten)

    def _have(self, chosen: Bools) -> Bools:
        have = np.zeros(self.count, bool)
        have[self.key[chosen]] = True
        return have

    def _last(self, chosen: Bools) -> Ints:
        last = np.full(self.count, _NEVER)
        np.maximum.at(last, self.key[chosen], self.offsets[chosen])
        return last

    def _too_late(self, late: Bools) -> InputError:
        row = self.rows.slice(int(np.argmax(late)), 1).to_pylist()[0]
        return InputError(
            f"{row['topic']} partition {row['record_partition']}: the record at offset "
            f"{row['offset']} came after more than {WAITING:,} later ones, and its share "
            "partition has no snapshot since: start with a new checkpoint, and deliver records in "
            "log order, or more of them in one micro-batch"
        )


def _rename(
    rows: pa.RecordBatch,
    schema: pa.Schema,
    names: Mapping[str, str],
    made: Mapping[str, pa.Array] | None = None,
) -> pa.RecordBatch:
    """Return rows with the columns of another schema; null for missing columns."""
    called = {name: names.get(name, name) for name in schema.names}
    there = {name: rows.column(of) for name, of in called.items() if of in rows.schema.names}
    return batch_of(there | dict(made or {}), schema, pad=True)


def _range_of(seen: Ints, offsets: Ints) -> Ints:
    """Return the range that contains each offset; -1: none."""
    place = np.searchsorted(seen[:, 0], offsets, side="right") - 1
    if not len(seen):
        return place
    return np.where((place >= 0) & (offsets < seen[place, 1]), place, -1)


def _join(seen: Ints, offsets: Ints) -> Ints:
    """Return ranges with additional offsets; adjacent ranges are joined."""
    new = np.unique(offsets)
    first = np.append(seen[:, 0], new)
    end = np.append(seen[:, 1], new + 1)
    order = np.argsort(first, kind="stable")
    first, end = first[order], np.maximum.accumulate(end[order])
    begins = np.append(True, first[1:] > end[:-1]) if len(first) else np.zeros(0, bool)
    ends = np.append(begins[1:], True) if len(first) else begins
    return np.stack([first[begins], end[ends]], axis=1)
