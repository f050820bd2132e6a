"""Decoding, compared with a Python loop and with copying the bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import pyarrow as pa

from benchmarks.harness import Bench, Contest, Row, Side
from benchmarks.yardsticks import copy, key_value_bytes
from sharelag.wire import decode_arrow


def decode_all(batches: list[pa.RecordBatch]) -> tuple[int, int, int]:
    """Decode everything; return the numbers of records, rejects and state batches."""
    records = rejects = states = 0
    for batch in batches:
        found = decode_arrow(batch)
        records += found.records.num_rows
        rejects += found.rejects.num_rows
        states += len(found.records.column("state_batches").flatten())
    return records, rejects, states


@contextmanager
def against_struct(bench: Bench) -> Iterator[Contest]:
    """Compare with a loop over a part of the work, which is equally slow at any length."""
    batches = bench.inputs.batches("light", bench.size(1_000_000, 100_000))
    count = sum(batch.num_rows for batch in batches)
    part = batches[-1].slice(0, bench.size(50_000, 10_000))

    def check(ours: tuple[int, int, int], rival: tuple[int, int]) -> None:
        assert ours[:2] == (count, 0), ours
        mine = decode_all([part])
        assert (mine[0], mine[2]) == rival, (mine, rival)

    yield Contest(
        Side("decode_arrow", lambda: decode_all(batches), units=count),
        Side("struct in a Python loop", lambda: struct_loop(part), units=part.num_rows),
        check,
    )


@contextmanager
def against_memcpy(bench: Bench, shape: str, full: int) -> Iterator[Contest]:
    batches = bench.inputs.batches(shape, bench.size(full, full // 2))
    count = sum(batch.num_rows for batch in batches)
    size = sum(len(data) for batch in batches for data in key_value_bytes(batch))

    def check(ours: tuple[int, int, int], rival: int) -> None:
        assert (ours[0], ours[1], rival) == (count, 0, size), (ours, rival)

    yield Contest(
        Side("decode_arrow", lambda: decode_all(batches), units=count),
        Side("memcpy of keys and values", lambda: copy(batches), units=count),
        check,
    )


def _memcpy(shape: str, full: int) -> Callable[[Bench], AbstractContextManager[Contest]]:
    return partial(against_memcpy, shape=shape, full=full)


def struct_loop(batch: pa.RecordBatch) -> tuple[int, int]:
    """Decode all fields of a record into Python objects, as in a hand-written script."""
    records = states = 0
    for key, value in zip(
        batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True
    ):
        kind, size = struct.unpack_from(">hh", key)
        key[4 : 4 + size].decode()
        struct.unpack_from(">16si", key, 4 + size)
        head = ">hiiiqqq" if kind == 0 else ">hiiq"
        struct.unpack_from(head, value)
        at = struct.calcsize(head)
        count = shift = 0
        while True:
            count |= (value[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if value[at - 1] < 128:
                break
        batches = [struct.unpack_from(">qqbhb", value, at + 20 * i) for i in range(count - 1)]
        at += 20 * (count - 1)
        if value[at]:
            struct.unpack_from(">bbi", value, at + 1)
        records, states = records + 1, states + len(batches)
    return records, states


_NOTE = (
    "Of a light record's time, 30 % is its value, 25 % numbering its key, 20 % texts and nulls, "
    "10 % steps of Arrow and numpy for each batch of rows, the rest writing more memory than the "
    "caches hold. Tried: eight state batches at a time by shuffles, the first slot of a key's hash "
    "without a branch, names by kernels. A record of 60 batches is bound by memory. Next: one "
    "kernel call a batch of rows, and names as dictionaries."
)
ROWS = (
    Row("P1", "decode everything, one thread", "struct in a loop", 35, 50, against_struct,
        note=_NOTE),
    Row("P2", "decode everything", "memcpy", 5, 3, _memcpy("light", 1_000_000), "light",
        within=True, note=_NOTE),
    Row("P2", "decode everything", "memcpy", 2.5, 2, _memcpy("heavy", 200_000), "heavy",
        within=True),
)  # fmt: skip
