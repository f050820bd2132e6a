"""Decode the values of state records in one compiled pass. Made by ``tools/state_pass.py``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import uint64 as u

from sharelag.compiled import kernel
from sharelag.wire.key_codes import int8, int16, int32, int64


@kernel
def state_pass(
    values: Any, value_at: Any, value_null: Any, record_type: Any, code: Any, odd: Any,
    batch_at: Any, numbers: Any, batches: Any,
) -> int:  # fmt: skip
    """Decode every value that is as Kafka writes it; return how many are not.

    Parameters
    ----------
    values, value_at, value_null
        Arrow's bytes and offsets, and which rows are null.
    record_type, code
        Of the keys; a negative code is a key that could not be read.
    odd : uint8[records]
        Becomes 1 for a row that this pass cannot read; it leaves no state batches.
    batch_at : int32[records + 1]
        Becomes where the state batches of each record begin.
    numbers, batches
        Columns to fill, in the order of `sharelag.wire.fields`; those of batches have room for
        one more than fit into the bytes of all values.
    """
    (
        snapshot_epoch,
        state_epoch,
        leader_epoch,
        start_offset,
        create_timestamp,
        write_timestamp,
        delivery_complete_count,
    ) = numbers
    (
        first_offset,
        last_offset,
        delivery_state,
        delivery_count,
    ) = batches
    total, odds = np.int64(0), 0
    for i in range(code.size):
        batch_at[i] = total
        odd[i] = 1
        odds += 1
        if code[i] < 0:
            continue
        delivery_complete_count[i] = -1
        if value_null[i]:
            snapshot_epoch[i] = 0
            state_epoch[i] = 0
            leader_epoch[i] = 0
            start_offset[i] = -1
            create_timestamp[i] = 0
            write_timestamp[i] = 0
            odd[i] = 0
            odds -= 1
            continue
        p, end = u(value_at[i]), u(value_at[i + 1])
        if record_type[i] == 0:
            if end < p + u(40) or int16(values, p) != 0:
                continue
            snapshot_epoch[i] = int32(values, p + u(2))
            state_epoch[i] = int32(values, p + u(6))
            leader_epoch[i] = int32(values, p + u(10))
            start_offset[i] = int64(values, p + u(14))
            create_timestamp[i] = int64(values, p + u(22))
            write_timestamp[i] = int64(values, p + u(30))
            q = p + u(38)
        elif record_type[i] == 1:
            if end < p + u(20) or int16(values, p) != 0:
                continue
            snapshot_epoch[i] = int32(values, p + u(2))
            leader_epoch[i] = int32(values, p + u(6))
            start_offset[i] = int64(values, p + u(10))
            state_epoch[i] = 0
            create_timestamp[i] = 0
            write_timestamp[i] = 0
            q = p + u(18)
        else:
            continue
        count = u(values[q])
        q += u(1)
        if count > u(127):
            if q >= end or values[q] > 127:
                continue
            count = (count & u(127)) | (u(values[q]) << u(7))
            q += u(1)
        if count == u(0):
            continue
        count -= u(1)
        if q + u(20) * count >= end:
            continue
        tagged = u(0)
        k = u(total)
        for _ in range(np.int64(count)):
            first_offset[k] = int64(values, q)
            last_offset[k] = int64(values, q + u(8))
            delivery_state[k] = int8(values, q + u(16))
            delivery_count[k] = int16(values, q + u(17))
            tagged |= u(values[q + u(19)])
            k += u(1)
            q += u(20)
        if tagged != u(0):
            continue
        left = values[q]
        q += u(1)
        if left != 0 and q + u(6) <= end and values[q] == 0 and values[q + u(1)] == 4:
            delivery_complete_count[i] = int32(values, q + u(2))
            q += u(6)
            left -= np.uint8(1)
        if left != 0 or q != end:
            continue
        total += np.int64(count)
        odd[i] = 0
        odds -= 1
    batch_at[code.size] = total
    return odds
