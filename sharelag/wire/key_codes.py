"""Number the keys of the state topic: equal keys get equal codes, by hash of their bytes.

A key is ``type int16, group string, topic id 16 bytes, partition int32``; what follows the type
names the share partition, and is what is hashed and compared, in full.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy import uint64 as u

from sharelag.wire.loads import int16, int32, uint64

#: Rows hashed ahead of the look-ups, so that the processor overlaps both for many rows.
_AHEAD = 256
#: Bytes of a key without those of the group's name, and the same without the type.
_KEY, _NAME = 24, 22


@numba.njit(cache=True, nogil=True)
def _hash(buf: Any, p: Any, end: Any) -> Any:
    """Hash at least eight bytes; the last word may overlap the one before it."""
    value = uint64(buf, end - u(8)) * u(0x9E3779B97F4A7C15)
    while p + u(8) < end:
        value = (value ^ uint64(buf, p)) * u(0xFF51AFD7ED558CCD)
        value ^= value >> u(32)
        p += u(8)
    return value ^ (value >> u(29))


@numba.njit(cache=True, nogil=True)
def _equal(a: Any, p: Any, b: Any, q: Any, size: Any) -> Any:
    """Compare at least eight bytes."""
    differ = uint64(a, p + size - u(8)) ^ uint64(b, q + size - u(8))
    k = u(0)
    while k + u(8) < size:
        differ |= uint64(a, p + k) ^ uint64(b, q + k)
        k += u(8)
    return differ == 0


@numba.njit(cache=True, nogil=True)
def key_codes(
    keys: Any, key_at: Any, key_null: Any, row: int, kinds: int, slots: Any, arena: Any, ends: Any,
    count: int, code: Any, record_type: Any, partition: Any,
) -> Any:  # fmt: skip
    """Write the code of each row's key from ``row`` on, or -1 if it is not a key of this topic.

    Parameters
    ----------
    keys, key_at, key_null
        Arrow's bytes and offsets, and which rows are null.
    kinds : int
        Record types are 0 to ``kinds - 1``.
    slots : int32[a power of two]
        The hash table: codes, or -1.
    arena, ends
        The bytes of the known keys one after another, and where each ends, from ``ends[0] = 0``.
    count : int
        Known keys.
    code, record_type, partition
        The results.

    Returns
    -------
    row, count
        The first row that is not done, because table or arena are full; and known keys now.
    """
    mask, limit = u(slots.size - 1), slots.size // 2
    hashes = np.empty(_AHEAD, np.uint64)
    for begin in range(row, code.size, _AHEAD):
        end = min(code.size, begin + _AHEAD)
        for i in range(begin, end):
            code[i] = -1
            p, stop = u(key_at[i]), u(key_at[i + 1])
            if key_null[i] or stop < p + u(_KEY):
                continue
            kind, size = int16(keys, p), int16(keys, p + u(2))
            if kind < 0 or kind >= kinds or size < 0 or stop < p + u(_KEY) + u(size):
                continue
            stop = p + u(_KEY) + u(size)
            record_type[i], partition[i], code[i] = kind, int32(keys, stop - u(4)), 0
            hashes[i - begin] = _hash(keys, p + u(2), stop)
        for i in range(begin, end):
            if code[i] < 0:
                continue
            p = u(key_at[i]) + u(2)
            size = u(_NAME) + u(int16(keys, p))
            slot = hashes[i - begin] & mask
            while True:
                known = slots[slot]
                if known < 0:
                    if count == limit or ends[count] + np.int64(size) > arena.size:
                        return i, count
                    at = u(ends[count])
                    for k in range(size):
                        arena[at + u(k)] = keys[p + u(k)]
                    ends[count + 1] = ends[count] + np.int64(size)
                    slots[slot] = known = count
                    count += 1
                    break
                at = u(ends[known])
                if u(ends[known + 1]) - at == size and _equal(arena, at, keys, p, size):
                    break
                slot = (slot + u(1)) & mask
            code[i] = known
    return code.size, count


@numba.njit(cache=True, nogil=True)
def fill_slots(slots: Any, arena: Any, ends: Any, count: int) -> None:
    """Enter the known keys into an empty hash table."""
    mask = u(slots.size - 1)
    for known in range(count):
        slot = _hash(arena, u(ends[known]), u(ends[known + 1])) & mask
        while slots[slot] >= 0:
            slot = (slot + u(1)) & mask
        slots[slot] = known
