"""Run tests on other versions of Python, of pyspark, classic and by Spark Connect, and of Kafka.

``python3.13`` runs the fast tests, and those of DataFrames, on that Python with the pinned
packages; ``lowest`` the fast tests on the lower bounds of all ranges in pyproject.toml; a version
of pyspark all tests that depend on Spark; ``ways4.1`` with that version only all ways from records
to lag, for ``python -m tools.ways_page``. Each gets a virtual environment under .venvs/.
``kafka4.3`` runs the tests that compare with that Kafka's brokers, tools and classes, in the
environment of `make env`. All need that environment, whose uv they use, and the interpreters: on
the PATH, or beside the current one, where pyenv, uv and others install them.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from tools.make_env import as_pip_was_told

ENVIRONMENTS = Path(".venvs")
LOWEST, PYTHON, WAYS, KAFKA = "lowest", "python", "ways", "kafka"
#: Tests that depend on Spark.
TESTS = [
    "tests/spark",
    "tests/kafka/test_spark_source.py",
    "tests/kafka/test_spark_kafka.py",
    "tests/kafka/test_offsets.py",
]
#: Tests for every Python, in addition to the fast ones.
TESTS_OF_PYTHON = ["tests/unit", "tests/spark/test_frames.py", "tests/spark/test_types.py"]
#: Named one by one, so that those that are left to `make test-exhaustive` run, too.
TESTS_OF_WAYS = ["--delta"] + [
    f"{module}::test_lag_is_that_of_one_process"
    for module in ("tests/spark/test_ways.py", "tests/kafka/test_ways.py")
]
#: Tests whose results may depend on the version of Kafka. Those that need a later one are skipped
#: with the reason.
TESTS_OF_KAFKA = ["-rs"] + [
    f"tests/kafka/test_{name}.py"
    for name in [
        *["lag_against_kafka", "members", "plan_reset", "wire_against_kafka"],
        *["releases", "settings", "command_lines"],
    ]
]
#: The latest version of each release.
KAFKAS = {"4.1": "4.1.1", "4.2": "4.2.0", "4.3": "4.3.1", "4.4": "4.4.0"}
#: Streams of the data source need pyspark 4.2.
_STREAMS = "a_stream"
#: Also skipped: a test of the same reader.
_NOT = [_STREAMS, "pruned"]
#: Skipped on Connect: tests that start their own cluster, those that count micro-batches, as
#: foreachBatch runs on the server, and those that look at plans, jobs and errors of this process's
#: own Java.
_NOT_CONNECT = [
    *("cluster_of_two", "micro_batch", "deleted_share_partition", "restarted_query", "topic_grew"),
    *("(other_writers and function)", "one_pass", "sparks_cache", "and_a_bar"),
    *("error_of_java", "javas_error", "ends_a_query"),
]
CHOICE = {
    "classic": f"not ({' or '.join(_NOT)})",
    "connect": f"not ({' or '.join([*_NOT, *_NOT_CONNECT])})",
}
#: pyspark 4.0 leaves the sockets of its results to the garbage collector.
PATIENCE = ["-W", "ignore:unclosed <socket.socket:ResourceWarning"]

#: The oldest ipywidgets uses metadata of traits in a form that traitlets deprecates.
OLD_WIDGETS = ["-W", "ignore:Deprecated in traitlets 4.1:DeprecationWarning"]


def main(arguments: list[str]) -> int:
    """Test each version with each kind of session; return 0 if all tests passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "versions",
        nargs="+",
        help="such as python3.13, lowest, 4.0 (of pyspark, the newest of which is taken), 4.0.1, "
        "ways4.0 or kafka4.3",
    )
    parser.add_argument(
        "--kind", choices=list(CHOICE), action="append", help="only this kind of session"
    )
    asked = parser.parse_args(arguments)
    outcomes = {}
    for version in asked.versions:
        if version.startswith(PYTHON):
            interpreter = find(version)
            if interpreter is None:
                where = f"neither on the PATH nor beside {sys.base_prefix}"
                print(f"{version}: {where}: install it, such as by uv python install", flush=True)
                outcomes[version, "not there"] = 1
                continue
            print(f"{version}: {interpreter}", flush=True)
            command = [*pytest(environment(version, interpreter)), "-m", "not slow"]
            outcomes[version, "fast tests"] = subprocess.run(
                [*command, *TESTS_OF_PYTHON], check=False
            ).returncode
            continue
        if version == LOWEST:
            chosen = ["-m", "not slow", "-k", f"not {_STREAMS}"]
            command = [*pytest(lowest()), *chosen, *OLD_WIDGETS, "tests/unit"]
            outcomes[version, "fast tests"] = subprocess.run(command, check=False).returncode
            continue
        if version.startswith(KAFKA):
            number = version.removeprefix(KAFKA)
            told = os.environ | {"SHARELAG_KAFKA_VERSION": KAFKAS.get(number, number)}
            print(f"Kafka {told['SHARELAG_KAFKA_VERSION']}", flush=True)
            command = [*pytest(Path(sys.executable)), *TESTS_OF_KAFKA]
            code = subprocess.run(command, env=told, check=False).returncode
            outcomes[version, "what Kafka judges"] = code
            continue
        number = version.removeprefix(WAYS)
        python = environment(f"pyspark-{number}", pyspark=number)
        for kind in asked.kind or CHOICE:
            print(f"pyspark {version}, {kind}", flush=True)
            chosen = TESTS_OF_WAYS if number != version else [*TESTS, "-k", CHOICE[kind]]
            command = [*pytest(python), "--spark", kind, *PATIENCE, *chosen]
            outcomes[version, kind] = subprocess.run(command, check=False).returncode
    for (version, kind), code in outcomes.items():
        print(f"{version}, {kind}: {'good' if code == 0 else 'failed'}")
    return int(any(outcomes.values()))


