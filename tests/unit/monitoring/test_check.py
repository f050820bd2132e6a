"""Rules judge as they say, for as long as they say; what is not known is never fine."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import process_time
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sharelag
from sharelag.errors import InputError
from sharelag.inputs import CaptureInput
from sharelag.monitoring.checks import check
from sharelag.monitoring.checks.judge import judge
from sharelag.monitoring.checks.measures import Series
from sharelag.monitoring.checks.rules import Rule, parse_rules, read_rules
from sharelag.tables.level import worst
from tests.support.chapters import CAPTURE
from tests.support.readings import open_once
from tests.support.rules import EXAMPLES, STOPPED, outcome
from tests.support.synthetic import capture_of
from tests.support.written_input import NOW, Write, WrittenInput


# ---- the rule file
def test_the_example_is_right_and_has_a_rule_of_each_measure() -> None:
    example = read_rules(EXAMPLES / "rules.yaml")
    measures = get_args(Rule.model_fields["measure"].annotation)
    assert {rule.measure for rule in example.rules} == set(measures)
    assert example.rules[0].lasting == timedelta(minutes=2)
    assert (example.rules[1].warn, example.rules[1].critical) == (300_000, 3_600_000)
    assert example.silences[0].until == datetime(2030, 1, 1, tzinfo=UTC)


WRONG = """version: 1
rules:
  - name: a
    measure: lag
    warn: 5m
    grups: [x]
  - name: b
    measure: age
    warn: 5m
    critical: 2m
    for: 10 parsecs
    figure: gini
  - measure: nope
    name: c
    warn: 1
    warn: 3
  - {name: d, measure: cause, causes: [no_member], warn: 1}
  - {name: e, measure: lag}
  - {name: f, measure: retention, warn: 1h, critical: 2h}
  - {name: g, measure: state_topic, warn: 1, for: 1m}
silences:
  - until: 2026-11-21T06:00:00
  - {from: 2026-11-22T00:00:00Z, until: 2026-11-21T00:00:00Z}
