"""How long simulations last, how long a reset takes, and how many members a group wants.

The wanted members follow `sharelag.whatif.autoscale.fewest`, so the answer of ``/keda/GROUP`` can
be simulated as ``target-age:goal=30s,utilization=fewest``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sharelag.durations import duration, parse_duration
from sharelag.errors import InputError
from sharelag.metrics.causes import CauseInputs, count_stuck
from sharelag.metrics.evidence import Evidence
from sharelag.model import Window
from sharelag.tables.declared import trials
from sharelag.tables.words import number, pluralize
from sharelag.whatif.autoscale import fewest
from sharelag.whatif.comparison.rows import unknown_work
from sharelag.whatif.estimates import held_ms
from sharelag.whatif.from_cluster import choose_group, scenario_from
from sharelag.whatif.scenario import PartitionStart, Producer, Scenario
from sharelag.whatif.simulate import simulate
from sharelag.whatif.simulation.logs import expect_records

#: Durations and arriving records that take seconds to simulate a few times.
LONGEST_MS, SHORTEST_MS = 600_000, 120_000
_MINUTE_MS = 60_000
MOST_RECORDS = 20_000
#: Upper bounds of arriving records and duration for clearing a lag.
MOST_TO_CLEAR, LONGEST_TO_CLEAR_MS = 60_000, 86_400_000
#: The same in words, for help texts.
WORDS = "10m, and of busy groups less, down to 2m"


def cut_short(scenario: Scenario) -> Scenario:
    """Return a scenario with a duration that takes seconds to simulate, in whole seconds."""
    rate = sum(producer.rate for producer in scenario.producers)
    long_ms = int(MOST_RECORDS / rate) * 1000 if rate else LONGEST_MS
    return replace(scenario, duration_ms=min(max(long_ms, SHORTEST_MS), LONGEST_MS))


class Rates(NamedTuple):
    """The amount of work of a scenario, and the rate of a member."""

    waiting: float  # records
    arriving: float  # records per second, on average while the scenario lasts
    each: float  # records that a busy member finishes per second; 0: they take no time

    def fewest(self, long_ms: float | None = None) -> int:
        """Return the fewest members, always busy, that clear the lag in a time, or keep up."""
        wanted = self.arriving + (1000 * self.waiting / long_ms if long_ms else 0.0)
        return ceil(wanted / self.each) if self.each else 0

    def to_clear_ms(self, members: int) -> float:
        """Return how long busy members take to clear the lag; infinite if they fall behind."""
        left = members * self.each - self.arriving
        return 1000 * self.waiting / left if left > 0 else inf

    def say_fewest(self, long_ms: int, most: int) -> str:
        """Say how many members clear the lag in a time; empty if ``most`` may suffice."""
        if (fewest := self.fewest(long_ms)) <= most:
            return ""
        takes = f"by the rates it takes at least {pluralize(fewest, 'member')}"
        return f"{takes} to clear the lag within {duration(long_ms)}"

    def say_behind(self, members: int) -> str:
        """Say that a number of members falls behind; empty if it may keep up."""
        if members >= (fewest := self.fewest()):
            return ""
        takes = f"by the rates it takes at least {pluralize(fewest, 'member')}"
        return f"{takes} to keep up with what arrives: fewer keep it for a while only"


def rates(scenario: Scenario) -> Rates:
    """Return the backlog, the arrival rate, and the mean rate of a member."""
    waiting = sum(map(_count_waiting, scenario.starts.values()))
    appended = sum(_expect_appended(producer, scenario) for producer in scenario.producers)
    # Rounded, so that a constant rate is exact.
    arriving = round(1000 * appended / scenario.duration_ms, 9)
    members = scenario.each_member() or scenario.members
    each = [one for one in members if one.service.expected_ms > 0]
    done = [1000 / one.service.expected_ms * (1 - one.behaviour.release) for one in each]
    return Rates(waiting, arriving, sum(done) / len(done) if done else 0.0)


#: Members that should clear a lag in time: multiples of the current number, and of the fewest that
#: keep up. The last factor extends their best time.
_TIMES_NOW, _TIMES_FEWEST, _LONGER = 3, 2, 1.25


def long_enough(scenario: Scenario) -> int:
    """Return the minutes, in ms, in which a multiple of the members clears the lag."""
    known = rates(scenario)
    if not known.each:
        return cut_short(scenario).duration_ms
    now = len(scenario.each_member())
    # Records behind one that keeps failing can be cleared only after it.
    pinned_ms = max(held_ms(scenario).values(), default=0)
    known = known._replace(waiting=known.waiting + known.arriving * pinned_ms / 1000)
    members = max(_TIMES_NOW * now, _TIMES_FEWEST * known.fewest(), 1)
    best_ms = pinned_ms + known.to_clear_ms(members)
    room_ms = float(LONGEST_TO_CLEAR_MS)
    if known.arriving:
        room_ms = min(room_ms, 1000 * MOST_TO_CLEAR / known.arriving)
    minutes = ceil(min(_LONGER * best_ms, room_ms) / _MINUTE_MS)
    return max(minutes * _MINUTE_MS, SHORTEST_MS)


#: Records of a record batch are drawn and finished together: this many cost as much as a batch.
_RECORDS_A_BATCH = 10


def size(scenario: Scenario) -> float:
    """Return the approximate number of events of a run, each 5 to 100 microseconds of work.

    It counts record batches, a tenth of their records, empty polls, and rows of the timeline. The
    backlog counts as far as members get; members that an autoscaler adds are not included.
    """
    span, known, each = scenario.duration_ms, rates(scenario), scenario.each_member()
    done = len(each) * known.each * span / 1000 if known.each else inf
    share = min(done / known.waiting, 1) if known.waiting else 1
    sizes = [(share * _count_waiting(one), one.batch_records) for one in scenario.starts.values()]
    sizes += [(_expect_appended(one, scenario), one.batch_records) for one in scenario.producers]
    records = sum(records for records, _ in sizes)
    batches = sum(records / batch for records, batch in sizes)
    polls = sum(
        max(min(span if one.leave_ms is None else one.leave_ms, span) - one.join_ms, 0)
        / max(one.fetch_max_wait_ms, 1)
        for one in each
    )
    rows = sum(topic.partitions for topic in scenario.topics) * span / scenario.step_ms
    return batches + records / _RECORDS_A_BATCH + polls + rows


#: Upper bounds of events in one run, and in all runs of a process. At some ten thousand per second,
#: the first takes up to half an hour and the second some hours.
MOST_A_RUN, MOST = 20e6, 100e6


def require_end(sizes: Sequence[float], runs: int, less: str, most: float = MOST) -> None:
    """Refuse simulations that would take hours; ``less`` says how to reduce them."""
    for count, work, limit in (
        (1, max(sizes, default=0.0), MOST_A_RUN),
        (len(sizes) * runs, sum(sizes) * runs, most),
    ):
        if work > limit:
            raise InputError(
                f"{pluralize(count, 'run')} would have about {work:.2g} record batches, polls and "
                f"timeline rows, more than the limit of {limit:.2g}: {less}"
            )


def _expect_appended(producer: Producer, scenario: Scenario) -> float:
    """Return the expected number of records that a producer appends during a scenario."""
    span = scenario.duration_ms
    end = max(span if producer.end_ms is None else min(producer.end_ms, span), producer.begin_ms)
    return float(expect_records(replace(producer, end_ms=end), scenario)[1][-1])


def _count_waiting(start: PartitionStart) -> int:
    """Return the backlog of a partition; a group without state may start at the log's start."""
    first = start.log_start_offset if start.window is None else start.window.start_offset
    return max(start.end_offset - max(first, start.log_start_offset), 0)


