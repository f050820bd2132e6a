"""Our assignors answer what Kafka's classes and our jar do, in tests and inside brokers."""

import gc
import os
import pickle
import subprocess
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import ShareConsumer

from sharelag.errors import InputError
from sharelag.model import topic_id_text
from sharelag.whatif import (
    Group,
    assign,
    check_assignor,
    check_contract,
    jar_assignor,
    register,
)
from sharelag.whatif.assignors.contract import STARVED
from sharelag.whatif.assignors.group import AssignorError
from sharelag.whatif.assignors.jar import JarAssignor
from sharelag.whatif.assignors.simple import JavaMap, int_hash, string_hash
from tests.support.cases import few_of
from tests.support.command import ask, rows_of, sharelag
from tests.support.groups_to_assign import check, figures, named_in_order
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.jars import COMPARED, kafka_jars
from tests.support.kafka.jvm import find_java
from tests.support.kafka.oracles import Oracle, simple_assignor
from tests.support.kafka.since import SHARE_CONSUMERS
from tests.support.kafka.workload import create_topics, share_consumer, wait_until
from tools.assignors import assignors_jar

Members = list[dict[str, Any]]
Topics = dict[str, dict[str, Any]]

#: Texts of equal ``String.hashCode``: "Aa" and "BB" have the same.
COLLIDING = ["".join(parts) for parts in product(["Aa", "BB"], repeat=5)]
STICKY_SPREAD = "sharelag.assignor.StickySpreadAssignor"
FAILURES = {"simple": "java.util.NoSuchElementException"}
FAILURES["simple-4.1"] = "Inconsistent number of member IDs"
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
PARTITIONS = 5


@pytest.fixture(scope="module", params=few_of(COMPARED, COMPARED[-1:]))
def kafka(request: pytest.FixtureRequest) -> JarAssignor:
    return simple_assignor(request.param)


@pytest.fixture(scope="module")
def kafka_4_1() -> JarAssignor:
    return simple_assignor("4.1.1")


# ---- random groups -------------------------------------------------------------------------------
def test_simple_answers_what_kafka_answers(kafka: JarAssignor, cases: Any) -> None:
    seen = [live(kafka, "simple", Random(f"simple {number}")) for number in range(cases(25, 5000))]
    # Not all of these groups are worth the same: several steps, several partitions a member,
    # Kafka's own failure.
    assert sum(life.steps > 1 for life in seen) > len(seen) / 2
    assert sum(life.moved > 0 for life in seen) > len(seen) / 3
    assert sum(life.failed for life in seen) > len(seen) / 100


@pytest.mark.exhaustive  # newer versions: `test_simple_answers_what_kafka_answers`
def test_simple_4_1_answers_what_kafka_4_1_answers(kafka_4_1: JarAssignor, cases: Any) -> None:
    seen = [live(kafka_4_1, "simple-4.1", Random(f"4.1 {n}")) for n in range(cases(60, 3000))]
    assert sum(life.moved > 0 for life in seen) > len(seen) / 3
    assert sum(life.failed for life in seen) > len(seen) / 100


def test_maps_are_walked_through_as_java_does(kafka: JarAssignor, cases: Any) -> None:
    requested = [random_walk(Random(f"walk {number}")) for number in range(cases(25, 5000))]
    same = 0
    with Oracle("MapOracle") as oracle:
        answers = oracle.ask_many(requested)
    for question, answer in zip(requested, answers, strict=True):
        try:
            keys = walked(question)
        except RuntimeWarning:  # a bin overfills, which Java orders in its own way
            continue
        assert keys == answer["keys"], question
        same += 1
    assert same > 0.9 * len(requested)
    # And where they are large.
    crowds = range(cases(1, 100))
    lives = [live(kafka, "simple", Random(f"crowd {number}"), crowd=True) for number in crowds]
    assert sum(life.overfilled for life in lives) < 0.1 * len(lives)


