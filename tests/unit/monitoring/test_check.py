"""Rules judge as they say, for as long as they say; checks say so, with rows and exit codes."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import process_time
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sharelag
from sharelag import schemas
from sharelag.errors import InputError
from sharelag.inputs import CaptureInput
from sharelag.monitoring.checks import check
from sharelag.monitoring.checks.judge import CHECKED, judge
from sharelag.monitoring.checks.measures import Series
from sharelag.monitoring.checks.rules import Rule, parse_rules, read_rules
from sharelag.replay.moment import Choice
from sharelag.tables.level import worst
from sharelag.wire import SHARE_UPDATE, STATE_TOPIC, encode_record
from tests.support.chapters import CAPTURE
from tests.support.command import sharelag as command
from tests.support.readings import open_once
from tests.support.rules import EXAMPLES, STOPPED, judged, outcome, rules
from tests.support.synthetic import capture_of
from tests.support.written_input import NOW, TOPIC_ID, Write, WrittenInput

SCENARIOS = CAPTURE.parent / "scenarios"
AUTO_RESET = "share.auto.offset.reset"
ALONE = "measure: cause, causes: [no_members]"
#: Every second of four share partitions has lost its leader, or none has.
WRITES = [Write(600, 6600, partition=p) for p in range(4)]
HALF = WrittenInput(WRITES, partitions_of_topic=4, unreachable=frozenset({1, 3}))
NO_END = "the end offset could not be read from the partition's leader"


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
    """Return whether a level has lasted, moment after moment; None where that is not known."""
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


@pytest.mark.parametrize(
    ("name", "line", "level"),
    [
        ("no_members", f"{ALONE}, critical: 1, patience: 2s", "critical"),
        ("no_members", f"{ALONE}, critical: 1, patience: 2s, for: 1h", "ok"),
        ("no_members", "measure: lag, warn: 200, critical: 240", "critical"),
        ("no_members", "measure: age, warn: 4s, critical: 1h", "warning"),
        ("poison", "measure: poison, warn: 1", "warning"),
        ("window_full", "measure: window, warn: 0.8, critical: 1, for: 5s", "critical"),
        ("window_full", "measure: window, warn: 0.8, critical: 1, for: 10m", "ok"),  # not so old
        ("hot_partition", "measure: imbalance, warn: 3", "warning"),
        ("hot_partition", "measure: imbalance, figure: gini, warn: 0.8, min_lag: 100000", "ok"),
        ("slow", "measure: drain, critical: 10m", "critical"),
        ("healthy", "measure: lag, warn: 1", "ok"),
        ("not_started", "measure: lag, warn: 192", "warning"),  # it starts at the earliest offset
        ("not_started", "measure: lag, warn: 193", "ok"),
        ("not_started", "measure: lag, warn: 1, not_started: ok", "ok"),
        ("not_started", "measure: age, warn: 1h", "unknown"),
        ("not_started", "measure: poison, warn: 1", "ok"),  # a failed delivery is written
        ("not_started", f"{ALONE}, warn: 1", "unknown"),
        ("not_started", f"{ALONE}, warn: 1, not_started: ok", "ok"),
        ("not_started", "measure: lag, warn: 1, not_started: unknown", "unknown"),
        ("not_started", "measure: imbalance, warn: 1, not_started: critical", "critical"),
        ("not_started", "measure: cause, causes: [not_started], warn: 1", "warning"),
        ("healthy", "measure: state_topic, warn: 1", "ok"),
        ("healthy", "measure: state_topic, warn: 0", "warning"),
    ],
)
def test_recorded_troubles(name: str, line: str, level: str) -> None:
    row = outcome(CaptureInput(SCENARIOS / name), line)
    assert row["level"] == level, row["summary"]
    expected = json.loads((SCENARIOS / name / "expected.json").read_text())
    assert row["group_id"] in (None, expected["group"])


def test_what_will_count_soon_is_said() -> None:
    source = CaptureInput(SCENARIOS / "window_full")
    full = "measure: cause, causes: [window_full], critical: 1, for: 2m"
    row = outcome(source, full)
    assert (row["level"], row["due"] - row["since"]) == ("ok", timedelta(minutes=2))
    assert row["summary"].endswith("; would be critical in 1m 47s")
    assert outcome(source, "measure: lag, warn: 1, critical: 100, for: 1s")["due"] is None
    row = outcome(source, "measure: lag, critical: 351, for: 1h")
    assert row["level"] == "ok"
    assert "; would be critical within 1h" in row["summary"]
    assert outcome(source, "measure: lag, critical: 352, for: 1h")["due"] is None


# ---- what is not known
@pytest.mark.parametrize("per", ["group", "partition"])
def test_half_of_the_partitions_cannot_be_read(per: str) -> None:
    row = outcome(HALF, f"measure: lag, per: {per}, warn: 5000")
    assert (row["level"], NO_END in row["summary"]) == ("unknown", True)
    # What is known is enough to know that it is too much.
    assert outcome(HALF, f"measure: lag, per: {per}, warn: 500")["level"] == "warning"


def test_a_rule_about_nobody_is_not_fine() -> None:
    source = WrittenInput(STOPPED)
    row = outcome(source, "measure: lag, warn: 1000, groups: [biling]")
    assert row["level"] == "unknown"
    assert "there is no state of share group 'biling': its groups are " in row["summary"]
    both = judged(source, "measure: lag, warn: 1000, groups: [billing, biling]").table.to_pylist()
    assert {row["group_id"]: row["level"] for row in both} == {"billing": "ok", "biling": "unknown"}


@pytest.mark.parametrize("measure", ["measure: lag", "measure: poison", ALONE])
def test_a_rule_about_topics_that_nobody_reads_is_not_fine(measure: str) -> None:
    source = WrittenInput(STOPPED)
    for groups, said in (
        ("billing", "no topic matches returns in share group 'billing'"),
        ("bil*", "no topic matches returns in any share group that matches bil*"),
        ("*", "no topic matches returns in any share group that matches *"),
    ):
        row = outcome(source, f"{measure}, warn: 1, groups: ['{groups}'], topics: [returns]")
        assert (row["level"], row["value"], row["summary"]) == ("unknown", None, said)


def test_a_rule_about_groups_that_were_not_chosen_does_not_say_that_they_are_gone() -> None:
    source, about = WrittenInput(STOPPED), rules("measure: lag, warn: 1, groups: [billing, b-*]")
    for choice in (Choice(frozenset({"other"})), Choice(topics={"other": frozenset()})):
        found = check(source, about, "local", choice=choice).table
        assert found.column("summary").to_pylist() == [
            f"nothing that was chosen (--group, --topic) matches {name}"
            for name in ("billing", "b-*")
        ]
        assert set(found.column("level").to_pylist()) == {"unknown"}


def test_groups_and_topics_are_chosen_by_patterns() -> None:
    writes = [Write(600, 6600, group=group) for group in ("billing", "order-a", "order-b", "x[1]")]
    line = "measure: lag, warn: 100, groups: ['order-?', 'x[[]1]']"
    table = judged(WrittenInput(writes), line).table
    assert sorted(table.column("group_id").to_pylist()) == ["order-a", "order-b", "x[1]"]
    row = outcome(WrittenInput(writes[:1]), "measure: lag, warn: 100, topics: [returns]")
    assert row["level"] == "unknown"


def test_the_worst_share_partition_stands_for_its_group() -> None:
    writes = [Write(600, start, partition=p) for p, start in enumerate([7200, 6900, 6500, 6600])]
    line = "measure: lag, per: partition, warn: 300, critical: 600"
    row = outcome(WrittenInput(writes, partitions_of_topic=4), line)
    result = [row[name] for name in ("level", "partition", "value", "at_this_level")]
    assert result == ["critical", 2, 700, 2]


def test_silences_end() -> None:
    source = WrittenInput([Write(600, 6600, group=group) for group in ("billing", "orders")])
    until = "silences: [{until: '%s', groups: [bil*], reason: moving}]"
    for_an_hour = until % (NOW + timedelta(hours=1)).isoformat()
    found = judged(source, "measure: lag, critical: 100", silences=for_an_hour)
    assert found.level == "critical"  # the other group
    silenced = {row["group_id"]: row["silenced_until"] for row in found.table.to_pylist()}
    assert silenced == {"billing": NOW + timedelta(hours=1), "orders": None}
    alone = WrittenInput([Write(600, 6600)])
    for text, level in (
        (for_an_hour, "ok"),
        (until % NOW.isoformat(), "critical"),
        ("silences: [{until: 2030-01-01T00:00:00Z, rules: [other]}]", "critical"),
        ("silences: [{from: 2029-01-01T00:00:00Z, until: 2030-01-01T00:00:00Z}]", "critical"),
    ):
        assert judged(alone, "measure: lag, critical: 100", silences=text).level == level


# ---- the command
@pytest.mark.parametrize(
    ("line", "code", "level"),
    [
        ("measure: lag, warn: 100", 0, "OK"),
        ("measure: poison, warn: 1", 1, "WARNING"),
        ("measure: poison, critical: 1", 2, "CRITICAL"),
        ("measure: lag, warn: 1, groups: [none]", 3, "UNKNOWN"),
    ],
)
def test_exit_codes_and_rows(line: str, code: int, level: str, tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(f"version: 1\nrules: [{{name: r, {line}}}]")
    given = ("check", "--rules", str(file), "--capture", str(SCENARIOS / "poison"))
    people = command(*given, code=code)
    assert people.stdout.splitlines()[0] == f"{level}: 1 {level.lower()}"
    assert len(people.stdout.splitlines()) == (1 if code == 0 else 3)
    (row,) = map(json.loads, command(*given, "-o", "json").stdout.splitlines())
    assert (list(row), row["level"]) == (CHECKED.names, level.lower())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--capture CAPTURE", "Missing option '--rules'"),
        ("--rules GOOD", "choose one input"),
        ("--rules GOOD --capture CAPTURE --engine abacus", "'abacus' is not one of"),
        ("--rules BAD --capture CAPTURE", "bad.yaml:2:19: mesure: unknown key"),
        ("--rules none.yaml --capture CAPTURE", "cannot read the rules"),
        ("--rules GOOD --capture .", "give a folder that `sharelag capture` wrote"),
        ("--rules GOOD --bootstrap-server 127.0.0.1:1 --timeout 1000", "no broker answered"),
        ("--rules BAD --capture CAPTURE -o json", "unknown key"),
        ("-o json --capture CAPTURE", "Missing option '--rules'"),
        ("--nonsense --output=json", "No such option"),
        ("--rules GOOD -ojson", "choose one input"),
        ("--engine abacus -o json", "'abacus' is not one of"),
    ],
)
def test_whatever_goes_wrong_is_unknown(
    arguments: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, key in (("good", "measure"), ("bad", "mesure")):
        text = f"version: 1\nrules: [{{name: r, {key}: lag, warn: 1}}]"
        (tmp_path / f"{name}.yaml").write_text(text)
    places = {"CAPTURE": str(SCENARIOS / "poison"), "GOOD": "good.yaml", "BAD": "bad.yaml"}
    answer = command("check", *(places.get(word, word) for word in arguments.split()), code=3)
    if "json" in arguments:
        row = json.loads(answer.stdout)
        assert (row["level"], said in row["summary"]) == ("unknown", True), row
        assert list(row) == CHECKED.names
    else:
        assert answer.stdout.startswith("UNKNOWN: ")
        assert said in answer.stdout.splitlines()[0]


def test_help_is_no_check() -> None:
    assert command("check", "--help").returncode == 0


def test_the_example_on_a_recording(tmp_path: Path) -> None:
    """Five groups have lag and no members, but not yet for the minute of the rule."""

    def checked(rules: Any, capture: Path = CAPTURE) -> tuple[str, list[dict[str, Any]]]:
        found = check(CaptureInput(capture), rules, "local")
        return found.level, found.table.to_pylist()

    def groups(rows: Any, level: str) -> set[str]:
        return {row["group_id"] for row in rows if row["level"] == level}

    text = (EXAMPLES / "rules.yaml").read_text()
    example = read_rules(EXAMPLES / "rules.yaml")
    assert {rule.unknown for rule in example.rules} == {"unknown"}
    level, rows = checked(example)
    # Of one group nothing was ever fetched, and it does not start at the earliest offset.
    assert (level, groups(rows, "unknown")) == ("unknown", {"analytics"})
    assert not groups(rows, "warning") | groups(rows, "critical")
    alone = {"billing", "clickstream", "fraud-check", "notifications", "shipping"}
    working = [row for row in rows if row["rule"] == "no working members"]
    since = {row["group_id"]: row["as_of"] - row["since"] for row in working if row["value"]}
    assert set(since) == alone
    assert timedelta(0) < min(since.values()) <= max(since.values()) < timedelta(minutes=1)
    begun = [rule.model_copy(update={"not_started": "ok"}) for rule in example.rules]
    level, rows = checked(example.model_copy(update={"rules": begun}))
    said = {row["summary"] for row in rows if row["group_id"] == "analytics"}
    assert level == "ok"
    why = "no record has been finished or released yet, so the start offset is unknown"
    assert f"not judged: {why}" in said
    file = tmp_path / "rules.yaml"
    soon = text.replace("critical: 1\n    for: 1m", "critical: 1\n    for: 10s")
    assert soon != text
    file.write_text(soon)
    level, rows = checked(read_rules(file))
    assert (level, groups(rows, "critical")) == ("critical", alone)


def test_what_was_never_fetched_is_what_its_rule_says() -> None:
    """Partition 1 was never fetched; with a level for that it is no part of the group's lag."""
    writes = [Write(600, 6600), Write(600, -1, partition=1, count=-1)]
    source = WrittenInput(writes, partitions_of_topic=2)
    for per in ("group", "partition"):
        row = outcome(source, f"measure: lag, per: {per}, warn: 5000, not_started: ok")
        assert (row["level"], row["value"], row["at_this_level"]) == ("ok", 600, 1)
        assert row["at_least"] is False
        row = outcome(source, f"measure: lag, per: {per}, warn: 5000, not_started: warn")
        result = [row[name] for name in ("level", "partition", "value", "at_this_level")]
        assert result == ["warning", 1, None, 1]
        assert row["summary"].startswith(
            "no record has been finished or released yet, so the start"
        )
    assert outcome(source, "measure: poison, warn: 1, not_started: critical")["level"] == "critical"
    assert outcome(source, "measure: imbalance, warn: 3, not_started: ok")["level"] == "ok"
    # Its end is not known either; that it was never fetched is.
    dark = WrittenInput(writes, partitions_of_topic=2, unreachable=frozenset({1}))
    assert outcome(dark, "measure: lag, warn: 5000, not_started: ok")["level"] == "ok"
    with pytest.raises(InputError, match="not_started: does not apply to the measure state_topic"):
        rules("measure: state_topic, warn: 1, not_started: ok")


