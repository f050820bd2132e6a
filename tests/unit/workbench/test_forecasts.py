"""What becomes of a group's lag is told in the same words on a terminal, in dashboards, in reports."""

from datetime import UTC, datetime
from typing import Any

import pytest

import sharelag
from sharelag import samples
from sharelag.inputs import CaptureInput
from sharelag.inputs.recorded import folder_of
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
from sharelag.monitoring.checks.judge import check, check_reading
from sharelag.monitoring.checks.rules import parse_rules, read_rules
from sharelag.reports.case import read, verdict
from sharelag.workbench.verdicts import COLUMNS, forecast
from tests.support.cases import few_of
from tests.support.rules import EXAMPLES
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
        ([grows, row(UNKNOWN)], "grows at least 6.5/s"),
        ([row(PAUSED), row(UNKNOWN), row(DRAINED)], "paused"),
        ([row(UNCERTAIN), row(UNKNOWN)], "unknown"),
        ([row(UNCERTAIN), drains(2000, None), row(DRAINED)], "uncertain whether it drains"),
        ([drains(90_000, 120_000), drains(2000, 3000)], "gone in 1m 30s (1 s to 2m)"),
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


# What the recorded demo says of its last minutes, where four groups have changed for the worse


@pytest.fixture(scope="module")
def bench() -> Any:
    return sharelag.open("demo", engine="local")


def rows(result: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = result.table.to_pylist()
    return found


@pytest.fixture(scope="module")
def progress(bench: Any) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in bench.reading.table("progress").to_pylist():
        found.setdefault(row["group_id"], []).append(row)
    return found


@pytest.mark.parametrize(
    ("group", "growth"), [("fulfilment", 6.3), ("analytics", 5.7), ("notifications", 0.6)]
)
def test_lag_grows_as_it_did_lately(bench: Any, progress: Any, group: str, growth: float) -> None:
    """As fast as between two moments of the timeline, of which the forecast knows nothing."""
    ahead = forecast(progress[group])
    assert ahead.kind == "never"
    told = sum(row["arrival_rate"] - row["completion_rate"] for row in progress[group])
    assert told == pytest.approx(growth, rel=0.1)
    moments: dict[datetime, int] = {}
    for row in rows(bench.timeline(group)):
        if row["lag"] is not None:
            moments[row["as_of"]] = moments.get(row["as_of"], 0) + row["lag"]
    late = sorted(moments)[-13:]
    seconds = (late[-1] - late[0]).total_seconds()
    assert told == pytest.approx((moments[late[-1]] - moments[late[0]]) / seconds, rel=0.15)


def test_who_has_left_finishes_nothing(progress: Any) -> None:
    assert [row["completion_rate"] for row in progress["returns-desk"]] == [0, 0]
    assert {row["drain"] for row in progress["returns-desk"]} == {"nobody"}


def test_an_open_transaction_has_one_age_everywhere(bench: Any, progress: Any) -> None:
    """The records of it have waited for seven minutes, and nothing is finished meanwhile."""
    row = next(row for row in progress["invoicing"] if row["partition"] == 0)
    assert (row["drain"], row["drain_ms"], row["oldest_from"]) == ("stalled", None, "interpolated")
    assert 400_000 < row["age_ms"] < 460_000
    (line,) = (one for one in rows(bench.overview()) if one["group_id"] == "invoicing")
    assert line["age_ms"] == row["age_ms"]
    state = next(one for one in bench.explain().to_text().splitlines() if "invoicing" in one)
    assert "oldest 7m 1" in state
    assert "stalled" in state


def test_the_example_of_rules_names_the_open_transaction() -> None:
    found = check(CaptureInput(folder_of("demo")), read_rules(EXAMPLES / "rules.yaml"), "local")
    critical = {row["rule"]: row["group_id"] for row in rows(found) if row["level"] == "critical"}
    assert critical == {
        "no working members": "returns-desk",
        "open transaction": "invoicing",
        "window full": "search-index",
    }


def test_causes_are_dated_from_when_the_lag_began_and_what_has_healed_is_none(bench: Any) -> None:
    causes = {row["cause"]: row for row in rows(bench.explain())}
    assert "count_regressed" not in causes

    def at(minute: int) -> datetime:
        return datetime(2026, 11, 23, 12, minute, tzinfo=UTC)

    assert at(1) < causes["hot_partition"]["since"] < at(4)
    assert at(5) < causes["slow_consumers"]["since"] < at(10)