def random_walk(random: Random) -> dict[str, Any]:
    """Steps with keys of which several share a bin: of equal hash, or 16 apart.

    A table of 16 or 32 bins doubles when one of them gets a ninth key.
    """
    numbers = [random.randrange(3) + 16 * number for number in random.sample(range(30), 16)]
    keys: list[Any] = random.choice([COLLIDING[:5], numbers, [*COLLIDING[:5], "a", "b", "c"]])
    crowd: list[Any] = [
        1000 + number if isinstance(keys[0], int) else f"key {number}" for number in range(90)
    ]
    ways = random.choice([["put"], ["computeIfAbsent"], ["put", "computeIfAbsent"]])
    added = random.sample(keys, random.randint(5, len(keys))) + random.sample(
        crowd, random.choice([0, 30, 90])
    )
    random.shuffle(added)
    steps = [[random.choice(ways), key] for key in added]
    for _ in range(random.randint(0, 40)):
        key = random.choice(added)
        steps.append([random.choice(["remove", "iterator remove", "remove", *ways]), key])
    return {"capacity": random.choice([0, 1, 16, 64, 200]), "steps": steps}


def walked(question: dict[str, Any]) -> list[Any]:
    ours: JavaMap[Any, bool] = JavaMap(
        lambda key: int_hash(key) if isinstance(key, int) else string_hash(key),
        question["capacity"],
    )
    for step, key in question["steps"]:
        if step == "put":
            ours.put(key, True)
        elif step == "computeIfAbsent":
            ours.setdefault(key, lambda: True)
        else:
            ours.remove(key)
    return list(ours)


@dataclass
class Life:
    """What happened to a group over some assignments."""

    steps: int = 0
    moved: int = 0
    failed: bool = False
    overfilled: bool = False


