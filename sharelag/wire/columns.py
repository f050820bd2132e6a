"""Decode the state topic into numpy columns: one compiled pass, keys as numbers.

`decode_columns` is what `decode_arrow` makes tables of. The columns are the buffers of
`sharelag.schemas.RECORDS`, where a null is Kafka's own number for it, and a share partition is a
number. They become texts and nulls in `StateColumns.records`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.compiled import compiled
from sharelag.schemas import Arrow
from sharelag.wire.fields import STATE_TOPIC
from sharelag.wire.interpreter import (
    Rows,
    binary,
    of_topic,
    position,
    rejects_of,
    unknown_tags,
)
from sharelag.wire.keys import ShareKeys
from sharelag.wire.layout import BATCHES, batch_numbers, record_numbers
from sharelag.wire.program import program_for
from sharelag.wire.texts import TOPIC_ID

#: The minimum size of a state batch in bytes: its fields and an empty tag section.
_BATCH_BYTES = 1 + sum(np.dtype(number.dtype).itemsize for number in batch_numbers())


@dataclass(slots=True)
class StateColumns:
    """Decoded records of the state topic, in the order of the input, as numpy columns.

    The arrays are whole and contiguous. Do not write to them: `records` hands them to Arrow.
    """

    keys: ShareKeys
    """What the codes of ``key`` stand for; shared with other batches if one was given."""
    position: dict[str, pa.Array]
    """``topic record_partition offset timestamp`` of every record, as in the raw records."""
    key: NDArray[np.int32]
    """The code of each record's share partition, a row of ``keys.table()``."""
    partition: NDArray[np.int32]
    """Of the share partition."""
    record_type: NDArray[np.int16]
    """0 snapshot, 1 update."""
    tombstone: NDArray[np.bool_]
    """No value: the share partition's state was deleted."""
    numbers: dict[str, NDArray[Any]]
    """By column name of `sharelag.schemas.RECORDS`, in its integer type, timestamps as int64: -1
    and 0 are Kafka's sentinels, as the replay reads them; so is what the record does not have."""
    batch_at: NDArray[np.int32]
    """Where the state batches of each record begin; one more than there are records."""
    batches: dict[str, NDArray[Any]]
    """``first_offset last_offset delivery_state delivery_count``, a row a state batch."""
    unknown_tags: pa.Array | None
    """The column of `sharelag.schemas.RECORDS`; None where no record has any."""
    rejects: pa.RecordBatch
    """`sharelag.schemas.REJECTS`."""
    skipped: int
    """Rows of other topics and of other types."""

    def records(self) -> pa.RecordBatch:
        """Return `sharelag.schemas.RECORDS`, over the same memory."""
        code = pa.array(self.key)
        columns = {
            **self.position,
            "record_type": pa.array(self.record_type),
            "tombstone": pa.array(self.tombstone),
            "group_id": self.keys.table().column("group_id").take(code),
            "topic_id": self._topic_ids(),
            "partition": pa.array(self.partition),
            **self._numbers(),
            BATCHES: self._batches(),
            "unknown_tags": _no_tags(len(self.key))
            if self.unknown_tags is None
            else self.unknown_tags,
        }
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in schemas.RECORDS.names], schema=schemas.RECORDS
        )

    def _topic_ids(self) -> pa.Array:
        """Return texts that all have the same size: faster than Arrow takes texts of any."""
        column = self.keys.table().column("topic_id")
        every = np.frombuffer(column.buffers()[2] or b"", np.uint8).reshape(-1, TOPIC_ID)
        chosen = every.take(self.key, axis=0)
        offsets = np.arange(0, TOPIC_ID * len(chosen) + 1, TOPIC_ID, dtype=np.int32)
        return pa.Array.from_buffers(
            column.type, len(chosen), [None, pa.py_buffer(offsets), pa.py_buffer(chosen)]
        )

    def _numbers(self) -> dict[str, pa.Array]:
        present = ~self.tombstone if self.tombstone.any() else None
        types = {number.kinds for number in record_numbers()}
        having = {kinds: _of_kinds(self.record_type, kinds, present) for kinds in types}
        return {
            number.column: _array(
                self.numbers[number.column],
                schemas.RECORDS.field(number.column).type,
                having[number.kinds]
                if number.unknown is None
                else self.numbers[number.column] != number.unknown,
            )
            for number in record_numbers()
        }

    def _batches(self) -> pa.Array:
        count = int(self.batch_at[-1])
        kind = schemas.RECORDS.field(BATCHES).type
        structs = pa.StructArray.from_arrays(
            [_array(self.batches[f.name][:count], f.type) for f in kind.value_type],
            fields=list(kind.value_type),
        )
        validity, nulls = _validity(~self.tombstone if self.tombstone.any() else None)
        return pa.Array.from_buffers(
            kind,
            len(self.key),
            [validity, pa.py_buffer(self.batch_at)],
            null_count=nulls,
            children=[structs],
        )


