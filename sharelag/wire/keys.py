"""Share partitions by number: what the keys of many records say, once per share partition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.compiled import compiled
from sharelag.schemas.arrow import one_batch
from sharelag.wire import texts
from sharelag.wire.fields import STATE_KINDS

#: Bytes of a key's topic id and partition, which follow the group's name.
_TAIL = 20
_SMALL = 1 << 12
_SHARE_PARTITION = pa.schema(
    [schemas.RECORDS.field(name) for name in ("group_id", "topic_id", "partition")]
)


class ShareKeys:
    """The distinct share partitions of some records, numbered in the order of their appearance.

    One object can number the keys of many batches: a share partition has the same code in all of
    them. Codes index the rows of `table`.
    """

    def __init__(self) -> None:
        self._slots = np.full(_SMALL, -1, np.int32)
        self._arena = np.empty(_SMALL * _TAIL, np.uint8)
        self._ends = np.zeros(_SMALL // 2 + 1, np.int64)
        self._words = np.empty(5 * (_SMALL // 2), np.uint64)
        self._count = 0
        self._table = pa.RecordBatch.from_pylist([], schema=_SHARE_PARTITION)
        self._first: NDArray[np.int32] | None = None  # None: every code has its own name

    def __len__(self) -> int:
        """Return how many codes there are."""
        return self._count

    def codes(
        self, keys: NDArray[np.uint8], key_at: NDArray[np.int32], key_null: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int32], NDArray[np.int16], NDArray[np.int32]]:
        """Number the keys of raw records, given as Arrow's bytes, offsets and nulls.

        Returns
        -------
        code : int32[records]
            -1: not a key of a state record; its type and partition have no meaning.
        record_type : int16[records]
        partition : int32[records]
            Of the share partition.
        """
        from sharelag.wire.key_codes import key_codes

        size = len(key_null)
        code, record_type = np.empty(size, np.int32), np.empty(size, np.int16)
        partition = np.empty(size, np.int32)
        row = 0
        while True:
            row, self._count = compiled(key_codes)(
                keys, key_at, key_null, row, len(STATE_KINDS), self._slots, self._words,
                self._arena, self._ends, self._count, code, record_type, partition,
            )  # fmt: skip
            if row == size:
                break
            self._grow(int(key_at[row + 1] - key_at[row]))
        self._name_new()
        if self._first is not None:
            code = np.where(code < 0, code, self._first[code])
        return code, record_type, partition

    def table(self) -> pa.RecordBatch:
        """Return the share partitions in the order of their codes: ``group_id topic_id partition``.

        Returns
        -------
        pyarrow.RecordBatch
            Invalid UTF-8 has become U+FFFD, as in Java; of keys that only differ in that, the
            codes of all but the first are not in use.
        """
        return self._table

    def _grow(self, needed: int) -> None:
        """Make room for a key of so many bytes, and for as many keys as there are."""
        from sharelag.wire.key_codes import fill_slots

        if self._ends[self._count] + needed > len(self._arena):
            self._arena = np.resize(self._arena, 2 * len(self._arena) + needed)
        if self._count == len(self._slots) // 2:
            self._slots = np.full(4 * len(self._slots), -1, np.int32)
            self._ends = np.resize(self._ends, len(self._slots) // 2 + 1)
            self._words = np.resize(self._words, 5 * (len(self._slots) // 2))
            compiled(fill_slots)(self._slots, self._arena, self._ends, self._count)

    def _name_new(self) -> None:
        """Append the share partitions of new codes to the table."""
        named = self._table.num_rows
        if named == self._count:
            return
        ends = self._ends[named : self._count + 1]
        octets = self._arena[ends[0] : ends[-1]].copy()
        keys = pa.Array.from_buffers(
            pa.large_binary(),
            len(ends) - 1,
            [None, pa.py_buffer(ends - ends[0]), pa.py_buffer(octets)],
        )
        groups = pc.binary_slice(keys, 2, -_TAIL).cast(pa.binary())
        tails = np.frombuffer(pc.binary_slice(keys, -_TAIL).buffers()[2], np.uint8)
        tails = tails.reshape(-1, _TAIL)
        partitions = np.ascontiguousarray(tails[:, 16:]).view(">i4").reshape(-1).astype(np.int32)
        new = pa.RecordBatch.from_arrays(
            [texts.strings(groups), texts.topic_ids(tails[:, :16]), pa.array(partitions)],
            schema=_SHARE_PARTITION,
        )
        self._table = one_batch(pa.Table.from_batches([self._table, new])) if named else new
        if self._first is not None or not new.column("group_id").cast(pa.binary()).equals(groups):
            self._first = _first_of_same(self._table)


def _first_of_same(table: pa.RecordBatch) -> NDArray[np.int32]:
    """Return for every row the first row that is equal to it."""
    first: dict[tuple[Any, ...], int] = {}
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return np.array([first.setdefault(row, number) for number, row in enumerate(rows)], np.int32)