def live(kafka: JarAssignor, name: str, random: Random, crowd: bool = False) -> Life:
    """Let a group go through some changes, each assignment starting from the one before."""
    life, is_ours = Life(), name == "sticky-spread"
    topics = random_topics(random, crowd)
    topics = named_in_order(topics) if is_ours else topics
    alike = random.random() < 0.5
    people: dict[str, dict[str, Any]] = {}
    count = random.choice([3, 30, 80, 120] if crowd else [1, 2, 3, 5, 8, 13, 17, 40])
    join(random, people, topics, alike, count)
    for _ in range(random.randint(1, 4)):
        change_topics(random, topics)
        if random.random() < 0.4:
            forget(random, people, topics)
        group = list(people.values())
        life.steps += 1
        try:
            answer = assign(name, group, topics)
        except AssignorError as error:
            if crowd and "RuntimeWarning" in str(error):  # as `JavaMap` says
                life.overfilled = True
                return life
            life.failed = True
            with pytest.raises(AssignorError, match=FAILURES[name]):
                ask_kafka(kafka, group, topics)
            return life
        found, numbers = in_order(answer), figures(group, topics, answer)
        if is_ours:
            assert placed(ask_kafka(kafka, group, topics)) == placed(found), (group, topics)
            assert (check(group, topics, answer), numbers.idle) == ([], ())
            assert numbers.revoked_needlessly <= max(1, numbers.pairs // 10)
        else:
            assert ask_kafka(kafka, group, topics) == found, (group, topics)
        life.moved += numbers.revoked_needlessly
        go_on(random, people, topics, alike, answer)
        if not alike and not is_ours and random.random() < 0.3:
            random.choice(list(people.values()))["subscribed"] = subscription(random, topics, alike)
    return life


def go_on(
    random: Random,
    members: dict[str, dict[str, Any]],
    topics: Topics,
    alike: bool,
    answer: dict[str, dict[str, list[int]]],
) -> None:
    """Let members have what they were assigned; then some leave, and others join."""
    for id_, current in answer.items():
        members[id_]["current"] = current
    for id_ in [id_ for id_ in members if random.random() < 0.15]:
        if len(members) > 1:
            del members[id_]
    join(random, members, topics, alike, random.choice([0, 0, 1, 2, 5]))


def random_topics(random: Random, crowd: bool) -> Topics:
    sizes = [1500, 3000] if crowd else [0, 1, 2, 3, 4, 5, 8, 12, 16, 24, 48, 100] * 4 + [704]
    count = random.choice([1, 2] if crowd else [1, 1, 1, 2, 3, 4, 6])
    names = random.sample(range(100), count)
    return {
        f"topic-{name}": {
            "id": topic_id_text(random.randbytes(16)),
            "partitions": random.choice(sizes),
        }
        for name in names
    }


def change_topics(random: Random, topics: Topics) -> None:
    for topic in topics.values():
        if topic["partitions"] is None:
            continue
        if random.random() < 0.1:
            topic["partitions"] += random.randint(0, 5)
        if random.random() < 0.15:
            topic["assignable"] = sorted(
                random.sample(range(topic["partitions"]), random.randint(0, topic["partitions"]))
            )
        elif random.random() < 0.3:
            topic.pop("assignable", None)
        if random.random() < 0.02:
            topic["partitions"] = None
            topic.pop("assignable", None)


def join(
    luck: Random, members: dict[str, dict[str, Any]], topics: Topics, alike: bool, count: int
) -> None:
    for _ in range(count):
        id_ = luck.choice([f"consumer-{luck.randrange(300)}", topic_id_text(luck.randbytes(16))])
        member = {"id": id_, "subscribed": subscription(luck, topics, alike), "current": {}}
        members.setdefault(id_, member)


def subscription(luck: Random, topics: Topics, alike: bool) -> list[str]:
    names = list(topics)
    if alike:
        return names
    return luck.sample(names, luck.randint(0, len(names))) + ["missing"] * (luck.random() < 0.05)


def forget(random: Random, members: dict[str, dict[str, Any]], topics: Topics) -> None:
    """Give some members other partitions than the assignor did, some of which are gone."""
    for member in members.values():
        if random.random() < 0.5:
            for name in random.sample(list(topics), random.randint(0, len(topics))):
                count = topics[name]["partitions"] or 6
                few = [*range(min(count + 3, 40)), *random.sample(range(count), min(count, 30))]
                few = list(dict.fromkeys(few))
                member["current"][name] = random.sample(few, random.randint(0, min(len(few), 40)))


def ask_kafka(assignor: JarAssignor, group: Members, topics: Topics) -> list[Any]:
    return in_order(assignor(Group.of(group, topics)))


def in_order(answer: dict[str, dict[str, list[int]]]) -> list[Any]:
    return [[m, [[t, ps] for t, ps in topics.items()]] for m, topics in answer.items()]


# ---- ours, as Kafka's brokers run it -------------------------------------------------------------
@pytest.fixture(scope="module", params=few_of(COMPARED, COMPARED[-1:]))
def sticky_spread(request: pytest.FixtureRequest) -> JarAssignor:
    return jar_assignor(assignors_jar(), STICKY_SPREAD, kafka=kafka_jars(request.param))


def test_sticky_spread_is_the_same_in_java(sticky_spread: JarAssignor, cases: Any) -> None:
    randoms = (Random(f"sticky spread {number}") for number in range(cases(10, 10_000)))
    assert sum(live(sticky_spread, "sticky-spread", random).moved for random in randoms) > 0


def placed(assignment: list[Any]) -> dict[str, dict[str, list[int]]]:
    return {m: {t: sorted(partitions) for t, partitions in topics} for m, topics in assignment}


# ---- what is odd about it (the numbers are those of `simple`'s docstring) ------------------------
def both(kafka: JarAssignor, group: Members, topics: Topics) -> dict[str, dict[str, list[int]]]:
    ours = assign("simple", group, topics)
    for number, name in enumerate(sorted(topics), 1):
        topics[name].setdefault("id", topic_id_text(number.to_bytes(16, "big")))
    assert in_order(assign("simple", group, topics)) == ask_kafka(kafka, group, topics)
    return ours


def member(id_: str, subscribed: list[str], **current: list[int]) -> dict[str, Any]:
    return {"id": id_, "subscribed": subscribed, "current": current}


def test_oddity_1_a_topic_without_subscribers_stays(kafka: JarAssignor) -> None:
    group = [member("m1", ["t"], t=[0], u=[0]), member("m2", ["t", "v"])]
    topics = {name: {"partitions": 1} for name in "tuv"}
    assert both(kafka, group, topics)["m1"]["u"] == [0]


def test_oddity_2_what_is_not_assignable_takes_up_a_share(kafka: JarAssignor) -> None:
    group = [member("m1", ["t"], t=[1]), member("m2", ["t"], t=[2])]
    topics = {"t": {"partitions": 4, "assignable": [0, 3]}}
    answer = both(kafka, group, topics)
    assert answer == {"m1": {"t": [1]}, "m2": {"t": [2]}}
    assert [
        finding.partition for finding in check(group, topics, answer) if finding.rule == STARVED
    ] == [0, 3]
    group = [member("m0", ["t"], t=[1]), member("m1", ["t"])]
    topics = {"t": {"id": topic_id_text(bytes(15) + b"\1"), "partitions": 3, "assignable": [0]}}
    assert both(kafka, group, topics) == {"m0": {"t": [1]}, "m1": {"t": [1]}}


def test_oddity_3_kafka_fails(kafka: JarAssignor) -> None:
    group = [member("m0", ["t"], t=[1]), member("m1", ["t"])]
    topics = {"t": {"id": topic_id_text(bytes(15) + b"\2"), "partitions": 3, "assignable": [0]}}
    with pytest.raises(AssignorError, match=r"SimpleAssignor failed: .*NoSuchElementException"):
        ask_kafka(kafka, group, topics)
    with pytest.raises(AssignorError, match="NoSuchElementException"):
        assign("simple", group, topics)


def test_oddity_4_a_topic_without_partitions_is_written(kafka: JarAssignor) -> None:
    group = [member("m1", ["t"], t=[0, 1]), member("m2", ["t"]), member("m3", ["t"], t=[0])]
    topics = {"t": {"partitions": 1, "assignable": []}}
    assert both(kafka, group, topics) == {"m1": {"t": []}, "m2": {}, "m3": {"t": []}}


@pytest.mark.parametrize(
    ("count", "expected"), [(2, [1, 1, 1, 1]), (4, [1, 1, 1, 1]), (5, [2, 2, 2, 2])]
)
def test_oddity_5_only_spare_members(kafka: JarAssignor, count: int, expected: list[int]) -> None:
    group = [member(f"m{number}", ["t"]) for number in range(count)]
    topics = {"t": {"partitions": 4}}
    answer = both(kafka, group, topics)
    assert list(figures(group, topics, answer).counts.values()) == expected


def test_oddity_6_a_partition_stays_short_while_a_member_has_room(kafka: JarAssignor) -> None:
    group = [member("m51", ["t"], t=[1, 0]), member("m45", ["t"], t=[1])]
    group.append(member("m47", ["t"], t=[1, 0]))
    topics = {"t": {"partitions": 2}}
    numbers = figures(group, topics, both(kafka, group, topics))
    assert numbers.counts == {
        ("t", 0): 1,
        ("t", 1): 2,
    }  # the sharing is 2, and the shares are 2, 1 and 1
    assert set(numbers.loads.values()) == {1}


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


@SHARE_CONSUMERS
@pytest.mark.exhaustive
@pytest.mark.parametrize("version", COMPARED)
def test_brokers_assign_by_sticky_spread(version: str) -> None:
    settings = {"group.share.assignors": "sharelag.assignor.StickySpreadAssignor"}
    broker = KafkaBroker(properties=settings, version=version, libraries=[assignors_jar()])
    with broker, ExitStack() as consumers:
        servers = broker.bootstrap_servers
        create_topics(servers, {"orders": PARTITIONS})
        crowd: list[ShareConsumer] = []
        held: dict[str, list[int]] = {}
        for _ in range(4):
            new = share_consumer(servers, "crowd", ["orders"])
            crowd.append(consumers.enter_context(closing(new)))
            before = held

            def has_settled(before: dict[str, list[int]] = before) -> bool:
                nonlocal held
                for consumer in crowd:
                    consumer.poll(0.2)
                held = _held(servers)
                return len(held) == len(crowd) and held == _expected(held, before)

            wait_until(has_settled, f"{len(crowd)} members have what sticky-spread gives them")
        # Kafka's own assignor gives each of five partitions one of four members.
        assert min(Counter(chain(*held.values())).values()) >= 2


def _expected(members: Iterable[str], before: dict[str, list[int]]) -> dict[str, list[int]]:
    group = [
        {"id": member, "subscribed": ["orders"], "current": {"orders": before.get(member, [])}}
        for member in members
    ]
    answer = assign("sticky-spread", group, {"orders": {"partitions": PARTITIONS}})
    return {member: topics.get("orders", []) for member, topics in answer.items()}


def _held(servers: str) -> dict[str, list[int]]:
    done = sharelag("members", "--bootstrap-server", servers, "-o", "json")
    if done.returncode:  # no group has been written yet, or its topic has no leader yet
        return {}
    rows = rows_of(done)
    return {
        r["member_id"]: sorted(p for topic in r["assigned_partitions"] for p in topic["partitions"])
        for r in rows
    }
