"""Test files that share a server run in one process while others have something else to do."""

import json
import re
import subprocess
import sys
from collections import OrderedDict
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support import ports
from tests.support.distribution import LONGEST, ROOMS, ByRoom, give_way, room


class Node:
    def __init__(self) -> None:
        self.given: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.given += indices


def files(folder: str, *names: str) -> list[str]:
    return [f"tests/{folder}/test_{name}.py" for name in names]


def given_out(files: list[str], turns: str) -> list[str]:
    """Let nodes a, b, c and d ask for files in these turns; the files in the order of the turns."""
    nodes = {name: Node() for name in sorted(set(turns))}
    tests = [f"{file}::test_it" for file in files]
    plan = ByRoom.__new__(ByRoom)
    plan.assigned_work = {node: {} for node in nodes.values()}
    plan.registered_collections = dict.fromkeys(nodes.values(), tests)
    plan.workqueue = OrderedDict((f, {test: False}) for f, test in zip(files, tests, strict=True))
    for name in turns:
        plan._assign_work_unit(nodes[name])
    places = {name: iter(node.given) for name, node in nodes.items()}
    return [files[next(places[name])] for name in turns]


def test_a_room_stays_with_its_process_until_the_other_has_nothing_else() -> None:
    spark, kafka = files("spark", "demo", "stream"), files("kafka", "settings")
    notebooks = files("notebooks", "files", "live", "voila")
    assert given_out([*kafka, *notebooks, *spark], "ababba") == [
        notebooks[0], spark[0], notebooks[1], spark[1], kafka[0], notebooks[2],
    ]  # fmt: skip


def test_a_process_gives_way_from_its_first_unit_test_on(monkeypatch: pytest.MonkeyPatch) -> None:
    nice = [0]

    def add(more: int) -> int:
        nice[0] += more
        return nice[0]

    monkeypatch.setattr("os.nice", add)
    for folder in ("spark", "kafka", "browser", "notebooks"):
        give_way(f"tests/{folder}/{next((ROOT / 'tests' / folder).glob('test_*.py')).name}")
        assert nice == [0]
    for file in (
        "tests/unit/test_words.py",
        "tests/widgets/test_now.py",
        "tests/unit/test_docs.py",
    ):
        give_way(file)
        assert nice == [10]


def test_of_four_processes_each_begins_with_other_servers() -> None:
    """The process that has a Spark goes on with those that need a broker, too."""
    browser, notebooks = files("browser", "now", "what_if"), files("notebooks", "live", "voila")
    spark, kafka = files("spark", "demo", "stream"), files("kafka", "settings", "sources")
    both, unit = files("kafka", "offsets", "watch"), files("unit", "words")
    everything = [*browser, *kafka, *both, *notebooks, *spark, *unit]
    assert given_out(everything, "abcdabcdab") == [
        notebooks[0], spark[0], kafka[0], browser[0],
        notebooks[1], spark[1], kafka[1], browser[1],
        *unit[:1], both[0],
    ]  # fmt: skip


def test_unit_tests_come_before_others_servers_and_long_files_of_a_room_first() -> None:
    spark, unit = files("spark", "demo", "stream"), files("unit", "wheel", "docs", "words")
    assert given_out([*spark, *unit], "abcba") == [spark[0], *unit, spark[1]]
    found = given_out(files("spark", "demo", "frames"), "aa")
    assert found == files("spark", "frames", "demo")


def test_files_are_of_the_room_whose_servers_they_ask_for() -> None:
    """Whichever way they ask for a Spark: by the fixture of each test, or of a whole file."""
    for file in files("kafka", "watch", "archive"):
        assert room(file) == "kafka and spark"
    assert [*map(room, files("kafka", "settings") + files("spark", "sweep"))] == ["kafka", "spark"]
    elsewhere = [*files("spark", "stream_connect"), *files("kafka", "secrets")]
    assert {*map(room, elsewhere)} == {"notebooks"}


def test_every_long_file_is_there_and_every_room_is_named(pytestconfig: pytest.Config) -> None:
    root = pytestconfig.rootpath
    assert [file for file in LONGEST if not (root / file).exists()] == []
    found = {room(str(path.relative_to(root))) for path in root.glob("tests/*/test_*.py")}
    assert found == set(ROOMS)


# ---- servers of tests get ports that nobody else takes -------------------------------------------
_ASK = "from tests.support.ports import free_ports; print(free_ports(700), flush=True); input()"
_PROCESSES = 4


def test_processes_side_by_side_get_different_ports_that_no_connection_takes() -> None:
    given = list(ports.free_ports(3))
    with ExitStack() as ends:
        asking = [
            ends.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", _ASK],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for _ in range(_PROCESSES)
        ]
        for process in asking:  # all hold what they have until all have answered
            assert process.stdout
            given += json.loads(process.stdout.readline())
        for process in asking:
            process.communicate("\n")
    # Of 22,000 ports, four processes without locks would give about 130 twice.
    assert len(set(given)) == len(given) == 3 + 700 * _PROCESSES
    # What the system gives out itself is above.
    assert max(given) < int(ports.SYSTEM_TAKES.read_text().split()[0])


# ---- the suite has the four kinds of tests that KIP-932 plans, and says how each is run ----------
ROOT = Path(__file__).resolve().parents[2]


def counted(folder: str, decorator: str = "") -> int:
    """Count the test functions of a folder, or their decorators of a name."""
    line = re.compile(rf"^ *@{decorator}\(" if decorator else r"^ *def test_", re.MULTILINE)
    return sum(len(line.findall(p.read_text("utf-8"))) for p in (ROOT / folder).rglob("test_*.py"))


@pytest.mark.row("CMP-03")
def test_unit_property_whole_way_and_performance_tests_are_there_and_run() -> None:
    assert counted("tests/unit") > 1_000
    assert counted("tests", "given") >= 10
    assert counted("tests/kafka") > 100
    measured = json.loads((ROOT / "docs" / "benchmarks.json").read_text("utf-8"))
    assert measured
    # What runs them: make test has all of tests/, make bench the performance.
    assert (ROOT / ".ci" / "run").read_text("utf-8").splitlines()[-1] == "make test"
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert "\ntest: " in makefile
    assert "\nbench:" in makefile
    listed = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("Four kinds:")[2][:400]
    for kind in ("examples", "properties", "whole ways", "performance", "make bench"):
        assert kind in listed
