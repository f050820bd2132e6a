"""Create the virtual environment that everything else runs in. Needs nothing but the standard library."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

OLDEST_PYTHON = (3, 11)
OLDEST_JAVA = 17


def main(folder: Path) -> int:
    """Check the machine, then install the pinned versions and this checkout."""
    if sys.version_info < OLDEST_PYTHON:
        found = ".".join(map(str, sys.version_info[:3]))
        return _fail(
            f"Python >= 3.11 is needed, {sys.executable} is {found}. Set PYTHON=python3.11 or newer."
        )
    java = _java_version()
    if java is None:
        return _fail("Java >= 17 is needed on the PATH. On Debian: apt install openjdk-17-jdk-headless")
    if java < OLDEST_JAVA:
        return _fail(f"Java >= 17 is needed, `java` is {java}. Put a newer one first on the PATH.")
    print(f"installing the pinned packages into {folder} ...", flush=True)
    try:
        venv.create(folder, with_pip=True, clear=folder.exists() and not (folder / "pyvenv.cfg").exists())
    except subprocess.CalledProcessError:
        return _fail("Python cannot create virtual environments here. On Debian: apt install python3-venv")
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for step in (["-r", "requirements.lock"], ["--no-deps", "--editable", "."]):
        if subprocess.run([*pip, *step], check=False).returncode:
            return _fail(
                "pip could not install the packages, see above. Without a network, point pip at a mirror "
                "(PIP_INDEX_URL) or a folder of wheels (PIP_FIND_LINKS)."
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
