"""Check the promises of a recording, counted in its bytes as Kafka's own classes read them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from tests.support.kafka.describe import DescribedOffset, parse_describe
from tests.support.kafka.jvm import RigError
from tests.support.kafka.oracles import Oracle
from tools.record.chapters_story import STUCK
from tools.record.state_tail import STATE_TOPIC, hex_of

_AVAILABLE, _ACKNOWLEDGED, _ARCHIVED = 0, 2, 4
_DELIVERY_LIMIT = 5


class _Read(NamedTuple):
    """A record of the state topic and its contents, read by Kafka's classes."""

    row: dict[str, Any]
    key: tuple[str, str, int]
    kind: int
    value: dict[str, Any] | None


def check_promises(capture: Path, oracle: Oracle) -> dict[str, int]:
    """Count the events that a capture promises to show.

    Returns
    -------
    dict
        Number by promise.

    Raises
    ------
    RigError
        A promise is not kept.
    """
    reads = _read_all(capture, oracle)
    described = parse_describe((capture / "expected" / "describe.txt").read_text())
    counts = _described(described) | _written(reads) | _moments(capture, reads)
    least = {
        "groups": 4,
        "topics": 4,
        "share partitions": 24,
        "most snapshots of a key": 5,
        "moments": 10,
    }
    broken = {name: count for name, count in counts.items() if count < least.get(name, 1)}
    if broken:
        raise RigError(f"the recording does not show enough of: {broken}")
    return counts


def _described(rows: list[DescribedOffset]) -> dict[str, int]:
    return {
        "groups": len({row["group_id"] for row in rows}),
        "topics": len({row["topic"] for row in rows}),
        "share partitions": len(rows),
        "share partitions with unknown lag": sum(row["lag"] is None for row in rows),
        "share partitions that lag": sum(bool(row["lag"]) for row in rows),
        "share partitions without lag": sum(row["lag"] == 0 for row in rows),
    }


def _written(reads: list[_Read]) -> dict[str, int]:
    values = [(read, read.value) for read in reads if read.value is not None]
    snapshots = [(read, value) for read, value in values if read.kind == 0]
    offsets: Counter[tuple[int, int]] = Counter()
    for state, count, span in (batch for _, value in values for batch in _batches(value)):
        offsets[state, count] += span
    return {
        "records of the state topic": len(reads),
        "snapshots": len(snapshots),
        "updates": len(values) - len(snapshots),
        "tombstones": len(reads) - len(values),
        "most snapshots of a key": max(Counter(read.key for read, _ in snapshots).values()),
        "cold snapshots": sum(
            value["createTimestamp"] != value["writeTimestamp"] for _, value in snapshots
        ),
        "start-offset resets": _resets(snapshots),
        "leader epochs": len({value["leaderEpoch"] for _, value in values}),
        "offsets acknowledged": sum(
            n for (state, _), n in offsets.items() if state == _ACKNOWLEDGED
        ),
        "offsets made available again": sum(
            n for (state, _), n in offsets.items() if state == _AVAILABLE
        ),
        "offsets whose lock ended": sum(
            span
            for read, value in values
            if (read.key[0], read.key[2]) in STUCK
            for state, _, span in _batches(value)
            if state == _AVAILABLE
        ),
        "offsets rejected": sum(
            n for (state, c), n in offsets.items() if state == _ARCHIVED and c < _DELIVERY_LIMIT
        ),
        "offsets archived at the delivery limit": offsets[_ARCHIVED, _DELIVERY_LIMIT],
    }


def _resets(snapshots: list[tuple[_Read, dict[str, Any]]]) -> int:
    """Count snapshots with a higher state epoch than the one before: only resets write these."""
    epochs: dict[tuple[str, str, int], int] = {}
    resets = 0
    for read, value in snapshots:
        resets += epochs.get(read.key, value["stateEpoch"]) < value["stateEpoch"]
        epochs[read.key] = value["stateEpoch"]
    return resets


def _moments(capture: Path, reads: list[_Read]) -> dict[str, int]:
    """Check that the time of each moment splits the records exactly like its end offsets."""
    paths = sorted((capture / "expected" / "moments").glob("*.json"))
    for path in paths:
        moment = json.loads(path.read_text())
        before: Counter[str] = Counter(
            str(read.row["partition"])
            for read in reads
            if read.row["timestamp"].timestamp() * 1000 <= moment["as_of_ms"]
        )
        ends = moment["end_offsets"][STATE_TOPIC]
        if any(before[partition] != end for partition, end in ends.items()):
            raise RigError(f"{path.name}: {dict(before)} records until then, end offsets {ends}")
    return {"moments": len(paths)}


def _batches(value: dict[str, Any]) -> Iterator[tuple[int, int, int]]:
    for batch in value["stateBatches"]:
        span = batch["lastOffset"] - batch["firstOffset"] + 1
        yield batch["deliveryState"], batch["deliveryCount"], span


def _read_all(capture: Path, oracle: Oracle) -> list[_Read]:
    table = pq.read_table(capture / "records", filters=[("topic", "==", STATE_TOPIC)])
    rows = table.sort_by([("partition", "ascending"), ("offset", "ascending")]).to_pylist()
    questions = (
        {"topic": "state", "k": row["key"].hex(), "v": hex_of(row["value"])} for row in rows
    )
    return [
        _Read(row, tuple(answer["key"].values()), answer["type"], answer["value"])
        for row, answer in zip(rows, oracle.ask_many(questions), strict=True)
    ]
