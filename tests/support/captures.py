"""Captures of brokers of which some did not answer, or are newer than is known."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq

from sharelag.wire.fields import GROUP_TOPIC
from tests.support.columns import with_column


def half_known(source: Path, folder: Path) -> Path:
    """Copy a capture, as if every second partition's leader had not told its end offset."""
    shutil.copytree(source, folder)
    offsets = pq.read_table(folder / "offsets.parquet")
    ends = [
        None if row["partition"] % 2 else row["end_offset"]
        for row in offsets.select(["partition", "end_offset"]).to_pylist()
    ]
    pq.write_table(with_column(offsets, "end_offset", ends), folder / "offsets.parquet")
    return folder


def with_newer_groups(source: Path, folder: Path) -> Path:
    """Copy a capture, as if its groups' own records had a version that nobody knows yet."""
    shutil.copytree(source, folder)
    file = folder / "records" / "part-0.parquet"
    records = pq.read_table(file)
    values = [
        b"\x00\x63" + row["value"][2:]
        if row["topic"] == GROUP_TOPIC and row["value"]
        else row["value"]
        for row in records.select(["topic", "value"]).to_pylist()
    ]
    pq.write_table(with_column(records, "value", values), file)
    return folder
