"""Health of the state topic: counts of its records, and the snapshots that hold up pruning.

Counts are additive over parts of the topic, in any order: `health_counts` of each part, `combine`
of several, `health_arrow` of all. Each record must be in exactly one part.

`snapshots_arrow` returns the last snapshot of each share partition, from which a new coordinator
starts. The drafts call it a checkpoint, and its offset the share checkpoint offset (KIP-932,
"Recovering share-partition state and interactions with log cleaning").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.durations import duration
from sharelag.metrics.columns import STATE, begins, last_of, mask, present
from sharelag.model import DeliveryState
from sharelag.model.versions import Version
from sharelag.schemas import FINDINGS, SHARE_PARTITION, Arrow
from sharelag.tables.arrow import as_table, ascending, batch_of, flat, table_of
from sharelag.tables.arrow import keys as texts
from sharelag.tables.words import pluralize
from sharelag.wire.decode import decode_arrow, of_state
from sharelag.wire.fields import STATE_TOPIC
from sharelag.wire.generations import TODAY
from sharelag.wire.interpreter import possible_times, topic_mask
from sharelag.wire.placement import abs_hashes

#: Number of partitions of the state topic, or of several state topics by name; None: unknown.
Partitions: TypeAlias = int | Mapping[str, int] | None
# Kafka writes these; newer brokers may write 3 and 5, which are from KIP drafts.
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
    rows = [*_find_misplaced(windows, partitions), *_find_non_durable(windows), *_find_lost(health)]
    return pa.Table.from_pylist([*rows, *_holds_pruning(health, windows)], schema=FINDINGS)


def in_words(found: Arrow) -> list[str]:
    """Return each of `findings` as a sentence with its place."""
    words = []
    for row in as_table(found).to_pylist():
        place = f"state partition {row['record_partition']}"
        if row["group_id"] is not None:
            place += f", {row['group_id']}:{row['topic_id']}:{row['partition']}"
        words.append(f"{place}: {row['summary']}")
    return words


def partition_counts(topics: pa.Array, partitions: Partitions) -> pa.Array:
    """Return the number of partitions of each row's state topic; null where unknown."""
    if partitions is None or isinstance(partitions, int):
        return pa.array([partitions], pa.int32()).take(pa.array(np.zeros(len(topics), np.int64)))
    return pa.array(list(partitions.values()), pa.int32()).take(
        pc.index_in(topics, pa.array(list(partitions), pa.string()))
    )


def _find_misplaced(windows: Arrow, partitions: Partitions) -> list[dict[str, Any]]:
    counts = partition_counts(flat(windows.column("record_topic")), partitions)
    belongs = state_partitions(texts(windows, SHARE_PARTITION), counts)
    wrong = pc.not_equal(belongs, flat(windows.column("record_partition"))).fill_null(False)
    places = as_table(windows).select(_PLACE).append_column("belongs", belongs).filter(wrong)
    words = "its coordinator reads it from partition {belongs}, not from {record_partition}"
    return _findings("misplaced", places, words)


def _find_non_durable(windows: Arrow) -> list[dict[str, Any]]:
    batches = flat(windows.column("batches"))
    rows, states = pc.list_parent_indices(batches), batches.flatten().field("delivery_state")
    odd = pc.invert(pc.is_in(states, pa.array(_DURABLE, pa.int8())))
    found = pa.table({"row": rows.filter(odd), "state": states.filter(odd)})
    found = found.group_by(["row", "state"]).aggregate([])
    places = as_table(windows).select(_PLACE).take(found.column("row"))
    places = places.append_column("state", found.column("state"))
    return _findings("non_durable_state", places, "non-durable state code {state}")


def _find_lost(health: Arrow) -> Iterator[dict[str, Any]]:
    for row in as_table(health).to_pylist():
        place = {"record_topic": row["topic"], "record_partition": row["partition"]}
        if row["rejects"]:
            words = f"{pluralize(row['rejects'], 'record')} cannot be decoded; "
            words += "Kafka would fail to load this partition"
            yield place | {"finding": "undecodable", "summary": words}
        if row["missing"]:
            are = "is" if row["missing"] == 1 else "are"
            words = f"{pluralize(row['missing'], 'offset')} {are} missing from "
            words += f"{row['first_offset']} to {row['end_offset'] - 1}"
            yield place | {"finding": "missing", "summary": words}


