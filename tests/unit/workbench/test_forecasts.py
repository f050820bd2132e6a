"""What becomes of a group's lag is told in the same words on a terminal, in dashboards, in reports."""

from __future__ import annotations

from typing import Any

import pytest

import sharelag
from sharelag.inputs.recorded import folder_of, samples
from sharelag.metrics.rates import (
    DRAINED,
    DRAINS,
    NEVER,
    NOBODY,
    PAUSED,
    STALLED,
    UNCERTAIN,
    UNKNOWN,
)
from sharelag.monitoring.checks.judge import check_reading
from sharelag.monitoring.checks.rules import parse_rules
from sharelag.reports.inputs import read
from sharelag.reports.verdict import verdict
from sharelag.workbench.forecasts import COLUMNS, forecast
from tests.support.cases import few_of
from tests.support.stories import VARIED

RULES = parse_rules("version: 1\nrules: [{name: gone, measure: drain, critical: 10d}]")


def row(drain: str, **more: Any) -> dict[str, Any]:
    return dict.fromkeys(COLUMNS) | {"drain": drain} | more


def drains(point: int, high: int | None) -> dict[str, Any]:
    return row(DRAINS, drain_ms=point, drain_low_ms=1000, drain_high_ms=high)


def test_the_slowest_share_partition_decides() -> None:
    grows = row(NEVER, arrival_rate=9.0, completion_rate=2.5)
    more = row(NEVER, arrival_rate=1.0, completion_rate=0.5)
    fast = row(DRAINS, drain_ms=1000, arrival_rate=0.0, completion_rate=50.0)
    some = [
        ([], "unknown"),
        ([row(DRAINED)] * 2, "no lag"),
        ([grows, row(NOBODY)], "the group is empty"),
        ([grows, row(STALLED)], "stalled"),
        ([grows, more, fast, row(UNCERTAIN)], "grows 7/s"),
        ([row(PAUSED), row(UNKNOWN), row(DRAINED)], "paused"),
        ([row(UNCERTAIN), row(UNKNOWN)], "unknown"),
        ([row(UNCERTAIN), drains(2000, None), row(DRAINED)], "uncertain whether it drains"),
        ([drains(90_000, 120_000), drains(2000, 3000)], "gone in 1m 30s (1 s to 2m 0s)"),
        ([drains(2000, None), row(DRAINED)], "gone in 2 s (1 s to never)"),
    ]
    assert [forecast(rows).sentence() for rows, _ in some] == [words for _, words in some]


@pytest.mark.parametrize("name", few_of(sorted(samples()), VARIED))
def test_it_is_the_same_everywhere(name: str) -> None:
    bench = sharelag.open(name, engine="local")
    told = {group.group: group.state for group in bench.explain().summaries}
    overview = {one["group_id"]: one["gone"] for one in bench.overview().table.to_pylist()}
    report = verdict(read(capture=str(folder_of(name)), engine="local"))
    checked = check_reading(bench.reading, RULES).table.to_pylist()
    alarmed = {one["group_id"] for one in checked if one["level"] == "critical"}
    progress = bench.progress().table.to_pylist()
    for one in report["groups"]:
        group, gone = one["group_id"], one["drain"]
        assert overview[group] == gone
        ahead = forecast([line for line in progress if line["group_id"] == group])
        assert gone in (ahead.words, "nothing to read")
        told_of_it = one["lag"] != 0 and ahead.kind not in (DRAINED, NOBODY, UNKNOWN)
        assert (f", {ahead.sentence()}" in told[group]) == told_of_it
        # What never ends alarms who asks for it; what may end does not.
        assert (group in alarmed) == (ahead.kind in (NEVER, STALLED, NOBODY))
