"""What people see of rights, beside what Kafka's commands and clients then do."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sharelag.metrics.rights import NO, UNKNOWN, YES, failing
from sharelag.model.kafka_errors import ERRORS
from sharelag.model.request_errors import ANSWERS
from sharelag.sources.inputs import KafkaInput
from sharelag.sources.kafka.config import client_config
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC
from sharelag.workbench import open_workbench
from sharelag.workbench.rights import rights_of
from tests.support.command import sharelag
from tests.support.kafka import oracles
from tests.support.kafka.access import java_settings, rule, set_rules, settings_file
from tests.support.kafka.broker import KafkaBroker, parse_describe
from tests.support.kafka.broker_properties import SUPER_USERS
from tests.support.kafka.oracles import Oracle
from tests.support.kafka.workload import read_in_part, wait_until

VERBOSE = ["--offsets", "--verbose"]
DESCRIBE = "kafka-share-groups.sh --describe"
READS = [f"TOPIC {STATE_TOPIC} READ", f"TOPIC {GROUP_TOPIC} READ"]


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    """What Kafka's clients may do."""
    with oracles.rights() as asked:
        yield asked


@pytest.fixture(scope="module")
def command() -> Iterator[Oracle]:
    """Kafka's command about share groups, as who asks it says."""
    with oracles.share_groups() as asked:
        yield asked


