"""A log directory that was cut: what is before the cut is read, and the rest is one reject."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pyarrow as pa

from sharelag import schemas
from sharelag.sources.files.segments import read_segments
from sharelag.wire import decode_arrow
from sharelag.wire.fields import STATE_TOPIC
from tests.support.command import sharelag
from tests.support.log_directory import batch
from tests.support.walk import WALK, walk_records


def batches() -> list[bytes]:
    """The walk, one or two records a batch."""
    records = walk_records(max(WALK))
    pairs = [records[:1], *([*records[n : n + 2]] for n in range(1, len(records), 2))]
    numbered = enumerate(pairs)
    return [
        batch([(2 * n + i, key, value) for i, (_, key, value) in enumerate(pair)])
        for n, pair in numbered
    ]


def write(folder: Path, octets: bytes) -> Path:
    place = folder / f"{STATE_TOPIC}-0"
    place.mkdir(exist_ok=True)
    (place / "00000000000000000000.log").write_bytes(octets)
    return folder


def test_a_log_cut_at_any_byte_is_read_up_to_there(tmp_path: Path) -> None:
    parts = batches()
    whole = b"".join(parts)
    all_of_it = pa.Table.from_batches(read_segments(write(tmp_path, whole), STATE_TOPIC))
    values = all_of_it.column("value").to_pylist()
    ends = [sum(map(len, parts[: n + 1])) for n in range(len(parts))]
    counts = [sum(2 if n else 1 for n in range(k)) for k in range(len(parts) + 1)]
    for cut in [*Random("cut segments").sample(range(1, len(whole)), 200), *ends]:
        found = pa.Table.from_batches(
            read_segments(write(tmp_path, whole[:cut]), STATE_TOPIC), schemas.RAW
        )
        complete = sum(end <= cut for end in ends)
        kept = min(counts[complete], len(values))
        rest = whole[ends[complete - 1] if complete else 0 : cut]
        # A batch begins with the zeros of its offset: alone they may be what a broker allocated.
        rest = rest if rest.strip(b"\0") else b""
        assert found.column("value").to_pylist() == values[:kept] + ([rest] if rest else [])
        decoded = decode_arrow(found)
        assert (decoded.records.num_rows, decoded.rejects.num_rows) == (kept, bool(rest))


def test_commands_count_the_rest_as_one_reject(tmp_path: Path) -> None:
    whole = b"".join(batches())
    folder = str(write(tmp_path, whole[:-7]))
    done = sharelag("windows", "--segments", folder, "-o", "json")
    assert json.loads(done.stdout)["effective_start_offset"] == 111
    assert "1 record" in done.stderr
    assert "rejected" in done.stderr or "could not be decoded" in done.stderr


def test_zeros_that_a_broker_allocated_ahead_are_no_reject(tmp_path: Path) -> None:
    found = pa.Table.from_batches(
        read_segments(write(tmp_path, b"".join(batches()) + bytes(4096)), STATE_TOPIC)
    )
    assert found.num_rows == len(walk_records(max(WALK)))
