"""Real consumers and simulated ones, of share and consumer groups, agree on any machine."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from confluent_kafka import Consumer

from sharelag.whatif import Member, Poison, Producer, Scenario, Service, Topic, consumer_group_twin
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.oracles import ShareHolders
from tests.support.kafka.workload import (
    create_topics,
    numbered,
    produce,
    set_group_config,
    start_transaction,
    wait_until,
)
from tools.record.fidelity.experiments import TOPIC, experiments
from tools.record.fidelity.live import prepare, run_live
from tools.record.fidelity.measure import simulated
from tools.record.fidelity.script import PROPERTIES

#: Part of the simulator's drain time within which the real one has to be. A busy machine is slow,
#: but never fast.
_FASTEST, _SLOWEST = 0.85, 2.5
ORDERS, GROUP = "consumer-group-live", "consumer-group-live"
PARTITIONS, MEMBERS, RECORDS = 2, 3, 1200
SERVICE = 0.005
#: When the producer of the simulation begins: all members have what they get by then.
BEGIN_MS = 30_000


@pytest.fixture(scope="module")
def own_broker() -> Iterator[KafkaBroker]:
    with KafkaBroker(properties=PROPERTIES) as running:
        prepare(running)
        yield running


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["poison", "release-and-reject", "hung"])
def test_members_do_what_the_simulator_says(own_broker: KafkaBroker, name: str) -> None:
    compare(own_broker, experiments()[name].scenario)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "poison"),
    [
        ("hung", Poison(TOPIC, 0, 300, "hold", 1, hold_ms=4500)),
        ("killed", Poison(TOPIC, 0, 120, "crash", 1)),
    ],
)
def test_who_gets_one_holds_it_long(own_broker: KafkaBroker, name: str, poison: Poison) -> None:
    """The same groups without a fault at a certain time."""
    compare(own_broker, replace(experiments()[name].scenario, faults=(), poison=(poison,)))


def compare(broker: KafkaBroker, scenario: Scenario) -> None:
    ours = simulated(scenario, 0)
    real = run_live(broker, scenario, 0, late_ms=10_000, warm_up=200)
    assert ours.deliveries == pytest.approx(real.deliveries, rel=0.05)
    assert ours.archived == pytest.approx(real.archived, rel=0.05)
    assert _FASTEST * ours.drain_ms <= real.drain_ms <= _SLOWEST * ours.drain_ms


def test_a_poll_that_got_only_a_marker_waits_to_its_end(broker: KafkaBroker) -> None:
    """A record that comes meanwhile is fetched by the next poll, as simulated."""
    servers, topic, group = broker.bootstrap_servers, "marker-alone", "marker-alone"
    create_topics(servers, {topic: 1})
    set_group_config(servers, group, share_auto_offset_reset="earliest")
    with ShareHolders() as clients:
        clients.do("open", "one", bootstrap=servers, group=group, topic=topic, config={})
        producer = start_transaction(servers, topic, topic, [(0, None, b"first")])
        clients.poll("one")
        clients.do("acknowledge", "one", type="ACCEPT")
        later = threading.Timer(0.5, produce, (servers, topic, [(0, None, b"second")]))
        producer.commit_transaction(30)
        begin = time.monotonic()
        later.start()
        assert not clients.do("poll", "one", ms=3000)["records"]
        assert time.monotonic() - begin > 2.5  # the client may look at its clock a little early
        later.join()
        assert clients.do("poll", "one", ms=3000)["records"] == [[0, 2, 1]]
        clients.do("close", "one")


class Worker:
    """A consumer in a separate thread, which works on each record for a while."""

    def __init__(self, bootstrap: str) -> None:
        self.done: list[tuple[float, int, int]] = []  # when, partition, offset
        self.worked = 0.0
        self.assigned = 0
        self._stop = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
            }
        )
        self._consumer.subscribe([ORDERS])
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.1)
            self.assigned = len(self._consumer.assignment())
            if message is None:
                continue
            assert message.error() is None, message.error()
            begin = time.monotonic()
            time.sleep(SERVICE)
            now = time.monotonic()
            self.worked += now - begin
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            self.done.append((now, partition, offset))
        self._consumer.close()


@contextmanager
def workers(bootstrap: str) -> Iterator[list[Worker]]:
    each = [Worker(bootstrap) for _ in range(MEMBERS)]
    try:
        yield each
    finally:
        for one in each:
            one.close()


@pytest.mark.exhaustive
def test_a_consumer_group_is_bounded_by_its_partitions(broker: KafkaBroker) -> None:
    """Three members, two partitions: one waits, the others take as long as the simulation."""
    create_topics(broker.bootstrap_servers, {ORDERS: PARTITIONS})
    with workers(broker.bootstrap_servers) as each:
        wait_until(
            lambda: sorted(one.assigned for one in each) == [0, 1, 1],
            "two members with a partition each",
        )
        produce(broker.bootstrap_servers, ORDERS, numbered(RECORDS, PARTITIONS))
        wait_until(lambda: sum(len(one.done) for one in each) >= RECORDS, "all records")
    done = [row for one in each for row in one.done]
    service = sum(one.worked for one in each) / RECORDS
    took = max(row[0] for row in done) - min(row[0] for row in done) + service
    # Between two records a thread waits for its turn on this machine, which the simulation knows
    # nothing of.
    between = max(
        one.done[-1][0] - one.done[0][0] + service - one.worked for one in each if one.done
    )

    appended = Producer(ORDERS, RECORDS * 500, "steady", begin_ms=BEGIN_MS, end_ms=BEGIN_MS + 2)
    members = Member(count=MEMBERS, service=Service(service * 1000))
    scenario = Scenario((Topic(ORDERS, PARTITIONS),), (members,), (appended,), duration_ms=60_000)
    (row,) = consumer_group_twin(scenario).summary.to_pylist()
    simulated = (row["drain_ms"] - BEGIN_MS) / 1000
    result = f"{RECORDS} records at {service * 1000:.2f} ms: {took:.2f} s, "
    result += f"{between:.2f} s of them between records"
    print(f"{result}; simulated {simulated:.2f} s")
    assert (row["arrived"], took - between) == (RECORDS, pytest.approx(simulated, rel=0.1))
    assert took > 0.95 * RECORDS * service / PARTITIONS  # not a third each
    assert sorted(len(one.done) for one in each) == [0, RECORDS / 2, RECORDS / 2]
    assert row["idle_members"] == 1
    for one in each:
        assert [offset for _, _, offset in one.done] == sorted(offset for _, _, offset in one.done)
