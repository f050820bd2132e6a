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


def files(folder: str, *names: str) -> list[str]:
    return [f"tests/{folder}/test_{name}.py" for name in names]


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


def test_a_room_stays_with_its_process_until_the_other_has_nothing_else() -> None:
    spark, kafka = files("spark", "brief", "stream"), files("kafka", "settings")
    notebooks = files("notebooks", "files", "live", "voila")
    assert given_out([*kafka, *notebooks, *spark], "ababba") == [
        notebooks[0], spark[0], notebooks[1], spark[1], kafka[0], notebooks[2],
    ]  # fmt: skip


def test_of_four_processes_each_begins_with_other_servers() -> None:
    browser, notebooks = files("browser", "now", "what_if"), files("notebooks", "live", "voila")
    spark, kafka = files("spark", "brief", "stream"), files("kafka", "settings", "sources")
    both = files("kafka", "offsets", "watch")
    everything = [*browser, *kafka, *both, *notebooks, *spark]
    assert given_out(everything, "abcdabcdab") == [
        notebooks[0], spark[0], both[0], kafka[0],
        notebooks[1], spark[1], both[1], kafka[1],
        *browser,
    ]  # fmt: skip


def test_unit_tests_come_before_the_servers_of_another_process() -> None:
    spark, unit = files("spark", "brief", "stream"), files("unit", "kinds", "errors", "words")
    assert given_out([*spark, *unit], "abcba") == [spark[0], *unit, spark[1]]


def test_tests_with_a_broker_are_apart_where_they_need_a_spark() -> None:
    """Whichever way they ask for it: by the fixture of each test, or of a whole file."""
    for file in files("kafka", "watch", "archive"):
        assert room(file) == "kafka and spark"
    assert [*map(room, files("kafka", "settings") + files("spark", "sweep"))] == ["kafka", "spark"]


def test_who_asks_for_the_connect_server_goes_where_it_is() -> None:
    elsewhere = [*files("spark", "session_connect"), *files("kafka", "secrets")]
    assert {*map(room, elsewhere)} == {"notebooks"}


def test_the_longest_files_of_a_room_begin() -> None:
    assert given_out(files("spark", "brief", "frames"), "aa") == files("spark", "frames", "brief")


def test_every_long_file_is_there_and_every_room_is_named(pytestconfig: pytest.Config) -> None:
    root = pytestconfig.rootpath
    assert [file for file in LONGEST if not (root / file).exists()] == []
    found = {room(str(path.relative_to(root))) for path in root.glob("tests/*/test_*.py")}
    assert found == set(ROOMS)
