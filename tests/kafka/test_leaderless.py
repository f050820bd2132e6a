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


def is_in_sync(admin: AdminClient, broker: int) -> bool:
    topics = admin.list_topics(timeout=10).topics.values()
    partitions = [one for topic in topics for one in topic.partitions.values()]
    return all(broker in one.isrs for one in partitions if broker in one.replicas)


def test_what_has_no_leader_is_told_with_the_broker_that_has_its_replica(
    cluster: KafkaCluster,
) -> None:
    servers, name, third = cluster.bootstrap_servers, "alone-on-3", cluster.brokers[2]
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    topic = NewTopic(name, replica_assignment=[[3]], num_partitions=1)
    admin.create_topics([topic])[name].result(timeout=30)
    set_group_config(servers, "one", share_auto_offset_reset="earliest")
    produce(servers, name, numbered(5, 1))
    share_consume(servers, "one", [name], accept, until=5)

    def is_leaderless() -> bool:
        return admin.list_topics(name, timeout=10).topics[name].partitions[0].leader == -1

    third.kill()
    try:
        wait_until(is_leaderless, "the controller has noticed that the broker is away")
        server = ("--bootstrap-server", servers, "--timeout", "20s")
        peek = sharelag("peek", *server, "one", f"{name}:0:0")
        explain = sharelag("explain", *server, "--group", "one")
        brokers = sharelag("brokers", *server, "--group", "one")
    finally:
        cluster.start([third])
        wait_until(lambda: is_in_sync(admin, 3), "the broker is in sync again")
        cluster.brokers[0].share_groups("--delete", "--group", "one")
        admin.delete_topics([name])[name].result(timeout=30)
    assert (peek.returncode, peek.stdout) == (3, "")
    assert peek.stderr == (
        "sharelag: partition 0 of alone-on-3 has no leader: its replicas are on broker 3; start it, and "
        "ask again\n"
    )
    said = "not known: where alone-on-3:0 ends: it has no leader; start a broker with a replica (3)"
    assert explain.stderr.count(said) == 1
    assert brokers.stderr.count(said) == 1
    assert "DESCRIBE on the topic" not in brokers.stderr
