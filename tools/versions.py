"""Run the pipeline's tests on other versions of pyspark, classic and through Spark Connect.

``lowest`` runs the fast tests on the oldest release that each range of pyproject.toml takes.
Each version gets a virtual environment under .venvs/, with the pinned packages but for pyspark.
Needs the environment of `make env`, whose uv it uses.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

from tools.make_env import as_pip_was_told

ENVIRONMENTS = Path(".venvs")
LOWEST = "lowest"
#: What depends on Spark.
TESTS = [
    "tests/spark",
    "tests/kafka/test_spark_source.py",
    "tests/kafka/test_spark_kafka.py",
    "tests/kafka/test_offsets.py",
]
#: Streams of the data source need pyspark 4.2.
_STREAMS = "a_stream"
#: Left out, too: tests that kill and restart, which take minutes.
_NOT = ["killed", _STREAMS, "pruned", "created_again"]
#: Left out on Connect: tests that start a cluster of their own, those that count micro-batches, as
#: foreachBatch runs on the server, and those whose errors come from this process's own Java.
_NOT_CONNECT = [
    *("cluster_of_two", "every_micro_batch", "deleted_created", "deleted_share_partition"),
    *("error_of_java", "javas_error"),
]
CHOICE = {
    "classic": f"not ({' or '.join(_NOT)})",
    "connect": f"not ({' or '.join([*_NOT, *_NOT_CONNECT])})",
}
#: pyspark 4.0 leaves the sockets of its results to the garbage collector.
PATIENCE = ["-W", "ignore:unclosed <socket.socket:ResourceWarning"]

#: The oldest ipywidgets asks for the metadata of traits as traitlets advises against.
OLD_WIDGETS = ["-W", "ignore:Deprecated in traitlets 4.1:DeprecationWarning"]


def main(arguments: list[str]) -> int:
    """Test each version as each kind; the exit code says whether all were good."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "versions", nargs="+", help="such as 4.0, the newest of which is taken, 4.0.1, or lowest"
    )
    parser.add_argument(
        "--kind", choices=list(CHOICE), action="append", help="only this kind of session"
    )
    asked = parser.parse_args(arguments)
    outcomes = {}
    for version in asked.versions:
        if version == LOWEST:
            chosen = ["-m", "not slow", "-k", f"not {_STREAMS}"]
            command = [str(lowest()), "-m", "pytest", "-q", *chosen, *OLD_WIDGETS, "tests/unit"]
            outcomes[version, "fast tests"] = subprocess.run(command, check=False).returncode
            continue
        python = environment(version)
        for kind in asked.kind or CHOICE:
            print(f"pyspark {version}, {kind}", flush=True)
            command = [
                str(python),
                "-m",
                "pytest",
                "-q",
                "--spark",
                kind,
                *PATIENCE,
                *TESTS,
                "-k",
                CHOICE[kind],
            ]
            outcomes[version, kind] = subprocess.run(command, check=False).returncode
    for (version, kind), code in outcomes.items():
        print(f"{version}, {kind}: {'good' if code == 0 else 'failed'}")
    return int(any(outcomes.values()))


def environment(version: str) -> Path:
    """Make or bring up to date the environment of a version; its Python."""
    folder = ENVIRONMENTS / f"pyspark-{version}"
    python, others = _made(folder), folder / "requirements.txt"
    # A pin goes from its name to the next line that is not indented: hashes are lines of their own.
    pins = re.split(r"\n(?=\S)", Path("requirements.lock").read_text())
    others.write_text("\n".join(pin for pin in pins if not pin.startswith(("pyspark==", "py4j=="))))
    wanted = f"pyspark=={version}" if version.count(".") > 1 else f"pyspark=={version}.*"
    _install(python, "--requirement", str(others), wanted)
    return python


def lowest() -> Path:
    """Make or bring up to date the environment of the lower ends of all ranges; its Python."""
    python, pins = _made(ENVIRONMENTS / LOWEST), ENVIRONMENTS / LOWEST / "requirements.txt"
    choose = ["--python-version", "3.11", "--resolution", "lowest-direct", "--all-extras"]
    _uv("pip", "compile", *choose, "-o", str(pins), "pyproject.toml", *_where())
    _install(python, "--requirement", str(pins))
    return python


def _made(folder: Path) -> Path:
    """Make a virtual environment unless it is there; its Python."""
    python = folder / "bin" / "python"
    if not python.exists():
        _uv("venv", "--python", sys.executable, str(folder))
    return python


def _install(python: Path, *what: str) -> None:
    """Install packages and this checkout."""
    for one in (what, ("--no-deps", "--editable", ".")):
        _uv("pip", "install", "--python", str(python), *one, *_where())


def _where() -> list[str]:
    return _told()[0]


def _uv(*arguments: str) -> None:
    """Run the uv of `make env`, told what pip was told of where packages are."""
    uv = str(Path(sys.executable).with_name("uv"))
    subprocess.run([uv, "--quiet", *arguments], env=_told()[1], check=True)


@cache
def _told() -> tuple[list[str], dict[str, str]]:
    return as_pip_was_told(Path(sys.executable))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
