"""How much work a simulation is, and how long one lasts where nobody said so."""

from __future__ import annotations

from dataclasses import replace

from sharelag.whatif.scenario import Scenario
from sharelag.whatif.workload import PartitionStart, Producer

#: At most and at least, and how many records may arrive in that time if it is more than the least:
#: what takes seconds to simulate a few times.
LONGEST_MS, SHORTEST_MS = 600_000, 120_000
MOST_RECORDS = 20_000
#: In words, for helps.
WORDS = "10m, and of busy groups less, down to 2m"


def cut_short(scenario: Scenario) -> Scenario:
    """Return a scenario for as long as takes seconds to simulate, in whole seconds."""
    rate = sum(producer.rate for producer in scenario.producers)
    long_ms = int(MOST_RECORDS / rate) * 1000 if rate else LONGEST_MS
    return replace(scenario, duration_ms=min(max(long_ms, SHORTEST_MS), LONGEST_MS))


#: Records of one record batch are drawn and finished together, which is so much cheaper than one
#: batch each.
_RECORDS_A_BATCH = 10


def size(scenario: Scenario) -> float:
    """About how many things happen in a run of a scenario, each 5 to 100 microseconds of work.

    Record batches to deliver, a tenth of their records, polls that wait in vain, and rows of the
    timeline. Members that an autoscaler adds are not foreseen.
    """
    span = scenario.duration_ms
    batches = records = 0.0
    for start in (start for topic in scenario.topics for start in topic.starts):
        waiting = _waiting(start)
        records, batches = records + waiting, batches + waiting / start.batch_records
    for producer in scenario.producers:
        arriving = _arriving(producer, span)
        records, batches = records + arriving, batches + arriving / producer.batch_records
    polls = sum(
        max(min(span if one.leave_ms is None else one.leave_ms, span) - one.join_ms, 0)
        / max(one.fetch_max_wait_ms, 1)
        for one in scenario.each_member()
    )
    rows = sum(topic.partitions for topic in scenario.topics) * span / scenario.step_ms
    return batches + records / _RECORDS_A_BATCH + polls + rows


def _waiting(start: PartitionStart) -> int:
    """Return records from the start offset on; a group without one may begin at the log's start."""
    first = start.log_start_offset if start.window is None else start.window.start_offset
    return max(start.end_offset - max(first, start.log_start_offset), 0)


def _arriving(producer: Producer, span: int) -> float:
    """On average, with all hours of a day the same."""
    end = span if producer.end_ms is None else min(producer.end_ms, span)
    length = max(end - producer.begin_ms, 0.0)
    for burst in producer.bursts:
        inside = min(burst.end_ms, end) - max(burst.begin_ms, producer.begin_ms)
        length += max(inside, 0) * (burst.factor - 1)
    day = sum(producer.day) / len(producer.day) if producer.day else 1.0
    return max(producer.rate * day * length / 1000, 0.0)
