"""Big-endian integers out of bytes, for kernels: LLVM makes one load of each.

Positions are unsigned: a signed index would be tested for being below zero, byte by byte. Callers
check the end of the record first.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy import uint64 as u


@numba.njit(cache=True, nogil=True)
def int8(buf: Any, p: Any) -> Any:
    """Read one signed byte."""
    return np.int8(buf[p])


@numba.njit(cache=True, nogil=True)
def int16(buf: Any, p: Any) -> Any:
    """Read a signed integer of two bytes."""
    return np.int16((u(buf[p]) << u(8)) | u(buf[p + u(1)]))


@numba.njit(cache=True, nogil=True)
def int32(buf: Any, p: Any) -> Any:
    """Read a signed integer of four bytes."""
    high = (u(buf[p]) << u(24)) | (u(buf[p + u(1)]) << u(16))
    return np.int32(high | (u(buf[p + u(2)]) << u(8)) | u(buf[p + u(3)]))


@numba.njit(cache=True, nogil=True)
def uint64(buf: Any, p: Any) -> Any:
    """Read eight bytes as they are hashed and compared."""
    high = (u(buf[p]) << u(56)) | (u(buf[p + u(1)]) << u(48)) | (u(buf[p + u(2)]) << u(40))
    high |= (u(buf[p + u(3)]) << u(32)) | (u(buf[p + u(4)]) << u(24)) | (u(buf[p + u(5)]) << u(16))
    return high | (u(buf[p + u(6)]) << u(8)) | u(buf[p + u(7)])


@numba.njit(cache=True, nogil=True)
def int64(buf: Any, p: Any) -> Any:
    """Read a signed integer of eight bytes."""
    return np.int64(uint64(buf, p))
