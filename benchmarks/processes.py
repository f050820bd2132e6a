"""CPU time of this process, of its children, and of other living processes."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import psutil


def cpu_seconds(pids: Iterable[int] = ()) -> float:
    """Return the CPU time of this process, of children that have ended, and of living processes.

    Parameters
    ----------
    pids : iterable of int
        Living processes, such as a JVM, which count with all of their descendants. Other living
        children, such as a broker that both sides use, do not count.
    """
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = time.process_time() + ended.ru_utime + ended.ru_stime
    for process in family(pids):
        with suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:4])  # including its ended children
    return total


def family(pids: Iterable[int]) -> list[psutil.Process]:
    """Return processes with all of their living descendants."""
    found: dict[int, psutil.Process] = {}
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            found |= {one.pid: one for one in (process, *process.children(recursive=True))}
    return list(found.values())


def load() -> tuple[float, float, float]:
    """Return the load averages of one, five and fifteen minutes."""
    return os.getloadavg()


def command(arguments: Sequence[str], seconds: float = 600, **options: object) -> str:
    """Run a command, including its start, and return its output.

    It uses compiled bytecode, as in an installed package; otherwise modules are compiled each time.
    """
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(  # type: ignore[call-overload]
        list(arguments), capture_output=True, text=True, timeout=seconds, check=False,
        **{"env": environment} | options,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments[:4])} failed: {done.stderr[-2000:]}")
    return str(done.stdout)


def own_python(code: str, *arguments: str) -> list[str]:
    """Return the command that runs code in a separate process."""
    return [sys.executable, "-c", code, *arguments]


def peak_memory(pid: Callable[[], int | None], work: Callable[[], object]) -> tuple[object, int]:
    """Run work, and return its answer and the peak memory of a process family meanwhile.

    Samples every 20 ms, so shorter peaks are missed.
    """
    most, done = 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.02):
            if (now := pid()) is not None:
                most = max(most, resident(now))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        answer = work()
    finally:
        done.set()
        watcher.join()
    return answer, most


def resident(pid: int) -> int:
    """Return the memory of a process and its descendants in bytes.

    Pages that forked workers share with their parent count once.
    """
    total = 0
    for process in family([pid]):
        with suppress(psutil.NoSuchProcess):
            total += process.memory_full_info().pss
    return total
