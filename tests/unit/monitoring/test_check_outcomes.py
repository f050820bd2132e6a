"""What a check says: exit codes, rows, silences, and what is not known."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.monitoring.check import CHECKED, check
from sharelag.monitoring.checks.rules import read_rules
from sharelag.sources.inputs import CaptureInput
from sharelag.wire.encode import encode_record
from sharelag.wire.fields import SHARE_UPDATE, STATE_TOPIC
from tests.support.chapters import CAPTURE
from tests.support.command import sharelag
from tests.support.rules import EXAMPLES, STOPPED, judged, outcome, rules
from tests.support.written_input import NOW, TOPIC_ID, Write, WrittenInput

SCENARIOS = CAPTURE.parent / "scenarios"
AUTO_RESET = "share.auto.offset.reset"


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
        ("not_started", "measure: lag, warn: 192", "warning"),  # it starts at the earliest offset
        ("not_started", "measure: lag, warn: 193", "ok"),
        ("not_started", "measure: lag, warn: 1, not_started: ok", "ok"),
        ("not_started", "measure: age, warn: 1h", "unknown"),
        ("not_started", "measure: poison, warn: 1", "ok"),  # a failed delivery is written
        ("not_started", "measure: cause, causes: [no_members], warn: 1", "unknown"),
        ("not_started", "measure: cause, causes: [no_members], warn: 1, not_started: ok", "ok"),
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
    assert "there is no state of share group 'biling': its groups are " in row["summary"]
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
    for arguments, result in (
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
        assert result in answer.stdout.splitlines()[0]
    for arguments, result in (
        (["--rules", str(bad), "--capture", capture, "-o", "json"], "unknown key"),
        (["-o", "json", "--capture", capture], "Missing option '--rules'"),
        (["--nonsense", "--output=json"], "No such option"),
        (["--rules", str(good), "-ojson"], "choose one input"),
        (["--engine", "abacus", "-o", "json"], "'abacus' is not one of"),
    ):
        machine = sharelag("check", *arguments)
        assert machine.returncode == 3, arguments
        row = json.loads(machine.stdout)
        assert (row["level"], result in row["summary"]) == ("unknown", True), row
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
    # Of one group nothing was ever fetched, and it does not start at the earliest offset.
    assert whole.level == "unknown"
    assert {row["group_id"] for row in whole.table.to_pylist() if row["level"] != "ok"} == {
        "analytics"
    }
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
    begun = [rule.model_copy(update={"not_started": "ok"}) for rule in example.rules]
    whole = check(CaptureInput(CAPTURE), example.model_copy(update={"rules": begun}), "local")
    assert whole.level == "ok"
    said = {row["summary"] for row in whole.table.to_pylist() if row["group_id"] == "analytics"}
    assert "not judged: no record was fetched yet, so the start offset is unknown" in said
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
    assert answer.stdout.startswith("UNKNOWN: 36 unknown, 22 ok\n")
    assert "the end offset could not be read from the partition's leader" in answer.stdout
    groups = {
        row["group_id"]
        for row in judged_file(half[1], EXAMPLES / "rules.yaml")
        if row["level"] == "unknown"
    }
    assert groups == alone | {"analytics", "refunds"}  # of the others nothing was ever fetched


def judged_file(capture: str, file: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = check(
        CaptureInput(Path(capture)), read_rules(file), "local"
    ).table.to_pylist()
    return rows


def test_what_was_never_fetched_is_what_its_rule_says() -> None:
    """Partition 1 was never fetched; with a level for that it is no part of the group's lag."""
    writes = [Write(600, 6600), Write(600, -1, partition=1, count=-1)]
    source = WrittenInput(writes, partitions_of_topic=2)
    for per in ("group", "partition"):
        row = outcome(source, f"measure: lag, per: {per}, warn: 5000, not_started: ok")
        assert (row["level"], row["value"], row["at_this_level"]) == ("ok", 600, 1)
        assert row["at_least"] is False
        row = outcome(source, f"measure: lag, per: {per}, warn: 5000, not_started: warn")
        assert (row["level"], row["partition"], row["value"], row["at_this_level"]) == (
            "warning",
            1,
            None,
            1,
        )
        assert row["summary"] == "no record was fetched yet, so the start offset is unknown"
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
def test_what_was_never_fetched_counts_with_what_waits_there(
    reset: str, level: str, value: int, at_least: bool
) -> None:
    source = WrittenInput(NEW, partitions_of_topic=2, group_settings={AUTO_RESET: reset})
    for line in ("measure: lag, warn: 5000", "measure: lag, warn: 5000, for: 5m"):
        row = outcome(source, line)
        assert (row["level"], row["value"], row["at_least"]) == (level, value, at_least)
        assert at_least == ("lag 600 or more: no record was fetched yet" in row["summary"])
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
    update = {
        "group_id": "billing",
        "topic_id": TOPIC_ID,
        "partition": 0,
        "snapshot_epoch": 0,
        "leader_epoch": 0,
        "start_offset": -1,
        "delivery_complete_count": 1,
        "state_batches": [],
    }
    key, value = encode_record(SHARE_UPDATE, update)
    row = {"key": key, "value": value, "topic": STATE_TOPIC, "partition": 0, "offset": 7}
    raw = tmp_path / "raw.parquet"
    pq.write_table(pa.Table.from_pylist([row], schema=schemas.RAW), raw)
    (found,) = map(json.loads, sharelag("lag", "--raw", str(raw), "-o", "json").stdout.splitlines())
    assert (found["lag"], found["lag_reason"]) == (None, "records_missing")
    (found,) = map(
        json.loads, sharelag("lag", "--brief", "--raw", str(raw), "-o", "json").stdout.splitlines()
    )
    assert (found["lag"], found["lag_reason"]) == (None, "records_missing")


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