#: Random seeds of the runs.
SEEDS = range(5)
_DURATIONS_MS = (600_000, 3_600_000, 6 * 3_600_000)


class Drained(NamedTuple):
    """When members finished the initial content of the logs, by run."""

    #: By topic and partition, one time per run; None if it was not finished.
    times_ms: Mapping[tuple[str, int], tuple[int | None, ...]]
    runs: int
    duration_ms: int  # of each run
    members: int

    def of_partition(self, topic: str, partition: int) -> int | None:
        """Return the median of the runs; None if a run did not finish."""
        times = [time for time in self.times_ms.get((topic, partition), ()) if time is not None]
        return round(median(times)) if len(times) == self.runs else None

    def words(self) -> str:
        """Return ``simulated with 3 members: the new lag takes 3m to 3m 20s (5 of 5 runs)``."""
        work = f"simulated with {pluralize(self.members, 'member')}: the new lag"
        by_run = zip(*self.times_ms.values(), strict=True)
        done = [max(filter(None, run), default=0) for run in by_run if None not in run]
        if not done:
            within = duration(self.duration_ms)
            return f"{work} is not done within {within} in any of {self.runs} runs"
        span = " to ".join(dict.fromkeys(map(duration, (min(done), max(done)))))
        return f"{work} takes {span} ({len(done)} of {self.runs} runs)"


def after_reset(scenario: Scenario, plan: pa.Table, members: int | None = None) -> Scenario:
    """Return a scenario that starts after a reset of start offsets.

    ``plan`` is `sharelag.schemas.RESET_PLAN` of the group; share partitions without a new start
    offset keep theirs. ``members`` default to the current ones; a group without members is refused.
    """
    names, starts = {topic.id: topic.name for topic in scenario.topics}, {}
    for row in plan.to_pylist():
        place, first = (names.get(row["topic_id"], ""), row["partition"]), row["new_start_offset"]
        start = scenario.starts.get(place)
        if first is not None and start is not None:
            then = start.window
            epochs = (0, 0) if then is None else (then.snapshot_epoch + 1, then.state_epoch + 1)
            # Only a start offset is left; nothing is delivered beyond the end of the log.
            window = Window(*epochs, 0, min(first, start.end_offset), 0, 0, 0)
            starts[place] = replace(start, window=window)
    # A record that failed gets all its attempts again.
    after = scenario.with_starts(starts)
    if members is not None:
        after = after.with_members(members)
    if not after.each_member():
        raise InputError(
            "the group has no members now: say with how many, such as --members 3 (members=3)"
        )
    return after


