"""What Spark's Python workers are forked from: a process that has imported already what each of them needs.

Spark starts it instead of ``pyspark.daemon`` where ``spark.python.daemon.module`` names it. A
worker that imports all by itself takes more than a second of a core, and Spark ends workers that
were idle for a minute.

Only a process of one thread can be forked safely: what others hold is held for ever in the copy.
Where another has come up, or an import fails, this process becomes Spark's own daemon, and workers
import for themselves.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

#: Each module of workers has a daemon of its own; those that only plan a query need little of ours.
_WORKER = "pyspark.worker"
#: Arrow would start a thread for its second allocator, which is not the one that it uses.
_NO_THREAD = {"JE_ARROW_MALLOC_CONF": "background_thread:false"}


def main() -> None:
    """Import and fork; ``sys.argv`` is as Spark gave it, with the module that workers run."""
    if sys.argv[1:2] == [_WORKER]:
        os.environ.update(_NO_THREAD)
        if not _prepared() or _threads() > 1:
            os.execv(sys.executable, [sys.executable, "-m", "pyspark.daemon", *sys.argv[1:]])  # noqa: S606
    from pyspark.daemon import manager

    manager()


def _prepared() -> bool:
    try:
        # What its tasks run, which lies in a layer above this one.
        import sharelag.pipeline  # noqa: F401

        _load_kernels()
        _part_random_numbers()
        # else each worker's collector would write to all that it shares with the others, and so
        # copy it
        gc.freeze()
    except Exception:  # whatever it was: a worker that needs it will fail with it, and say so
        return False
    return True


def _load_kernels() -> None:
    """Have the compiled kernels read from their cache, a third of what a worker would wait for."""
    import pyarrow as pa

    from sharelag.schemas import RAW
    from sharelag.wire import decode_arrow

    decode_arrow(pa.RecordBatch.from_pylist([], schema=RAW))


def _part_random_numbers() -> None:
    """Let each worker have random numbers of its own; Python sees to its own generator."""
    import numpy as np

    os.register_at_fork(after_in_child=lambda: np.random.seed())  # noqa: NPY002


def _threads() -> int:
    return sum(1 for _ in Path("/proc/self/task").iterdir())


if __name__ == "__main__":
    main()
