"""One story for each cause of a share group's lag, and some without a problem.

Here are those about members and arrivals; `tools.record.stories_of_records` has those about single
records.

Each is played on a `tools.record.stage.Stage`. It ends at the moment to look at: members that are
part of the trouble are still in the group then, but rest, so that Kafka's description stays true
while it is read.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from tests.support.kafka.workload import create_topics, numbered, produce
from tools.record.stage import Stage, steps
from tools.record.stories_of_records import (
    aborted,
    compaction_holes,
    head_of_line,
    held_head,
    lock_expiry,
    markers,
    open_transaction,
    pinned_by_marker,
    poison,
    redelivery_storm,
    window_full,
)


def healthy(stage: Stage) -> None:
    """Two members finish everything soon after it arrives."""
    stage.open(4)
    stage.join(2)
    for _ in steps(20):
        stage.produce(20)
    stage.wait_finished()
    stage.rest()


def keeping_up(stage: Stage) -> None:
    """Two members keep up; the last few records have just arrived."""
    stage.open(4)
    stage.join(2)
    for _ in steps(20):
        stage.produce(20)
    stage.wait_finished()
    stage.rest()
    stage.produce(8)


def quiet(stage: Stage) -> None:
    """Hardly anything arrives; the only consumer finished all of it and stopped."""
    stage.open(2)
    stage.join()
    for _ in steps(6, every=1):
        stage.produce(1)
    stage.wait_finished()
    stage.leave()
    time.sleep(4)


def no_members(stage: Stage) -> None:
    """Both members leave; records keep arriving."""
    stage.open(4)
    stage.join(2)
    for step in steps(20):
        stage.produce(20)
        if step == 7:
            stage.wait_finished()
            stage.leave()


def idle_members(stage: Stage) -> None:
    """Both members stop polling, with no records acquired, and send heartbeats only."""
    stage.open(4)
    stage.join(2)
    for step in steps(30):
        stage.produce(12)
        if step == 9:
            stage.wait_finished()
            stage.rest()


def unassigned(stage: Stage) -> None:
    """A new release of the service subscribes to another topic; the previous one lags."""
    other = f"{stage.group}-returns"
    stage.open(4)
    create_topics(stage.bootstrap, {other: 2})
    stage.join(2)
    for step in steps(30):
        stage.produce(12)
        produce(stage.bootstrap, other, numbered(6, 2, "return"), batch=5)
        if step == 9:
            stage.wait_finished()
            stage.leave()
            stage.join(2, topics=[other])
    stage.wait(lambda: len(stage.finished(other)) == 30 * 6, "the returns are finished")
    stage.rest()


def not_started(stage: Stage) -> None:
    """A member subscribed, but never polled: no start offset was ever set."""
    stage.open(4)
    stage.join(rests=True)
    for _ in steps(16):
        stage.produce(12)


def slow(stage: Stage, arriving: int = 16) -> None:
    """Two members work steadily, but half as fast as records arrive, or still more slowly."""
    stage.open(4)
    stage.join(2, seconds=0.1, at_once=5)
    for _ in steps(32):
        stage.produce(arriving)
    stage.rest()


def hot_partition(stage: Stage) -> None:
    """Nearly all records go to one of six partitions, and one of three members has it."""
    stage.open(6)
    stage.join(3, seconds=0.05, at_once=5)
    for _ in steps(30):
        stage.produce(30, partition=3)
        stage.produce(3)
    stage.rest()


def burst(stage: Stage) -> None:
    """Members keep up until a burst arrives; they work on it faster than new records come."""
    stage.open(4)
    stage.join(2, seconds=0.01)
    for step in steps(26):
        stage.produce(10)
        if step == 19:
            stage.produce(900)
    stage.rest()


class Scenario(NamedTuple):
    """A story, its effect, and the group's lag that Kafka prints, summed over partitions."""

    play: Callable[[Stage], None]
    cause: str | None
    lag: range | None  # None: unknown to Kafka


#: By name. ``cause`` is the first cause of `explain`; ``None``: nothing is wrong.
SCENARIOS = {
    story.play.__name__: story
    for story in (
        Scenario(healthy, None, range(1)),
        Scenario(keeping_up, None, range(8, 9)),
        Scenario(quiet, None, range(1)),
        Scenario(no_members, "no_members", range(240, 241)),
        Scenario(idle_members, "members_idle", range(240, 241)),
        Scenario(unassigned, "unassigned", range(240, 241)),
        Scenario(not_started, "not_started", None),
        Scenario(head_of_line, "head_of_line", range(1, 2)),
        Scenario(held_head, "head_of_line", range(1, 2)),
        Scenario(window_full, "window_full", range(300, 451)),
        Scenario(poison, "poison_records", range(1, 2)),
        Scenario(redelivery_storm, "redelivery_storm", range(60, 401)),
        Scenario(lock_expiry, "lock_expiry", range(150, 271)),
        Scenario(slow, "slow_consumers", range(150, 451)),
        Scenario(hot_partition, "hot_partition", range(300, 901)),
        Scenario(burst, "burst", range(200, 901)),
        Scenario(open_transaction, "open_transaction", range(80, 91)),
        Scenario(markers, "markers", range(2, 3)),
        Scenario(pinned_by_marker, "markers", range(10, 11)),
        Scenario(aborted, "markers", range(2, 9)),
        Scenario(compaction_holes, "compaction_holes", range(300, 1001)),
    )
}
