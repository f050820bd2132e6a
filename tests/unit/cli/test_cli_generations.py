"""Commands read every generation of the format and of drafts, and say which they see."""

import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sharelag import open as open_workbench
from sharelag import schemas
from sharelag.cli import doctor
from sharelag.errors import InputError
from sharelag.inputs.kafka import topics
from sharelag.inputs.kafka.config import client_config
from sharelag.metrics.health import formats, gather, health_arrow
from sharelag.reports.case import read
from sharelag.tables.declared import meaning_of
from sharelag.wire import GROUP_TOPIC, SHARE_SNAPSHOT, STATE_TOPIC, encode_record
from sharelag.wire.generations import group_types
from sharelag.workbench import Workbench
from tests.support import records
from tests.support.chapters import CAPTURE
from tests.support.command import ask, refused, rows_of, sharelag
from tests.support.generations import FIRST_OFFSET, TODAY, Written, raw_of
from tests.support.older_records import DURABLE, control, keyed, raw, row
from tests.support.records import raw_file, with_column
from tests.support.walk import RECOVERED, WALK
from tests.support.written_input import OLDEST, Write, WrittenInput

EPOCH, NO_TAGS = b"\0\0\0\5", b"\0"
#: The value of version 0, which has no type, and those of version 1.
V0 = b"\0\0" + EPOCH + NO_TAGS
NULL, CONSUMER, SHARE, OTHER = (
    b"\0\1" + EPOCH + kind + NO_TAGS for kind in (b"\0", b"\x09consumer", b"\x06share", b"\4foo")
)


def written(folder: Path, writes: Iterable[Written], generation: int) -> str:
    return records.raw_file(folder, raw_of(writes, generation))


def decoded(path: str, *more: str) -> list[dict[str, Any]]:
    return ask("decode", "--raw", path, *more)


def windows(path: str, *more: str) -> list[dict[str, Any]]:
    done = sharelag("windows", "--raw", path, "-o", "json", "--engine", "local", *more)
    assert done.returncode == (3 if "records are missing" in done.stderr else 0), done.stderr
    return rows_of(done)


@pytest.mark.parametrize("generation", [0, 1, 2, 3, TODAY])
def test_windows_lag_and_history_of_any_generation(tmp_path: Path, generation: int) -> None:
    path = written(tmp_path, WALK.values(), generation)
    (line,) = windows(path)
    assert (line["effective_start_offset"], line["runs"]) == RECOVERED[11]
    assert line["topic"] == ("orders" if generation < 2 else None)  # where control records are
    for command in ("lag", "history"):
        done = sharelag(command, "--raw", path, "-o", "json", "--engine", "local", code=0)
        assert done.stdout.count("\n") == (1 if command == "lag" else len(WALK))
        assert {row["topic"] for row in rows_of(done)} == {line["topic"]}


@pytest.mark.row("CMP-05")
@pytest.mark.parametrize("generation", [0, 1, 2, 3])
def test_commands_say_which_generation_they_see(tmp_path: Path, generation: int) -> None:
    # As the drafts print it: the one checkpoint of G0 is that of G1.
    printed = raw(control(0)) if generation == 0 else raw_of(WALK.values(), generation)
    path = records.raw_file(tmp_path, printed)
    health = sharelag("health", "--raw", path, "--engine", "local")
    whose = "Kafka 4.0" if generation == 3 else "a draft"
    assert f"format of the records: G{generation} ({whose})\n" in health.stderr
    done = sharelag("decode", "--raw", path)
    assert f"8 records in an older format, G{generation} (" in done.stderr
    assert done.stderr.count("in an older format") == 1
    kinds = [line["key"]["generation"] for line in decoded(path)]
    assert kinds == ([1, *[0] * 7] if generation == 0 else [generation] * 8)
    shown = sharelag("windows", "--raw", path, "--engine", "local").stdout.splitlines()[1].split()
    assert shown[3:5] == (["1", "2"] if generation == 3 else ["-", "-"])


def test_generations_are_told_with_the_partitions_that_have_them(tmp_path: Path) -> None:
    parts = [(0, TODAY), (1, TODAY), (2, 3), (3, 2), (4, 3)]
    path = records.raw_file(tmp_path, *(of_partition(*part) for part in parts))
    done = sharelag("health", "--raw", path, "--engine", "local")
    told = "G4 (Kafka 4.1 and later), 2 partitions G3 (Kafka 4.0), 1 partition G2 (a draft)"
    assert f"format of the records: {told}\n" in done.stderr
    assert formats(open_workbench(path, engine="local").health().table) == told


