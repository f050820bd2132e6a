"""What three brokers measure is what a share consumer did: acquired, or never delivered."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import AcknowledgeType, Message, ShareConsumer

import sharelag as package
from tests.support.command import ask, sharelag
from tests.support.kafka.broker import KafkaCluster
from tests.support.kafka.oracles import Oracle
from tests.support.kafka.workload import (
    Delivery,
    create_placed,
    create_topics,
    numbered,
    poll_some,
    produce,
    set_group_config,
    share_consume,
    share_consumer,
    wait_until,
)
from tools.record.broker_metrics import jmx

GROUP, TOPIC = "measured", "of-metrics"
HOLDING, HELD = "holding", "held-of-metrics"
#: Each broker leads a partition.
PLACED = [[1, 2], [2, 3], [3, 1]]


def increases(*places: str) -> dict[int, dict[str, int]]:
    """How many acknowledgements each broker counted between two readings, as the command says."""
    said = sharelag("metrics", *places).stderr
    return {
        int(broker): {kind: int(more) for kind, more in re.findall(r"[\d,]+ (\w+) \(\+(\d+),", r)}
        for broker, r in re.findall(
            r"since the start of broker (\d), of all share groups: (.*)", said
        )
    }


class Readings:
    """What brokers measure, read with JmxTool time and again into files of a folder."""

    def __init__(self, cluster: KafkaCluster, folder: Path) -> None:
        self._cluster, self._folder = cluster, folder
        self.places: list[str] = []

    def read(self, *brokers: int) -> list[str]:
        """Read what these brokers measure now, each as a place of metrics."""
        return [self._one(number) for number in brokers]

    def _one(self, number: int) -> str:
        file = self._folder / f"{len(self.places)}.properties"
        file.write_text(jmx(self._cluster.brokers[number - 1], "properties"))
        self.places.append(f"{number}={file}")
        return self.places[-1]


@pytest.fixture
def readings(cluster: KafkaCluster, tmp_path: Path) -> Readings:
    return Readings(cluster, tmp_path)


def acknowledge(consumer: ShareConsumer, messages: list[Message], rejected: int) -> None:
    for at, message in enumerate(messages):
        kind = AcknowledgeType.REJECT if at < rejected else AcknowledgeType.ACCEPT
        consumer.acknowledge(message, kind)
    assert not any(consumer.commit_sync(30.0).values())


@pytest.mark.row("MET-06")
def test_each_broker_counts_where_it_leads(cluster: KafkaCluster, readings: Readings) -> None:
    """Broker 1 leads a partition with a record that fails once, 2 one with two locks that end."""
    servers, each = cluster.bootstrap_servers, 20
    create_placed(servers, TOPIC, PLACED)
    produce(servers, TOPIC, numbered(3 * each, 3))
    lock = {"share_record_lock_duration_ms": "1000"}
    set_group_config(servers, GROUP, share_auto_offset_reset="earliest", **lock)
    first = readings.read(1, 2, 3)
    seen: Counter[tuple[int | None, int | None]] = Counter()

    def decide(message: Message) -> AcknowledgeType | None:
        place = message.partition(), message.offset()
        seen[place] += 1
        if place in ((1, 11), (1, 12)) and seen[place] == 1:
            return None
        if place == (0, 10) and seen[place] == 1:
            return AcknowledgeType.RELEASE
        return AcknowledgeType.REJECT if place == (2, 0) else AcknowledgeType.ACCEPT

    def timeouts() -> int:
        rows = ask(f"lag --group {GROUP} --broker-metrics", *readings.read(2), at=servers)
        return sum(int(row["lock_timeouts"] or 0) for row in rows)

    def locks_ended(held: list[Delivery]) -> None:
        wait_until(lambda: timeouts() == 2, "two locks that end")

    share_consume(servers, GROUP, [TOPIC], decide, until=3 * each + 3, wait_for_locks=locks_ended)
    assert sum(seen.values()) == 3 * each + 3
    none = {"accept": 0, "release": 0, "reject": 0, "renew": 0}
    # Two locks that ended are no acknowledgements.
    assert increases(*first, *readings.read(1, 2, 3)) == {
        1: none | {"accept": each, "release": 1},
        2: none | {"accept": each},
        3: none | {"accept": each - 1, "reject": 1},
    }


@pytest.mark.exhaustive  # what each broker counts: the test before
def test_held_is_told_from_never_delivered(cluster: KafkaCluster, readings: Readings) -> None:
    servers, lag = cluster.bootstrap_servers, ("--group", HOLDING)
    server = ("--bootstrap-server", servers)

    def read() -> str:
        return readings.read(2)[0]

    create_placed(servers, HELD, [[2, 3]])
    produce(servers, HELD, numbered(5, 1))
    set_group_config(servers, HOLDING, share_auto_offset_reset="earliest")
    consumer = share_consumer(servers, HOLDING, [HELD])
    try:
        acknowledge(consumer, poll_some(consumer, 5), rejected=0)
        first = read()
        produce(servers, HELD, numbered(12, 1))
        held = poll_some(consumer, 12)
        assert len(held) == 12
        produce(servers, HELD, numbered(40, 1))
        second = read()
        metrics = ("--broker-metrics", first, "--broker-metrics", second)
        (row,) = ask("lag", *lag, *metrics, at=servers)
        assert row["unread"] == 52  # all that the state topic says
        # The start offset is written with the next change: so far the window begins before it.
        passed = row["effective_start_offset"] - row["start_offset"]
        assert (row["acquired_low"], row["acquired_high"]) == (12 - passed, 12)
        assert (row["never_delivered_low"], row["never_delivered_high"]) == (40, 40 + passed)
        (row,) = ask("progress", *lag, *metrics, at=servers)
        assert (row["in_flight_offsets"], row["lock_timeouts"]) == (12, 0)
        read_twice = [first, second]
        bench = package.open(
            servers, engine="local", groups=HOLDING, broker_metrics=read_twice, patience="1ms"
        )
        assert bench.lag().table.column("acquired_high").to_pylist() == [12]
        assert "12 in flight, 0 locks expired" in bench.explain().to_text()
        acknowledge(consumer, held, rejected=4)
    finally:
        consumer.close()
    third = read()
    assert increases(second, third) == {2: {"accept": 8, "release": 0, "reject": 4, "renew": 0}}
    metrics = ("--broker-metrics", third, "--broker-metrics", read())
    done = sharelag("lag", *lag, *server, *metrics, "-o", "json")
    assert json.loads(done.stdout)["in_flight_offsets"] is None
    assert "the metrics that were read have none of these share partitions" in done.stderr
    # A new member: the broker loads the share partition again, and its gauges are new ones.
    consumer = share_consumer(servers, HOLDING, [HELD])
    try:
        assert len(poll_some(consumer, 40)) == 40
        last = read()
        for before in ((), (third,)):
            given = [part for one in (*before, last) for part in ("--broker-metrics", one)]
            (row,) = ask("lag", *lag, *given, at=servers)
            assert (row["acquired_high"], row["never_delivered_low"]) == (40, 0)
            assert "earlier load" not in sharelag("lag", *lag, *server, *given).stderr
    finally:
        consumer.close()


@pytest.mark.exhaustive
def test_the_letters_of_each_group_are_counted(cluster: KafkaCluster, readings: Readings) -> None:
    """The queue of one group takes letters, that of another refuses them for their size."""
    servers, topic, each = cluster.bootstrap_servers, "of-letters", 9
    queues = {"letters-kept": "dlq.kept", "letters-too-large": "dlq.small"}
    create_placed(servers, topic, PLACED)
    produce(servers, topic, numbered(3 * each, 3))
    enabled = {"errors.deadletterqueue.group.enable": "true"}
    create_topics(servers, {"dlq.kept": 1}, enabled)
    create_topics(servers, {"dlq.small": 1}, enabled | {"max.message.bytes": "100"})
    for group, queue in queues.items():
        settings = {"errors.deadletterqueue.topic.name": queue}
        set_group_config(servers, group, share_auto_offset_reset="earliest", **settings)

    def decide(message: Message) -> AcknowledgeType:
        return AcknowledgeType.ACCEPT if message.offset() else AcknowledgeType.REJECT

    def letters(*options: str) -> dict[str, list[int]]:
        said = sharelag("metrics", *readings.read(1, 2, 3), *options).stderr
        of = re.compile(r"dead letters of (.+), by .+: (.+)")
        return {
            found[1]: [int(number) for number in re.findall(r"\d+", found[2])]
            for found in map(of.search, said.splitlines())
            if found
        }

    for group in queues:
        share_consume(servers, group, [topic], decide, until=3 * each)

    # A request takes all letters that a broker has at the time, and a failed one may be repeated.
    def are_told() -> bool:
        said = letters()
        (kept, its, failed), (written, requests, refused) = (
            said.get(group, [0, 0, 0]) for group in queues
        )
        return (kept, failed, written) == (3, 0, 0) and bool(its) and bool(requests == refused)

    wait_until(are_told, "3 letters are written, and all requests of the other queue failed")
    told = letters()
    assert letters("--group", "letters-kept") == {"letters-kept": told["letters-kept"]}
    _, requests, refused = told["letters-too-large"]
    assert 0 < requests == refused
    places = [part for place in readings.read(1, 2, 3) for part in ("--broker-metrics", place)]
    for command in ("lag", "explain"):
        asked = ("--bootstrap-server", servers, "--group", "letters-too-large", *places)
        said = sharelag(command, *asked).stderr
        assert f"written 0, requests {requests}, failed requests {refused}" in said
        assert "letters-kept" not in said


_MBEAN = "kafka.server:type=ShareGroupMetrics,name=PartitionLoadTimeMs"


@pytest.mark.row("MET-07")
def test_two_loads_are_shown_with_their_mean_and_the_longest(tmp_path: Path) -> None:
    """KIP-932 calls them partition-load-time-avg and -max; Kafka 4.3.1 has a histogram."""
    with Oracle("LoadTimes") as kafka:
        told = kafka.ask({"loads": [10, 30]})
    assert told.pop("mbean") == _MBEAN
    dump = tmp_path / "broker.properties"
    lines = [f"{_MBEAN}:{name}={value}" for name, value in told.items()]
    dump.write_text("\n".join(["time=1", *lines, ""]))
    rows = [row for row in ask("metrics", str(dump)) if row["metric"] == "PartitionLoadTimeMs"]
    assert {row["mbean"] for row in rows} == {_MBEAN.partition(",")[0]}
    found = {row["attribute"]: row["figure"] for row in rows}
    assert (found["Count"], found["Mean"], found["Max"]) == (2, 20, 30)
