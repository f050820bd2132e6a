"""The experiments for broker and simulator: scenarios of a few seconds, each with one effect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sharelag.whatif.scenario import (
    Behaviour,
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

TOPIC = "work"
#: When records start to arrive, in ms: by then all members have joined and wait.
START_MS = 1500
_OVER_MS = 300
#: Short heartbeats, and sessions that expire within an experiment; the group is new, and starts at
#: the beginning of the log.
SETTINGS = Settings(
    Limits(lock_duration_ms=15_000),
    heartbeat_interval_ms=250,
    session_timeout_ms=6000,
    assignment_interval_ms=0,
    auto_offset_reset="earliest",
)


@dataclass(frozen=True)
class Experiment:
    """A scenario for broker and simulator.

    Attributes
    ----------
    scenario
    misses
        Known errors of the simulator beyond its bounds: the measure, the maximum, and the reason.
    calibration
        The field of `sharelag.whatif.scenario.Costs` that was fitted to this experiment, so that a
        small error there says little. Empty: none, so the experiment is a test.
    """

    scenario: Scenario
    misses: tuple[tuple[str, float, str], ...] = ()
    calibration: str = ""

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return self.scenario.name


def experiments() -> dict[str, Experiment]:
    """Return all experiments by name."""
    return {one.name: one for one in (*_SHAPES, *_OUTCOMES, *_ACCIDENTS, *_COSTS, *_ON_THREE)}


def _scenario(
    name: str,
    about: str,
    backlog: Sequence[int],
    members: tuple[Member, ...],
    batch_records: int = 10,
    producers: tuple[Producer, ...] = (),
    **more: Any,
) -> Scenario:
    """Return a scenario with members that wait for a backlog, which then arrives all at once."""
    topic = Topic(TOPIC, len(backlog), starts=(PartitionStart(),) * len(backlog))
    given: dict[str, Any] = {
        "settings": SETTINGS,
        "duration_ms": 40_000,
        "step_ms": 1000,
        "initialized": False,
    }
    arriving = [
        _backlog(count, at, len(backlog), batch_records)
        for at, count in enumerate(backlog)
        if count
    ]
    return Scenario(
        (topic,), members, (*arriving, *producers), name=name, about=about, **(given | more)
    )


def _backlog(count: int, partition: int, partitions: int, batch_records: int) -> Producer:
    batches = count // batch_records
    over = max(_OVER_MS, batches)
    return Producer(
        TOPIC,
        (batches + 0.5)
        * batch_records
        * 1000
        / over,  # half a record batch more, so that none is missing
        "steady",
        batch_records,
        tuple(float(at == partition) for at in range(partitions)),
        begin_ms=START_MS,
        end_ms=START_MS + over,
    )


def _with(**limits: Any) -> Settings:
    return replace(SETTINGS, limits=replace(SETTINGS.limits, **limits))


_SHAPES = (
    Experiment(
        _scenario(
            "one-on-one",
            "one partition, one member",
            [1000],
            (Member(service=Service(5, "exponential"), max_poll_records=100),),
        )
    ),
    Experiment(
        _scenario(
            "three-share-one",
            "three members share one partition of single records",
            [2400],
            (Member(count=3, service=Service(5, "exponential"), max_poll_records=50),),
            batch_records=1,
        )
    ),
    Experiment(
        _scenario(
            "three-on-four",
            "four partitions, three members that acknowledge implicitly: one of them has two",
            [400] * 4,
            (
                Member(
                    count=3,
                    service=Service(6),
                    behaviour=Behaviour(acknowledgement="implicit"),
                    max_poll_records=60,
                ),
            ),
        )
    ),
    Experiment(
        _scenario(
            "eight-on-twelve",
            "twelve partitions, eight members: four of them have two",
            [240] * 12,
            (Member(count=8, service=Service(10, "exponential"), max_poll_records=40),),
        )
    ),
    Experiment(
        _scenario(
            "skewed",
            "twelve partitions, three members; half of the backlog is in one partition",
            [1100] + [100] * 11,
            (Member(count=3, service=Service(4, "exponential"), max_poll_records=50),),
        )
    ),
    Experiment(
        _scenario(
            "large-batches",
            "record batches of 500 go to one member as a whole, whatever it asks for",
            [4500],
            (Member(count=3, service=Service(3, "exponential"), max_poll_records=100),),
            batch_records=500,
            settings=_with(max_record_locks=4000),
        )
    ),
    Experiment(
        _scenario(
            "record-limit",
            "the same with share.acquire.mode=record_limit: never more than a poll wants",
            [4500],
            (
                Member(
                    count=3,
                    service=Service(3, "exponential"),
                    max_poll_records=100,
                    acquire_mode="record_limit",
                ),
            ),
            batch_records=500,
            settings=_with(max_record_locks=4000),
        )
    ),
    Experiment(
        _scenario(
            "arrivals",
            "records arrive at random while three members work: "
            "the one with two partitions cannot keep up",
            [40] * 4,
            (Member(count=3, service=Service(8, "exponential"), max_poll_records=20),),
            producers=(
                Producer(
                    TOPIC, 300, batch_records=5, begin_ms=START_MS + 500, end_ms=START_MS + 6000
                ),
            ),
        )
    ),
)
_OUTCOMES = (
    Experiment(
        _scenario(
            "release-and-reject",
            "eight members on four partitions give back 15 % of what they get, and reject 5 %",
            [500] * 4,
            (
                Member(
                    count=8,
                    service=Service(12, "exponential"),
                    behaviour=Behaviour(0.8, 0.15, 0.05),
                    max_poll_records=50,
                ),
            ),
        )
    ),
    Experiment(
        _scenario(
            "poison",
            "forty records fail in every attempt: they come back in ever smaller parts, "
            "and are archived",
            [600] * 2,
            (Member(count=2, service=Service(3), max_poll_records=50),),
            batch_records=20,
            poison=tuple(Poison(TOPIC, number % 2, 7 + 29 * (number // 2)) for number in range(40)),
        )
    ),
)
_ACCIDENTS = (
    Experiment(
        _scenario(
            "killed",
            "one of three members on three partitions is killed: "
            "its partition waits for the end of its session",
            [450] * 3,
            (Member(count=3, service=Service(6, "exponential"), max_poll_records=50),),
            faults=(Fault(START_MS + 1000, "crash", "member-1"),),
        )
    ),
    Experiment(
        _scenario(
            "hung",
            "one of three members on one partition stops with records in its hands: "
            "the window of 200 behind them "
            "fills up, and all wait until the locks end",
            [1500],
            (Member(count=3, service=Service(5), max_poll_records=20),),
            settings=_with(max_record_locks=200, lock_duration_ms=3000),
            faults=(Fault(START_MS + 1000, "hang", "member-1"),),
        )
    ),
    Experiment(
        _scenario(
            "killed-hottest",
            "four partitions of which one has half of the backlog; the member that alone has it is "
            "killed at its fifth poll",
            [4800, 2088, 1296, 912],
            (Member(count=4, service=Service(2), max_poll_records=100),),
            batch_records=12,
            poison=(Poison(TOPIC, 0, 450, "crash", 1),),
        )
    ),
    Experiment(
        _scenario(
            "held",
            "who gets one record of a partition with a window of 100 commits the rest of its poll, "
            "and holds that one past its lock",
            [6000],
            (Member(count=3, service=Service(1), max_poll_records=100),),
            batch_records=12,
            settings=_with(max_record_locks=100, lock_duration_ms=5000),
            poison=(Poison(TOPIC, 0, 3000, "hold", attempts=1, hold_ms=6000),),
        )
    ),
    Experiment(
        _scenario(
            "too-slow",
            "one poll in five takes longer than the locks last: "
            "its work is for nothing, and comes back",
            [900],
            (Member(count=2, service=Service(15, "exponential"), max_poll_records=60),),
            settings=_with(lock_duration_ms=1000),
        )
    ),
)
_COSTS = (
    Experiment(
        _scenario(
            "small-polls",
            "hardly any work, ten records a poll: what it costs to ask",
            [8000],
            (Member(service=Service(0.05), max_poll_records=10),),
        ),
        calibration="fetch_ms",
    ),
    Experiment(
        _scenario(
            "commit-each",
            "little work, and a commit after each record: what it costs to write",
            [500] * 3,
            (
                Member(
                    count=3,
                    service=Service(1),
                    behaviour=Behaviour(commit="record"),
                    max_poll_records=50,
                ),
            ),
        ),
        calibration="write_ms",
    ),
)


def _on_three(
    *given: Any, misses: tuple[tuple[str, float, str], ...] = (), **more: Any
) -> Experiment:
    """Return an experiment on three brokers, which lead partitions in turn and have all copies."""
    return Experiment(_scenario(*given, brokers=3, **more), misses)


_COPIES = (
    "`Costs.write_ms` is that of one broker. With copies on two more brokers of the same machine a "
    "commit took 4.3 to 6.1 ms; with `write_ms` as measured in each run, drains are within 4 %"
)


_ON_THREE = (
    _on_three(
        "one-of-all",
        "one member has six partitions of three brokers",
        [250] * 6,
        (Member(service=Service(3, "exponential"), max_poll_records=100),),
    ),
    _on_three(
        "two-each",
        "three members that acknowledge implicitly have two partitions each, of two brokers",
        [400] * 6,
        (
            Member(
                count=3,
                service=Service(5),
                behaviour=Behaviour(acknowledgement="implicit"),
                max_poll_records=50,
            ),
        ),
    ),
    _on_three(
        "all-share",
        "two partitions that four members share in pairs",
        [1200] * 2,
        (Member(count=4, service=Service(8, "exponential"), max_poll_records=40),),
        batch_records=5,
    ),
    _on_three(
        "skewed-on-three",
        "twelve partitions, four members; half of the backlog is in one partition",
        [1100] + [100] * 11,
        (Member(count=4, service=Service(4, "exponential"), max_poll_records=50),),
    ),
    _on_three(
        "large-on-three",
        "record batches of 500 from three brokers go to members as a whole",
        [2000] * 3,
        (Member(count=2, service=Service(2, "exponential"), max_poll_records=100),),
        batch_records=500,
        settings=_with(max_record_locks=4000),
    ),
    _on_three(
        "limit-on-three",
        "the same with share.acquire.mode=record_limit: one broker at a time gets a fetch",
        [2000] * 3,
        (
            Member(
                count=2,
                service=Service(2, "exponential"),
                max_poll_records=100,
                acquire_mode="record_limit",
            ),
        ),
        batch_records=500,
        settings=_with(max_record_locks=4000),
    ),
    _on_three(
        "arrivals-on-three",
        "records arrive at random while three members with two partitions each work",
        [40] * 6,
        (Member(count=3, service=Service(8, "exponential"), max_poll_records=20),),
        producers=(
            Producer(TOPIC, 350, batch_records=5, begin_ms=START_MS + 500, end_ms=START_MS + 6000),
        ),
    ),
    _on_three(
        "release-on-three",
        "five members on six partitions give back 10 % of what they get, and reject 5 %",
        [300] * 6,
        (
            Member(
                count=5,
                service=Service(10, "exponential"),
                behaviour=Behaviour(0.85, 0.10, 0.05),
                max_poll_records=40,
            ),
        ),
    ),
    _on_three(
        "poison-on-three",
        "thirty records of three partitions fail in every attempt",
        [500] * 3,
        (Member(count=3, service=Service(4), max_poll_records=50),),
        batch_records=20,
        poison=tuple(Poison(TOPIC, number % 3, 7 + 43 * (number // 3)) for number in range(30)),
    ),
    _on_three(
        "killed-on-three",
        "one of four members with a partition each is killed",
        [600] * 4,
        (Member(count=4, service=Service(4, "exponential"), max_poll_records=100),),
        batch_records=20,
        faults=(Fault(START_MS + 1200, "crash", "member-0"),),
    ),
    _on_three(
        "held-on-three",
        "who gets one record holds it past its lock; the window of 200 behind it fills up",
        [900] * 3,
        (Member(count=3, service=Service(3, "exponential"), max_poll_records=50),),
        settings=_with(max_record_locks=200, lock_duration_ms=2000),
        poison=(Poison(TOPIC, 1, 300, how="hold", attempts=1, hold_ms=3000),),
    ),
    _on_three(
        "too-slow-on-three",
        "polls often take longer than the locks last",
        [300] * 3,
        (Member(count=3, service=Service(15, "exponential"), max_poll_records=60),),
        settings=_with(lock_duration_ms=1000),
    ),
    _on_three(
        "commit-on-three",
        "little work, and a commit after each record, which three brokers write down",
        [300] * 3,
        (
            Member(
                count=3,
                service=Service(1),
                behaviour=Behaviour(commit="record"),
                max_poll_records=50,
            ),
        ),
        misses=(("drain", 0.65, _COPIES), ("lag", 0.35, _COPIES)),
    ),
)
