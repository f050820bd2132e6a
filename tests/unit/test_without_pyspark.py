"""Without pyspark the quick look works, and the rest says what to install."""

import json
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


def run(code: str, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _BLOCKED + code, *arguments]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=120)


#: Commands that need no Spark, and what their answers have.
ANSWERED = [
    (["--help"], "Usage"),
    (["lag", "--capture", str(CAPTURE), "--engine", "local"], "billing"),
    (["lag", "--capture", str(CAPTURE)], "billing"),
    (["explain", "--capture", str(CAPTURE), "--group", "billing"], "billing"),
    (["simulate", "--scenario", "idle-members", "--duration", "5s"], "idle-members"),
]
REFUSED = [
    ["lag", "--capture", str(CAPTURE), "--engine", "spark"],
    ["capture", "--follow", "--bootstrap-server", "127.0.0.1:1", "out/never"],
    ["simulate", "--scenario", "idle-members", "--duration", "5s", "--sweep", "out/never"],
]
#: Runs all commands of standard input in one process.
_COMMANDS = """
import json
from tests.support.command import sharelag
done = [sharelag(*command) for command in json.load(sys.stdin)]
print(json.dumps([[one.returncode, one.stdout, one.stderr] for one in done]))
"""


@pytest.mark.exhaustive
def test_the_command_line_answers_or_says_what_to_install() -> None:
    commands = [*(command for command, _ in ANSWERED), *REFUSED]
    found = json.loads(run(_COMMANDS, given=json.dumps(commands)).stdout)
    assert len(found) == len(commands)
    for (_, shown), (status, out, err) in zip(ANSWERED, found, strict=False):
        assert status == 0, err
        assert shown in out
    for status, _, err in found[len(ANSWERED) :]:
        assert status == 1
        assert "Spark is not installed here: pip install 'sharelag[spark]'" in err
        assert "unexpected" not in err


def test_a_small_answer_comes_in_a_process_alone() -> None:
    done = run(_COMMAND, "lag", "--capture", str(CAPTURE))
    assert done.returncode == 0, done.stderr
    assert "billing" in done.stdout


def test_whatever_is_on_spark_says_what_to_install() -> None:
    requested = (
        *("sharelag.open('chapters').lag()", "sharelag.open('chapters').frames"),
        "sharelag.open('chapters', spark=object()).lag()",
        *("sharelag.open('chapters', engine='local').frames", "here.to_spark()"),
        *("sharelag.decode", "sharelag.stream", "sharelag.sweep"),
        "sharelag.inputs.spark.session()",
    )
    code = f"""
import sharelag
here = sharelag.open('chapters', engine='local').lag()
for each in {requested}:
    try:
        eval(each)
    except Exception as error:
        print(type(error).__name__, error)
print(len(here), sharelag.__version__, sharelag.replay.replay([]))
"""
    *said, rows = run(code).stdout.splitlines()
    assert int(rows.split()[0]) > 0
    assert rows.endswith(" {}")
    assert 'engine="local"' in said[-1]
    assert len(said) == len(requested)
    found = {line.partition(",")[0] for line in said}
    assert found == {"SetupError Spark is not installed here: pip install 'sharelag[spark]'"}
