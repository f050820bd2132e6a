"""Recorded clusters: stories, noted moments, and copies that are wrong, newer or unlisted."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sharelag import schemas
from sharelag.inputs import CaptureInput
from sharelag.inputs.recorded import folder_of
from sharelag.wire import GROUP_TOPIC, STATE_TOPIC
from tests.support.chapters import CAPTURE
from tests.support.records import with_column

MOMENTS = sorted((CAPTURE / "expected" / "moments").glob("*.txt"))
#: Many groups, one that is well, and causes of groups, of share partitions and of single records.
VARIED = {"demo", "chapters", "healthy", "no_members", "held_head", "redelivery_storm"}


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


def with_growth(source: Path, folder: Path, deletes: bool = False) -> Path:
    """Copy a capture, as if its state topic had got more partitions in the middle of it.

    ``deletes``: the first state in the new partitions is deleted at the end.
    """
    shutil.copytree(source, folder)
    (file,) = (folder / "records").iterdir()
    records = pq.read_table(file)
    span = pc.min_max(records["timestamp"]).as_py()
    middle = span["min"] + (span["max"] - span["min"]) / 2
    is_later = (pc.field("topic") == STATE_TOPIC) & (pc.field("timestamp") > pa.scalar(middle))
    later = records.filter(is_later)
    moved = with_column(later, "partition", pc.add(later["partition"], 50))
    if deletes:
        last = {row["key"][2:]: row for row in moved.to_pylist()}  # behind the type of the record
        share, row = next(iter(last.items()))
        gone = row | {"key": b"\0\0" + share, "value": None, "offset": row["offset"] + 1}
        moved = pa.concat_tables([moved, pa.Table.from_pylist([gone], moved.schema)])
    pq.write_table(records.filter(~is_later), file)
    pq.write_table(moved, folder / "records" / "moved.parquet")
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


def ends(noted: dict[str, Any]) -> pa.Table:
    """The captured offsets, with the end offsets of the moment in place of the last."""
    offsets = CaptureInput(CAPTURE).offsets(all_ids())
    rows = [
        row | {"end_offset": noted["end_offsets"].get(row["topic"], {}).get(str(row["partition"]))}
        for row in offsets.to_pylist()
    ]
    return pa.Table.from_pylist(rows, schema=schemas.OFFSETS)


def all_ids() -> list[str]:
    ids: list[str] = pq.read_table(CAPTURE / "offsets.parquet").column("topic_id").to_pylist()
    return ids


def causes_of(name: str) -> dict[str, str | None]:
    """Return the cause that `explain` must name first, by group; None: nothing is wrong.

    Groups of samples that tell no story of causes are left out.
    """
    path = folder_of(name) / "expected.json"
    if not path.exists():
        return {}
    about = json.loads(path.read_text("utf-8"))
    if "groups" in about:
        return {group: one["cause"] for group, one in about["groups"].items()}
    return {about["group"]: about["cause"]}
