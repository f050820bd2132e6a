"""The preflight of rights says what then happens, for Kafka's own clients and for our commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from sharelag.metrics.rights import NO, UNKNOWN, YES, failing
from sharelag.model.rights import CLUSTER
from sharelag.sources.inputs import KafkaInput
from sharelag.sources.kafka.config import client_config
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC
from sharelag.workbench.rights import rights_of
from tests.support.command import sharelag
from tests.support.kafka import oracles
from tests.support.kafka.access import java_settings, rule, set_rules, settings_file
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.broker_properties import SUPER_USERS
from tests.support.kafka.oracles import Oracle
from tests.support.kafka.workload import set_group_config

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


def _granted(table: pa.Table) -> dict[str, str]:
    """What is said of each right, without that of brokers, which no client can try."""
    said = {
        f"{row['operation']} {row['resource_type']} {row['resource']}": row["granted"]
        for row in table.to_pylist()
    }
    assert said.pop("CLUSTER_ACTION CLUSTER kafka-cluster") != YES
    return said


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.exhaustive) if number % 2 else name
        for number, name in enumerate(COMBINATIONS)
    ],
)
def test_the_preflight_is_what_happens(
    secured: KafkaBroker, oracle: Oracle, tmp_path: Path, name: str
) -> None:
    group = f"spare-{list(COMBINATIONS).index(name)}"
    set_group_config(secured.bootstrap_servers, group, **{"share.auto.offset.reset": "earliest"})
    set_rules(secured, [rule(one, group) for one in COMBINATIONS[name]])
    settings = java_settings(secured, "alice")
    table, _ = rights_of(KafkaInput(client_config(None, None, settings)), [group], ["orders"])
    happened = oracle.ask({"config": settings, "topics": TOPICS, "topic": "orders", "group": group})
    consumed = happened.pop("consumes")
    happened_so = {right: YES if may else NO for right, may in happened.items()}
    assert _granted(table) == happened_so
    admin = KafkaInput(client_config(secured.bootstrap_servers))
    # Brokers do not show who the super users are, so that must be said.
    for super_users, refused in ((SUPER_USERS.split(";"), NO), (None, UNKNOWN)):
        judged, _ = rights_of(admin, [group], ["orders"], "User:alice", super_users)
        assert _granted(judged) == {
            right: refused if said == NO else said for right, said in happened_so.items()
        }
    assert consumed == ("share consumers" not in failing(table))
    cluster = [
        *("--bootstrap-server", secured.secure_bootstrap_servers),
        *("--command-config", settings_file(tmp_path, settings)),
    ]
    ended = {
        command
        for command in COMMANDS
        if sharelag(*command.split(), *cluster, "-o", "json").returncode
    }
    assert ended == failing(table).keys() & set(COMMANDS)


@pytest.mark.parametrize(
    "name",
    ["nothing", pytest.param("no records of groups", marks=pytest.mark.exhaustive), "all of ours"],
)
def test_every_command_fails_where_the_preflight_says_so(
    secured: KafkaBroker, tmp_path: Path, name: str
) -> None:
    """All commands that read a cluster, but for those that run the others' code when asked later.

    Who may do all that sharelag needs asks for no more and no less than what is said to be needed.
    """
    rules = tmp_path / "rules.yaml"
    rules.write_text("version: 1\nrules:\n  - {name: lag, measure: lag, warn: 1000}\n")
    group = ["--group", "billing"]
    lines = {
        "capture": ["capture", str(tmp_path / "capture")],
        "check": ["check", "--rules", str(rules), *group],
        "dlq": ["dlq", *group, "--queue", "orders"],
        "export": ["export", "prometheus", "--brief", "--textfile", str(tmp_path / "x.prom")],
        "peek": ["peek", "billing", "orders:0:0"],
        "plan-delete": ["plan-delete", *group],
        "plan-reset": ["plan-reset", *group, "--to-latest"],
        "plan-reset --simulate": ["plan-reset", *group, "--to-latest", "--simulate", "--members=2"],
        "settings": ["settings", *group],
        "simulate": ["simulate", *group, "--service", "10ms", "--duration", "1s"],
    }
    plain = ("decode", "history", "history --events", "imbalance", "members", "progress", "windows")
    lines |= {command: command.split() for command in (*plain, *COMMANDS)}
    set_rules(secured, [rule(one, "billing") for one in COMBINATIONS[name]])
    settings = java_settings(secured, "alice")
    cluster = ["--command-config", settings_file(tmp_path, settings)]
    source = KafkaInput(client_config(None, None, settings))
    table, _ = rights_of(source, ["billing"], ["orders"])
    ended, asked = set(), {}
    for command, line in lines.items():
        begin = secured.log_file.stat().st_size
        if sharelag(*line, *cluster).returncode:
            ended.add(command)
        asked[command] = _asked(secured.log_file, begin)
    assert ended == failing(table).keys() & lines.keys()
    every = {one for row in table.to_pylist() for one in row["needed_by"] + row["used_by"]}
    others = {one for one in every if one.startswith(("kafka-", "share consumers", "doctor"))}
    assert every - others == lines.keys() | {"report", "mcp"}
    if name == "all of ours":
        for command, (needed, with_metadata) in asked.items():
            said = {
                (row["operation"], row["resource_type"], _whose(row["resource"]))
                for row in table.to_pylist()
                if command in row["needed_by"] + row["used_by"]
            }
            # Asking for topics by their ids asks for all; who may not describe one is not refused.
            assert needed <= said | {("DESCRIBE", "TOPIC", "any")}, command
            assert said <= with_metadata, command


def _asked(log: Path, begin: int) -> tuple[set[tuple[str, ...]], set[tuple[str, ...]]]:
    """What alice asked for by the log of the authorizer: without requests of metadata, and in all.

    What is about the group `sharelag` is the library's own, which finds a coordinator for nothing.
    """
    with log.open() as file:
        file.seek(begin)
        found = re.findall(
            r"Principal = User:alice is \w+ operation = (\w+) from host = \S+ "
            r"on resource = (\w+):LITERAL:(\S+) for request = (\w+)",
            file.read(),
        )
    asked = [
        ((what, kind.upper(), _whose(name)), by)
        for what, kind, name, by in found
        if (kind, name) != ("Group", "sharelag")
    ]
    return {right for right, by in asked if by != "Metadata"}, {right for right, _ in asked}


def _whose(name: str) -> str:
    """A topic of the coordinators or the cluster by its name; other tests have groups here, too."""
    return name if name in (STATE_TOPIC, GROUP_TOPIC, CLUSTER) else "any"
