"""Number the keys of the state topic: equal keys get equal codes, by hash of their bytes.

A key is ``type int16, group string, topic id 16 bytes, partition int32``; what follows the type
names the share partition, and is what is hashed and compared, in full.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import uint64 as u

from sharelag.compiled import kernel
from sharelag.wire.loads import int16, int32, uint64

#: Rows hashed ahead of the look-ups, so that the processor overlaps both for many rows.
_AHEAD = 256
#: Bytes of a key without those of the group's name, and the same without the type.
_KEY, _NAME = 24, 22
#: Keys up to this size are known by five words: two from the begin, three to the end.
_SHORT = 38
WORDS = 5


@kernel(inline="always")
def _words(buf: Any, p: Any, end: Any) -> Any:
    """Read the words of a key; together they hold all bytes of a short one, its size included."""
    return (
        uint64(buf, p),
        uint64(buf, p + u(8)),
        uint64(buf, end - u(22)),
        uint64(buf, end - u(16)),
        uint64(buf, end - u(8)),
    )


@kernel
def _mix(words: Any, more: Any) -> Any:
    a, b, c, d, e = words
    value = a * u(0x9E3779B97F4A7C15) + b * u(0xC2B2AE3D27D4EB4F) + c * u(0x165667B19E3779F9)
    value += d * u(0xFF51AFD7ED558CCD) + e * u(0xC4CEB9FE1A85EC53) + more
    value = (value ^ (value >> u(32))) * u(0x9E3779B97F4A7C15)
    return value ^ (value >> u(29))


@kernel
def _mix_long(buf: Any, p: Any, end: Any) -> Any:
    """Mix what the words do not hold of a long key."""
    value = u(0)
    while p < end - u(8):
        value = (value ^ uint64(buf, p)) * u(0xFF51AFD7ED558CCD)
        value ^= value >> u(32)
        p += u(8)
    return value


@kernel
def _equal(a: Any, p: Any, b: Any, q: Any, size: Any) -> Any:
    k = u(0)
    while k < size and a[p + k] == b[q + k]:
        k += u(1)
    return k == size


@kernel
def _enter(
    words: Any, known: int, slots: Any, slot: Any, arena: Any, ends: Any, buf: Any, p: Any, end: Any
) -> None:
    """Make ``buf[p:end]`` the next known key."""
    begin, at = u(ends[known]), u(known) * u(WORDS)
    for k in range(end - p):
        arena[begin + u(k)] = buf[p + u(k)]
    ends[known + 1] = ends[known] + np.int64(end - p)
    words[at], words[at + u(1)], words[at + u(2)], words[at + u(3)], words[at + u(4)] = _words(
        buf, p, end
    )
    slots[slot] = known


@kernel
def key_codes(
    keys: Any, key_at: Any, key_null: Any, row: int, kinds: int, slots: Any, words: Any,
    arena: Any, ends: Any, count: int, code: Any, record_type: Any, partition: Any,
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
    words : uint64[5 * keys]
        The words of the known keys.
    arena, ends
        Their bytes one after another, and where each ends, from ``ends[0] = 0``.
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
        for j in range(end - begin):
            i = u(begin) + u(j)
            code[i] = -1
            p, stop = u(key_at[i]), u(key_at[i + u(1)])
            if key_null[i] or stop < p + u(_KEY):
                continue
            kind, size = int16(keys, p), int16(keys, p + u(2))
            if kind < 0 or kind >= kinds or size < 0 or stop < p + u(_KEY) + u(size):
                continue
            stop = p + u(_KEY) + u(size)
            record_type[i], partition[i], code[i] = kind, int32(keys, stop - u(4)), 0
            p += u(2)
            # A call with arrays counts references: only for those that need it.
            more = u(0)
            if stop - p > u(_SHORT):
                more = _mix_long(keys, p, stop)
            hashes[u(j)] = _mix(_words(keys, p, stop), more)
        for j in range(end - begin):
            i = u(begin) + u(j)
            if code[i] < 0:
                continue
            p = u(key_at[i]) + u(2)
            stop = p + u(_NAME) + u(int16(keys, p))
            a, b, c, d, e = _words(keys, p, stop)
            slot = hashes[u(j)] & mask
            while True:
                known = slots[slot]
                at = u(known) * u(WORDS)
                if known < 0:
                    break
                differ = (words[at] ^ a) | (words[at + u(1)] ^ b) | (words[at + u(2)] ^ c)
                differ |= (words[at + u(3)] ^ d) | (words[at + u(4)] ^ e)
                # The first word holds the size: where it is equal, both have the same.
                if differ == u(0) and (
                    stop - p <= u(_SHORT) or _equal(arena, u(ends[known]), keys, p, stop - p)
                ):
                    break
                slot = (slot + u(1)) & mask
            if known < 0:
                if count == limit or ends[count] + np.int64(stop - p) > arena.size:
                    return np.int64(i), count
                _enter(words, count, slots, slot, arena, ends, keys, p, stop)
                known = count
                count += 1
            code[i] = known
    return code.size, count


@kernel
def fill_slots(slots: Any, arena: Any, ends: Any, count: int) -> None:
    """Enter the known keys into an empty hash table."""
    mask = u(slots.size - 1)
    for known in range(count):
        p, end = u(ends[known]), u(ends[known + 1])
        more = _mix_long(arena, p, end) if end - p > u(_SHORT) else u(0)
        slot = _mix(_words(arena, p, end), more) & mask
        while slots[slot] >= 0:
            slot = (slot + u(1)) & mask
        slots[slot] = known
