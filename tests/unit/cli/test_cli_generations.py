"""Do the commands read every generation of the format, and say which they see?"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sharelag import open as open_workbench
from sharelag.cli import doctor
from sharelag.errors import InputError
from sharelag.inputs.kafka import topics
from sharelag.inputs.kafka.config import client_config
from sharelag.metrics.health import formats, gather, health_arrow
from sharelag.reports.case import read
from sharelag.wire import SHARE_SNAPSHOT, STATE_TOPIC, encode_record
from tests.support import records
from tests.support.columns import with_column
from tests.support.command import ask, refused, rows_of, sharelag
from tests.support.generations import FIRST_OFFSET, TODAY, Written, raw_of
from tests.support.older_records import DURABLE, control, keyed, raw, row
from tests.support.walk import RECOVERED, WALK


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
    for command in ("lag", "history"):
        done = sharelag(command, "--raw", path, "-o", "json", "--engine", "local", code=0)
        assert done.stdout.count("\n") == (1 if command == "lag" else len(WALK))


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
