"""The command line against a secured cluster: what people see when it works and when not."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from csv import DictReader
from functools import partial
from io import StringIO
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from sharelag.model.versions import has_reached
from sharelag.sources.kafka.brokers import leaders
from sharelag.sources.kafka.config import ClientConfig, client_config
from sharelag.sources.kafka.features import broker_features
from sharelag.sources.kafka.topics import topic_names
from sharelag.wire.fields import STATE_TOPIC
from tests.support.command import sharelag
from tests.support.kafka.broker import USERS, KafkaBroker
from tests.support.kafka.jars import KAFKA_VERSION
from tests.support.kafka.workload import read_in_part, wait_until

LOGIN = {"PLAIN": "plain.PlainLoginModule", "SCRAM-SHA-256": "scram.ScramLoginModule"}
#: A password with everything that a properties file and JAAS quote.
WRONG = 'wr"ng\\pa;ss=word'


@pytest.fixture(scope="module")
def secured() -> Iterator[KafkaBroker]:
    """A broker with a share group, on which alice may read everything, and bob only orders."""
    with KafkaBroker(secure=True) as broker:
        servers = broker.bootstrap_servers
        read_in_part(servers, "billing", "orders", partitions=1, read=20, left=5)
        both = (AclOperation.DESCRIBE, AclOperation.READ)
        rules = [
            ("alice", name, each)
            for name in (STATE_TOPIC, "__consumer_offsets", "orders")
            for each in both
        ]
        rules += [("carol", name, each) for name in (STATE_TOPIC, "orders") for each in both]
        rules += [("bob", "orders", each) for each in both]
        _allow(broker, rules)
        yield broker


def _allow(broker: KafkaBroker, rules: list[tuple[str, str, AclOperation]]) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    bindings = [
        AclBinding(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            each,
            AclPermissionType.ALLOW,
        )
        for user, topic, each in rules
    ]
    for done in admin.create_acls(bindings).values():
        done.result(timeout=30)
    for user, topic in {(user, topic) for user, topic, _ in rules}:
        config = client_config(
            broker.secure_bootstrap_servers, None, _properties(user, USERS[user])
        )
        wait_until(partial(_sees, config, topic), f"{user} may see {topic}")


def _sees(config: ClientConfig, topic: str) -> bool:
    return topic in topic_names(config)


def _properties(user: str, password: str, mechanism: str = "SCRAM-SHA-256") -> dict[str, str]:
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    login = f"org.apache.kafka.common.security.{LOGIN[mechanism]}"
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{login} required username="{user}" password="{quoted}";',
    }


def _file(folder: Path, user: str, password: str, mechanism: str = "SCRAM-SHA-256") -> Path:
    """A file as people keep it for Kafka's own commands, with what those need and we do not."""
    file = folder / "client.properties"
    properties = _properties(user, password, mechanism)
    properties["sasl.jaas.config"] = (
        properties["sasl.jaas.config"]
        .replace("\\", "\\\\")
        .replace("required ", "required \\\n   ")
    )
    properties |= {
        "key.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
        "group.id": "mine",
    }
    file.write_text("# ours\n" + "".join(f"{name}={value}\n" for name, value in properties.items()))
    return file


def _lag(broker: KafkaBroker, file: Path, *more: str) -> CompletedProcess[str]:
    return sharelag(
        "lag",
        "--bootstrap-server",
        broker.secure_bootstrap_servers,
        "--command-config",
        str(file),
        *more,
    )


def _the_line(done: CompletedProcess[str]) -> str:
    """Return the only line that a failure may print: no traceback, no log of the client."""
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return line


@pytest.mark.parametrize("mechanism", LOGIN)
def test_the_right_password(secured: KafkaBroker, tmp_path: Path, mechanism: str) -> None:
    done = _lag(secured, _file(tmp_path, "alice", USERS["alice"], mechanism), "-o", "json")
    assert done.returncode == 0, done.stderr
    (row,) = (json.loads(line) for line in done.stdout.splitlines())
    assert (row["group_id"], row["topic"], row["partition"], row["lag"]) == (
        "billing",
        "orders",
        0,
        5,
    )
    assert USERS["alice"] not in done.stdout + done.stderr
    assert len(done.stderr.splitlines()) == 1  # the summary; no log line of the client's


