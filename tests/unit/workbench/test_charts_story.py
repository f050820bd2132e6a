"""The story of a group in one chart: lag, age, causes, events, and what may follow."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sharelag
from sharelag import charts
from sharelag.charts import text
from sharelag.charts.story import GROUP_STORY
from sharelag.whatif.compare import PROJECTED
from sharelag.workbench import Workbench


@pytest.fixture(scope="module", name="demo")
def opened_demo() -> Workbench:
    return sharelag.open("demo", engine="local")


def story(bench: Workbench, group: str, **given: Any) -> Any:
    records = charts.group_story_records(bench.timeline(group).table)
    causes, events = bench.explain(group).table, bench.events(group).table
    return charts.group_story_figure(records, causes, events, **given)


def test_its_lag_is_the_sum_of_all_and_ends_with_what_lag_says(demo: Workbench) -> None:
    for group in demo.groups:
        timeline = demo.timeline(group).table
        records = charts.group_story_records(timeline)
        last = records.to_pylist()[-1]
        assert last["lag"] == pc.sum(demo.lag(group).table.column("lag")).as_py()
        assert last["partitions"] == len(demo.lag(group).table)
        for row in records.to_pylist():
            then = timeline.filter(pc.equal(timeline.column("as_of"), row["as_of"]))
            lags = then.column("lag").to_pylist()
            assert row["lag"] is None or row["lag"] == sum(lag for lag in lags if lag is not None)


def test_unknown_lag_of_one_share_partition_makes_the_sum_unknown(demo: Workbench) -> None:
    timeline = demo.timeline("billing").table
    rows = timeline.to_pylist()
    rows[-1] |= {"lag": None, "lag_reason": "no_end_offset"}
    records = charts.group_story_records(pa.Table.from_pylist(rows, timeline.schema))
    assert records.to_pylist()[-1]["lag"] is None


def test_a_shade_begins_with_its_cause_and_is_named_there(demo: Workbench) -> None:
    drawn = story(demo, "search-index")
    (cause, *_) = demo.explain("search-index").table.to_pylist()
    shade, words = drawn.layout.shapes[0], drawn.layout.annotations[0]
    assert words.text == cause["cause"].replace("_", " ")
    assert shade.x0 == words.x == text.axis_time(cause["since"])


def test_every_event_is_in_the_hover_of_a_mark(demo: Workbench) -> None:
    drawn = {trace.name: trace for trace in story(demo, "billing").data}
    begin = demo.timeline("billing").table.column("as_of")[0].as_py()
    events = demo.events("billing").table.to_pylist()
    later = [one for one in events if one["happened_at"] >= begin]
    assert later
    for one in later:
        hovers = " ".join(drawn[one["event"]].hovertext)
        if one["topic"]:
            assert f"{one['topic']}-{one['partition']}" in hovers


def test_a_projection_goes_on_from_the_last_moment(demo: Workbench) -> None:
    times = np.arange(0, 60_001, 10_000, dtype=np.float64)
    columns = {"variant": ["as it is"] * len(times), "time_ms": times, "lag": times / 100}
    columns |= {"low": times / 120, "high": times / 80}
    ages = ("age_ms", "age_low_ms", "age_high_ms", "drain_ms")
    columns |= dict.fromkeys(ages, pa.nulls(len(times), pa.float64()))
    projected = pa.table({name: columns[name] for name in PROJECTED.names}).cast(PROJECTED)
    drawn = story(demo, "billing", projected=projected)
    as_of = demo.timeline("billing").table.column("as_of")[-1].as_py()
    curve = next(trace for trace in drawn.data if trace.name == "as it is")
    assert curve.x[0] == text.axis_time(as_of)
    assert curve.x[-1] == text.axis_time(as_of + timedelta(minutes=1))
    begin, end = (datetime.fromisoformat(one) for one in drawn.layout.xaxis.range)
    assert end - begin == timedelta(minutes=5)  # not so long a past that the future is a hair


def test_without_moments_it_is_a_sentence(demo: Workbench) -> None:
    nothing = GROUP_STORY.empty_table()
    drawn = charts.group_story_figure(
        nothing, demo.explain("billing").table, demo.events("billing").table
    )
    assert not drawn.data
    assert drawn.layout.meta["title"] == "No moment of this group is known"
