"""The test rig does what tests rely on."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest
from confluent_kafka import AcknowledgeType, KafkaException, Message, TopicCollection
from confluent_kafka.admin import AdminClient

from tests.support.kafka import class_data, oracles
from tests.support.kafka.broker import KafkaBroker, parse_describe
from tests.support.kafka.jars import KAFKA_VERSION, build_once
from tests.support.kafka.jvm import RigError, find_java
from tests.support.kafka.oracles import Oracle
from tests.support.kafka.state_tail import StateTail
from tests.support.kafka.workload import (
    Delivery,
    accept,
    create_topics,
    end_offsets,
    numbered,
    produce,
    set_group_config,
    share_consume,
    topic_ids,
)

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAABQ"


def test_the_jars_are_there(kafka_jars: Path) -> None:
    assert (kafka_jars / f"kafka_2.13-{KAFKA_VERSION}.jar").is_file()


def test_a_build_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("")
        raise RigError("no network")

    with pytest.raises(RigError, match="no network"):
        build_once(tmp_path / "cache" / "libs", fail)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["libs.lock"]


def test_jvms_of_kafka_map_the_archive_of_its_classes(
    broker: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = Path(class_data.options()[0].partition("=")[2])
    with oracles.combiner() as oracle:
        assert "combined" in oracle.ask({"existing": [], "new": [], "startOffset": -1})
        for number in (*broker.process_ids(), oracle.process_id):
            maps = psutil.Process(number).memory_maps()
            assert str(archive) in {one.path for one in maps}
    # Jars at another place or of another time, and another Java, have an archive of their own.
    monkeypatch.setattr(class_data, "kafka_jars", lambda: tmp_path)
    folders = [archive.parent, class_data.folder("17.0.1"), class_data.folder("17.0.2")]
    (tmp_path / "kafka.jar").touch()
    folders.append(class_data.folder("17.0.1"))
    os.utime(tmp_path / "kafka.jar", (0, 0))
    folders.append(class_data.folder("17.0.1"))
    assert len(set(folders)) == 5


def test_missing_java_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RigError, match="set JAVA_HOME or PATH"):
        find_java()


def test_describe_gives_kafkas_lag(broker: KafkaBroker) -> None:
    bootstrap = broker.bootstrap_servers
    create_topics(bootstrap, {"rig-orders": 2})
    produce(bootstrap, "rig-orders", numbered(20, 2))
    set_group_config(bootstrap, "rig-billing", share_auto_offset_reset="earliest")

    share_consume(bootstrap, "rig-billing", ["rig-orders"], accept, until=20)
    produce(bootstrap, "rig-orders", numbered(6, 2))
    rows = parse_describe(broker.share_groups_describe("rig-billing"))
    assert end_offsets(bootstrap, ["rig-orders"]) == {("rig-orders", 0): 13, ("rig-orders", 1): 13}
    assert [(row["topic"], row["partition"], row["lag"]) for row in rows] == [
        ("rig-orders", 0, 3),
        ("rig-orders", 1, 3),
    ]


def test_unknown_group_is_an_error(broker: KafkaBroker) -> None:
    with pytest.raises(RigError, match="nobody not found"):
        broker.share_groups_describe("nobody")


def test_parse_describe() -> None:
    text = """
GROUP           TOPIC           PARTITION  LEADER-EPOCH  START-OFFSET  LAG
billing         orders          0          3             120           7
billing         orders          1          0             -             -