def decode_columns(batch: Arrow, keys: ShareKeys | None = None) -> StateColumns:
    """Decode the state records among raw ones.

    Parameters
    ----------
    batch : pyarrow.RecordBatch or pyarrow.Table
        Columns of `sharelag.schemas.RAW`; rows of other topics are skipped.
    keys : ShareKeys, optional
        Numbers the share partitions; one object for several batches gives the same numbers in all.

    Returns
    -------
    StateColumns
        Records, rejects and skipped are those of `sharelag.wire.decode_arrow`.
    """
    keys = ShareKeys() if keys is None else keys
    chosen = of_topic(batch, STATE_TOPIC)
    code, record_type, partition = keys.codes(*binary(chosen.column("key")))
    found = StateColumns(
        keys=keys,
        position={},
        key=code,
        partition=partition,
        record_type=record_type,
        tombstone=np.zeros(0, bool),
        numbers={n.column: np.empty(len(code), n.dtype) for n in record_numbers()},
        batch_at=np.empty(len(code) + 1, np.int32),
        batches={},
        unknown_tags=None,
        rejects=pa.RecordBatch.from_pylist([], schema=schemas.REJECTS),
        skipped=batch.num_rows - chosen.num_rows,
    )
    odd = _pass(found, *binary(chosen.column("value")))
    if odd is None:
        found.position = position(chosen)
    else:
        _interpret_odd(found, chosen, np.flatnonzero(odd))
    return found


def _pass(
    found: StateColumns, values: NDArray[Any], value_at: NDArray[Any], value_null: NDArray[Any]
) -> NDArray[np.uint8] | None:
    """Run the compiled pass; return which rows it could not read, None: it read all."""
    from sharelag.wire.state_pass import state_pass

    most = int(value_at[-1] - value_at[0]) // _BATCH_BYTES
    found.tombstone = value_null
    found.batches = {n.column: np.empty(most, n.dtype) for n in batch_numbers()}
    odd = np.empty(len(found.key), np.uint8)
    odds = compiled(state_pass)(
        values, value_at, value_null, found.record_type, found.key, odd, found.batch_at,
        tuple(found.numbers.values()), tuple(found.batches.values()),
    )  # fmt: skip
    return odd if odds else None


# ---- rows that the compiled pass leaves to the interpreter ---------------------------------------


def _interpret_odd(found: StateColumns, batch: Arrow, odd: NDArray[np.int64]) -> None:
    """Put the interpreter's results of some rows in their places, and leave out what it refuses."""
    rows = Rows(program_for(STATE_TOPIC), batch.take(pa.array(odd)), STATE_TOPIC)
    found.rejects = rejects_of(rows)
    found.skipped += len(odd) - len(rows.good) - len(rows.bad)
    good = odd[rows.good]
    kept = np.ones(len(found.key), bool)
    kept[odd] = False
    kept[good] = True
    values = ~rows.value_null[rows.good]
    fill_numbers(found.numbers, rows, good)
    _insert_batches(found, rows, good, values)
    tags = np.zeros(len(kept), np.int64)
    tags[odd] = rows.tag_counts
    found.unknown_tags = unknown_tags(rows, tags[kept])
    found.key, found.partition = found.key[kept], found.partition[kept]
    found.record_type, found.tombstone = found.record_type[kept], found.tombstone[kept]
    found.numbers = {name: column[kept] for name, column in found.numbers.items()}
    found.batch_at = np.append(found.batch_at[:-1][kept], found.batch_at[-1])
    found.position = position(batch, np.flatnonzero(kept))


def fill_numbers(numbers: dict[str, NDArray[Any]], rows: Rows, good: NDArray[np.int64]) -> None:
    """Put the numbers of interpreted rows in their places."""
    values = ~rows.value_null[rows.good]
    for number in record_numbers():
        if number.column in numbers:
            has = values & np.isin(rows.kind[rows.good], number.kinds)
            column = rows.slot(rows.program.slots[number.column], rows.good)
            numbers[number.column][good] = np.where(has, column, number.absent)


def _insert_batches(
    found: StateColumns, rows: Rows, good: NDArray[np.int64], values: NDArray[np.bool_]
) -> None:
    """Insert the state batches of interpreted rows, which have none so far."""
    slots = rows.program.slots
    counts = np.where(values, rows.slot(slots[BATCHES], rows.good), 0)
    places = np.repeat(found.batch_at[good], counts)
    more = slice(0, int(counts.sum()))
    for number in batch_numbers():
        column = rows.slot(slots[f"{BATCHES}.{number.column}"], more)
        before = found.batches[number.column][: found.batch_at[-1]]
        found.batches[number.column] = np.insert(before, places, column.astype(number.dtype))
    added = np.zeros(len(found.batch_at), np.int64)
    added[good + 1] = counts
    found.batch_at = (found.batch_at + np.cumsum(added)).astype(np.int32)


# ---- Arrow over the same memory ------------------------------------------------------------------


def _array(
    values: NDArray[Any], kind: pa.DataType, valid: NDArray[np.bool_] | None = None
) -> pa.Array:
    validity, nulls = _validity(valid)
    return pa.Array.from_buffers(
        kind, len(values), [validity, pa.py_buffer(values)], null_count=nulls
    )


def _validity(valid: NDArray[np.bool_] | None) -> tuple[pa.Buffer | None, int]:
    if valid is None:
        return None, 0
    return pa.py_buffer(np.packbits(valid, bitorder="little")), len(valid) - int(
        np.count_nonzero(valid)
    )


def _of_kinds(
    record_type: NDArray[np.int16], kinds: tuple[int, ...], present: NDArray[np.bool_] | None
) -> NDArray[np.bool_] | None:
    """Return which records have a field of these types; None: all."""
    if len(kinds) == len(program_for(STATE_TOPIC).kinds):
        return present
    having = np.asarray(np.logical_or.reduce([record_type == kind for kind in kinds]))
    return having if present is None else having & present


def _no_tags(count: int) -> pa.Array:
    offsets = pa.py_buffer(np.zeros(count + 1, np.int32))
    return pa.Array.from_buffers(
        pa.list_(schemas.UNKNOWN_TAG),
        count,
        [None, offsets],
        null_count=0,
        children=[pa.array([], schemas.UNKNOWN_TAG)],
    )