def _holds_pruning(health: Arrow, windows: Arrow) -> list[dict[str, Any]]:
    pinned = as_table(health)
    at = pc.index_in(pinned.column("pinned_by"), texts(windows, SHARE_PARTITION))
    window = as_table(windows).take(at)
    written = flat(window.column("write_timestamp")).cast(pa.int64())
    behind = pc.subtract(flat(pinned.column("last_timestamp")).cast(pa.int64()), written)
    late = pc.greater(behind, _COLD_MS).fill_null(False)
    kept = pc.subtract(flat(pinned.column("end_offset")), flat(pinned.column("needed_from")))
    spans = pa.array([None if ms is None else duration(ms) for ms in behind.to_pylist()])
    places = window.select(_PLACE).append_column("behind", spans).append_column("kept", kept)
    words = "its last snapshot is {behind} older than the last record, so {kept} records "
    words += "cannot be pruned"
    return _findings("holds_pruning", places.filter(late), words)


def _findings(kind: str, places: pa.Table, words: str) -> list[dict[str, Any]]:
    return [
        {"finding": kind, "summary": words.format(**place)}
        | {name: value for name, value in place.items() if name in FINDINGS.names}
        for place in places.to_pylist()
    ]


#: Kinds of today's records: column -> label. A tombstone is the same in most generations.
KINDS = {
    "snapshots": "snapshot v0",
    "snapshots_with_count": "snapshot v0 with count",
    "updates": "update v0",
    "updates_with_count": "update v0 with count",
    "tombstones": "tombstone",
    "update_tombstones": "tombstone of an update",
}
#: Records of older generations: column -> label.
OLDER = {f"generation_{number}": f"G{number}" for number in range(TODAY)}
#: The versions that write a generation; drafts were never released.
_WRITERS = {"G3": "Kafka 4.0", f"G{TODAY}": "Kafka 4.1 and later"}
UNKNOWN_TAGS = "unknown tags"
_OF_A_KIND = (
    ["snapshots", "snapshots_with_count", "older_snapshots"],
    ["updates", "updates_with_count", "older_updates"],
    ["tombstones", "update_tombstones", "older_tombstones"],
)
_RECORDS = [name for names in _OF_A_KIND for name in names]
#: Labels of records that every generation may have written.
_OF_ANY = {"tombstone", "tombstone of an update", UNKNOWN_TAGS}
_STATE_PARTITION = ["topic", "partition"]
_SHARE_PARTITION = ["group_id", "topic_id", "share_partition"]
_OF_SHARE_PARTITION = [*_STATE_PARTITION, *_SHARE_PARTITION]
#: Aggregations; rows of share partitions and of a whole state partition have different columns.
_TOTALS = ["rows", "bytes", "rejects", "finished", *_RECORDS, *OLDER, "unknown_tags"]
_LASTS = ["last_offset", "last_timestamp", "last_snapshot", "last_tombstone", "last_state"]
_AGGREGATES = dict.fromkeys(_TOTALS, "sum") | dict.fromkeys(_LASTS, "max")
_AGGREGATES |= dict.fromkeys(["first_offset", "first_timestamp"], "min")

#: The counts: one row per share partition, and one with null keys for the whole state partition.
COUNTS = pa.schema(
    [
        *(("topic", pa.string()), ("partition", pa.int32())),  # of the state topic
        *(("group_id", pa.string()), ("topic_id", pa.string()), ("share_partition", pa.int32())),
        *((name, pa.int64()) for name in (*_TOTALS, "first_offset", "last_offset")),
        *((name, schemas.TIMESTAMP) for name in ("first_timestamp", "last_timestamp")),
        # Offsets of the last snapshot and tombstone, and of the last snapshot or update.
        *((name, pa.int64()) for name in ("last_snapshot", "last_tombstone", "last_state")),
    ]
)
_GATHER = 64


