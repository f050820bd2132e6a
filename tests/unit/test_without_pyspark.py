"""Does the quick look work where pyspark is not installed, and does the rest say what to install?"""

from __future__ import annotations

import subprocess
import sys

import pytest

from sharelag.cli.demo import CAPTURE

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
        [sys.executable, "-c", _BLOCKED + code, *arguments], capture_output=True, text=True, check=False, timeout=120
    )


def test_the_package_is_imported() -> None:
    assert run("import sharelag; print(sharelag.__version__, sharelag.replay.replay([]))").stdout.endswith(" {}\n")


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["--help"], "Usage"),
        (["lag", "--capture", str(CAPTURE), "--engine", "local"], "billing"),
        (["lag", "--capture", str(CAPTURE)], "billing"),
        (["explain", "--capture", str(CAPTURE), "--group", "billing"], "billing"),
        (["simulate", "--scenario", "idle-members", "--duration", "5"], "idle-members"),
    ],
)
def test_the_command_line_answers(command: list[str], shown: str) -> None:
    done = run(_COMMAND, *command)
    assert done.returncode == 0, done.stderr
    assert shown in done.stdout


def test_a_session_says_what_to_install() -> None:
    done = run("from sharelag.sources.spark import session; session()")
    assert "SetupError: Spark is not installed here: pip install 'sharelag[spark]'" in done.stderr
    assert 'engine="local"' in done.stderr