@pytest.mark.parametrize("mechanism", LOGIN)
def test_a_wrong_password(secured: KafkaBroker, tmp_path: Path, mechanism: str) -> None:
    begun = time.monotonic()
    done = _lag(secured, _file(tmp_path, "alice", WRONG, mechanism), "--timeout", "60000")
    assert (
        time.monotonic() - begun < 20
    )  # a busy machine starts Python slowly; the timeout is a minute
    line = _the_line(done)
    assert "refused our credentials" in line
    assert "check user, password and sasl.mechanism" in line
    assert "wr" + '"ng' not in line
    assert "pa;ss" not in line


@pytest.mark.parametrize("verbose", ["-v", "-vv"])
def test_v_shows_the_traceback_and_still_no_password(
    secured: KafkaBroker, tmp_path: Path, verbose: str
) -> None:
    done = _lag(secured, _file(tmp_path, "alice", WRONG), verbose)
    assert done.returncode == 1
    assert "Traceback (most recent call last)" in done.stderr
    assert "AuthenticationError" in done.stderr
    assert "refused our credentials" in done.stderr.splitlines()[-1]
    assert "pa;ss" not in done.stderr


def test_a_mechanism_that_the_listener_does_not_have(secured: KafkaBroker, tmp_path: Path) -> None:
    file = _file(tmp_path, "alice", USERS["alice"])
    file.write_text(file.read_text().replace("SCRAM-SHA-256", "SCRAM-SHA-512"))
    line = _the_line(_lag(secured, file, "--timeout", "60000"))
    assert "check user, password and sasl.mechanism" in line
    assert "SCRAM-SHA-512" in line


def test_no_permission_on_the_state_topic(secured: KafkaBroker, tmp_path: Path) -> None:
    line = _the_line(_lag(secured, _file(tmp_path, "bob", USERS["bob"])))
    assert "not authorized to read __share_group_state" in line
    assert "kafka-acls.sh --add" in line
    assert "--operation Read --operation Describe --topic __share_group_state" in line


@pytest.mark.parametrize(("command", "what"), [("groups", "--state"), ("members", "--members")])
def test_who_may_not_read_the_topics_may_ask_kafkas_command(
    secured: KafkaBroker, tmp_path: Path, command: str, what: str
) -> None:
    server = secured.secure_bootstrap_servers
    file = _file(tmp_path, "bob", USERS["bob"])
    done = sharelag(command, "--bootstrap-server", server, "--command-config", str(file))
    line = _the_line(done)
    assert "not authorized to read __share_group_state" in line
    cluster = f"--bootstrap-server {server} --command-config {file}"
    assert line.endswith(
        f"this prints: kafka-share-groups.sh {cluster} --describe --all-groups {what} --verbose"
    )


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.exhaustive)])
def test_without_the_groups_records_there_is_all_that_needs_no_members(
    secured: KafkaBroker, request: pytest.FixtureRequest, tmp_path: Path, engine: str
) -> None:
    """carol has the same rights as alice, but for `__consumer_offsets`."""
    if engine == "spark":  # the other engine starts none
        request.getfixturevalue("spark")
    cluster = ("--bootstrap-server", secured.secure_bootstrap_servers)
    answers = {}
    for user in ("alice", "carol"):
        file = str(_file(tmp_path, user, USERS[user]))
        for command in ("explain", "progress", "reconcile"):
            of = engine if user == "carol" else "local"
            done = sharelag(
                *(command, *cluster, "--command-config", file, "-o", "json", "--engine", of)
            )
            assert done.returncode == 0, done.stderr
            answers[user, command] = [json.loads(line) for line in done.stdout.splitlines()]
            is_told = "takes Read and Describe on that topic" in done.stderr
            assert is_told == (user == "carol" and command != "reconcile"), done.stderr
    for command in ("progress", "reconcile"):
        ours, theirs = (
            [
                (row["group_id"], row["partition"], row.get("kafka_lag"), row.get("lag"))
                for row in answers[user, command]
            ]
            for user in ("alice", "carol")
        )
        assert ours == theirs != []
    file = str(_file(tmp_path, "carol", USERS["carol"]))
    line = _the_line(sharelag("members", *cluster, "--command-config", file, "--engine", engine))
    assert "not authorized to read __consumer_offsets" in line
    assert "--operation Read --operation Describe --topic __consumer_offsets" in line


