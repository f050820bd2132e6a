"""Does `explain` name the right cause first, and nothing where nothing is wrong?"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sharelag import investigate, schemas
from sharelag.demo import CAPTURE
from sharelag.engine import Choice
from sharelag.explained import explained
from sharelag.metrics.causes import CAUSES
from sharelag.metrics.evidence import Evidence
from sharelag.metrics.explain import explain
from sharelag.metrics.lag import lag_arrow
from sharelag.metrics.observed import observe
from sharelag.metrics.progress import progress_arrow
from sharelag.replay import replay_arrow
from sharelag.replay.history import history_arrow
from sharelag.sources.inputs import CaptureInput
from sharelag.wire.encode import encode_record
from sharelag.wire.fields import SHARE_SNAPSHOT, SHARE_UPDATE
from tests.unit.test_history import decode
from tests.unit.test_replay import KEY, row

SCENARIOS = sorted(path.parent for path in (CAPTURE.parent / "scenarios").glob("*/expected.json"))
NOW = datetime(2026, 11, 21, 3, 10, tzinfo=UTC)


def expected(folder: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((folder / "expected.json").read_text())
    return told


def test_every_cause_has_a_recorded_scenario() -> None:
    """All but the defects of brokers, and what needs days, which are constructed below."""
    constructed = {"start_went_back", "count_regressed", "records_deleted", "retention_near"}
    recorded = {expected(folder)["cause"] for folder in SCENARIOS}
    assert recorded - {None} == {cause.name for cause in CAUSES} - constructed
    assert len(SCENARIOS) >= 20


@pytest.mark.parametrize("folder", SCENARIOS, ids=[folder.name for folder in SCENARIOS])
def test_the_right_cause_comes_first(folder: Path) -> None:
    told = expected(folder)
    evidence = investigate.gather(CaptureInput(folder), "local")
    causes = [line for line in explain(evidence).to_pylist() if line["group_id"] == told["group"]]
    if told["cause"] is None:
        assert causes == []
        return
    assert causes[0]["cause"] == told["cause"], [line["cause"] for line in causes]
    assert [line["rank"] for line in causes] == list(range(1, len(causes) + 1))
    assert causes[0]["topic"]
    assert all(line["evidence"][0]["name"] == "partitions" for line in causes)
    assert causes[0]["held"] is None or 0 < causes[0]["held"] <= sum(evidence.lag.column("effective_lag").to_pylist())


def test_a_past_moment_is_explained_from_what_was_written_by_then() -> None:
    """While members worked nothing was wrong; after they had left, records went on to arrive."""
    source = CaptureInput(CAPTURE.parent / "scenarios" / "no_members")
    left = investigate.gather(source, "local").groups.column("emptied")[0].as_py()
    before = investigate.gather(source, "local", left - timedelta(seconds=1))
    assert before.members.num_rows == 2
    assert "no_members" not in explain(before).column("cause").to_pylist()
    assert before.as_of == left - timedelta(seconds=1)


def test_only_what_is_chosen_is_explained() -> None:
    source = CaptureInput(CAPTURE)
    evidence = investigate.gather(source, "local", choice=Choice(frozenset({"fraud-check"})))
    assert set(evidence.lag.column("group_id").to_pylist()) == {"fraud-check"}
    assert set(explain(evidence).column("group_id").to_pylist()) <= {"fraud-check"}
    everything = explain(investigate.gather(source, "local"))
    assert "not_started" in everything.column("cause").to_pylist()


def test_the_order_of_rows_does_not_matter() -> None:
    evidence = investigate.gather(CaptureInput(CAPTURE), "local")
    shuffled = {
        name: table.take(pa.array(np.random.default_rng(7).permutation(table.num_rows)))
        for name, table in vars(evidence).items()
        if isinstance(table, pa.Table) and table.num_rows
    }
    once, again = explain(evidence).to_pylist(), explain(replace(evidence, **shuffled)).to_pylist()
    assert len(once) > 3
    for line in (*once, *again):
        line["evidence"] = sorted(
            (one["name"], ",".join(sorted(one["value"].split(",")))) for one in line["evidence"] if one["name"]
        )
    assert once == again


def test_what_is_not_known_speaks_for_nothing() -> None:
    evidence = investigate.gather(CaptureInput(CAPTURE.parent / "scenarios" / "no_members"), "local")
    bare = Evidence(as_of=evidence.as_of, lag=evidence.lag)
    assert explain(bare).num_rows == 0
    assert explain(Evidence(as_of=NOW, lag=schemas.LAG.empty_table())).num_rows == 0


# ---- constructed histories


def constructed(*writes: dict[str, Any], log_start: int = 0, end: int = 200, **logs: Any) -> Evidence:
    """Evidence of one share partition: a snapshot, then updates, ten seconds apart."""
    kinds = [SHARE_SNAPSHOT] + [SHARE_UPDATE] * (len(writes) - 1)
    records = [
        encode_record(kind, row(write["start"], write["batches"], delivery_complete_count=write["count"]))
        for kind, write in zip(kinds, writes, strict=True)
    ]
    decoded = decode(records)
    times = [NOW - timedelta(seconds=10 * n) for n in range(len(records))][::-1]
    decoded = decoded.set_column(
        decoded.schema.get_field_index("timestamp"), "timestamp", pa.array(times, schemas.TIMESTAMP)
    )
    place = {"topic": "orders", "topic_id": KEY.topic_id, "partition": 0}
    known = {"log_start_offset": log_start, "end_offset": end, "leader_epoch": 0, "as_of": NOW}
    offsets = pa.Table.from_pylist([place | known], schemas.OFFSETS)
    windows = pa.Table.from_batches([replay_arrow(decoded)])
    lag = pa.Table.from_batches([lag_arrow(windows, offsets)])
    observed = pa.Table.from_batches([observe(history_arrow(decoded), NOW, timedelta(hours=1))])
    log = pa.Table.from_pylist([place | {"as_of": NOW} | logs], schemas.LOGS)
    oldest = {"asked_offset": lag.column("effective_start_offset")[0].as_py()}
    times_table = pa.Table.from_pylist(
        [place | oldest | {"offset": oldest["asked_offset"], "timestamp": NOW - timedelta(hours=1)}], schemas.TIMES
    )
    progress = progress_arrow(lag, observed, schemas.OFFSETS.empty_table(), times_table, log, NOW)
    return Evidence(
        as_of=NOW,
        lag=lag,
        windows=windows,
        observed=observed,
        progress=pa.Table.from_batches([progress]),
        times=times_table,
        logs=log,
    )


def write(start: int, count: int, *batches: tuple[int, int, int, int]) -> dict[str, Any]:
    return {"start": start, "count": count, "batches": list(batches)}


def causes_of(evidence: Evidence) -> list[str]:
    names: list[str] = explain(evidence).column("cause").to_pylist()
    return names


def test_a_start_offset_that_went_back() -> None:
    steps = [write(100, 0), write(100, 10, (100, 109, 2, 1)), write(110, 0), write(100, 0)]
    evidence = constructed(*steps, end=120)
    assert causes_of(evidence)[0] == "start_went_back"
    # Going on, or a reset by the group coordinator, is none.
    assert "start_went_back" not in causes_of(constructed(*steps[:3], end=120))


def test_a_count_that_regressed() -> None:
    steps = [write(100, 0), write(100, 10, (100, 109, 2, 1)), write(100, 3, (110, 111, 2, 1))]
    assert causes_of(constructed(*steps))[0] == "count_regressed"
    assert "count_regressed" not in causes_of(constructed(*steps[:2]))


def test_records_that_were_deleted_unfinished() -> None:
    steps = [write(100, 0), write(100, 10, (100, 109, 2, 1))]
    evidence = constructed(*steps, log_start=150)
    (line,) = [line for line in explain(evidence).to_pylist() if line["cause"] == "records_deleted"]
    assert line["held"] == 40
    assert "records_deleted" not in causes_of(constructed(*steps, log_start=105))


def test_records_that_will_be_deleted_soon() -> None:
    steps = [write(100, 0), write(100, 10, (100, 109, 2, 1))]
    hour = 3_600_000
    near = constructed(*steps, cleanup_policy="delete", retention_ms=hour + 60_000)
    assert "retention_near" in causes_of(near)
    far = constructed(*steps, cleanup_policy="delete", retention_ms=10 * hour)
    for_ever = constructed(*steps, cleanup_policy="delete", retention_ms=-1)
    compacted = constructed(*steps, cleanup_policy="compact", retention_ms=hour + 60_000)
    assert not {"retention_near"} & {*causes_of(far), *causes_of(for_ever), *causes_of(compacted)}


def test_people_read_words_and_escaped_names() -> None:
    evidence = investigate.gather(CaptureInput(CAPTURE.parent / "scenarios" / "window_full"), "local")
    hostile = "evil\x1b[31m[bold]<b>"
    renamed = {
        name: table.set_column(0, "group_id", pa.repeat(hostile, table.num_rows))
        for name, table in vars(evidence).items()
        if isinstance(table, pa.Table) and table.column_names[:1] == ["group_id"]
    }
    renamed["settings"] = evidence.settings.set_column(
        1, "entity", pa.repeat(hostile, evidence.settings.num_rows)
    )
    evidence = replace(evidence, **renamed)
    text = "\n".join(explained(evidence, explain(evidence)))
    assert "\x1b" not in text
    assert r"evil\x1b[31m[bold]<b>" in text
    assert "critical: window_full" in text
    assert "limit 100" in text
    quiet = investigate.gather(CaptureInput(CAPTURE.parent / "scenarios" / "quiet"), "local")
    assert "nothing wrong" in "\n".join(explained(quiet, explain(quiet)))
