"""A broker's log directory: cut, damaged, packed to fill the memory; control records."""

import gzip
import json
import random
import struct
from collections import Counter
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import lz4.frame
import pyarrow as pa
import pytest
import snappy
import zstandard
from kafka.record.util import calc_crc32c

from sharelag import open as open_workbench
from sharelag import schemas
from sharelag.errors import InputError
from sharelag.inputs import SegmentsInput
from sharelag.inputs.files.segments import (
    HIGH_WATERMARKS,
    MOST_BYTES,
    read_control,
    read_segments,
    segment_offsets,
)
from sharelag.wire import SHARE_SNAPSHOT, STATE_TOPIC, decode_arrow, encode_record
from tests.support.captures import deny_listing
from tests.support.command import ask, sharelag
from tests.support.damaged_texts import BINARY, damaged
from tests.support.log_directory import batch, beside, user_log, write
from tests.support.memory import peak_of
from tests.support.mutations import corpus
from tests.support.older_records import control, raw
from tests.support.records import KEY, row
from tests.support.reliability import Inject
from tests.support.walk import WALK, walk_records

#: A snapshot of today's format, of a group that no control record is of.
TODAYS = encode_record(SHARE_SNAPSHOT, row(40, [], group_id="today"))


def directory(folder: Path, generation: int, topic_id: str | None = KEY.topic_id) -> Path:
    return write(folder, user_log(raw(control(generation))), topic_id=topic_id)


def begins_of(log: bytes | bytearray) -> list[int]:
    """Where each batch of a log begins."""
    begins = [0]
    while (end := begins[-1] + 12 + struct.unpack_from(">i", log, begins[-1] + 8)[0]) < len(log):
        begins.append(end)
    return begins


def read_all_control(folder: Path) -> pa.Table:
    return pa.Table.from_batches(read_control(folder), schemas.RAW).combine_chunks()


def read_all(folder: Path, topic: str = STATE_TOPIC) -> pa.Table:
    return pa.Table.from_batches(read_segments(folder, topic), schemas.RAW)


@pytest.mark.row("PCR-01")
@pytest.mark.parametrize("generation", [0, 1])
def test_control_records_are_read_and_users_are_not(tmp_path: Path, generation: int) -> None:
    folder = directory(tmp_path, generation)
    expected = raw(control(generation))
    found = read_all_control(folder).to_batches()[0]
    for name in ("key", "value", "topic", "partition", "offset"):
        assert found.column(name).equals(expected.column(name))
    seen = read_all(folder, "orders")
    assert set(seen.column("value").to_pylist()) == {b"of a user"}
    assert set(range(140)) - set(seen.column("offset").to_pylist()) == set(range(130, 138))


@pytest.mark.parametrize("topic_id", [KEY.topic_id, None])
@pytest.mark.parametrize("generation", [0, 1])
def test_lag_of_a_log_directory(tmp_path: Path, generation: int, topic_id: str | None) -> None:
    folder = str(directory(tmp_path, generation, topic_id))
    (line,) = ask("lag", "--segments", folder, "--engine", "local")
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
        rows = ask("windows", "--segments", folder, "--engine", "local", *options)
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


def test_a_log_cut_anywhere_is_read_and_has_one_reject(tmp_path: Path, cases: Any) -> None:
    log, random = user_log(raw(control(1))), Random("cut")
    ends = [*begins_of(log), len(log)]
    first = write(tmp_path, log, topic_id=KEY.topic_id) / "orders-0" / "00000000000000000001.log"
    of_control = [cut for cut in range(len(log)) if ends[130] <= cut < ends[138]]
    anywhere = random.sample(range(ends[1], len(log)), cases(50, 400))
    for cut in anywhere + random.sample(of_control, 50):
        first.write_bytes(log[ends[1] : cut])
        whole = sum(end <= cut for end in ends[1:])
        # Only the first 23 bytes of a batch say whether it is one of control records.
        rest = whole in range(130, 138) and cut - ends[whole] >= 23
        decoded = decode_arrow(read_all_control(tmp_path))
        assert decoded.records.num_rows == len(set(range(whole)) & set(range(130, 138)))
        assert decoded.rejects.column("offset").to_pylist() == ([whole] if rest else [])
        if rest:
            assert decoded.rejects.column("value")[0].as_py() == log[ends[whole] : cut]


def test_a_cut_segment_that_is_not_the_last_is_a_reject(tmp_path: Path) -> None:
    folder = directory(tmp_path, 1)
    first = folder / "orders-0" / "00000000000000000000.log"
    first.write_bytes(first.read_bytes()[:-1])
    decoded = decode_arrow(read_all_control(folder))
    assert (decoded.records.num_rows, decoded.rejects.column("offset").to_pylist()) == (8, [0])
    command = ("windows", "--segments", str(folder), "--engine", "local")
    assert "could not be decoded" in sharelag(*command).stdout


