"""State 3, Archiving (KIP-1191), is a separate state wherever states are shown."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sharelag.charts import palette
from sharelag.model import DeliveryState
from sharelag.schemas import RAW
from sharelag.wire.encode import encode_record
from sharelag.wire.fields import SHARE_SNAPSHOT, SHARE_UPDATE, STATE_TOPIC
from tests.support.command import sharelag as command
from tests.support.records import row

ARCHIVING = int(DeliveryState.ARCHIVING)


@pytest.fixture(name="raw")
def raw_records(tmp_path: Path) -> Path:
    """A share partition whose offsets 3 and 4 are on their way to a queue."""
    records = [
        encode_record(SHARE_SNAPSHOT, row(0, [])),
        encode_record(SHARE_UPDATE, row(-1, [(0, 2, 2, 1), (3, 4, ARCHIVING, 5), (5, 5, 0, 1)])),
    ]
    rows = [
        {"key": key, "value": value, "topic": STATE_TOPIC, "partition": 0, "offset": offset}
        | {"timestamp": offset, "timestampType": 0}
        for offset, (key, value) in enumerate(records)
    ]
    path = tmp_path / "state.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=RAW), path)
    return path


def test_it_is_decoded_replayed_and_shown_as_it_is(raw: Path) -> None:
    (line,) = command("decode", "--raw", str(raw), "-o", "json").stdout.splitlines()[1:]
    batches = json.loads(line)["value"]["data"]["stateBatches"]
    assert [one["deliveryState"] for one in batches] == [2, ARCHIVING, 0]
    (shown,) = map(
        json.loads, command("windows", "--raw", str(raw), "-o", "json").stdout.split("\n")[:-1]
    )
    assert [run[:3] for run in shown["runs"]] == [[3, 4, ARCHIVING], [5, 5, 0]]
    human = command("windows", "--raw", str(raw)).stdout
    assert "archiving" in human
    picture = command("windows", "--raw", str(raw), "--picture").stdout
    assert "archiving" in picture
    assert palette.KINDS["archiving"].words == "Archiving"
