"""The test rig does what tests rely on."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest
from confluent_kafka import AcknowledgeType, Message

from tests.support.kafka import class_data, oracles
from tests.support.kafka.broker import KafkaBroker, parse_describe
from tests.support.kafka.jars import build_once
from tests.support.kafka.jvm import RigError, find_java
from tests.support.kafka.oracles import Oracle
from tests.support.kafka.workload import (
    Delivery,
    create_topics,
    numbered,
    produce,
    set_group_config,
    share_consume,
    topic_ids,
)
from tools.record.state_tail import StateTail


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


def test_unknown_group_is_an_error(broker: KafkaBroker) -> None:
    with pytest.raises(RigError, match="nobody not found"):
        broker.share_groups_describe("nobody")


def test_a_command_that_fails_ends_no_other_one(broker: KafkaBroker) -> None:
    """They run in one process, which they would end by themselves."""
    topics = ("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", broker.bootstrap_servers)
    failed = broker.run_tool(*topics, "--describe", "--topic", "nowhere")
    assert (failed.returncode, "'nowhere' does not exist" in failed.stdout) == (1, True)
    listed = broker.run_tool(*topics, "--list")
    assert (listed.returncode, "nowhere" in listed.stdout) == (0, False)


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


def test_a_broker_that_cannot_start_shows_its_log() -> None:
    with (
        pytest.raises(RigError, match=r"ended with code 1(.|\n)*no\.such\.Authorizer"),
        KafkaBroker(properties={"authorizer.class.name": "no.such.Authorizer"}),
    ):
        pass


def test_an_oracle_that_dies_says_why() -> None:
    oracle = Oracle("ErrorCodes", flags=["-XX:+NoSuchOption"])
    with pytest.raises(RigError, match=r"ErrorCodes ended with code 1:\n.*NoSuchOption"):
        oracle.ask_many([{"n": n} for n in range(10000)])
    oracle.close()
