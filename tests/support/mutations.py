"""Recorded records with bytes changed, cut off, put in and taken out, a whole batch at once."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.wire import STATE_TOPIC
from tests.support.generations import TODAY, Written, raw_of

CAPTURES = Path(__file__).parents[2] / "data" / "captures"
RECORDED = [CAPTURES / "chapters", *sorted((CAPTURES / "scenarios").iterdir())]

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]

#: Bytes at which formats break: signs, ends of varints, lengths that are much too long.
_EDGES = np.array([0x00, 0x01, 0x02, 0x7F, 0x80, 0xFE, 0xFF], np.uint8)
#: What the older generations' records say.
_WRITES: list[Written] = [
    (100, [(100, 109, 2, 1)]),
    (-1, [(110, 110, 0, 1)]),
    (110, [(111, 118, 0, 0), (119, 119, 2, 1)]),
    (-1, [(113, 118, 2, 1), (120, 300, 4, 300)]),
]
#: Bytes that one change takes out or puts in.
_WIDTHS = np.array([1, 1, 2, 4, 5, 8, 10, 16, 40])


def corpus(topic: str, recordings: bool = True) -> pa.RecordBatch:
    """Return what brokers wrote to a topic in all captures, each key and value once.

    Older generations of share state, which no recorded broker writes, are added; without
    ``recordings`` there are only these.
    """
    tables = [pq.read_table(path / "records").cast(schemas.RAW) for path in RECORDED]
    table = pa.concat_tables(tables)
    mask = pc.ends_with(table.column("topic"), topic)
    table = table.filter(mask) if recordings else table.slice(0, 0)
    if topic == STATE_TOPIC:
        older = [raw_of(_WRITES, generation) for generation in range(TODAY)]
        table = pa.concat_tables([table, pa.Table.from_batches(older)])
    once = table.group_by(["key", "value"], use_threads=False).aggregate([("topic", "first")])
    names = ("key", "value", "topic_first")
    return _raw(*(once.column(name).combine_chunks() for name in names))


def mutated(
    records: pa.RecordBatch, chance: np.random.Generator, count: int
) -> tuple[pa.RecordBatch, NDArray[np.bool_]]:
    """Draw records and change three of four of them.

    ``records``: `sharelag.schemas.RAW`, the corpus. ``count``: how many are drawn, with repetition.

    Returns: `sharelag.schemas.RAW` with offsets from 0 on, and which rows were changed. Most
    changes are to the value, some to the key, some replace one of them with null or another
    record's.
    """
    drawn = chance.integers(0, records.num_rows, count)
    changed = chance.random(count) < 0.75
    of_key = changed & (chance.random(count) < 0.25)
    taken = records.take(pa.array(drawn))
    swapped = changed & (chance.random(count) < 0.02)
    other = np.where(swapped, chance.integers(0, records.num_rows, count), drawn)
    value = records.column("value").take(pa.array(other))
    columns = []
    for column, rows in ((taken.column("key"), of_key), (value, changed & ~of_key)):
        missing = np.asarray(column.is_null().to_numpy(zero_copy_only=False), bool)
        missing |= rows & (chance.random(count) < 0.005)
        columns.append(_binary(_changed(column, rows & ~missing, chance), missing))
    differs = _differs(taken["key"], columns[0]) | _differs(taken["value"], columns[1])
    return _raw(columns[0], columns[1], taken.column("topic")), differs


def _differs(before: pa.Array, after: pa.Array) -> NDArray[np.bool_]:
    """Return whether each is another one: some changes put in what was there."""
    of_nulls = pc.xor(before.is_null(), after.is_null())
    differs = pc.fill_null(pc.not_equal(before, after), of_nulls)
    return np.asarray(differs.to_numpy(zero_copy_only=False), bool)


def _changed(
    column: pa.BinaryArray, rows: NDArray[np.bool_], chance: np.random.Generator
) -> tuple[Bytes, Ints]:
    filled = pc.fill_null(column, b"")
    ends = np.frombuffer(filled.buffers()[1], np.int32)[
        filled.offset : filled.offset + len(filled) + 1
    ].astype(np.int64)
    data = np.frombuffer(filled.buffers()[2], np.uint8)[ends[0] : ends[-1]]
    ends = ends - ends[0]
    for again in (1.0, 0.4, 0.4):  # a third of the records is changed at several places
        data, ends = _change(data, ends, rows & (chance.random(len(rows)) < again), chance)
    return data, ends


def _change(
    data: Bytes, ends: Ints, rows: NDArray[np.bool_], chance: np.random.Generator
) -> tuple[Bytes, Ints]:
    """Replace ``dropped`` bytes at a place of each row with ``added`` ones."""
    count, lengths = len(rows), np.diff(ends)
    at = (chance.random(count) * (lengths + 1)).astype(np.int64)
    width = chance.choice(_WIDTHS, count)
    what = chance.integers(0, 5, count)  # overwrite, flip, put in, take out, cut
    left = lengths - at
    dropped = np.select([what < 2, what == 2, what == 3], [width, 0, width], left)
    dropped = np.where(rows, np.minimum(dropped, left), 0)
    added = np.select([what == 0, what == 1, what == 2], [dropped, dropped, width], 0)
    added = np.where(rows, added, 0)
    sizes = lengths - dropped + added
    new_ends = np.concatenate([[0], np.cumsum(sizes)])
    row = np.repeat(np.arange(count), sizes)
    place = np.arange(len(row)) - new_ends[row]
    is_new = (place >= at[row]) & (place < at[row] + added[row])
    shift = np.where(place >= at[row] + added[row], dropped[row] - added[row], 0)
    source = ends[row] + place + shift
    random = chance.integers(0, 256, len(row), dtype=np.uint8)
    edge = chance.choice(_EDGES, len(row))
    new = np.where((row + what[row]) % 2 == 0, random, edge)
    old = data[np.minimum(source, max(len(data) - 1, 0))] if len(data) else new
    flipped = old ^ (np.uint8(1) << (random & 7))
    new = np.where(what[row] == 1, flipped, new)
    return np.where(is_new, new, old).astype(np.uint8), new_ends


def _binary(changed: tuple[Bytes, Ints], missing: NDArray[np.bool_]) -> pa.BinaryArray:
    data, ends = changed
    parts = [pa.py_buffer(one) for one in (ends.astype(np.int32), np.ascontiguousarray(data))]
    found = pa.Array.from_buffers(pa.binary(), len(missing), [None, *parts])
    return pc.if_else(pa.array(missing), pa.scalar(None, pa.binary()), found)


def _raw(key: pa.Array, value: pa.Array, topic: pa.Array) -> pa.RecordBatch:
    count = len(key)
    columns: list[Any] = [
        key.cast(pa.binary()),
        value.cast(pa.binary()),
        topic.cast(pa.string()),
        pa.array(np.zeros(count, np.int32)),
        pa.array(np.arange(count, dtype=np.int64)),
        pa.array(np.arange(count, dtype=np.int64)).view(schemas.TIMESTAMP),
        pa.array(np.zeros(count, np.int32)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schemas.RAW)
