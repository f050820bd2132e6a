"""Any number of state records like those of a busy share coordinator, from a seed.

The generator is compiled and works in chunks: ten million records are never in memory at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.model import SharePartition, topic_id_bytes, topic_id_text
from sharelag.wire import state_partition

STATE_TOPIC = "__share_group_state"
STATE_PARTITIONS = 8
CHUNK = 50_000
_BEGIN = 1_760_000_000_000
_NAMES = ("billing", "audit", "fraud-check", "email", "shipping")


@dataclass(frozen=True)
class Shape:
    """Number of batches per record (mean of an exponential distribution, maximum)."""

    batches: float
    most: int
    #: Updates of a share partition between two snapshots: Kafka's default.
    updates: int = 500


#: 141 and 1,300 bytes per record with its key; of updates, each record counts until the end.
SHAPES = {
    "light": Shape(4.5, 20),
    "heavy": Shape(60.0, 240),
    "updates": Shape(4.5, 20, updates=1 << 62),
}


def share_partitions(count: int, ids: Sequence[str] = ()) -> list[SharePartition]:
    """Return share partitions of groups with up to 50 each; ``ids`` are topic ids."""
    random = np.random.default_rng(7)
    ids = ids or [topic_id_text(random.bytes(16)) for _ in range(37)]
    return [
        SharePartition(f"{_NAMES[n // 50 % 5]}-{n // 50:03d}", ids[n // 50 % len(ids)], n % 50)
        for n in range(count)
    ]


def record_batches(
    shape: str, records: int, keys: int, ids: Sequence[str] = ()
) -> Iterator[pa.RecordBatch]:
    """Yield `RAW`, state partition by state partition, each in log order."""
    chosen = share_partitions(keys, ids)
    place = np.array([state_partition(key, STATE_PARTITIONS) for key in chosen])
    shares = np.bincount(place, minlength=STATE_PARTITIONS) / keys
    ends = np.rint(np.cumsum(shares) * records).astype(int)
    for state in range(STATE_PARTITIONS):
        mine = [chosen[n] for n in np.flatnonzero(place == state)]
        count = int(ends[state] - (ends[state - 1] if state else 0))
        if mine and count:
            yield from _of_partition(SHAPES[shape], count, mine, state)


def _of_partition(
    shape: Shape, records: int, keys: list[SharePartition], state: int
) -> Iterator[pa.RecordBatch]:
    """Yield the records of one state partition."""
    texts = [_key(key) for key in keys]
    text_at = np.concatenate([[0], np.cumsum([len(text) for text in texts])])
    text = np.frombuffer(b"".join(texts), np.uint8)
    drawn = _Drawn(
        np.zeros(len(keys), np.int64), np.full(len(keys), -1), np.zeros(len(keys), np.int64)
    )
    busy = _busy(len(keys), state)
    for first in range(0, records, CHUNK):
        count = min(CHUNK, records - first)
        # First records of share partitions take turns, the others are drawn by activity.
        which = np.random.default_rng([1, state, first]).choice(busy, count)
        unseen = max(0, min(count, len(keys) - first))
        which[:unseen] = np.arange(first, first + unseen)
        yield _chunk(shape, which, text, text_at, drawn, state, first)


@dataclass(frozen=True)
class _Drawn:
    """The progress of each share partition after the records so far."""

    start: NDArray[np.int64]
    updates: NDArray[np.int64]  # since the last snapshot, -1: none yet
    epoch: NDArray[np.int64]


def _busy(keys: int, seed: int) -> NDArray[np.int64]:
    """Return numbers of keys, busy ones more often: a long tail."""
    weights = np.minimum(np.random.default_rng([2, seed]).pareto(1.1, keys) + 0.2, 60)
    return np.repeat(
        np.arange(keys), np.maximum(1, (weights / weights.sum() * 40 * keys)).astype(int)
    )


def _key(key: SharePartition) -> bytes:
    """Return the key of a record without its kind."""
    name = key.group_id.encode()
    head = len(name).to_bytes(2, "big") + name
    return head + topic_id_bytes(key.topic_id) + key.partition.to_bytes(4, "big")


def _chunk(
    shape: Shape,
    which: NDArray[np.int64],
    text: NDArray[np.uint8],
    text_at: NDArray[np.int64],
    drawn: _Drawn,
    state: int,
    first: int,
) -> pa.RecordBatch:
    n = len(which)
    keys = np.empty(int((np.diff(text_at)[which] + 2).sum()), np.uint8)
    values = np.empty(n * (46 + 20 * shape.most), np.uint8)
    key_at, value_at = np.zeros(n + 1, np.int32), np.zeros(n + 1, np.int32)
    times = _BEGIN + 2 * (first + np.arange(n))
    _write(
        state * 1_000_003 + first, shape.batches, shape.most, shape.updates, which, text, text_at,
        times, drawn.start, drawn.updates, drawn.epoch, keys, key_at, values, value_at,
    )  # fmt: skip
    return pa.RecordBatch.from_arrays(
        [
            _binary(keys, key_at),
            _binary(values[: value_at[-1]].copy(), value_at),
            pa.repeat(STATE_TOPIC, n),
            pa.repeat(pa.scalar(state, pa.int32()), n),
            pa.array(first + np.arange(n)),
            pa.array(times).view(schemas.TIMESTAMP),
            pa.repeat(pa.scalar(0, pa.int32()), n),
        ],
        schema=schemas.RAW,
    )


def _binary(data: NDArray[np.uint8], offsets: NDArray[np.int32]) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


@numba.njit(cache=True, inline="always")
def _put(out: Any, at: int, value: int, size: int) -> int:
    """Write a big-endian number; return its end."""
    for k in range(size):
        out[at + k] = (value >> (8 * (size - 1 - k))) & 255
    return at + size


@numba.njit(cache=True)
def _write(
    seed: int,
    mean: float,
    most: int,
    every: int,
    which: Any,
    text: Any,
    text_at: Any,
    times: Any,
    start: Any,
    updates: Any,
    epoch: Any,
    keys: Any,
    key_at: Any,
    values: Any,
    value_at: Any,
) -> None:
    """Write the records of a chunk; ``start``, ``updates`` and ``epoch`` are updated."""
    np.random.seed(seed % 4_294_967_291)
    kp, p = 0, 0
    for i in range(which.size):
        k = which[i]
        snapshot = updates[k] < 0 or updates[k] >= every
        kp = _put(keys, kp, 0 if snapshot else 1, 2)
        for j in range(text_at[k], text_at[k + 1]):
            keys[kp] = text[j]
            kp += 1
        key_at[i + 1] = kp
        count = min(most, int(np.random.exponential(mean)))
        start[k] += np.random.randint(0, 120)
        p = _put(values, p, 0, 2)
        if snapshot:
            updates[k] = 0
            p = _put(values, p, epoch[k], 4)
            epoch[k] += 1
            p = _put(values, p, 2, 4)
            p = _put(values, p, 0, 4)
            p = _put(values, p, start[k], 8)
            p = _put(values, p, times[0], 8)
            p = _put(values, p, times[i], 8)
        else:
            updates[k] += 1
            p = _put(values, p, epoch[k] - 1, 4)
            p = _put(values, p, 0, 4)
            p = _put(values, p, start[k] if np.random.random() < 0.7 else -1, 8)
        size = count + 1
        while size > 127:
            values[p] = size & 127 | 128
            size >>= 7
            p += 1
        values[p] = size
        p += 1
        at, complete = start[k] + np.random.randint(0, 300), 0
        for _ in range(count):
            last = at + np.random.randint(0, 12)
            drawn = np.random.randint(0, 20)
            delivery = 4 if drawn == 0 else (0 if drawn < 4 else 2)
            p = _put(values, p, at, 8)
            p = _put(values, p, last, 8)
            values[p] = delivery
            p = _put(values, p + 1, 1 + int(np.random.exponential(0.4)), 2)
            values[p] = 0
            p += 1
            if delivery != 0:
                complete += last - at + 1
            at = last + 1
        if np.random.random() < 0.98:
            values[p], values[p + 1], values[p + 2] = 1, 0, 4
            p = _put(values, p + 3, complete, 4)
        else:
            values[p] = 0
            p += 1
        value_at[i + 1] = p
