"""Number the keys of the state topic: equal keys get equal codes, by hash of their bytes.

A key is ``type int16, group string, topic id 16 bytes, partition int32``. The bytes after the type
identify the share partition; all of them are hashed and compared. Hashes start with secret numbers
of this process: otherwise a client that chooses group names could choose many with the same hash,
and each look-up would scan all of them.

Integers are read by one load and one byte swap: LLVM combines single bytes only if no byte is read
twice. Callers check the end of the record first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy import uint64 as u

from sharelag.compiled import kernel


def _load(bits: int, result: Any, is_swapped: bool = True) -> Any:
    """Return a function ``(buf: uint8[], p: uint64)`` for kernels."""

    @intrinsic
    def load(_context: Any, buf: Any, p: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            octets = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            word = ir.IntType(bits)
            place = builder.bitcast(builder.gep(octets, [arguments[1]]), word.as_pointer())
            value = builder.load(place)
            value.align = 1
            return value if bits == 8 or not is_swapped else builder.bswap(value)

        return result(buf, p), generate

    return load


def _put_word(_context: Any, buf: Any, p: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        octets = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.gep(octets, [arguments[1]])
        place = builder.bitcast(place, ir.IntType(64).as_pointer())
        builder.store(arguments[2], place).align = 1
        return context.get_dummy_value()

    return types.void(buf, p, value), generate


def _fold(_context: Any, a: Any, b: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        wide, word = ir.IntType(128), ir.IntType(64)
        product = builder.mul(*(builder.zext(one, wide) for one in arguments))
        high = builder.lshr(product, ir.Constant(wide, 64))
        return builder.xor(builder.trunc(product, word), builder.trunc(high, word))

    return types.uint64(a, b), generate


int8 = _load(8, types.int8)
int16 = _load(16, types.int16)
int32 = _load(32, types.int32)
int64 = _load(64, types.int64)
#: Eight bytes in memory order: to be hashed, compared and copied.
word = _load(64, types.uint64, is_swapped=False)
#: ``(buf: uint8[], p, value: uint64)`` writes eight bytes.
put_word: Any = intrinsic(_put_word)
#: ``(a: uint64, b: uint64)``: the upper half of their product, exclusive-or the lower one.
folded: Any = intrinsic(_fold)


#: Rows hashed ahead of the look-ups, so that the processor overlaps both for many rows.
AHEAD = 256
#: Size of a key without the group's name, and the same without the type.
_KEY, _NAME = 24, 22
#: Keys up to this size are covered by five words: two from the start, three up to the end.
_SHORT = 38
WORDS = 5
#: Hash slots per key of the capacity: few keys are not the first in their slot.
SLOTS = 4
#: Number of secret initial values of hashes.
SEEDS = 6


@kernel(inline="always")
def key_words(buf: Any, p: Any, end: Any) -> Any:
    """Read the words of a key; for a short key they cover all bytes and its size."""
    return (
        word(buf, p),
        word(buf, p + u(8)),
        word(buf, end - u(22)),
        word(buf, end - u(16)),
        word(buf, end - u(8)),
    )


@kernel(inline="always")
def key_hash(words: Any, more: Any, seeds: Any) -> Any:
    """Mix the words of a key; ``more`` is the hash of a long key's other bytes."""
    a, b, c, d, e = words
    first = folded(a ^ seeds[0], b ^ seeds[1]) ^ folded(c ^ seeds[2], d ^ seeds[3])
    return folded(first ^ e ^ seeds[4], seeds[5] ^ more)


@kernel
def _mix_long(buf: Any, p: Any, end: Any, seeds: Any) -> Any:
    """Mix the bytes of a long key that its words do not cover."""
    value = u(0)
    while p < end - u(8):
        value = folded(value ^ word(buf, p) ^ seeds[0], seeds[5] | u(1))
        p += u(8)
    return value


@kernel(inline="always")
def _differ(words: Any, at: Any, own: Any) -> Any:
    """Return 0 if the words of a known key equal a key's own."""
    a, b, c, d, e = own
    differ = (words[at] ^ a) | (words[at + u(1)] ^ b) | (words[at + u(2)] ^ c)
    return differ | (words[at + u(3)] ^ d) | (words[at + u(4)] ^ e)


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
    """Add ``buf[p:end]`` as the next known key."""
    begin, at = u(ends[known]), u(known) * u(WORDS)
    for k in range(end - p):
        arena[begin + u(k)] = buf[p + u(k)]
    ends[known + 1] = ends[known] + np.int64(end - p)
    words[at], words[at + u(1)], words[at + u(2)], words[at + u(3)], words[at + u(4)] = key_words(
        buf, p, end
    )
    slots[slot] = known


