"""How long a group would take after a reset or a deletion of its offsets, simulated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from statistics import median
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sharelag.durations import duration
from sharelag.errors import InputError
from sharelag.model import Window
from sharelag.tables.words import counted
from sharelag.whatif.horizon import size
from sharelag.whatif.scenario import Scenario
from sharelag.whatif.simulate import simulate

#: Runs, each with other luck.
SEEDS = range(5)
#: As `sharelag simulate`: of polls, record batches and timeline rows in one run.
_MOST = 20e6
_DURATIONS_MS = (600_000, 3_600_000, 6 * 3_600_000)


class Drained(NamedTuple):
    """When members were done with what had been in the logs at the begin, by runs."""

    #: By topic and partition, a time a run; None where it was not done.
    times_ms: Mapping[tuple[str, int], tuple[int | None, ...]]
    runs: int
    duration_ms: int  # how long each run lasted
    members: int

    def of_partition(self, topic: str, partition: int) -> int | None:
        """Return the median of the runs; None where one was not done."""
        times = [time for time in self.times_ms.get((topic, partition), ()) if time is not None]
        return round(median(times)) if len(times) == self.runs else None

    def words(self) -> str:
        """Return ``simulated with 3 members: the new lag takes 3m to 3m 20s (5 of 5 runs)``."""
        people = counted(self.members, "member")
        by_run = zip(*self.times_ms.values(), strict=True)
        whole = [[time for time in run if time is not None] for run in by_run]
        done = [max(run, default=0) for run in whole if len(run) == len(self.times_ms)]
        if not done:
            within = f"within {duration(self.duration_ms)} in any of {self.runs} runs"
            return f"simulated with {people}: the new lag is not done {within}"
        span = " to ".join(dict.fromkeys(map(duration, (min(done), max(done)))))
        often = f"({len(done)} of {self.runs} runs)"
        return f"simulated with {people}: the new lag takes {span} {often}"


def after_reset(scenario: Scenario, plan: pa.Table, members: int | None = None) -> Scenario:
    """Return a scenario that begins when start offsets have been reset.

    ``plan`` is `sharelag.schemas.RESET_PLAN` of the group; share partitions without a new start
    offset stay as they are. ``members`` are else as many as there are; none are refused.
    """
    names, known = {topic.id: topic.name for topic in scenario.topics}, scenario.starts
    starts = {}
    for row in plan.to_pylist():
        place, first = (names.get(row["topic_id"], ""), row["partition"]), row["new_start_offset"]
        if first is not None and place in known:
            start, then = known[place], known[place].window
            epochs = (0, 0) if then is None else (then.snapshot_epoch + 1, then.state_epoch + 1)
            # Nothing is left but a start offset; beyond the end of its log there is nothing to
            # deliver, as at its end.
            window = Window(*epochs, 0, min(first, start.end_offset), 0, 0, 0)
            starts[place] = replace(start, window=window)
    # A record that failed has all its attempts again, and is met again.
    people = scenario.members
    if members is not None:
        people = (replace(people[0], count=members, assigned=(), name="member"),)
    if not sum(one.count for one in people):
        raise InputError(
            "the group has no members now: say with how many, such as --members 3 (members=3)"
        )
    return replace(scenario.with_starts(starts), members=people)


def simulate_drain(scenario: Scenario, seeds: Iterable[int] = SEEDS) -> Drained:
    """Simulate until members are done with what is in the logs at the begin.

    What arrives meanwhile takes its share of their time, and need not be done. Runs last 10
    minutes, and where that is too short an hour, then 6 hours.
    """
    seeds, found = list(seeds), None
    for duration_ms in _DURATIONS_MS:
        lasting = replace(scenario, duration_ms=duration_ms)
        if size(lasting) > _MOST:
            break
        runs = [_done(lasting, simulate(lasting, seed).timeline) for seed in seeds]
        times = {place: tuple(run.get(place) for run in runs) for place in scenario.starts}
        people = sum(one.count for one in lasting.members)
        found = Drained(times, len(seeds), duration_ms, people)
        if all(None not in one for one in times.values()):
            break
    if found is None:
        raise InputError(
            "the group has too much work to be simulated here: give a scenario to sharelag "
            "simulate, with larger record batches"
        )
    return found


def _done(scenario: Scenario, timeline: pa.Table) -> dict[tuple[str, int], int]:
    """Return when the start offset first was where a log had ended at the begin."""
    ends = np.array([start.end_offset for start in scenario.starts.values()])
    # A row of each share partition, in this order, at each step.
    starts = timeline.column("start_offset").to_numpy().reshape(-1, len(ends))
    times = timeline.column("time_ms").to_numpy().reshape(-1, len(ends))[:, 0]
    found = {}
    for place, is_done in zip(scenario.starts, (starts >= ends).T, strict=True):
        if is_done.any():
            found[place] = int(times[is_done.argmax()])
    return found
