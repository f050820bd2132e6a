"""Write what share partitions are called, straight into Arrow's buffers: a row a record."""

from __future__ import annotations

from typing import Any

from numpy import uint64 as u

from sharelag.compiled import kernel
from sharelag.wire.loads import put_word, word

#: Bytes of a key before the group's name, after it, and both.
_SIZE, _TAIL, _NAME = 2, 20, 22
#: Bytes that a topic id takes in ``ids``: its 22 characters, and two of nothing.
ID = 24


@kernel
def write_ids(arena: Any, ends: Any, first: int, pairs: Any, ids: Any) -> bool:
    """Write the topic ids of keys from ``first`` on in base64; return if all groups are ASCII.

    Parameters
    ----------
    arena, ends
        Of the keys, as for `key_codes`.
    first : int
    pairs : uint16[4096]
        The two characters of each number of twelve bits.
    ids : uint16[keys, ID / 2]
        The result.
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
def write_group_at(code: Any, ends: Any, group_at: Any) -> None:
    """Write where the name of each record's group begins, and where the last one ends."""
    at = 0
    for i in range(code.size):
        group_at[i] = at
        at += ends[code[i] + 1] - ends[code[i]] - _NAME
    group_at[code.size] = at


@kernel
def write_texts(
    code: Any, arena: Any, ends: Any, ids: Any, group_at: Any, groups: Any, topics: Any
) -> None:
    """Write the names of each record's group and topic.

    Parameters
    ----------
    code : int32[records]
    arena, ends
        Of the keys, as for `key_codes`.
    ids : uint8[ID * keys]
    group_at : int32[records + 1]
        Where the names of groups go.
    groups, topics : uint8[...]
        The results, with room for 16 bytes more: whole words are written, and the next text is
        written over what is too much. A name in ``arena`` is followed by as many bytes.
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