"""


def test_every_mistake_names_its_line_and_column() -> None:
    with pytest.raises(InputError) as caught:
        parse_rules(WRONG, "r.yaml")
    result = [line.split(": ", 1) for line in str(caught.value).split("; ")]
    assert [(place, words.split(",")[0]) for place, words in result] == [
        ("r.yaml:5:5", "warn: expected a number"),
        ("r.yaml:6:5", "grups: unknown key"),
        ("r.yaml:10:5", "critical: must be worse than warn"),
        ("r.yaml:11:5", "for: invalid duration '10 parsecs': use a number with a unit"),
        ("r.yaml:12:5", "figure: does not apply to the measure age: remove it"),
        ("r.yaml:13:5", "measure: Input should be 'lag'"),
        ("r.yaml:16:5", "warn: duplicate key"),
        ("r.yaml:17:31", result[7][1].split(",")[0]),
        ("r.yaml:18:5", "rules: set warn"),
        ("r.yaml:19:45", "critical: must be worse than warn"),
        ("r.yaml:20:46", "for: does not apply to the measure state_topic: remove it"),
        ("r.yaml:22:5", "until: add a time zone"),
        ("r.yaml:23:5", "silences: from must be before until"),
    ]
    assert result[7][1].startswith(
        "causes: unknown cause 'no_member': choose from no_members, unassigned"
    )


@pytest.mark.parametrize(
    ("text", "result"),
    [
        pytest.param(
            "#" * ((1 << 20) + 1), "r.yaml: more than 1,048,576 characters: write fewer", id="long"
        ),
        ("", "r.yaml:1:1: rules: is missing; r.yaml:1:1: version: is missing"),
        ("a: [", "r.yaml:1:5: invalid YAML: expected the node content"),
        ("[1]", "r.yaml:1:1: the file: must be a mapping of keys"),
        (
            "version: 2\nrules: []",
            "r.yaml:1:1: version: Input should be 1; r.yaml:2:1: rules: is empty",
        ),
        ("x: &x [*x]", "r.yaml:1:1: rules: is missing"),
        (
            "version: 1\nrules: [{name: a, measure: lag, warn: yes}]",
            "r.yaml:2:33: warn: expected a number or a duration",
        ),
        (
            "version: 1\nrules: [{name: a, measure: lag, warn: .inf}]",
            "r.yaml:2:33: warn: Input should be a finite",
        ),
        (
            "version: 1\nrules:\n- &a {name: a, measure: lag, warn: 1}\n- *a",
            "r.yaml:2:1: rules: two rules have the name",
        ),
        ("until: 2026-99-99", "r.yaml: invalid YAML: month must be in 1..12"),
        ("\x00", "r.yaml"),
    ],
)
def test_what_is_no_rule_file(text: str, result: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_rules(text, "r.yaml")
    assert result in str(caught.value)
    assert "\n" not in str(caught.value)


# ---- judging
@st.composite
def cases(draw: st.DrawFn) -> tuple[Rule, Series]:
    count, steps = draw(st.integers(1, 4)), draw(st.integers(1, 8))
    some = [0.0, 50.0, 79.0, 80.0, 99.0, 100.0, 150.0, 200.0]
    numbers = st.sampled_from([np.nan, -np.inf, np.inf, *some])

    def matrix(of: Any) -> Any:
        row = st.lists(of, min_size=steps, max_size=steps)
        return np.array(draw(st.lists(row, min_size=count, max_size=count)))

    values = matrix(numbers)
    exact = ~np.isnan(values) & matrix(st.booleans())
    at = np.cumsum(draw(st.lists(st.integers(1, 90), min_size=steps, max_size=steps))) * 1000
    rule = {"name": "x", "measure": "lag", "warn": 100, "for": f"{draw(st.integers(0, 200))}s"}
    rule |= {
        "hysteresis": draw(st.sampled_from([0, 0.2])),
        "unknown": draw(st.sampled_from(["ok", "unknown", "warn"])),
    }
    rule |= {"critical": 150} if draw(st.booleans()) else {}
    nothing = np.full(count, None, object)
    rule |= {"not_started": draw(st.sampled_from(["ok", "unknown", "warn", None]))}
    never = np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    return Rule.model_validate(rule), Series(
        nothing, nothing, nothing, at, values, exact, ["?"] * count, never
    )


def plainly(rule: Rule, level: float, found: Series, row: int) -> bool | None:
    """Whether a level has lasted, one moment after the other; None where that is not known."""
    reached: bool | None = False
    result = []
    for value, exact in zip(found.values[row].tolist(), found.is_exact[row].tolist(), strict=True):
        if value >= level:
            reached = True
        elif not value >= level * (1 - rule.hysteresis) and exact:
            reached = False
        elif not exact:
            # Known is only that it is as much: kept if it was reached, else it may have been more.
            is_kept = reached and value >= level * (1 - rule.hysteresis)
            reached = True if is_kept else None
        result.append(reached)
    begin = int(found.at[-1]) - rule.lasting.total_seconds() * 1000
    earlier = [n for n, at in enumerate(found.at.tolist()) if at <= begin + 1]
    within = result[earlier[-1] :] if earlier else [*result, None]
    return False if False in within else None if None in within else True


@given(cases())
def test_judging_is_what_going_through_the_moments_gives(case: tuple[Rule, Series]) -> None:
    rule, found = case
    levels = judge(rule, found).level.tolist()
    for row, level in enumerate(levels):
        warn = plainly(rule, 100, found, row)
        critical = False if rule.critical is None else plainly(rule, 150, found, row)
        words = {"ok": "ok", "unknown": "unknown", "warn": "warning"}
        expected = words[rule.unknown] if None in (warn, critical) else "ok"
        expected = "critical" if critical else "warning" if warn else expected
        if rule.not_started is not None and found.not_started[row]:
            expected = words[rule.not_started]
        assert level == expected


@pytest.mark.parametrize(
    ("levels", "result"),
    [
        ([], "ok"),
        (["ok", "unknown"], "unknown"),
        (["unknown", "warning"], "warning"),
        (["critical", "unknown", "warning"], "critical"),
    ],
)
def test_the_worst_of_several(levels: list[str], result: str) -> None:
    assert worst(levels) == result


#: A window of 160 offsets, and what came of 500 records; a record at the head that failed.
WINDOW = [Write(600, 6000, ((6000, 6099, 0, 1), (6100, 6159, 2, 1)), count=60)]
STUCK = [
    Write(900, 6000, ((6000, 6000, 0, 1), (6001, 6099, 2, 1)), count=99),
    Write(300, 6000, ((6000, 6000, 0, 4), (6001, 6099, 2, 1)), count=99),
]
#: Kafka deleted records below the last snapshot; it still shows where the log ended then.
PRUNED, YOUNG = WrittenInput([Write(60, 6600)]), WrittenInput([Write(60, 6600, made_ago=61)])
FORGOT = WrittenInput([Write(60, 6300)])
STOPS, KEPT = WrittenInput(STOPPED), WrittenInput(STOPPED, retention=timedelta(seconds=1000))
#: Nothing is finished since twenty minutes; until then as much as came.
STEADY = WrittenInput([Write(ago, 7200 - ago) for ago in range(5400, 1199, -300)])
OWN = WrittenInput(WINDOW, group_settings={"share.partition.max.record.locks": "160"})


def left(count: int) -> WrittenInput:
    """The lag was more than 1,000 for long; half a minute ago members finished most of it."""
    return WrittenInput([Write(3600, 3600), Write(2400, 3600), Write(30, 7200 - count)])


@pytest.mark.parametrize(
    ("source", "line", "level", "value"),
    [
        # 500 are passed for 100 seconds, and each share partition is as old as its lag here.
        (STOPS, "measure: lag, warn: 500", "warning", 600),
        (STOPS, "measure: lag, warn: 500, for: 90s", "warning", 600),
        (STOPS, "measure: lag, warn: 500, for: 3m", "ok", 600),
        (STOPS, "measure: lag, warn: 500, critical: 100000, for: 90s", "warning", 600),
        (STOPS, "measure: age, warn: 500s, for: 90s", "warning", 600_000),
        (STOPS, "measure: age, warn: 500s, for: 3m", "ok", 600_000),
        # A margin is worse the smaller it is.
        (KEPT, "measure: retention, warn: 500s, critical: 300s, for: 90s", "warning", 400_000),
        (KEPT, "measure: retention, warn: 399s", "ok", 400_000),
        (STOPS, "measure: retention, warn: 500s", "ok", None),
        # Five minutes ago at least 300 were not finished.
        (PRUNED, "measure: lag, warn: 250, for: 5m", "warning", 600),
        (PRUNED, "measure: age, warn: 250s, for: 5m", "warning", 600_000),
        (PRUNED, "measure: lag, warn: 400, for: 5m", "unknown", 600),
        (PRUNED, "measure: lag, warn: 400, for: 5m, unknown: warn", "warning", 600),
        (PRUNED, "measure: window, warn: 0, for: 5m", "unknown", 0),
        # A share partition that is as young as its first record did not lag before.
        (YOUNG, "measure: lag, warn: 250, for: 5m", "ok", 600),
        (YOUNG, "measure: lag, warn: 250, for: 30s", "warning", 600),
        # A level is kept until the value is well below it.
        (left(900), "measure: lag, warn: 1000", "ok", 900),
        (left(900), "measure: lag, warn: 1000, hysteresis: 0.2", "warning", 900),
        (left(700), "measure: lag, warn: 1000, hysteresis: 0.2", "ok", 700),
        # It may have been more than 1,000 before the first record that is known.
        (FORGOT, "measure: lag, warn: 1000, hysteresis: 0.2", "unknown", 900),
        (FORGOT, "measure: lag, warn: 1200, hysteresis: 0.2", "ok", 900),
        # The rates of the past are those of then.
        (STEADY, "measure: drain, warn: 10m, for: 5m", "warning", None),
        (STEADY, "measure: drain, warn: 10m, for: 50m", "ok", None),
        # Of Kafka's 2,000 locks, and of the group's own limit.
        (WrittenInput(WINDOW), "measure: window, warn: 0.05", "warning", 0.08),
        (OWN, "measure: window, critical: 1", "critical", 1),
        # Poison is as old as its head.
        (WrittenInput(STUCK), "measure: poison, warn: 1, for: 10m", "warning", 1),
        (WrittenInput(STUCK), "measure: poison, warn: 1, for: 20m", "ok", 1),
        (WrittenInput(STUCK), "measure: poison, warn: 2", "ok", 1),
    ],
)
def test_a_level_that_lasts(source: Any, line: str, level: str, value: float | None) -> None:
    row = outcome(source, line)
    assert (row["level"], row["value"]) == (level, value)


def test_an_outcome_says_since_when_and_of_what() -> None:
    lasting = outcome(STOPS, "measure: lag, warn: 500, for: 90s")
    assert (lasting["group_id"], lasting["since"]) == ("billing", NOW - timedelta(seconds=90))
    assert lasting["summary"] == "lag 600, since 2026-11-21 03:08:30 UTC at the latest"
    margin = outcome(KEPT, "measure: retention, warn: 500s, critical: 300s, for: 90s")
    assert (margin["warn"], margin["critical"]) == (500_000, 300_000)
    assert margin["summary"].startswith("retention 6m 40s, since ")
    unsure = outcome(PRUNED, "measure: lag, warn: 400, for: 5m")
    assert "unknown whether it has lasted 5m" in unsure["summary"]
    unsure = outcome(FORGOT, "measure: lag, warn: 1000, hysteresis: 0.2")
    assert "unknown whether it was worse and has not ended since" in unsure["summary"]
    drain = outcome(STEADY, "measure: drain, warn: 10m, for: 5m")
    assert drain["summary"].split(",")[0] == "does not drain"
    poison = outcome(WrittenInput(STUCK), "measure: poison, warn: 1, for: 10m")
    assert (poison["topic"], poison["partition"]) == ("orders", 0)


def test_a_cause_has_the_start_that_explain_shows() -> None:
    """What is measured now and then began at the latest then; a cause knows when it began."""
    bench = open_once("demo")
    for group, cause in (("returns-desk", "no_members"), ("invoicing", "open_transaction")):
        found = outcome(
            bench.source, f"measure: cause, causes: [{cause}], groups: [{group}], warn: 1"
        )
        since = bench.explain(group).table.column("since")[0].as_py()
        assert found["since"] == since
        assert found["summary"].endswith(f", since {since:%Y-%m-%d %H:%M:%S} UTC")


def test_a_pattern_that_no_group_matches_is_said_beside_one_that_matches() -> None:
    rules = "version: 1\nrules: [{name: lag, measure: lag, groups: ['b*', 'zzz*'], warn: 1000000}]"
    rows = check(CaptureInput(CAPTURE), parse_rules(rules), "local").table.to_pylist()
    assert {row["group_id"] for row in rows} == {"billing", None}
    (said,) = (row for row in rows if row["group_id"] is None)
    assert (said["level"], said["summary"]) == ("ok", "no share group matches zzz*")


@pytest.mark.exhaustive
def test_four_times_the_groups_cost_at_most_four_times_as_much(tmp_path: Path) -> None:
    rules = read_rules(EXAMPLES / "rules.yaml")

    def cost(groups: int) -> float:
        source = capture_of(tmp_path / str(groups), groups, partitions=1, per_partition=3)
        begun = process_time()
        check(source, rules, "local")
        sharelag.open(source, engine="local").explain()
        return process_time() - begun

    cost(50)  # what is loaded once
    assert cost(4800) < 4 * cost(1200)
