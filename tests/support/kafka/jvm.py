"""Find Java and call it."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

#: Many short-lived JVMs on a small machine: the quick compiler only, one collector thread, a small
#: heap, and no counters that a JVM without work would wake up for twenty times a second.
FAST_JVM = (
    *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"),
    *("-Xshare:auto", "-Xms64m"),
)
#: One JVM that works long enough to be timed: both compilers, and the cheapest collector.
TIMED_JVM = ("-XX:+UseSerialGC", "-Xshare:auto", "-Xms2g")
_LOGGING = Path(__file__).with_name("log4j2.properties")


class RigError(Exception):
    """A part of the test rig is missing or did not come up; the message says what to do."""


def find_java(tool: str = "java") -> Path:
    """Find a Java program through ``JAVA_HOME``, then ``PATH``.

    ``tool``: ``java`` or ``javac``.
    """
    home = os.environ.get("JAVA_HOME")
    candidates = [Path(home, "bin", tool)] if home else []
    on_path = shutil.which(tool)
    if on_path:
        candidates.append(Path(on_path))
    for candidate in candidates:
        if os.access(candidate, os.X_OK):
            return candidate
    raise RigError(
        f"no `{tool}` in JAVA_HOME ({home or 'not set'}) or on PATH. Tests against a real Kafka "
        "need a JDK "
        "of version 17 or newer (Debian: apt-get install openjdk-17-jdk-headless); "
        "then set JAVA_HOME or PATH."
    )


def java_command(
    class_path: Sequence[str | Path],
    main_class: str,
    *args: str,
    heap: str = "256m",
    flags: Sequence[str] = FAST_JVM,
    requests: Path | None = None,
) -> list[str]:
    """Build the command line of a JVM that logs warnings and errors to standard error.

    With ``requests`` a broker logs there each request that it has answered.
    """
    log = [f"-Dlog4j2.configurationFile={_LOGGING}"]
    if requests is not None:
        log += [f"-Dkafka.requests.file={requests}", "-Dkafka.requests.level=debug"]
    return [
        str(find_java()),
        *flags,
        f"-Xmx{heap}",
        *log,
        "-Dlog4j2.disableJmx=true",
        "-cp",
        os.pathsep.join(str(entry) for entry in class_path),
        main_class,
        *args,
    ]


def run_java(
    class_path: Sequence[str | Path],
    main_class: str,
    *args: str,
    timeout: float = 120,
    flags: Sequence[str] = FAST_JVM,
) -> subprocess.CompletedProcess[str]:
    """Run a Java program to its end and return its output; the caller checks the exit code."""
    command = java_command(class_path, main_class, *args, flags=flags)
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


def java_version() -> str:
    """Return the first line of ``java -version``."""
    done = subprocess.run([find_java(), "-version"], capture_output=True, text=True, check=True)
    return done.stderr.splitlines()[0]
