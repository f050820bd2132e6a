"""The preflight of rights says what then happens, for Kafka's own clients and for our commands."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sharelag.inputs import KafkaInput
from sharelag.inputs.kafka.config import client_config
from sharelag.metrics.rights import NO, UNKNOWN, YES, failing
from sharelag.model import CLUSTER
from sharelag.model.kafka_errors import ANSWERS, ERRORS
from sharelag.wire import GROUP_TOPIC, STATE_TOPIC
from sharelag.workbench import open_workbench
from sharelag.workbench.rights import rights_of
from tests.support.command import refused, rows_of, sharelag
from tests.support.kafka.access import java_settings, rule, set_rules, settings_file
from tests.support.kafka.broker import SHARE_GROUPS, SUPER_USERS, KafkaBroker
from tests.support.kafka.describe import parse_describe
from tests.support.kafka.oracles import Oracle, run_command
from tests.support.kafka.workload import read_in_part, set_group_config, wait_until

TOPICS = [STATE_TOPIC, GROUP_TOPIC, "orders"]
_READS = [f"TOPIC {STATE_TOPIC} READ", f"TOPIC {GROUP_TOPIC} READ"]
_ALL = [
    *_READS,
    *("TOPIC orders READ", "TOPIC orders DESCRIBE_CONFIGS", "GROUP {} DESCRIBE_CONFIGS"),
    "BROKER kafka-cluster DESCRIBE_CONFIGS",
]
#: Rules by name: resource, operation; {} is the group, a final star a prefix, a minus a denial.
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
EXHAUSTIVE = pytest.mark.exhaustive
#: Of these `make test` tries what happens.
QUICK = ("topics are hidden",)
#: A command for each set of topics that commands read.
COMMANDS = [
    *("lag", "explain", "groups", "brokers", "health", "settings --all-groups", "reconcile"),
    "reconcile --true",
]


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    """What Kafka's clients may do."""
    with Oracle("RightsOracle") as asked:
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
    "name", [pytest.param(name, marks=[] if name in QUICK else EXHAUSTIVE) for name in COMBINATIONS]
)
def test_it_is_as_it_said(secured: KafkaBroker, oracle: Oracle, tmp_path: Path, name: str) -> None:
    group = f"spare-{list(COMBINATIONS).index(name)}"
    set_group_config(secured.bootstrap_servers, group, share_auto_offset_reset="earliest")
    set_rules(secured, [rule(one, group) for one in COMBINATIONS[name]])
    settings = java_settings(secured, "alice")
    table, _ = rights_of(KafkaInput(client_config(None, None, settings)), [group], ["orders"])
    happened = oracle.ask({"config": settings, "topics": TOPICS, "topic": "orders", "group": group})
    consumed = happened.pop("consumes")
    happened_so = {right: YES if may else NO for right, may in happened.items()}
    assert _granted(table) == happened_so
    admin = KafkaInput(client_config(secured.bootstrap_servers))
    # Brokers do not show who the super users are, so that must be said.
    for super_users, without in ((SUPER_USERS.split(";"), NO), (None, UNKNOWN)):
        judged, _ = rights_of(admin, [group], ["orders"], "User:alice", super_users)
        expected = {right: without if said == NO else said for right, said in happened_so.items()}
        assert _granted(judged) == expected
    assert consumed == ("share consumers" not in failing(table))
    cluster = ["--bootstrap-server", secured.secure_bootstrap_servers]
    cluster += ["--command-config", settings_file(tmp_path, settings)]
    ended = {one for one in COMMANDS if sharelag(*one.split(), *cluster, "-o", "json").returncode}
    assert ended == failing(table).keys() & set(COMMANDS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["all of ours", "nothing", "no records of groups"])
def test_commands_fail_where_it_says_so(secured: KafkaBroker, tmp_path: Path, name: str) -> None:
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
        "forecasts": ["forecasts", "--ledger", str(tmp_path / "ledger"), *group],
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
        # What is hidden of other tests' groups, a capture lacks: that ends it with 3.
        whole = (0, 3) if command == "capture" else (0,)
        if sharelag(*line, *cluster).returncode not in whole:
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
    ours = [one for one in found if (one[1], one[2]) != ("Group", "sharelag")]
    asked = [((what, kind.upper(), _whose(name)), by) for what, kind, name, by in ours]
    return {right for right, by in asked if by != "Metadata"}, {right for right, _ in asked}