#: A share partition with a lag of 600, and one that was never fetched, of 7,200 records each.
NEW = [Write(600, 6600), Write(600, -1, partition=1, count=-1)]


@pytest.mark.parametrize(
    ("reset", "level", "value", "at_least"),
    [
        ("earliest", "warning", 7800, False),
        ("latest", "unknown", 600, True),
        ("by_duration:PT1H", "unknown", 600, True),
    ],
)
def test_unfetched_counts_as_it_waits(reset: str, level: str, value: int, at_least: bool) -> None:
    source = WrittenInput(NEW, partitions_of_topic=2, group_settings={AUTO_RESET: reset})
    for line in ("measure: lag, warn: 5000", "measure: lag, warn: 5000, for: 5m"):
        row = outcome(source, line)
        assert (row["level"], row["value"], row["at_least"]) == (level, value, at_least)
        assert at_least == ("lag 600 or more: no record has been finished" in row["summary"])
    # What is known is enough to know that it is too much.
    row = outcome(source, "measure: lag, warn: 500")
    assert (row["level"], row["value"]) == ("warning", value)
    even = outcome(source, "measure: imbalance, warn: 1.5")["level"]
    assert even == ("warning" if reset == "earliest" else "unknown")


def test_a_log_without_records_leaves_nothing_to_do() -> None:
    source = WrittenInput(NEW[1:], rate=0, partitions_of_topic=2)
    for measure in ("lag", "age", "drain", "window", "retention", "poison"):
        line = {"age": "1s", "drain": "1s", "retention": "1s"}.get(measure, "1")
        assert outcome(source, f"measure: {measure}, warn: {line}")["level"] == "ok", measure


