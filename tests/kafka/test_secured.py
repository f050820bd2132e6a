"""The command line against a secured cluster: what people see when it works and when not."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from sharelag.inputs.kafka.brokers import broker_features, leaders
from sharelag.inputs.kafka.config import ClientConfig, client_config
from sharelag.model.versions import has_reached
from sharelag.wire import GROUP_TOPIC, STATE_TOPIC
from tests.support.command import ask, rows_of, sharelag
from tests.support.kafka.access import java_settings, rule, set_rules
from tests.support.kafka.broker import SHARE_GROUPS, USERS, KafkaBroker
from tests.support.kafka.jars import KAFKA_VERSION
from tests.support.ports import dead_address

PLAIN, SCRAM = MECHANISMS = ("PLAIN", "SCRAM-SHA-256")
#: A password with everything that a properties file and JAAS quote.
WRONG = 'wr"ng\\pa;ss=word'
#: What each may describe and read.
TOPICS = {"alice": (STATE_TOPIC, GROUP_TOPIC, "orders"), "carol": (STATE_TOPIC, "orders")}
TOPICS["bob"] = ("orders",)


@pytest.fixture(scope="module", autouse=True)
def _rights(secured: KafkaBroker) -> Iterator[None]:
    set_rules(
        secured,
        [
            rule(f"TOPIC {name} {operation}", principal=f"User:{user}")
            for user, names in TOPICS.items()
            for name in names
            for operation in ("DESCRIBE", "READ")
        ],
    )
    yield
    set_rules(secured, [])


def _file(
    broker: KafkaBroker,
    folder: Path,
    user: str,
    password: str | None = None,
    mechanism: str = SCRAM,
) -> Path:
    """A file as people keep it for Kafka's own commands, with what those need and we do not."""
    file = folder / "client.properties"
    properties = java_settings(broker, user, password, mechanism)
    login = properties["sasl.jaas.config"].replace("\\", "\\\\")
    properties["sasl.jaas.config"] = login.replace("required ", "required \\\n   ")
    properties |= {
        "key.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
        "group.id": "mine",
    }
    file.write_text("# ours\n" + "".join(f"{name}={value}\n" for name, value in properties.items()))
    return file


def _run(file: Path, *words: str) -> CompletedProcess[str]:
    return sharelag(*words, "--command-config", str(file))


def _lags(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["topic"], row["partition"], row["lag"]) for row in rows]


def _the_line(done: CompletedProcess[str]) -> str:
    """Return the only line that a failure may print: no traceback, no log of the client."""
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    return line


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_right_password(secured: KafkaBroker, tmp_path: Path, mechanism: str) -> None:
    file = _file(secured, tmp_path, "alice", mechanism=mechanism)
    rows = ask("lag --group billing --command-config", str(file))
    assert _lags(rows) == [("orders", 0, 25), ("orders", 1, 0)]
    done = _run(file, "lag", "--group", "billing")
    assert USERS["alice"] not in done.stdout + done.stderr
    assert len(done.stderr.splitlines()) == 1  # the summary; no log line of the client's


@pytest.mark.parametrize("mechanism", [*MECHANISMS, "SCRAM-SHA-512"])
def test_wrong_password_or_mechanism(secured: KafkaBroker, tmp_path: Path, mechanism: str) -> None:
    begun = time.monotonic()
    password = None if mechanism == "SCRAM-SHA-512" else WRONG
    file = _file(secured, tmp_path, "alice", password, mechanism)
    line = _the_line(_run(file, "lag", "--timeout", "60000"))
    # A busy machine starts Python slowly; the timeout is a minute.
    assert time.monotonic() - begun < 20
    assert "refused our credentials" in line
    assert "check user, password and sasl.mechanism" in line
    assert mechanism in line or password
    assert not [one for one in ('wr"ng', "pa;ss", USERS["alice"]) if one in line]


@pytest.mark.parametrize("verbose", ["-v", "-vv"])
def test_v_shows_a_traceback_no_secret(secured: KafkaBroker, tmp_path: Path, verbose: str) -> None:
    done = _run(_file(secured, tmp_path, "alice", WRONG), "lag", verbose)
    assert done.returncode == 1
    assert "Traceback (most recent call last)" in done.stderr
    assert "AuthenticationError" in done.stderr
    assert "refused our credentials" in done.stderr.splitlines()[-1]
    assert "pa;ss" not in done.stderr


