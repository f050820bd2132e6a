"""Arrow's validity bitmaps of numbers of which one means null."""

from __future__ import annotations

from typing import Any

from numpy import uint64 as u

from sharelag.compiled import kernel
from sharelag.wire.lanes import LANES, unequal
from sharelag.wire.loads import ones


@kernel
def write_unequal(column: Any, value: Any, bits: Any) -> int:
    """Set the bit of each number that is not ``value``; return how many are not.

    Parameters
    ----------
    column : an array of integers
    value : an integer of the same type
    bits : uint8[numbers / 8, rounded up]
        The result.
    """
    found = 0
    whole = column.size // LANES
    for k in range(whole):
        octet = unequal(column, u(k) * u(LANES), value)
        bits[k] = octet
        found += ones(octet)
    if column.size > whole * LANES:
        last = 0
        for k in range(whole * LANES, column.size):
            if column[k] != value:
                last |= 1 << (k - whole * LANES)
                found += 1
        bits[whole] = last
    return found
