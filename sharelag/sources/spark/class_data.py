"""Spark's classes as Java keeps them once they are loaded, so that the next session starts in half the time.

``make env`` records them into the virtual environment: Java runs a question of ours and writes at
its end what it loaded (a dynamic archive for class data sharing). `options` names the archive to
each later Java, which takes it only if it is of the same build with the same jars, and starts as
ever if not.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

#: Says nothing about an archive that does not fit, nor anything else of the JVM: that would go to
#: standard output.
_SILENT = "-Xlog:disable"
_RECORDING = "-XX:ArchiveClassesAtExit"
_JAVA_OPTIONS = "SPARK_SUBMIT_OPTS"
#: What would take the question to a Spark that is not of this machine.
_ELSEWHERE = ("SPARK_REMOTE", "SPARK_API_MODE", "SPARK_CONNECT_MODE_ENABLED", "MASTER")
_COMMAND = "from sharelag.cli import main; main()"


def options() -> list[str]:
    """What Java has to be told for a quick start; nothing where nothing was recorded for this Spark and this Java."""
    there = archive()
    if _RECORDING in os.environ.get(_JAVA_OPTIONS, ""):
        return []  # Java does not write an archive while it reads one
    # Options with blanks would be taken apart.
    if there is None or not there.is_file() or " " in str(there):
        return []
    return [f"-XX:SharedArchiveFile={there}", "-Xshare:auto", _SILENT]


def archive() -> Path | None:
    """Where the archive for this Spark and this Java lies, or would; None where either cannot be told."""
    java = _java()
    release = java.parent.parent / "release" if java else None
    if release is None or not release.is_file():
        return None
    said = re.search(r'^JAVA_(?:RUNTIME_)?VERSION="([^"]+)"', release.read_text(), re.MULTILINE)
    try:
        spark = version("pyspark")
    except PackageNotFoundError:
        return None
    return (
        Path(sys.prefix, "share", "sharelag", f"spark-{spark}-java-{said[1]}.jsa") if said else None
    )


def record(*question: str) -> Path | None:
    """Run the command line on Spark, and keep the classes that it loads.

    Parameters
    ----------
    *question : str
        Arguments of ``sharelag``.

    Returns
    -------
    Path or None
        The archive; None if the question failed, or Java wrote none.
    """
    there = archive()
    if there is None:
        return None
    there.parent.mkdir(parents=True, exist_ok=True)
    part = there.with_suffix(f".{os.getpid()}.part")
    here = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    wanted = here | {_JAVA_OPTIONS: f"{_RECORDING}={part} {_SILENT}"}
    # Java outlives the command while it writes: reading its output to the end waits for it.
    answer = subprocess.run(
        [sys.executable, "-c", _COMMAND, *question], env=wanted, capture_output=True, check=False
    )
    if answer.returncode or not part.is_file():
        part.unlink(missing_ok=True)
        return None
    return part.replace(there)


def _java() -> Path | None:
    """The Java that Spark's own scripts will take."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    return Path(found).resolve() if found and Path(found).exists() else None
