"""Placement of states: share partitions where Kafka does not look, and other findings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.metrics.columns import mask
from sharelag.model import DeliveryState
from sharelag.schemas import FINDINGS, SHARE_PARTITION, Arrow
from sharelag.tables.arrow import as_table, flat
from sharelag.tables.arrow import keys as texts
from sharelag.tables.words import counted
from sharelag.wire.placement import abs_hashes

#: Number of partitions of the state topic, or of several state topics by name; None: unknown.
Partitions: TypeAlias = int | Mapping[str, int] | None
# Kafka writes these; 3 and 5 are from KIP drafts, so newer brokers may write them.
_DURABLE = [int(state) for state in DeliveryState if state is not DeliveryState.ACQUIRED]
#: Twice Kafka's ``share.coordinator.cold.partition.snapshot.interval.ms``: every snapshot should
#: be renewed by then.
_COLD_MS = 600_000
_PLACE = [*SHARE_PARTITION, "record_topic", "record_partition"]


def state_partitions(keys: pa.Array, partitions: pa.Array) -> pa.Array:
    """Return the state partition of each key; `sharelag.wire.state_partition` for columns.

    Keys are ``group:topic id:partition``, as ``SharePartitionKey.asCoordinatorKey`` writes them;
    ``partitions`` is the number of partitions of the state topic. Null where either is null, or the
    topic has no partitions.
    """
    known = pc.and_(pc.is_valid(keys), pc.greater(partitions, 0).fill_null(False))
    where = mask(known)
    placed = np.zeros(len(keys), np.int64)
    placed[where] = abs_hashes(keys.filter(known)) % partitions.filter(known).to_numpy()
    return pa.array(placed, pa.int32(), mask=~where)


def findings(health: Arrow, windows: Arrow, partitions: Partitions = None) -> pa.Table:
    """Return the problems of the state topic, as `sharelag.schemas.FINDINGS`.

    ``health`` and ``windows`` describe the same records; without the number of partitions of the
    topic nothing is reported as misplaced. There are ``misplaced`` (a share partition in a state
    partition where its coordinator does not read it), ``non_durable_state`` (a state that Kafka
    never writes), ``undecodable`` (records that Kafka cannot load), ``missing`` (offsets missing
    between the records), and ``holds_pruning`` (a last snapshot so much older than the partition's
    last record that it should have been renewed).
    """
    rows = [*_misplaced(windows, partitions), *_non_durable(windows)]
    for row in as_table(health).to_pylist():
        rows += _of_state_partition(row)
    rows += _holds_pruning(health, windows)
    return pa.Table.from_pylist(rows, schema=FINDINGS)


def in_words(found: Arrow) -> list[str]:
    """Return each of `findings` as a sentence that names where it is."""
    said = []
    for row in as_table(found).to_pylist():
        place = f"state partition {row['record_partition']}"
        if row["group_id"] is not None:
            place += f", {row['group_id']}:{row['topic_id']}:{row['partition']}"
        said.append(f"{place}: {row['summary']}")
    return said


def partition_counts(topics: pa.Array, partitions: Partitions) -> pa.Array:
    """Return the number of partitions of each row's state topic; null where unknown."""
    if partitions is None or isinstance(partitions, int):
        return pa.array([partitions], pa.int32()).take(pa.array(np.zeros(len(topics), np.int64)))
    return pa.array(list(partitions.values()), pa.int32()).take(
        pc.index_in(topics, pa.array(list(partitions), pa.string()))
    )


def _misplaced(windows: Arrow, partitions: Partitions) -> list[dict[str, Any]]:
    counts = partition_counts(flat(windows.column("record_topic")), partitions)
    belongs = state_partitions(texts(windows, SHARE_PARTITION), counts)
    wrong = pc.not_equal(belongs, flat(windows.column("record_partition"))).fill_null(False)
    places = as_table(windows).select(_PLACE).append_column("belongs", belongs).filter(wrong)
    words = "its coordinator reads it from partition {belongs}, not from {record_partition}"
    return [_finding("misplaced", place, words) for place in places.to_pylist()]


def _non_durable(windows: Arrow) -> list[dict[str, Any]]:
    batches = flat(windows.column("batches"))
    rows, states = pc.list_parent_indices(batches), batches.flatten().field("delivery_state")
    odd = pc.invert(pc.is_in(states, pa.array(_DURABLE, pa.int8())))
    found = pa.table({"row": rows.filter(odd), "state": states.filter(odd)})
    found = found.group_by(["row", "state"]).aggregate([])
    places = as_table(windows).select(_PLACE).take(found.column("row"))
    places = places.append_column("state", found.column("state"))
    words = "non-durable state code {state}"
    return [_finding("non_durable_state", place, words) for place in places.to_pylist()]


def _of_state_partition(row: dict[str, Any]) -> list[dict[str, Any]]:
    place = {"record_topic": row["topic"], "record_partition": row["partition"]}
    found = []
    if row["rejects"]:
        words = f"{counted(row['rejects'], 'record')} cannot be decoded; "
        words += "Kafka would fail to load this partition"
        found.append(_finding("undecodable", place, words))
    if row["missing"]:
        span = f"{row['first_offset']} to {row['end_offset'] - 1}"
        are = "is" if row["missing"] == 1 else "are"
        words = f"{counted(row['missing'], 'offset')} {are} missing from {span}"
        found.append(_finding("missing", place, words))
    return found


def _holds_pruning(health: Arrow, windows: Arrow) -> list[dict[str, Any]]:
    pinned = as_table(health)
    at = pc.index_in(pinned.column("pinned_by"), texts(windows, SHARE_PARTITION))
    window = as_table(windows).take(at)
    written = flat(window.column("write_timestamp")).cast(pa.int64())
    behind = pc.subtract(flat(pinned.column("last_timestamp")).cast(pa.int64()), written)
    late = pc.greater(behind, _COLD_MS).fill_null(False)
    kept = pc.subtract(flat(pinned.column("end_offset")), flat(pinned.column("needed_from")))
    places = window.select(_PLACE).append_column("behind", behind).append_column("kept", kept)
    words = (
        "its last snapshot is {behind} ms older than the last record, "
        "so {kept} records cannot be pruned"
    )
    return [_finding("holds_pruning", place, words) for place in places.filter(late).to_pylist()]


def _finding(kind: str, place: dict[str, Any], words: str) -> dict[str, Any]:
    row = {name: place.get(name) for name in FINDINGS.names}
    return row | {"finding": kind, "summary": words.format(**place)}
