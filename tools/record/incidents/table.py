"""The incidents: scenarios of a minute on three brokers, each with a change that might have helped.

A scenario of the simulator is played; `sharelag.whatif.past` only knows what the capture of the
cluster contains.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from sharelag.whatif.knobs import Value, turn
from sharelag.whatif.scenario import (
    Behaviour,
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

TOPIC = "work"
#: Number of brokers, and of replicas of each partition.
BROKERS = 3
#: When records start to arrive: by then members have joined and wait.
START_MS = 1500
#: Interval of noted lags.
STEP_MS = 100
_SETTINGS = Settings(
    Limits(lock_duration_ms=8000),
    heartbeat_interval_ms=500,
    session_timeout_ms=6000,
    assignment_interval_ms=0,
    auto_offset_reset="earliest",
)


class Opened(NamedTuple):
    """A transaction that stays open."""

    at_ms: int
    partition: int
    records: int


@dataclass(frozen=True)
class Incident:
    """An incident to play.

    Attributes
    ----------
    scenario
        It lasts ``duration_ms``, in which not everything has to be finished.
    change
        By the names of `sharelag.whatif.knobs`.
    is_later
        Played after the reconstruction was finished; the others were used to develop it.
    opened
        A transaction, which the producers of a scenario cannot leave open.
    """

    scenario: Scenario
    change: Mapping[str, Value]
    opened: Opened | None = None
    is_later: bool = False

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return self.scenario.name

    @property
    def changed(self) -> Scenario:
        """The scenario with the change."""
        return turn(self.scenario, self.change)

    @property
    def change_text(self) -> str:
        """The change in words."""
        return ", ".join(f"{name}={value}" for name, value in self.change.items())


def incidents() -> dict[str, Incident]:
    """Return all incidents by name."""
    return {one.name: one for one in _INCIDENTS}


def _incident(
    name: str,
    about: str,
    weights: tuple[float, ...],
    member: Member,
    rates: tuple[tuple[float, float, float], ...],
    change: Mapping[str, Value],
    opened: Opened | None = None,
    is_later: bool = False,
    **more: Any,
) -> Incident:
    """Return an incident; ``rates`` are records per second, from and until a second."""
    producers = tuple(
        Producer(
            TOPIC,
            rate,
            batch_records=5,
            weights=weights,
            begin_ms=START_MS + round(begin * 1000),
            end_ms=START_MS + round(end * 1000),
        )
        for rate, begin, end in rates
    )
    given: dict[str, Any] = {
        "settings": _SETTINGS,
        "duration_ms": 45_000,
        "initialized": False,
        "brokers": BROKERS,
    }
    made = Scenario(
        (Topic(TOPIC, len(weights)),),
        (member,),
        producers,
        name=name,
        about=about,
        **(given | more),
    )
    return Incident(made, change, opened, is_later)


def _with(isolation_level: Any = "read_uncommitted", session_ms: int = 6000, **limits: Any) -> Any:
    return replace(
        _SETTINGS,
        limits=replace(_SETTINGS.limits, **limits),
        isolation_level=isolation_level,
        session_timeout_ms=session_ms,
    )


def _members(count: int, ms: float, poll: int = 50, **more: Any) -> Member:
    return Member(count=count, service=Service(ms, "exponential"), max_poll_records=poll, **more)


_EVEN = (1.0,) * 4
_INCIDENTS = (
    _incident(
        "too-few-members",
        "more arrives than two members can do",
        _EVEN,
        _members(2, 20),
        ((140, 0, 38),),
        {"members": 3},
    ),
    _incident(
        "burst",
        "three members keep up until five times as much arrives for eight seconds",
        (1.0,) * 3,
        _members(3, 15),
        ((100, 0, 10), (500, 4, 12)),
        {"members": 6},
    ),
    _incident(
        "poison",
        "each attempt at one of six records takes 2 s, and is given back",
        (1.0, 1.0),
        _members(2, 12),
        ((100, 0, 25),),
        {"share.delivery.count.limit": 2},
        poison=tuple(Poison(TOPIC, n % 2, 100 + 150 * n, work_ms=2000) for n in range(6)),
    ),
    _incident(
        "short-locks",
        "half of the polls take longer than the locks last",
        (1.0,),
        _members(2, 25, 60),
        ((120, 0, 12),),
        {"share.record.lock.duration.ms": 8000},
        settings=_with(lock_duration_ms=1500),
    ),
    _incident(
        "storm",
        "a service behind the group refuses two of five records, which are given back",
        (1.0,) * 3,
        _members(3, 15, behaviour=Behaviour(0.6, 0.4)),
        ((150, 0, 28),),
        {"members": 5},
        settings=_with(delivery_count_limit=10),
    ),
    _incident(
        "hot-partition",
        "two of three records go to one of six partitions, which one of three members has",
        (10.0, 1.0, 1.0, 1.0, 1.0, 1.0),
        _members(3, 15),
        ((130, 0, 35),),
        {"members": 6},
    ),
    _incident(
        "killed-member",
        "the process of one of three members ends",
        (1.0,) * 3,
        _members(3, 18),
        ((130, 0, 35),),
        {"members": 4},
        faults=(Fault(START_MS + 8000, "crash", "member-1"),),
    ),
    _incident(
        "hung-member",
        "a member stops with records in its hands, the window of 200 behind them fills up",
        (1.0,),
        _members(3, 20, 20),
        ((110, 0, 30),),
        {"share.partition.max.record.locks": 2000},
        settings=_with(max_record_locks=200, session_ms=30_000),
        faults=(Fault(START_MS + 8000, "hang", "member-1"),),
    ),
    _incident(
        "held-record",
        "the member that gets one record holds it 15 s, past its lock; the window of 100 fills up",
        (1.0,),
        _members(3, 20, 20),
        ((100, 0, 30),),
        {"share.partition.max.record.locks": 400},
        settings=_with(max_record_locks=100),
        poison=(Poison(TOPIC, 0, 500, "hold", 1, hold_ms=15_000),),
    ),
    _incident(
        "broker-down",
        "one of three brokers ends; others lead its partitions nine seconds later",
        (1.0,) * 6,
        _members(3, 20),
        ((130, 0, 35),),
        {"members": 5},
        faults=(Fault(START_MS + 10_000, "broker_down", broker=2),),
    ),
    _incident(
        "open-transaction",
        "a transaction stays open in one of two partitions of a group that reads committed records",
        (1.0, 1.0),
        _members(2, 15),
        ((100, 0, 35),),
        {"share.isolation.level": "read_uncommitted"},
        Opened(START_MS + 8000, 0, 5),
        settings=_with("read_committed"),
    ),
    _incident(
        "large-polls",
        "one of four members takes all that a window of 200 has, and the others wait",
        (1.0,),
        _members(4, 20, 200),
        ((180, 0, 35),),
        {"share.partition.max.record.locks": 1000},
        settings=_with(max_record_locks=200),
    ),
    _incident(
        "slow-partition",
        "a record of one of four partitions takes three times as long",
        _EVEN,
        Member(
            count=4,
            service=Service(18, "exponential", by_partition=(((TOPIC, 0), 3.0),)),
            max_poll_records=30,
        ),
        ((150, 0, 25),),
        {"members": 8},
    ),
    _incident(
        "two-killed",
        "two of four members end, one after the other",
        (1.0,) * 6,
        _members(4, 22, 40),
        ((140, 0, 26),),
        {"members": 5},
        is_later=True,
        faults=(
            Fault(START_MS + 6000, "crash", "member-0"),
            Fault(START_MS + 11_000, "crash", "member-3"),
        ),
    ),
    _incident(
        "refused-burst",
        "of a burst one record in ten is given back, and one in twenty refused",
        (3.0, 2.0, 1.0),
        _members(3, 14, 30, behaviour=Behaviour(0.85, 0.1, 0.05)),
        ((80, 0, 12), (420, 3, 9)),
        {"members": 6},
        is_later=True,
    ),
    _incident(
        "shared-poison",
        "three members share a partition with five records of which each attempt takes 3 s",
        (1.0,),
        _members(3, 16, 40),
        ((120, 0, 20),),
        {"share.delivery.count.limit": 2},
        poison=tuple(Poison(TOPIC, 0, 150 + 310 * n, work_ms=3000) for n in range(5)),
    ),
    _incident(
        "greedy-polls",
        "polls of a whole window leave nothing to the other members of two partitions",
        (2.0, 1.0),
        _members(4, 18, 100),
        ((150, 0, 24),),
        {"max.poll.records": 20},
        settings=_with(max_record_locks=100),
    ),
    _incident(
        "late-polls",
        "polls take about as long as locks last in one of two partitions with three members",
        (1.0, 1.0),
        _members(3, 30, 70),
        ((110, 0, 14),),
        {"max.poll.records": 20},
        is_later=True,
        settings=_with(lock_duration_ms=2000),
    ),
    _incident(
        "slow-pair",
        "records of two of six partitions take two and a half times as long; three members",
        (1.0,) * 6,
        Member(
            count=3,
            service=Service(14, "exponential", by_partition=(((TOPIC, 1), 2.5), ((TOPIC, 2), 2.5))),
            max_poll_records=30,
        ),
        ((160, 0, 24),),
        {"members": 6},
        is_later=True,
    ),
    _incident(
        "two-bursts",
        "two bursts hit one partition, that of a member with two",
        (1.0,) * 4,
        _members(3, 16, 40),
        ((110, 0, 24), (90, 3, 8), (120, 14, 19)),
        {"members": 5},
        is_later=True,
    ),
    _incident(
        "burst-of-poison",
        "three members share two partitions; each attempt at one of four records takes 1.5 s",
        (1.0, 1.0),
        _members(3, 15, 40),
        ((90, 0, 22), (260, 5, 9)),
        {"share.delivery.count.limit": 2},
        is_later=True,
        poison=tuple(Poison(TOPIC, n % 2, 120 + 170 * n, work_ms=1500) for n in range(4)),
    ),
    _incident(
        "small-window",
        "four members share a partition whose window holds what two of them poll",
        (1.0,),
        _members(4, 22, 60),
        ((140, 0, 20),),
        {"share.partition.max.record.locks": 600},
        is_later=True,
        settings=_with(max_record_locks=120),
    ),
    _incident(
        "killed-shared",
        "one of four members that share two partitions ends, and lag was there before",
        (1.0, 1.0),
        _members(4, 26, 50),
        ((150, 0, 22),),
        {"members": 6},
        is_later=True,
        faults=(Fault(START_MS + 9000, "crash", "member-2"),),
    ),
)
