"""Damaged segments are records or one sentence; what is packed to fill the memory is refused."""

from __future__ import annotations

import gzip
import random
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import lz4.frame
import pytest
import snappy
import zstandard
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.util import calc_crc32c

from sharelag.errors import InputError
from sharelag.sources.files.control import read_control
from sharelag.sources.files.segments import HIGH_WATERMARKS, read_segments, segment_offsets
from sharelag.sources.files.unpacking import MOST_BYTES
from sharelag.wire import decode_arrow
from sharelag.wire.fields import STATE_TOPIC
from tests.support.log_directory import user_log
from tests.support.memory import peak_of
from tests.support.mutations import corpus
from tests.support.older_records import control, raw
from tests.support.reliability import Inject

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
SEGMENT = "00000000000000000000.log"
MOVED = "segments read, whose last batch has a later offset: no checksum covers that"
#: Offset, key and value.
_Row = tuple[Any, ...]
BATCHES, RECORDS = 4, 10


def _log(codec: int) -> bytes:
    """Return batches of recorded state records."""
    rows = corpus(STATE_TOPIC).slice(0, BATCHES * RECORDS).to_pylist()
    return b"".join(
        _batch(rows[at : at + RECORDS], codec, at) for at in range(0, len(rows), RECORDS)
    )


def _batch(rows: list[dict[str, Any]], codec: int, first: int) -> bytes:
    builder = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, 1 << 30)
    for number, row in enumerate(rows):
        builder.append(number, 1_732_000_000_000, row["key"], row["value"], [])
    octets = bytearray(builder.build())
    struct.pack_into(">q", octets, 0, first)
    return bytes(octets)


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


def _damaged(log: bytes, chance: random.Random) -> bytes:
    octets = bytearray(log)
    for _ in range(chance.choice([1, 1, 3, 10])):
        at = chance.randrange(len(octets))
        match chance.randrange(4):
            case 0:
                octets[at] ^= 1 << chance.randrange(8)
            case 1:
                octets[at : at + 4] = struct.pack(">i", chance.choice([-1, 0, 1 << 30, -(1 << 31)]))
            case 2:
                del octets[at : at + chance.randrange(20)]
            case _:
                octets[at:at] = chance.randbytes(chance.randrange(9))
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
        for batch in read_control(tmp_path) if is_control else read_segments(tmp_path, STATE_TOPIC):
            found = decode_arrow(batch)
            rows = found.records.num_rows + found.rejects.num_rows + found.skipped
            lost += abs(batch.num_rows - rows)
            rejected = set(found.rejects.column("offset").to_pylist())
            columns = (batch.column(name).to_pylist() for name in ("offset", "key", "value"))
            records |= {row for row in zip(*columns, strict=True) if row[0] not in rejected}
        return records, lost

    segment.write_bytes(log)
    whole, _ = read()
    assert whole or is_control
    count, happened = cases(240, 5000), {True: Counter[str](), False: Counter[str]()}
    lost, wrong = {True: 0, False: 0}, 0
    for seed in range(count):
        chance = random.Random(f"{codec} {seed}")
        damaged = _damaged(log, chance)
        is_told = chance.random() < 0.4
        segment.write_bytes(damaged if is_told else _with_checksums(damaged))
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
    for is_told, fault in (
        (True, "a segment of a broker is damaged"),
        (False, "a segment of a broker is damaged, and its checksums made to fit"),
    ):
        injected(
            *("records", fault, happened[is_told].total(), happened[is_told]),
            lost=lost[is_told],
            wrong=wrong if is_told else None,
        )
        assert (
            min(happened[is_told][key] for key in ("segments read", "refusals with the file")) > 1
        )
    assert (lost[True], lost[False], wrong) == (0, 0, 0)


def _are_the_last_ones_moved(others: set[_Row], found: set[_Row], whole: set[_Row]) -> bool:
    """Whether other records are written ones, of the end, each as far behind its own offset."""
    offsets = {row[1:]: row[0] for row in whole}
    far = {row[0] - offsets.get(row[1:], row[0]) for row in others}
    last = max((row[0] for row in found - others), default=-1)
    return len(far) == 1 and min(far) > 0 and min(row[0] for row in others) > last


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
def test_a_batch_that_would_fill_the_memory_is_refused(
    codec: int, pack: Any, tmp_path: Path
) -> None:
    packed = pack(bytes(MOST_BYTES + (1 << 20)))
    head = bytearray(_batch(corpus(STATE_TOPIC).slice(0, 1).to_pylist(), 0, 0)[:61])
    struct.pack_into(">i", head, 8, 49 + len(packed))
    struct.pack_into(">h", head, 21, codec)
    segment = tmp_path / f"{STATE_TOPIC}-0" / SEGMENT
    segment.parent.mkdir()
    segment.write_bytes(_with_checksums(bytes(head) + packed))

    def refused() -> None:
        with pytest.raises(InputError, match="more than 64 MiB without compression"):
            list(read_segments(tmp_path, STATE_TOPIC))

    assert peak_of(refused) < MOST_BYTES // 2 + 4 * len(packed)


def test_a_block_of_snappy_that_leads_back_ends(tmp_path: Path) -> None:
    packed = b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, -4)
    head = bytearray(_batch(corpus(STATE_TOPIC).slice(0, 1).to_pylist(), 0, 0)[:61])
    struct.pack_into(">i", head, 8, 49 + len(packed))
    struct.pack_into(">h", head, 21, CODECS["snappy"])
    segment = tmp_path / f"{STATE_TOPIC}-0" / SEGMENT
    segment.parent.mkdir()
    segment.write_bytes(_with_checksums(bytes(head) + packed))
    with pytest.raises(InputError, match="cannot be read"):
        list(read_segments(tmp_path, STATE_TOPIC))


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


@pytest.mark.parametrize(
    ("offset", "limits"),
    [(5, "10 to 2147483647"), (1 << 31, "10 to 2147483647"), (1 << 40, "10 to 2147483647")],
)
def test_a_batch_out_of_order_or_beyond_what_a_segment_has_is_corrupt(
    offset: int, limits: str, tmp_path: Path
) -> None:
    rows = corpus(STATE_TOPIC).slice(0, 2 * RECORDS).to_pylist()
    segment = tmp_path / f"{STATE_TOPIC}-0" / SEGMENT
    segment.parent.mkdir()
    segment.write_bytes(_batch(rows[:RECORDS], 0, 0) + _batch(rows[RECORDS:], 0, offset))
    with pytest.raises(InputError, match=f"begins at offset {offset}, where .* from {limits} can"):
        list(read_segments(tmp_path, STATE_TOPIC))


def test_a_batch_of_the_next_segment_is_corrupt(tmp_path: Path) -> None:
    rows = corpus(STATE_TOPIC).slice(0, RECORDS).to_pylist()
    folder = tmp_path / f"{STATE_TOPIC}-0"
    folder.mkdir()
    (folder / SEGMENT).write_bytes(_batch(rows, 0, 40))
    (folder / f"{40:020}.log").write_bytes(_batch(rows, 0, 40))
    with pytest.raises(InputError, match=f"{SEGMENT}: .* offset 40, where .* from 0 to 39 can be"):
        list(read_segments(tmp_path, STATE_TOPIC))