def test_a_state_without_a_snapshot_is_not_one_that_was_never_fetched(tmp_path: Path) -> None:
    """Of an update that leaves the start offset as it was, its snapshot is missing."""
    update = {"group_id": "billing", "topic_id": TOPIC_ID, "partition": 0, "snapshot_epoch": 0}
    update |= {"leader_epoch": 0, "start_offset": -1, "delivery_complete_count": 1}
    update |= {"state_batches": []}
    key, value = encode_record(SHARE_UPDATE, update)
    row = {"key": key, "value": value, "topic": STATE_TOPIC, "partition": 0, "offset": 7}
    raw = tmp_path / "raw.parquet"
    pq.write_table(pa.Table.from_pylist([row], schema=schemas.RAW), raw)
    for brief in ([], ["--brief"]):
        said = command("lag", *brief, "--raw", str(raw), "-o", "json").stdout
        (found,) = map(json.loads, said.splitlines())
        assert (found["lag"], found["lag_reason"]) == (None, "records_missing")


@pytest.mark.parametrize(
    ("source", "line", "level", "said"),
    [
        (HALF, "measure: imbalance, min_lag: 5000, warn: 3", "unknown",
         "the lag of some share partitions is unknown"),
        (HALF, "measure: cause, causes: [hot_partition], warn: 1", "unknown", f"or more: {NO_END}"),
        # The state topic alone does not say who is in a group.
        (WrittenInput(WRITES, partitions_of_topic=4), "measure: cause, causes: [hot_partition], warn: 1", "ok", ""),
        (WrittenInput(WRITES, partitions_of_topic=4),
         "measure: cause, causes: [hot_partition, no_members], warn: 1", "unknown", "the members are unknown"),
    ],
)  # fmt: skip
def test_half_of_the_lag_is_unknown(source: WrittenInput, line: str, level: str, said: str) -> None:
    row = outcome(source, line)
    assert (row["level"], said in row["summary"]) == (level, True)
