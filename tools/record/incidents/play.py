"""Play an incident on a cluster of brokers with Kafka's own consumers, and note the outcome."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Producer
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.config import ClientConfig, client_config
from sharelag.replay.history import history_arrow
from sharelag.tables.arrow import one_batch
from sharelag.whatif.scenario import Scenario
from sharelag.wire.decode import decode_arrow
from sharelag.wire.fields import STATE_TOPIC
from sharelag.workbench.capture import capture_kafka
from tests.support.kafka.broker import KafkaCluster
from tests.support.kafka.jvm import RigError
from tests.support.kafka.workload import (
    create_topics,
    numbered,
    produce,
    set_group_config,
    start_transaction,
)
from tools.record.fidelity.live import append
from tools.record.fidelity.measure import age_over_time, lag_over_time
from tools.record.fidelity.members import WARM_UP_TOPIC, Members
from tools.record.fidelity.script import PROPERTIES, script
from tools.record.incidents.table import BROKERS, START_MS, STEP_MS, Incident

#: Time between a settled group and the first records.
_READY_MS = 1000
_WITHIN = 120.0
#: Maximum delay of appends, by default and while a broker is missing.
_LATE_MS, _LATE_WITHOUT_MS = 3000.0, 30_000.0
#: Warm-up records of each JVM of members, and of the brokers.
_WARM_UP = 2000
SETTINGS = PROPERTIES | {
    "share.coordinator.state.topic.prune.interval.ms": "86400000",
    "auto.leader.rebalance.enable": "false",
}


@dataclass(frozen=True)
class Played:
    """The outcome of one play.

    Attributes
    ----------
    begin_ms, end_ms
        The earliest time of records, and the last moment, since the epoch.
    lag, age_ms
        Every 100 ms since the start; the age of the oldest unfinished record.
    drained_ms
        From the start until nothing was left, for the first time after the largest lag; None:
        never.
    deliveries, redeliveries
        Records delivered to members; those that had been delivered before.
    load
        Load of the machine, averaged over the last minute.
    """

    group: str
    begin_ms: int
    end_ms: int
    lag: tuple[int, ...]
    age_ms: tuple[int, ...]
    drained_ms: int | None
    deliveries: int
    redeliveries: int
    load: float


def prepare(cluster: KafkaCluster) -> None:
    """Create the topic that members of all plays read first."""
    servers = cluster.bootstrap_servers
    create_topics(servers, {WARM_UP_TOPIC: BROKERS}, copies=BROKERS)
    produce(servers, WARM_UP_TOPIC, numbered(_WARM_UP, BROKERS), batch=10)


def play(
    cluster: KafkaCluster,
    incident: Incident,
    scenario: Scenario,
    seed: int,
    capture: Path | None = None,
) -> Played:
    """Play a scenario of an incident, with the change or without, on a cluster after `prepare`.

    Parameters
    ----------
    cluster
    incident
        It may leave a transaction open.
    scenario
    seed
        The same seed gives the same arrivals and the same work of each record.
    capture
        Folder to capture the cluster at the end, while the members are still there.
    """
    servers = cluster.bootstrap_servers
    of_brokers = [one for one in scenario.faults if one.kind == "broker_down"]
    of_members = tuple(one for one in scenario.faults if one not in of_brokers)
    told = script(replace(scenario, faults=of_members), seed)
    if incident.opened is not None:  # its records are work, too
        for work in told["work"]:
            each = work[f"{scenario.topics[0].name}/{incident.opened.partition}"]
            each += [round(float(np.mean(each)))] * incident.opened.records
    group = f"{incident.name}-{uuid4().hex[:6]}"
    prefix = f"{group}."
    for name, count in told["topics"].items():
        create_topics(
            servers, {prefix + name: count}, {"message.timestamp.type": "LogAppendTime"}, BROKERS
        )
    set_group_config(servers, group, **told["group"])
    timers: list[threading.Timer] = []
    opened: list[tuple[float, Producer]] = []
    with ExitStack() as after, Members(servers, group, prefix, told, _WARM_UP) as members:
        members.join(_WITHIN)
        begin = time.time() * 1000 + _READY_MS - START_MS

        def later(at_ms: int, do: Any, *given: Any) -> None:
            timer = threading.Timer((begin + at_ms) / 1000 - time.time(), do, given)
            timer.start()
            timers.append(timer)

        def open_transaction(partition: int, records: int) -> None:
            topic = prefix + scenario.topics[0].name
            left = [(partition, None, b"x" * 100)] * records
            opened.append((time.time() * 1000, start_transaction(servers, group, topic, left)))

        for fault in of_brokers:
            later(fault.at_ms, cluster.brokers[fault.broker].kill)
        if incident.opened is not None:
            later(incident.opened.at_ms, open_transaction, *incident.opened[1:])
        for timer in timers:
            after.callback(timer.cancel)
        members.befall(told["faults"], begin)
        late = _LATE_WITHOUT_MS if of_brokers else _LATE_MS
        arrived = list(append(servers, prefix, told["appends"], begin, late))
        end = begin + scenario.duration_ms
        time.sleep(max(end / 1000 - time.time(), 0))
        load = os.getloadavg()[0]
        if capture is not None:
            capture_kafka(ClientConfig({"bootstrap.servers": servers}), capture, overwrite=True)
        states = pa.Table.from_batches(
            kafka.read_topic(client_config(servers), STATE_TOPIC), schemas.RAW
        )
        polls = members.leave()
        if members.failures and not of_brokers:
            raise RigError(f"members failed: {members.failures}")
    for at, _ in opened:
        arrived += [(at, 1)] * (incident.opened.records if incident.opened else 0)
    begin, end = round(begin) + START_MS, round(end)
    decoded = one_batch(decode_arrow(one_batch(states), STATE_TOPIC).records)
    history = history_arrow(decoded.filter(pc.equal(decoded.column("group_id"), group)))
    grid = np.arange(0, end - begin + 1, STEP_MS, dtype=np.float64)
    lag = lag_over_time(history, arrived, begin, grid).astype(int)
    age = age_over_time(history, appended(told["appends"], begin - START_MS), begin + grid)
    largest = int(np.argmax(lag))
    empty = np.flatnonzero(lag[largest:] <= 0)
    runs = [run for poll in polls if poll["us"] <= end * 1000 for run in poll["runs"]]
    return Played(
        group,
        begin,
        end,
        tuple(lag.tolist()),
        tuple(age.astype(int).tolist()),
        int(largest + empty[0]) * STEP_MS if len(empty) and lag[largest] else None,
        sum(run[3] - run[2] + 1 for run in runs),
        sum(run[3] - run[2] + 1 for run in runs if run[4] > 1),
        load,
    )


def appended(appends: Iterable[list[Any]], begin: float) -> dict[int, NDArray[np.float64]]:
    """Return by partition when each record was to be appended: `script`'s, of one topic."""
    found: dict[int, list[float]] = {}
    for at, _, partition, size in appends:
        found.setdefault(partition, []).extend([begin + at] * size)
    return {partition: np.array(times) for partition, times in found.items()}
