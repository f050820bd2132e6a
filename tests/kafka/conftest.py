"""One broker, one cluster and one of each oracle per process that runs tests of this folder.

They end when it goes on to another folder: twelve brokers without work keep a processor busy for a
fifth of the time.

Missing tools make tests fail, never skip.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kafka.broker import RACKS, KafkaBroker, KafkaCluster
from tests.support.kafka.certificates import LISTENERS, listener_properties
from tests.support.kafka.jars import kafka_jars as fetch_kafka_jars
from tests.support.kafka.oracles import Oracle
from tests.support.kafka.workload import read_in_part


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    return fetch_kafka_jars()


@pytest.fixture(scope="package")
def broker() -> Iterator[KafkaBroker]:
    """A running broker. Tests share it, so each uses other topics and groups."""
    with KafkaBroker(jmx=True) as running:
        yield running


@pytest.fixture(scope="package")
def cluster() -> Iterator[KafkaCluster]:
    """Three brokers in three racks. Tests share them, so each uses other topics and groups."""
    settings = {
        "share.coordinator.state.topic.num.partitions": "12",
        "auto.leader.rebalance.enable": "false",  # leaders move when a test says so
        "broker.session.timeout.ms": "6000",  # until a broker that was killed leads no more
        # What archived an offset stays, however long a story of dead letters takes.
        "share.coordinator.state.topic.prune.interval.ms": "3600000",
    }
    with KafkaCluster(properties=settings, racks=RACKS, log_requests=True, jmx=True) as running:
        yield running


@pytest.fixture(scope="package")
def first(cluster: KafkaCluster) -> KafkaBroker:
    """The first of the three brokers, whose address is enough to reach all of them."""
    return cluster.brokers[0]


@pytest.fixture(scope="package")
def secure_broker() -> Iterator[KafkaBroker]:
    """A secured broker on which no share group was ever used: tests have topics of their own.

    It creates a topic for whoever asks with the permission to, so a reader that does is noticed.
    """
    # The dash would look like an option to the command that formats the storage.
    with KafkaBroker(
        secure=True,
        cluster_id="-AAAAAAAAAAAAAAAAAAAAA",
        properties={"auto.create.topics.enable": "true"},
    ) as running:
        yield running


@pytest.fixture(scope="package")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the certificates of `secured`."""
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="package")
def secured(certificates: Path) -> Iterator[KafkaBroker]:
    """A secured broker with the group `billing`, which has not read 25 records of `orders`.

    Its authorizer logs what it is asked; it also has the listeners of `certificates.LISTENERS`.
    """
    with KafkaBroker(
        secure=True,
        properties=listener_properties(certificates),
        extra_listeners=LISTENERS,
        jvm_flags=["-Dkafka.authorizer.level=debug"],
    ) as running:
        servers = running.bootstrap_servers
        read_in_part(servers, "billing", "orders", partitions=2, read=40, left=25)
        yield running


@pytest.fixture(scope="package")
def oracle_replayer() -> Iterator[Oracle]:
    """Which state a share coordinator has after loading records."""
    with Oracle("ReplayOracle") as oracle:
        yield oracle


@pytest.fixture(scope="package")
def oracle_record_json() -> Iterator[Oracle]:
    """How Kafka reads a record."""
    with Oracle("RecordJsonOracle") as oracle:
        yield oracle


@pytest.fixture(scope="package")
def oracle_coordinator() -> Iterator[Oracle]:
    """Which records a share coordinator writes."""
    with Oracle("CoordinatorOracle") as oracle:
        yield oracle
