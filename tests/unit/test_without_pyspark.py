"""Without pyspark the quick look works, and the rest says what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.chapters import CAPTURE

pytestmark = pytest.mark.slow

_BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j", "grpc"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
"""
_COMMAND = "from sharelag.cli import main; main()"


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _BLOCKED + code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_package_is_imported() -> None:
    assert run(
        "import sharelag; print(sharelag.__version__, sharelag.replay.replay([]))"
    ).stdout.endswith(" {}\n")


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["--help"], "Usage"),
        (["lag", "--capture", str(CAPTURE), "--engine", "local"], "billing"),
        (["lag", "--capture", str(CAPTURE)], "billing"),
        (["explain", "--capture", str(CAPTURE), "--group", "billing"], "billing"),
        (["simulate", "--scenario", "idle-members", "--duration", "5s"], "idle-members"),
    ],
)
def test_the_command_line_answers(command: list[str], shown: str) -> None:
    done = run(_COMMAND, *command)
    assert done.returncode == 0, done.stderr
    assert shown in done.stdout


@pytest.mark.parametrize(
    "command",
    [
        ["lag", "--capture", str(CAPTURE), "--engine", "spark"],
        ["capture", "--follow", "--bootstrap-server", "127.0.0.1:1", "out/never"],
        ["simulate", "--scenario", "idle-members", "--duration", "5s", "--sweep", "out/never"],
    ],
)
def test_a_command_on_spark_says_what_to_install(command: list[str]) -> None:
    done = run(_COMMAND, *command)
    assert done.returncode == 1
    assert "Spark is not installed here: pip install 'sharelag[spark]'" in done.stderr
    assert "unexpected" not in done.stderr


def test_whatever_is_on_spark_says_what_to_install() -> None:
    requested = (
        "sharelag.open('chapters').lag()",
        "sharelag.open('chapters').frames",
        "sharelag.open('chapters', spark=object()).lag()",
        "sharelag.open('chapters', engine='local').frames",
        "here.to_spark()",
        "sharelag.decode",
        "sharelag.stream",
        "__import__('sharelag.pipeline.sweep')",
    )
    code = f"""
import sharelag
here = sharelag.open('chapters', engine='local').lag()
for each in {requested}:
    try:
        eval(each)
    except Exception as error:
        print(type(error).__name__, error)
print(len(here))
"""
    *said, rows = run(code).stdout.splitlines()
    assert int(rows) > 0
    assert len(said) == len(requested)
    assert {line.partition(",")[0] for line in said} == {
        "SetupError Spark is not installed here: pip install 'sharelag[spark]'"
    }


def test_a_session_says_what_to_install() -> None:
    done = run("from sharelag.sources.spark import session; session()")
    assert "SetupError: Spark is not installed here: pip install 'sharelag[spark]'" in done.stderr
    assert 'engine="local"' in done.stderr