@pytest.mark.parametrize("length", [10**6, 5, 0, -1, 2**31 - 1])
@pytest.mark.parametrize("offset", [1, 60, 134])
def test_a_corrupt_length_is_named(tmp_path: Path, length: int, offset: int) -> None:
    folder = directory(tmp_path, 1)
    file = folder / "orders-0" / "00000000000000000001.log"
    octets = bytearray(file.read_bytes())
    (at,) = (one for one in begins_of(octets) if struct.unpack_from(">q", octets, one)[0] == offset)
    struct.pack_into(">i", octets, at + 8, length)
    file.write_bytes(octets)
    with pytest.raises(InputError, match=f"the batch at offset {offset} is corrupt .its length"):
        read_all_control(folder)


def test_a_corrupt_length_of_an_old_format_is_named(tmp_path: Path) -> None:
    octets = bytearray(b"".join(walk_batches()))
    struct.pack_into(">i4xb", octets, 8, -256, 0)
    with pytest.raises(InputError, match=r"is corrupt .its length"):
        read_all(write_state(tmp_path, bytes(octets)))


def test_users_records_between_control_records_are_not_missing(tmp_path: Path) -> None:
    rows = control(1)
    for at, each in enumerate(rows):
        each["offset"] = 130 + 5 * at
    folder = write(tmp_path, user_log(raw(rows)), topic_id=KEY.topic_id)
    bench = open_workbench(folder, engine="local")
    (health,) = bench.health().table.to_pylist()
    assert (health["records"], health["missing"], health["prunable"]) == (8, None, None)
    done = sharelag("health", "--segments", str(folder), "--engine", "local", code=0)
    assert "missing" not in done.stderr


def test_a_corrupt_control_batch_is_named(tmp_path: Path) -> None:
    folder = directory(tmp_path, 1)
    file = folder / "orders-0" / "00000000000000000001.log"
    file.write_bytes(file.read_bytes().replace(b"\0\2G1", b"\0\2G0", 1))
    with pytest.raises(InputError, match="offset 130 is corrupt"):
        read_all_control(folder)


def test_records_below_the_log_start_and_other_control_records_are_left_out(tmp_path: Path) -> None:
    folder = directory(tmp_path, 1)
    (folder / "log-start-offset-checkpoint").write_text("0\n1\norders 0 135\n")
    assert read_all_control(folder).column("offset").to_pylist() == [135, 136, 137]
    commit = batch([(200, b"\0\0\0\1", b"\0\0\0\0\0\0")], control=True)
    (folder / "orders-0" / "00000000000000000200.log").write_bytes(commit)
    assert read_all_control(folder).num_rows == 3


def test_users_topics_are_not_searched_beside_the_state_topic(tmp_path: Path) -> None:
    folder = write_state(directory(tmp_path, 1), b"")
    assert sum(batch.num_rows for batch in SegmentsInput((folder,)).batches(STATE_TOPIC)) == 0


def walk_batches() -> list[bytes]:
    """The walk, one or two records a batch."""
    records = walk_records(max(WALK))
    pairs = [records[:1], *([*records[n : n + 2]] for n in range(1, len(records), 2))]
    return [
        batch([(2 * n + i, key, value) for i, (_, key, value) in enumerate(pair)])
        for n, pair in enumerate(pairs)
    ]


def write_state(folder: Path, octets: bytes) -> Path:
    place = folder / f"{STATE_TOPIC}-0"
    place.mkdir(exist_ok=True)
    (place / "00000000000000000000.log").write_bytes(octets)
    return folder


def test_a_log_cut_at_any_byte_is_read_up_to_there(tmp_path: Path, cases: Any) -> None:
    parts = walk_batches()
    whole = b"".join(parts)
    values = read_all(write_state(tmp_path, whole)).column("value").to_pylist()
    ends = [sum(map(len, parts[: n + 1])) for n in range(len(parts))]
    counts = [sum(2 if n else 1 for n in range(k)) for k in range(len(parts) + 1)]
    anywhere = Random("cut segments").sample(range(1, len(whole)), cases(50, 200))
    for cut in [*anywhere, *ends]:
        found = read_all(write_state(tmp_path, whole[:cut]))
        complete = sum(end <= cut for end in ends)
        kept = min(counts[complete], len(values))
        rest = whole[ends[complete - 1] if complete else 0 : cut]
        # A batch begins with the zeros of its offset: alone they may be what a broker allocated.
        rest = rest if rest.strip(b"\0") else b""
        assert found.column("value").to_pylist() == values[:kept] + ([rest] if rest else [])
        decoded = decode_arrow(found)
        assert (decoded.records.num_rows, decoded.rejects.num_rows) == (kept, bool(rest))


