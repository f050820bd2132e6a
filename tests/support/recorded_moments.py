"""The noted moments of the recorded cluster, and the log ends of each."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sharelag import schemas
from sharelag.inputs import CaptureInput
from tests.support.chapters import CAPTURE

MOMENTS = sorted((CAPTURE / "expected" / "moments").glob("*.txt"))


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
