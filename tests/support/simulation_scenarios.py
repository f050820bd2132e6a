"""Random scenarios in which anything may happen to a group."""

from dataclasses import replace
from random import Random
from typing import Any

from sharelag.model import StateBatch, Window
from sharelag.whatif import (
    Behaviour,
    Burst,
    Costs,
    Fault,
    Fixed,
    Hpa,
    Keda,
    Limits,
    Member,
    PartitionStart,
    Pods,
    Poison,
    Producer,
    Scenario,
    Service,
    Settings,
    TargetAge,
    Topic,
)
from sharelag.whatif.autoscale import Autoscaler, Metric

DURATION_MS = 15_000
_TOPICS = ("a", "b")
_TROUBLE = Behaviour(0.9, 0.05, 0.03, 0.02, crash=0.01, hang=0.01, hang_ms=4000, restart_ms=3000)
_WORK = Service(8, "lognormal", slow_share=0.01, slow_factor=50)
_RENEWS = Behaviour(renew_ms=1500, commit="error")
_QUICK = Service(3, "exponential")
#: Everything that a scenario can say, at once; also for other processes and machines.
EVERYTHING = Scenario(
    topics=(
        Topic("a", 3, backlog=(300, 20, 0), batch_records=7),
        Topic("b", 2, compact_ms=9000, retention_ms=40_000, segment_records=10),
    ),
    members=(
        Member("m", 3, service=_WORK, max_poll_records=40, behaviour=_TROUBLE),
        Member("slow", service=Service(400), max_poll_records=20, behaviour=_RENEWS),
        Member("late", topics=("b",), service=_QUICK, join_ms=9000, leave_ms=40_000, rack="r"),
    ),
    producers=(
        Producer("a", 20, keys=50, key_skew=1.1, transaction_batches=2, abort_share=0.2),
        Producer("b", 10, batch_records=4, keys=6, bursts=(Burst(10_000, 20_000, 5),)),
    ),
    settings=Settings(Limits(lock_duration_ms=5000), isolation_level="read_committed"),
    costs=Costs(failover_ms=2000),
    poison=(Poison("a", 0, 33), Poison("a", 1, 4, "crash", 1)),
    faults=(
        Fault(6000, "hang", "m-1", 35_000),
        Fault(12_000, "leader_change", topic="a"),
        Fault(15_000, "subscribe", "m-2", topics=("a",)),
        Fault(20_000, "broker_down", broker=1, for_ms=10_000),
        Fault(30_000, "mute", "m-0", 50_000),
        Fault(33_000, "subscribe", "slow"),
        Fault(45_000, "subscribe", "slow", topics=("a", "b")),
    ),
    brokers=2,
    duration_ms=90_000,
)


def random_scenario(random: Random, plain: bool) -> Scenario:
    """Two topics, some members and some accidents; ``plain``: nothing deleted or aborted."""
    members = tuple(_member(random, number) for number in range(random.randint(1, 4)))
    faults = [_accident(random, members) for _ in range(random.randint(0, 4))]
    if not plain:
        faults += [
            Fault(
                random.randrange(DURATION_MS),
                "delete_records",
                topic="a",
                offset=random.randint(0, 90),
            )
            for _ in range(random.randint(0, 2))
        ]
    brokers = random.randint(1, 3)
    if brokers > 1 and random.random() < 0.4:
        at = random.randrange(DURATION_MS)
        faults.append(
            Fault(
                at,
                "broker_down",
                broker=random.randrange(brokers),
                for_ms=random.choice([None, 3000]),
            )
        )
    heartbeat, timeout = random.choice([(200, 1000), (5000, 45_000)])
    batch = random.choice([1, 4, 10])
    compacted = None if plain else random.choice([None, 2500])
    return Scenario(
        (
            Topic("a", random.randint(1, 3), backlog=60, batch_records=batch, compact_ms=compacted),
            # The group is new to this one.
            Topic("b", 1, starts=(PartitionStart(random.choice([0, 15]), batch_records=5),)),
        ),
        members,
        (
            Producer(
                "a",
                random.choice([0, 30]),
                batch_records=batch,
                keys=random.choice([0, 9]),
                transaction_batches=0 if plain else random.choice([0, 2]),
                abort_share=0.3,
            ),
            Producer("b", 20, "steady", batch_records=random.choice([1, 5])),
        ),
        Settings(
            Limits(random.choice([20, 60, 2000]), random.randint(1, 5), random.choice([300, 2000])),
            heartbeat_interval_ms=heartbeat,
            session_timeout_ms=timeout,
            assignment_interval_ms=random.choice([0, 1000]),
            isolation_level=random.choice(["read_uncommitted", "read_committed"])
            if not plain
            else "read_uncommitted",
            auto_offset_reset="earliest",
        ),
        Costs(failover_ms=1000, write_ms=random.choice([0.0, 3.0, 40.0])),
        assignor=random.choice(["simple", "all-to-all"]),
        poison=tuple(_poison(random) for _ in range(random.randint(0, 2))),
        faults=tuple(faults),
        brokers=brokers,
        duration_ms=DURATION_MS,
        step_ms=500,
        initialized=random.random() < 0.8,
    )


def _member(random: Random, number: int) -> Member:
    shares = random.choice([(1.0, 0.0, 0.0, 0.0), (0.7, 0.2, 0.05, 0.05), (0.3, 0.6, 0.05, 0.05)])
    return Member(
        f"m{number}",
        topics=random.choice([(), (), _TOPICS[:1], _TOPICS[1:]]),
        service=Service(random.choice([0, 4, 40]), "exponential"),
        behaviour=Behaviour(
            *shares,
            crash=random.choice([0.0, 0.05]),
            hang=random.choice([0.0, 0.05]),
            hang_ms=1500,
            restart_ms=random.choice([None, 500]),
            commit=random.choice(["poll", "error", "record"]),
            renew_ms=random.choice([None, None, 150]),
        ),
        max_poll_records=random.choice([1, 7, 500]),
        acquire_mode=random.choice(["batch_optimized", "record_limit"]),
        join_ms=random.choice([0, 0, 3000]),
        leave_ms=random.choice([None, None, 9000]),
    )


def _accident(random: Random, members: tuple[Member, ...]) -> Fault:
    at, member = random.randrange(DURATION_MS), random.choice(members).name
    topics = random.choice([(), _TOPICS, _TOPICS[:1], _TOPICS[1:]])
    return random.choice(
        [
            Fault(at, "crash", member),
            Fault(at, "hang", member, random.choice([None, 2000])),
            Fault(at, "mute", member, random.choice([None, 2000])),
            Fault(at, "subscribe", member, topics=topics),
            Fault(at, "leader_change", topic="a"),
        ]
    )


def _poison(random: Random) -> Poison:
    how: Any = random.choice(["release", "reject", "silent", "crash"])
    return Poison("a", 0, random.randrange(90), how, random.choice([1, 3, 9]))


# ---- what must be the same in both forms of the loop ---------------------------------------------
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
