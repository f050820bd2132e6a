"""What a broker measures is what a share consumer did, and it tells acquired from never delivered."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, Message, ShareConsumer

import sharelag as package
from tests.support.command import sharelag
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.record_metrics import jmx
from tests.support.kafka.workload import (
    Delivery,
    accept,
    create_topics,
    numbered,
    produce,
    set_group_config,
    share_consume,
    share_consumer,
    wait_until,
)

GROUP, TOPIC = "measured", "of-metrics"
HOLDING, HELD = "holding", "held-of-metrics"
LOCK = "share.record.lock.duration.ms"


def rows_of(*arguments: str) -> list[dict[str, Any]]:
    done = sharelag(*arguments, "-o", "json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def increases(*places: str) -> dict[str, int]:
    """How many acknowledgements were counted between two readings, as the command says it."""
    said = sharelag("metrics", *places).stderr
    return {kind: int(more) for kind, more in re.findall(r"[\d,]+ (\w+) \(\+(\d+),", said)}


def reading(broker: KafkaBroker, folder: Path, places: list[str]) -> str:
    """What the broker measures now, as a place of metrics of broker 1."""
    file = folder / f"{len(places)}.properties"
    file.write_text(jmx(broker, "properties"))
    places.append(f"1={file}")
    return places[-1]


def poll(consumer: ShareConsumer, count: int) -> list[Message]:
    found: list[Message] = []

    def is_all() -> bool:
        found.extend(consumer.poll(0.5))
        return len(found) >= count

    wait_until(is_all, f"{count} records")
    assert len(found) == count
    return found


def acknowledge(consumer: ShareConsumer, messages: list[Message], rejected: int) -> None:
    for at, message in enumerate(messages):
        kind = AcknowledgeType.REJECT if at < rejected else AcknowledgeType.ACCEPT
        consumer.acknowledge(message, kind)
    assert not any(consumer.commit_sync(30.0).values())


@pytest.mark.row("MET-06")
def test_the_broker_counts_what_the_consumer_did(broker: KafkaBroker, tmp_path: Path) -> None:
    servers = broker.bootstrap_servers
    places: list[str] = []

    def read() -> str:
        return reading(broker, tmp_path, places)

    def timeouts() -> int:
        (row,) = rows_of(*lag, "--broker-metrics", read())
        return int(row["lock_timeouts"] or 0)

    lag = ("lag", "--bootstrap-server", servers, "--group", GROUP)
    create_topics(servers, {TOPIC: 1})
    produce(servers, TOPIC, numbered(20, 1))
    set_group_config(servers, GROUP, **{"share.auto.offset.reset": "earliest", LOCK: "1000"})
    read()
    seen: Counter[int] = Counter()

    def decide(message: Message) -> AcknowledgeType | None:
        offset = message.offset() or 0
        seen[offset] += 1
        if seen[offset] == 1 and offset == 10:
            return AcknowledgeType.RELEASE
        return None if seen[offset] == 1 and offset in (11, 12) else accept(message)

    def locks_ended(held: list[Delivery]) -> None:
        wait_until(lambda: timeouts() == 2, "two locks that end")

    share_consume(servers, GROUP, [TOPIC], decide, until=23, wait_for_locks=locks_ended)
    assert sum(seen.values()) == 23
    # Two locks that ended are no acknowledgements.
    assert increases(places[0], read()) == {"accept": 20, "release": 1, "reject": 0, "renew": 0}


def test_what_is_held_is_told_from_what_was_never_delivered(
    broker: KafkaBroker, tmp_path: Path
) -> None:
    servers, lag = broker.bootstrap_servers, ("--group", HOLDING, "--bootstrap-server")
    places: list[str] = []

    def read() -> str:
        return reading(broker, tmp_path, places)

    create_topics(servers, {HELD: 1})
    produce(servers, HELD, numbered(5, 1))
    set_group_config(servers, HOLDING, **{"share.auto.offset.reset": "earliest"})
    consumer = share_consumer(servers, HOLDING, [HELD])
    try:
        acknowledge(consumer, poll(consumer, 5), rejected=0)
        first = read()
        produce(servers, HELD, numbered(12, 1))
        held = poll(consumer, 12)
        produce(servers, HELD, numbered(40, 1))
        second = read()
        metrics = ("--broker-metrics", first, "--broker-metrics", second)
        (row,) = rows_of("lag", *lag, servers, *metrics)
        assert row["unread"] == 52  # all that the state topic says
        # The start offset is written with the next change: so far the window begins before it.
        passed = row["effective_start_offset"] - row["start_offset"]
        assert (row["acquired_low"], row["acquired_high"]) == (12 - passed, 12)
        assert (row["never_delivered_low"], row["never_delivered_high"]) == (40, 40 + passed)
        (row,) = rows_of("progress", *lag, servers, *metrics)
        assert (row["in_flight_offsets"], row["lock_timeouts"]) == (12, 0)
        bench = package.open(
            servers, engine="local", groups=HOLDING, broker_metrics=[first, second]
        )
        assert bench.lag().table.column("acquired_high").to_pylist() == [12]
        assert "12 in flight, 0 locks expired" in bench.explain().to_text()
        acknowledge(consumer, held, rejected=4)
    finally:
        consumer.close()
    third = read()
    assert increases(second, third) == {"accept": 8, "release": 0, "reject": 4, "renew": 0}
    # A new member: the broker loads the share partition again, and its gauge tells nothing now.
    consumer = share_consumer(servers, HOLDING, [HELD])
    try:
        poll(consumer, 40)
        metrics = ("--broker-metrics", third, "--broker-metrics", read())
        done = sharelag("lag", *lag, servers, *metrics, "-o", "json")
        row = json.loads(done.stdout)
        assert (row["acquired_low"], row["acquired_high"], row["in_flight_offsets"]) == (None,) * 3
        assert "its gauges may be of an earlier load" in done.stderr
    finally:
        consumer.close()
