"""A broker of three is killed: an answer is whole, or says which partitions it could not read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from subprocess import CompletedProcess

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from sharelag.wire.fields import STATE_TOPIC
from tests.support.command import sharelag, sharelag_process
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.workload import (
    accept,
    numbered,
    produce,
    set_group_config,
    share_consume,
    wait_until,
)

PARTITIONS = 24
SESSION = 6  # seconds until a broker that was killed leads no more


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    settings = {
        "share.coordinator.state.topic.num.partitions": "12",
        "broker.session.timeout.ms": str(SESSION * 1000),
    }
    with KafkaCluster(properties=settings) as cluster:
        servers = cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic("orders", PARTITIONS, 3)])["orders"].result(timeout=30)
        set_group_config(servers, "billing", **{"share.auto.offset.reset": "earliest"})
        produce(servers, "orders", numbered(10 * PARTITIONS, PARTITIONS))
        share_consume(servers, "billing", ["orders"], accept, until=10 * PARTITIONS)
        yield cluster


def led_by(cluster: KafkaCluster, number: int) -> set[int]:
    """Return the state partitions that a broker leads."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    partitions = admin.list_topics(STATE_TOPIC, timeout=10).topics[STATE_TOPIC].partitions
    return {p.id for p in partitions.values() if p.leader == number}


def lags(answer: CompletedProcess[str]) -> dict[int, int]:
    assert answer.returncode == 0, answer.stderr
    rows = [json.loads(line) for line in answer.stdout.splitlines()]
    return {row["partition"]: row["lag"] for row in rows}


def test_no_answer_is_partial_while_leaders_move(cluster: KafkaCluster) -> None:
    *_, victim = cluster.brokers
    wait_until(lambda: len(led_by(cluster, 3)) > 0, "the third broker leads state partitions")
    asked = ("lag", "--bootstrap-server", cluster.bootstrap_servers, "-o", "json", "--timeout")
    whole = lags(sharelag(*asked, "20000"))
    assert whole == dict.fromkeys(range(PARTITIONS), 0)

    victim.kill()
    refused = sharelag(*asked, "1500")
    assert refused.returncode == 1, refused.stdout
    assert refused.stdout == ""
    silent = ", ".join(map(str, sorted(led_by(cluster, 3))))
    assert f"partition {silent} of {STATE_TOPIC} (led by broker 3 at " in refused.stderr
    assert "within 1.5 s, though other brokers did" in refused.stderr
    with ThreadPoolExecutor(6) as askers:
        answers = [
            askers.submit(sharelag_process, *asked, str((3 * SESSION + 20) * 1000))
            for _ in range(18)
        ]
    assert [lags(answer.result()) for answer in answers] == [whole] * len(answers)
    assert led_by(cluster, 3) == set()
