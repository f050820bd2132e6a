"""Captures that say something else, lack an answer, are newer than is known, or may not be listed."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sharelag.wire import GROUP_TOPIC, STATE_TOPIC
from tests.support.columns import with_column


def half_known(source: Path, folder: Path) -> Path:
    """Copy a capture, as if every second partition's leader had not told its end offset."""
    shutil.copytree(source, folder)
    offsets = pq.read_table(folder / "offsets.parquet")
    known = offsets.select(["partition", "end_offset"]).to_pylist()
    ends = [None if row["partition"] % 2 else row["end_offset"] for row in known]
    pq.write_table(with_column(offsets, "end_offset", ends), folder / "offsets.parquet")
    return folder


def with_mirror(source: Path, folder: Path) -> Path:
    """Copy a capture, with a mirror of the state topic beside it, in other partitions."""
    shutil.copytree(source, folder)
    records = pq.read_table(folder / "records")
    state = records.filter(pc.equal(records["topic"], STATE_TOPIC))
    mirror = with_column(state, "topic", [f"eu.{STATE_TOPIC}"] * len(state))
    mirror = with_column(mirror, "partition", pc.add(state["partition"], 50))
    pq.write_table(mirror, folder / "records" / "mirror.parquet")
    describe(folder)
    return folder


def with_newer_groups(source: Path, folder: Path) -> Path:
    """Copy a capture, as if its groups' own records had a version that nobody knows yet."""
    shutil.copytree(source, folder)
    file = folder / "records" / "part-0.parquet"
    records = pq.read_table(file)
    values = [
        b"\x00\x63" + r["value"][2:] if r["topic"] == GROUP_TOPIC and r["value"] else r["value"]
        for r in records.select(["topic", "value"]).to_pylist()
    ]
    pq.write_table(with_column(records, "value", values), file)
    return folder


def describe(folder: Path, **changes: object) -> None:
    """Change fields of a capture's description, which then has no checksum; None removes one."""
    path = folder / "capture.json"
    about = json.loads(path.read_text("utf-8")) | {"crc32": None} | changes
    kept = {name: value for name, value in about.items() if value is not None}
    path.write_text(json.dumps(kept), "utf-8")


def deny_listing(patch: pytest.MonkeyPatch, name: str) -> None:
    """Refuse to list every folder whose path ends so."""
    scan = os.scandir

    def deny(path: Any) -> Any:
        if str(path).endswith(name):
            raise PermissionError(13, "denied", str(path))
        return scan(path)

    patch.setattr(os, "scandir", deny)
