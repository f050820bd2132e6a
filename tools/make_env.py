"""Create the virtual environment of the project. Needs only the standard library."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST_PYTHON = (3, 11)
OLDEST_JAVA = 17
#: pip's options for package sources and access to them, which are passed to uv in the environment.
#: Addresses may contain passwords, which arguments would show to all users.
WAYS = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "proxy": "ALL_PROXY",
    "cert": "SSL_CERT_FILE",
}
BYTECODE = """
import compileall, re, sysconfig
others = re.compile("/(pip|tests?)/")
compileall.compile_dir(sysconfig.get_path("purelib"), quiet=2, rx=others)
"""
KERNELS = """
from sharelag.replay.prepared import use_kernels
from sharelag.whatif.compiled.ready import make_ready
use_kernels(), make_ready()
"""
RECORD = """
import sys
from sharelag.cli.demo import CAPTURE
from sharelag.inputs.spark.java import record
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
    if advice := _install(folder):
        return _fail(advice)
    python = str(folder / "bin" / "python")
    print("compiling the kernels, and recording the classes of Spark ...", flush=True)
    # These run concurrently, once: numba caches compiled kernels beside the sources; Java records
    # the classes of a Spark session, which then starts in two thirds of the time; Python compiles
    # its own code, except what some packages ship that does not compile.
    with (
        subprocess.Popen([python, "-c", KERNELS]) as compiling,
        subprocess.Popen([python, "-c", RECORD], stdout=subprocess.DEVNULL) as recording,
    ):
        subprocess.run([python, "-c", BYTECODE], check=False)
    if compiling.returncode:
        return compiling.returncode
    if recording.returncode:
        print(
            "make env: Java did not record the classes of Spark; sessions will start more slowly",
            file=sys.stderr,
        )
    return 0


def _install(folder: Path) -> str | None:
    """Install the pinned packages and this checkout; return advice if that fails."""
    python = folder / "bin" / "python"
    if subprocess.run([sys.executable, "-m", "venv", str(folder)], check=False).returncode:
        return "Python has no venv. On Debian: apt install python3-venv"
    # pip takes 90 seconds where uv takes 10, but pip is what users have configured.
    pins = re.split(r"\n(?=\S)", Path("requirements.lock").read_text())
    (folder / "uv.txt").write_text("\n".join(pin for pin in pins if pin.startswith("uv==")))
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    uv = installing(python)
    places, ways = as_pip_was_told(python)
    steps = [
        [*pip, *locked(folder / "uv.txt")],
        [*uv, *locked(Path("requirements.lock")), *places],
        [*uv, *places, "--no-deps", "--no-build-isolation", "--editable", "."],
    ]
    for command in steps:
        if subprocess.run(command, env=ways, check=False).returncode:
            return (
                "the packages could not be installed, see above. Without a network, point pip at "
                "a mirror (PIP_INDEX_URL) or a folder of wheels (PIP_FIND_LINKS with "
                "PIP_NO_INDEX=1). Where it says that hashes do not match, a file is another than "
                "the one that was locked: do not install it."
            )
    return None


def installing(python: Path) -> list[str]:
    """Return uv's command to install into a Python's environment."""
    return [str(python.with_name("uv")), "pip", "install", "--quiet", "--python", str(python)]


def locked(lock: Path) -> list[str]:
    """Return options to install only files whose hashes are in a lock."""
    return ["--require-hashes", "--requirement", str(lock)]


def as_pip_was_told(python: Path) -> tuple[list[str], dict[str, str]]:
    """Return uv's options and environment by pip's, from its files and the environment."""
    asked = [str(python), "-m", "pip", "--disable-pip-version-check", "config", "list"]
    listed = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    # Such as "global.cert='...'" and ":env:.find-links='...'"; the latter kind takes precedence.
    told: dict[str, str] = {}
    for kind in ("global", "install", ":env:"):
        for name, value in re.findall(rf"(?m)^{kind}\.([\w-]+)=('.*'|\".*\")$", listed):
            told[name] = ast.literal_eval(value)
    links = told.get("find-links", "").split()
    places = [part for place in links for part in ("--find-links", place)]
    if told.get("no-index", "").lower() in {"1", "true", "yes", "on"}:
        places.append("--no-index")
    ways = {name: told[of].replace("\n", " ").strip() for of, name in WAYS.items() if of in told}
    return places, {**ways, **os.environ}


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
