"""What the command line prints of windows and records, as rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow.compute as pc

from sharelag.replay.state import window_items
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import flat, without_timestamps
from sharelag.wire.decode import Decoded
from sharelag.wire.formatter import kafka_json, reject_json
from sharelag.wire.generations import NAMES


def window_rows(table: Arrow) -> list[dict[str, Any]]:
    """One object a share partition: the fields of `sharelag.Window`, then what we derive from them.

    A window's own fields are as the coordinator holds them, -1 and 0 being Kafka's; ours are null
    where unknown.
    """
    rows = []
    for row, (key, window) in zip(
        without_timestamps(table).to_pylist(), window_items(table), strict=True
    ):
        derived = {
            name: row[name]
            for name in (
                "effective_start_offset",
                "window_end_offset",
                "from_snapshot",
                "rejected_records",
            )
        }
        raw = {name: getattr(window, name) for name in window.__slots__}
        batches = [list(batch) for batch in window.batches]
        runs = [list(batch.values()) for batch in row["runs"]]
        rows.append(
            {"group_id": key.group_id, "topic": row.get("topic"), "topic_id": key.topic_id}
            | {"partition": key.partition, **raw, "batches": batches, **derived, "runs": runs}
            | {"notes": row.get("notes") or []}
        )
    return rows


def decoded_rows(decoded: Decoded, columns: bool = False) -> Iterator[dict[str, Any]]:
    """Records in the shape of Kafka's formatters, then rejects, each in the order of the log.

    With ``columns`` every row has the same keys, as a table needs.
    """
    empty = (
        dict.fromkeys(("key", "value", "reject", "topic", "partition", "offset")) if columns else {}
    )
    for row in (*kafka_json(decoded.records), *reject_json(decoded.rejects)):
        yield empty | row


def older_generations(records: Arrow) -> Counter[str]:
    """Count the records of each older generation of the format, such as ``G3``."""
    if "generation" not in records.schema.names:
        return Counter()
    counts = pc.value_counts(flat(records.column("generation")).drop_null()).to_pylist()
    return Counter(
        {f"G{each['values']} ({NAMES[each['values']]})": each["counts"] for each in counts}
    )
