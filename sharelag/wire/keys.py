"""Share partitions by number: what the keys of many records say, once per share partition."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.compiled import compile_kernel
from sharelag.schemas import Arrow
from sharelag.wire import texts
from sharelag.wire.fields import STATE_KINDS
from sharelag.wire.interpreter import binary, find_unplaced

#: Bytes of the size of a group's name, and of the topic id and the partition that follow the name.
_SIZE, _TAIL = 2, 20
#: So many keys fit at first.
_SMALL = 1 << 11
#: Bytes that kernels may write after the last text.
_SLACK = 16
_SHARE_PARTITION = pa.schema(
    [schemas.RECORDS.field(name) for name in ("group_id", "topic_id", "partition")]
)


class ShareKeys:
    """The distinct share partitions of some records, numbered in the order of their appearance.

    One object can number the keys of many batches: a share partition has the same code in all of
    them. Codes index the rows of `table`.
    """

    def __init__(self) -> None:
        from sharelag.wire.key_codes import ID, SEEDS, SLOTS, WORDS

        #: Secret numbers that hashes begin with.
        self.seeds = np.frombuffer(os.urandom(8 * SEEDS), np.uint64)
        self._slots = np.full(SLOTS * _SMALL, -1, np.int32)
        self._arena = np.empty(2 * _SMALL * _TAIL, np.uint8)
        self._ends = np.zeros(_SMALL + 1, np.int64)
        self._words = np.empty(WORDS * _SMALL, np.uint64)
        self._ids = np.empty((_SMALL, ID // 2), np.uint16)
        self._count = self._named = 0
        self._first: NDArray[np.int32] | None = None  # None: every code has its own name

    def __len__(self) -> int:
        """Return how many codes there are."""
        return self._count

    def codes(self, raw: Arrow) -> tuple[NDArray[np.int32], NDArray[np.int16], NDArray[np.int32]]:
        """Number the keys of raw state records; return code, record type and partition.

        The code is -1 where a key is not that of a state record, or its record has no place in the
        topic: its type and partition have no meaning.
        """
        from sharelag.wire.key_codes import AHEAD, key_codes

        keys, key_at, key_null = binary(raw.column("key"))
        size, is_out = len(key_null), key_null | find_unplaced(raw)
        code, record_type = np.empty(size, np.int32), np.empty(size, np.int16)
        partition = np.empty(size, np.int32)
        row = 0
        while True:
            row, self._count = compile_kernel(key_codes)(
                keys, key_at, is_out, row, len(STATE_KINDS), self.seeds, self._slots,
                self._words, self._arena, self._ends, self._count, code, record_type, partition,
            )  # fmt: skip
            if row == size:
                break
            self._grow(int(np.diff(key_at[row : row + AHEAD + 1]).max()))
        self._name_new()
        if self._first is not None:
            code = np.where(code < 0, code, self._first[code])
        return code, record_type, partition

    def table(self) -> pa.RecordBatch:
        """Return the share partitions in the order of their codes: ``group_id topic_id partition``.

        Invalid UTF-8 has become U+FFFD, as in Java; of keys that only differ in that, the codes of
        all but the first are not in use.
        """
        return pa.RecordBatch.from_arrays(
            [*self.names(np.arange(self._count, dtype=np.int32)), self._partitions()],
            schema=_SHARE_PARTITION,
        )

    def names(self, code: NDArray[np.int32]) -> tuple[pa.Array, pa.Array]:
        """Return ``group_id`` and ``topic_id`` of the share partitions with these codes."""
        if self._first is None:
            return self._names(code, pa.string())
        groups, topics = self._names(code, pa.binary())
        return texts.strings(groups), topics

    def _names(self, code: NDArray[np.int32], kind: pa.DataType) -> tuple[pa.Array, pa.Array]:
        from sharelag.wire.key_codes import write_texts

        count = len(code)
        sizes = self._ends[code + 1] - self._ends[code] - (_SIZE + _TAIL)
        group_at = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        groups = np.empty(int(group_at[-1]) + _SLACK, np.uint8)
        topics = np.empty(texts.TOPIC_ID * count + _SLACK, np.uint8)
        compile_kernel(write_texts)(
            code, self._arena, self._ends, self._ids.view(np.uint8).reshape(-1), group_at, groups,
            topics,
        )  # fmt: skip
        topic_at = texts.multiples(texts.TOPIC_ID, count + 1)
        return (
            _of_buffers(kind, group_at, groups),
            _of_buffers(pa.string(), topic_at, topics),
        )

    def _partitions(self) -> pa.Array:
        last_four = self._ends[1 : self._count + 1, None] + np.arange(-4, 0)
        return pa.array(self._arena[last_four].view(">i4").reshape(-1).astype(np.int32))

    def _grow(self, needed: int) -> None:
        """Make room for a key of so many bytes, and for as many keys as there are."""
        from sharelag.wire.key_codes import SLOTS, WORDS, fill_slots

        if self._ends[self._count] + needed > len(self._arena):
            self._arena = np.resize(self._arena, 2 * len(self._arena) + needed)
        if self._count == len(self._slots) // SLOTS:
            self._slots = np.full(4 * len(self._slots), -1, np.int32)
            capacity = len(self._slots) // SLOTS
            self._ends = np.resize(self._ends, capacity + 1)
            self._words = np.resize(self._words, WORDS * capacity)
            self._ids = np.resize(self._ids, (capacity, self._ids.shape[1]))
            compile_kernel(fill_slots)(
                self.seeds, self._slots, self._arena, self._ends, self._count
            )

    def _name_new(self) -> None:
        """Write the topic ids of new codes, and find those whose names are not unique."""
        from sharelag.wire.key_codes import write_ids

        if self._named == self._count:
            return
        are_ascii = compile_kernel(write_ids)(
            self._arena, self._ends[: self._count + 1], self._named, texts.PAIRS, self._ids
        )
        new = np.arange(self._named, self._count, dtype=np.int32)
        self._named = self._count
        if self._first is not None or (not are_ascii and self._are_replaced(new)):
            # `names` replaces once this is set.
            self._first = np.zeros(0, np.int32)
            self._first = _first_of_same(self.table())

    def _are_replaced(self, code: NDArray[np.int32]) -> bool:
        groups, _ = self._names(code, pa.binary())
        return not texts.strings(groups).cast(pa.binary()).equals(groups)


def _of_buffers(kind: pa.DataType, at: NDArray[np.int32], data: NDArray[np.uint8]) -> pa.Array:
    buffers = [None, pa.py_buffer(at), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(at) - 1, buffers, null_count=0)


def _first_of_same(table: pa.RecordBatch) -> NDArray[np.int32]:
    """Return for every row the first row that is equal to it."""
    first: dict[tuple[Any, ...], int] = {}
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return np.array([first.setdefault(row, number) for number, row in enumerate(rows)], np.int32)
