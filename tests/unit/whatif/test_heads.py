"""Groups whose stuck records are given up."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow.compute as pc
import pytest

from sharelag.model import StateBatch, Window
from sharelag.whatif import Limits, PartitionStart, Service, Topic, compare, simulate
from sharelag.whatif.estimates import poison_of, without_stuck_heads
from tests.support.readings import open_once


def test_the_record_that_pins_a_start_offset_is_archived() -> None:
    scenario = open_once("head_of_line").scenario("head-of-line")
    changed = without_stuck_heads(scenario)
    assert changed is not None
    starts = [[one for topic in of.topics for one in topic.starts] for of in (scenario, changed)]
    pairs = [(old.window, new.window) for old, new in zip(*starts, strict=True) if old != new]
    assert pairs
    for before, after in pairs:
        assert before is not None
        assert after is not None
        assert (after.effective_start_offset or 0) > (before.effective_start_offset or 0) > 0
        assert after.delivery_complete_count == before.delivery_complete_count + 1
    assert without_stuck_heads(changed) is None
    simulate(changed, seed=0)


def test_nothing_is_given_up_where_no_record_pins_anything() -> None:
    bench = open_once("no_members")
    assert without_stuck_heads(bench.scenario(bench.groups[0])) is None


@pytest.mark.parametrize(("part", "is_stuck"), [(0, True), (4, True), (6, False), (9, False)])
def test_what_was_given_back_before_does_not_speak(part: int, is_stuck: bool) -> None:
    """Of ten parts of the span it was the first in five; others were given back in one part."""
    window = Window(0, 0, 0, 7, 0, 1, 1, (StateBatch(8, 9, 2, 1),))
    begin = datetime(2026, 11, 29, tzinfo=UTC)
    row = {
        "head_offset": 7,
        "head_delivery_count": 6,
        "release_every_ms": 5000,
        "head_since": begin + timedelta(seconds=50),
        "begin": begin,
        "end": begin + timedelta(seconds=100),
        "released": 100,
        "released_bins": [100 * (number == part) for number in range(10)],
    }
    topic = Topic("orders", 1, starts=(PartitionStart(20, window=window),), id="A" * 22)
    found = poison_of([topic], {(topic.id, 0): row}, Limits(delivery_count_limit=9), [])
    assert [(one.offset, one.work_ms) for one in found] == [(7, 5000)] * is_stuck


@pytest.mark.parametrize(
    ("group", "topic", "seconds"), [("billing", "orders", 35), ("search-index", "catalogue", 100)]
)
def test_a_record_that_failed_often_goes_on_failing(group: str, topic: str, seconds: int) -> None:
    """The shop's consumers take so long for each attempt, and then give the record back."""
    scenario = open_once("demo").scenario(group)
    (stuck,) = scenario.poison
    assert (stuck.topic, stuck.how) == (topic, "release")
    assert stuck.work_ms == pytest.approx(seconds * 1000, rel=0.03)
    assert any(f"offset {stuck.offset} of {topic}:" in one for one in scenario.assumed)
    # Its releases are not also taken to be those of any other record.
    assert scenario.members[0].behaviour.release < 0.002
    short = replace(scenario, duration_ms=120_000)
    changed = without_stuck_heads(short)
    assert changed is not None
    assert changed.poison == ()
    found = compare({"as it is": short, "skipped": changed}, seeds=range(7))
    assert found.winner("age_p95_ms") == "skipped"
    assert found.verdict().startswith("skipped is better by p95 age over 2m: ")


@pytest.mark.parametrize("group", ["billing", "search-index"])
def test_what_a_stuck_record_did_is_not_taken_for_what_all_do(group: str) -> None:
    """Its deliveries are no releases of others, and a poll leaves the time that it takes."""
    bench = open_once("demo")
    scenario = bench.scenario(group, service=Service(100.0))
    (stuck,) = scenario.poison
    seen = [one for one in bench.evidence().observed.to_pylist() if one["group_id"] == group]
    finished, released = (sum(one[name] or 0 for one in seen) for name in ("finished", "released"))
    (id_,) = {one.id for one in scenario.topics if one.name == stuck.topic}
    place = (id_, stuck.partition)
    (head,) = [one for one in seen if (one["topic_id"], one["partition"]) == place]
    given_back = min(head["head_delivery_count"], head["released"])
    assert given_back > 3
    others = released - given_back
    release = scenario.members[0].behaviour.release
    assert release == pytest.approx(others / (finished + others))
    assert stuck.work_ms
    left = scenario.settings.limits.lock_duration_ms - stuck.work_ms
    assert scenario.members[0].max_poll_records == max(min(int(left / 2 / 100), 500), 1)


def test_a_stuck_record_is_archived_at_the_limit_and_nothing_is_stuck_any_more() -> None:
    scenario = open_once("demo").scenario("billing")
    (stuck,) = scenario.poison
    left = scenario.settings.limits.delivery_count_limit - 8
    run = simulate(replace(scenario, duration_ms=180_000), seed=1)
    ages = run.timeline.filter(pc.equal(run.timeline.column("partition"), stuck.partition))
    old = [row["time_ms"] / 1000 for row in ages.to_pylist() if (row["age_ms"] or 0) > 300_000]
    assert max(old) == pytest.approx(left * 35.3, abs=15)


def test_the_first_record_of_a_storm_is_no_special_one() -> None:
    assert open_once("demo").scenario("notifications").poison == ()


def test_members_are_not_busy_with_what_nobody_can_get() -> None:
    """Of search-index one window is full, and its members wait."""
    scenario = open_once("demo").scenario("search-index")
    assert any("4 members busy 50 % of the time (they keep up)" in one for one in scenario.assumed)
