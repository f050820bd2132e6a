"""A partition whose only broker is down: who asks about it is told so, and which broker to start."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.command import sharelag
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.workload import (
    accept,
    numbered,
    produce,
    set_group_config,
    share_consume,
    wait_until,
)


def test_what_has_no_leader_is_told_with_the_broker_that_has_its_replica() -> None:
    settings = {"broker.session.timeout.ms": "6000"}
    with KafkaCluster(properties=settings) as cluster:
        servers = cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        topic = NewTopic("alone", replica_assignment=[[3]], num_partitions=1)
        admin.create_topics([topic])["alone"].result(timeout=30)
        set_group_config(servers, "one", share_auto_offset_reset="earliest")
        produce(servers, "alone", numbered(5, 1))
        share_consume(servers, "one", ["alone"], accept, until=5)
        cluster.brokers[2].kill()

        def is_leaderless() -> bool:
            return admin.list_topics("alone", timeout=10).topics["alone"].partitions[0].leader == -1

        wait_until(is_leaderless, "the controller has noticed that the broker is away")
        server = ("--bootstrap-server", servers, "--timeout", "20s")
        peek = sharelag("peek", *server, "one", "alone:0:0")
        explain = sharelag("explain", *server)
        brokers = sharelag("brokers", *server)
    assert (peek.returncode, peek.stdout) == (3, "")
    assert peek.stderr == (
        "sharelag: partition 0 of alone has no leader: its replicas are on broker 3; start it, and "
        "ask again\n"
    )
    said = "not known: where alone:0 ends: it has no leader; start a broker with a replica (3)"
    assert explain.stderr.count(said) == 1
    assert brokers.stderr.count(said) == 1
    assert "DESCRIBE on the topic" not in brokers.stderr
