"""One cause, one forecast, one verdict: commands, Python, dashboards, checks, reports agree."""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from click.testing import CliRunner

import sharelag
from sharelag import charts, samples
from sharelag.cli import cli
from sharelag.inputs.recorded import folder_of
from sharelag.metrics.causes import CAUSES
from sharelag.metrics.rates import DRAINED, NEVER, NOBODY, STALLED, UNKNOWN
from sharelag.monitoring.checks.judge import check_reading
from sharelag.monitoring.checks.rules import parse_rules
from sharelag.reports.case import read, verdict
from sharelag.workbench.verdicts import forecast
from tests.support.captures import VARIED, causes_of
from tests.support.cases import few_of
from tests.support.readings import open_once
from tests.support.widgets.panels import view_of

SAMPLES = sorted(samples())
RULES = parse_rules(
    "version: 1\nrules: [{name: gone, measure: drain, critical: 10d},"
    + ",".join(
        f"{{name: {one.name}, measure: cause, causes: [{one.name}], critical: 1}}" for one in CAUSES
    )
    + "]"
)


class Told(NamedTuple):
    """What was said of one cause."""

    group: str
    cause: str
    held: int | None


def of(rows: Iterable[Any]) -> list[Told]:
    found = [Told(row["group_id"], row["cause"], row["held"]) for row in rows]
    return sorted(found, key=lambda one: (one.group, one.cause, one.held or -1))


def command(*arguments: str) -> str:
    ran = CliRunner().invoke(cli, [*arguments, "--engine", "local"], catch_exceptions=False)
    return ran.stdout


def test_all_samples_are_compared() -> None:
    assert len(SAMPLES) >= 23
    assert sum(len(causes_of(name)) for name in SAMPLES) == 21 + 8


@pytest.mark.parametrize("name", few_of(SAMPLES, VARIED))
def test_the_same_cause_and_forecast_in_the_same_words_everywhere(name: str) -> None:
    folder = str(folder_of(name))
    bench = open_once(name)
    told = bench.explain()
    python = of(told.table.to_pylist())
    first: dict[str, str] = {}
    for row in told.table.to_pylist():
        first.setdefault(row["group_id"], row["cause"])
    for one, cause in causes_of(name).items():
        assert first.get(one) == cause
    if len(bench.groups) == 1:
        assert len(python) == len(first)

    lines = command("explain", "--capture", folder, "-o", "json").splitlines()
    assert of(map(json.loads, lines)) == python

    assert told.as_of is not None
    chart = charts.cause_records(told.table, told.as_of)
    assert of(chart.to_pylist()) == python

    dashboard = bench.dashboard()
    for row in view_of(dashboard.table).rows.to_pylist():
        wanted = first.get(row["group_id"])
        assert row["cause"] == (wanted and wanted.replace("_", " "))
    mine = [one["cause"] for one in told.table.to_pylist() if one["group_id"] == dashboard.group]
    assert [card["cause"] for card in dashboard.cards.cards] == mine

    report = verdict(read(capture=folder, engine="local"))
    mine = [group | one for group in report["groups"] for one in group["causes"]]
    assert of(mine) == python

    checked = check_reading(bench.reading, RULES).table.to_pylist()
    broken = {(row["group_id"], row["rule"]) for row in checked if row["level"] == "critical"}
    alarmed = {group for group, rule in broken if rule == "gone"}
    assert broken == {(one.group, one.cause) for one in python} | {(one, "gone") for one in alarmed}

    words = " ".join(command("explain", "--capture", folder).split())
    for group in told.summaries:
        assert f"{group.group} {group.state}" in words
        if group.causes:
            assert "nothing wrong" not in group.state
    rows = bench.progress().table.to_pylist()
    growing = {row["group_id"] for row in rows if row["drain"] in ("stalled", "never")}
    fine = {one.group for one in told.summaries if "nothing wrong" in one.state}
    assert not growing & fine

    states = {one.group: one.state for one in told.summaries}
    overview = {one["group_id"]: one["gone"] for one in bench.overview().table.to_pylist()}
    for one in report["groups"]:
        group, gone = one["group_id"], one["drain"]
        assert overview[group] == gone
        ahead = forecast([row for row in rows if row["group_id"] == group])
        assert gone in (ahead.words, "nothing to read")
        told_of_it = one["lag"] != 0 and ahead.kind not in (DRAINED, NOBODY, UNKNOWN)
        assert (f", {ahead.sentence()}" in states[group]) == told_of_it
        # What never ends alarms who asks for it; what may end does not.
        assert (group in alarmed) == (ahead.kind in (NEVER, STALLED, NOBODY))


@pytest.mark.parametrize("name", ["chapters", "slow"])
def test_a_group_progresses_alone_as_among_others(name: str) -> None:
    bench = sharelag.open(name, engine="local")
    for group in bench.groups:
        alone = sharelag.open(name, groups=group, engine="local").progress().table
        assert alone.equals(pa.table(bench.progress(group).table))
