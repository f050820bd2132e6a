"""Kernels that another module's kernels call."""

from typing import Any

from sharelag.compiled import kernel

BONUS = 100


@kernel
def clipped(value: Any) -> Any:
    return value if value > 0 else 0