def of_partition(partition: int, generation: int, tombstones: int = 0) -> pa.RecordBatch:
    """The walk in a generation, with tombstones of it at the end, in one state partition."""
    walk = raw_of(WALK.values(), generation)
    key = walk.column("key")[0].as_py()
    first = walk.column("offset")[-1].as_py() + 1
    end = [{"key": key, "topic": STATE_TOPIC, "offset": first + n} for n in range(tombstones)]
    whole = pa.concat_batches([walk, pa.RecordBatch.from_pylist(end, schema=walk.schema)])
    return with_column(whole, "partition", pa.scalar(partition))


def test_a_tombstone_is_of_no_generation(tmp_path: Path) -> None:
    whole = of_partition(0, 3, tombstones=2)
    table = pa.Table.from_batches([whole])
    seen = open_workbench(records.raw_file(tmp_path, whole), engine="local").health().table
    assert formats(seen) == "G3 (Kafka 4.0)"
    assert seen.column("generations").to_pylist() == [["tombstone", "G3"]]
    assert (seen["records"][0].as_py(), seen["tombstones"][0].as_py()) == (10, 2)
    (partition,) = health_arrow(gather([table.slice(8)])).to_pylist()
    assert partition["generations"] == ["tombstone"]
    assert "only tombstones" in formats(health_arrow(gather([table.slice(8)])))
    bad = table.slice(0, 1).set_column(1, "value", pa.array([b"\0\0\1"], pa.binary()))
    assert formats(health_arrow(gather([bad]))) == "unknown: no record can be decoded"
    assert "no records" in formats(health_arrow(gather([table.slice(0, 0)])))


def test_kinds_of_todays_records_are_not_those_of_older_ones(tmp_path: Path) -> None:
    walk = raw_of(WALK.values(), 3)
    today = raw_of(WALK.values(), TODAY).slice(1)  # updates alone
    after = pc.add(today.column("offset"), pc.max(walk.column("offset")))
    today = with_column(today, "offset", after)
    path = records.raw_file(tmp_path, walk, today)
    seen = open_workbench(path, engine="local").health().table
    assert seen.column("generations").to_pylist() == [["update v0", "G3"]]
    assert (seen["snapshots"][0].as_py(), seen["updates"][0].as_py()) == (1, 14)


@pytest.mark.parametrize("tombstones", [0, 99])
def test_the_doctor_tells_generations(tombstones: int, monkeypatch: pytest.MonkeyPatch) -> None:
    upgraded = [of_partition(2, 3).slice(0, 1), of_partition(2, TODAY, tombstones).slice(1)]
    parts = {0: of_partition(0, TODAY), 1: of_partition(1, 3, tombstones)}
    parts[2] = pa.concat_batches(upgraded)

    def read(_: object, topic: str, spans: dict[int, tuple[int, int]]) -> Iterator[pa.RecordBatch]:
        assert topic == STATE_TOPIC
        for partition, (first, end) in spans.items():
            yield parts[partition].slice(first, end - first)

    spans = {number: (0, part.num_rows) for number, part in parts.items()}
    monkeypatch.setattr(topics, "offset_ranges", lambda *_: spans | {3: (5, 5)})
    monkeypatch.setattr(topics, "read_topic", read)
    config = client_config("localhost:9")
    said = formats(health_arrow(gather(parts.values())))
    assert said == "G4 (Kafka 4.1 and later), 2 partitions G3 (Kafka 4.0)"
    ends = "by the first and the last 100 records of each state partition"
    assert doctor._formats(config) == f"{said}, {ends}"
    monkeypatch.setattr(topics, "offset_ranges", lambda *_: {3: (5, 5)})
    assert doctor._formats(config) == "unknown: there are no records"


@pytest.mark.row("PCR-03", "PCR-05")
def test_a_checkpoint_of_the_busy_window_reads_as_it_is_printed(tmp_path: Path) -> None:
    states = [(110, 110, 0, 1), (111, 112, 0, 1), (113, 118, 0, 0), (119, 119, 2, 1)]
    path = records.raw_file(tmp_path, raw([row(1, 130, 0, 110, [*states, (120, 120, 0, 0)])]))
    (line,) = decoded(path)
    assert line["value"]["data"] == {
        "groupId": "G1",
        "checkpointEpoch": 1,
        "startOffset": 110,
        "endOffset": 121,
        "states": [
            {"baseOffset": 110, "lastOffset": 110, "state": 0, "deliveryCount": 1},
            {"baseOffset": 111, "lastOffset": 112, "state": 0, "deliveryCount": 1},
            {"baseOffset": 113, "lastOffset": 118, "state": 0, "deliveryCount": 0},
            {"baseOffset": 119, "lastOffset": 119, "state": 2, "deliveryCount": 1},
            {"baseOffset": 120, "lastOffset": 120, "state": 0, "deliveryCount": 0},
        ],
    }
    assert line["key"]["data"]["controlType"] == 5
    assert windows(path)[0]["runs"] == [[110, 112, 0, 1], [113, 118, 0, 0], [119, 119, 2, 1],
                                        [120, 120, 0, 0]]  # fmt: skip