def test_commands_count_the_rest_as_one_reject(tmp_path: Path) -> None:
    whole = b"".join(walk_batches())
    folder = str(write_state(tmp_path, whole[:-7]))
    done = sharelag("windows", "--segments", folder, "-o", "json")
    assert json.loads(done.stdout)["effective_start_offset"] == 111
    assert "1 record" in done.stderr
    assert "rejected" in done.stderr or "could not be decoded" in done.stderr


def test_zeros_that_a_broker_allocated_ahead_are_the_end_and_no_reject(tmp_path: Path) -> None:
    file = directory(tmp_path, 1) / "orders-0" / "00000000000000000001.log"
    file.write_bytes(file.read_bytes() + bytes(5_000))
    assert read_all_control(tmp_path).num_rows == 8
    found = read_all(write_state(tmp_path, b"".join(walk_batches()) + bytes(4096)))
    assert found.num_rows == len(walk_records(max(WALK)))


CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
SEGMENT = "00000000000000000000.log"
MOVED = "segments read, whose last batch has a later offset: no checksum covers that"
#: Offset, key and value.
_Row = tuple[Any, ...]
BATCHES, RECORDS = 4, 10


def _log(codec: int) -> bytes:
    """Return batches of recorded state records."""
    return b"".join(_batch(at, at, codec=codec) for at in range(0, BATCHES * RECORDS, RECORDS))


def _batch(offset: int, begin: int = 0, codec: int = 0) -> bytes:
    """Return recorded state records from one on, at these offsets."""
    rows = enumerate(_recorded()[begin : begin + RECORDS], offset)
    return batch([(at, one["key"], one["value"]) for at, one in rows], codec=codec)


@cache
def _recorded() -> list[dict[str, Any]]:
    return corpus(STATE_TOPIC).slice(0, BATCHES * RECORDS).to_pylist()


def _with_checksums(log: bytes) -> bytes:
    """Make the checksums right again, so that damage reaches what they protect."""
    octets, at = bytearray(log), 0
    while at + 61 <= len(octets):
        end = at + 12 + struct.unpack_from(">i", octets, at + 8)[0]
        if not at + 61 <= end <= len(octets):
            break
        struct.pack_into(">I", octets, at + 17, calc_crc32c(bytes(octets[at + 21 : end])))
        at = end
    return bytes(octets)


@pytest.mark.parametrize("codec", [*CODECS, "control"])
def test_damaged_segments_are_read_or_refused(
    codec: str, tmp_path: Path, cases: Any, injected: Inject
) -> None:
    """Records are those that were written, where the checksums are; behind others all may differ.

    No checksum covers the offset of a batch: that of the last may be another, a later one.
    """
    is_control = codec == "control"
    log = user_log(raw(control(0))) if is_control else _log(CODECS[codec])
    segment = tmp_path / f"{'orders' if is_control else STATE_TOPIC}-0" / SEGMENT
    segment.parent.mkdir()

    def read() -> tuple[set[_Row], int]:
        """Return the records that are no rejects, and how many are in no place."""
        records: set[_Row] = set()
        lost = 0
        for given in read_control(tmp_path) if is_control else read_segments(tmp_path, STATE_TOPIC):
            found = decode_arrow(given)
            rows = found.records.num_rows + found.rejects.num_rows + found.skipped
            lost += abs(given.num_rows - rows)
            rejected = set(found.rejects.column("offset").to_pylist())
            columns = (given.column(name).to_pylist() for name in ("offset", "key", "value"))
            records |= {row for row in zip(*columns, strict=True) if row[0] not in rejected}
        return records, lost

    segment.write_bytes(log)
    whole, _ = read()
    assert whole or is_control
    count, happened = cases(80, 5000), {True: Counter[str](), False: Counter[str]()}
    lost, wrong = {True: 0, False: 0}, 0
    for seed in range(count):
        chance = random.Random(f"{codec} {seed}")
        octets = damaged(log, chance, BINARY)
        is_told = chance.random() < 0.4
        segment.write_bytes(octets if is_told else _with_checksums(octets))
        try:
            found, more = read()
            lost[is_told] += more
            others = found - whole if is_told else set()
            is_moved = bool(others) and _are_the_last_ones_moved(others, found, whole)
            happened[is_told][MOVED if is_moved else "segments read"] += 1
            wrong += 0 if is_moved else len(others)
        except InputError as error:
            happened[is_told]["refusals with the file"] += 1
            if str(segment) not in str(error):
                pytest.fail(f"seed {seed}: {error}")
        except Exception as error:
            pytest.fail(f"seed {seed}: {type(error).__name__}: {error}")
    for is_told, then in ((True, ""), (False, ", and its checksums made to fit")):
        told, fault = happened[is_told], f"a segment of a broker is damaged{then}"
        count_wrong = wrong if is_told else None
        injected("records", fault, told.total(), told, lost=lost[is_told], wrong=count_wrong)
        assert min(told["segments read"], told["refusals with the file"]) > 1
    assert (lost[True], lost[False], wrong) == (0, 0, 0)


