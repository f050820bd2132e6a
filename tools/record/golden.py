"""A selection of a capture's records, each with the result of Kafka's own classes."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.support.kafka.jvm import RigError
from tests.support.kafka.oracles import Oracle
from tools.record.state_tail import STATE_TOPIC, hex_of

_OF_EACH_KIND = 40
#: Required kinds of records: topic, type, whether it has a value.
_WANTED = {
    (STATE_TOPIC, 1, True),  # updates have no tombstones
    *((STATE_TOPIC, 0, has_value) for has_value in (True, False)),
    *(
        ("__consumer_offsets", kind, has_value)
        for kind in range(10, 16)
        for has_value in (True, False)
    ),
}


def write_golden(capture: Path, path: Path, oracle: Oracle) -> None:
    """Write up to forty records of each kind, evenly spread over the capture, as JSON lines.

    Raises
    ------
    RigError
        The capture lacks a kind, or Kafka cannot read one of its records.
    """
    kinds: dict[tuple[str, int, bool], list[dict[str, Any]]] = defaultdict(list)
    rows = pq.read_table(capture / "records").sort_by(
        [("topic", "ascending"), ("timestamp", "ascending")]
    )
    for row in rows.to_pylist():
        kind = int.from_bytes(row["key"][:2])
        kinds[row["topic"], kind, row["value"] is not None].append(row)
    missing = _WANTED - kinds.keys()
    if missing:
        raise RigError(
            "the capture has no records of these kinds (topic, type, has a value): "
            f"{sorted(missing)}"
        )
    chosen = [row for _, rows in sorted(kinds.items()) for row in _spread(rows)]
    answers = oracle.ask_many(_question(row) for row in chosen)
    refused = [answer for answer in answers if "error" in answer]
    if refused:
        raise RigError(f"Kafka does not read {len(refused)} of its own records: {refused[0]}")
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [_line(row, answer) for row, answer in zip(chosen, answers, strict=True)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def _spread(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    count = min(len(rows), _OF_EACH_KIND)
    return [rows[n * len(rows) // count] for n in range(count)]


def _question(row: dict[str, Any]) -> dict[str, Any]:
    topic = "state" if row["topic"] == STATE_TOPIC else "offsets"
    return {"topic": topic, "k": row["key"].hex(), "v": hex_of(row["value"])}


def _line(row: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    place = {name: row[name] for name in ("topic", "partition", "offset")}
    return {**place, "key": row["key"].hex(), "value": hex_of(row["value"]), "expected": answer}
