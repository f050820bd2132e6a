"""Kernels that call each other, for tests of `sharelag.compiled`."""

from typing import Any

from sharelag.compiled import kernel
from sharelag.replay.merge import combine_rows
from tests.support import more_kernels
from tests.support.more_kernels import clipped


@kernel
def total(values: Any) -> Any:
    """Add what kernels of this and of another module make of the values."""
    found = 0
    for k in range(len(values)):
        found += doubled(values[k]) + clipped(values[k]) + more_kernels.BONUS
        found += more_kernels.clipped(-values[k])
    return found


@kernel(inline="always")
def doubled(value: Any) -> Any:
    return 2 * value


@kernel
def factorial(n: Any) -> Any:
    return 1 if n < 2 else n * factorial(n - 1)


@kernel(views=True)
def shifted(octets: Any, out: Any) -> None:
    """Shift bytes beyond their type: memoryviews and numba widen them, numpy does not."""
    for k in range(len(octets)):
        out[k] = octets[k] << 16


@kernel
def combined(rows: Any, n: int, start: int) -> Any:
    """Combine rows of batches as a part of a kernel, as replay does."""
    return combine_rows(rows, n, start)
