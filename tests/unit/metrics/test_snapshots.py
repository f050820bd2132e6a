"""The last snapshot of each share partition, and what followed it."""

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from sharelag import open as open_workbench
from sharelag import schemas
from sharelag.metrics.health import snapshots_arrow
from sharelag.replay.history import history_arrow
from sharelag.replay.repeats import LogOrder
from sharelag.wire import SHARE_SNAPSHOT, SHARE_UPDATE, encode_record
from tests.support.command import ask, refused
from tests.support.fields import assert_fields
from tests.support.older_records import control, raw, row
from tests.support.records import decode, raw_file
from tests.support.records import row as today

_COUNTS = ("snapshot_offset", "updates_since", "rejected_since", "from_snapshot", "record_offset")


def _snapshot(partition: int, **changes: Any) -> tuple[bytes, bytes | None]:
    return encode_record(SHARE_SNAPSHOT, today(0, [], partition=partition) | changes)


def _update(partition: int, **changes: Any) -> tuple[bytes, bytes | None]:
    return encode_record(SHARE_UPDATE, today(-1, [], partition=partition) | changes)


def _found(*written: tuple[bytes, bytes | None], gaps: pa.Table | None = None) -> dict[int, Any]:
    rows = snapshots_arrow(history_arrow(decode(list(written)), gaps)).to_pylist()
    return {one["partition"]: [one[name] for name in _COUNTS] for one in rows}


def test_a_worked_example() -> None:
    gone = (_snapshot(3)[0], None)
    delta_gone = (_update(0)[0], None)
    found = _found(
        *(_snapshot(0), _update(0), _snapshot(0), _update(0), _update(0), delta_gone),
        *(_update(1), _update(1)),  # its snapshot was pruned
        *(_snapshot(2), _snapshot(2)),
        *(_snapshot(3), _update(3), gone),
        *(_snapshot(4), _update(4), (_snapshot(4)[0], None), _update(4)),
    )
    assert found == {
        0: [102, 2, 1, True, 105],
        1: [None, 2, 0, False, 107],
        2: [109, 0, 0, True, 109],
        4: [None, 1, 0, False, 116],  # what was before the tombstone is gone
    }


def test_a_gap_since_the_snapshot_is_told() -> None:
    written = [_snapshot(0), _update(0)]
    records = decode(written).set_column(2, "offset", pa.array([0, 5]))
    assert records.schema.names[2] == "offset"
    places = records.select(["topic", "offset"]).append_column(
        "partition", records.column("record_partition")
    )
    order = LogOrder()
    assert order.continues(places)
    history = history_arrow(records, order.gaps)
    (line,) = snapshots_arrow(history).to_pylist()
    assert [line[name] for name in _COUNTS] == [0, 1, 0, False, 5]


def test_no_records_have_no_snapshots() -> None:
    assert snapshots_arrow(schemas.HISTORY.empty_table()).schema == schemas.SNAPSHOTS


def test_random_histories_give_what_a_walk_through_their_rows_does() -> None:
    random = Random("snapshots")
    with_rejected = 0
    for _ in range(40):
        written = []
        for _ in range(random.randrange(1, 120)):
            partition, leader = random.randrange(6), random.randrange(3)
            made = random.choice([_snapshot, _update, _update])(partition, leader_epoch=leader)
            written.append((made[0], None if random.random() < 0.1 else made[1]))
        history = history_arrow(decode(written))
        expected: dict[int, Any] = {}
        for one in history.to_pylist():
            place = one["partition"]
            offset, updates, rejected = expected.get(place, (None, 0, 0))[:3]
            if one["snapshot_epoch"] is None:
                expected.pop(place, None)
                continue
            if one["record_kind"] == "snapshot":
                offset, updates, rejected = one["record_offset"], 0, 0
            updates += one["record_kind"] == "update"
            rejected += one["record_kind"] == "rejected"
            whole, last = one["from_snapshot"], one["record_offset"]
            expected[place] = [offset, updates, rejected, whole, last]
        assert _found(*written) == expected
        with_rejected += any(one[2] for one in expected.values())
    assert with_rejected > 0


# ---- what people see -----------------------------------------------------------------------------
def _seen(path: str, *more: str) -> list[Any]:
    lines = ask("health", "--snapshots", "--raw", path, *more)
    return [(one["group_id"], one["snapshot_offset"], one["updates_since"]) for one in lines]


@pytest.mark.row("PCR-12", "PCR-15")
@pytest.mark.parametrize("generation", [0, 1])
def test_the_share_checkpoint_offset_and_the_deltas_since(tmp_path: Path, generation: int) -> None:
    """GL-03, GL-05 and GL-23: 130 with seven deltas, then 137 with none."""
    by_deltas = control(generation)
    by_checkpoint = [*by_deltas[:-1], row(generation, 137, 0, 120, [], epoch=2)]
    other = row(generation, 90, 0, 80, []) | {"group_id": "G2"}
    assert _seen(raw_file(tmp_path, raw(by_deltas))) == [("G1", 130, 7)]
    bench = open_workbench(tmp_path / "raw.parquet", engine="local")
    (line,) = bench.snapshots().table.to_pylist()
    assert_fields(line, snapshot_offset=130, updates_since=7, snapshot_epoch=1)
    assert "130" in bench.snapshots()._repr_html_()
    whole = raw_file(tmp_path, raw([other, *by_checkpoint]))
    assert _seen(whole) == [("G1", 137, 0), ("G2", 90, 0)]
    stale = row(generation, 138, 1, None, [(120, 121, 2, 1)], epoch=1)
    assert _seen(raw_file(tmp_path, raw([*by_checkpoint, stale]))) == [("G1", 137, 0)]  # of epoch 1


def test_findings_and_snapshots_are_not_asked_for_together(tmp_path: Path) -> None:
    path = raw_file(tmp_path, raw(control(1)))
    said = refused("health", "--raw", path, "--findings", "--snapshots", code=2)
    assert "--findings and --snapshots are two tables: choose one" in said