@pytest.mark.row("PCR-06", "PCR-17")
def test_the_run_of_control_records(tmp_path: Path) -> None:
    lines = decoded(records.raw_file(tmp_path, raw(control(1))))
    assert [line["key"]["data"]["controlType"] for line in lines] == [5, *[6] * 7]
    assert lines[3]["value"]["data"] == {
        "groupId": "G1",
        "checkpointEpoch": 1,
        "states": [
            {"baseOffset": 111, "lastOffset": 118, "state": 0, "deliveryCount": 0},
            {"baseOffset": 119, "lastOffset": 119, "state": 2, "deliveryCount": 1},
        ],
    }


@pytest.mark.row("PCR-07")
def test_deltas_chain_back_to_the_checkpoint(tmp_path: Path) -> None:
    lines = decoded(records.raw_file(tmp_path, raw(control(0))))
    back = {line["offset"]: line["value"]["data"].get("backOffset") for line in lines}
    assert back == {130: None} | {offset: offset - 1 for offset in range(131, 138)}


@pytest.mark.row("PSC-06", "PSC-07", "PSC-13")
def test_checkpoints_and_deltas_read_as_they_are_printed(tmp_path: Path) -> None:
    lines = decoded(written(tmp_path, WALK.values(), 2))
    assert lines[1]["value"]["data"]["startOffset"] == 110
    delta = lines[2]
    assert delta["key"]["data"]["deltaIndex"] == 2
    states = [{"baseOffset": 110, "lastOffset": 110, "state": 0, "deliveryCount": 1}]
    found = {"checkpointEpoch": 0, "startOffset": -1, "states": states}
    assert delta["value"]["data"] == found
    assert [line["key"]["type"] for line in lines[:2]] == [0, 1]
    checkpoint = records.raw_file(tmp_path, raw([row(2, 0, 0, 110, [])]))
    assert decoded(checkpoint, "--generation", "2")[0]["value"]["data"] == {
        "checkpointEpoch": 1, "startOffset": 110, "states": [],
    }  # fmt: skip


@pytest.mark.row("PSC-10")
def test_keys_and_epochs_of_a_compacted_topic(tmp_path: Path) -> None:
    written_as = [
        (key["type"], key["data"].get("deltaIndex"), line["value"]["data"]["checkpointEpoch"])
        for line in decoded(records.raw_file(tmp_path, raw(keyed())))
        for key in [line["key"]]
    ]
    assert written_as == [(0, None, 0), (0, None, 1), (1, 0, 1), (0, None, 2), (1, 1, 2), (1, 2, 2)]


@pytest.mark.row("PSC-18")
def test_the_tombstone_of_the_checkpoint_removes_the_share_partition(tmp_path: Path) -> None:
    gone = row(2, 6, 0, None, [], tombstone=True)
    of_deltas = [
        row(2, 7 + index, 1, None, [], tombstone=True, older_fields=[("delta_index", index)])
        for index in range(3)
    ]
    other = row(2, 20, 0, 5, []) | {"group_id": "G2"}
    for count in range(4):
        path = records.raw_file(tmp_path, raw([*keyed(), gone, *of_deltas[:count], other]))
        assert [line["group_id"] for line in windows(path)] == ["G2"]
        lines = [line for line in decoded(path) if line["value"] is None]
        assert [line["offset"] for line in lines] == list(range(6, 7 + count))
    before = windows(path, "--as-of", "0:5")
    assert [line["effective_start_offset"] for line in before] == [7]
    begun = raw([*keyed(), gone, *of_deltas, row(2, 10, 0, 20, [], 0)])
    (again,) = windows(records.raw_file(tmp_path, begun))
    assert (again["effective_start_offset"], again["runs"]) == (20, [])