Share group 'idle' has no offset information.
"""
    billing = {"group": "billing", "topic": "orders"}
    assert parse_describe(text) == [
        {**billing, "partition": 0, "leader_epoch": 3, "start_offset": 120, "lag": 7},
        {**billing, "partition": 1, "leader_epoch": 0, "start_offset": None, "lag": None},
    ]


def test_parse_describe_refuses_other_text() -> None:
    with pytest.raises(ValueError, match="not a line"):
        parse_describe("Error: broker not available")


def test_records_left_alone_come_back_after_their_lock(
    broker: KafkaBroker, oracle_record_json: Oracle
) -> None:
    bootstrap = broker.bootstrap_servers
    create_topics(bootstrap, {"rig-payments": 1})
    produce(bootstrap, "rig-payments", numbered(3, 1))
    ids = topic_ids(bootstrap, ["rig-payments"])
    set_group_config(
        bootstrap,
        "rig-fraud",
        share_auto_offset_reset="earliest",
        share_record_lock_duration_ms="1000",
    )

    def hang_at_first(message: Message) -> AcknowledgeType | None:
        return None if message.delivery_count() == 1 else AcknowledgeType.ACCEPT

    # The state topic comes with the first share group, so the follower starts when there is
    # something to follow.
    def wait_for_locks(held: list[Delivery]) -> None:
        with StateTail(bootstrap, oracle_record_json) as tail:
            tail.wait_for_locks(held, "rig-fraud", ids)

    deliveries = share_consume(
        bootstrap,
        "rig-fraud",
        ["rig-payments"],
        hang_at_first,
        until=6,
        wait_for_locks=wait_for_locks,
    )
    assert sorted((d.offset, d.delivery_count) for d in deliveries) == [
        (offset, count) for offset in range(3) for count in (1, 2)
    ]


@pytest.mark.exhaustive
def test_restart_and_kill_keep_data_and_address() -> None:
    with KafkaBroker() as broker:
        bootstrap = broker.bootstrap_servers
        create_topics(bootstrap, {"kept": 1})
        produce(bootstrap, "kept", numbered(5, 1))
        broker.restart()
        assert end_offsets(bootstrap, ["kept"]) == {("kept", 0): 5}
        broker.kill()
        broker.start()
        assert end_offsets(bootstrap, ["kept"]) == {("kept", 0): 5}
        folder = broker.log_dir.parent
    assert not folder.exists()


def test_a_broker_that_cannot_start_shows_its_log() -> None:
    with (
        pytest.raises(RigError, match=r"ended with code 1(.|\n)*no\.such\.Authorizer"),
        KafkaBroker(properties={"authorizer.class.name": "no.such.Authorizer"}),
    ):
        pass


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_secure_listener_knows_its_users(secure_broker: KafkaBroker, mechanism: str) -> None:
    config = secure_broker.client_config("admin") | {"sasl.mechanism": mechanism}
    assert list(AdminClient(config).list_topics(timeout=20).brokers) == [1]


def test_any_cluster_id_will_do(secure_broker: KafkaBroker) -> None:
    admin = AdminClient(secure_broker.client_config())
    assert admin.describe_cluster().result(timeout=20).cluster_id == secure_broker.cluster_id


def test_secure_listener_refuses_a_wrong_password(secure_broker: KafkaBroker) -> None:
    config = secure_broker.client_config("alice", "guessed") | {"log_level": "0"}
    with pytest.raises(KafkaException):
        AdminClient(config).list_topics(timeout=3)


def test_secure_listener_needs_an_acl(secure_broker: KafkaBroker) -> None:
    create_topics(secure_broker.bootstrap_servers, {"private": 1})
    alice = AdminClient(secure_broker.client_config("alice"))
    requested = alice.describe_topics(TopicCollection(["private"]))
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        requested["private"].result(timeout=20)


def test_combiner_lets_the_higher_delivery_count_win(oracle_combiner: Oracle) -> None:
    question = {"existing": [[0, 9, 2, 1]], "new": [[3, 4, 0, 2]], "startOffset": 1, "id": "q"}
    assert oracle_combiner.ask(question) == {
        "id": "q",
        "combined": [[1, 2, 2, 1], [3, 4, 0, 2], [5, 9, 2, 1]],
    }


def test_many_questions_come_back_in_order(oracle_combiner: Oracle) -> None:
    questions = [
        {"id": n, "existing": [], "new": [[n, n, 2, 1]], "startOffset": -1} for n in range(5000)
    ]
    answers = oracle_combiner.ask_many(questions)
    assert [answer["combined"] for answer in answers] == [[[n, n, 2, 1]] for n in range(5000)]


def test_coordinator_writes_what_replayer_and_json_read(
    oracle_coordinator: Oracle, oracle_replayer: Oracle, oracle_record_json: Oracle
) -> None:
    key = {"g": "g", "t": TOPIC_ID, "p": 0}
    write = {**key, "op": "write", "leaderEpoch": 0, "stateEpoch": 1, "startOffset": 5, "dcc": 2}
    ops = [
        {**key, "op": "init", "stateEpoch": 1, "startOffset": -1},
        {**write, "batches": [[5, 6, 2, 1], [7, 7, 0, 1]]},
    ]
    results = oracle_coordinator.ask({"topics": {TOPIC_ID: 1}, "ops": ops})["results"]
    records = [record for result in results for record in result["records"]]
    state = oracle_replayer.ask({"records": records})["states"][f"g:{TOPIC_ID}:0"]
    assert (state["startOffset"], state["deliveryCompleteCount"]) == (5, 2)
    assert state["batches"] == [[5, 6, 2, 1], [7, 7, 0, 1]]
    update = oracle_record_json.ask({"topic": "state", "k": records[1]["k"], "v": records[1]["v"]})
    assert (update["type"], update["k2"], update["v2"]) == (1, records[1]["k"], records[1]["v"])


def test_record_json_answers_failures_and_partitions(oracle_record_json: Oracle) -> None:
    assert (
        "UnknownRecordType"
        in oracle_record_json.ask({"topic": "state", "k": "0009", "v": None})["error"]
    )
    question = {
        "partitionFor": {"group": "g", "topicId": TOPIC_ID, "partition": 0},
        "numPartitions": 50,
    }
    assert oracle_record_json.ask(question)["partition"] == 32


def test_two_oracles_run_at_once() -> None:
    with oracles.replayer(keep_going=True) as first, oracles.replayer() as second:
        question = {"records": [{"k": "0001", "v": None}, {"k": "0009", "v": None}]}
        assert first.ask(question)["status"] == ["error: RuntimeException", "skipped"]
        assert second.ask(question)["status"] == ["error: RuntimeException"]


def test_an_oracle_that_dies_says_why() -> None:
    oracle = Oracle("ErrorCodes", flags=["-XX:+NoSuchOption"])
    with pytest.raises(RigError, match=r"ErrorCodes ended with code 1:\n.*NoSuchOption"):
        oracle.ask_many([{"n": n} for n in range(10000)])
    oracle.close()


def test_classes_are_compiled_once() -> None:
    folder = oracles.oracle_classes("CombinerOracle")
    made = (folder / "CombinerOracle.class").stat().st_mtime_ns
    assert oracles.oracle_classes("CombinerOracle") == folder
    assert (folder / "CombinerOracle.class").stat().st_mtime_ns == made
