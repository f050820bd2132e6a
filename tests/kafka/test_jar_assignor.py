"""A class of a jar is ranked and checked as a function is, and says what is wrong with it."""

import gc
import os
import pickle
import subprocess
from pathlib import Path

import pytest

from sharelag.errors import InputError
from sharelag.whatif import (
    Group,
    check_assignor,
    check_contract,
    jar_assignor,
    register,
)
from sharelag.whatif.assignors.group import AssignorError
from tests.support.cases import few_of
from tests.support.command import ask
from tests.support.kafka.jars import kafka_jars
from tests.support.kafka.jvm import find_java
from tests.support.kafka.oracles import simple_assignor
from tools.assignors import assignors_jar

STICKY_SPREAD = "sharelag.assignor.StickySpreadAssignor"
#: It gives the first partition of each topic to a stranger; a member "halt" ends its process, and
#: "fail" is an error.
STRANGE = """
import java.util.*;
import org.apache.kafka.coordinator.group.api.assignor.*;

public class Strange implements ShareGroupPartitionAssignor {
    public String name() { return "strange"; }
    public GroupAssignment assign(GroupSpec group, SubscribedTopicDescriber topics) {
        if (group.memberIds().contains("halt")) Runtime.getRuntime().halt(7);
        if (group.memberIds().contains("fail")) throw new IllegalStateException("nobody helps");
        System.out.println("a word that is no answer");
        return new GroupAssignment(Map.of("stranger", new MemberAssignmentImpl()));
    }
    static class MemberAssignmentImpl implements MemberAssignment {
        public Map<org.apache.kafka.common.Uuid, Set<Integer>> partitions() { return Map.of(); }
    }
}
"""


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("strange")
    (folder / "Strange.java").write_text(STRANGE)
    classes = folder / "classes"
    for tool, *options in (
        ("javac", "-cp", f"{kafka_jars()}/*", "-d", str(classes), f"{folder}/Strange.java"),
        ("jar", "--create", "--file", f"{folder}/strange.jar", "-C", str(classes), "."),
    ):
        subprocess.run([str(find_java(tool)), *options], check=True)
    return folder / "strange.jar"


@pytest.mark.usefixtures("registered")
def test_the_shipped_jar_keeps_the_contract() -> None:
    register("jar-spread", jar_assignor(assignors_jar(), STICKY_SPREAD, kafka=kafka_jars()))
    assert check_contract("jar-spread", walks=20) == []


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("count", few_of(["2", "15"], ["2"]))
def test_the_command_ranks_a_jar(monkeypatch: pytest.MonkeyPatch, count: str) -> None:
    """Kafka's own class as its twin in Python, and the shipped one in another way."""
    monkeypatch.setenv("KAFKA_HOME", str(kafka_jars()))
    twin = simple_assignor()
    ours, kafkas = f"{assignors_jar()}:{STICKY_SPREAD}", f"{twin.jar}:{twin.class_name}"
    rows = ask("simulate --suite", count, "--assignor", ours, "--assignor", kafkas)
    told = {
        name: [row | {"assignor": ""} for row in rows if row["assignor"] == name]
        for name in ("simple", ours, kafkas)
    }
    assert told["simple"] == told[kafkas] != told[ours] != []
    assert sum(map(len, told.values())) == len(rows)


@pytest.mark.exhaustive
def test_a_jar_says_what_is_wrong_with_it(strange: Path) -> None:
    mine = jar_assignor(strange, "Strange", kafka=kafka_jars())

    def check(member: str) -> None:
        topics = {"t": {"partitions": 1}}
        check_assignor(mine, [{"id": member, "subscribed": ["t"]}], topics)

    for member, words in (
        ("fail", "Strange failed: java.lang.IllegalStateException: nobody helps; fix the class"),
        ("m", "answered for 'stranger', who is not a member of the group"),
        ("halt", "the Java process of strange.jar:Strange ended: code 7"),
        ("m", "'stranger'"),  # another process
    ):
        with pytest.raises(AssignorError, match=words):
            check(member)
    mine = jar_assignor(strange, "Missing", kafka=kafka_jars())
    with pytest.raises(AssignorError, match="ClassNotFoundException: Missing"):
        check("m")


@pytest.mark.exhaustive
def test_its_process_ends_with_it(strange: Path) -> None:
    def processes() -> list[str]:
        listed = ["ps", "-ww", "-o", "args=", "--ppid", str(os.getpid())]
        said = subprocess.run(listed, capture_output=True, text=True, check=False).stdout
        return [line for line in said.splitlines() if str(strange) in line]

    mine = jar_assignor(strange, "Strange", kafka=kafka_jars())
    assert jar_assignor(strange, "Strange", kafka=kafka_jars()) is mine
    assert pickle.loads(pickle.dumps(mine)) is mine  # in Spark's tasks, too
    assert processes() == []
    for _ in range(2):
        mine(Group.of([{"id": "m", "subscribed": []}], {}))
        assert len(processes()) == 1
    del mine
    gc.collect()
    assert processes() == []


def test_what_a_jar_needs_is_said(strange: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    with pytest.raises(InputError, match="no folder is given: set KAFKA_HOME"):
        jar_assignor(strange, "Strange")
    with pytest.raises(InputError, match="there are none in"):
        jar_assignor(strange, "Strange", kafka=strange.parent)
    with pytest.raises(InputError, match="correct the path"):
        jar_assignor(strange.with_name("no.jar"), "Strange", kafka=kafka_jars())
