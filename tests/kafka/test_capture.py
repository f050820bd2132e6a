"""A capture of a live broker holds what an investigation needs, and nothing private."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, TopicPartition

from sharelag import schemas
from sharelag.cli.doctor import checks
from sharelag.errors import InputError
from sharelag.inputs.files.captures import read_capture
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.config import ClientConfig, client_config
from sharelag.wire import GROUP_TOPIC, STATE_TOPIC
from sharelag.workbench.capture import capture_kafka
from tests.support import java_names
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.jars import KAFKA_VERSION
from tests.support.kafka.oracles import run_command
from tests.support.kafka.workload import read_in_part

ORDERS, GROUP, OTHERS = "capture-orders", "capture-billing", "capture-somebody-elses-group"


@pytest.fixture(scope="module")
def config(broker: KafkaBroker) -> ClientConfig:
    """A cluster with a share group, and with a consumer group that commits offsets."""
    servers = broker.bootstrap_servers
    read_in_part(servers, GROUP, ORDERS, partitions=2, read=40, left=6)
    consumer = Consumer({"bootstrap.servers": servers, "group.id": OTHERS, "log_level": 0})
    consumer.commit(offsets=[TopicPartition(ORDERS, 0, 7)], asynchronous=False)
    consumer.close()
    return client_config(servers, timeout=30)


@pytest.fixture(scope="module")
def capture(config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("live") / "capture"
    before = datetime.now(UTC)
    info = capture_kafka(config, folder)
    assert before.replace(microsecond=0) <= info.as_of <= datetime.now(UTC)
    assert info.cluster_id == kafka.cluster_id(config)
    assert (info.topics, info) == ({STATE_TOPIC: 4, GROUP_TOPIC: 4}, read_capture(folder).info)
    return folder


def _records(folder: Path, topic: str) -> pa.Table:
    records = pa.concat_tables(pq.read_table(path) for path in read_capture(folder).records_paths)
    return records.filter(pa.compute.equal(records.column("topic"), topic))


def test_all_state_records_and_in_order(config: ClientConfig, capture: Path) -> None:
    there = pa.Table.from_batches(kafka.read_topic(config, STATE_TOPIC), schemas.RAW)
    kept = _records(capture, STATE_TOPIC)
    by = [("partition", "ascending"), ("offset", "ascending")]
    # Nobody writes state between the capture and now: the group of this module is done.
    mine = [row for row in there.sort_by(by).to_pylist() if GROUP.encode() in row["key"]]
    assert [row for row in kept.sort_by(by).to_pylist() if GROUP.encode() in row["key"]] == mine
    assert len(mine) > 2
    for partition in range(4):
        offsets = [row["offset"] for row in kept.to_pylist() if row["partition"] == partition]
        assert offsets == sorted(offsets)


def test_share_groups_records_only(config: ClientConfig, capture: Path) -> None:
    every = pa.Table.from_batches(kafka.read_topic(config, GROUP_TOPIC), schemas.RAW).to_pylist()
    assert any(OTHERS.encode() in row["key"] for row in every)
    kept = _records(capture, GROUP_TOPIC).to_pylist()
    assert {int.from_bytes(row["key"][:2], "big") for row in kept} <= set(range(10, 16))
    assert not [row for row in kept if OTHERS.encode() in row["key"]]
    mine = [row for row in every if GROUP.encode() in row["key"]]
    assert [r["offset"] for r in kept if GROUP.encode() in r["key"]] == [r["offset"] for r in mine]


def test_a_capture_is_not_overwritten_unasked(config: ClientConfig, capture: Path) -> None:
    before = read_capture(capture).info
    assert before.kafka_version == KAFKA_VERSION.rpartition(".")[0]
    with pytest.raises(InputError, match="add --overwrite"):
        capture_kafka(config, capture)
    assert read_capture(capture).info == before
    assert capture_kafka(config, capture, overwrite=True).as_of > before.as_of


def test_the_doctor_is_content(config: ClientConfig, capture: Path) -> None:
    found = {check.what: check for check in checks(config)}
    # Every release of Kafka has defects; test_releases.py holds which.
    found = {what: check for what, check in found.items() if not what.startswith("defect ")}
    assert list(found) == [
        *("java", "spark", "broker", "kafka version", "share.version"),
        *(STATE_TOPIC, "format", GROUP_TOPIC, "topics"),
    ]
    assert {check.verdict for check in found.values()} == {"ok"}, found
    assert kafka.cluster_id(config) in found["broker"].found
    assert found[STATE_TOPIC].found.startswith("4 partitions, ")
    assert found[STATE_TOPIC].found.endswith(" offsets, readable")
    whose = "G4 (Kafka 4.1 and later), by the first and the last 100 records of each "
    assert found["format"].found.startswith(whose)


def test_no_setting_of_kafkas_clients_is_forgotten() -> None:
    """Test that the lists of settings are complete; the tests of the configuration use them."""
    names = {
        name
        for client in ("consumer.Consumer", "admin.AdminClient", "producer.Producer")
        for name in re.findall(
            r'<h4><a id="([^"]+)"', run_command(f"org.apache.kafka.clients.{client}Config").stdout
        )
    }
    known = {
        *java_names.UNDERSTOOD,
        *java_names.IGNORED_BY_A_READER,
        *java_names.REFUSED,
        *java_names.ASSERTION,
    }
    assert len(names) > 100
    assert names - known - set(java_names.ELSEWHERE) == set()
