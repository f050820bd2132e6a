"""The process that Spark's Python workers are forked from, with all imports done.

Spark starts it instead of ``pyspark.daemon`` if ``spark.python.daemon.module`` names it. A worker
that imports everything itself takes more than a second of a core, and Spark ends workers that were
idle for a minute.

Only a process with one thread can be forked safely: locks of other threads stay locked in the copy.
If there is another thread, or an import fails, this process becomes Spark's own daemon, and workers
import for themselves. On other systems than Linux, where forking is not known to be safe, workers
import for themselves, too.

Spark's own daemon prints a traceback whenever a worker finds its connection closed, as it is when
a query needs no more rows, such as one with a limit, or when a stream is stopped. Here it does not.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace

from sharelag import compiled

#: Each worker module has its own daemon; workers that only plan a query need few of our modules.
_WORKER = "pyspark.worker"
#: Otherwise Arrow would start a thread for an allocator that it does not use.
_NO_THREAD = {"JE_ARROW_MALLOC_CONF": "background_thread:false"}
#: A constant of Linux's prctl.
_DEATH_SIGNAL = 1
#: Code of a new process that forks workers without our imports.
_BARE = "from sharelag.inputs.spark.daemon import serve; serve()"
#: Exceptions in a worker whose connection Spark has closed: while writing, or awaiting its secret.
_CLOSED = (BrokenPipeError, ConnectionResetError, EOFError)


def main() -> None:
    """Import and fork; Spark sets ``sys.argv``, which names the module that workers run."""
    if sys.argv[1:2] == [_WORKER] and sys.platform == "linux":
        os.environ.update(_NO_THREAD)
        if not _prepare() or _threads() > 1:
            os.execv(sys.executable, [sys.executable, "-c", _BARE, *sys.argv[1:]])  # noqa: S606
    serve()


def serve() -> None:
    """Fork workers as Spark's own daemon does, without the tracebacks of closed connections."""
    from pyspark import daemon

    # The module refers to traceback by this name when it prints errors of its workers.
    quiet = SimpleNamespace(print_exc=print_unless_closed, format_exc=traceback.format_exc)
    daemon.traceback = quiet  # type: ignore[attr-defined,assignment]
    daemon.manager()


def print_unless_closed() -> None:
    """Print the error being handled, unless Spark has closed the connection and ignores it."""
    if not isinstance(sys.exc_info()[1], _CLOSED):
        traceback.print_exc()


def _prepare() -> bool:
    try:
        # The code of its tasks, which is in a layer above this one.
        import sharelag.engine.spark  # noqa: F401
        from sharelag.inputs.spark.workers import set_imports_aside

        _load_kernels()
        _part_random_numbers()
        # Otherwise each worker's garbage collector would write to the shared pages and copy them.
        set_imports_aside()
    except Exception:  # a worker that needs the module will fail with the same error
        return False
    return True


def _load_kernels() -> None:
    """Load the compiled kernels from their cache, a third of a worker's startup time."""
    from sharelag.replay.prepared import are_compiled, use_kernels

    if are_compiled():
        use_kernels()
        return
    # Compiling takes half a minute of a core, most of a first answer: a process of lowest priority
    # does it for later sessions. Until then workers use plain functions if that is faster overall.
    compiled.is_left = True
    if os.fork() == 0:
        try:
            import ctypes

            os.nice(19)
            ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)  # end with the parent
            use_kernels()
        finally:  # in any case: it must not become another daemon
            os._exit(0)


def _part_random_numbers() -> None:
    """Give each worker its own numpy seed; Python's own generator is reseeded anyway."""
    import numpy as np

    os.register_at_fork(after_in_child=lambda: np.random.seed())  # noqa: NPY002


def _threads() -> int:
    return sum(1 for _ in Path("/proc/self/task").iterdir())


if __name__ == "__main__":
    main()
