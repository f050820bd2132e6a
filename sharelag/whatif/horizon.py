"""How much work a simulation is, and how long one lasts where nobody said so."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, inf
from typing import NamedTuple

from sharelag.durations import duration
from sharelag.tables.words import counted
from sharelag.whatif.scenario import PartitionStart, Producer, Scenario
from sharelag.whatif.simulation.logs import expect_records
from sharelag.whatif.stuck_records import held_ms

#: At most and at least, and how many records may arrive in that time if it is more than the least:
#: what takes seconds to simulate a few times.
LONGEST_MS, SHORTEST_MS = 600_000, 120_000
_MINUTE_MS = 60_000
MOST_RECORDS = 20_000
#: Records that may arrive, and the longest time, in which a lag is to be cleared.
MOST_TO_CLEAR, LONGEST_TO_CLEAR_MS = 60_000, 86_400_000
#: In words, for helps.
WORDS = "10m, and of busy groups less, down to 2m"


def cut_short(scenario: Scenario) -> Scenario:
    """Return a scenario for as long as takes seconds to simulate, in whole seconds."""
    rate = sum(producer.rate for producer in scenario.producers)
    long_ms = int(MOST_RECORDS / rate) * 1000 if rate else LONGEST_MS
    return replace(scenario, duration_ms=min(max(long_ms, SHORTEST_MS), LONGEST_MS))


class Rates(NamedTuple):
    """How much work a scenario has, and how fast a member does it."""

    waiting: float  # records
    arriving: float  # records per second, on average while the scenario lasts
    each: float  # records that a busy member finishes per second; 0: its work is nothing

    def fewest(self, long_ms: float | None = None) -> int:
        """Return the fewest members that clear the lag in a time, or keep up if none is given.

        They are busy all the time, so that it takes more of them where lag is uneven.
        """
        wanted = self.arriving + (1000 * self.waiting / long_ms if long_ms else 0.0)
        return ceil(wanted / self.each) if self.each else 0

    def to_clear_ms(self, members: int) -> float:
        """Return how long members take that are busy all the time; infinite: they fall behind."""
        left = members * self.each - self.arriving
        return 1000 * self.waiting / left if left > 0 else inf

    def say_fewest(self, long_ms: int, most: int) -> str:
        """Say how many members clear the lag in a time; empty where so many may be enough."""
        if (fewest := self.fewest(long_ms)) <= most:
            return ""
        takes = f"by the rates it takes at least {counted(fewest, 'member')}"
        return f"{takes} to clear the lag within {duration(long_ms)}"


def rates(scenario: Scenario) -> Rates:
    """Return what waits and arrives, and what a member does on average."""
    waiting = sum(map(_waiting, scenario.starts.values()))
    appended = sum(_appended(producer, scenario) for producer in scenario.producers)
    # Rounded: what comes all the time comes at its rate to the last digit.
    arriving = round(1000 * appended / scenario.duration_ms, 9)
    members = scenario.each_member() or scenario.members
    each = [one for one in members if one.service.expected_ms > 0]
    done = [1000 / one.service.expected_ms * (1 - one.behaviour.release) for one in each]
    return Rates(waiting, arriving, sum(done) / len(done) if done else 0.0)


#: The members that are to clear a lag in time: multiples of those there are, and of the fewest that
#: keep up. Simulated is how much longer than they take at their best.
_TIMES_NOW, _TIMES_FEWEST, _LONGER = 3, 2, 1.25


def long_enough(scenario: Scenario) -> int:
    """Return milliseconds, in whole minutes, in which a few times its members clear its lag.

    At most as long as takes seconds to simulate.
    """
    known = rates(scenario)
    if not known.each:
        return cut_short(scenario).duration_ms
    now = len(scenario.each_member())
    # What a record that goes on failing holds can be cleared only after it.
    pinned_ms = max(held_ms(scenario).values(), default=0)
    known = known._replace(waiting=known.waiting + known.arriving * pinned_ms / 1000)
    members = max(_TIMES_NOW * now, _TIMES_FEWEST * known.fewest(), 1)
    best_ms = pinned_ms + known.to_clear_ms(members)
    room_ms = float(LONGEST_TO_CLEAR_MS)
    if known.arriving:
        room_ms = min(room_ms, 1000 * MOST_TO_CLEAR / known.arriving)
    minutes = ceil(min(_LONGER * best_ms, room_ms) / _MINUTE_MS)
    return max(minutes * _MINUTE_MS, SHORTEST_MS)


#: Records of one record batch are drawn and finished together, which is so much cheaper than one
#: batch each.
_RECORDS_A_BATCH = 10


def size(scenario: Scenario) -> float:
    """About how many things happen in a run of a scenario, each 5 to 100 microseconds of work.

    Record batches to deliver, a tenth of their records, polls that wait in vain, and rows of the
    timeline. What waits counts as far as members can get. Members that an autoscaler adds are not
    foreseen.
    """
    span, known = scenario.duration_ms, rates(scenario)
    done = len(scenario.each_member()) * known.each * span / 1000 if known.each else inf
    share = min(done / known.waiting, 1) if known.waiting else 1
    batches = records = 0.0
    for start in scenario.starts.values():
        waiting = share * _waiting(start)
        records, batches = records + waiting, batches + waiting / start.batch_records
    for producer in scenario.producers:
        arriving = _appended(producer, scenario)
        records, batches = records + arriving, batches + arriving / producer.batch_records
    polls = sum(
        max(min(span if one.leave_ms is None else one.leave_ms, span) - one.join_ms, 0)
        / max(one.fetch_max_wait_ms, 1)
        for one in scenario.each_member()
    )
    rows = sum(topic.partitions for topic in scenario.topics) * span / scenario.step_ms
    return batches + records / _RECORDS_A_BATCH + polls + rows


def _appended(producer: Producer, scenario: Scenario) -> float:
    """Return how many records a producer is expected to append while a scenario lasts."""
    span = scenario.duration_ms
    end = span if producer.end_ms is None else min(producer.end_ms, span)
    return float(expect_records(replace(producer, end_ms=end), scenario)[1][-1])


def _waiting(start: PartitionStart) -> int:
    """Return records from the start offset on; a group without one may begin at the log's start."""
    first = start.log_start_offset if start.window is None else start.window.start_offset
    return max(start.end_offset - max(first, start.log_start_offset), 0)
