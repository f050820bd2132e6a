"""The Java of a local Spark: its start, its archive of loaded classes, and its interrupted jobs."""

from __future__ import annotations

import atexit
import glob
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from threading import Thread, current_thread, main_thread
from types import FrameType
from typing import Any

from sharelag.compiled import begin_later
from sharelag.java import find_java

# ---- an archive of loaded classes ---------------------------------------------------------------


#: Silences the JVM's messages about an unsuitable archive, which would go to standard output.
_SILENT = "-Xlog:disable"
_RECORDING = "-XX:ArchiveClassesAtExit"
#: A process of seconds gains nothing from Java's second compiler, which takes a sixth of its time.
_BRIEFLY = "-XX:TieredStopAtLevel=1"
_JAVA_OPTIONS = "SPARK_SUBMIT_OPTS"
#: Variables that would send the command to Spark on another machine.
_ELSEWHERE = ("SPARK_REMOTE", "SPARK_API_MODE", "SPARK_CONNECT_MODE_ENABLED", "MASTER")
#: Seconds after which Java has certainly finished writing an archive.
_LONG = 3600
_COMMAND = "from sharelag.cli import main; main()"
#: Identifies this environment: Java compares the paths of the jars.
_ENVIRONMENT = blake2b(sys.prefix.encode(), digest_size=6).hexdigest()
#: A command that loads the classes of a typical answer.
_QUESTION = ("lag", "--capture", "demo", "--engine", "spark")
_LATER = (
    "import os; os.nice(19); from sharelag.compiled import run_alone; "
    "from sharelag.inputs.spark import java; from sharelag.replay import prepared; "
    "java.prepare() and run_alone(prepared.use_kernels)"
)


def archive_options() -> list[str]:
    """Return Java options for a quick start; none if no classes have been recorded."""
    there = _place()
    is_there = there is not None and there.is_file()
    return [f"-XX:SharedArchiveFile={there}", "-Xshare:auto", _SILENT] if is_there else []


def prepare_at_exit() -> None:
    """Start another process when this one ends, which prepares for later sessions.

    It records classes and compiles kernels, with the lowest priority. Recording in the session
    itself would make its first answer slower by half.
    """
    there = _place()
    if there is not None and not there.exists():
        atexit.unregister(_begin)  # a second session of this process
        atexit.register(_begin)


def _begin() -> None:
    begin_later(_LATER)


def prepare() -> bool:
    """Record classes for later sessions; return False if another process does or did so."""
    there = _place()
    if there is None or there.exists() or any(there.parent.glob(_parts_of(there))):
        return False
    _part(there).touch()
    if record(*_QUESTION, there=there):
        for old in there.parent.glob(f"*-{_ENVIRONMENT}.jsa"):  # of another Spark or Java
            if old != there:
                old.unlink()
    return True


def _place() -> Path | None:
    """Return the path of the archive, or for a new one; None if there is no path."""
    # While Java records, it has no path: Java does not write an archive while it reads one.
    if _RECORDING in os.environ.get(_JAVA_OPTIONS, ""):
        return None
    there = archive()
    if there is not None and not there.is_file():
        there = _kept(there.stem)
    # Options with blanks would be split.
    return None if " " in str(there) else there


def archive() -> Path | None:
    """Return the path of the archive for this Spark and Java; None if either is unknown."""
    java = java_build()
    try:
        spark = version("pyspark")
    except PackageNotFoundError:
        return None
    return Path(sys.prefix, "share", "sharelag", f"spark-{spark}-java-{java}.jsa") if java else None


