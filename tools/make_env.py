"""Create the virtual environment of the project. Needs only the standard library."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST_PYTHON = (3, 11)
OLDEST_JAVA = 17
BYTECODE = """
import compileall, sysconfig
compileall.compile_dir(sysconfig.get_path("purelib"), quiet=2)
"""
RECORD = """
import sys
from sharelag.cli.demo import CAPTURE
from sharelag.sources.spark.class_data import record
sys.exit(record("lag", "--capture", str(CAPTURE), "--engine", "spark") is None)
"""


def main(folder: Path) -> int:
    """Check the machine, then install the pinned versions and this checkout."""
    if sys.version_info < OLDEST_PYTHON:
        found = ".".join(map(str, sys.version_info[:3]))
        return _fail(
            f"Python >= 3.11 is needed, {sys.executable} is {found}. "
            "Set PYTHON=python3.11 or newer."
        )
    java = _java_version()
    if java is None:
        return _fail(
            "Java >= 17 is needed on the PATH. On Debian: apt install openjdk-17-jdk-headless"
        )
    if java < OLDEST_JAVA:
        return _fail(f"Java >= 17 is needed, `java` is {java}. Put a newer one first on the PATH.")
    print(f"installing the pinned packages into {folder} ...", flush=True)
    python = str(folder / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    no_network = (
        "pip could not install the packages, see above. Without a network, point pip at a mirror "
        "(PIP_INDEX_URL) or a folder of wheels (PIP_FIND_LINKS). Where it says that hashes do not "
        "match, a file is another than the one that was locked: do not install it."
    )
    steps = [
        (
            [sys.executable, "-m", "venv", str(folder)],
            "Python has no venv. On Debian: apt install python3-venv",
        ),
        ([*pip, "--require-hashes", "-r", "requirements.lock"], no_network),
        ([*pip, "--no-deps", "--no-build-isolation", "--editable", "."], no_network),
    ]
    for command, advice in steps:
        if subprocess.run(command, check=False).returncode:
            return _fail(advice)
    print("compiling the kernels ...", flush=True)
    # Once and for all: numba keeps what it compiled beside the sources.
    warm = [
        python,
        "-c",
        "from sharelag.cli import main; main()",
        "demo",
        "--engine",
        "local",
        "--out",
        str(folder / "warm"),
    ]
    # Python's own code meanwhile, on another processor; what some packages ship does not compile.
    with subprocess.Popen([python, "-c", BYTECODE]):
        warmed = subprocess.run(warm, capture_output=True, text=True, check=False)
    if warmed.returncode:
        sys.stderr.write(warmed.stderr)
        return warmed.returncode
    print("recording the classes of Spark ...", flush=True)
    # A session starts in two thirds of the time with them, and as ever without.
    recorded = (
        subprocess.run([python, "-c", RECORD], stdout=subprocess.DEVNULL, check=False).returncode
        == 0
    )
    if not recorded:
        print(
            "make env: Java did not record the classes of Spark; sessions will start more slowly",
            file=sys.stderr,
        )
    return 0


def _java_version() -> int | None:
    java = shutil.which("java")
    if java is None:
        return None
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(found[1]) if found else None


def _fail(message: str) -> int:
    print(f"make env: {message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
