"""Kafka's own coordinators have the defects that the table says they have, and not those mended."""

from collections.abc import Iterator
from typing import Any

import pytest

from sharelag.cli.doctor import checks
from sharelag.inputs.kafka.config import client_config
from sharelag.model.defects import DEFECTS
from tests.support.command import ask
from tests.support.kafka.broker import SHARE_GROUPS, KafkaBroker
from tests.support.kafka.jars import COMPARED, KAFKA_VERSION
from tests.support.kafka.oracles import Oracle
from tests.support.kafka.since import SHARE_CONSUMERS, since
from tests.support.kafka.workload import read_in_part, wait_until

TOPIC = "AAAAAAAAAAAAAAAAAAAAAQ"
KEY = {"g": "G1", "t": TOPIC, "p": 0}
#: Types of records; the error of a coordinator that refuses an earlier epoch.
SNAPSHOT, EPOCH_OF_GROUP = 0, 11
FENCED_STATE_EPOCH = 124

#: A broker of an earlier version takes longer to start than the others' tests here.
OLDER_FIRST = [
    pytest.param(one, marks=[] if one == KAFKA_VERSION else pytest.mark.exhaustive)
    for one in COMPARED
]
HAS_CLASSES = since("4.2", "the share coordinator has the classes that we ask")


@pytest.fixture(scope="module", params=[pytest.param(one, marks=HAS_CLASSES) for one in COMPARED])
def asked(request: pytest.FixtureRequest) -> Iterator[Oracle]:
    with Oracle("CoordinatorOracle", version=request.param) as oracle:
        yield oracle


def affects(issue: str, version: str) -> bool | None:
    (defect,) = [one for one in DEFECTS if one.issue == issue]
    return defect.affects(version)


def write(start: int, count: int) -> dict[str, Any]:
    given = {"leaderEpoch": 1, "stateEpoch": 1, "startOffset": start, "dcc": count, "batches": []}
    return {"op": "write", **KEY} | given


def summary(oracle: Oracle, *operations: dict[str, Any]) -> dict[str, Any]:
    """What the coordinator answers a leader after these requests."""
    begin = {"op": "init", **KEY, "stateEpoch": 1, "startOffset": 0}
    asked = [begin, *operations, {"op": "summary", **KEY}]
    results = oracle.ask({"topics": {TOPIC: 1}, "ops": asked})["results"]
    assert not [one for one in results if one.get("error")]
    answer: dict[str, Any] = results[-1]["answer"]
    return answer


def test_writes_out_of_order_move_back_what_the_table_says(asked: Oracle) -> None:
    late = summary(asked, write(20, 0), write(10, 0))
    assert (late["startOffset"] < 20) is affects("apache/kafka#23074", asked.version)
    fewer = summary(asked, write(0, 5), write(0, 2))
    assert (fewer["deliveryCompleteCount"] < 5) is affects("apache/kafka#23112", asked.version)


def test_a_second_initialisation_and_a_reset(asked: Oracle) -> None:
    again = {"op": "init", **KEY, "stateEpoch": 1, "startOffset": 0}
    twice = summary(asked, write(20, 0), again)
    assert (twice["startOffset"] < 20) is affects("apache/kafka#23190", asked.version)
    reset = {"op": "init", **KEY, "stateEpoch": 2, "startOffset": 7}
    unknown = summary(asked, write(20, 0), reset)["deliveryCompleteCount"] < 0
    assert unknown is affects("KAFKA-20034", asked.version)


@pytest.fixture(scope="module", params=OLDER_FIRST)
def of_version(request: pytest.FixtureRequest) -> Iterator[KafkaBroker]:
    if request.param == KAFKA_VERSION:
        yield request.getfixturevalue("broker")
    else:
        with KafkaBroker(version=request.param) as older:
            yield older


def test_the_doctor_asks_the_brokers_for_their_release(of_version: KafkaBroker) -> None:
    said = {one.what: one for one in checks(client_config(of_version.bootstrap_servers))}
    release = of_version.version.rpartition(".")[0]
    expected = {
        f"defect {one.issue}": (
            f"Kafka {release}: " if one.affects(release) else f"some versions of {release}: "
        )
        for one in DEFECTS
        if one.affects(release) is not False
    }
    assert expected
    found = {what: one.found for what, one in said.items() if what.startswith("defect ")}
    told = {what: found[what].startswith(begin) for what, begin in expected.items()}
    assert told == dict.fromkeys(found, True)


def test_what_comes_late_is_refused_only_where_a_reset_raised_the_epoch(asked: Oracle) -> None:
    """A reset without a new epoch (KAFKA-20910) leaves an initialisation of before it valid."""

    def late(epoch: int) -> dict[str, Any]:
        begin = {"op": "init", **KEY, "startOffset": 0, "stateEpoch": 1}
        reset = {"op": "init", **KEY, "startOffset": 7, "stateEpoch": epoch}
        question = {"topics": {TOPIC: 1}, "ops": [begin, reset, begin, {"op": "summary", **KEY}]}
        *_, again, last = asked.ask(question)["results"]
        return {"error": again["error"], "start": last["answer"]["startOffset"]}

    assert late(2) == {"error": FENCED_STATE_EPOCH, "start": 7}
    assert late(1) == {"error": 0, "start": 0}


@SHARE_CONSUMERS
def test_a_reset_leaves_the_epoch_of_the_group(of_version: KafkaBroker) -> None:
    group, topic, servers = "defect-reset", "of-defect-resets", of_version.bootstrap_servers

    def told(records: str, kind: int, name: str) -> list[int]:
        """What records of a type say, in the order of the log."""
        found = ask(f"decode --group {group} --records {records}", at=servers)
        return [one["value"]["data"][name] for one in found if one["key"]["type"] == kind]

    def command(*options: str) -> str:
        asked = ("--bootstrap-server", servers, "--group", group, *options)
        done = of_version.run_tool(SHARE_GROUPS, *asked)
        assert done.returncode == 0, done.stderr
        return done.stdout

    read_in_part(servers, group, topic, read=10)
    wait_until(lambda: "Empty" in command("--describe", "--state"), "the member has left")
    before = told("group", EPOCH_OF_GROUP, "epoch")
    for _ in range(2):
        command("--topic", topic, "--reset-offsets", "--to-earliest", "--execute")
    has_raised = told("group", EPOCH_OF_GROUP, "epoch") != before
    assert has_raised is not affects("KAFKA-20910", of_version.version)
    *_, first, second = told("state", SNAPSHOT, "stateEpoch")
    assert (first < second) is has_raised
    assert first == before[-1]
