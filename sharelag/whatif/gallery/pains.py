"""Scenarios that show what goes wrong in practice."""

from __future__ import annotations

from sharelag.whatif.scenario import (
    Behaviour,
    Burst,
    Fault,
    Limits,
    Member,
    Poison,
    Producer,
    Scenario,
    Service,
    Settings,
    Topic,
)


def window_full() -> Scenario:
    """One record is never acknowledged, and holds all beyond the window."""
    return Scenario(
        name="window-full",
        about="One record is stuck with a slow member: "
        "the window behind it fills up, and new records wait.",
        topics=(Topic("orders", 1, backlog=5000, batch_records=10),),
        members=(Member(count=3, service=Service(1), max_poll_records=50),),
        poison=(Poison("orders", 0, 5, "silent", 3),),
        settings=Settings(Limits(max_record_locks=500)),
        duration_ms=180_000,
    )


def crash_loop() -> Scenario:
    """A record crashes every member that gets it, and takes its batch along."""
    return Scenario(
        name="crash-loop",
        about="One record crashes its member: "
        "each crash uses up one delivery of every record in the batch.",
        topics=(Topic("orders", 2, backlog=2000, batch_records=50),),
        members=(Member(count=2, service=Service(2), behaviour=Behaviour(restart_ms=1000)),),
        poison=(Poison("orders", 0, 120, "crash"),),
        duration_ms=300_000,
    )


def slow_work() -> Scenario:
    """Work takes longer than the locks last."""
    return Scenario(
        name="slow-work",
        about="500 records at 100 ms each take longer than their locks: "
        "the acknowledgements are rejected, and the work is done again.",
        topics=(Topic("orders", 2, backlog=2000, batch_records=100),),
        members=(Member(count=4, service=Service(100, "lognormal", 0.5)),),
        duration_ms=600_000,
    )


def uneven() -> Scenario:
    """Counts are even, lag is not."""
    return Scenario(
        name="uneven",
        about="One of eight partitions gets half of the records: "
        "an assignor that balances the number of partitions does not notice.",
        topics=(Topic("orders", 8),),
        members=(Member(count=8, service=Service(8, "exponential"), max_poll_records=50),),
        producers=(Producer("orders", 400, batch_records=5, weights=(7, 1, 1, 1, 1, 1, 1, 1)),),
        settings=Settings(rebalance_interval_ms=10_000),
        duration_ms=300_000,
    )


def burst() -> Scenario:
    """Ten times the records for a minute."""
    return Scenario(
        name="burst",
        about="For one minute, ten times as many records arrive as before: "
        "how long does the group need to catch up?",
        topics=(Topic("orders", 4),),
        members=(Member(count=8, service=Service(10, "exponential"), max_poll_records=50),),
        producers=(
            Producer("orders", 200, batch_records=20, bursts=(Burst(60_000, 120_000, 10),)),
        ),
        duration_ms=600_000,
    )


def idle_members() -> Scenario:
    """More members than work."""
    return Scenario(
        name="idle-members",
        about="12 members share 4 partitions: in a share group all of them have work.",
        topics=(Topic("orders", 4, backlog=6000, batch_records=10),),
        members=(Member(count=12, service=Service(5), max_poll_records=50),),
        duration_ms=120_000,
    )


def retention_loss() -> Scenario:
    """Records are deleted before they were delivered, and the lag looks better for it."""
    return Scenario(
        name="retention-loss",
        about="Members are too slow for the retention: "
        "deleted records reduce the lag as finished ones do.",
        topics=(Topic("orders", 2, retention_ms=60_000, segment_records=500),),
        members=(Member(count=2, service=Service(20), max_poll_records=50),),
        producers=(Producer("orders", 200, batch_records=10),),
        duration_ms=300_000,
    )


def leader_change() -> Scenario:
    """Another broker leads, and knows only what was written."""
    return Scenario(
        name="leader-change",
        about="The leader changes while records are acquired: "
        "delivery counts that were not yet written are lost, and start at one again.",
        topics=(Topic("orders", 1, backlog=1000, batch_records=10),),
        members=(Member(count=2, service=Service(10), max_poll_records=50),),
        faults=(Fault(2200, "leader_change", topic="orders"),),
        brokers=2,
        duration_ms=60_000,
    )