def _kept(name: str) -> Path | None:
    """Return the path of an archive in the user's cache folder; None if none may be written."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "sharelag")
    there = folder / f"{name}-{_ENVIRONMENT}.jsa"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for part in folder.glob(_parts_of(there)):
            if time.time() - part.stat().st_mtime > _LONG:  # its Java was killed
                part.unlink()
        is_safe = all(map(_is_ours, (folder, *([there] if there.exists() else []))))
    except OSError:  # a read-only folder, or another session that does the same
        return None
    return there if is_safe else None


def _part(there: Path) -> Path:
    return there.with_suffix(f".{os.getpid()}.part")


def _parts_of(there: Path) -> str:
    return f"{glob.escape(there.stem)}.*.part"


def _is_ours(path: Path) -> bool:
    """Return whether no other user can have written a file, or into a folder."""
    stat = path.stat()
    return stat.st_uid == os.getuid() and not stat.st_mode & 0o022


def java_build() -> str | None:
    """Return the exact Java version, the only one that reads its archive; None if unknown."""
    java = find_java()
    release = java.resolve().parent.parent / "release" if java else None
    if release is None or not release.is_file():
        return None
    match = re.search(r'^JAVA_(?:RUNTIME_)?VERSION="([^"]+)"', release.read_text(), re.MULTILINE)
    return match[1] if match else None


def record(*question: str, there: Path | None = None) -> Path | None:
    """Run a command on Spark and record the classes that it loads; return the archive.

    The default is the environment's archive. Return None if the command fails or Java writes none.
    """
    there = there or archive()
    if there is None:
        return None
    there.parent.mkdir(parents=True, exist_ok=True)
    part = _part(there)
    here = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    variables = here | {_JAVA_OPTIONS: f"{_RECORDING}={part} {_SILENT} {_BRIEFLY}"}
    # Java writes after the command has ended; reading its output to the end waits for that.
    answer = subprocess.run(
        [sys.executable, "-c", _COMMAND, *question], env=variables, capture_output=True, check=False
    )
    if answer.returncode or not part.exists() or not part.stat().st_size:
        part.unlink(missing_ok=True)
        return None
    return part.replace(there)


# ---- Java's output -------------------------------------------------------------------------------
# Spark starts Java with --add-modules=jdk.incubator.vector whatever its settings say, and Java then
# warns of incubator modules, which no option turns off. The module speeds up linear algebra, so
# keep it and remove the line. A Python worker that starts too late for Spark prints a traceback
# that it cannot connect; Spark raises that in the driver, which starts a stream again
# (`sharelag.inputs.spark.queries.start_query`). All other output is passed on unchanged.

#: Java's warning about a module that Spark requests.
NOISE = b"WARNING: Using incubator modules: jdk.incubator.vector\n"
#: First line of a Python worker's traceback, and the last one if it started too late.
_TRACEBACK = b"Traceback (most recent call last):\n"
_TOO_LATE = b"PySparkRuntimeError: [CANNOT_OPEN_SOCKET] "
_STANDARD_ERROR = 2


def start(settings: Mapping[str, str]) -> None:
    """Start Spark's Java with these settings for this process, unless it has one.

    It is a PySparkException if Java ends at once; its output has been passed on.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return
    conf = SparkConf(loadDefaults=False)
    for name, value in settings.items():
        conf.set(name, value)
    reader, writer = os.pipe()
    passing = Thread(target=_pass_on, args=(reader,), name="what Java writes", daemon=True)
    passing.start()
    try:
        gateway = launch_gateway(  # type: ignore[no-untyped-call]
            conf, popen_kwargs={"stderr": writer}
        )
    except BaseException:
        os.close(writer)
        passing.join(timeout=5)  # Java's output should precede our error
        raise
    os.close(writer)
    SparkContext._ensure_initialized(gateway=gateway)


def of_use(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines except Java's warning about modules and tracebacks of late workers."""
    held: list[bytes] = []
    for line in lines:
        if line == _TRACEBACK or (held and line.startswith(b" ")):
            held.append(line)
        elif held and _TOO_LATE in line:
            held.clear()
        else:
            yield from held
            held.clear()
            if line != NOISE:
                yield line
    yield from held


def _pass_on(reader: int) -> None:
    with os.fdopen(reader, "rb") as lines:
        for line in of_use(lines):
            os.write(_STANDARD_ERROR, line)


# ---- interrupts ----------------------------------------------------------------------------------
# pyspark handles them only if its context is created in the main thread, because Python sets signal
# handlers nowhere else, and a notebook's kernel restores Python's own before each cell. A dashboard
# starts Spark in a thread. So each question in the main thread sets a handler.


#: Number of requests before the jobs are left alone.
_ATTEMPTS = 10
#: The module with pyspark's own handler.
_PYSPARK_MODULE = "pyspark.core.context"
#: The context that we created.
_OURS: list[Any] = []


def note_start() -> None:
    """Record that we started the active Spark."""
    _OURS[:] = filter(None, [_context()])


def cancel_jobs() -> None:
    """Let an interrupt of the main thread cancel the jobs of a Spark that we started.

    Handlers set by others are kept, except pyspark's, which contacts Java before the interrupted
    call has released its connection. Spark Connect has no such jobs in this process.
    """
    if not _OURS or current_thread() is not main_thread() or _context() is not _OURS[0]:
        return
    there = signal.getsignal(signal.SIGINT)
    if there is signal.default_int_handler or getattr(there, "__module__", "") == _PYSPARK_MODULE:
        signal.signal(signal.SIGINT, _cancel)


def _cancel(number: int, frame: FrameType | None) -> None:
    context = _context()
    if context is not None:
        # The main thread's connection to Java may be busy with that very job.
        Thread(target=_ask, args=(context,), name="sharelag-cancel", daemon=True).start()
    signal.default_int_handler(number, frame)


def _ask(context: Any) -> None:
    """Ask Java to cancel all jobs; if Java has ended, there are none."""
    from py4j.protocol import Py4JNetworkError

    for _ in range(_ATTEMPTS):
        # On a busy machine the first connection after an interrupt may fail; the next one is new.
        with suppress(Py4JNetworkError, OSError):
            context.cancelAllJobs()
            return


def _context() -> Any:
    from pyspark import SparkContext

    return SparkContext._active_spark_context