def health_arrow(
    counts: Arrow, partitions: Partitions = None, history: Arrow | None = None
) -> pa.RecordBatch:
    """Return the health of every partition of the state topic, as `sharelag.schemas.HEALTH`.

    ``counts`` are `COUNTS` of every part of the topic. Misplaced records are unknown without
    ``partitions``, the topic's number of partitions (or by topic); finished offsets are unknown
    without ``history`` of the same records. ``needed_from`` is the offset up to which Kafka's
    coordinator prunes next; ``prunable`` is null where records are missing.

    By ``ShareCoordinatorOffsetsManager`` and ``ShareCoordinatorService.performRecordPruning`` of
    Kafka 4.3.1, only the last snapshot of every share partition that was not deleted is needed. If
    all were deleted, the last tombstone remains.
    """
    table = as_table(counts).select(COUNTS.names).cast(COUNTS)
    if history is not None:
        table = pa.concat_tables([table, count_finished(history)])
    judged = _judge(combine(table), partitions)
    judgements = dict.fromkeys(("share_partitions", "misplaced"), "sum")
    judgements |= {"needed_from": "min", "pinned_by": "first"}
    summed = _aggregate(judged, _STATE_PARTITION, judgements)
    # If no share partition is left, only the last tombstone is needed.
    needed = pc.coalesce(summed.column("needed_from"), summed.column("last_tombstone"))
    summed = summed.set_column(summed.column_names.index("needed_from"), "needed_from", needed)
    seen = summed.filter(pc.greater(summed.column("rows"), 0))
    return _health(seen).sort_by(ascending(*_STATE_PARTITION))


def health_counts(
    raw: Arrow, generation: int | None = None, kafka_version: Version = None
) -> pa.Table:
    """Count one part of the state topic, as `COUNTS`.

    ``raw`` is `sharelag.schemas.RAW`; records of other topics are ignored. The other parameters are
    those of `sharelag.wire.decode_arrow`.
    """
    chosen = of_state(raw, generation)
    records, rejects, _ = decode_arrow(chosen, STATE_TOPIC, generation, kafka_version)
    place = {"topic": rejects.column("topic"), "partition": rejects.column("record_partition")}
    lost = _counts(place | {"rejects": pa.repeat(1, rejects.num_rows)})
    return combine(pa.concat_tables([_sizes(chosen), lost, _records(records)]))


def combine(counts: Arrow) -> pa.Table:
    """Add up counts: one row per share partition, and one per state partition."""
    return _aggregate(as_table(counts), _OF_SHARE_PARTITION).select(COUNTS.names).cast(COUNTS)


def gather(
    batches: Iterable[Arrow], generation: int | None = None, kafka_version: Version = None
) -> pa.Table:
    """Count a stream of parts, with about one row per share partition in memory."""
    pieces = [COUNTS.empty_table()]
    for batch in batches:
        pieces.append(health_counts(batch, generation, kafka_version))
        if len(pieces) > _GATHER:
            pieces = [combine(pa.concat_tables(pieces))]
    return combine(pa.concat_tables(pieces))


def count_finished(history: Arrow) -> pa.Table:
    """Return the offsets finished by the records of each state partition, as `COUNTS`."""
    columns = {"topic": "record_topic", "partition": "record_partition", "finished": "finished"}
    counts = _counts({name: history.column(of) for name, of in columns.items()})
    summed = _aggregate(counts, _STATE_PARTITION)
    return _counts({name: summed.column(name) for name in columns})


def _sizes(raw: Arrow) -> pa.Table:
    offset = flat(raw.column("offset"))
    offset = pc.if_else(pc.less(offset, 0), pa.scalar(None, offset.type), offset)  # -1: none
    moment = possible_times(flat(raw.column("timestamp")).cast(schemas.TIMESTAMP, safe=False))
    key, value = (
        pc.binary_length(flat(raw.column(name))).fill_null(0).cast(pa.int64())
        for name in ("key", "value")
    )
    columns = {name: raw.column(name) for name in _STATE_PARTITION}
    columns |= {"rows": pa.repeat(1, len(offset)), "bytes": pc.add(key, value)}
    columns |= dict.fromkeys(("first_offset", "last_offset"), offset)
    return _counts(columns | dict.fromkeys(("first_timestamp", "last_timestamp"), moment))