def simulate_drain(scenario: Scenario, seeds: Iterable[int] = SEEDS) -> Drained:
    """Simulate until members have finished the initial content of the logs.

    Arrivals take their share of the members' time. Runs last 10 minutes, or if needed an hour, or
    6.
    """
    seeds, found = list(seeds), None
    for duration_ms in _DURATIONS_MS:
        lasting = replace(scenario, duration_ms=duration_ms)
        if size(lasting) > MOST_A_RUN:
            break
        runs = [_find_done(lasting, simulate(lasting, seed).timeline) for seed in seeds]
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


def _find_done(scenario: Scenario, timeline: pa.Table) -> dict[tuple[str, int], int]:
    """Return when the start offset of each log first reached its initial end."""
    ends = np.array([start.end_offset for start in scenario.starts.values()])
    # One row per share partition and step, in this order.
    starts, times = (
        timeline.column(name).to_numpy().reshape(-1, len(ends))
        for name in ("start_offset", "time_ms")
    )
    each = zip(scenario.starts, (starts >= ends).T, strict=True)
    return {place: int(times[is_done.argmax(), 0]) for place, is_done in each if is_done.any()}


#: Columns of `Wanted.row`.
WANTED = trials.WANTED.schema


@dataclass(frozen=True)
class Wanted:
    """The members that one group wants.

    Attributes
    ----------
    members
        The fewest that keep the goal; None: unknown.
    reason
        Why, or why it is unknown.
    group, goal_ms
        The group, and the age to stay below.
    arriving, each
        Records that arrive per second, and that a busy member finishes per second; None: unknown.
    waiting, stuck
        Unfinished offsets that members can finish, and others; None: unknown.
    """

    members: int | None
    reason: str
    group: str
    goal_ms: float
    arriving: float | None = None
    each: float | None = None
    waiting: int | None = None
    stuck: int | None = None

    def __str__(self) -> str:
        if self.members is None:
            return f"{self.group}: members wanted are not known: {self.reason}"
        return f"{self.group}: {pluralize(self.members, 'member')} wanted: {self.reason}"

    def row(self) -> dict[str, Any]:
        """Return the answer by column name."""
        return {
            "group_id": self.group,
            "members_wanted": self.members,
            "goal": duration(self.goal_ms),
            "arrival_rate": self.arriving,
            "member_rate": self.each,
            "waiting": self.waiting,
            "stuck": self.stuck,
            "why": self.reason,
        }


def members_wanted(evidence: Evidence, group: str | None = None, goal: str = "30s") -> Wanted:
    """Return the fewest members that keep a group's records younger than a goal, and why.

    Parameters
    ----------
    evidence : Evidence
        As `sharelag.gather` or ``bench.evidence()`` returns it.
    group : str, optional
        May be omitted if there is only one.
    goal : str
        The age to stay below, a duration.

    Raises
    ------
    InputError
        There is no such group, or the goal is not a duration.
    """
    goal_ms = parse_duration(goal).total_seconds() * 1000
    if goal_ms <= 0:
        raise InputError(f"records cannot stay younger than {goal}: give a goal such as 30s")
    evidence = evidence.of_group(choose_group(evidence, group))
    scenario = scenario_from(evidence)
    known: dict[str, Any] = {"group": scenario.group_id, "goal_ms": goal_ms}
    if evidence.lag_only:
        return Wanted(None, "only lag was read", **known)
    facts = CauseInputs.of(evidence, None)
    left, held = facts.left, count_stuck(facts)
    if dark := int(np.isnan(left).sum()):
        many = pluralize(dark, "share partition")
        return Wanted(None, f"the lag of {many} is not known", **known)
    waiting, apart, below = int((left - held).sum()), int(held.sum()), duration(goal_ms)
    known |= {"waiting": waiting, "stuck": apart}
    verb = "is" if apart == 1 else "are"
    also = f"; {apart:,} more {verb} stuck, which no number of members finishes" if apart else ""
    arrivals = facts.progress("arrival_rate")
    if dark := int(np.isnan(arrivals).sum()):
        many = pluralize(dark, "share partition")
        return Wanted(None, f"the rate of arrivals of {many} is not known", **known)
    arriving, each = float(np.maximum(arrivals, 0).sum()), rates(scenario).each
    if not (arriving or waiting):
        return Wanted(0, f"nothing waits and nothing arrives{also}", arriving=0.0, **known)
    if unknown := unknown_work(scenario) or ("" if each else "their work takes no time"):
        why = unknown.removeprefix("not known: ").partition("; give it")[0]
        return Wanted(None, why, arriving=arriving, **known)
    found = fewest(arriving, each, waiting, goal_ms)
    comes, pace = number(arriving), f"a busy member finishes {number(each)} per second"
    reason = f"{comes} records arrive per second and {pace}, so that they stay below {below}"
    if found.catch_up > found.keep_up:
        reason = (
            f"{waiting:,} offsets wait, to be finished within {below} beside {comes} that arrive "
            f"per second, and {pace}; {found.keep_up} would keep up"
        )
    return Wanted(found.members, reason + also, arriving=arriving, each=each, **known)
