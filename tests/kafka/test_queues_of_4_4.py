"""Dead-letter queues that a live broker of Kafka 4.4.0 fills, or says nothing of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import AcknowledgeType, KafkaException, Message
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

import sharelag
from sharelag.errors import TopicMissingError
from tests.support.command import sharelag as command
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.workload import (
    create_topics,
    numbered,
    produce,
    set_group_config,
    share_consume,
    wait_until,
)

GROUP, TOPIC, QUEUE = "billing", "orders", "dlq.orders"
ENABLED = "errors.deadletterqueue.group.enable"


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    """A group whose queue is named by its setting, and does not exist."""
    with KafkaBroker(version="4.4.0") as broker:
        create_topics(broker.bootstrap_servers, {TOPIC: 2})
        settings = {
            "share.auto.offset.reset": "earliest",
            "errors.deadletterqueue.topic.name": QUEUE,
            "errors.deadletterqueue.copy.record.enable": "true",
        }
        set_group_config(broker.bootstrap_servers, GROUP, **settings)
        yield broker


@pytest.fixture(scope="module")
def servers(broker: KafkaBroker) -> str:
    return broker.bootstrap_servers


def decide(message: Message) -> AcknowledgeType:
    is_fine = (message.offset() or 0) % 5
    return AcknowledgeType.ACCEPT if is_fine else AcknowledgeType.REJECT


def reject_four(servers: str) -> None:
    """Produce twenty records, of which the group rejects four."""
    produce(servers, TOPIC, numbered(20, 2))
    share_consume(servers, GROUP, [TOPIC], decide, until=20)


def statuses(servers: str) -> dict[str, int]:
    with sharelag.open(servers, engine="local") as bench:
        rows = bench.dead_letters(GROUP).table.to_pylist()
    found: dict[str, int] = {}
    for row in rows:
        found[row["status"]] = found.get(row["status"], 0) + row["offsets"]
    return found


def wait_until_they_are(servers: str, wanted: dict[str, int]) -> None:
    wait_until(lambda: statuses(servers) == wanted, f"the ledger has {wanted}", timeout=60)


def every_face_says(servers: str, said: str) -> bool:
    """Whether `explain` and `settings` say it, as commands and in Python: all of them or none."""
    at = ("--bootstrap-server", servers, "--group", GROUP)
    printed = command("settings", *at, "-o", "json").stdout.splitlines()
    with sharelag.open(servers, engine="local") as bench:
        rows = [*bench.settings(GROUP).table.to_pylist(), *map(json.loads, printed)]
        texts = [bench.explain(GROUP).to_text(), command("explain", *at).stdout]
    problems = [f"{row['problem']}: {row['hint']}" for row in rows if row["problem"]]
    assert len(problems) in (0, 2)
    found = {said in " ".join(text.split()) for text in (*texts, *problems)}
    assert len(found) == 1, (texts, problems)
    return found.pop()


def test_letters_that_brokers_do_not_write_and_why(servers: str, tmp_path: Path) -> None:
    reject_four(servers)
    wait_until_they_are(servers, {"missing": 4})
    done = command("dlq", "--bootstrap-server", servers, "--group", GROUP)
    assert done.returncode == 0, done.stderr
    assert "4 missing" in done.stderr
    said = f"the topic {QUEUE} does not exist: create it with {ENABLED}=true"
    assert said in done.stderr
    assert every_face_says(servers, said)
    captured = ("capture", str(tmp_path / "queues"), "--bootstrap-server", servers)
    assert command(*captured).returncode == 0
    told = command("explain", "--capture", str(tmp_path / "queues"), "--group", GROUP).stdout
    assert said in " ".join(told.split())
    with pytest.raises(TopicMissingError, match=r"no topic 'dlq\.ordres'"):
        sharelag.open(servers, engine="local").dead_letters(GROUP, "dlq.ordres")

    create_topics(servers, {QUEUE: 1})
    reject_four(servers)
    wait_until_they_are(servers, {"missing": 8})
    done = command("dlq", "--bootstrap-server", servers, "--group", GROUP)
    said = f"brokers write no letters to {QUEUE}: set its {ENABLED} to true"
    assert said in done.stderr
    assert every_face_says(servers, said)

    entry = ConfigEntry(ENABLED, "true", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, QUEUE, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)
    reject_four(servers)
    wait_until_they_are(servers, {"missing": 8, "written": 4})
    done = command("dlq", "--bootstrap-server", servers, "--group", GROUP)
    assert "brokers write no letters" not in done.stderr
    assert not every_face_says(servers, said)
    assert "4 written (rejected 4)" in done.stderr


def test_names_that_brokers_accept_and_what_is_said_of_them(servers: str) -> None:
    """Kafka refuses names of its own topics alone; what else does not work is said before."""
    name = "errors.deadletterqueue.topic.name"
    wrong = {
        "letters": "letters does not begin with errors.deadletterqueue.topic.name.prefix = dlq.",
        "dlq.no name": "no topic can be called dlq.no name",
        "dlq.other": "the topic dlq.other does not exist",
    }
    create_topics(servers, {"dlq.made": 1}, {ENABLED: "true"})
    for topic, why in (*wrong.items(), ("dlq.made", None)):
        done = command(
            "settings", "--bootstrap-server", servers, "--group", "new", "--set", f"{name}={topic}",
            "-o", "json",
        )  # fmt: skip
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        (row,) = [row for row in rows if row["name"] == name]
        assert (row["problem"] or "").startswith(f"Kafka accepts it, but {why}" if why else "")
        assert bool(row["problem"]) == bool(why)
        assert done.returncode == 0  # Kafka sets them all
        assert ("Kafka's command: " in done.stderr) is (why is None)
        set_group_config(servers, "new", **{name: topic})
        set_group_config(servers, GROUP, **{name: topic})
        done = command("dlq", "--bootstrap-server", servers, "--group", GROUP)
        assert done.returncode == 0, done.stderr
    set_group_config(servers, GROUP, **{name: QUEUE})
    with pytest.raises(KafkaException, match="must not start with '__'"):
        set_group_config(servers, "new", **{name: "__letters"})
    done = command("settings", "--set", f"{name}=__letters", "-o", "json")
    assert "Kafka's own" in done.stdout


def test_a_cluster_whose_brokers_are_new_and_its_features_are_not(broker: KafkaBroker) -> None:
    """An upgrade of brokers leaves the level of the feature, and nobody writes letters then."""
    servers, group = broker.bootstrap_servers, "upgraded"
    create_topics(servers, {"dlq.upgraded": 1}, {ENABLED: "true"})
    settings = {"errors.deadletterqueue.topic.name": "dlq.upgraded"}
    set_group_config(servers, group, **{"share.auto.offset.reset": "earliest"} | settings)
    tool, at = "org.apache.kafka.tools.FeatureCommand", ("--bootstrap-server", servers)
    feature = ("--feature", "share.version=1")
    done = broker.run_tool(tool, *at, "downgrade", *feature)
    assert done.returncode == 0, done.stdout + done.stderr
    produce(servers, TOPIC, numbered(10, 2))
    share_consume(servers, group, [TOPIC], decide, until=10)
    said = "brokers write no letters while share.version is 1: turn them on with"

    def explained() -> str:
        done = command("explain", *at, "--group", group)
        return " ".join(done.stdout.split())

    wait_until(lambda: said in explained(), "the feature is said", timeout=60)
    done = command("dlq", *at, "--group", group)
    assert "missing" in done.stderr
    assert said in done.stderr