def test_no_permission_on_the_state_topic(secured: KafkaBroker, tmp_path: Path) -> None:
    line = _the_line(_run(_file(secured, tmp_path, "bob"), "lag"))
    assert "not authorized to read __share_group_state" in line
    assert "kafka-acls.sh --add" in line
    assert "--operation Read --operation Describe --topic __share_group_state" in line


@pytest.mark.parametrize(("command", "what"), [("groups", "--state"), ("members", "--members")])
def test_they_may_ask_kafka(secured: KafkaBroker, tmp_path: Path, command: str, what: str) -> None:
    server, file = secured.secure_bootstrap_servers, _file(secured, tmp_path, "bob")
    line = _the_line(_run(file, command, "--bootstrap-server", server))
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
    answers: dict[str, list[Any]] = {}
    for command in ("explain", "progress", "reconcile"):
        for user in ("alice", "carol"):
            how = engine if user == "carol" else "local"
            file = _file(secured, tmp_path, user)
            done = _run(file, command, "--group", "billing", "--engine", how, "-o", "json")
            assert done.returncode == 0, done.stderr
            is_told = "needs Read and Describe on that topic" in done.stderr
            assert is_told == (user == "carol" and command != "reconcile"), done.stderr
            rows = rows_of(done)
            names = ("partition", "kafka_lag", "lag")
            told = [tuple(row.get(name) for name in names) for row in rows]
            answers.setdefault(command, []).append(told)
    for command in ("progress", "reconcile"):
        ours, theirs = answers[command]
        assert ours == theirs != []
    line = _the_line(_run(_file(secured, tmp_path, "carol"), "members", "--engine", engine))
    assert "not authorized to read __consumer_offsets" in line
    assert "--operation Read --operation Describe --topic __consumer_offsets" in line


