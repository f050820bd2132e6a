"""How long a group would take after a reset or a deletion of its offsets, simulated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from sharelag.durations import duration
from sharelag.errors import InputError
from sharelag.model import Window
from sharelag.whatif.comparison.size import size
from sharelag.whatif.scenario import Scenario
from sharelag.whatif.simulate import simulate

#: Runs, each with other luck.
SEEDS = range(5)
#: As `sharelag simulate`: of polls, record batches and timeline rows in one run.
_MOST = 20e6
_SHORTEST_MS, _LONGEST_MS = 600_000, 6 * 3_600_000


class Drained(NamedTuple):
    """When the lag of a group was gone, by runs."""

    times_ms: tuple[float, ...]  # of the runs in which it was
    runs: int
    duration_ms: int  # how long each run lasted
    members: int

    def words(self) -> str:
        """Return ``simulated with 3 members: drained in 3m to 3m 20s (5 of 5 runs)``."""
        people = f"{self.members} member{'s' * (self.members != 1)}"
        if not self.times_ms:
            return (
                f"simulated with {people}: not drained within {duration(self.duration_ms)} in any "
                f"of {self.runs} runs"
            )
        first, last = duration(min(self.times_ms)), duration(max(self.times_ms))
        span = first if first == last else f"{first} to {last}"
        return (
            f"simulated with {people}: drained in {span} ({len(self.times_ms)} of {self.runs} runs)"
        )


def after_reset(scenario: Scenario, plan: pa.Table, members: int | None = None) -> Scenario:
    """Return a scenario that begins when start offsets have been reset.

    Parameters
    ----------
    scenario : Scenario
        Of the group as it is.
    plan : pyarrow.Table
        `sharelag.schemas.RESET_PLAN` of the group; share partitions without a new start offset
        stay as they are.
    members : int, optional
        Else as many as there are.

    Raises
    ------
    InputError
        There is no member.
    """
    starts = {
        (row["topic_id"], row["partition"]): row["new_start_offset"]
        for row in plan.to_pylist()
        if row["new_start_offset"] is not None
    }
    topics = [
        replace(
            topic,
            starts=tuple(
                replace(start, window=_begun(start.window, starts[topic.id, number]))
                if (topic.id, number) in starts
                else start
                for number, start in enumerate(topic.starts)
            ),
        )
        for topic in scenario.topics
    ]
    # A record that failed has all its attempts again, and is met again.
    people = scenario.members
    if members is not None:
        first = replace(people[0], count=members, assigned=(), name="member")
        people = (first,)
    if not sum(one.count for one in people):
        raise InputError("the group has no members now: say with how many, such as members=3")
    return replace(scenario, topics=tuple(topics), members=people)


def _begun(window: Window | None, start: int) -> Window:
    """The state that a reset leaves: nothing but a start offset."""
    epoch = 0 if window is None else window.snapshot_epoch + 1
    state = 0 if window is None else window.state_epoch + 1
    return Window(epoch, state, 0, start, 0, 0, 0)


def drained(scenario: Scenario, expected_ms: float | None, seeds: Iterable[int] = SEEDS) -> Drained:
    """Simulate until the lag should be gone, and say when it was.

    Parameters
    ----------
    scenario : Scenario
    expected_ms : float, optional
        About how long it takes; runs last three times that, between 10 minutes and 6 hours.
    seeds : iterable of int

    Raises
    ------
    InputError
        It would take too long to simulate.
    """
    wanted = 3 * expected_ms if expected_ms is not None else 3_600_000
    duration_ms = round(min(max(wanted, _SHORTEST_MS), _LONGEST_MS))
    lasting = replace(scenario, duration_ms=duration_ms)
    if size(lasting) > _MOST:
        raise InputError(
            "the group has too much work to be simulated here: give a scenario to sharelag "
            "simulate, with larger record batches"
        )
    found = [simulate(lasting, seed).summary.column("drain_ms")[0].as_py() for seed in seeds]
    times = tuple(time for time in found if time is not None)
    return Drained(times, len(found), duration_ms, sum(one.count for one in lasting.members))