def _whose(name: str) -> str:
    """A topic of the coordinators or the cluster by its name; other tests have groups here, too."""
    return name if name in (STATE_TOPIC, GROUP_TOPIC, CLUSTER) else "any"


VERBOSE = ["--offsets", "--verbose"]
DESCRIBE = "kafka-share-groups.sh --describe"


def _told(secured: KafkaBroker, tmp_path: Path, *options: str) -> dict[str, dict[str, Any]]:
    """What the command line prints about billing and orders, by operation and resource."""
    words = "doctor --rights --group billing --topic orders -o json"
    done = sharelag(*words.split(), *options)
    rows = rows_of(done)
    command = "share consumers" if "--principal" in options else "lag"
    assert done.returncode == any(r["granted"] == NO and command in r["needed_by"] for r in rows)
    return {f"{row['operation']} {row['resource_type']} {row['resource']}": row for row in rows}


def _needed(told: dict[str, dict[str, Any]], command: str) -> dict[str, str]:
    return {name: row["granted"] for name, row in told.items() if command in row["needed_by"]}


@pytest.mark.row("SEC-01")
@pytest.mark.row("SEC-02")
@pytest.mark.row("SEC-03")
def test_a_group_only_described(secured: KafkaBroker, oracle: Oracle, tmp_path: Path) -> None:
    """Describing succeeds, consuming fails as it would; brokers' requests are theirs."""
    set_rules(secured, [rule("GROUP {} DESCRIBE", "billing"), rule("TOPIC orders DESCRIBE", "")])
    admin = java_settings(secured, "admin")
    given = ("--command-config", settings_file(tmp_path, admin), "--principal", "User:alice")
    told = _told(secured, tmp_path, *given, "--super-users", SUPER_USERS)
    describe, consume = (_needed(told, one) for one in (DESCRIBE, "share consumers"))
    assert describe == {"DESCRIBE TOPIC orders": YES, "DESCRIBE GROUP billing": YES}
    assert consume == describe | {"READ TOPIC orders": NO, "READ GROUP billing": NO}
    alice = java_settings(secured, "alice")
    described = run_command(
        SHARE_GROUPS,
        *("--bootstrap-server", secured.secure_bootstrap_servers),
        *("--command-config", settings_file(tmp_path, alice)),
        *("--describe", "--group", "billing", "--offsets"),
    )
    assert described.returncode == 0
    assert "billing" in described.stdout
    assert not oracle.ask({"config": alice, "topics": [], "topic": "orders", "group": "billing"})[
        "consumes"
    ]
    brokers = told["CLUSTER_ACTION CLUSTER kafka-cluster"]
    assert (brokers["granted"], brokers["needed_by"], brokers["grant"]) == (NO, [], None)
    assert "ReadShareGroupState" in brokers["purpose"]
    assert "sharelag reads the topic instead" in brokers["purpose"]
    assert "lag" in told[f"READ TOPIC {STATE_TOPIC}"]["needed_by"]


def _run_lines(secured: KafkaBroker, line: str) -> None:
    """Run lines of kafka-acls.sh by Kafka's own program, as somebody who may."""
    for one in line.split(" && "):
        command, _, _, *words = shlex.split(one)
        assert command == "kafka-acls.sh"
        sure = ["--force"] if "--remove" in words else []
        secured.ask_tool("AclCommand", *words, *sure)


