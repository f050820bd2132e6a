"""Groups whose stuck records are given up."""

from __future__ import annotations

import sharelag
from sharelag.whatif import simulate
from sharelag.whatif.heads import without_stuck_heads


def test_the_record_that_pins_a_start_offset_is_archived() -> None:
    scenario = sharelag.open("head_of_line", engine="local").scenario("head-of-line")
    changed = without_stuck_heads(scenario)
    assert changed is not None
    pairs = [
        (before.window, after.window)
        for topic, other in zip(scenario.topics, changed.topics, strict=True)
        for before, after in zip(topic.starts, other.starts, strict=True)
        if before != after
    ]
    assert pairs
    for before, after in pairs:
        assert before is not None
        assert after is not None
        head = before.effective_start_offset
        assert head is not None
        assert (after.effective_start_offset or 0) > head
        assert after.delivery_complete_count == before.delivery_complete_count + 1
    assert without_stuck_heads(changed) is None
    simulate(changed, seed=0)


def test_nothing_is_given_up_where_no_record_pins_anything() -> None:
    bench = sharelag.open("no_members", engine="local")
    assert without_stuck_heads(bench.scenario(bench.groups[0])) is None
