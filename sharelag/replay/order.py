"""Which records belong to one share partition, and in which order they were written."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag.replay.columns import KEY
from sharelag.wire.interpreter import all_equal


def by_share_partition(table: pa.RecordBatch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return row numbers sorted by share partition and offset, and where each partition begins."""
    code = _one_code([codes_of(table.column(name)) for name in KEY])
    offsets = table.column("offset").to_numpy()
    order, sorted_code = _sorted(code)
    changed = np.append(True, sorted_code[1:] != sorted_code[:-1])
    sorted_offsets = offsets[order]
    if not (changed[1:] | (sorted_offsets[1:] >= sorted_offsets[:-1])).all():
        order = np.lexsort((offsets, code))
    return order, np.append(np.flatnonzero(changed), len(order))


def cut_by_share_partition(records: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    """Cut records into parts of about so many rows, with all those of a share partition in one."""
    if records.num_rows <= rows:
        yield records
        return
    order, bounds = by_share_partition(records)
    cuts = bounds[np.searchsorted(bounds, np.arange(0, len(order), rows))]
    for begin, end in pairwise(np.unique([*cuts, len(order)]).tolist()):
        yield records.take(pa.array(order[begin:end]))


def in_log_order(
    order: NDArray[np.int64], bounds: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return an order of the rows to replay them in, and the number of each row's share partition.

    Usually the rows are in the order of the log, and are replayed as they are: the memory that they
    are in is then read from one end to the other.

    Parameters
    ----------
    order, bounds
        From `by_share_partition`.
    """
    key = np.empty(len(order), np.int32)
    key[order] = np.repeat(np.arange(len(bounds) - 1, dtype=np.int32), np.diff(bounds))
    ascends = np.append(order[1:] > order[:-1], True)
    ascends[bounds[1:] - 1] = True
    return np.arange(len(order)) if ascends.all() else order, key


def codes_of(column: pa.Array) -> NDArray[np.int64]:
    """Return numbers that sort like the values of a column."""
    if pa.types.is_integer(column.type):
        return np.asarray(column.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)
    if column.type == pa.string() and len(column) and not column.null_count and all_equal(column):
        return np.zeros(len(column), np.int64)
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    ranks = np.empty(len(encoded.dictionary), np.int64)
    ranks[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(ranks))
    return np.asarray(ranks[encoded.indices.to_numpy()])


def _one_code(codes: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return one number a row that sorts as all of these do together."""
    whole, values = np.zeros(len(codes[0]), np.int64), 1
    for code in codes:
        least, greatest = int(code.min()), int(code.max())
        if least == greatest:
            continue
        if values * (greatest - least + 1) >= 2**63:
            _, whole = np.unique(whole, return_inverse=True)
            values = int(whole.max()) + 1
        if values * (greatest - least + 1) >= 2**63:
            _, code = np.unique(code, return_inverse=True)
            least, greatest = 0, int(code.max())
        values *= greatest - least + 1
        whole = whole * (greatest - least + 1) + (code - least)
    return whole


def _sorted(code: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where the sorted numbers stand, equal ones in their order, and them."""
    bits = max(len(code) - 1, 1).bit_length()
    if int(code.max()) >> (63 - bits):
        order = np.argsort(code, kind="stable")
        return order, code[order]
    # Sorting numbers is several times faster than sorting places by them, so place and number are
    # sorted as one.
    both = (code << bits) | np.arange(len(code))
    both.sort()
    return both & ((1 << bits) - 1), both >> bits
