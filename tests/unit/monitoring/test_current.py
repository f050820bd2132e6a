"""Two Delta tables hold windows and lag as of now, for readers at any instant."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from sharelag.errors import InputError
from sharelag.metrics.lag import lag_arrow
from sharelag.monitoring.exports import lake as current
from sharelag.monitoring.exports.lake import CurrentTables
from sharelag.replay import replay_arrow
from sharelag.wire import decode_arrow
from sharelag.wire.encode import encode_record
from sharelag.wire.fields import SHARE_SNAPSHOT
from tests.support.records import offsets, raw, row


def _state(*partitions: int, end: int = 110) -> tuple[pa.Table, pa.Table]:
    records = [
        encode_record(SHARE_SNAPSHOT, row(10, [(10, 14, 2, 1)], partition=p)) for p in partitions
    ]
    windows = pa.Table.from_batches([replay_arrow(decode_arrow(raw(records)).records)])
    return windows, pa.Table.from_batches([lag_arrow(windows, offsets(end))])


def _read(folder: Path, name: str) -> pa.Table:
    return DeltaTable(str(folder / name)).to_pyarrow_table()


def _tables(folder: Path, cluster: str = "c1") -> CurrentTables:
    return CurrentTables(folder, cluster, "cluster at b:1")


def test_they_are_what_was_written_last(tmp_path: Path) -> None:
    tables = _tables(tmp_path / "new")
    tables.write(*_state(0, 1))
    reader = DeltaTable(str(tmp_path / "new" / "lag"))
    windows, lag = _state(0, end=120)
    tables.write(windows, lag)
    assert _read(tmp_path / "new", "lag").cast(lag.schema).to_pylist() == lag.to_pylist()
    got = _read(tmp_path / "new", "windows")
    assert got.column("topic").to_pylist() == lag.column("topic").to_pylist()
    assert got.drop_columns("topic").cast(windows.schema).to_pylist() == windows.to_pylist()
    assert reader.to_pyarrow_table().num_rows == 2  # whoever began to read before goes on with that
    (last,) = DeltaTable(str(tmp_path / "new" / "lag")).history(1)
    assert last["source"] == "cluster at b:1"


def test_windows_are_written_where_they_changed(tmp_path: Path) -> None:
    tables = _tables(tmp_path)
    for end in (110, 111, 112):
        tables.write(*_state(0, end=end))
    assert [DeltaTable(str(tmp_path / name)).version() for name in ("windows", "lag")] == [0, 2]
    # Who begins again cannot know what was written.
    _tables(tmp_path).write(*_state(0, end=112))
    assert DeltaTable(str(tmp_path / "windows")).version() == 1


def test_files_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current, "KEEP", timedelta(0))
    monkeypatch.setattr(current, "_TIDY_EVERY", 10)
    tables, state = _tables(tmp_path), _state(0, 1)
    (tmp_path / "lag").mkdir()
    (tmp_path / "lag" / "part-of-one-that-was-killed.parquet").write_bytes(b"")
    for _ in range(35):
        tables.write(*state)
    assert len(list((tmp_path / "lag").glob("*.parquet"))) <= 5
    assert len(DeltaTable(str(tmp_path / "lag")).file_uris()) == 1


def test_no_other_table_is_replaced(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "lag"), pa.table({"mine": [1]}))
    with pytest.raises(
        InputError, match=r"lag is a different table and would be replaced: choose another"
    ):
        _tables(tmp_path)
    _tables(tmp_path / "ours").write(*_state(0))
    with pytest.raises(InputError, match="windows is a different table and"):
        _tables(tmp_path / "ours", "c2")
    assert _read(tmp_path, "lag").to_pydict() == {"mine": [1]}


def test_what_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "windows").write_text("a file")
    with pytest.raises(InputError, match=r"cannot read .*windows .*: check the path"):
        _tables(tmp_path)
    tables = _tables(tmp_path / "new")
    (tmp_path / "new").write_text("a file")
    with pytest.raises(InputError, match=r"cannot write to .*windows .*: check the path"):
        tables.write(*_state(0))
