"""The preflight of rights says what then happens, for Kafka's own clients and for our commands."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

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
from tests.support.kafka.broker import USERS, KafkaBroker, parse_describe
from tests.support.kafka.oracles import Oracle
from tests.support.kafka.workload import read_in_part, set_group_config, wait_until

VERBOSE = ["--offsets", "--verbose"]
DESCRIBE = "kafka-share-groups.sh --describe"
TOPICS = [STATE_TOPIC, GROUP_TOPIC, "orders"]
_READS = [f"TOPIC {STATE_TOPIC} READ", f"TOPIC {GROUP_TOPIC} READ"]
_ALL = [
    *_READS,
    *("TOPIC orders READ", "TOPIC orders DESCRIBE_CONFIGS", "GROUP {} DESCRIBE_CONFIGS"),
    "BROKER kafka-cluster DESCRIBE_CONFIGS",
]
#: Rules by name: resource, operation; {} is the group, a star at the end a prefix, a minus a denial.
COMBINATIONS = {
    "nothing": [],
    "all of ours": _ALL,
    "no records of groups": [one for one in _ALL if GROUP_TOPIC not in one],
    "state is only described": [f"TOPIC {STATE_TOPIC} DESCRIBE", *_ALL[1:]],
    "topics are hidden": _READS,
    "topics are only described": [*_READS, "TOPIC orders DESCRIBE"],
    "settings without describing": [
        *("TOPIC orders DESCRIBE_CONFIGS", "GROUP {} ALTER_CONFIGS"),
        "BROKER kafka-cluster ALTER_CONFIGS",
    ],
    "the group is only described": [*_READS, "TOPIC orders READ", "GROUP {} DESCRIBE"],
    "a consumer": ["TOPIC orders READ", "GROUP {} READ"],
    "a consumer without its topic": ["TOPIC orders DESCRIBE", "GROUP {} READ"],
    "who deletes": ["TOPIC ord* ALL", "GROUP {} DELETE", "BROKER kafka-cluster DESCRIBE"],
    "denied": ["TOPIC * ALL", "GROUP * ALL", "-GROUP {} DESCRIBE", "-TOPIC orders READ"],
}
#: A command for each set of topics that commands read.
COMMANDS = [
    *("lag", "explain", "groups", "brokers", "health", "settings --all-groups", "reconcile"),
    "reconcile --true",
]


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    """What Kafka's clients may do."""
    with oracles.rights() as asked:
        yield asked


def _rule(text: str, group: str) -> AclBinding:
    kind, name, operation = text.removeprefix("-").format(group).split()
    is_prefix = len(name) > 1 and name.endswith("*")
    return AclBinding(
        ResourceType[kind],
        name.rstrip("*") or "*",
        ResourcePatternType.PREFIXED if is_prefix else ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation[operation],
        AclPermissionType.DENY if text.startswith("-") else AclPermissionType.ALLOW,
    )


def _set_rules(broker: KafkaBroker, rules: list[AclBinding]) -> None:
    """Replace all rules; returns when the broker's authorizer has them."""
    admin = AdminClient(broker.client_config())
    everything = AclBindingFilter(
        *(ResourceType.ANY, None, ResourcePatternType.ANY, None, None),
        *(AclOperation.ANY, AclPermissionType.ANY),
    )

    def in_force() -> set[AclBinding]:
        return set(admin.describe_acls(everything).result(timeout=30))

    for deleted in admin.delete_acls([everything]).values():
        deleted.result(timeout=30)
    if rules:
        for created in admin.create_acls(rules).values():
            created.result(timeout=30)
    wait_until(lambda: in_force() == set(rules), "the rules are in force")


def _java_settings(broker: KafkaBroker, user: str) -> dict[str, str]:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "bootstrap.servers": broker.secure_bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{module} required username="{user}" password="{USERS[user]}";',
    }


def _file(folder: Path, settings: dict[str, str]) -> str:
    file = folder / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(file)


def _granted(table: pa.Table) -> dict[str, str]:
    """What is said of each right, without that of brokers, which no client can try."""
    said = {
        f"{row['operation']} {row['resource_type']} {row['resource']}": row["granted"]
        for row in table.to_pylist()
    }
    assert said.pop("CLUSTER_ACTION CLUSTER kafka-cluster") != YES
    return said