def pytest(python: Path) -> list[str]:
    """Return the command that runs tests with an interpreter."""
    return [str(python), "-m", "pytest", "-q"]


def find(name: str) -> Path | None:
    """Find an interpreter such as ``python3.13``; None if there is none that runs."""
    on_path = shutil.which(name)
    beside = sorted(Path(sys.base_prefix).parent.glob(f"*/bin/{name}"))
    for python in ([Path(on_path)] if on_path else []) + beside:
        # pyenv also puts scripts of this name on the PATH for versions that are not selected.
        done = subprocess.run([python, "-V"], capture_output=True, check=False)
        if done.returncode == 0:
            return python
    return None


def environment(
    name: str, interpreter: Path = Path(sys.executable), pyspark: str | None = None
) -> Path:
    """Create or update the environment of an interpreter, or a pyspark; return its Python."""
    folder = ENVIRONMENTS / name
    python, wanted = _made(folder, interpreter), ["--requirement", "requirements.lock"]
    if pyspark is not None:
        others = folder / "requirements.txt"
        # A pin extends from its name to the next line that is not indented: hashes are on separate
        # lines.
        pins = re.split(r"\n(?=\S)", Path("requirements.lock").read_text())
        kept = [pin for pin in pins if not pin.startswith(("pyspark==", "py4j=="))]
        others.write_text("\n".join(kept))
        exact = pyspark if pyspark.count(".") > 1 else f"{pyspark}.*"
        wanted = ["--requirement", str(others), f"pyspark=={exact}"]
    _install(python, *wanted)
    return python


def lowest() -> Path:
    """Create or update the environment of all lower bounds; return its Python."""
    python, pins = _made(ENVIRONMENTS / LOWEST), ENVIRONMENTS / LOWEST / "requirements.txt"
    choose = ["--python-version", "3.11", "--resolution", "lowest-direct", "--all-extras"]
    _uv("pip", "compile", *choose, "-o", str(pins), "pyproject.toml", *_where())
    _install(python, "--requirement", str(pins))
    return python


def _made(folder: Path, interpreter: Path = Path(sys.executable)) -> Path:
    """Create a virtual environment unless it exists; return its Python."""
    python = folder / "bin" / "python"
    if not python.exists():
        _uv("venv", "--python", str(interpreter), str(folder))
    return python


def _install(python: Path, *what: str) -> None:
    """Install packages and this checkout."""
    for one in (what, ("--no-deps", "--editable", ".")):
        _uv("pip", "install", "--python", str(python), *one, *_where())


def _where() -> list[str]:
    return _told()[0]


def _uv(*arguments: str) -> None:
    """Run the uv of `make env`, with pip's options for package sources."""
    uv = str(Path(sys.executable).with_name("uv"))
    subprocess.run([uv, "--quiet", *arguments], env=_told()[1], check=True)


@cache
def _told() -> tuple[list[str], dict[str, str]]:
    return as_pip_was_told(Path(sys.executable))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
