"""Inputs of the rows: seeded light and heavy records, and recorded ones, in several forms.

`light` has 141 bytes and four batches per record, `heavy` 1.3 kB and sixty; `recorded` is the
output of a real broker in the experiments of ``data/captures``, repeated as often as necessary.
Files are below the folder of the run and are written once.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import groupby, islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake

import sharelag
from benchmarks.generate import (
    CHUNK,
    STATE_PARTITIONS,
    STATE_TOPIC,
    record_batches,
    share_partitions,
)
from sharelag import schemas

CAPTURES = Path(__file__).parents[1] / "data" / "captures"
#: An end offset beyond every window.
END = 10**9


class Inputs:
    """Creates inputs, and keeps the files below a folder.

    Parameters
    ----------
    folder : pathlib.Path
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "inputs"

    def stream(self, shape: str, records: int, keys: int = 10_000) -> Iterator[pa.RecordBatch]:
        """Yield `sharelag.schemas.RAW` as a stream, state partition by state partition.

        Parameters
        ----------
        shape : str
            ``light``, ``heavy`` or ``recorded``.
        records : int
        keys : int
            Share partitions; ``recorded`` has its own.
        """
        if shape == "recorded":
            yield from _recorded(records)
        else:
            yield from record_batches(shape, records, keys)

    def batches(self, shape: str, records: int, keys: int = 10_000) -> list[pa.RecordBatch]:
        """Return the same, in memory."""
        return list(self.stream(shape, records, keys))

    def parquet(self, shape: str, records: int, keys: int = 10_000) -> Path:
        """Return a folder of raw records, one Parquet file per state partition.

        A batch of Spark's Kafka source writes them like this: one task and one file per partition.
        """
        return self.capture(shape, records, keys) / "records"

    def capture(self, shape: str, records: int, keys: int = 10_000) -> Path:
        """Return a folder for `sharelag.open`, with an end offset of every partition."""
        folder = self._folder / f"capture-{shape}-{records}-{keys}"
        if not folder.exists():
            half = folder.with_name(f".{folder.name}")
            shutil.rmtree(half, ignore_errors=True)
            _write_parquet(half / "records", self.stream(shape, records, keys))
            write_capture(half, offsets(keys))
            half.rename(folder)
        return folder

    def delta(self, shape: str, records: int, keys: int = 10_000) -> Path:
        """Return the folder of a Delta table of the same records, written in two versions."""
        folder = self._folder / f"delta-{shape}-{records}-{keys}"
        if not folder.exists():
            half = folder.with_name(f".{folder.name}")
            shutil.rmtree(half, ignore_errors=True)
            batches = self.batches(shape, records, keys)
            middle = (len(batches) + 1) // 2
            for part in filter(None, (batches[:middle], batches[middle:])):
                write_deltalake(str(half), pa.Table.from_batches(part), mode="append")
            half.rename(folder)
        return folder

    def flat(self, shape: str, records: int, keys: int = 10_000) -> Path:
        """Return the path of flat files for other languages, without their endings.

        ``.kb`` and ``.vb`` are the concatenated bytes of keys and values, ``.ko`` and ``.vo`` their
        start offsets and the end of the last: little-endian 64 bits.
        """
        stem = self._folder / f"flat-{shape}-{records}-{keys}"
        if not stem.with_suffix(".done").exists():
            stem.parent.mkdir(parents=True, exist_ok=True)
            for name, letter in (("key", "k"), ("value", "v")):
                _write_flat(
                    stem, letter, (b.column(name) for b in self.stream(shape, records, keys))
                )
            stem.with_suffix(".done").touch()
        return stem


def offsets(keys: int) -> pa.Table:
    """Return `sharelag.schemas.OFFSETS` of the topics of the seeded share partitions."""
    topics = sorted({(key.topic_id, key.partition) for key in share_partitions(keys)})
    now = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        {
            "topic": f"topic-{topic_id}",
            "topic_id": topic_id,
            "partition": partition,
            "log_start_offset": 0,
            "end_offset": END,
            "leader_epoch": 0,
            "as_of": now,
        }
        for topic_id, partition in topics
    ]
    return pa.Table.from_pylist(rows, schema=schemas.OFFSETS)


def write_capture(folder: Path, ends: pa.Table, partitions: int = STATE_PARTITIONS) -> None:
    """Turn a folder with ``records`` into a capture of format 1."""
    pq.write_table(ends, folder / "offsets.parquet")
    about = {
        "format": 1,
        "cluster_id": "benchmark",
        "tool_version": sharelag.__version__,
        "as_of": ends.column("as_of")[0].as_py().isoformat(),
        "options": {},
        "topics": {STATE_TOPIC: {"partitions": partitions}},
    }
    (folder / "capture.json").write_text(json.dumps(about))


def _write_parquet(folder: Path, batches: Iterator[pa.RecordBatch]) -> None:
    folder.mkdir(parents=True)
    for state, group in groupby(batches, key=lambda batch: batch.column("partition")[0].as_py()):
        with pq.ParquetWriter(folder / f"state-{state}.parquet", schemas.RAW) as writer:
            while held := list(islice(group, 5)):
                writer.write_table(pa.Table.from_batches(held))


def _write_flat(stem: Path, letter: str, columns: Iterator[pa.Array]) -> None:
    end = 0
    with (
        stem.with_suffix(f".{letter}b").open("wb") as data,
        stem.with_suffix(f".{letter}o").open("wb") as where,
    ):
        where.write((0).to_bytes(8, "little"))
        for column in columns:
            _, offsets_, bytes_ = column.buffers()
            at = np.frombuffer(offsets_, np.int32)[column.offset : column.offset + len(column) + 1]
            at = at.astype(np.int64)
            data.write(memoryview(bytes_)[int(at[0]) : int(at[-1])])
            where.write((at[1:] - at[0] + end).astype("<i8").tobytes())
            end += int(at[-1] - at[0])


def _recorded(records: int) -> Iterator[pa.RecordBatch]:
    """Yield the output of brokers repeatedly, with ascending offsets."""
    paths = sorted(CAPTURES.glob("**/records/*.parquet"))
    whole = pa.concat_tables([pq.read_table(path).cast(schemas.RAW) for path in paths])
    ours = whole.filter(np.equal(whole.column("topic").to_numpy(zero_copy_only=False), STATE_TOPIC))
    whole = ours.combine_chunks()
    left, number = records, 0
    held: list[pa.RecordBatch] = []
    while left > 0:
        table = whole.slice(0, left)
        at = pa.array(number * len(whole) + np.arange(len(table)))
        table = table.set_column(4, "offset", at).set_column(
            3, "partition", pa.repeat(pa.scalar(0, pa.int32()), len(table))
        )
        held += table.cast(schemas.RAW).to_batches()
        left, number = left - len(table), number + 1
        if left <= 0 or sum(batch.num_rows for batch in held) >= CHUNK:
            yield pa.Table.from_batches(held).combine_chunks().to_batches()[0]
            held = []
