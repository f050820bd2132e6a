"""Random scenarios in which anything may happen to a group."""

from random import Random
from typing import Any

from sharelag.whatif import (
    Behaviour,
    Burst,
    Costs,
    Fault,
    Limits,
    Member,
    PartitionStart,
    Poison,
    Producer,
    Scenario,
    Service,
    Settings,
    Topic,
)

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
