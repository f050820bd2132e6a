"""A snapshot that says again what was known is told from one that changes something."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sharelag import open as open_workbench
from sharelag.replay.history import history_arrow
from sharelag.wire.encode import encode_record
from sharelag.wire.fields import SHARE_SNAPSHOT, SHARE_UPDATE
from tests.support.command import sharelag
from tests.support.records import decode, raw, row

BATCHES = [(110, 110, 0, 1), (119, 119, 2, 1)]
CREATED, LATER = 1_000, 301_000


def snapshot(
    written: int, epoch: int, start: int = 110, batches: Any = BATCHES, **more: Any
) -> Any:
    times = {"create_timestamp": CREATED, "write_timestamp": written, "snapshot_epoch": epoch}
    return encode_record(SHARE_SNAPSHOT, row(start, batches, **(times | more)))


def rewritten(*records: Any) -> list[bool | None]:
    found: list[bool | None] = history_arrow(decode(list(records))).column("rewritten").to_pylist()
    return found


@pytest.mark.row("PSS-06")
def test_two_snapshots_with_the_same_batches_are_a_rewrite(tmp_path: Path) -> None:
    records = [snapshot(CREATED, 0), snapshot(LATER, 1)]
    pq.write_table(pa.Table.from_batches([raw(records)]), tmp_path / "raw.parquet")
    done = sharelag("history", "--raw", str(tmp_path / "raw.parquet"), "-o", "json")
    assert done.returncode == 0, done.stderr
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["rewritten"] for one in said] == [None, True]
    assert [one["record_kind"] for one in said] == ["snapshot", "snapshot"]
    # Both times are timestamps in UTC; a state that was rewritten is as fresh as its last write.
    (window,) = open_workbench(tmp_path / "raw.parquet", engine="local").windows().table.to_pylist()
    assert window["write_timestamp"] - window["create_timestamp"] == timedelta(minutes=5)
    assert str(window["write_timestamp"].tzinfo) == "UTC"


@pytest.mark.parametrize(
    "second",
    [
        snapshot(LATER, 1, 111, [(119, 119, 2, 1)]),
        snapshot(LATER, 1, batches=[(110, 110, 0, 2), (119, 119, 2, 1)]),
        snapshot(LATER, 1, batches=[*BATCHES, (120, 120, 0, 1)]),
        snapshot(LATER, 1, leader_epoch=7),
        snapshot(CREATED, 1),  # not written later
        snapshot(LATER, 1, create_timestamp=LATER),  # another state
    ],
)
def test_a_snapshot_that_changes_something_is_none(second: Any) -> None:
    assert rewritten(snapshot(CREATED, 0), second)[-1] in (False, None)


def test_an_update_between_counts_for_the_snapshot_after_it() -> None:
    update = encode_record(SHARE_UPDATE, row(-1, [(110, 110, 2, 1)], leader_epoch=2))
    after = snapshot(LATER, 1, 111, [(119, 119, 2, 1)], delivery_complete_count=0)
    found = rewritten(snapshot(CREATED, 0), update, after, snapshot(LATER + 1, 2, 111, BATCHES[1:]))
    assert found == [None, False, False, True]
