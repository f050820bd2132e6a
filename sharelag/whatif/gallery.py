"""Named scenarios: small ones that each show one rule of Kafka, and problems from practice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sharelag.errors import InputError
from sharelag.model import StateBatch, Window
from sharelag.whatif.consumers import Behaviour, Limits, Member, Service, Settings
from sharelag.whatif.scenario import (
    BEGINS_MS,
    Burst,
    Fault,
    PartitionStart,
    Poison,
    Producer,
    Scenario,
    Topic,
)


def _state(start: int, count: int = 0, *batches: StateBatch) -> Window:
    return Window(0, 0, 0, start, count, BEGINS_MS, BEGINS_MS, batches)


_EXACT = Member(acquire_mode="record_limit", join_ms=1500, fetch_max_wait_ms=60_000)
_STOPS = replace(_EXACT, behaviour=Behaviour(commit="error"))
_IN_FLIGHT = (
    *(StateBatch(2, 2, 0, 0), StateBatch(3, 3, 0, 2), StateBatch(4, 4, 0, 0)),
    *(StateBatch(5, 5, 2, 1), StateBatch(6, 6, 4, 1), StateBatch(7, 8, 0, 0)),
)
#: Small ones that each show one rule of Kafka, then problems from practice.
_SCENARIOS = (
    Scenario(
        name="walk", settings=Settings(assignment_interval_ms=0), assignor="all-to-all",
        about="Three members process offsets 100 to 120: one record is released, two locks expire, "
        "and all records are finished in the end.",
        topics=(Topic("T1", 1, starts=(PartitionStart(110, 100, _state(100), batch_records=10),)),),
        producers=(
            Producer("T1", 10, "steady", 10, begin_ms=3000, end_ms=4000),
            Producer("T1", 1, "steady", begin_ms=4000, end_ms=5000),
        ),
        members=(
            Member("c0", service=Service(1), leave_ms=1000),
            replace(_STOPS, name="c1", service=Service(500), max_poll_records=3),
            replace(_EXACT, name="c2", service=Service(4500), max_poll_records=6, join_ms=1600),
            replace(_EXACT, name="c3", service=Service(1600), max_poll_records=2, join_ms=1700),
        ),
        poison=(
            Poison("T1", 0, 110, "release", 1), Poison("T1", 0, 111, "silent", 1),
            Poison("T1", 0, 112, "silent", 1),
        ),
        duration_ms=60_000, step_ms=500,
    ),
    Scenario(
        name="in-flight", duration_ms=10_000, members=(),
        about="A window 2..8 in which 5 is acknowledged and 6 archived: five of its seven "
        "offsets are lag.",
        topics=(Topic("orders", 1, starts=(PartitionStart(9, 0, _state(2, 2, *_IN_FLIGHT)),)),),
    ),
    Scenario(
        name="crash-redelivery", assignor="all-to-all", duration_ms=40_000, step_ms=500,
        about="A member acquires 100..109 and hangs: another one processes 110..119, and then "
        "100..109, when the locks have expired.",
        topics=(
            Topic("orders", 1, starts=(PartitionStart(120, 100, _state(100), batch_records=10),)),
        ),
        members=(
            Member("c1", max_poll_records=10, service=Service(100)),
            Member("c2", max_poll_records=10, service=Service(100), join_ms=1100),
        ),
        faults=(Fault(500, "hang", "c1"),),
    ),
    Scenario(
        name="delivery-limit", duration_ms=10_000, step_ms=100,
        about="Every member that gets the record releases it: after the fifth delivery it is "
        "archived.",
        topics=(Topic("orders", 1, backlog=1),), members=(Member(service=Service(10)),),
        poison=(Poison("orders", 0, 0),),
    ),
    Scenario(
        name="one-session", duration_ms=3000, step_ms=100,
        about="A member polls a few times and closes: its share session has the epochs 0, 1, "
        "2 ... and -1.",
        topics=(Topic("orders", 3, backlog=30, batch_records=10),),
        members=(Member(service=Service(10), max_poll_records=10, leave_ms=2000),),
    ),
    Scenario(
        name="new-group", duration_ms=20_000, initialized=False,
        about="A new group starts at the end of the log: "
        "earlier records are not delivered and do not count as lag.",
        topics=(Topic("orders", 1, starts=(PartitionStart(100),)),), members=(Member(),),
        producers=(Producer("orders", 1, "steady"),),
    ),
    Scenario(
        name="slow-producer", duration_ms=20_000, step_ms=100,
        about="A producer sends one record every two seconds.",
        topics=(Topic("orders", 1),), members=(Member(),),
        producers=(Producer("orders", 0.5, "steady"),),
    ),
    Scenario(
        name="stop-at-error", duration_ms=5000, step_ms=50,
        about="The fifth of ten records is rejected: "
        "the first five are committed at once, and the others stay acquired.",
        topics=(Topic("orders", 1, backlog=10, batch_records=10),),
        members=(Member(service=Service(100), behaviour=Behaviour(commit="error")),),
        poison=(Poison("orders", 0, 4, "reject"),),
    ),
    Scenario(
        name="gaps", duration_ms=5000, step_ms=50,
        about="Two of ten offsets have no record: they count as lag until a member has fetched "
        "past them.",
        topics=(
            Topic("orders", 1, starts=(PartitionStart(10, 0, _state(0), 10, missing=(3, 4)),)),
        ),
        members=(Member(service=Service(100)),),
    ),
    Scenario(
        name="everybody-everywhere", assignor="all-to-all", duration_ms=20_000,
        about="Each member gets all partitions of its topics, as in the first version of KIP-932.",
        topics=(Topic("T1", 2, backlog=500), Topic("T2", 4, backlog=500)),
        members=(
            Member("m1", topics=("T1",), max_poll_records=10),
            Member("m2", topics=("T1", "T2"), max_poll_records=10),
            Member("m3", topics=("T2",), max_poll_records=10),
        ),
        settings=Settings(assignment_interval_ms=0),
    ),
    Scenario(
        name="window-full", duration_ms=180_000, settings=Settings(Limits(max_record_locks=500)),
        about="One record is stuck with a slow member: "
        "the window behind it fills up, and new records wait.",
        topics=(Topic("orders", 1, backlog=5000, batch_records=10),),
        members=(Member(count=3, service=Service(1), max_poll_records=50),),
        poison=(Poison("orders", 0, 5, "silent", 3),),
    ),
    Scenario(
        name="crash-loop", duration_ms=300_000,
        about="One record crashes its member: "
        "each crash uses up one delivery of every record in the batch.",
        topics=(Topic("orders", 2, backlog=2000, batch_records=50),),
        members=(Member(count=2, service=Service(2), behaviour=Behaviour(restart_ms=1000)),),
        poison=(Poison("orders", 0, 120, "crash"),),
    ),
    Scenario(
        name="slow-work",
        about="500 records at 100 ms each take longer than their locks: "
        "the acknowledgements are rejected, and the work is done again.",
        topics=(Topic("orders", 2, backlog=2000, batch_records=100),),
        members=(Member(count=4, service=Service(100, "lognormal", 0.5)),),
    ),
    Scenario(
        name="uneven", duration_ms=300_000, settings=Settings(rebalance_interval_ms=10_000),
        about="One of eight partitions gets half of the records: "
        "an assignor that balances the number of partitions does not notice.",
        topics=(Topic("orders", 8),),
        members=(Member(count=8, service=Service(8, "exponential"), max_poll_records=50),),
        producers=(Producer("orders", 400, batch_records=5, weights=(7, 1, 1, 1, 1, 1, 1, 1)),),
    ),
    Scenario(
        name="burst",
        about="For one minute, ten times as many records arrive as before: "
        "how long does the group need to catch up?",
        topics=(Topic("orders", 4),),
        members=(Member(count=8, service=Service(10, "exponential"), max_poll_records=50),),
        producers=(
            Producer("orders", 200, batch_records=20, bursts=(Burst(60_000, 120_000, 10),)),
        ),
    ),
    Scenario(
        name="idle-members", duration_ms=120_000,
        about="12 members share 4 partitions: in a share group all of them have work.",
        topics=(Topic("orders", 4, backlog=6000, batch_records=10),),
        members=(Member(count=12, service=Service(5), max_poll_records=50),),
    ),
    Scenario(
        name="retention-loss", duration_ms=300_000,
        about="Members are too slow for the retention: "
        "deleted records reduce the lag as finished ones do.",
        topics=(Topic("orders", 2, retention_ms=60_000, segment_records=500),),
        members=(Member(count=2, service=Service(20), max_poll_records=50),),
        producers=(Producer("orders", 200, batch_records=10),),
    ),
    Scenario(
        name="leader-change", duration_ms=60_000, brokers=2,
        about="The leader changes while records are acquired: "
        "delivery counts that were not yet written are lost, and start at one again.",
        topics=(Topic("orders", 1, backlog=1000, batch_records=10),),
        members=(Member(count=2, service=Service(10), max_poll_records=50),),
        faults=(Fault(2200, "leader_change", topic="orders"),),
    ),
)  # fmt: skip
_BY_NAME = {scenario.name: scenario for scenario in _SCENARIOS}


def names() -> Mapping[str, str]:
    """Return the names of the scenarios, and their descriptions."""
    return {name: scenario.about for name, scenario in _BY_NAME.items()}


def named(name: str) -> Scenario:
    """Return a scenario by its name.

    Raises
    ------
    InputError
        There is no scenario of that name.
    """
    if name not in _BY_NAME:
        raise InputError(f"unknown scenario {name!r}: choose one of {', '.join(_BY_NAME)}")
    return _BY_NAME[name]