@kernel
def key_codes(
    keys: Any, key_at: Any, is_out: Any, row: int, kinds: int, seeds: Any, slots: Any,
    words: Any, arena: Any, ends: Any, count: int, code: Any, record_type: Any, partition: Any,
) -> Any:  # fmt: skip
    """Write the code of each row's key from ``row`` on, or -1 if it is not a key of this topic.

    Record types are 0 to ``kinds - 1``. ``slots`` (int32, a power of two) is the hash table: codes,
    or -1. ``words`` (uint64) are those of the ``count`` known keys, whose bytes are consecutive in
    ``arena``; ``ends`` are their ends, starting with ``ends[0] = 0``. The results are ``code``,
    ``record_type`` and ``partition``. Return the row at which to continue when table or arena are
    full, and the number of known keys.
    """
    mask, limit = u(slots.size - 1), slots.size // SLOTS
    secret = (seeds[0], seeds[1], seeds[2], seeds[3], seeds[4], seeds[5])
    hashes, behind = np.empty(AHEAD, np.uint64), np.empty(AHEAD, np.int64)
    for begin in range(row, code.size, AHEAD):
        end = min(code.size, begin + AHEAD)
        for j in range(end - begin):
            i = u(begin) + u(j)
            code[i] = -1
            p, stop = u(key_at[i]), u(key_at[i + u(1)])
            if is_out[i] or stop < p + u(_KEY):
                continue
            kind, size = int16(keys, p), int16(keys, p + u(2))
            if kind < 0 or kind >= kinds or size < 0 or stop < p + u(_KEY) + u(size):
                continue
            stop = p + u(_KEY) + u(size)
            record_type[i], partition[i], code[i] = kind, int32(keys, stop - u(4)), 0
            p += u(2)
            # A call with arrays counts references, so only keys that need it make one.
            more = u(0)
            if stop - p > u(_SHORT):
                more = _mix_long(keys, p, stop, secret)
            hashes[u(j)] = key_hash(key_words(keys, p, stop), more, secret)
        others = np.int64(0)
        for j in range(end - begin):
            i = u(begin) + u(j)
            if code[i] < 0:
                continue
            p = u(key_at[i]) + u(2)
            stop = p + u(_NAME) + u(int16(keys, p))
            known = slots[hashes[u(j)] & mask]
            code[i] = known
            # Most keys are the first in their slot. A branch here would be mispredicted.
            behind[others] = j
            others += (
                known < 0
                or stop - p > u(_SHORT)
                or _differ(words, u(known) * u(WORDS), key_words(keys, p, stop)) != u(0)
            )
        for k in range(others):
            j = behind[k]
            i = u(begin) + u(j)
            p = u(key_at[i]) + u(2)
            stop = p + u(_NAME) + u(int16(keys, p))
            own = key_words(keys, p, stop)
            slot = hashes[u(j)] & mask
            known = slots[slot]
            # The first word contains the size: if it is equal, the sizes are.
            while known >= 0 and (
                _differ(words, u(known) * u(WORDS), own) != u(0)
                or (stop - p > u(_SHORT) and not _equal(arena, u(ends[known]), keys, p, stop - p))
            ):
                slot = (slot + u(1)) & mask
                known = slots[slot]
            if known < 0:
                if count == limit or ends[count] + np.int64(stop - p) > arena.size:
                    return begin, count
                _enter(words, count, slots, slot, arena, ends, keys, p, stop)
                known = count
                count += 1
            code[i] = known
    return code.size, count


@kernel
def fill_slots(seeds: Any, slots: Any, arena: Any, ends: Any, count: int) -> None:
    """Add the known keys to an empty hash table."""
    mask = u(slots.size - 1)
    secret = (seeds[0], seeds[1], seeds[2], seeds[3], seeds[4], seeds[5])
    for known in range(count):
        p, end = u(ends[known]), u(ends[known + 1])
        more = _mix_long(arena, p, end, secret) if end - p > u(_SHORT) else u(0)
        slot = key_hash(key_words(arena, p, end), more, secret) & mask
        while slots[slot] >= 0:
            slot = (slot + u(1)) & mask
        slots[slot] = known


# ---- names ---------------------------------------------------------------------------------------


#: Bytes of a key before the group's name, and after it.
_SIZE, _TAIL = 2, 20
#: Size of a topic id in ``ids``: its 22 characters, and two unused bytes.
ID = 24


@kernel
def write_ids(arena: Any, ends: Any, first: int, pairs: Any, ids: Any) -> bool:
    """Write the topic ids of keys from ``first`` on in base64; return whether all groups are ASCII.

    ``pairs`` has the two characters of each 12-bit number.
    """
    seen = arena[0] & 0
    for known in range(first, ends.size - 1):
        for at in range(ends[known] + _SIZE, ends[known + 1] - _TAIL):
            seen |= arena[at]
        at = ends[known + 1] - _TAIL
        for k in range(5):
            three = arena[at] << 16 | arena[at + 1] << 8 | arena[at + 2]
            ids[known, 2 * k], ids[known, 2 * k + 1] = pairs[three >> 12], pairs[three & 4095]
            at += 3
        ids[known, 10] = pairs[arena[at] << 4]
    return bool(seen < 128)


@kernel
def write_texts(
    code: Any, arena: Any, ends: Any, ids: Any, group_at: Any, groups: Any, topics: Any
) -> None:
    """Write the names of each record's group and topic.

    ``groups`` and ``topics`` have room for 16 more bytes: whole words are written, and the next
    text overwrites the excess. A name in ``arena`` is followed by as many bytes.
    """
    for i in range(code.size):
        known = u(code[i])
        p, end = u(ends[known]) + u(_SIZE), u(ends[known + u(1)]) - u(_TAIL)
        at = u(group_at[i])
        while True:
            put_word(groups, at, word(arena, p))
            put_word(groups, at + u(8), word(arena, p + u(8)))
            at, p = at + u(16), p + u(16)
            if p >= end:
                break
        at, p = u(22) * u(i), u(ID) * known
        for k in range(u(0), u(ID), u(8)):
            put_word(topics, at + k, word(ids, p + k))