def _records(records: pa.RecordBatch) -> pa.Table:
    offset, tombstone = records.column("offset"), records.column("tombstone")
    update = pc.equal(records.column("record_type"), 1)
    counted = pc.is_valid(records.column("delivery_complete_count"))
    state = pc.invert(tombstone)
    snapshot, change = pc.and_not(state, update), pc.and_(state, update)
    removal = pc.and_not(tombstone, update)
    each = (
        *(pc.and_not(snapshot, counted), pc.and_(snapshot, counted)),
        *(pc.and_not(change, counted), pc.and_(change, counted)),
        *(removal, pc.and_(tombstone, update)),
    )
    generation = records.column("generation")
    today = pc.is_null(generation)
    kinds = {name: pc.and_(where, today) for name, where in zip(KINDS, each, strict=True)}
    kinds["unknown_tags"] = pc.greater(pc.list_value_length(records.column("unknown_tags")), 0)
    if generation.null_count < len(generation):
        older = generation.is_valid()
        kinds |= {
            "older_snapshots": pc.and_(snapshot, older),
            "older_updates": pc.and_(change, older),
            "older_tombstones": pc.and_(tombstone, older),
        }
        for number, name in enumerate(OLDER):
            kinds[name] = pc.equal(generation, number).fill_null(False)
    lasts = {"last_snapshot": snapshot, "last_tombstone": removal, "last_state": state}
    names = {"partition": "record_partition", "share_partition": "partition"}
    columns = {name: records.column(names.get(name, name)) for name in _OF_SHARE_PARTITION}
    columns |= {name: where.cast(pa.int64()) for name, where in kinds.items()}
    return _counts(columns | {name: pc.if_else(last, offset, None) for name, last in lasts.items()})


def _counts(columns: dict[str, pa.Array]) -> pa.Table:
    """Return columns as `COUNTS`; the others do not apply and are null."""
    return table_of(columns, COUNTS, pad=True)


def _aggregate(table: pa.Table, by: list[str], more: Mapping[str, str] = {}) -> pa.Table:
    sums = _AGGREGATES | dict(more)
    known = pc.ScalarAggregateOptions(min_count=1)
    # With several threads, "first" need not be the first row's value.
    columns = [(name, how, known) for name, how in sums.items()]
    return table.group_by(by, use_threads=False).aggregate(columns).rename_columns([*by, *sums])


def _judge(table: pa.Table, partitions: Partitions) -> pa.Table:
    """Add ``needed_from``, which pins it, and misplaced records per share partition."""
    removed = table.column("last_tombstone").fill_null(-1)
    snapshot = table.column("last_snapshot")
    needed = pc.if_else(pc.greater(snapshot, removed), snapshot, None)
    alive = pc.greater(table.column("last_state"), removed).fill_null(False).cast(pa.int64())
    key = texts(table, _SHARE_PARTITION)
    belongs = state_partitions(key, partition_counts(flat(table.column("topic")), partitions))
    records = flat(_total(table, _RECORDS))
    misplaced = pc.if_else(pc.equal(belongs, flat(table.column("partition"))), 0, records)
    table = table.append_column("share_partitions", alive)
    table = table.append_column("misplaced", pc.if_else(pc.is_valid(key), misplaced, None))
    table = table.append_column("needed_from", needed)
    table = table.append_column("pinned_by", pc.if_else(flat(pc.is_valid(needed)), key, None))
    return table.sort_by([("needed_from", "ascending")])


def _total(table: pa.Table, names: list[str]) -> pa.ChunkedArray:
    return reduce(pc.add, (table.column(name).fill_null(0) for name in names))


def _health(summed: pa.Table) -> pa.RecordBatch:
    snapshots, updates, tombstones = (_total(summed, names) for names in _OF_A_KIND)
    first, end = summed.column("first_offset"), pc.add(summed.column("last_offset"), 1)
    # Control records of a user's topic have the user's records in between, which do not count.
    missing = pc.subtract(pc.subtract(end, first), summed.column("rows"))
    missing = pc.if_else(topic_mask(summed, STATE_TOPIC), missing, None)
    above = pc.subtract(summed.column("needed_from"), first)
    below = pc.max_element_wise(above, 0, skip_nulls=False)
    columns = {name: summed.column(name) for name in summed.column_names} | {
        "end_offset": end,
        "records": _total(summed, _RECORDS),
        "snapshots": snapshots,
        "updates": updates,
        "tombstones": tombstones,
        **{name: summed.column(name).fill_null(0) for name in ("rejects", "share_partitions")},
        "missing": missing,
        "updates_per_snapshot": _ratio(updates, snapshots),
        "bytes_per_finished": _ratio(summed.column("bytes"), summed.column("finished")),
        "prunable": pc.if_else(pc.equal(missing, 0), below, None),
        "generations": _generations(summed),
    }
    return batch_of(columns, schemas.HEALTH)