@pytest.mark.parametrize("name", COMBINATIONS)
def test_the_preflight_is_what_happens(
    secured: KafkaBroker, oracle: Oracle, tmp_path: Path, name: str
) -> None:
    group = f"spare-{list(COMBINATIONS).index(name)}"
    set_group_config(secured.bootstrap_servers, group, **{"share.auto.offset.reset": "earliest"})
    _set_rules(secured, [_rule(one, group) for one in COMBINATIONS[name]])
    settings = _java_settings(secured, "alice")
    table, _ = rights_of(KafkaInput(client_config(None, None, settings)), [group], ["orders"])
    happened = oracle.ask({"config": settings, "topics": TOPICS, "topic": "orders", "group": group})
    consumed = happened.pop("consumes")
    happened_so = {right: YES if may else NO for right, may in happened.items()}
    assert _granted(table) == happened_so
    admin = KafkaInput(client_config(secured.bootstrap_servers))
    judged, _ = rights_of(admin, [group], ["orders"], "User:alice")
    assert _granted(judged) == happened_so
    assert consumed == ("share consumers" not in failing(table))
    cluster = [
        *("--bootstrap-server", secured.secure_bootstrap_servers),
        *("--command-config", _file(tmp_path, settings)),
    ]
    ended = {
        command
        for command in COMMANDS
        if sharelag(*command.split(), *cluster, "-o", "json").returncode
    }
    assert ended == failing(table).keys() & set(COMMANDS)


