"""What a stream keeps of a partition of the state topic, and how records change it.

It does as Kafka's coordinator does: of each share partition it keeps a snapshot, made of its last
window, so that the state grows with share partitions and not with records. A record becomes part
of a snapshot when none of its share partition can still come before it, which the offsets that
were seen tell; until then it is kept as it is. So records may come in any order and more than
once, and the windows are those of `sharelag.windows` of all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.engine.spark import packing
from sharelag.errors import InputError
from sharelag.model.versions import Told
from sharelag.replay import layout as k
from sharelag.replay.columns import KEY, by_share_partition, kinds_of
from sharelag.replay.state import replay_arrow
from sharelag.schemas import Bools, Ints
from sharelag.tables.arrow import as_table, batch_of, keys, one_batch
from sharelag.wire.fields import STATE_TOPIC

#: `sharelag.schemas.WINDOWS`, and whether there is no state of the share partition any more.
WINDOWS = schemas.WINDOWS.append(pa.field("deleted", pa.bool_()))
#: What replay reads of a record.
REPLAYED = packing.REPLAYED[STATE_TOPIC]
#: So many records of a state partition wait for others that may come before them.
WAITING = 4096

_KEPT = pa.schema(
    [
        *REPLAYED,
        ("folded", pa.bool_()),  # a snapshot that was made here; null: a record as it came
        # What the window of a snapshot says that no record does: whether one of the log is in it,
        # how many records could not be replayed, and at which offset that snapshot stands.
        ("from_snapshot", pa.bool_()),
        ("rejected_records", pa.int32()),
        ("since", pa.int64()),
    ]
)
#: What a column of a window is called in a record, and the other way round.
_OF_RECORD = {"record_topic": "topic", "record_offset": "offset", "record_timestamp": "timestamp"}
_OF_WINDOW = {name: column for column, name in _OF_RECORD.items()} | {"state_batches": "batches"}
_SEEN, _FORGOTTEN = b"sharelag.seen", b"sharelag.forgotten"
_NEVER = -1


@dataclass(frozen=True)
class State:
    """State kept for a state partition: snapshots of share partitions, and records that wait.

    ``seen`` are the offsets that came, as first and end of each range, ``forgotten`` is the last
    tombstone that does not wait any more.
    """

    records: pa.RecordBatch
    seen: Ints
    forgotten: int = _NEVER

    @classmethod
    def begin(cls) -> State:
        """Return the state before the first record."""
        return cls(one_batch(_KEPT.empty_table()), np.zeros((0, 2), np.int64))

    @classmethod
    def from_bytes(cls, data: bytes) -> State:
        """Return what `to_bytes` made bytes of; those of another version are an InputError."""
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            about = reader.schema.metadata or {}
            if not {_SEEN, _FORGOTTEN} <= set(about) or reader.schema.names != _KEPT.names:
                raise InputError(
                    "the stream's checkpoint is of another version of sharelag: start with a new "
                    "one"
                )
            records = one_batch(reader.read_all().replace_schema_metadata())
        seen = np.frombuffer(about[_SEEN], np.int64).reshape(-1, 2)
        return cls(records, seen, int(about[_FORGOTTEN]))

    def to_bytes(self) -> bytes:
        """Return the state as Spark keeps it."""
        about = {_SEEN: self.seen.tobytes(), _FORGOTTEN: str(self.forgotten)}
        return packing.to_bytes(as_table(self.records).replace_schema_metadata(about))

    def apply(
        self, records: pa.RecordBatch, offsets: Ints, kafka_version: Told = None
    ) -> tuple[State, pa.RecordBatch]:
        """Return the state after records of a micro-batch, and the `WINDOWS` that they changed.

        ``records`` are `REPLAYED` of one state partition, in any order; those that came before are
        left out. ``offsets`` are all that came, of records of other kinds and of rejects as well. A
        record that comes so late that its place is not known any more is an InputError.
        """
        fresh = self._unseen(records)
        seen = _join(self.seen, offsets)
        if not fresh.num_rows and np.array_equal(seen, self.seen):
            return self, one_batch(WINDOWS.empty_table())
        rows = one_batch(
            pa.Table.from_batches([self.records, packing.complete_columns(fresh, _KEPT)])
        )
        if not rows.num_rows:
            return State(rows, seen), one_batch(WINDOWS.empty_table())
        known = self.records.num_rows
        return _Step(rows, known, seen, self.forgotten, kafka_version).run()

    def _unseen(self, records: pa.RecordBatch) -> pa.RecordBatch:
        offsets = records.column("offset").to_numpy()
        _, first = np.unique(offsets, return_index=True)
        waiting = self.records.filter(self.records.column("folded").is_null()).column("offset")
        is_new = _range_of(self.seen, offsets[first]) < 0
        return records.take(pa.array(first[is_new & ~np.isin(offsets[first], waiting)]))


class _Step:
    """One micro-batch of a state partition: rows that were kept, and after them those that came."""

    def __init__(
        self, rows: pa.RecordBatch, known: int, seen: Ints, forgotten: int, kafka_version: Told
    ) -> None:
        self.rows, self.seen, self.forgotten = rows, seen, forgotten
        self.kafka_version = kafka_version
        order, bounds = by_share_partition(rows)
        self.first_rows = order[bounds[:-1]]
        #: How many share partitions there are, which of them each row belongs to, and its place.
        self.count = len(bounds) - 1
        self.key = np.empty(rows.num_rows, np.int64)
        self.key[order] = np.repeat(np.arange(self.count), np.diff(bounds))
        self.offsets = rows.column("offset").to_numpy()
        self.folded = rows.column("folded").is_valid().to_numpy(False)
        self.fresh = np.arange(rows.num_rows) >= known
        #: Of each share partition: where our snapshot is, up to which offset, and on which of the
        #: log's it rests; and the last reset since, which replaces it.
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
        """Return the next state, and the windows that changed."""
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
        """Return the windows of some rows, and which of them is that of each share partition."""
        rows = self.rows.filter(pa.array(replayed))
        windows = replay_arrow(rows.select(REPLAYED.names), self.kafka_version)
        names = list(schemas.SHARE_PARTITION)
        firsts = self.rows.select(names).take(pa.array(self.first_rows))
        of_key = pc.index_in(keys(firsts, names), keys(windows, names)).fill_null(-1).to_numpy()
        # What no record says of a snapshot that was made here is beside it.
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
        deleted = _rename(last, schemas.WINDOWS, _OF_RECORD)
        both = pa.Table.from_batches([alive, deleted])
        flag = pa.array(np.arange(len(both)) >= alive.num_rows)
        return one_batch(both.append_column(WINDOWS.field("deleted"), flag))

    def _next(self, windows: pa.RecordBatch, of_key: Ints, waits: Bools, kept: Bools) -> State:
        """Fold what nothing can come before, and of the rest what has waited longest."""
        begin = np.maximum(np.maximum(self.reset, self.folded_to), 0)
        whole = _range_of(self.seen, begin) == _range_of(self.seen, self.last)
        # The rules of older generations look at the records before.
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
        snapshots = _rename(windows.take(pa.array(of_key[mine])), _KEPT, _OF_WINDOW, made)
        stay = self.rows.filter(pa.array(kept & ~folds[self.key]))
        records = one_batch(pa.Table.from_batches([stay, snapshots]))
        forgotten = int(max([self.forgotten, *gone]))
        return State(records, self.seen[-WAITING:], forgotten)

    def _have(self, chosen: Bools) -> Bools:
        """Return which share partitions have some of these rows."""
        have = np.zeros(self.count, bool)
        have[self.key[chosen]] = True
        return have

    def _last(self, chosen: Bools) -> Ints:
        """Return the last offset of each share partition among some rows."""
        last = np.full(self.count, _NEVER)
        np.maximum.at(last, self.key[chosen], self.offsets[chosen])
        return last

    def _too_late(self, late: Bools) -> InputError:
        row = self.rows.slice(int(np.argmax(late)), 1).to_pylist()[0]
        return InputError(
            f"{row['topic']} partition {row['record_partition']}: the record at offset "
            f"{row['offset']} came after more than {WAITING:,} later ones, and its share "
            "partition has no snapshot since: start with a new checkpoint, and let records come "
            "in the order of the log, or more of them in one micro-batch"
        )


def _rename(
    rows: pa.RecordBatch,
    schema: pa.Schema,
    names: Mapping[str, str],
    made: Mapping[str, pa.Array] | None = None,
) -> pa.RecordBatch:
    """Return rows with the columns of another schema; null where they have no such column."""
    called = {name: names.get(name, name) for name in schema.names}
    there = {name: rows.column(of) for name, of in called.items() if of in rows.schema.names}
    return batch_of(there | dict(made or {}), schema, pad=True)


def _range_of(seen: Ints, offsets: Ints) -> Ints:
    """Return in which of some ranges each offset is; -1: in none."""
    place = np.searchsorted(seen[:, 0], offsets, side="right") - 1
    if not len(seen):
        return place
    return np.where((place >= 0) & (offsets < seen[place, 1]), place, -1)


def _join(seen: Ints, offsets: Ints) -> Ints:
    """Return ranges that have these offsets, too; neighbours are one."""
    new = np.unique(offsets)
    first = np.append(seen[:, 0], new)
    end = np.append(seen[:, 1], new + 1)
    order = np.argsort(first, kind="stable")
    first, end = first[order], np.maximum.accumulate(end[order])
    begins = np.append(True, first[1:] > end[:-1]) if len(first) else np.zeros(0, bool)
    ends = np.append(begins[1:], True) if len(first) else begins
    return np.stack([first[begins], end[ends]], axis=1)
