"""What the KIPs say of state records, by what the commands print of them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sharelag import open as open_workbench
from sharelag.tables.declared import meaning_of
from sharelag.workbench import Workbench
from tests.support.chapters import CAPTURE
from tests.support.columns import with_column
from tests.support.command import ask, refused, rows_of, sharelag
from tests.support.older_records import control, keyed, raw, row
from tests.support.records import raw_file
from tests.support.written_input import OLDEST, Write, WrittenInput

DOCS = Path(__file__).parents[3] / "docs"


def shown(folder: Path, command: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a command prints about records."""
    local = () if command == "decode" else ("--engine", "local")
    done = sharelag(command, "--raw", raw_file(folder, raw(rows)), "-o", "json", *local)
    assert done.returncode == (3 if "records are missing" in done.stderr else 0), done.stderr
    return rows_of(done)


@pytest.mark.row("PCR-04")
def test_a_checkpoint_of_the_empty_window(tmp_path: Path) -> None:
    (line,) = shown(tmp_path, "decode", control(1, start=100)[:1])
    assert line["value"]["data"] == {
        "groupId": "G1",
        "checkpointEpoch": 1,
        "startOffset": 100,
        "endOffset": 100,
        "states": [],
    }


@pytest.mark.row("PCR-08")
def test_where_a_leader_begins_to_read_and_how_much(tmp_path: Path) -> None:
    """Without the drafts' snapshot file: the last checkpoint is what a scan of all finds."""
    rows = control(1)
    instead = [*rows[:-1], row(1, 137, 0, 120, [], epoch=2)]
    for records, deltas in ((rows, 7), (instead, 0)):
        found = shown(tmp_path, "decode", records)
        checkpoints = [one["offset"] for one in found if one["key"]["data"]["controlType"] == 5]
        (health,) = shown(tmp_path, "health", records)
        assert health["needed_from"] == max(checkpoints)
        assert health["end_offset"] - 1 - health["needed_from"] == deltas
    (window,) = shown(tmp_path, "windows", instead)
    assert (window["effective_start_offset"], window["from_snapshot"]) == (120, True)


@pytest.mark.row("PCR-16")
def test_what_the_documents_leave_open_is_said() -> None:
    (said,) = [
        r for r in (DOCS / "generations.md").read_text().split("\n* ") if "snapshot file" in r
    ]
    assert "no document defines" in said
    assert "`needed_from`" in said


@pytest.mark.row("PSC-08")
def test_checkpoint_epochs_rise_by_one_and_deltas_have_the_last(tmp_path: Path) -> None:
    history = shown(tmp_path, "history", keyed())
    assert [one["snapshot_epoch"] for one in history] == [0, 1, 1, 2, 2, 2]
    assert all(one["follows"] and one["record_kind"] != "rejected" for one in history)
    # Without the checkpoint of epoch 1 its delta is told apart, and counts for nothing.
    broken = [one for one in keyed() if one["offset"] != 1]
    delta = shown(tmp_path, "history", broken)[1]
    assert (delta["record_kind"], delta["follows"]) == ("rejected", False)
    (window,) = shown(tmp_path, "windows", broken)
    assert window["effective_start_offset"] == 7


@pytest.mark.row("PSC-09")
@pytest.mark.parametrize(
    ("indices", "follow"),
    [
        ((3,), [True]),  # GL-08: the next index is 3, which no checkpoint resets
        ((3, 0), [True, True]),  # the range 0-3: after 3 comes 0
        ((3, 5), [True, False]),  # the delta with index 4 is missing
        ((2,), [False]),
    ],
)
def test_a_delta_is_missing(tmp_path: Path, indices: tuple[int, ...], follow: list[bool]) -> None:
    more = [
        row(2, 6 + n, 1, None, [(5, 5, 2, 1)], 2, older_fields=[("delta_index", index)])
        for n, index in enumerate(indices)
    ]
    history = shown(tmp_path, "history", [*keyed(), *more])
    assert [one["follows"] for one in history] == [True] * 6 + follow
    # What a delta changed is not known where one before it is missing; the state counts.
    assert [one["released"] is not None for one in history[6:]] == follow
    assert shown(tmp_path, "windows", [*keyed(), *more])[0]["effective_start_offset"] == 7


