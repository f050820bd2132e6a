"""Is the brief lag that of the whole answer, however it is found?"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sharelag.engine import reading
from sharelag.inputs import CaptureInput, Input, RawInput
from sharelag.metrics.lag import BRIEF
from sharelag.monitoring.checks.judge import check
from sharelag.monitoring.checks.rules import parse_rules
from sharelag.replay import positions
from sharelag.replay.moment import Choice
from sharelag.wire.fields import STATE_KINDS
from sharelag.workbench import Workbench
from sharelag.workbench.result import Result
from tests.support import generators, readings
from tests.support.cases import Cases
from tests.support.chapters import CAPTURE
from tests.support.command import sharelag as command
from tests.support.records import raw

CHAPTERS = str(CAPTURE)
CAPTURES = sorted(
    path.parent for path in Path(__file__).parents[3].glob("data/captures/**/capture.json")
)


@pytest.fixture(autouse=True)
def scan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scan however few records there are."""
    monkeypatch.setattr(reading, "SCAN_FROM_RECORDS", 0)


def equal(source: Input, choice: Choice | None = None) -> Result:
    """Assert that the brief answer is the same columns of the whole one; return it."""
    bench = Workbench(source, choice=choice or Choice(), engine="local", asks_once=True)
    brief, whole = bench.lag(brief=True), bench.refresh().lag()
    assert brief.table.equals(whole.table.select(BRIEF.names))
    assert (brief.rejected, brief.engine) == (whole.rejected, whole.engine)
    return brief


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Note each scan, and whether it knew the answer."""
    known: list[bool] = []
    latest_positions = positions.latest_positions

    def noted(raw: object, **given: object) -> object:
        found = latest_positions(raw, **given)  # type: ignore[arg-type]
        known.append(found is not None)
        return found

    monkeypatch.setattr(positions, "latest_positions", noted)
    return known


def test_every_recording_has_the_same_lag_in_brief(scanned: list[bool]) -> None:
    rows = 0
    for path in CAPTURES:
        rows += equal(CaptureInput(path)).table.num_rows
    assert rows > 20
    assert len(scanned) == len(CAPTURES)
    assert all(scanned), "no recording needs its batches"


def test_some_groups_and_topics(scanned: list[bool]) -> None:
    for path in CAPTURES[:3]:
        whole = readings.lag(CaptureInput(path), "local").table
        group, topic = (whole.column(name)[0].as_py() for name in ("group_id", "topic"))
        found = equal(CaptureInput(path), Choice(frozenset({group})))
        assert set(found.table.column("group_id").to_pylist()) == {group}
        equal(CaptureInput(path), Choice(topics={topic: frozenset()}))
    assert all(scanned)


def test_a_check_of_lag_alone_says_what_one_of_everything_says(
    scanned: list[bool], cases: Cases
) -> None:
    some = CAPTURES[: cases(6, len(CAPTURES))]
    lag = "{name: lag, measure: lag, warn: 1, critical: 100}"
    age = "{name: age, measure: age, warn: 1s}"
    for path in some:
        alone, beside = (
            check(CaptureInput(path), parse_rules(f"version: 1\nrules: [{rules}]"), "local").table
            for rules in (lag, f"{lag}, {age}")
        )
        assert alone.equals(beside.filter(pc.equal(beside.column("rule"), "lag")))
    assert len(scanned) == len(some), "a check of lag and age replays windows"


def test_an_export_of_lag_alone_leaves_out_what_is_unknown(tmp_path: Path) -> None:
    texts = []
    for options in ((), ("--brief",)):
        file = tmp_path / "lag.prom"
        done = command(
            "export", "prometheus", "--textfile", str(file), *options, "--capture", CHAPTERS
        )
        assert done.returncode == 0, done.stderr
        lines = file.read_text("utf-8").splitlines()
        texts.append({line for line in lines if line.startswith("kafka_share_group_")})
    whole, brief = ({line for line in one if "_collect_" not in line} for one in texts)
    brief = {line for line in brief if "last_success" not in line}
    assert brief < whole
    assert {line.split("{")[0] for line in brief} == {
        "kafka_share_group_lag",
        "kafka_share_group_start_offset",
        "kafka_share_group_delivery_complete_count",
        "kafka_share_group_sum_lag",
        "kafka_share_group_max_lag",
        "kafka_share_group_imbalance_ratio",
        "kafka_share_group_unknown_lags",
    }


def test_records_that_must_be_replayed_and_rejects(tmp_path: Path, scanned: list[bool]) -> None:
    random = Random(3)
    ordered = [*generators.sequence(random, keys=4, length=200), (b"\0\1", b"")]
    turned = [generators.record(random, STATE_KINDS[n % 2]) for n in range(300)]
    for name, records in (("ordered", ordered), ("turned", turned)):
        pq.write_table(pa.Table.from_batches([raw(records)]), tmp_path / f"{name}.parquet")
        answer = equal(RawInput(str(tmp_path / f"{name}.parquet")))
        assert answer.rejected == (name == "ordered")
    assert scanned == [True, False]
