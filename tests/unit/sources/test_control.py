"""Are control records with share state found among users' records in a log directory?"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from sharelag import open as open_workbench
from sharelag import schemas
from sharelag.errors import InputError
from sharelag.sources.files.control import read_control
from sharelag.sources.files.segments import read_segments
from sharelag.sources.inputs import SegmentsInput
from sharelag.wire import decode_arrow
from sharelag.wire.encode import encode_record
from sharelag.wire.fields import SHARE_SNAPSHOT, STATE_TOPIC
from tests.support.command import sharelag
from tests.support.log_directory import batch, beside, user_log, write
from tests.support.older_records import control, raw
from tests.support.records import KEY, row

#: A snapshot of today's format, of a group that no control record is of.
TODAYS = encode_record(SHARE_SNAPSHOT, row(40, [], group_id="today"))


def directory(folder: Path, generation: int, topic_id: str | None = KEY.topic_id) -> Path:
    return write(folder, user_log(raw(control(generation))), topic_id=topic_id)


def found_in(folder: Path) -> pa.Table:
    return pa.Table.from_batches(read_control(folder), schemas.RAW)


@pytest.mark.row("PCR-01")
@pytest.mark.parametrize("generation", [0, 1])
def test_control_records_are_read_and_users_are_not(tmp_path: Path, generation: int) -> None:
    folder = directory(tmp_path, generation)
    expected = raw(control(generation))
    found = found_in(folder).combine_chunks().to_batches()[0]
    for name in ("key", "value", "topic", "partition", "offset"):
        assert found.column(name).equals(expected.column(name))
    seen = pa.Table.from_batches(read_segments(folder, "orders"), schemas.RAW)
    assert set(seen.column("value").to_pylist()) == {b"of a user"}
    assert set(range(140)) - set(seen.column("offset").to_pylist()) == set(range(130, 138))


@pytest.mark.parametrize("topic_id", [KEY.topic_id, None])
@pytest.mark.parametrize("generation", [0, 1])
def test_windows_and_lag_of_a_log_directory(
    tmp_path: Path, generation: int, topic_id: str | None
) -> None:
    folder = str(directory(tmp_path, generation, topic_id))
    done = sharelag("lag", "--segments", folder, "-o", "json", "--engine", "local")
    assert done.returncode == 0, done.stderr
    (line,) = [json.loads(text) for text in done.stdout.splitlines()]
    assert (line["topic"], line["partition"], line["end_offset"]) == ("orders", 0, 140)
    assert line["effective_lag"] == 140 - 120
    health = sharelag("health", "--segments", folder, "--engine", "local")
    assert f"format of the records: G{generation}" in health.stderr
    windows = open_workbench(folder, engine="local").windows().table.to_pylist()
    assert [row["effective_start_offset"] for row in windows] == [120]


def test_control_records_beside_a_state_topic_are_read_on_request(tmp_path: Path) -> None:
    folder = str(beside(directory(tmp_path, 1), *TODAYS))

    alone = str(directory(tmp_path / "alone", 1))

    def starts(folder: str, *options: str) -> dict[str, int]:
        command = ("windows", "--segments", folder, "-o", "json", "--engine", "local")
        done = sharelag(*command, *options)
        assert done.returncode == 0, done.stderr
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        return {row["group_id"]: row["start_offset"] for row in rows}

    assert starts(folder) == starts(folder, "--generation", "4") == {"today": 40}
    assert starts(folder, "--generation", "1") == {"today": 40} | starts(alone)
    assert set(starts(alone)) == {"G1"}
    found = open_workbench(folder, engine="local", generation=1).windows().table
    assert sorted(found.column("group_id").to_pylist()) == ["G1", "today"]


def test_every_command_reads_them(tmp_path: Path) -> None:
    folder = str(directory(tmp_path, 0))
    for command in ("history", "explain", "windows", "progress"):
        done = sharelag(command, "--segments", folder, "--engine", "local")
        assert "G1" in done.stdout, done.stderr


def test_a_log_cut_anywhere_is_read_up_to_there_and_the_rest_is_one_reject(
    tmp_path: Path,
) -> None:
    log, random = user_log(raw(control(1))), Random("cut")
    ends, at = [0], 0
    while at < len(log):
        at += 12 + struct.unpack_from(">i", log, at + 8)[0]
        ends.append(at)
    first = write(tmp_path, log, topic_id=KEY.topic_id) / "orders-0" / "00000000000000000001.log"
    of_control = [cut for cut in range(len(log)) if ends[130] <= cut < ends[138]]
    for cut in random.sample(range(ends[1], len(log)), 200) + random.sample(of_control, 50):
        first.write_bytes(log[ends[1] : cut])
        whole = sum(end <= cut for end in ends[1:])
        # Only the first 23 bytes of a batch say whether it is one of control records.
        rest = whole in range(130, 138) and cut - ends[whole] >= 23
        decoded = decode_arrow(found_in(tmp_path).combine_chunks())
        assert decoded.records.num_rows == len(set(range(whole)) & set(range(130, 138)))
        assert decoded.rejects.column("offset").to_pylist() == ([whole] if rest else [])
        if rest:
            assert decoded.rejects.column("value")[0].as_py() == log[ends[whole] : cut]


def test_a_cut_segment_that_is_not_the_last_is_a_reject(tmp_path: Path) -> None:
    folder = directory(tmp_path, 1)
    first = folder / "orders-0" / "00000000000000000000.log"
    first.write_bytes(first.read_bytes()[:-1])
    decoded = decode_arrow(found_in(folder).combine_chunks())
    assert (decoded.records.num_rows, decoded.rejects.column("offset").to_pylist()) == (8, [0])
    command = ("windows", "--segments", str(folder), "--engine", "local")
    assert "could not be decoded" in sharelag(*command).stdout


@pytest.mark.parametrize("length", [10**6, 5, 0, -1, 2**31 - 1])
@pytest.mark.parametrize("offset", [1, 60, 134])
def test_a_corrupt_length_is_named(tmp_path: Path, length: int, offset: int) -> None:
    folder = directory(tmp_path, 1)
    file = folder / "orders-0" / "00000000000000000001.log"
    octets = bytearray(file.read_bytes())
    at = 0
    while struct.unpack_from(">q", octets, at)[0] != offset:
        at += 12 + struct.unpack_from(">i", octets, at + 8)[0]
    struct.pack_into(">i", octets, at + 8, length)
    file.write_bytes(octets)
    with pytest.raises(InputError, match=f"the batch at offset {offset} is corrupt .its length"):
        found_in(folder)


def test_zeros_that_a_broker_allocated_ahead_are_the_end(tmp_path: Path) -> None:
    folder = directory(tmp_path, 1)
    file = folder / "orders-0" / "00000000000000000001.log"
    file.write_bytes(file.read_bytes() + bytes(5_000))
    assert found_in(folder).num_rows == 8


def test_users_records_between_control_records_are_not_missing(tmp_path: Path) -> None:
    rows = control(1)
    for at, each in enumerate(rows):
        each["offset"] = 130 + 5 * at
    folder = write(tmp_path, user_log(raw(rows)), topic_id=KEY.topic_id)
    bench = open_workbench(folder, engine="local")
    (health,) = bench.health().table.to_pylist()
    assert (health["records"], health["missing"], health["prunable"]) == (8, None, None)
    done = sharelag("health", "--segments", str(folder), "--engine", "local")
    assert done.returncode == 0
    assert "missing" not in done.stderr


def test_a_corrupt_control_batch_is_named(tmp_path: Path) -> None:
    folder = directory(tmp_path, 1)
    file = folder / "orders-0" / "00000000000000000001.log"
    octets = bytearray(file.read_bytes())
    octets[octets.index(b"\0\2G1") + 3] ^= 1
    file.write_bytes(octets)
    with pytest.raises(InputError, match="offset 130 is corrupt"):
        found_in(folder)


def test_records_below_the_log_start_and_other_control_records_are_left_out(
    tmp_path: Path,
) -> None:
    folder = directory(tmp_path, 1)
    (folder / "log-start-offset-checkpoint").write_text("0\n1\norders 0 135\n")
    assert found_in(folder).column("offset").to_pylist() == [135, 136, 137]
    commit = batch([(200, b"\0\0\0\1", b"\0\0\0\0\0\0")], control=True)
    (folder / "orders-0" / "00000000000000000200.log").write_bytes(commit)
    assert found_in(folder).num_rows == 3


def test_users_topics_are_not_searched_beside_the_state_topic(tmp_path: Path) -> None:
    folder = directory(tmp_path, 1)
    state = folder / "__share_group_state-0"
    state.mkdir()
    (state / "00000000000000000000.log").write_bytes(b"")
    assert sum(batch.num_rows for batch in SegmentsInput((folder,)).batches(STATE_TOPIC)) == 0