def test_settings_of_other_programs_are_ignored_as_kafkas_command_does(
    secured: KafkaBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = _file(tmp_path, "admin", USERS["admin"])
    more = "schema.registry.url=https://x.example.com\nbasic.auth.user.info=K:hunter2\n"
    file.write_text(file.read_text() + more + "ssl.truststore.location=/no/such.jks\n")
    servers = ("--bootstrap-server", secured.secure_bootstrap_servers)
    listed = secured.run_tool(
        "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
        *(*servers, "--command-config", str(file), "--list"),
    )
    assert "billing" in listed.stdout, listed.stderr
    done = _lag(secured, file, "-o", "csv")
    assert "billing" in done.stdout
    (note,) = (one.getMessage() for one in caplog.records if "ignored" in one.getMessage())
    assert note.endswith("as Kafka's commands do: basic.auth.user.info, schema.registry.url")
    assert "hunter2" not in done.stderr


def test_the_grant_that_is_named_is_enough(secured: KafkaBroker, tmp_path: Path) -> None:
    # admin is a super user; whoever gets the two operations on the topic sees the group, though not
    # its topic.
    admin = _lag(secured, _file(tmp_path, "admin", USERS["admin"]), "-o", "csv")
    alice = _lag(secured, _file(tmp_path, "alice", USERS["alice"]), "-o", "csv")
    assert admin.stdout.splitlines()[0] == alice.stdout.splitlines()[0]
    assert "billing" in admin.stdout
    assert "billing" in alice.stdout


@pytest.mark.parametrize("command", [["lag"], ["windows"], ["decode"], ["capture", "DIR"]])
def test_no_broker_at_the_address(tmp_path: Path, command: list[str]) -> None:
    with (
        socket.socket() as nobody
    ):  # bound, and not listening: refuses, and nobody else can take the port
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        arguments = [str(tmp_path / "c") if word == "DIR" else word for word in command]
        begun = time.monotonic()
        done = sharelag(*arguments, "--bootstrap-server", address, "--timeout", "1000")
    assert time.monotonic() - begun < 15
    assert f"no broker answered at {address} within 1 s" in _the_line(done)
    assert list(tmp_path.iterdir()) == []


def test_somebody_who_never_answers(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        begun = time.monotonic()
        done = sharelag("lag", "--bootstrap-server", address, "--timeout", "2000")
    assert time.monotonic() - begun < 15
    assert f"no broker answered at {address} within 2 s" in _the_line(done)


def test_a_name_that_does_not_resolve() -> None:
    done = sharelag("lag", "--bootstrap-server", "no-such-host.invalid:9092", "--timeout", "2000")
    line = _the_line(done)
    assert "no-such-host.invalid:9092" in line
    assert "check the address" in line


def test_a_cluster_without_share_groups(tmp_path: Path, secure_broker: KafkaBroker) -> None:
    for command in (["lag"], ["capture", str(tmp_path / "capture")]):
        line = _the_line(sharelag(*command, "--bootstrap-server", secure_broker.bootstrap_servers))
        assert "the cluster has no topic __share_group_state" in line
        assert "no share group was ever used" in line
    assert list(tmp_path.iterdir()) == []


def test_a_capture_holds_no_password(secured: KafkaBroker, tmp_path: Path) -> None:
    target = tmp_path / "capture"
    file = _file(tmp_path, "alice", USERS["alice"])
    done = sharelag(
        "capture",
        str(target),
        "--bootstrap-server",
        secured.secure_bootstrap_servers,
        "--command-config",
        str(file),
    )
    assert done.returncode == 0, done.stderr
    files = [path for path in target.rglob("*") if path.is_file()]
    assert {file.name for file in files} >= {"capture.json", "offsets.parquet", "settings.parquet"}
    assert not [path for path in files if USERS["alice"].encode() in path.read_bytes()]
    offline = sharelag("lag", "--capture", str(target), "-o", "csv")
    assert _rows(offline) == _rows(_lag(secured, file, "-o", "csv"))


def test_an_anonymised_capture_of_a_cluster_leaves_nothing_else_behind(
    secured: KafkaBroker, tmp_path: Path
) -> None:
    settings, target = tmp_path / "settings", tmp_path / "captures" / "shared"
    settings.mkdir()
    file = _file(settings, "alice", USERS["alice"])
    done = sharelag(
        *("capture", str(target), "--anonymise", "--command-config", str(file)),
        *("--bootstrap-server", secured.secure_bootstrap_servers),
    )
    assert done.returncode == 0, done.stderr
    assert list(target.parent.iterdir()) == [target]  # not the capture with the names
    of_ours = _rows(_lag(secured, file, "-o", "csv"))
    shared = _rows(sharelag("lag", "--capture", str(target), "-o", "csv"))
    assert {(row["group_id"], row["topic"]) for row in shared} == {("group-1", "topic-1")}
    assert [row["lag"] for row in shared] == [row["lag"] for row in of_ours] == ["5"]
    about = (target / "capture.json").read_text()
    assert secured.cluster_id not in about
    assert secured.secure_bootstrap_servers not in about


def _rows(done: CompletedProcess[str]) -> list[dict[str, str]]:
    """What was printed, without when the ends were asked."""
    return [
        {name: cell for name, cell in row.items() if name != "as_of"}
        for row in DictReader(StringIO(done.stdout))
    ]


def _config(broker: KafkaBroker, user: str, password: str) -> ClientConfig:
    return client_config(
        broker.secure_bootstrap_servers, None, _properties(user, password), timeout=10
    )


def test_leaders_of_topics_that_may_not_be_described_are_not_known(
    secured: KafkaBroker, tmp_path: Path
) -> None:
    asked = ["orders", STATE_TOPIC, "__consumer_offsets", "missing"]
    visible = {"alice": set(asked) - {"missing"}, "bob": {"orders"}}
    for user, topics in visible.items():
        found = leaders(_config(secured, user, USERS[user]), asked)
        assert set(found.column("topic").to_pylist()) == topics
        assert set(found.column("leader_id").to_pylist()) == {1}
    done = sharelag(
        *("brokers", "--bootstrap-server", secured.secure_bootstrap_servers, "-o", "json"),
        *("--command-config", str(_file(tmp_path, "alice", USERS["alice"]))),
    )
    (row,) = (json.loads(line) for line in done.stdout.splitlines())
    assert (row["leader_id"], row["share_coordinator"], row["group_coordinator"]) == (1, 1, 1)


def test_features_are_known_before_anybody_has_logged_in(secured: KafkaBroker) -> None:
    found = broker_features(_config(secured, "alice", WRONG))
    assert found.share_version == (2 if has_reached(KAFKA_VERSION, "4.4") else 1)
    assert found.has_complete_count


@pytest.mark.parametrize(
    ("user", "password", "failing"),
    [
        ("alice", None, {}),
        ("bob", None, {STATE_TOPIC: "kafka-acls.sh", "__consumer_offsets": "kafka-acls.sh"}),
        ("alice", WRONG, {"broker": "check user, password"}),
    ],
)
def test_doctor(
    secured: KafkaBroker, tmp_path: Path, user: str, password: str | None, failing: dict[str, str]
) -> None:
    file = _file(tmp_path, user, password or USERS[user])
    done = sharelag(
        "doctor",
        "--bootstrap-server",
        secured.secure_bootstrap_servers,
        "--command-config",
        str(file),
    )
    lines = done.stdout.splitlines()
    failed = {
        line.split()[1].rstrip(":"): lines[n + 1]
        for n, line in enumerate(lines)
        if line.startswith("fail ")
    }
    assert failed.keys() == failing.keys()
    assert not [what for what, words in failing.items() if words not in failed[what]]
    assert done.returncode == bool(failing)
    assert done.stderr == ""
    assert (password or USERS[user]) not in done.stdout
