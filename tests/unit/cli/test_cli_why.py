"""`history`, `explain`, `imbalance` and `health`, for people and for machines."""

import csv
import io
import json
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from sharelag import schemas
from tests.support.captures import MOMENTS, half_known
from tests.support.chapters import CAPTURE
from tests.support.command import ask as rows
from tests.support.command import refused, sharelag
from tests.support.kafka.describe import parse_describe
from tests.support.records import assert_fields

SCENARIOS = CAPTURE.parent / "scenarios"
STUCK = str(SCENARIOS / "head_of_line")


def test_history_has_a_row_a_record() -> None:
    lines = rows("history", "--capture", STUCK, "--topic", "head-of-line-orders:0")
    assert list(lines[0]) == [*schemas.HISTORY.names, "topic"]
    assert [r["record_offset"] for r in lines] == sorted(line["record_offset"] for line in lines)
    assert lines[0]["record_kind"] == "snapshot"
    assert lines[0]["finished"] is None
    # What was finished step by step is all but the stuck record, and nobody finished that.
    assert sum(line["finished"] or 0 for line in lines) == 120
    assert lines[-1]["effective_start_offset"] == 6
    late = rows("history", "--capture", STUCK, "--since", lines[10]["record_timestamp"])
    assert 0 < len(late) < len(rows("history", "--capture", STUCK))
    heading = sharelag("history", "--capture", STUCK).stdout.splitlines()[0].split()
    assert heading[:5] == ["TIME", "GROUP", "TOPIC", "PARTITION", "RECORD"]


def test_history_at_regular_moments_has_the_lag() -> None:
    lines = rows("history", "--capture", STUCK, "--every", "2s")
    assert list(lines[0]) == schemas.TIMELINE.names
    of_0 = [line for line in lines if line["partition"] == 0 and line["lag"] is not None]
    assert len(of_0) >= 3
    assert of_0[-1]["lag"] == 1
    assert all(
        r["lag"] == r["end_offset"] - r["start_offset"] - r["delivery_complete_count"] for r in of_0
    )
    assert {line["lag_reason"] for line in lines} <= {None, "no_end_offset_then", "no_start_offset"}
    later = ("--since", "2100-01-01T00:00:00Z", "--every", "5s")
    assert rows("history", "--capture", STUCK, *later) == []
    # The last row is as of the capture, not of the last record.
    assert max(line["as_of"] for line in lines) == rows("lag", "--capture", STUCK)[0]["as_of"]
    assert "choose a longer step" in refused("history", "--capture", STUCK, "--every", "1ms")


def test_explain_names_causes_with_their_evidence() -> None:
    (cause,) = rows("explain", "--capture", STUCK, "--patience", "2s")
    assert list(cause) == schemas.CAUSES.names
    assert_fields(cause, cause="head_of_line", rank=1, partition=0, held=1)
    evidence = {one["name"]: one["value"] for one in cause["evidence"]}
    assert (evidence["offset"], evidence["deliveries"]) == ("6", "5")
    people = sharelag("explain", "--capture", STUCK, "--patience", "2s")
    assert "1. warning: head of line  head-of-line-orders:0, holds 1, since " in people.stdout
    assert "offset 6" in people.stdout
    assert "-> check the record at that offset" in people.stdout
    assert "as of 2026-11-21T" in people.stderr
    table = sharelag("explain", "--capture", STUCK, "--patience", "2s", "-o", "csv").stdout
    assert next(csv.DictReader(io.StringIO(table)))["cause"] == "head_of_line"


def test_a_capture_without_settings_says_what_is_assumed(tmp_path: Path) -> None:
    without = shutil.ignore_patterns("settings.parquet")
    bare = shutil.copytree(CAPTURE, tmp_path / "bare", ignore=without)
    answer = sharelag("explain", "--capture", str(bare), "--group", "billing", code=0)
    assert "Kafka's defaults are assumed" in answer.stderr
    assert answer.stdout.startswith("billing  lag 2,390 in 10 share partitions")


def test_imbalance_shows_figures_and_a_verdict() -> None:
    hot = str(SCENARIOS / "hot_partition")
    lines = rows("imbalance", "--capture", hot, "--by", "partition")
    assert list(lines[0]) == schemas.IMBALANCE.names
    (lag,) = [line for line in lines if line["measure"] == "lag" and line["topic"] is None]
    assert lag["items"] == 6
    assert lag["max_mean"] > 5
    assert lag["top_share"] > 0.9
    said = sharelag("imbalance", "--capture", hot).stderr
    assert "that receive more records than the others" in said
    # People see the most uneven first, as in Python; scripts have the names in order.
    ginis = [one["gini"] for one in rows("imbalance", "--capture", "demo", "--sort", "gini")]
    known = [gini for gini in ginis if gini is not None]
    assert known == sorted(known, reverse=True)
    first = sharelag("imbalance", "--capture", "demo", "--top", "1").stdout.splitlines()[1]
    assert first.split()[0] == "fulfilment"
    (verdict,) = rows("imbalance", "--capture", hot, "--verdict")
    assert (verdict["verdict"], verdict["idle_members"]) == ("data_skew", 0)
    trend = rows("imbalance", "--capture", hot, "--every", "3s", "--by", "partition")
    assert len({line["as_of"] for line in trend}) >= 3