def _ratio(part: pa.ChunkedArray, whole: pa.ChunkedArray) -> pa.ChunkedArray:
    some = pc.if_else(pc.greater(whole, 0), whole, None)
    return pc.divide(part.cast(pa.float64()), some.cast(pa.float64()))


def _generations(summed: pa.Table) -> pa.ChunkedArray:
    names = KINDS | {"unknown_tags": UNKNOWN_TAGS} | OLDER
    found = []
    for counts in summed.select(list(names)).to_pylist():
        labels = [label for name, label in names.items() if counts[name]]
        if "G0" in labels and "G1" in labels:
            labels.remove("G1")  # checkpoints are the same in both, and there are deltas of G0
        found.append(labels)
    return pa.chunked_array([found], pa.list_(pa.string()))


def formats(health: Arrow) -> str:
    """Return the generations of records in words: ``G3 (Kafka 4.0), 1 partition G2 (a draft)``."""
    older = set(OLDER.values())
    labels = [set(kinds) for kinds in health.column("generations").to_pylist()]
    seen = Counter(
        label
        for kinds in labels
        for label in {kind if kind in older else f"G{TODAY}" for kind in kinds - _OF_ANY}
    )
    if not seen:
        if any(labels):
            return "unknown: there are only tombstones, which show no generation"
        is_any = pc.any(pc.greater(health.column("rejects"), 0)).as_py()
        return f"unknown: {'no record can be decoded' if is_any else 'there are no records'}"
    (first, _), *others = sorted(seen.items(), key=lambda item: (-item[1], -int(item[0][1:])))
    names = {name: f"{name} ({_WRITERS.get(name, 'a draft')})" for name in seen}
    parts = [f"{pluralize(count, 'partition')} {names[name]}" for name, count in others]
    return ", ".join([names[first], *parts])


#: Columns taken from the last record, and from the last snapshot.
_LAST_COLUMNS = (*STATE, "from_snapshot", "record_offset", "record_timestamp")
_SNAPSHOT_COLUMNS = {
    "snapshot_offset": "record_offset",
    "snapshot_timestamp": "record_timestamp",
    "snapshot_epoch": "snapshot_epoch",
}
#: Counts of records after the snapshot, and the kind of each.
_SINCE = {"updates_since": "update", "rejected_since": "rejected"}


def snapshots_arrow(history: Arrow) -> pa.RecordBatch:
    """Return the last snapshot of each share partition, and the number of records after it.

    ``history`` has all rows of share partitions, each contiguous and in log order. The result is
    `sharelag.schemas.SNAPSHOTS`, one row per share partition that exists, in that order. Without a
    snapshot its columns are null, and the counts include all records.
    """
    table = as_table(history)
    if not table.num_rows:
        return pa.RecordBatch.from_pylist([], schema=schemas.SNAPSHOTS)
    first = np.flatnonzero(begins(table))
    last = np.append(first[1:], table.num_rows) - 1
    exists = present(table, "snapshot_epoch")
    removed = last_of(~exists, first)
    snapshot = last_of(exists & mask(pc.equal(table.column("record_kind"), "snapshot")), first)
    seen = snapshot > removed
    after = np.maximum(np.maximum(snapshot, removed), first - 1)
    rows = {name: flat(table.column(name)).take(pa.array(last)) for name in _LAST_COLUMNS}
    place = pa.array(snapshot, mask=~seen)
    rows |= {name: flat(table.column(of)).take(place) for name, of in _SNAPSHOT_COLUMNS.items()}
    for name, kind in _SINCE.items():
        total = np.append(0, np.cumsum(mask(pc.equal(table.column("record_kind"), kind))))
        rows[name] = pa.array(total[last + 1] - total[after + 1])
    return batch_of(rows, schemas.SNAPSHOTS).filter(pa.array(exists[last]))
