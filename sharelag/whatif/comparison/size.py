"""Estimate the work of a simulation before it begins, so that endless ones are refused."""

from __future__ import annotations

from sharelag.whatif.scenario import Scenario
from sharelag.whatif.workload import PartitionStart, Producer

#: Records of one record batch are drawn and finished together, which is so much cheaper than one
#: batch each.
_RECORDS_A_BATCH = 10


def size(scenario: Scenario) -> float:
    """About how many things happen in a run of a scenario.

    Returns
    -------
    float
        Record batches to deliver, a tenth of their records, polls that wait in vain, and rows of
        the timeline. Each takes the simulator from 5 to 100 microseconds. Members that an
        autoscaler adds are not foreseen.
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
    """Records from the start offset on; a group without one may begin at the log's start."""
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
