"""How much memory a run takes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sharelag.errors import InputError
from sharelag.whatif.compiled import layout as at
from sharelag.whatif.scenario import Member, Scenario
from sharelag.whatif.simulation.clock import MS
from sharelag.whatif.simulation.logs import expected

#: Places from which on each begins with little memory.
_MANY = 500
#: Words of memory (8 bytes) that a run may begin with.
_MOST_WORDS = 1 << 30


@dataclass(frozen=True)
class Sizes:
    """How much of everything there is at most."""

    places: int
    members: int
    window: int  # offsets in flight, a power of 2
    leaders_change: bool  # there are several brokers, or they fail
    usual: int  # offsets in flight that most groups do with, a power of 2: small ones stay cached
    spare: int  # offsets that a fetch may add
    scratch: int  # records of a place that one request is about
    attempts: int  # deliveries of a record
    steps: int
    bucket_bits: int  # of microseconds that near events wait together

    @classmethod
    def of(cls, scenario: Scenario) -> Sizes:
        """Return the sizes of a scenario.

        Raises
        ------
        InputError
            It takes more memory than a machine has.
        """
        batches = [producer.batch_records for producer in scenario.producers]
        batches += [start.batch_records for start in scenario.starts.values()]
        members = scenario.members or (Member(),)  # as an autoscaler begins them
        polled = max(member.max_poll_records for member in members)
        longest = max(batches, default=1)
        spare = polled + 2 * longest + 16
        held = _in_flight(scenario)
        locks = min(scenario.settings.limits.max_record_locks, _records(scenario))
        most = max(locks, held) + spare
        faults = {fault.kind for fault in scenario.faults}
        leaders_change = scenario.brokers > 1 or bool(faults & {"leader_change", "broker_down"})
        # Of many places most hold little, and all together would take gigabytes.
        places = sum(topic.partitions for topic in scenario.topics)
        roomy = 4 * spare if places <= _MANY else spare
        # A leader may load as one batch what is in flight.
        longest += most if leaders_change else held
        found = cls(
            places,
            sum(member.count for member in scenario.members),
            1 << max(most, 64).bit_length(),
            leaders_change,
            1 << max(roomy, held + spare, round(_behind_locks(scenario))).bit_length(),
            spare,
            2 * (polled + longest) + 64,
            max(scenario.settings.limits.delivery_count_limit, 1 + _most_tried(scenario)),
            scenario.duration_ms // scenario.step_ms + 4,
            _bucket_bits(scenario),
        )
        people = 2 * found.members + 2
        words = found.fixed(found.usual) + people * found.entries * at.ENTRY_SIZE
        if words > _MOST_WORDS:
            raise InputError(
                f"to simulate this takes some {words * 8 / 1e9:,.0f} GB of memory: a window has "
                f"up to {held:,} offsets from its start to its last batch, and there are "
                f"{places:,} partitions and {found.members:,} members: give fewer of them"
            )
        return found

    @property
    def entries(self) -> int:
        """Entries of a slot: those that are left of aborted transactions stand after the others."""
        return 2 * self.scratch + 1

    def fixed(self, window: int) -> int:
        """Words that do not depend on the logs, with windows of so many offsets."""
        pairs = self.places * self.members
        return (
            at.GLOBALS
            + self.places * (at.PLACE + window * (at.OFFSET + 4 * at.LOCK_SIZE) + 2)
            + self.members * at.MEMBER
            + pairs * (at.COUNTS + 3 + 3)
            + self.steps
        )


def records_of(scenario: Scenario) -> int:
    """Count the records that a scenario has to deliver, as far as that is known beforehand."""
    starts = scenario.starts.values()
    backlog = sum(start.end_offset - start.window.start_offset for start in starts if start.window)
    return backlog + sum(int(expected(one, scenario)[1][-1]) for one in scenario.producers)


def _records(scenario: Scenario) -> int:
    """Records of all logs, at most but for chance."""
    there = sum(start.end_offset for start in scenario.starts.values())
    return there + 2 * sum(int(expected(one, scenario)[1][-1]) for one in scenario.producers) + 4096


def _in_flight(scenario: Scenario) -> int:
    """Offsets from the start to the last batch of a partition when it begins, at most."""
    windows = [one.window for one in scenario.starts.values() if one.window and one.window.batches]
    return max((one.batches[-1].last_offset + 1 - one.start_offset for one in windows), default=0)


def _most_tried(scenario: Scenario) -> int:
    """The largest delivery count at the begin: the limit may have been larger then."""
    windows = [one.window for one in scenario.starts.values() if one.window]
    counts = [batch.delivery_count for window in windows for batch in window.batches]
    return max(counts, default=0)


def _behind_locks(scenario: Scenario) -> float:
    """Records of a partition that come while some wait for their locks to end, some twice."""
    if not any(member.behaviour.silent for member in scenario.members):
        return 0.0
    places = sum(topic.partitions for topic in scenario.topics)
    locked = scenario.settings.limits.lock_duration_ms / scenario.duration_ms
    return 3 * min(locked, 1.0) * records_of(scenario) / places


def _bucket_bits(scenario: Scenario) -> int:
    """About an event a bucket, when a record takes some six events."""
    between = scenario.duration_ms * MS / max(6 * records_of(scenario), 1)
    return min(max(round(math.log2(max(between, 1))), 2), 14)