def test_of_the_past_it_says_which_values_are_those_of_now() -> None:
    asked = ("explain", "--capture", STUCK, "--engine", "local")
    words = "settings, retention and last stable offsets of that moment; the current ones are used"
    assert words not in sharelag(*asked).stderr
    (moment,) = {line["as_of"] for line in rows("lag", "--capture", STUCK)[:1]}
    assert words in sharelag(*asked, "--as-of", moment).stderr


def test_health_of_the_state_topic() -> None:
    lines = rows("health", "--capture", str(CAPTURE))
    assert (list(lines[0]), sum(line["records"] for line in lines)) == (schemas.HEALTH.names, 1780)
    assert {line["misplaced"] for line in lines} == {0}
    assert all(line["bytes_per_finished"] > 1 for line in lines)
    assert "UPDATES/SNAPSHOT" in sharelag("health", "--capture", str(CAPTURE)).stdout


def test_lags_of_several_moments_have_no_sum(tmp_path: Path) -> None:
    half = half_known(SCENARIOS / "hot_partition", tmp_path / "half")
    for command in ("history", "imbalance"):
        done = sharelag(command, "--every", "2s", "--capture", str(half), "--engine", "local")
        (summary, *notes) = done.stderr.splitlines()
        assert re.match(r"sharelag: \d+ rows, as of ", summary), summary
        assert any(re.search(r"not known: .* in \d+ of \d+ rows$", one) for one in notes), notes


def test_what_happened_is_not_all_known_where_records_are_missing(tmp_path: Path) -> None:
    capture = shutil.copytree(CAPTURE, tmp_path / "capture")
    file = next((capture / "records").glob("*.parquet"))
    records = pq.read_table(file)
    pq.write_table(records.filter(pc.not_equal(records["offset"], 5)), file)
    said = sharelag("history", "--events", "--capture", str(capture), "--engine", "local")
    lost = "of the state topic, whose records are missing"
    assert said.returncode == 3
    assert lost in said.stdout + said.stderr


def test_a_check_names_a_topic_by_its_id_where_its_name_is_not_known(tmp_path: Path) -> None:
    capture = shutil.copytree(STUCK, tmp_path / "capture")
    offsets = pq.read_table(capture / "offsets.parquet")
    (topic_id,) = set(offsets["topic_id"].to_pylist())
    pq.write_table(offsets.slice(0, 0), capture / "offsets.parquet")
    rules = tmp_path / "rules.yaml"
    rules.write_text("version: 1\nrules: [{name: age, measure: age, warn: 1d}]")
    asked = ("check", "--rules", str(rules), "--capture", str(capture), "--engine", "local")
    assert f" {topic_id}:0 " in sharelag(*asked, code=3).stdout


def test_what_is_wrong_with_the_state_topic_names_its_partition(tmp_path: Path) -> None:
    records = pq.read_table(CAPTURE / "records")
    is_lost = pc.and_(pc.equal(records["partition"], 3), pc.equal(records["offset"], 5))
    pq.write_table(records.filter(pc.invert(is_lost)), tmp_path / "raw.parquet")
    raw = ("--raw", str(tmp_path / "raw.parquet"), "--engine", "local")
    said = "state partition 3: 1 offset is missing from 0 to "
    assert said in sharelag("health", *raw).stderr
    rules = tmp_path / "rules.yaml"
    rules.write_text("version: 1\nrules: [{name: topic, measure: state_topic, critical: 1}]")
    assert f"1 finding: {said}" in sharelag("check", "--rules", str(rules), *raw, code=2).stdout
    assert "sharelag: 1 finding, " in sharelag("health", "--findings", *raw).stderr


def test_what_changed_between_two_moments() -> None:
    """Both moments were described by Kafka's own command when they were now."""
    noted = (path.with_suffix(".json").read_text() for path in (MOMENTS[3], MOMENTS[-1]))
    first, last = (json.loads(one)["as_of_ms"] for one in noted)
    iso = [datetime.fromtimestamp(ms / 1000, UTC).isoformat() for ms in (first, last)]
    lines = rows("windows", "--capture", str(CAPTURE), "--since", iso[0], "--as-of", iso[1])
    ours = {(line["group_id"], line["topic"], line["partition"]): line for line in lines}
    for path, side in ((MOMENTS[3], "before"), (MOMENTS[-1], "after")):
        for result in parse_describe(path.read_text()):
            line = ours[result["group_id"], result["topic"], result["partition"]]
            assert line[f"start_offset_{side}"] == result["start_offset"]
    assert {line["change"] for line in lines} >= {"reset", "moved"}


def test_kafkas_command_before_4_2_printed_no_lag_to_compare_with(tmp_path: Path) -> None:
    path = tmp_path / "described.txt"
    path.write_text("GROUP TOPIC PARTITION START-OFFSET\nbilling orders 0 2\n")
    asked = ("reconcile", "--capture", "demo", "--topic", "orders:0", "--described", str(path))
    (row,) = rows(*asked)
    assert (row["described_lag"], row["matches"]) == (None, None)
    assert row["differences"][-1]["reason"] == "no_lag"
    why = "not known: Kafka's lag in 1 of 1 share partition (Kafka's command printed a dash, or no"
    assert why in sharelag(*asked).stderr
