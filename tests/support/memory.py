"""The most memory that some code needed at once, by Python, by numpy and by Arrow."""

import tracemalloc
from collections.abc import Callable

import pyarrow as pa

#: What the code keeps is freed in the pool that it came from, later.
_POOLS: list[pa.MemoryPool] = []


def peak_of(run: Callable[[], object]) -> int:
    """Return the bytes at most: Arrow has memory of its own, which ``tracemalloc`` cannot see."""
    usual = pa.default_memory_pool()
    counted = pa.proxy_memory_pool(usual)
    _POOLS.append(counted)
    pa.set_memory_pool(counted)
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1] + int(counted.max_memory())
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(usual)