def _are_the_last_ones_moved(others: set[_Row], found: set[_Row], whole: set[_Row]) -> bool:
    """Return whether other records are written ones of the end, as far behind their offsets."""
    offsets = {row[1:]: row[0] for row in whole}
    far = {row[0] - offsets.get(row[1:], row[0]) for row in others}
    last = max((row[0] for row in found - others), default=-1)
    return len(far) == 1 and min(far) > 0 and min(row[0] for row in others) > last


def _write_packed(folder: Path, codec: int, packed: bytes) -> None:
    """Write a segment of one batch, whose records are packed so."""
    head = bytearray(_batch(0)[:61])
    struct.pack_into(">i", head, 8, 49 + len(packed))
    struct.pack_into(">h", head, 21, codec)
    write_state(folder, _with_checksums(bytes(head) + packed))


def _xerial(data: bytes) -> bytes:
    block = snappy.compress(data[: 1 << 20])
    head = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    return head + (struct.pack(">i", len(block)) + block) * (len(data) >> 20)


@pytest.mark.parametrize(
    ("codec", "pack"),
    [
        (1, gzip.compress),
        (2, snappy.compress),
        (2, _xerial),
        (3, lz4.frame.compress),
        (4, zstandard.ZstdCompressor().compress),
    ],
    ids=["gzip", "snappy", "snappy blocks", "lz4", "zstd"],
)
def test_a_batch_that_fills_the_memory_is_refused(codec: int, pack: Any, tmp_path: Path) -> None:
    packed = pack(bytes(MOST_BYTES + (1 << 20)))
    _write_packed(tmp_path, codec, packed)

    def refused() -> None:
        with pytest.raises(InputError, match="more than 64 MiB without compression"):
            read_all(tmp_path)

    assert peak_of(refused) < MOST_BYTES // 2 + 4 * len(packed)


def test_a_block_of_snappy_that_leads_back_ends(tmp_path: Path) -> None:
    _write_packed(tmp_path, CODECS["snappy"], b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, -4))
    with pytest.raises(InputError, match="cannot be read"):
        read_all(tmp_path)


@pytest.mark.parametrize(
    "text", ["0\n1\norders 0\n", "0\n1\norders 0 x\n", f"0\n1\norders 0 {'9' * 30}\n", "0\n1\n\xff"]
)
def test_a_damaged_checkpoint_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / SEGMENT).write_bytes(b"")
    (tmp_path / HIGH_WATERMARKS).write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=HIGH_WATERMARKS):
        segment_offsets(tmp_path)


def test_folders_and_files_with_other_names_are_not_partitions(tmp_path: Path) -> None:
    for name in ("orders-0", f"orders-{'9' * 30}", "orders-\u0661"):
        (tmp_path / name).mkdir()
        (tmp_path / name / SEGMENT).write_bytes(b"")
    (tmp_path / "orders-0" / "notes.log").write_bytes(b"")
    assert segment_offsets(tmp_path).column("log_start_offset").to_pylist() == [0]


@pytest.mark.parametrize("offset", [5, 1 << 31, 1 << 40])
def test_a_batch_out_of_order_or_beyond_its_log_is_corrupt(offset: int, tmp_path: Path) -> None:
    write_state(tmp_path, _batch(0) + _batch(offset, RECORDS))
    said = f"begins at offset {offset}, where .* from 10 to {2**31 - 1} can"
    with pytest.raises(InputError, match=said):
        read_all(tmp_path)


def test_a_batch_of_the_next_segment_is_corrupt(tmp_path: Path) -> None:
    octets = _batch(40)
    write_state(tmp_path, octets)
    (tmp_path / f"{STATE_TOPIC}-0" / f"{40:020}.log").write_bytes(octets)
    with pytest.raises(InputError, match=f"{SEGMENT}: .* offset 40, where .* from 0 to 39 can be"):
        read_all(tmp_path)


def test_a_folder_not_listed_is_not_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = directory(tmp_path, 1)
    beside(folder, *TODAYS)
    deny_listing(monkeypatch, f"{STATE_TOPIC}-0")
    with pytest.raises(InputError, match=r"__share_group_state-0 \(denied\): ask for the right"):
        SegmentsInput((folder,)).places()


def test_a_damaged_topic_id_is_not_that_of_a_broker_without_ids(tmp_path: Path) -> None:
    folder = directory(tmp_path, 1)
    (folder / "orders-0" / "partition.metadata").write_bytes(b"\0\xff")
    with pytest.raises(InputError, match=r"partition\.metadata is damaged \(it has no topic_id\)"):
        segment_offsets(folder)