@pytest.mark.row("PRS-01")
@pytest.mark.parametrize("generation", [0, 1, 2, 3, TODAY])
def test_the_state_after_each_record_is_recovered(tmp_path: Path, generation: int) -> None:
    path = written(tmp_path, WALK.values(), generation)
    for offset, (start, end, runs) in enumerate(DURABLE, FIRST_OFFSET):
        (line,) = windows(path, "--as-of", f"0:{offset}")
        assert (line["effective_start_offset"], line["window_end_offset"]) == (start, end)
        assert [tuple(run) for run in line["runs"] if run[1] >= start] == runs


# ---- --generation --------------------------------------------------------------------------------
def either(folder: Path) -> str:
    """Return a file of what Kafka 4.0 first wrote, which may be today's, cut short."""
    epochs = {"epoch": 0, "state_epoch": 0, "leader_epoch": 0}
    return records.raw_file(folder, raw([row(3, 0, 0, 100, [], **epochs)]))


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["windows"], '"start_offset": 100'),
        (["lag"], '"start_offset": 100'),
        (["lag", "--brief"], '"start_offset": 100'),
        (["lag", "--by", "group"], '"group_id": "G1"'),
        (["progress"], '"group_id": "G1"'),
        (["history"], '"start_offset": 100'),
        (["health"], '"G3"'),
        (["imbalance"], '"group_id": "G1"'),
        (["settings"], '"group_id": "G1"'),
    ],
)
def test_every_command_takes_a_generation(tmp_path: Path, command: list[str], shown: str) -> None:
    options = [*command, "--raw", either(tmp_path), "-o", "json", "--engine", "local"]
    assert shown not in sharelag(*options).stdout
    found = sharelag(*options, "--generation", "3", code=0)
    assert shown in found.stdout


def test_python_reports_and_exports_take_a_generation(tmp_path: Path) -> None:
    path = either(tmp_path)
    found = open_workbench(path, engine="local", generation=3)
    assert "records read as G3" in repr(found)
    assert found.windows().table.column("start_offset").to_pylist() == [100]
    assert found.only("G1").lag().table.column("start_offset").to_pylist() == [100]
    assert found.health().table.column("generations").to_pylist() == [["G3"]]
    assert read(raw=path, engine="local", generation=3).bench.groups == ("G1",)
    metrics = tmp_path / "sharelag.prom"
    export = ["export", "prometheus", "--textfile", str(metrics), "--raw", path]
    said = sharelag(*export, "--engine", "local").stderr
    assert "1 record could not be decoded, and there are no others" in said
    assert sharelag(*export, "--engine", "local", "--generation", "3").returncode == 0
    assert 'group="G1"' in metrics.read_text()


def test_a_generation_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    path = either(tmp_path)
    assert "--generation" in refused("lag", "--raw", path, "--generation", "5", code=2)
    with pytest.raises(InputError, match="unknown generation 5: choose one of 0, 1, 2, 3, 4"):
        open_workbench(path, generation=5)
    said = refused("report", "daily", "--raw", path, "-p", "generation", "five", code=2)
    assert "unknown generation 'five'" in said
    scenario = sharelag("simulate", "--scenario", "steady", "--generation", "3")
    assert "--generation is for an input" in scenario.stderr


@pytest.mark.parametrize("command", ["lag", "windows"])
def test_records_of_another_generation_than_asked_are_counted(tmp_path: Path, command: str) -> None:
    path = written(tmp_path, WALK.values(), 2)
    said = refused(command, "--raw", path, "--generation", "4")
    assert f"{len(WALK)} records could not be decoded, and there are no others" in said
    assert "`sharelag decode --generation 4` shows them; try without --generation" in said


@pytest.mark.parametrize("command", ["lag", "windows", "explain"])
def test_the_hint_on_rejects_beside_rows_keeps_the_generation(tmp_path: Path, command: str) -> None:
    good, bad = records.row(3, []), (b"\0\0", b"no record")
    rows = records.raw([encode_record(SHARE_SNAPSHOT, good), bad])
    asked = (command, "--raw", records.raw_file(tmp_path, rows), "--engine", "local")
    assert "; `sharelag decode` shows" in sharelag(*asked).stdout
    assert "`sharelag decode --generation 4` shows" in sharelag(*asked, "--generation", "4").stdout
    bench = open_workbench(tmp_path / "raw.parquet", engine="local", generation=4)
    assert any("decode --generation 4` shows" in one for one in bench.lag().unknown)


def test_a_schedule_keeps_the_generation(tmp_path: Path) -> None:
    options = ["--raw", either(tmp_path), "--cron", "30 6 * * *", "--generation", "0"]
    done = sharelag("report", "schedule", "daily", *options, code=0)
    assert "generation 0" in done.stdout