def _wait_for(source: KafkaInput, group: str, wanted: set[tuple[str, str]]) -> None:
    def granted() -> set[tuple[str, str]]:
        after, _ = rights_of(source, [group], ["orders"])
        return {
            (r["operation"], r["resource_type"]) for r in after.to_pylist() if r["granted"] == YES
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
def test_super_user_rights(secured: KafkaBroker, tmp_path: Path, asks: str, named: bool) -> None:
    """By their own account they have them; by the rules alone, nobody knows.

    That is so whether the rules name them or not. Once somebody says who the super users are it is
    known.
    """
    cluster = ("BROKER kafka-cluster DESCRIBE", "BROKER kafka-cluster DESCRIBE_CONFIGS")
    rules = [rule(one) for one in cluster]
    rules += [rule("TOPIC t DESCRIBE", principal="User:admin")] if named else []
    set_rules(secured, rules)

    def told(*options: str) -> tuple[int, set[str], str]:
        words = "doctor --rights --principal User:admin --group g --topic t -o json"
        config = settings_file(tmp_path, java_settings(secured, asks))
        done = sharelag(*words.split(), *options, "--command-config", config)
        said = {row["granted"] for row in rows_of(done)}
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


def test_who_may_describe_the_cluster_may_list_rules(secured: KafkaBroker, tmp_path: Path) -> None:
    set_rules(secured, [])
    words = "doctor --rights --principal User:bob --group g --topic t --command-config"
    said = refused(*words.split(), settings_file(tmp_path, java_settings(secured, "alice")))
    assert "not authorized to ask the cluster for its access rules" in said
    assert "--operation Describe --cluster" in said


@pytest.mark.row("SEC-06")
@pytest.mark.parametrize("how", [[], pytest.param(["--brief"], marks=EXHAUSTIVE)])
def test_hidden_topics(secured: KafkaBroker, tmp_path: Path, how: list[str]) -> None:
    """Two of three topics of a group have their lag, as Kafka's command says; one is hidden."""
    servers, group, topics = secured.bootstrap_servers, f"three{len(how)}", ["h1", "h2", "h3"]
    names = {name: f"{name}{len(how)}" for name in topics}
    for name in names.values():
        read_in_part(servers, group, name, partitions=1, read=4, left=int(name[1]))
    seen = [names["h1"], names["h2"]]
    rules = [f"TOPIC {name} DESCRIBE" for name in seen]
    set_rules(secured, [rule(one, group) for one in [*_READS, *rules, "GROUP {} DESCRIBE"]])
    settings = java_settings(secured, "alice")
    cluster = ["--bootstrap-server", secured.secure_bootstrap_servers]
    cluster += ["--command-config", settings_file(tmp_path, settings)]
    done = sharelag("lag", *cluster, "--group", group, "-o", "json", *how)
    rows = rows_of(done)
    lags = {row["topic"]: row["lag"] for row in rows if row["topic"]}
    assert lags == {seen[0]: 1, seen[1]: 2}
    (hidden,) = (row for row in rows if not row["topic"])
    assert (hidden["lag"], hidden["end_offset"]) == (None, None)
    assert "not known: lag and ends where 1 topic is hidden (DESCRIBE is missing)" in done.stderr
    described = run_command(SHARE_GROUPS, *cluster, "--describe", "--group", group, *VERBOSE)
    kafkas = {one["topic"]: one["lag"] for one in parse_describe(described.stdout)}
    assert kafkas == lags
    told = sharelag("doctor", "--rights", *cluster, "--group", group)
    rights = rows_of(sharelag("doctor", "--rights", *cluster, "--group", group, "-o", "json"))
    shown = told.stdout.partition("\n\n")[0].splitlines()[1:]
    assert len(shown) == sum(bool(row["needed_by"] or row["used_by"]) for row in rights) > 0
    assert "1 topic is hidden" in told.stderr
    assert names["h3"] not in done.stdout + told.stdout
    saved = sharelag("capture", str(tmp_path / "capture"), *cluster)
    assert saved.returncode == 3, saved.stderr
    lacks = r"not complete: it lacks lag and ends where .* hidden .DESCRIBE is missing"
    assert re.search(f"{lacks}.*{hidden['topic_id']}", saved.stderr)
    # Neither settings nor records of users' topics may be read.
    for what in (
        "some settings, unreadable or differing",
        f"times of records, .* of {seen[0]}, {seen[1]}",
    ):
        assert re.search(f"not complete: it lacks {what}", saved.stderr)
    of_hidden = ("--topic", names["h3"], "--group", group)
    for command in ("lag", "plan-reset --to-latest", "plan-delete"):
        assert "DESCRIBE" in refused(*command.split(), *cluster, *of_hidden).splitlines()[-1]
    no_queue = refused("dlq", *cluster, "--group", group)
    assert "topic.name: the settings of the group are unknown)" in no_queue


def test_a_workbench_shows_the_rights(secured: KafkaBroker, tmp_path: Path) -> None:
    set_rules(secured, [rule(_READS[0], "billing")])
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
    assert (set(judged.column("granted").to_pylist()), unknown) == ({YES}, ())


def test_the_errors_are_kafkas() -> None:
    printed = run_command("org.apache.kafka.common.protocol.Errors").stdout
    found = re.findall(r"<td>(\w+)</td><td>(-?\d+)</td>", printed)
    codes = {name: int(code) for name, code in found}
    ours = {error.name: code for code, error in ERRORS.items() if code >= -1}
    assert ours == {name: codes[name] for name in ours}
    assert set().union(*ANSWERS.values()) <= codes.keys()