def _told(secured: KafkaBroker, tmp_path: Path, *options: str) -> dict[str, dict[str, Any]]:
    """What the command line prints about billing and orders, by operation and resource."""
    done = sharelag(
        *("doctor", "--rights", "--bootstrap-server", secured.secure_bootstrap_servers),
        *("--group", "billing", "--topic", "orders", "-o", "json", *options),
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == any(
        row["granted"] == NO and "lag" in row["needed_by"] for row in rows
    )
    return {f"{row['operation']} {row['resource_type']} {row['resource']}": row for row in rows}


def _needed(told: dict[str, dict[str, Any]], command: str) -> dict[str, str]:
    return {name: row["granted"] for name, row in told.items() if command in row["needed_by"]}


@pytest.mark.row("SEC-01")
@pytest.mark.row("SEC-02")
@pytest.mark.row("SEC-03")
def test_a_group_that_may_only_be_described(
    secured: KafkaBroker, oracle: Oracle, tmp_path: Path
) -> None:
    """Describing it goes well; consuming would fail, and so it does; brokers' requests are theirs."""
    _set_rules(secured, [_rule("GROUP {} DESCRIBE", "billing"), _rule("TOPIC orders DESCRIBE", "")])
    admin = _java_settings(secured, "admin")
    told = _told(
        *(secured, tmp_path, "--command-config", _file(tmp_path, admin)),
        *("--principal", "User:alice"),
    )
    describe, consume = (_needed(told, one) for one in (DESCRIBE, "share consumers"))
    assert describe == {"DESCRIBE TOPIC orders": YES, "DESCRIBE GROUP billing": YES}
    assert consume == describe | {"READ TOPIC orders": NO, "READ GROUP billing": NO}
    alice = _java_settings(secured, "alice")
    with oracles.share_groups() as command:
        described = command.ask(
            {
                "args": [
                    *("--bootstrap-server", secured.secure_bootstrap_servers),
                    *("--command-config", _file(tmp_path, alice)),
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
    _set_rules(secured, [_rule("GROUP {} READ", "billing"), _rule("TOPIC orders DESCRIBE", "")])
    alice = _java_settings(secured, "alice")
    told = _told(secured, tmp_path, "--command-config", _file(tmp_path, alice))
    missing = [one for one, may in _needed(told, "share consumers").items() if may == NO]
    assert missing == ["READ TOPIC orders"]
    asked = {"config": alice, "topics": [], "topic": "orders", "group": "billing"}
    assert not oracle.ask(asked)["consumes"]


def test_the_lines_that_grant_are_kafkas(
    secured: KafkaBroker, oracle: Oracle, tmp_path: Path
) -> None:
    group = "it's $(a) group;"
    _set_rules(secured, [])
    alice = KafkaInput(client_config(None, None, _java_settings(secured, "alice")))
    before, _ = rights_of(alice, [group], ["orders"])
    lines = {
        (row["operation"], row["resource_type"]): row["grant"]
        for row in before.to_pylist()
        if row["resource"] in (group, "orders", "kafka-cluster")
    }
    some = [("READ", "GROUP"), ("DESCRIBE_CONFIGS", "TOPIC"), ("DESCRIBE_CONFIGS", "CLUSTER")]
    for right in some:
        words = shlex.split(lines[right])
        assert words[:3] == ["kafka-acls.sh", "--bootstrap-server", alice.config.bootstrap_servers]
        done = secured.run_tool(
            *("org.apache.kafka.tools.AclCommand", "--bootstrap-server"),
            *(secured.bootstrap_servers, *words[3:]),
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def granted() -> set[tuple[str, str]]:
        after, _ = rights_of(alice, [group], ["orders"])
        return {
            (row["operation"], row["resource_type"])
            for row in after.to_pylist()
            if row["granted"] == YES
        }

    wait_until(lambda: granted() == {*some, ("DESCRIBE", "GROUP")}, "the grants are in force")


def test_the_rules_may_be_listed_by_who_may_describe_the_cluster(
    secured: KafkaBroker, tmp_path: Path
) -> None:
    _set_rules(secured, [])
    done = sharelag(
        *("doctor", "--rights", "--principal", "User:bob", "--group", "g", "--topic", "t"),
        *("--bootstrap-server", secured.secure_bootstrap_servers),
        *("--command-config", _file(tmp_path, _java_settings(secured, "alice"))),
    )
    assert done.returncode == 1
    assert "not authorized to ask the cluster for its access rules" in done.stderr
    assert "--operation Describe --cluster" in done.stderr


@pytest.mark.row("SEC-06")
@pytest.mark.parametrize("how", [[], ["--brief"]])
def test_a_topic_that_may_not_be_described_is_hidden(
    secured: KafkaBroker, tmp_path: Path, how: list[str]
) -> None:
    """Two of three topics of a group have their lag, as Kafka's command says; one is hidden."""
    servers, group, topics = secured.bootstrap_servers, f"three{len(how)}", ["h1", "h2", "h3"]
    names = {name: f"{name}{len(how)}" for name in topics}
    for name in names.values():
        read_in_part(servers, group, name, partitions=1, read=4, left=int(name[1]))
    seen = [names["h1"], names["h2"]]
    rules = [f"TOPIC {name} DESCRIBE" for name in seen]
    _set_rules(secured, [_rule(one, group) for one in [*_READS, *rules, "GROUP {} DESCRIBE"]])
    settings = _java_settings(secured, "alice")
    cluster = [
        *("--bootstrap-server", secured.secure_bootstrap_servers),
        *("--command-config", _file(tmp_path, settings)),
    ]
    done = sharelag("lag", *cluster, "--group", group, "-o", "json", *how)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    lags = {row["topic"]: row["lag"] for row in rows if row["topic"]}
    assert lags == {seen[0]: 1, seen[1]: 2}
    (hidden,) = (row for row in rows if not row["topic"])
    assert (hidden["lag"], hidden["end_offset"]) == (None, None)
    assert "not known: lag and ends where 1 topic is hidden (DESCRIBE is missing)" in done.stderr
    with oracles.share_groups() as command:
        described = command.ask({"args": [*cluster, "--describe", "--group", group, *VERBOSE]})
    kafkas = {one["topic"]: one["lag"] for one in parse_describe(described["out"])}
    assert kafkas == lags
    told = sharelag("doctor", "--rights", *cluster, "--group", group)
    assert "1 topic is hidden" in told.stderr
    assert names["h3"] not in done.stdout + told.stdout


def test_a_workbench_shows_the_rights(secured: KafkaBroker, tmp_path: Path) -> None:
    _set_rules(secured, [_rule(one, "billing") for one in _READS])
    cluster = client_config(None, None, _java_settings(secured, "alice"))
    bench = open_workbench(KafkaInput(cluster), engine="local")
    group = "<b>bold</b>"
    answer = bench.rights(group, "orders")
    granted = dict(zip(answer["resource"], answer["granted"], strict=True))
    assert granted[group] == NO
    assert bench.rights(group, "orders").table is answer.table
    page = answer._repr_html_()
    assert "<b>bold" not in page
    assert "&lt;b&gt;bold" in page
    assert "DESCRIBE on group" in "".join(answer.notes)
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
