"""Run a scenario on a broker, with members that are Kafka's own consumers, driven by the script."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
from confluent_kafka import Message, Producer

from sharelag import schemas
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.config import client_config
from sharelag.whatif.scenario import Scenario
from sharelag.wire.fields import STATE_TOPIC
from tests.support.kafka.broker import KafkaBroker, KafkaCluster
from tests.support.kafka.jars import KAFKA_VERSION
from tests.support.kafka.jvm import RigError
from tests.support.kafka.workload import (
    create_placed,
    create_topics,
    numbered,
    produce,
    set_group_config,
)
from tools.record.fidelity.experiments import START_MS
from tools.record.fidelity.measure import Arrivals, Run, measured
from tools.record.fidelity.members import WARM_UP_RECORDS, WARM_UP_TOPIC, Members
from tools.record.fidelity.script import script

#: Time between a settled group and the first records: longer than members wait in a fetch.
_READY_MS = 1000
#: Maximum delay of appends; a machine with longer delays is too busy to measure times.
LATE_MS = 500


def prepare(broker: KafkaBroker | KafkaCluster) -> None:
    """Create the topics that all experiments need."""
    create_topics(broker.bootstrap_servers, {WARM_UP_TOPIC: 1})
    produce(broker.bootstrap_servers, WARM_UP_TOPIC, numbered(WARM_UP_RECORDS, 1), batch=10)


def run_live(
    broker: KafkaBroker | KafkaCluster,
    scenario: Scenario,
    seed: int,
    *,
    within: float = 120,
    late_ms: float = LATE_MS,
    warm_up: int = WARM_UP_RECORDS,
) -> Run:
    """Run a scenario with real consumers.

    Parameters
    ----------
    broker
        One broker, or as many as the scenario has, after `prepare`. Several have copies of each
        partition.
    scenario, seed
    within
        Seconds until everything has to be finished.
    late_ms
        Maximum delay of appends.
    warm_up
        Number of records that each JVM of members reads before it counts.

    Raises
    ------
    RigError
        Not everything was finished in time, a member failed, or records were appended too late.
    """
    servers, result = broker.bootstrap_servers, script(scenario, seed)
    group = f"{scenario.name}-{uuid4().hex[:8]}"
    prefix = f"{group}."
    count, leaders = scenario.brokers, iter(scenario.leaders)
    for name, partitions in result["topics"].items():
        led = [
            [(first + n) % count + 1 for n in range(count)] for first in islice(leaders, partitions)
        ]
        create_placed(servers, prefix + name, led, {"message.timestamp.type": "LogAppendTime"})
    set_group_config(servers, group, **result["group"])
    with Members(servers, group, prefix, result, warm_up) as members:
        members.join(within)
        begin = time.time() * 1000 + _READY_MS - START_MS
        members.befall(result["faults"], begin)
        arrived = append(servers, prefix, result["appends"], begin, late_ms)
        members.wait_for(lambda line: line.get("lag") == 0, within)
        polls = members.leave()
    states = pa.Table.from_batches(
        kafka.read_topic(client_config(servers), STATE_TOPIC), schemas.RAW
    )
    deliveries = sum(run[3] - run[2] + 1 for poll in polls for run in poll["runs"])
    run = measured(states, group, begin + START_MS, arrived, deliveries)
    commits, took = (sum(poll["committed"][at] for poll in polls) for at in (0, 1))
    return replace(
        run,
        poll_ms=float(np.median([poll["us"] - poll["polled"] for poll in polls])) / 1000,
        commit_ms=took / commits / 1000 if commits else None,
        kafka=KAFKA_VERSION,
        date=datetime.now(UTC).date().isoformat(),
    )


def append(
    servers: str, prefix: str, appends: Iterable[list[Any]], begin: float, late_ms: float
) -> Arrivals:
    """Append record batches of exactly these sizes at these times.

    Returns
    -------
    list of (float, int)
        The broker's time of each record, in ms since the epoch, and 1.

    Raises
    ------
    RigError
        A record came later than ``late_ms`` after its time.
    """
    todo = list(appends)
    producers = {size: _producer(servers, size) for size in {append[3] for append in todo}}
    arrived: list[tuple[float, int]] = []
    failures: list[str] = []

    def note(due: float, error: object, message: Message) -> None:
        came = message.timestamp()[1]
        if error is not None or came - due > late_ms:
            failures.append(f"{error}, {came - due:.0f} ms late")
        arrived.append((float(came), 1))

    for at, topic, partition, size in todo:
        due = begin + at
        time.sleep(max(due / 1000 - time.time(), 0))
        for _ in range(size):
            producers[size].produce(
                prefix + topic,
                b"x" * 100,
                None,
                partition,
                on_delivery=lambda error, message, due=due: note(due, error, message),
            )
        producers[size].poll(0)
    for producer in producers.values():
        producer.flush(60)
    if failures or len(arrived) != sum(one[3] for one in todo):
        raise RigError(
            f"{len(arrived)} records were appended; the first that went wrong: {failures[:1]}"
        )
    return arrived


def _producer(servers: str, size: int) -> Producer:
    return Producer(
        {
            "bootstrap.servers": servers,
            "acks": "all",
            "max.in.flight": 1,
            "linger.ms": 1000,  # only full batches are sent earlier
            "batch.num.messages": size,
            "log_level": 0,  # otherwise it logs that the broker ends
        }
    )