def test_settings_of_other_programs_are_ignored_as_kafkas_command_does(
    secured: KafkaBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = _file(secured, tmp_path, "admin")
    more = "schema.registry.url=https://x.example.com\nbasic.auth.user.info=K:hunter2\n"
    file.write_text(file.read_text() + more + "ssl.truststore.location=/no/such.jks\n")
    servers = ("--bootstrap-server", secured.secure_bootstrap_servers)
    listed = secured.run_tool(SHARE_GROUPS, *(*servers, "--command-config", str(file), "--list"))
    assert "billing" in listed.stdout, listed.stderr
    done = _run(file, "lag")
    assert "billing" in done.stdout
    (note,) = (one.getMessage() for one in caplog.records if "ignored" in one.getMessage())
    assert note.endswith("as Kafka's commands do: basic.auth.user.info, schema.registry.url")
    assert "hunter2" not in done.stderr


# ---- nobody, or somebody else, is at the address -------------------------------------------------
NO_ANSWER = "no broker answered at {} within 1 s"


@pytest.mark.parametrize(
    ("command", "there", "said"),
    [
        ("lag", dead_address(), NO_ANSWER),
        ("capture", dead_address(), NO_ANSWER),
        pytest.param("lag", dead_address(listens=True), NO_ANSWER, marks=pytest.mark.exhaustive),
        ("lag", nullcontext("no-such-host.invalid:9092"), "check the address"),
    ],
    ids=["closed", "closed to a capture", "silent", "unresolved"],
)
def test_an_address_where_nobody_answers(
    tmp_path: Path, command: str, there: AbstractContextManager[str], said: str
) -> None:
    more = [str(tmp_path / "c")] if command == "capture" else []
    with there as address:
        begun = time.monotonic()
        done = sharelag(command, *more, "--bootstrap-server", address, "--timeout", "1000")
    assert time.monotonic() - begun < 15
    line = _the_line(done)
    assert address in line
    assert said.format(address) in line
    assert list(tmp_path.iterdir()) == []


def test_a_cluster_without_share_groups(tmp_path: Path, secure_broker: KafkaBroker) -> None:
    for command in (["lag"], ["capture", str(tmp_path / "capture")]):
        line = _the_line(sharelag(*command, "--bootstrap-server", secure_broker.bootstrap_servers))
        assert "the cluster has no topic __share_group_state" in line
        assert "no share group was ever used" in line
        assert "upgrade --feature share.version=1 turns them on first" in line
    assert list(tmp_path.iterdir()) == []


# ---- captures ------------------------------------------------------------------------------------
def test_a_capture_holds_no_password(secured: KafkaBroker, tmp_path: Path) -> None:
    target, file = tmp_path / "capture", _file(secured, tmp_path, "alice")
    done = _run(file, "capture", str(target), "--command-property", f"ssl.key.password={WRONG}")
    assert done.returncode in (0, 3), done.stderr  # 3: others' topics are hidden from her
    files = [path for path in target.rglob("*") if path.is_file()]
    assert {file.name for file in files} >= {"capture.json", "offsets.parquet", "settings.parquet"}
    for secret in (USERS["alice"], "pa;ss"):
        assert not [path for path in files if secret.encode() in path.read_bytes()]
    offline = ask("lag --group billing --capture", str(target))
    assert _lags(offline) == _lags(ask("lag --group billing --command-config", str(file)))


def test_an_anonymised_capture_leaves_nothing_behind(secured: KafkaBroker, tmp_path: Path) -> None:
    settings, target = tmp_path / "settings", tmp_path / "captures" / "new" / "shared"
    settings.mkdir()
    file = _file(secured, settings, "alice")
    done = _run(file, "capture", str(target), "--anonymise")
    assert done.returncode in (0, 3), done.stderr  # 3: others' topics are hidden from her
    assert list(target.parent.iterdir()) == [target]  # not the capture with the names
    shared = ask("lag --capture", str(target))
    assert {row["group_id"].rpartition("-")[0] for row in shared} == {"group"}
    assert {row["topic"].rpartition("-")[0] for row in shared if row["topic"]} == {"topic"}
    assert 25 in [row["lag"] for row in shared]
    about = (target / "capture.json").read_text()
    assert secured.cluster_id not in about
    assert secured.secure_bootstrap_servers not in about


# ---- what else is asked of brokers ---------------------------------------------------------------
def _config(broker: KafkaBroker, user: str, password: str | None = None) -> ClientConfig:
    return client_config(None, None, java_settings(broker, user, password, SCRAM), timeout=10)


def test_leaders_of_hidden_topics_are_unknown(secured: KafkaBroker, tmp_path: Path) -> None:
    asked = ["orders", STATE_TOPIC, GROUP_TOPIC, "missing"]
    for user in ("alice", "bob"):
        found = leaders(_config(secured, user), asked)
        assert set(found.column("topic").to_pylist()) == set(TOPICS[user])
        assert set(found.column("leader_id").to_pylist()) == {1}
    file = _file(secured, tmp_path, "alice")
    rows = ask("brokers --group billing --command-config", str(file))
    names = ("leader_id", "share_coordinator", "group_coordinator")
    assert {row[name] for row in rows for name in names} == {1}


def test_features_are_known_before_anybody_has_logged_in(secured: KafkaBroker) -> None:
    found = broker_features(_config(secured, "alice", WRONG))
    assert found.share_version == (2 if has_reached(KAFKA_VERSION, "4.4") else 1)
    assert (found.has_share_state, found.has_complete_count) == (True, True)
    assert found.finalized["metadata.version"] > 20


@pytest.mark.parametrize(
    ("user", "password", "failing"),
    [
        ("alice", None, {}),
        ("bob", None, {STATE_TOPIC: "kafka-acls.sh", GROUP_TOPIC: "kafka-acls.sh"}),
        ("alice", WRONG, {"broker": "check user, password"}),
    ],
)
def test_doctor(
    secured: KafkaBroker, tmp_path: Path, user: str, password: str | None, failing: dict[str, str]
) -> None:
    done = _run(_file(secured, tmp_path, user, password), "doctor")
    lines = done.stdout.splitlines()
    failed = {
        r.split()[1].rstrip(":"): lines[n + 1] for n, r in enumerate(lines) if r.startswith("fail ")
    }
    assert failed.keys() == failing.keys()
    assert not [what for what, words in failing.items() if words not in failed[what]]
    assert (done.returncode, done.stderr) == (bool(failing), "")
    assert (password or USERS[user]) not in done.stdout
