"""Rules judge as they say, for as long as they say; what is not known is never fine."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharelag.cli.demo import CAPTURE
from sharelag.errors import InputError
from sharelag.monitoring.check import CHECKED, Checked, check
from sharelag.monitoring.checks.judge import judge
from sharelag.monitoring.checks.measures import Series
from sharelag.monitoring.checks.rules import Rule, Rules, parse_rules, read_rules
from sharelag.sources.inputs import CaptureInput
from sharelag.tables.level import worst
from tests.support.command import sharelag
from tests.support.written_input import NOW, Write, WrittenInput

EXAMPLES = CAPTURE.parents[1] / "examples"
SCENARIOS = CAPTURE.parent / "scenarios"


def rules(*lines: str, silences: str = "") -> Rules:
    text = "version: 1\nrules:\n" + "".join(
        f"- {{name: rule {n}, {line}}}\n" for n, line in enumerate(lines)
    )
    return parse_rules(text + silences)


def outcome(source: Any, line: str) -> dict[str, Any]:
    (row,) = judged(source, line).table.to_pylist()
    found: dict[str, Any] = row
    return found


def judged(source: Any, *lines: str, silences: str = "") -> Checked:
    return check(source, rules(*lines, silences=silences), "local")


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
    for: 10 minutes
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
"""