def _told(secured: KafkaBroker, tmp_path: Path, *options: str) -> dict[str, dict[str, Any]]:
    """What the command line prints about billing and orders, by operation and resource."""
    done = sharelag(
        *("doctor", "--rights", "--bootstrap-server", secured.secure_bootstrap_servers),
        *("--group", "billing", "--topic", "orders", "-o", "json", *options),
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    command = "share consumers" if "--principal" in options else "lag"
    assert done.returncode == any(
        row["granted"] == NO and command in row["needed_by"] for row in rows
    )
    return {f"{row['operation']} {row['resource_type']} {row['resource']}": row for row in rows}


def _needed(told: dict[str, dict[str, Any]], command: str) -> dict[str, str]:
    return {name: row["granted"] for name, row in told.items() if command in row["needed_by"]}


@pytest.mark.row("SEC-01")
@pytest.mark.row("SEC-02")
@pytest.mark.row("SEC-03")
def test_a_group_that_may_only_be_described(
    secured: KafkaBroker, oracle: Oracle, command: Oracle, tmp_path: Path
) -> None:
    """Describing it goes well; consuming would fail, and so it does; brokers' requests are theirs."""
    set_rules(secured, [rule("GROUP {} DESCRIBE", "billing"), rule("TOPIC orders DESCRIBE", "")])
    admin = java_settings(secured, "admin")
    told = _told(
        *(secured, tmp_path, "--command-config", settings_file(tmp_path, admin)),
        *("--principal", "User:alice", "--super-users", SUPER_USERS),
    )
    describe, consume = (_needed(told, one) for one in (DESCRIBE, "share consumers"))
    assert describe == {"DESCRIBE TOPIC orders": YES, "DESCRIBE GROUP billing": YES}
    assert consume == describe | {"READ TOPIC orders": NO, "READ GROUP billing": NO}
    alice = java_settings(secured, "alice")
    described = command.ask(
        {
            "args": [
                *("--bootstrap-server", secured.secure_bootstrap_servers),
                *("--command-config", settings_file(tmp_path, alice)),
                *("--describe", "--group", "billing", "--offsets"),
            ]
        }
    )
    assert described["code"] == 0
    assert "billing" in described["out"]
    assert not oracle.ask({"config": alice, "topics": [], "topic": "orders", "group": "billing"})[
        "consumes"
    ]
    brokers = told["CLUSTER_ACTION CLUSTER kafka-cluster"]
    assert (brokers["granted"], brokers["needed_by"], brokers["grant"]) == (NO, [], None)
    assert "ReadShareGroupState" in brokers["purpose"]
    assert "sharelag reads the topic instead" in brokers["purpose"]
    assert "lag" in told[f"READ TOPIC {STATE_TOPIC}"]["needed_by"]


@pytest.mark.row("SEC-03")
def test_a_consumer_that_may_not_read_its_topic(
    secured: KafkaBroker, oracle: Oracle, tmp_path: Path
) -> None:
    set_rules(secured, [rule("GROUP {} READ", "billing"), rule("TOPIC orders DESCRIBE", "")])
    alice = java_settings(secured, "alice")
    told = _told(secured, tmp_path, "--command-config", settings_file(tmp_path, alice))
    missing = [one for one, may in _needed(told, "share consumers").items() if may == NO]
    assert missing == ["READ TOPIC orders"]
    asked = {"config": alice, "topics": [], "topic": "orders", "group": "billing"}
    assert not oracle.ask(asked)["consumes"]


def _run_lines(secured: KafkaBroker, line: str) -> None:
    """Run lines of kafka-acls.sh by Kafka's own program, as somebody who may."""
    for one in line.split(" && "):
        command, _, _, *words = shlex.split(one)
        assert command == "kafka-acls.sh"
        sure = ["--force"] if "--remove" in words else []
        done = secured.run_tool(
            *("org.apache.kafka.tools.AclCommand", "--bootstrap-server"),
            *(secured.bootstrap_servers, *words, *sure),
        )
        assert done.returncode == 0, done.stdout + done.stderr


def _wait_for(source: KafkaInput, group: str, wanted: set[tuple[str, str]]) -> None:
    def granted() -> set[tuple[str, str]]:
        after, _ = rights_of(source, [group], ["orders"])
        return {
            (row["operation"], row["resource_type"])
            for row in after.to_pylist()
            if row["granted"] == YES
        }

    wait_until(lambda: wanted <= granted(), "the grants are in force")


def _lines(source: KafkaInput, group: str) -> dict[tuple[str, str], str]:
    table, _ = rights_of(source, [group], ["orders"])
    return {
        (row["operation"], row["resource_type"]): row["grant"]
        for row in table.to_pylist()
        if row["resource"] in (group, "orders", "kafka-cluster")
    }


def test_the_lines_that_grant_are_kafkas(secured: KafkaBroker) -> None:
    group = "it's $(a) group;"
    set_rules(secured, [])
    alice = KafkaInput(client_config(None, None, java_settings(secured, "alice")))
    lines = _lines(alice, group)
    some = [("READ", "GROUP"), ("DESCRIBE_CONFIGS", "TOPIC"), ("DESCRIBE_CONFIGS", "CLUSTER")]
    for right in some:
        _run_lines(secured, lines[right])
    _wait_for(alice, group, {*some, ("DESCRIBE", "GROUP")})


def test_a_denial_is_removed_where_the_rules_may_be_listed(secured: KafkaBroker) -> None:
    rules = ["GROUP * READ", "-GROUP bill* ALL", "BROKER kafka-cluster DESCRIBE"]
    set_rules(secured, [rule(one, "billing") for one in rules])
    alice = KafkaInput(client_config(None, None, java_settings(secured, "alice")))
    lines = _lines(alice, "billing")
    assert lines["READ", "GROUP"].count("kafka-acls.sh") == 1
    assert "--remove" in lines["READ", "GROUP"]
    assert lines["DELETE", "GROUP"].count("kafka-acls.sh") == 2
    _run_lines(secured, lines["DELETE", "GROUP"])
    _wait_for(alice, "billing", {("READ", "GROUP"), ("DELETE", "GROUP"), ("DESCRIBE", "GROUP")})


@pytest.mark.parametrize("asks", ["admin", "alice"])
@pytest.mark.parametrize("named", [False, True])
def test_a_super_user_is_not_said_to_lack_rights(
    secured: KafkaBroker, tmp_path: Path, asks: str, named: bool
) -> None:
    """By their own account they have them; by the rules alone, nobody knows.

    That is so whether the rules name them or not. Once somebody says who the super users are it is
    known.
    """
    cluster = ("BROKER kafka-cluster DESCRIBE", "BROKER kafka-cluster DESCRIBE_CONFIGS")
    rules = [rule(one) for one in cluster]
    rules += [rule("TOPIC t DESCRIBE", principal="User:admin")] if named else []
    set_rules(secured, rules)

    def told(*options: str) -> tuple[int, set[str], str]:
        done = sharelag(
            *("doctor", "--rights", "--principal", "User:admin", "--group", "g", "--topic", "t"),
            *("--bootstrap-server", secured.secure_bootstrap_servers, "-o", "json", *options),
            *("--command-config", settings_file(tmp_path, java_settings(secured, asks))),
        )
        said = {row["granted"] for row in map(json.loads, done.stdout.splitlines())}
        return done.returncode, said, done.stderr

    code, said, printed = told()
    assert (code, NO in said) == (0, False), printed
    assert UNKNOWN in said
    assert (YES in said) == (asks == "admin" or named)
    if asks == "alice":
        assert "whether the principal is a super user" in printed
        assert told("--super-users", SUPER_USERS)[:2] == (0, {YES})
        code, said, _ = told("--super-users", "User:ANONYMOUS")
        assert (code, NO in said, UNKNOWN in said) == (1, True, False)


def test_the_rules_may_be_listed_by_who_may_describe_the_cluster(
    secured: KafkaBroker, tmp_path: Path
) -> None:
    set_rules(secured, [])
    done = sharelag(
        *("doctor", "--rights", "--principal", "User:bob", "--group", "g", "--topic", "t"),
        *("--bootstrap-server", secured.secure_bootstrap_servers),
        *("--command-config", settings_file(tmp_path, java_settings(secured, "alice"))),
    )
    assert done.returncode == 1
    assert "not authorized to ask the cluster for its access rules" in done.stderr
    assert "--operation Describe --cluster" in done.stderr


@pytest.mark.row("SEC-06")
@pytest.mark.parametrize("how", [[], ["--brief"]])
def test_a_topic_that_may_not_be_described_is_hidden(
    secured: KafkaBroker, command: Oracle, tmp_path: Path, how: list[str]
) -> None:
    """Two of three topics of a group have their lag, as Kafka's command says; one is hidden."""
    servers, group, topics = secured.bootstrap_servers, f"three{len(how)}", ["h1", "h2", "h3"]
    names = {name: f"{name}{len(how)}" for name in topics}
    for name in names.values():
        read_in_part(servers, group, name, partitions=1, read=4, left=int(name[1]))
    seen = [names["h1"], names["h2"]]
    rules = [f"TOPIC {name} DESCRIBE" for name in seen]
    set_rules(secured, [rule(one, group) for one in [*READS, *rules, "GROUP {} DESCRIBE"]])
    settings = java_settings(secured, "alice")
    cluster = [
        *("--bootstrap-server", secured.secure_bootstrap_servers),
        *("--command-config", settings_file(tmp_path, settings)),
    ]
    done = sharelag("lag", *cluster, "--group", group, "-o", "json", *how)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    lags = {row["topic"]: row["lag"] for row in rows if row["topic"]}
    assert lags == {seen[0]: 1, seen[1]: 2}
    (hidden,) = (row for row in rows if not row["topic"])
    assert (hidden["lag"], hidden["end_offset"]) == (None, None)
    assert "not known: lag and ends where 1 topic is hidden (DESCRIBE is missing)" in done.stderr
    described = command.ask({"args": [*cluster, "--describe", "--group", group, *VERBOSE]})
    kafkas = {one["topic"]: one["lag"] for one in parse_describe(described["out"])}
    assert kafkas == lags
    told = sharelag("doctor", "--rights", *cluster, "--group", group)
    assert "1 topic is hidden" in told.stderr
    assert names["h3"] not in done.stdout + told.stdout


def test_a_workbench_shows_the_rights(secured: KafkaBroker, tmp_path: Path) -> None:
    set_rules(secured, [rule(READS[0], "billing")])
    cluster = client_config(None, None, java_settings(secured, "alice"))
    bench = open_workbench(KafkaInput(cluster), engine="local")
    group = "<b>bold</b>"
    answer = bench.rights(group, "orders")
    granted = dict(zip(answer["resource"], answer["granted"], strict=True))
    assert granted[group] == NO
    assert bench.rights(group, "orders").table is answer.table
    page = answer._repr_html_()
    assert "<b>bold" not in page
    assert "&lt;b&gt;bold" in page
    assert answer.as_of is not None
    said = " ".join(answer.notes)
    assert f"READ on topic {GROUP_TOPIC}, these end with an error: capture, " in said
    assert "peek" in said  # the topic may not be read
    everything = bench.rights()
    assert {"billing", STATE_TOPIC} <= set(everything["resource"].dropna())


def test_without_an_authorizer_everything_is_allowed(broker: KafkaBroker) -> None:
    source = KafkaInput(client_config(broker.bootstrap_servers))
    asked, _ = rights_of(source, ["g"], ["missing"])
    of_groups = {row["granted"] for row in asked.to_pylist() if row["resource"] == "g"}
    assert of_groups <= {YES, UNKNOWN}  # unknown where no group was ever used
    assert failing(asked) == {}
    judged, unknown = rights_of(source, ["g"], ["missing"], "User:alice")
    assert set(judged.column("granted").to_pylist()) == {YES}
    assert unknown == ()


def test_the_errors_are_kafkas() -> None:
    with oracles.error_codes() as kafkas:
        codes = kafkas.ask({})
    ours = {error.name: code for code, error in ERRORS.items() if code >= -1}
    assert ours == {name: codes[name] for name in ours}
    assert set().union(*ANSWERS.values()) <= codes.keys()
