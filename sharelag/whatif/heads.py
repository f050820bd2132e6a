"""A group whose stuck records are given up: what a reset past them would leave."""

from __future__ import annotations

from dataclasses import replace

from sharelag.model import DeliveryState, StateBatch
from sharelag.replay.combine import combine
from sharelag.whatif.scenario import PartitionStart, Scenario


def without_stuck_heads(scenario: Scenario) -> Scenario | None:
    """Return the scenario with the record archived that pins each start offset.

    A record pins the start offset of a share partition when records after it are finished and it
    is not.

    Returns
    -------
    Scenario or None
        None: no record pins anything.
    """
    topics = tuple(
        replace(topic, starts=tuple(map(_without_head, topic.starts))) for topic in scenario.topics
    )
    return None if topics == scenario.topics else replace(scenario, topics=topics)


def _without_head(start: PartitionStart) -> PartitionStart:
    window = start.window
    head = None if window is None else window.effective_start_offset
    if window is None or head is None or head >= start.end_offset:
        return start
    finished = {int(DeliveryState.ACKNOWLEDGED), int(DeliveryState.ARCHIVED)}
    after = [batch for batch in window.batches if batch.first_offset > head]
    if not any(batch.delivery_state in finished for batch in after):
        return start
    at_head = [batch for batch in window.batches if batch.first_offset <= head <= batch.last_offset]
    counts = [batch.delivery_count for batch in at_head]
    given_up = StateBatch(head, head, int(DeliveryState.ARCHIVED), max(counts, default=1))
    batches = combine(window.batches, [given_up], window.start_offset)
    known = window.delivery_complete_count
    count = known if known < 0 else known + 1
    now = replace(window, batches=tuple(batches), delivery_complete_count=count)
    return replace(start, window=now)
