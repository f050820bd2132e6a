"""Class data sharing: an archive of Spark's loaded Java classes, which halves the startup time.

``make env`` records it into the virtual environment: Java runs one of our commands and writes the
classes that it loaded at exit (a dynamic archive for class data sharing). `options` passes the
archive to each later Java, which uses it only for the same build with the same jars, and otherwise
starts as usual.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

#: Silences the JVM about an archive that does not fit, since it would print to standard output.
_SILENT = "-Xlog:disable"
_RECORDING = "-XX:ArchiveClassesAtExit"
_JAVA_OPTIONS = "SPARK_SUBMIT_OPTS"
#: Variables that would send the command to a Spark on another machine.
_ELSEWHERE = ("SPARK_REMOTE", "SPARK_API_MODE", "SPARK_CONNECT_MODE_ENABLED", "MASTER")
_COMMAND = "from sharelag.cli import main; main()"


def options() -> list[str]:
    """Return Java options for a quick start; empty without an archive for this Spark and Java."""
    there = archive()
    if _RECORDING in os.environ.get(_JAVA_OPTIONS, ""):
        return []  # Java does not write an archive while it reads one
    # Options with blanks would be split.
    if there is None or not there.is_file() or " " in str(there):
        return []
    return [f"-XX:SharedArchiveFile={there}", "-Xshare:auto", _SILENT]


def archive() -> Path | None:
    """Return the path of the archive for this Spark and Java; None if either is unknown."""
    java = java_build()
    try:
        spark = version("pyspark")
    except PackageNotFoundError:
        return None
    return Path(sys.prefix, "share", "sharelag", f"spark-{spark}-java-{java}.jsa") if java else None


def java_build() -> str | None:
    """Return the exact version of the Java in use, which alone can read what it archived.

    None if there is no Java, or its folder does not state the version.
    """
    java = _java()
    release = java.parent.parent / "release" if java else None
    if release is None or not release.is_file():
        return None
    said = re.search(r'^JAVA_(?:RUNTIME_)?VERSION="([^"]+)"', release.read_text(), re.MULTILINE)
    return said[1] if said else None


def record(*question: str) -> Path | None:
    """Run a command on Spark and record the classes that it loads.

    Parameters
    ----------
    *question : str
        Arguments of ``sharelag``.

    Returns
    -------
    Path or None
        The archive; None if the command failed, or Java wrote none.
    """
    there = archive()
    if there is None:
        return None
    there.parent.mkdir(parents=True, exist_ok=True)
    part = there.with_suffix(f".{os.getpid()}.part")
    here = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    wanted = here | {_JAVA_OPTIONS: f"{_RECORDING}={part} {_SILENT}"}
    # Java writes after the command has ended: reading its output to the end waits for it.
    answer = subprocess.run(
        [sys.executable, "-c", _COMMAND, *question], env=wanted, capture_output=True, check=False
    )
    if answer.returncode or not part.is_file():
        part.unlink(missing_ok=True)
        return None
    return part.replace(there)


def _java() -> Path | None:
    """Return the Java that Spark's own scripts use."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    return Path(found).resolve() if found and Path(found).exists() else None
