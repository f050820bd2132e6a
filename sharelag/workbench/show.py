"""What the command line prints of windows and records, as rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import list_names
from sharelag.replay.state import window_items
from sharelag.schemas import Arrow
from sharelag.tables.arrow import flat, without_timestamps
from sharelag.wire.decode import Decoded
from sharelag.wire.fields import SHARE_SNAPSHOT, SHARE_UPDATE
from sharelag.wire.formatter import kafka_json, kafka_texts, reject_json, reject_texts
from sharelag.wire.generations import NAMES
from sharelag.wire.group_types import SHARE, latest_types

_DERIVED = ("effective_start_offset", "window_end_offset", "from_snapshot", "rejected_records")


def window_rows(table: Arrow) -> list[dict[str, Any]]:
    """Return one object per share partition: the fields of `sharelag.Window`, then derived ones.

    A window's own fields are as the coordinator holds them, -1 and 0 being Kafka's; ours are null
    where unknown.
    """
    rows = []
    for row, (key, window) in zip(
        without_timestamps(table).to_pylist(), window_items(table), strict=True
    ):
        derived = {name: row[name] for name in _DERIVED}
        raw = {name: getattr(window, name) for name in window.__slots__}
        batches = [list(batch) for batch in window.batches]
        runs = [list(batch.values()) for batch in row["runs"]]
        rows.append(
            {"group_id": key.group_id, "topic": row.get("topic"), "topic_id": key.topic_id}
            | {"partition": key.partition, **raw, "batches": batches, **derived, "runs": runs}
            | {"notes": row.get("notes") or []}
            | ({"held": row["held"]} if "held" in row else {})
        )
    return rows


def decode_texts(decoded: Decoded) -> Iterator[str]:
    """Yield the same as `decode_rows`, as lines of JSON, many in one text."""
    for texts in chain(kafka_texts(decoded.records), reject_texts(decoded.rejects)):
        yield "\n".join(texts.to_pylist())


def decode_rows(decoded: Decoded, columns: bool = False) -> Iterator[dict[str, Any]]:
    """Yield records in the shape of Kafka's formatters, then rejects, each in the order of the log.

    With ``columns`` every row has the same keys, as a table needs.
    """
    empty = (
        dict.fromkeys(("key", "value", "reject", "topic", "partition", "offset")) if columns else {}
    )
    for row in chain(kafka_json(decoded.records), reject_json(decoded.rejects)):
        yield empty | row


def older_generations(records: Arrow) -> Counter[str]:
    """Count the records of each older generation of the format, such as ``G3``.

    A checkpoint of control records is the same in G0 and G1: beside deltas of G0 alone it is G0.
    """
    if "generation" not in records.schema.names:
        return Counter()
    generation = flat(records.column("generation"))
    chosen = pa.table({"generation": generation, "kind": flat(records.column("record_type"))})
    chosen = chosen.filter(pc.is_valid(generation))
    found = chosen.group_by(["generation", "kind"]).aggregate([([], "count_all")]).to_pylist()
    counts = {(each["generation"], each["kind"]): each["count_all"] for each in found}
    if (0, SHARE_UPDATE.type) in counts and (1, SHARE_UPDATE.type) not in counts:
        counts[0, SHARE_SNAPSHOT.type] = counts.pop((1, SHARE_SNAPSHOT.type), 0)
    total: Counter[str] = Counter()
    for (number, _), count in counts.items():
        total[f"G{number} ({NAMES[number]})"] += count
    return total


def draft_types(found: list[pa.Table], groups: Collection[str] = ()) -> Iterator[str]:
    """Yield what the types are, and who would take a share group for a consumer group.

    ``found`` has `sharelag.wire.group_types.GROUP_TYPES` in the order of the records; of ``groups``
    only these, if there are any. Nothing is said where every record has version 0, as Kafka's have.
    """
    types = latest_types(found)
    if groups:
        types = types.filter(pc.is_in(types.column("group_id"), pa.array(sorted(groups))))
    if not types.num_rows or pc.max(types.column("version")).as_py() == 0:
        return
    by_type: dict[str, list[str]] = {}
    for group, kind in zip(
        *(types.column(n).to_pylist() for n in ("group_id", "type")), strict=True
    ):
        by_type.setdefault(kind or "unknown", []).append(group)
    words = "; ".join(f"{kind}: {list_names(names)}" for kind, names in sorted(by_type.items()))
    yield f"types of groups in ConsumerGroupMetadata, as a draft of KIP-932 has them: {words}"
    if shares := by_type.get(SHARE):
        yield (
            "software that knows only version 0 of ConsumerGroupMetadata reads as consumer groups, "
            f"though they are share groups: {list_names(shares)}"
        )
