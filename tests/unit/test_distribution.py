"""Test files that share a server run in one process while others have something else to do."""

from __future__ import annotations

from collections import OrderedDict

import pytest

from tests.support.distribution import LONGEST, ROOMS, ByRoom, room


class Node:
    def __init__(self) -> None:
        self.given: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.given += indices


def given_out(files: list[str], turns: str) -> list[str]:
    """Let nodes a, b, c and d ask for files in these turns; the files in the order of the turns."""
    nodes = {name: Node() for name in sorted(set(turns))}
    tests = [f"{file}::test_it" for file in files]
    plan = ByRoom.__new__(ByRoom)
    plan.assigned_work = {node: {} for node in nodes.values()}
    plan.registered_collections = dict.fromkeys(nodes.values(), tests)
    plan.workqueue = OrderedDict(
        (file, {test: False}) for file, test in zip(files, tests, strict=True)
    )
    for name in turns:
        plan._assign_work_unit(nodes[name])
    places = {name: iter(node.given) for name, node in nodes.items()}
    return [files[next(places[name])] for name in turns]


def test_a_folder_stays_with_its_process_until_the_other_has_nothing_else() -> None:
    spark, kafka = [f"tests/spark/test_{n}.py" for n in "ab"], ["tests/kafka/test_settings.py"]
    notebooks = [f"tests/notebooks/test_{n}.py" for n in "abc"]
    assert given_out([*kafka, *notebooks, *spark], "ababba") == [
        notebooks[0], spark[0], notebooks[1], spark[1], kafka[0], notebooks[2],
    ]  # fmt: skip


def test_of_four_processes_each_begins_with_other_servers() -> None:
    files = [
        f"tests/{room}/test_{n}.py" for room in ("browser", "notebooks", "spark") for n in "ab"
    ]
    files += [f"tests/kafka/test_{n}.py" for n in ("offsets", "settings", "sources", "watch")]
    assert given_out(files, "abcdabcdab") == [
        "tests/notebooks/test_a.py", "tests/spark/test_a.py",
        "tests/kafka/test_offsets.py", "tests/kafka/test_settings.py",
        "tests/notebooks/test_b.py", "tests/spark/test_b.py",
        "tests/kafka/test_watch.py", "tests/kafka/test_sources.py",
        "tests/browser/test_a.py", "tests/browser/test_b.py",
    ]  # fmt: skip


def test_tests_with_a_broker_are_apart_where_they_need_a_spark() -> None:
    """Whichever way they ask for it: by the fixture, by a parameter, or of a command."""
    for name in ("watch", "secured", "capture"):
        assert room(f"tests/kafka/test_{name}.py") == "kafka and spark"
    assert room("tests/kafka/test_settings.py") == "kafka"
    assert room("tests/spark/test_session.py") == "spark"


def test_the_longest_files_of_a_folder_begin() -> None:
    assert given_out(["tests/spark/test_a.py", "tests/spark/test_frames.py"], "aa") == [
        "tests/spark/test_frames.py",
        "tests/spark/test_a.py",
    ]


def test_every_long_file_is_there_and_every_room_is_named(pytestconfig: pytest.Config) -> None:
    root = pytestconfig.rootpath
    assert [file for file in LONGEST if not (root / file).exists()] == []
    found = {room(str(path.relative_to(root))) for path in root.glob("tests/*/test_*.py")}
    assert found == set(ROOMS)