def test_one_generation_can_be_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path, WALK.values(), 2)
    of_2, of_3, of_4 = (sharelag("decode", "--raw", path, "--generation", n).stdout for n in "234")
    assert of_2 == sharelag("decode", "--raw", path).stdout
    assert of_2.count('"generation": 2') == len(WALK)
    assert of_3.count("reject") == of_4.count("reject") == len(WALK)


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
    for written_, deltas in ((rows, 7), (instead, 0)):
        found = shown(tmp_path, "decode", written_)
        checkpoints = [one["offset"] for one in found if one["key"]["data"]["controlType"] == 5]
        (health,) = shown(tmp_path, "health", written_)
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


def raw_groups(*records: tuple[str, bytes | None], topic: str = GROUP_TOPIC) -> pa.RecordBatch:
    """Records of groups, by name and value."""
    rows = [
        {"key": b"\0\3" + len(name.encode()).to_bytes(2, "big") + name.encode(), "value": value}
        | {"topic": topic, "partition": 0, "offset": offset}
        for offset, (name, value) in enumerate(records)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=schemas.RAW)


def told(folder: Path, batch: pa.RecordBatch, *options: str) -> list[str]:
    done = sharelag("decode", "--raw", raw_file(folder, batch), *options)
    assert (done.returncode, done.stdout) == (0, "")
    return [line for line in done.stderr.splitlines() if "ConsumerGroupMetadata" in line]


@pytest.mark.row("GMR-02")
def test_the_type_is_that_of_version_1_and_else_consumer(tmp_path: Path) -> None:
    batch = raw_groups(
        ("old", V0), ("none", NULL), ("named", CONSUMER), ("orders", SHARE), ("x", OTHER)
    )
    names = ("group_id", "version", "type")
    assert [tuple(row[name] for name in names) for row in group_types(batch).to_pylist()] == [
        *(("old", 0, "consumer"), ("none", 1, "consumer")),
        *(("named", 1, "consumer"), ("orders", 1, "share"), ("x", 1, None)),
    ]
    types, _ = told(tmp_path, batch)
    assert types.endswith("has them: consumer: named, none, old; share: orders; unknown: x")


@pytest.mark.row("CMP-01")
def test_who_knows_version_0_alone_takes_a_share_group_for_a_consumer_group(tmp_path: Path) -> None:
    """The beginning of a version 1 is a whole version 0 of a group without a type."""
    as_version_0 = raw_groups(("orders", b"\0\0" + SHARE[2:]))
    assert group_types(as_version_0).column("type").to_pylist() == ["consumer"]
    _, warning = told(tmp_path, raw_groups(("orders", SHARE), ("old", V0)))
    assert warning == (
        "sharelag: software that knows only version 0 of ConsumerGroupMetadata reads as consumer "
        "groups, though they are share groups: orders"
    )


def test_the_last_record_of_a_group_counts(tmp_path: Path) -> None:
    batch = raw_groups(("a", SHARE), ("b", SHARE), ("c", SHARE), ("a", None), ("b", NULL))
    types, warning = told(tmp_path, batch)
    assert types.endswith("consumer: b; share: c")
    assert warning.endswith(": c")
    (types,) = told(tmp_path, batch, "--group", "b")
    assert types.endswith("consumer: b")


def test_nothing_is_said_of_kafkas_own_records_and_other_topics(tmp_path: Path) -> None:
    assert told(tmp_path, raw_groups(("old", V0), ("gone", None))) == []
    assert told(tmp_path, raw_groups(("orders", SHARE), topic="orders")) == []
    assert told(tmp_path, raw_groups()) == []
    types, warning = told(tmp_path, raw_groups(("a\x1b[31m", SHARE)))
    assert "\x1b" not in types + warning


def test_damaged_records_are_read_as_far_as_they_can_be() -> None:
    chosen = random.Random(2)
    whole = raw_groups(("old", V0), ("orders", SHARE)).to_pylist()
    for _ in range(300):
        row = dict(chosen.choice(whole))
        name = chosen.choice(["key", "value"])
        row[name] = row[name][: chosen.randrange(len(row[name]))]
        found = group_types(pa.RecordBatch.from_pylist([row, *whole], schema=schemas.RAW))
        assert found.num_rows in (2, 3)
        assert found.to_pylist()[-2:] == [
            {"group_id": "old", "version": 0, "type": "consumer"},
            {"group_id": "orders", "version": 1, "type": "share"},
        ]