def test_tombstones_are_no_deltas_and_what_comes_after_begins_anew(tmp_path: Path) -> None:
    def gone(offset: int, index: int) -> dict[str, Any]:
        fields = [("delta_index", index)]
        return row(2, offset, 1, None, [], tombstone=True, older_fields=fields)

    removed = [row(2, 6, 0, None, [], tombstone=True), *(gone(7 + n, 2 - n) for n in range(3))]
    again = [row(2, 10, 0, 0, [], 0)]
    again.append(row(2, 11, 1, None, [(0, 0, 2, 1)], 0, older_fields=[("delta_index", 9)]))
    history = shown(tmp_path, "history", [*keyed(), *removed, *again])
    assert all(one["follows"] for one in history)


@pytest.mark.row("PSC-19", "REJ-03")
@pytest.mark.parametrize("other", ["__consumer_offsets", "__share_group_state"])
def test_two_topics_have_two_readers(tmp_path: Path, other: str) -> None:
    """Records of the state topic are not the group's, and group records are no states."""
    of_group = demo_records("__consumer_offsets")
    of_state = demo_records("__share_group_state")
    mixed = of_group if other == "__share_group_state" else of_state
    pq.write_table(with_column(mixed, "topic", pa.scalar(other)), tmp_path / "raw.parquet")
    done = sharelag("decode", "--raw", str(tmp_path / "raw.parquet"), "-o", "json")
    assert (done.returncode, done.stdout) == (0, "")
    assert f"skipped {len(mixed):,} records of other kinds" in done.stderr
    docs = (DOCS / "generations.md").read_text()
    assert "| state in `__consumer_offsets` | that topic is a bottleneck already |" in docs


def test_a_group_without_state_is_found_by_its_name(tmp_path: Path) -> None:
    pq.write_table(demo_records("__consumer_offsets"), tmp_path / "raw.parquet")
    given = "--raw", str(tmp_path / "raw.parquet")
    every = [row["group_id"] for row in ask("groups", *given, code=3)]
    assert "billing" in every[1:]
    (one,) = ask("groups", *given, "--group", "billing", code=3)
    assert (one["group_id"], one["complete"]) == ("billing", False)
    ask("members", *given, "--group", "billing", code=3)
    assert "no state of share group 'nobody'" in refused("groups", *given, "--group", "nobody")


def demo_records(topic: str) -> pa.Table:
    records = pq.read_table(CAPTURE / "records")
    return records.filter(pc.equal(records.column("topic"), topic))


@pytest.mark.row("RST-11")
def test_delivery_counts_are_called_approximate(tmp_path: Path) -> None:
    """GL-04: offset 110, being delivered for the second time, was written with a count of 1."""
    states = [(110, 110, 0, 1), (111, 112, 0, 1), (113, 118, 0, 0), (119, 119, 2, 1)]
    (window,) = shown(tmp_path, "windows", [row(1, 130, 0, 110, states)])
    assert window["runs"][0] == [110, 112, 0, 1]
    result = open_workbench(tmp_path / "raw.parquet", engine="local").windows()
    assert "counts are approximate" in result._repr_html_()


@pytest.mark.row("LAG-09")
def test_offsets_without_records_are_lag_until_somebody_meets_them() -> None:
    """GL-27: 3 and 4 of ten offsets were compacted away; a gap ends as archived."""
    writes = [Write(90, 0), Write(80, 0, ((3, 4, 4, 0),), count=2), Write(70, 10)]
    lags = []
    for count in (1, 2, 3):
        source = WrittenInput(writes[:count], rate=10 / OLDEST)
        (line,) = Workbench(source, engine="local").lag().table.to_pylist()
        assert line["end_offset"] == 10
        lags.append(line["lag"])
    assert lags == [10, 8, 0]
    assert "offsets without a record" in meaning_of("lag")
