"""One cause, one verdict: the command line, Python, dashboards, checks and reports agree."""

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
from sharelag.monitoring.checks.judge import check_reading
from sharelag.monitoring.checks.rules import parse_rules
from sharelag.reports.case import read, verdict
from tests.support.captures import VARIED, causes_of
from tests.support.cases import few_of
from tests.support.widgets.panels import view_of

SAMPLES = sorted(samples())
RULES = parse_rules(
    "version: 1\nrules: ["
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


@pytest.mark.parametrize("name", few_of(SAMPLES, VARIED - {"no_members", "redelivery_storm"}))
def test_the_same_cause_in_the_same_words_everywhere(name: str) -> None:
    folder = str(folder_of(name))
    bench = sharelag.open(name, engine="local")
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
    assert broken == {(one.group, one.cause) for one in python}

    words = " ".join(command("explain", "--capture", folder).split())
    for group in told.summaries:
        assert f"{group.group} {group.state}" in words
        if group.causes:
            assert "nothing wrong" not in group.state
    rows = bench.progress().table.to_pylist()
    growing = {row["group_id"] for row in rows if row["drain"] in ("stalled", "never")}
    fine = {one.group for one in told.summaries if "nothing wrong" in one.state}
    assert not growing & fine


@pytest.mark.parametrize("name", ["chapters", "slow"])
def test_a_group_progresses_alone_as_among_others(name: str) -> None:
    bench = sharelag.open(name, engine="local")
    for group in bench.groups:
        alone = sharelag.open(name, groups=group, engine="local").progress().table
        assert alone.equals(pa.table(bench.progress(group).table))
