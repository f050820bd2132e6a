"""Scenarios that show one rule of Kafka each."""

from __future__ import annotations

from dataclasses import replace

from sharelag.model import StateBatch, Window
from sharelag.whatif.scenario import (
    BEGINS_MS,
    Behaviour,
    Fault,
    Member,
    PartitionStart,
    Poison,
    Producer,
    Scenario,
    Service,
    Settings,
    Topic,
)


def walk() -> Scenario:
    """Three members process offsets 100 to 120, with one release and two expired locks."""
    exact = Member(acquire_mode="record_limit", join_ms=1500, fetch_max_wait_ms=60_000)
    log = PartitionStart(110, 100, _window(100), batch_records=10)
    return Scenario(
        name="walk",
        about="Three members process offsets 100 to 120: one record is released, two locks expire, "
        "and all records are finished in the end.",
        topics=(Topic("T1", 1, starts=(log,)),),
        producers=(
            Producer("T1", 10, "steady", 10, begin_ms=3000, end_ms=4000),
            Producer("T1", 1, "steady", begin_ms=4000, end_ms=5000),
        ),
        members=(
            Member("c0", service=Service(1), leave_ms=1000),
            replace(
                exact,
                name="c1",
                service=Service(500),
                max_poll_records=3,
                behaviour=Behaviour(commit="error"),
            ),
            replace(exact, name="c2", service=Service(4500), max_poll_records=6, join_ms=1600),
            replace(exact, name="c3", service=Service(1600), max_poll_records=2, join_ms=1700),
        ),
        poison=(
            Poison("T1", 0, 110, "release", 1),
            Poison("T1", 0, 111, "silent", 1),
            Poison("T1", 0, 112, "silent", 1),
        ),
        settings=Settings(assignment_interval_ms=0),
        assignor="all-to-all",
        duration_ms=60_000,
        step_ms=500,
    )


def in_flight() -> Scenario:
    """A window with every state, and no members."""
    batches = (
        StateBatch(2, 2, 0, 0),
        StateBatch(3, 3, 0, 2),
        StateBatch(4, 4, 0, 0),
        StateBatch(5, 5, 2, 1),
        StateBatch(6, 6, 4, 1),
        StateBatch(7, 8, 0, 0),
    )
    return Scenario(
        name="in-flight",
        about="A window 2..8 in which 5 is acknowledged and 6 archived: five of its seven "
        "offsets are lag.",
        topics=(Topic("orders", 1, starts=(PartitionStart(9, 0, _window(2, 2, *batches)),)),),
        members=(),
        duration_ms=10_000,
    )


def crash_redelivery() -> Scenario:
    """A member acquires 100..109 and hangs; another one gets them when the locks have expired."""
    log = PartitionStart(120, 100, _window(100), batch_records=10)
    return Scenario(
        name="crash-redelivery",
        about="A member acquires 100..109 and hangs: another one processes 110..119, and then "
        "100..109, when the locks have expired.",
        topics=(Topic("orders", 1, starts=(log,)),),
        members=(
            Member("c1", max_poll_records=10, service=Service(100)),
            Member("c2", max_poll_records=10, service=Service(100), join_ms=1100),
        ),
        faults=(Fault(500, "hang", "c1"),),
        assignor="all-to-all",
        duration_ms=40_000,
        step_ms=500,
    )


def delivery_limit() -> Scenario:
    """One record fails at every member."""
    return Scenario(
        name="delivery-limit",
        about="Every member that gets the record releases it: after the fifth delivery it is "
        "archived.",
        topics=(Topic("orders", 1, backlog=1),),
        members=(Member(service=Service(10)),),
        poison=(Poison("orders", 0, 0),),
        duration_ms=10_000,
        step_ms=100,
    )


def one_session() -> Scenario:
    """A member that polls a few times and closes."""
    return Scenario(
        name="one-session",
        about="A member polls a few times and closes: its share session has the epochs 0, 1, "
        "2 ... and -1.",
        topics=(Topic("orders", 3, backlog=30, batch_records=10),),
        members=(Member(service=Service(10), max_poll_records=10, leave_ms=2000),),
        duration_ms=3000,
        step_ms=100,
    )


def new_group() -> Scenario:
    """A group that is new to a topic with records, as most are."""
    return Scenario(
        name="new-group",
        about="A new group starts at the end of the log: "
        "earlier records are not delivered and do not count as lag.",
        topics=(Topic("orders", 1, starts=(PartitionStart(100),)),),
        members=(Member(),),
        producers=(Producer("orders", 1, "steady"),),
        initialized=False,
        duration_ms=20_000,
    )


def slow_producer() -> Scenario:
    """A record every two seconds."""
    return Scenario(
        name="slow-producer",
        about="A producer sends one record every two seconds.",
        topics=(Topic("orders", 1),),
        members=(Member(),),
        producers=(Producer("orders", 0.5, "steady"),),
        duration_ms=20_000,
        step_ms=100,
    )


def stop_at_error() -> Scenario:
    """The member commits at the first error, and goes on with the rest of the batch."""
    return Scenario(
        name="stop-at-error",
        about="The fifth of ten records is rejected: "
        "the first five are committed at once, and the others stay acquired.",
        topics=(Topic("orders", 1, backlog=10, batch_records=10),),
        members=(Member(service=Service(100), behaviour=Behaviour(commit="error")),),
        poison=(Poison("orders", 0, 4, "reject"),),
        duration_ms=5000,
        step_ms=50,
    )


def gaps() -> Scenario:
    """Compaction took two of ten records."""
    log = PartitionStart(10, 0, _window(0), 10, missing=(3, 4))
    return Scenario(
        name="gaps",
        about="Two of ten offsets have no record: they count as lag until a member has fetched "
        "past them.",
        topics=(Topic("orders", 1, starts=(log,)),),
        members=(Member(service=Service(100)),),
        duration_ms=5000,
        step_ms=50,
    )


def everybody_everywhere() -> Scenario:
    """The assignor of the first version of KIP-932."""
    return Scenario(
        name="everybody-everywhere",
        about="Each member gets all partitions of its topics, as in the first version of KIP-932.",
        topics=(Topic("T1", 2, backlog=500), Topic("T2", 4, backlog=500)),
        members=(
            Member("m1", topics=("T1",), max_poll_records=10),
            Member("m2", topics=("T1", "T2"), max_poll_records=10),
            Member("m3", topics=("T2",), max_poll_records=10),
        ),
        settings=Settings(assignment_interval_ms=0),
        assignor="all-to-all",
        duration_ms=20_000,
    )


def _window(start: int, count: int = 0, *batches: StateBatch) -> Window:
    return Window(0, 0, 0, start, count, BEGINS_MS, BEGINS_MS, batches)
