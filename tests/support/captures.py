"""Captures of brokers of which some did not answer."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq

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
