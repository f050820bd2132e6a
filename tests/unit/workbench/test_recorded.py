"""The recorded broker's bytes give what Kafka reported, at every recorded moment."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sharelag import schemas
from sharelag.inputs import CaptureInput
from sharelag.metrics.lag import lag_arrow
from sharelag.wire import decode_arrow, encode
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC
from sharelag.wire.formatter import kafka_json
from tests.support import readings
from tests.support.chapters import CAPTURE
from tests.support.kafka.describe import parse_describe
from tests.support.recorded_moments import MOMENTS, ends

GOLDEN = CAPTURE.parents[1] / "golden" / "state_records.jsonl"


@pytest.fixture(scope="module")
def golden() -> list[dict[str, Any]]:
    return [json.loads(line) for line in GOLDEN.read_text().splitlines()]


@pytest.mark.parametrize("topic", [STATE_TOPIC, GROUP_TOPIC])
def test_golden_records_read_and_write_as_kafkas_classes_do(
    topic: str, golden: list[dict[str, Any]]
) -> None:
    lines = [line for line in golden if line["topic"] == topic]
    rows = [
        {name: line[name] for name in ("topic", "partition", "offset")}
        | {
            "key": bytes.fromhex(line["key"]),
            "value": line["value"] and bytes.fromhex(line["value"]),
        }
        for line in lines
    ]
    raw = pa.RecordBatch.from_pylist(rows, schema=schemas.RAW)
    decoded = decode_arrow(raw, topic)
    assert decoded.rejects.num_rows == decoded.skipped == 0
    for line, ours in zip(lines, kafka_json(decoded.records), strict=True):
        theirs = line["expected"]
        assert (ours["key"]["type"], ours["key"]["data"]) == (theirs["type"], theirs["key"])
        assert (ours["value"] and ours["value"]["data"]) == theirs["value"]
    again = encode(decoded.records, topic)
    assert again.column("key").equals(raw.column("key"))
    assert again.column("value").equals(raw.column("value"))
    kinds = {line["expected"]["type"] for line in lines}
    assert kinds == ({0, 1} if topic == STATE_TOPIC else set(range(10, 16)))


@pytest.mark.parametrize("moment", MOMENTS, ids=[path.stem for path in MOMENTS])
def test_every_moment_of_the_recording_is_reconstructed(moment: Path) -> None:
    noted = json.loads(moment.with_suffix(".json").read_text())
    as_of = datetime.fromtimestamp(noted["as_of_ms"] / 1000, UTC)
    windows = readings.windows(CaptureInput(CAPTURE), "local", as_of).table
    lag = lag_arrow(windows.select(schemas.WINDOWS.names), ends(noted))
    names = ("group_id", "topic", "partition", "leader_epoch", "start_offset", "lag")
    ours = sorted(tuple(row[name] for name in names) for row in lag.to_pylist())
    theirs = sorted(tuple(row.values()) for row in parse_describe(moment.read_text()))
    assert ours == theirs
    assert theirs
