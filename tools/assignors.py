"""The assignors for brokers as a jar: ``python -m tools.assignors dist`` builds it in that folder.

They are compiled for Java 17, on which Kafka's brokers run, with the interface of Kafka's jars from
Maven Central. The build is reproducible.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from sharelag.version import __version__
from tests.support.kafka.jars import build_once, cache_dir, digest, kafka_jars
from tests.support.kafka.jvm import RigError, find_java

SOURCES = Path(__file__).parents[1] / "assignors"
#: The time of the jar's entries: the first that a zip file can have.
_DATE = "1980-01-01T00:00:02Z"


def jar_name() -> str:
    """Return the file name of the jar, with the version of the package."""
    return f"sharelag-assignors-{__version__}.jar"


def build(folder: Path) -> None:
    """Compile the assignors into a jar in a folder.

    Raises
    ------
    RigError
        No compiler or jar tool was found, or the sources do not compile.
    """
    sources = sorted(map(str, SOURCES.rglob("*.java")))
    with tempfile.TemporaryDirectory(prefix="assignors-") as classes:
        _run("javac", "--release", "17", "-Xlint:all", "-Werror", "-proc:none", "-cp",
             f"{kafka_jars()}/*", "-d", classes, *sources)  # fmt: skip
        folder.mkdir(parents=True, exist_ok=True)
        _run("jar", "--create", "--date", _DATE, "--file", str(folder / jar_name()),
             "-C", classes, ".")  # fmt: skip


def assignors_jar() -> Path:
    """Return the jar in the cache, rebuilt if the sources have changed."""
    stamp = digest([SOURCES], __version__)
    return build_once(cache_dir() / f"assignors-{stamp}", build) / jar_name()


def _run(tool: str, *args: str) -> None:
    done = subprocess.run(
        [str(find_java(tool)), *args], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RigError(f"{tool} failed on the assignors:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    build(Path(sys.argv[1]))
