"""Scenarios of every kind, drawn by chance: for what must be the same in both forms of the loop."""

from dataclasses import replace
from random import Random
from typing import Any

from sharelag.model import StateBatch, Window
from sharelag.whatif import (
    Fault,
    Fixed,
    Hpa,
    Keda,
    PartitionStart,
    Pods,
    Producer,
    Scenario,
    Service,
    TargetAge,
    Topic,
)
from sharelag.whatif.autoscale import Autoscaler, Metric
from tests.support.simulation_scenarios import DURATION_MS, random_scenario


def drawn_scenario(random: Random) -> Scenario:
    """A scenario in which anything may happen to members, records, brokers and topics."""
    scenario = random_scenario(random, plain=random.random() < 0.4)
    scenario = replace(
        scenario,
        topics=tuple(_topic(random, topic) for topic in scenario.topics),
        producers=tuple(_producer(random, one) for one in scenario.producers),
        costs=replace(
            scenario.costs,
            network_ms=random.choice([0.0, 0.1, 5.0]),
            fetch_ms=random.choice([0.0, 2.3, 20.0]),
        ),
        settled=random.random() < 0.5,
        faults=(*scenario.faults, *(_leader_change(random) for _ in range(random.randint(0, 2)))),
        step_ms=random.choice([500, 77]),
    )
    if random.random() < 0.3:
        scenario = _busier(random, scenario)
    if random.random() < 0.25:
        members = tuple(replace(one, join_ms=0, leave_ms=None) for one in scenario.members)
        scenario = replace(scenario, members=members, autoscaler=_autoscaler(random))
    return scenario


def _busier(random: Random, scenario: Scenario) -> Scenario:
    """The same group with more members, records and record batches, and a topic with much to do."""
    members = tuple(
        replace(
            one,
            count=random.choice([1, 1, 3]),
            service=random.choice(
                [one.service, Service(3), Service(2, "lognormal", poll_ms=1, slow_share=0.1)]
            ),
            fetch_max_wait_ms=random.choice([500, 40]),
        )
        for one in scenario.members
    )
    several = {one.name for one in members if one.count > 1}
    return replace(
        scenario,
        topics=(*scenario.topics, Topic("c", 2, backlog=(0, 5000), batch_records=3)),
        members=members,
        producers=(
            *scenario.producers,
            Producer("a", random.choice([5, 700]), batch_records=random.choice([1, 30])),
        ),
        settings=replace(
            scenario.settings, auto_offset_reset=random.choice(["latest", "earliest"])
        ),
        # Who leads, and from when on, stays as it is.
        costs=replace(scenario.costs, **random.choice([{}, _costs(0, 0, 0), _costs(5, 20, 400)])),
        faults=tuple(
            replace(one, member=f"{one.member}-1") if one.member in several else one
            for one in scenario.faults
        ),
        assignor=random.choice([scenario.assignor, "simple-4.1", "lag-proportional"]),
    )


def _costs(network: float, fetch: float, write: float) -> dict[str, Any]:
    return {"network_ms": network, "fetch_ms": fetch, "write_ms": write}


def _leader_change(random: Random) -> Fault:
    return Fault(random.randrange(DURATION_MS), "leader_change", topic=random.choice("ab"))


def _producer(random: Random, producer: Producer) -> Producer:
    if random.random() < 0.3:
        return replace(
            producer,
            transaction_batches=random.choice([1, 3]),
            transaction_ms=random.choice([10.0, 900.0]),
            abort_share=random.choice([0.0, 0.4]),
        )
    return producer


def _topic(random: Random, topic: Topic) -> Topic:
    """The same topic with state from before, holes, deleted records or partitions to come."""
    if random.random() < 0.5:
        topic = replace(topic, starts=tuple(_start(random, one) for one in topic.starts))
    if random.random() < 0.2:
        topic = replace(topic, retention_ms=random.choice([900, 4000]), segment_records=10)
    if random.random() < 0.2:
        topic = replace(topic, compact_ms=random.choice([700, 2500]))
    if topic.partitions > 1 and random.random() < 0.3:
        starts = (*topic.starts[:-1], PartitionStart())
        topic = replace(topic, starts=starts, added_ms=(random.randrange(DURATION_MS),))
    return topic


def _start(random: Random, start: PartitionStart) -> PartitionStart:
    end = start.end_offset
    log_start = random.choice([0, 0, min(7, end)])
    missing = tuple(sorted(random.sample(range(end), random.choice([0, 0, end // 4, end // 2]))))
    window = start.window
    if window is not None:
        window = _window(random, window, max(end + random.choice([0, 0, -20, 6]), 0))
    return replace(
        start,
        log_start_offset=log_start,
        window=window,
        missing=missing,
        batch_records=random.choice([1, 4, 10]),
        open_from=random.choice([None, None, random.randint(log_start, end)]),
    )


def _window(random: Random, window: Window, end: int) -> Window:
    """State batches as a leader finds them: some were with members, so there are holes."""
    batches, begin = [], window.start_offset + random.choice([0, 3])
    while begin < end and random.random() < 0.85:
        begin += random.choice([0, 0, 0, 2, 5])
        last = begin + random.randint(0, 12)
        state, count = random.choice([(0, 1), (0, 2), (0, 3), (2, 1), (4, 2)])
        batches.append(StateBatch(begin, last, state, count))
        begin = last + 1
    done = sum(one.last_offset - one.first_offset + 1 for one in batches if one.delivery_state)
    return replace(window, batches=tuple(batches), delivery_complete_count=done)


def _autoscaler(random: Random) -> Autoscaler:
    metrics: tuple[Metric, ...] = ("lag", "lag_excluding_stuck")
    metric = random.choice(metrics)
    hpa, pods = Hpa(sync_period_ms=1000), Pods(startup_ms=random.choice([0, 700]), grace_ms=900)
    drawn: tuple[Autoscaler, ...] = (
        Keda(20, polling_interval_ms=900, max_replica_count=5, metric=metric, hpa=hpa, pods=pods),
        TargetAge(2000, max_replica_count=5, metric=metric, hpa=hpa, pods=pods),
        Fixed(random.randint(0, 4), hpa=hpa, pods=pods),
    )
    return random.choice(drawn)