def test_every_mistake_names_its_line_and_column() -> None:
    with pytest.raises(InputError) as caught:
        parse_rules(WRONG, "r.yaml")
    told = [line.split(": ", 1) for line in str(caught.value).split("; ")]
    assert [(place, words.split(",")[0]) for place, words in told] == [
        ("r.yaml:5:5", "warn: expected a number"),
        ("r.yaml:6:5", "grups: unknown key"),
        ("r.yaml:10:5", "critical: must be worse than warn"),
        ("r.yaml:11:5", "for: invalid duration '10 minutes': use a number with a unit"),
        ("r.yaml:12:5", "figure: does not apply to the measure age: remove it"),
        ("r.yaml:13:5", "measure: Input should be 'lag'"),
        ("r.yaml:16:5", "warn: duplicate key"),
        ("r.yaml:17:31", told[7][1].split(",")[0]),
        ("r.yaml:18:5", "rules: set warn"),
        ("r.yaml:19:45", "critical: must be worse than warn"),
        ("r.yaml:20:46", "for: does not apply to the measure state_topic: remove it"),
        ("r.yaml:22:5", "until: add a time zone"),
    ]
    assert told[7][1].startswith(
        "causes: unknown cause 'no_member': choose from no_members, unassigned"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
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
def test_what_is_no_rule_file(text: str, told: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_rules(text, "r.yaml")
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


# ---- judging


@st.composite
def cases(draw: st.DrawFn) -> tuple[Rule, Series]:
    count, steps = draw(st.integers(1, 4)), draw(st.integers(1, 8))
    numbers = st.sampled_from(
        [np.nan, -np.inf, np.inf, 0.0, 50.0, 79.0, 80.0, 99.0, 100.0, 150.0, 200.0]
    )
    values = np.array(
        draw(
            st.lists(
                st.lists(numbers, min_size=steps, max_size=steps), min_size=count, max_size=count
            )
        )
    )
    bounds = st.lists(
        st.lists(st.booleans(), min_size=steps, max_size=steps), min_size=count, max_size=count
    )
    exact = ~np.isnan(values) & np.array(draw(bounds))
    at = np.cumsum(draw(st.lists(st.integers(1, 90), min_size=steps, max_size=steps))) * 1000
    rule = {"name": "x", "measure": "lag", "warn": 100, "for": f"{draw(st.integers(0, 200))}s"}
    rule |= {
        "hysteresis": draw(st.sampled_from([0, 0.2])),
        "unknown": draw(st.sampled_from(["ok", "unknown", "warn"])),
    }
    rule |= {"critical": 150} if draw(st.booleans()) else {}
    nothing = np.full(count, None, object)
    rule |= {"not_started": draw(st.sampled_from(["ok", "unknown", "warn"]))}
    never = np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    return Rule.model_validate(rule), Series(
        nothing, nothing, nothing, at, values, exact, ["?"] * count, never
    )


def plainly(rule: Rule, level: float, found: Series, row: int) -> bool | None:
    """Whether a level has lasted, one moment after the other; None where that is not known."""
    reached, told = False, []
    for value, exact in zip(found.values[row].tolist(), found.is_exact[row].tolist(), strict=True):
        low = level * (1 - rule.hysteresis) if reached else level
        reached = value >= level or (reached and value >= low)
        told.append(True if reached else False if exact else None)
    begin = int(found.at[-1]) - rule.lasting.total_seconds() * 1000
    earlier = [n for n, at in enumerate(found.at.tolist()) if at <= begin + 1]
    within = told[earlier[-1] :] if earlier else [*told, None]
    return False if False in within else None if None in within else True


@given(cases())
def test_judging_is_what_going_through_the_moments_gives(case: tuple[Rule, Series]) -> None:
    rule, found = case
    levels = judge(rule, found).level.tolist()
    for row, level in enumerate(levels):
        warn = plainly(rule, 100, found, row)
        critical = False if rule.critical is None else plainly(rule, 150, found, row)
        words = {"ok": "ok", "unknown": "unknown", "warn": "warning"}
        said, begun = words[rule.unknown], words[rule.not_started]
        expected = (
            "critical"
            if critical
            else "warning"
            if warn
            else said
            if None in (warn, critical)
            else "ok"
        )
        assert level == (begun if found.not_started[row] else expected)


def test_the_worst_of_several() -> None:
    assert worst([]) == "ok"
    assert worst(["ok", "unknown"]) == "unknown"
    assert worst(["unknown", "warning"]) == "warning"
    assert worst(["critical", "unknown", "warning"]) == "critical"


# ---- for how long


#: A record a second; nobody finishes any since ten minutes ago.
STOPPED = [Write(3600, 3600), Write(600, 6600)]


def test_a_level_has_to_last() -> None:
    source = WrittenInput(STOPPED)
    # 500 are passed for 100 seconds.
    assert outcome(source, "measure: lag, warn: 500")["level"] == "warning"
    lasting = outcome(source, "measure: lag, warn: 500, for: 90s")
    assert (lasting["level"], lasting["value"], lasting["group_id"]) == ("warning", 600, "billing")
    assert lasting["since"] == NOW - timedelta(seconds=90)
    assert lasting["summary"] == "lag 600, since 2026-11-21T03:08:30.000Z or earlier"
    assert outcome(source, "measure: lag, warn: 500, for: 3m")["level"] == "ok"
    assert (
        outcome(source, "measure: lag, warn: 500, critical: 100000, for: 90s")["level"] == "warning"
    )
    # Each share partition is as old as its lag here, so that age and lag are passed together.
    assert outcome(source, "measure: age, warn: 500s, for: 90s")["level"] == "warning"
    assert outcome(source, "measure: age, warn: 500s, for: 3m")["level"] == "ok"


def test_a_margin_is_worse_the_smaller_it_is() -> None:
    source = WrittenInput(STOPPED, retention=timedelta(seconds=1000))
    row = outcome(source, "measure: retention, warn: 500s, critical: 300s, for: 90s")
    assert (row["level"], row["value"], row["warn"], row["critical"]) == (
        "warning",
        400_000,
        500_000,
        300_000,
    )
    assert row["summary"].startswith("retention 6m 40s, since ")
    assert outcome(source, "measure: retention, warn: 399s")["level"] == "ok"
    for_ever = outcome(WrittenInput(STOPPED), "measure: retention, warn: 500s")
    assert (for_ever["level"], for_ever["value"]) == ("ok", None)


def test_what_was_pruned_is_bounded_by_the_first_state_that_is_left() -> None:
    """Kafka deletes records below the last snapshot; it still shows where the log ended then."""
    source = WrittenInput([Write(60, 6600)])
    # Five minutes ago at least 300 were not finished.
    assert outcome(source, "measure: lag, warn: 250, for: 5m")["level"] == "warning"
    assert outcome(source, "measure: age, warn: 250s, for: 5m")["level"] == "warning"
    unsure = outcome(source, "measure: lag, warn: 400, for: 5m")
    assert (unsure["level"], unsure["value"]) == ("unknown", 600)
    assert "unknown whether it has lasted 5m 0s" in unsure["summary"]
    assert outcome(source, "measure: lag, warn: 400, for: 5m, unknown: warn")["level"] == "warning"
    assert outcome(source, "measure: window, warn: 0, for: 5m")["level"] == "unknown"
    # A share partition that is as young as its first record did not lag before.
    young = WrittenInput([Write(60, 6600, made_ago=61)])
    assert outcome(young, "measure: lag, warn: 250, for: 5m")["level"] == "ok"
    assert outcome(young, "measure: lag, warn: 250, for: 30s")["level"] == "warning"


def test_hysteresis_keeps_a_level_until_it_is_well_passed() -> None:
    """The lag was more than 1,000 for long; half a minute ago members finished most of it."""
    for left, kept in ((900, True), (700, False)):
        source = WrittenInput([Write(3600, 3600), Write(2400, 3600), Write(30, 7200 - left)])
        assert outcome(source, "measure: lag, warn: 1000")["level"] == "ok"
        assert outcome(source, "measure: lag, warn: 1000, hysteresis: 0.2")["level"] == (
            "warning" if kept else "ok"
        )


def test_the_rates_of_the_past_are_those_of_then() -> None:
    """Nothing is finished since twenty minutes; until then as much as came."""
    steady = [Write(ago, 7200 - ago) for ago in range(5400, 1199, -300)]
    row = outcome(WrittenInput(steady), "measure: drain, warn: 10m, for: 5m")
    assert (row["level"], row["value"], row["summary"].split(",")[0]) == (
        "warning",
        None,
        "does not drain",
    )
    assert outcome(WrittenInput(steady), "measure: drain, warn: 10m, for: 50m")["level"] == "ok"


# ---- each measure


def test_the_window_is_measured_by_the_groups_own_limit() -> None:
    window = [Write(600, 6000, ((6000, 6099, 0, 1), (6100, 6159, 2, 1)), count=60)]
    row = outcome(WrittenInput(window), "measure: window, warn: 0.05")
    assert (row["level"], row["value"]) == ("warning", 0.08)  # of Kafka's 2,000
    own = WrittenInput(window, group_settings={"share.partition.max.record.locks": "160"})
    assert outcome(own, "measure: window, critical: 1")["level"] == "critical"


def test_poison_is_as_old_as_its_head() -> None:
    stuck = [Write(900, 6000, ((6000, 6000, 0, 1), (6001, 6099, 2, 1)), count=99)]
    stuck += [Write(300, 6000, ((6000, 6000, 0, 4), (6001, 6099, 2, 1)), count=99)]
    row = outcome(WrittenInput(stuck), "measure: poison, warn: 1, for: 10m")
    assert (row["level"], row["value"], row["topic"], row["partition"]) == (
        "warning",
        1,
        "orders",
        0,
    )
    assert outcome(WrittenInput(stuck), "measure: poison, warn: 1, for: 20m")["level"] == "ok"
    assert outcome(WrittenInput(stuck), "measure: poison, warn: 2")["level"] == "ok"


@pytest.mark.parametrize(
    ("name", "line", "level"),
    [
        (
            "no_members",
            "measure: cause, causes: [no_members], critical: 1, patience: 2s",
            "critical",
        ),
        (
            "no_members",
            "measure: cause, causes: [no_members], critical: 1, patience: 2s, for: 1h",
            "ok",
        ),
        ("no_members", "measure: lag, warn: 200, critical: 240", "critical"),
        ("no_members", "measure: age, warn: 4s, critical: 1h", "warning"),
        ("poison", "measure: poison, warn: 1", "warning"),
        ("window_full", "measure: window, warn: 0.8, critical: 1, for: 5s", "critical"),
        (
            "window_full",
            "measure: window, warn: 0.8, critical: 1, for: 10m",
            "ok",
        ),  # it is not so old
        ("hot_partition", "measure: imbalance, warn: 3", "warning"),
        ("hot_partition", "measure: imbalance, figure: gini, warn: 0.8, min_lag: 100000", "ok"),
        ("slow", "measure: drain, critical: 10m", "critical"),
        ("healthy", "measure: lag, warn: 1", "ok"),
        ("not_started", "measure: lag, warn: 1", "ok"),
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
    assert row["group_id"] in (
        None,
        json.loads((SCENARIOS / name / "expected.json").read_text())["group"],
    )


def test_what_will_count_soon_is_said() -> None:
    source = CaptureInput(SCENARIOS / "window_full")
    full = "measure: cause, causes: [window_full], critical: 1, for: 2m"
    row = outcome(source, full)
    assert (row["level"], row["due"] - row["since"]) == ("ok", timedelta(minutes=2))
    assert row["summary"].endswith("; would be critical in 1m 47s")
    assert outcome(source, "measure: lag, warn: 1, critical: 100, for: 1s")["due"] is None
    row = outcome(source, "measure: lag, critical: 351, for: 1h")
    assert row["level"] == "ok"
    assert "; would be critical within 1h 0m" in row["summary"]
    assert outcome(source, "measure: lag, critical: 352, for: 1h")["due"] is None


# ---- what is not known


@pytest.mark.parametrize("per", ["group", "partition"])
def test_half_of_the_partitions_cannot_be_read(per: str) -> None:
    writes = [Write(600, 6600, partition=p) for p in range(4)]
    source = WrittenInput(writes, partitions_of_topic=4, unreachable=frozenset({1, 3}))
    row = outcome(source, f"measure: lag, per: {per}, warn: 5000")
    assert row["level"] == "unknown"
    assert "the end offset could not be read from the partition's leader" in row["summary"]
    # What is known is enough to know that it is too much.
    assert outcome(source, f"measure: lag, per: {per}, warn: 500")["level"] == "warning"


def test_a_rule_about_nobody_is_not_fine() -> None:
    source = WrittenInput(STOPPED)
    row = outcome(source, "measure: lag, warn: 1000, groups: [biling]")
    assert row["level"] == "unknown"
    assert "there is no state of share group 'biling': there are " in row["summary"]
    both = judged(source, "measure: lag, warn: 1000, groups: [billing, biling]").table.to_pylist()
    assert {row["group_id"]: row["level"] for row in both} == {"billing": "ok", "biling": "unknown"}


def test_groups_and_topics_are_chosen_by_patterns() -> None:
    writes = [Write(600, 6600, group=group) for group in ("billing", "order-a", "order-b", "x[1]")]
    table = judged(
        WrittenInput(writes), "measure: lag, warn: 100, groups: ['order-?', 'x[[]1]']"
    ).table
    assert sorted(table.column("group_id").to_pylist()) == ["order-a", "order-b", "x[1]"]
    row = outcome(WrittenInput(writes[:1]), "measure: lag, warn: 100, topics: [returns]")
    assert row["level"] == "unknown"


def test_the_worst_share_partition_stands_for_its_group() -> None:
    writes = [Write(600, start, partition=p) for p, start in enumerate([7200, 6900, 6500, 6600])]
    row = outcome(
        WrittenInput(writes, partitions_of_topic=4),
        "measure: lag, per: partition, warn: 300, critical: 600",
    )
    assert (row["level"], row["partition"], row["value"], row["at_this_level"]) == (
        "critical",
        2,
        700,
        2,
    )


def test_silences_end() -> None:
    source = WrittenInput([Write(600, 6600, group=group) for group in ("billing", "orders")])
    until = "silences: [{until: '%s', groups: [bil*], reason: moving}]"
    found = judged(
        source,
        "measure: lag, critical: 100",
        silences=until % (NOW + timedelta(hours=1)).isoformat(),
    )
    assert found.level == "critical"  # the other group
    silenced = {row["group_id"]: row["silenced_until"] for row in found.table.to_pylist()}
    assert silenced == {"billing": NOW + timedelta(hours=1), "orders": None}
    alone = WrittenInput([Write(600, 6600)])
    for text, level in (
        (until % (NOW + timedelta(hours=1)).isoformat(), "ok"),
        (until % NOW.isoformat(), "critical"),
        ("silences: [{until: 2030-01-01T00:00:00Z, rules: [other]}]", "critical"),
        ("silences: [{from: 2029-01-01T00:00:00Z, until: 2030-01-01T00:00:00Z}]", "critical"),
    ):
        assert judged(alone, "measure: lag, critical: 100", silences=text).level == level


# ---- the command


def test_exit_codes_and_rows(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    stuck = str(SCENARIOS / "poison")
    for line, code, level in (
        ("measure: lag, warn: 100", 0, "OK"),
        ("measure: poison, warn: 1", 1, "WARNING"),
        ("measure: poison, critical: 1", 2, "CRITICAL"),
        ("measure: lag, warn: 1, groups: [none]", 3, "UNKNOWN"),
    ):
        file.write_text(f"version: 1\nrules: [{{name: r, {line}}}]")
        people = sharelag("check", "--rules", str(file), "--capture", stuck)
        assert people.returncode == code, people.stderr
        assert people.stdout.splitlines()[0] == f"{level}: 1 {level.lower()}"
        assert len(people.stdout.splitlines()) == (1 if code == 0 else 3)
        (row,) = sharelag(
            "check", "--rules", str(file), "--capture", stuck, "-o", "json"
        ).stdout.splitlines()
        assert list(json.loads(row)) == CHECKED.names
        assert json.loads(row)["level"] == level.lower()


def test_whatever_goes_wrong_is_unknown(tmp_path: Path) -> None:
    good, bad = tmp_path / "rules.yaml", tmp_path / "bad.yaml"
    good.write_text("version: 1\nrules: [{name: r, measure: lag, warn: 1}]")
    bad.write_text("version: 1\nrules: [{name: r, mesure: lag, warn: 1}]")
    capture = str(SCENARIOS / "poison")
    for arguments, told in (
        (["--capture", capture], "Missing option '--rules'"),
        (["--rules", str(good)], "choose one input"),
        (
            ["--rules", str(good), "--capture", capture, "--engine", "abacus"],
            "'abacus' is not one of",
        ),
        (["--rules", str(bad), "--capture", capture], f"{bad}:2:19: mesure: unknown key"),
        (["--rules", str(tmp_path / "none.yaml"), "--capture", capture], "cannot read the rules"),
        (
            ["--rules", str(good), "--capture", str(tmp_path)],
            "give a folder that `sharelag capture` wrote",
        ),
        (
            ["--rules", str(good), "--bootstrap-server", "127.0.0.1:1", "--timeout", "1000"],
            "no broker answered",
        ),
    ):
        answer = sharelag("check", *arguments)
        assert answer.returncode == 3, arguments
        assert answer.stdout.startswith("UNKNOWN: "), arguments
        assert told in answer.stdout.splitlines()[0]
    for arguments, told in (
        (["--rules", str(bad), "--capture", capture, "-o", "json"], "unknown key"),
        (["-o", "json", "--capture", capture], "Missing option '--rules'"),
        (["--nonsense", "--output=json"], "No such option"),
        (["--rules", str(good), "-ojson"], "choose one input"),
        (["--engine", "abacus", "-o", "json"], "'abacus' is not one of"),
    ):
        machine = sharelag("check", *arguments)
        assert machine.returncode == 3, arguments
        row = json.loads(machine.stdout)
        assert (row["level"], told in row["summary"]) == ("unknown", True), row
    assert sharelag("check", "--help").returncode == 0


def half_known(source: Path, folder: Path) -> Path:
    """The same capture, as if every second partition's leader had not answered."""
    shutil.copytree(source, folder)
    offsets = pq.read_table(folder / "offsets.parquet")
    place = offsets.schema.get_field_index("end_offset")
    odd = pa.array([n % 2 == 1 for n in offsets.column("partition").to_pylist()])
    ends = pa.compute.if_else(odd, pa.scalar(None, pa.int64()), offsets.column("end_offset"))
    pq.write_table(offsets.set_column(place, "end_offset", ends), folder / "offsets.parquet")
    return folder


def test_a_capture_with_half_of_the_ends_is_unknown_with_the_reason(tmp_path: Path) -> None:
    folder = half_known(SCENARIOS / "healthy", tmp_path / "half")
    file = tmp_path / "rules.yaml"
    file.write_text("version: 1\nrules: [{name: r, measure: lag, per: partition, warn: 1000}]")
    answer = sharelag("check", "--rules", str(file), "--capture", str(folder))
    assert answer.returncode == 3
    assert "the end offset could not be read from the partition's leader" in answer.stdout


def test_the_example_on_the_demo_and_on_half_of_it(tmp_path: Path) -> None:
    """Five groups have lag and no members, but not yet for the minute of the rule."""
    text = (EXAMPLES / "rules.yaml").read_text()
    example = read_rules(EXAMPLES / "rules.yaml")
    assert {rule.unknown for rule in example.rules} == {"unknown"}
    whole = check(CaptureInput(CAPTURE), example, "local")
    assert whole.level == "ok"
    alone = {"billing", "clickstream", "fraud-check", "notifications", "shipping"}
    since = {
        row["group_id"]: row
        for row in whole.table.to_pylist()
        if row["rule"] == "no working members"
    }
    assert {group for group, row in since.items() if row["value"]} == alone
    assert all(
        whole.as_of - timedelta(minutes=1) < since[group]["since"] < whole.as_of for group in alone
    )
    begun = {
        row["summary"]
        for row in whole.table.to_pylist()
        if row["group_id"] == "analytics" and not row["value"]
    }
    assert "not judged: no record was fetched yet, so the start offset is unknown" in begun
    file = tmp_path / "rules.yaml"
    soon = text.replace("critical: 1\n    for: 1m", "critical: 1\n    for: 10s")
    assert soon != text
    file.write_text(soon)
    found = check(CaptureInput(CAPTURE), read_rules(file), "local")
    assert (found.level, {row["group_id"] for row in found.table.to_pylist() if row["level"] == "critical"}) == (
        "critical", alone
    )  # fmt: skip

    half = ("--capture", str(half_known(CAPTURE, tmp_path / "half")))
    answer = sharelag("check", "--rules", str(EXAMPLES / "rules.yaml"), *half)
    assert answer.returncode == 3, answer.stdout
    assert answer.stdout.startswith("UNKNOWN: 20 unknown, 31 ok\n")
    assert "the end offset could not be read from the partition's leader" in answer.stdout
    groups = {
        row["group_id"]
        for row in judged_file(half[1], EXAMPLES / "rules.yaml")
        if row["level"] == "unknown"
    }
    assert groups == alone  # nothing was asked about those of which nothing was ever fetched


def judged_file(capture: str, file: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = check(
        CaptureInput(Path(capture)), read_rules(file), "local"
    ).table.to_pylist()
    return rows


def test_what_was_never_fetched_is_what_its_rule_says() -> None:
    """Partition 1 was never fetched; the lag of the group is that of partition 0 then."""
    writes = [Write(600, 6600), Write(600, -1, partition=1, count=-1)]
    source = WrittenInput(writes, partitions_of_topic=2)
    for per in ("group", "partition"):
        row = outcome(source, f"measure: lag, per: {per}, warn: 5000")
        assert (row["level"], row["value"], row["at_this_level"]) == ("ok", 600, 1)
        row = outcome(source, f"measure: lag, per: {per}, warn: 5000, not_started: warn")
        assert (row["level"], row["partition"], row["value"], row["at_this_level"]) == (
            "warning",
            1,
            None,
            1,
        )
        assert row["summary"] == "no record was fetched yet, so the start offset is unknown"
    assert outcome(source, "measure: poison, warn: 1, not_started: critical")["level"] == "critical"
    assert outcome(source, "measure: imbalance, warn: 3")["level"] == "ok"
    # Its end is not known either; that it was never fetched is.
    dark = WrittenInput(writes, partitions_of_topic=2, unreachable=frozenset({1}))
    assert outcome(dark, "measure: lag, warn: 5000")["level"] == "ok"
    with pytest.raises(InputError, match="not_started: does not apply to the measure cause"):
        rules("measure: cause, causes: [burst], warn: 1, not_started: ok")


def test_an_imbalance_and_causes_are_not_known_where_half_of_the_lag_is_not() -> None:
    writes = [Write(600, 6600, partition=p) for p in range(4)]
    source = WrittenInput(writes, partitions_of_topic=4, unreachable=frozenset({1, 3}))
    row = outcome(source, "measure: imbalance, min_lag: 5000, warn: 3")
    assert (row["level"], row["summary"]) == (
        "unknown",
        "the lag of some share partitions is unknown",
    )
    row = outcome(source, "measure: cause, causes: [hot_partition], warn: 1")
    assert row["level"] == "unknown"
    assert row["summary"].endswith(
        "or more: the end offset could not be read from the partition's leader"
    )
    # The state topic alone does not say who is in a group.
    whole = WrittenInput(writes, partitions_of_topic=4)
    assert outcome(whole, "measure: cause, causes: [hot_partition], warn: 1")["level"] == "ok"
    row = outcome(whole, "measure: cause, causes: [hot_partition, no_members], warn: 1")
    assert (row["level"], row["summary"].split(": ")[1]) == (
        "unknown",
        "the members are unknown",
    )
