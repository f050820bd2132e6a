"""Class data sharing: an archive of Spark's loaded Java classes, which halves the startup time.

Java writes the classes that it loaded when it ends (a dynamic archive for class data sharing), and
a later Java takes the archive if it is the same build with the same jars, otherwise it starts as
usual. ``make env`` records one into the virtual environment. Where there is none, the first local
session does it: its Java writes into the user's cache folder, some seconds after the session, and
the next one takes it. Nothing is taken from a folder that others can write to.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
import sys
import time
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

#: Silences the JVM about an archive that does not fit, since it would print to standard output.
_SILENT = "-Xlog:disable"
_RECORDING = "-XX:ArchiveClassesAtExit"
_JAVA_OPTIONS = "SPARK_SUBMIT_OPTS"
#: Variables that would send the command to a Spark on another machine.
_ELSEWHERE = ("SPARK_REMOTE", "SPARK_API_MODE", "SPARK_CONNECT_MODE_ENABLED", "MASTER")
#: Seconds in which Java has written an archive, for sure.
_LONG = 3600
_COMMAND = "from sharelag.cli import main; main()"


def options() -> list[str]:
    """Return Java options for a quick start, or for recording what makes the next one quick."""
    if _RECORDING in os.environ.get(_JAVA_OPTIONS, ""):
        return []  # Java does not write an archive while it reads one
    there = archive()
    if there is not None and not there.is_file():
        there = _kept(there.stem)
    # Options with blanks would be split.
    if there is None or " " in str(there):
        return []
    if there.is_file():
        return [f"-XX:SharedArchiveFile={there}", "-Xshare:auto", _SILENT]
    return [f"{_RECORDING}={_part(there)}", _SILENT]


def archive() -> Path | None:
    """Return the path of the archive for this Spark and Java; None if either is unknown."""
    java = java_build()
    try:
        spark = version("pyspark")
    except PackageNotFoundError:
        return None
    return Path(sys.prefix, "share", "sharelag", f"spark-{spark}-java-{java}.jsa") if java else None


def _kept(name: str) -> Path | None:
    """Return the path of an archive in the user's cache folder; None where none may be kept.

    What an earlier session's Java has written to its end takes the archive's name.
    """
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "sharelag")
    # Java compares the places of the jars: each environment has a separate archive.
    environment = blake2b(sys.prefix.encode(), digest_size=6).hexdigest()
    there = folder / f"{name}-{environment}.jsa"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for part in folder.glob(f"{glob.escape(there.stem)}.*.part"):
            if _is_whole(part):
                for old in folder.glob(f"*-{environment}.jsa"):  # of another Spark or Java
                    old.unlink()
                part.replace(there)
            elif time.time() - part.stat().st_mtime > _LONG:  # its Java was killed
                part.unlink()
        is_safe = all(map(_is_ours, (folder, *([there] if there.exists() else []))))
    except OSError:  # a read-only place, or another session that does the same
        return None
    return there if is_safe else None


def _part(there: Path) -> Path:
    """Return the path that Java writes an archive to before it is whole."""
    return there.with_suffix(f".{os.getpid()}.part")


def _is_whole(part: Path) -> bool:
    """Whether Java wrote all of an archive: its first bytes come last."""
    with part.open("rb") as file:
        return _is_ours(part) and any(file.read(4))


def _is_ours(path: Path) -> bool:
    """Whether nobody else can have written a file, or into a folder."""
    stat = path.stat()
    return stat.st_uid == os.getuid() and not stat.st_mode & 0o022


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
    part = _part(there)
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
