"""A broker of three is killed: an answer is whole, or says which partitions it could not read."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from subprocess import CompletedProcess

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from sharelag.wire.fields import STATE_TOPIC
from tests.support.command import sharelag, sharelag_process
from tests.support.kafka.cluster import KafkaCluster, frozen
from tests.support.kafka.workload import (
    accept,
    numbered,
    produce,
    set_group_config,
    share_consume,
    wait_until,
)

PARTITIONS = 24
SESSION = 10  # seconds until a broker that was killed leads no more


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
    began = time.monotonic()
    whole = lags(sharelag(*asked, "20000"))
    undisturbed = time.monotonic() - began
    assert whole == dict.fromkeys(range(PARTITIONS), 0)

    victim.kill()
    began = time.monotonic()
    refused = sharelag(*asked, "3000")
    assert time.monotonic() - began < 3 + 2 + undisturbed
    assert refused.returncode == 3, refused.stdout
    assert refused.stdout == ""
    silent = ", ".join(map(str, sorted(led_by(cluster, 3))))
    assert f"partition {silent} of {STATE_TOPIC} (led by broker 3 at " in refused.stderr
    assert "within 3 s, though other brokers did" in refused.stderr
    with ThreadPoolExecutor(6) as askers:
        answers = [
            askers.submit(sharelag_process, *asked, str((3 * SESSION + 20) * 1000))
            for _ in range(18)
        ]
    assert [lags(answer.result()) for answer in answers] == [whole] * len(answers)
    assert led_by(cluster, 3) == set()


@pytest.mark.parametrize("command", ["lag", "windows", "explain", "progress", "health"])
def test_no_command_outlasts_its_timeout_while_a_leader_is_silent(
    cluster: KafkaCluster, command: str
) -> None:
    """A leader that keeps its connections and answers nothing: each request to it waits."""
    asked = (command, "--bootstrap-server", cluster.bootstrap_servers, "-o", "json", "--timeout")
    began = time.monotonic()
    whole = sharelag(*asked, "20000")
    undisturbed = time.monotonic() - began
    assert whole.returncode == 0, whole.stderr
    leads = next(
        broker
        for number, broker in ((2, cluster.brokers[1]), (1, cluster.brokers[0]))
        if led_by(cluster, number)
    )
    with frozen(leads):
        began = time.monotonic()
        answer = sharelag(*asked, "3000")
        took = time.monotonic() - began
    print(f"{command}: exit {answer.returncode} after {took:.1f} s, alone {undisturbed:.1f} s")
    assert took < 3 + 2 + undisturbed
    if answer.returncode == 0:
        assert len(answer.stdout.splitlines()) == len(whole.stdout.splitlines())
    else:
        assert "did not answer within 3 s" in answer.stderr or "no broker" in answer.stderr
