"""Health of the state topic: counts of its records, and what keeps it from being pruned.

Counts of parts of the topic add up, in any order: `health_counts` of each part, `combine` of
several, `health_arrow` of all. Each record must be in exactly one part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.metrics.placement import Partitions, partition_counts, state_partitions
from sharelag.model.versions import Told
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import as_table, flat, one_batch
from sharelag.schemas.arrow import keys as texts
from sharelag.wire.decode import decode_arrow, of_state
from sharelag.wire.fields import STATE_TOPIC
from sharelag.wire.generations import TODAY
from sharelag.wire.interpreter import possible_times, topic_mask

#: Kinds of today's records: column -> label. A tombstone is the same in most generations.
KINDS = {
    "snapshots": "snapshot v0",
    "snapshots_with_count": "snapshot v0 with count",
    "updates": "update v0",
    "updates_with_count": "update v0 with count",
    "tombstones": "tombstone",
    "update_tombstones": "tombstone of an update",
}
#: Records of older generations of the format: column -> label.
OLDER = {f"generation_{number}": f"G{number}" for number in range(TODAY)}
UNKNOWN_TAGS = "unknown tags"
_OF_A_KIND = (
    ["snapshots", "snapshots_with_count", "older_snapshots"],
    ["updates", "updates_with_count", "older_updates"],
    ["tombstones", "update_tombstones", "older_tombstones"],
)
_RECORDS = [name for names in _OF_A_KIND for name in names]
#: Labels of what every generation may have written.
_OF_ANY = {"tombstone", "tombstone of an update", UNKNOWN_TAGS}
_STATE_PARTITION = ["topic", "partition"]
_SHARE_PARTITION = ["group_id", "topic_id", "share_partition"]
#: Aggregate by column; rows of share partitions and rows of a whole state partition use different
#: ones.
_TOTALS = dict.fromkeys(
    ["rows", "bytes", "rejects", "finished", *_RECORDS, *OLDER, "unknown_tags"], "sum"
)
_RANGES = {
    "first_offset": "min",
    "last_offset": "max",
    "first_timestamp": "min",
    "last_timestamp": "max",
}
_LASTS = dict.fromkeys(["last_snapshot", "last_tombstone", "last_state"], "max")
_AGGREGATES = _TOTALS | _RANGES | _LASTS

#: The counts: one row per share partition, and one with null keys for the whole state partition.
COUNTS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),  # of the state topic
        ("group_id", pa.string()),
        ("topic_id", pa.string()),
        ("share_partition", pa.int32()),
        *[(name, pa.int64()) for name in _TOTALS],
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("first_timestamp", schemas.TIMESTAMP),
        ("last_timestamp", schemas.TIMESTAMP),
        ("last_snapshot", pa.int64()),  # offset of the last one
        ("last_tombstone", pa.int64()),
        ("last_state", pa.int64()),  # offset of the last snapshot or update
    ]
)
_GATHER = 64


def health_arrow(
    counts: Arrow, partitions: Partitions = None, history: Arrow | None = None
) -> pa.RecordBatch:
    """Return the health of every partition of the state topic.

    Parameters
    ----------
    counts : pyarrow.RecordBatch or pyarrow.Table
        `COUNTS` of every part of the topic, concatenated or combined.
    partitions : int, mapping of topic to int, or None
        The number of partitions of the topic; without it misplaced records are unknown.
    history : pyarrow.RecordBatch or pyarrow.Table, optional
        `sharelag.schemas.HISTORY` of the same records; without it finished offsets are unknown.

    Returns
    -------
    pyarrow.RecordBatch
        `sharelag.schemas.HEALTH`, sorted by topic and partition. ``needed_from`` is the offset up
        to which Kafka's coordinator prunes next; ``prunable`` is null where records are missing.

    Notes
    -----
    ``ShareCoordinatorOffsetsManager`` and ``ShareCoordinatorService.performRecordPruning`` of Kafka
    4.3.1: only the last snapshot of every share partition that was not deleted is needed. If all
    were deleted, the last tombstone remains.
    """
    table = as_table(counts).select(COUNTS.names).cast(COUNTS)
    if history is not None:
        table = pa.concat_tables([table, finished_counts(history)])
    summed = _by_state_partition(_judged(combine(table), partitions))
    seen = summed.filter(pc.greater(summed.column("rows"), 0))
    return _health(seen).sort_by([(name, "ascending") for name in _STATE_PARTITION])


def health_counts(
    raw: Arrow, generation: int | None = None, kafka_version: Told = None
) -> pa.Table:
    """Count one part of the state topic.

    Parameters
    ----------
    raw : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.RAW`; records of other topics are ignored.
    generation, kafka_version
        As for `sharelag.wire.decode_arrow`.

    Returns
    -------
    pyarrow.Table
        `COUNTS`.
    """
    chosen = of_state(raw, generation)
    records, rejects, _ = decode_arrow(chosen, STATE_TOPIC, generation, kafka_version)
    return combine(pa.concat_tables([_sizes(chosen), _rejects(rejects), _records(records)]))


def combine(counts: Arrow) -> pa.Table:
    """Add up counts: one row per share partition, and one per state partition."""
    by = [*_STATE_PARTITION, *_SHARE_PARTITION]
    return _aggregated(as_table(counts), by).select(COUNTS.names).cast(COUNTS)


def gather(
    batches: Iterable[Arrow], generation: int | None = None, kafka_version: Told = None
) -> pa.Table:
    """Count a stream of parts, with little more than one row per share partition in memory."""
    pieces = [COUNTS.empty_table()]
    for batch in batches:
        pieces.append(health_counts(batch, generation, kafka_version))
        if len(pieces) > _GATHER:
            pieces = [combine(pa.concat_tables(pieces))]
    return combine(pa.concat_tables(pieces))


def finished_counts(history: Arrow) -> pa.Table:
    """Return the offsets finished by the records of each state partition, as `COUNTS`."""
    places = {"topic": "record_topic", "partition": "record_partition"}
    chosen = {name: flat(history.column(source)) for name, source in places.items()}
    summed = _aggregated(
        _counts(chosen | {"finished": flat(history.column("finished"))}), _STATE_PARTITION
    )
    return _counts({name: flat(summed.column(name)) for name in (*_STATE_PARTITION, "finished")})


# ---- counting ------------------------------------------------------------------------------------


def _sizes(raw: Arrow) -> pa.Table:
    offset, moment = (
        flat(raw.column("offset")),
        possible_times(flat(raw.column("timestamp")).cast(schemas.TIMESTAMP, safe=False)),
    )
    lengths = [
        pc.binary_length(flat(raw.column(name))).fill_null(0).cast(pa.int64())
        for name in ("key", "value")
    ]
    return _counts(
        {name: flat(raw.column(name)) for name in _STATE_PARTITION}
        | {"rows": _ones(len(offset)), "bytes": pc.add(*lengths)}
        | {
            "first_offset": offset,
            "last_offset": offset,
            "first_timestamp": moment,
            "last_timestamp": moment,
        }
    )


def _rejects(rejects: pa.RecordBatch) -> pa.Table:
    place = {"topic": rejects.column("topic"), "partition": rejects.column("record_partition")}
    return _counts(place | {"rejects": _ones(rejects.num_rows)})


def _records(records: pa.RecordBatch) -> pa.Table:
    offset, tombstone = records.column("offset"), records.column("tombstone")
    update = pc.equal(records.column("record_type"), 1)
    counted = pc.is_valid(records.column("delivery_complete_count"))
    state = pc.invert(tombstone)
    snapshot = pc.and_(state, pc.invert(update))
    removal = pc.and_(tombstone, pc.invert(update))
    today = pc.is_null(records.column("generation"))
    kinds = {
        "snapshots": pc.and_(snapshot, pc.invert(counted)),
        "snapshots_with_count": pc.and_(snapshot, counted),
        "updates": pc.and_(pc.and_(state, update), pc.invert(counted)),
        "updates_with_count": pc.and_(pc.and_(state, update), counted),
        "tombstones": removal,
        "update_tombstones": pc.and_(tombstone, update),
    }
    kinds = {name: pc.and_(mask, today) for name, mask in kinds.items()} | {
        "unknown_tags": pc.greater(pc.list_value_length(records.column("unknown_tags")), 0),
        **_older(records.column("generation"), snapshot, pc.and_(state, update), tombstone),
    }
    lasts = {"last_snapshot": snapshot, "last_tombstone": removal, "last_state": state}
    nothing = pa.scalar(None, pa.int64())
    return _counts(
        {"topic": records.column("topic"), "partition": records.column("record_partition")}
        | {"group_id": records.column("group_id"), "topic_id": records.column("topic_id")}
        | {"share_partition": records.column("partition")}
        | {name: mask.cast(pa.int64()) for name, mask in kinds.items()}
        | {name: pc.if_else(mask, offset, nothing) for name, mask in lasts.items()}
    )


def _older(
    generation: pa.Array, snapshot: pa.Array, update: pa.Array, tombstone: pa.Array
) -> dict[str, pa.Array]:
    if generation.null_count == len(generation):
        return {}
    older = generation.is_valid()
    return {
        name: pc.equal(generation, number).fill_null(False) for number, name in enumerate(OLDER)
    } | {
        "older_snapshots": pc.and_(snapshot, older),
        "older_updates": pc.and_(update, older),
        "older_tombstones": pc.and_(tombstone, older),
    }


def _ones(count: int) -> pa.Array:
    return pa.array(np.ones(count, np.int64))


def _counts(columns: dict[str, pa.Array]) -> pa.Table:
    """Return `COUNTS` with some columns; the others do not apply to these rows."""
    count = len(next(iter(columns.values())))
    arrays = [columns.get(field.name, pa.nulls(count)).cast(field.type) for field in COUNTS]
    return pa.Table.from_arrays(arrays, schema=COUNTS)


def _aggregated(table: pa.Table, by: list[str], more: Mapping[str, str] | None = None) -> pa.Table:
    wanted = _AGGREGATES | dict(more or {})
    known = pc.ScalarAggregateOptions(min_count=1)
    # One thread, so that "first" is the value of the first row.
    grouped = table.group_by(by, use_threads=False).aggregate(
        [(name, how, known) for name, how in wanted.items()]
    )
    return grouped.rename_columns(
        {f"{name}_{how}": name for name, how in wanted.items()} | {name: name for name in by}
    )


# ---- judging -------------------------------------------------------------------------------------

_JUDGED = {
    "share_partitions": "sum",
    "misplaced": "sum",
    "needed_from": "min",
    "pinned_by": "first",
}


def _judged(table: pa.Table, partitions: Partitions) -> pa.Table:
    """Add per share partition: alive, needed from, misplaced. Sort by what is needed."""
    nothing = pa.scalar(None, pa.int64())
    removed = table.column("last_tombstone").fill_null(-1)
    snapshot = table.column("last_snapshot")
    needed = pc.if_else(pc.greater(snapshot, removed), snapshot, nothing)
    alive = pc.greater(table.column("last_state"), removed).fill_null(False).cast(pa.int64())
    key = texts(table, _SHARE_PARTITION)
    belongs = state_partitions(key, partition_counts(flat(table.column("topic")), partitions))
    records = flat(_total(table, _RECORDS))
    misplaced = pc.if_else(pc.equal(belongs, flat(table.column("partition"))), 0, records)
    columns = {
        "share_partitions": alive,
        "misplaced": pc.if_else(pc.is_valid(key), misplaced, nothing),
        "needed_from": needed,
        "pinned_by": pc.if_else(flat(pc.is_valid(needed)), key, pa.scalar(None, pa.string())),
    }
    for name, column in columns.items():
        table = table.append_column(name, column)
    return table.sort_by([("needed_from", "ascending")])


def _by_state_partition(judged: pa.Table) -> pa.Table:
    summed = _aggregated(judged, _STATE_PARTITION, _JUDGED)
    # If no share partition is left, only the last tombstone is needed.
    needed = pc.coalesce(summed.column("needed_from"), summed.column("last_tombstone"))
    return summed.set_column(summed.column_names.index("needed_from"), "needed_from", needed)


def _total(table: pa.Table, names: list[str]) -> pa.ChunkedArray:
    total = table.column(names[0]).fill_null(0)
    for name in names[1:]:
        total = pc.add(total, table.column(name).fill_null(0))
    return total


def _health(summed: pa.Table) -> pa.RecordBatch:
    snapshots, updates, tombstones = (_total(summed, names) for names in _OF_A_KIND)
    first, end = summed.column("first_offset"), pc.add(summed.column("last_offset"), 1)
    # Between control records of a user's topic are the user's records, which are not counted.
    missing = pc.if_else(
        topic_mask(summed, STATE_TOPIC),
        pc.subtract(pc.subtract(end, first), summed.column("rows")),
        pa.scalar(None, pa.int64()),
    )
    below = pc.max_element_wise(
        pc.subtract(summed.column("needed_from"), first), 0, skip_nulls=False
    )
    columns = {
        name: summed.column(name) for name in schemas.HEALTH.names if name in summed.column_names
    } | {
        "end_offset": end,
        "records": _total(summed, _RECORDS),
        "snapshots": snapshots,
        "updates": updates,
        "tombstones": tombstones,
        "rejects": _total(summed, ["rejects"]),
        "share_partitions": _total(summed, ["share_partitions"]),
        "missing": missing,
        "updates_per_snapshot": _ratio(updates, snapshots),
        "bytes_per_finished": _ratio(summed.column("bytes"), summed.column("finished")),
        "prunable": pc.if_else(pc.equal(missing, 0), below, pa.scalar(None, pa.int64())),
        "generations": _generations(summed),
    }
    arrays = [columns[field.name].cast(field.type) for field in schemas.HEALTH]
    return one_batch(pa.Table.from_arrays(arrays, schema=schemas.HEALTH))


def _ratio(part: pa.ChunkedArray, whole: pa.ChunkedArray) -> pa.ChunkedArray:
    some = pc.if_else(pc.greater(whole, 0), whole, pa.scalar(None, pa.int64())).cast(pa.float64())
    return pc.divide(part.cast(pa.float64()), some)


def _generations(summed: pa.Table) -> pa.ChunkedArray:
    names = KINDS | {"unknown_tags": UNKNOWN_TAGS}
    kinds = summed.select([*names, *OLDER]).to_pylist()
    return pa.chunked_array([[_labels(row, names) for row in kinds]], pa.list_(pa.string()))


def _labels(counts: dict[str, int | None], names: Mapping[str, str]) -> list[str]:
    """Return the kinds of today's records, if there are any, and the older generations."""
    older = [label for name, label in OLDER.items() if counts[name]]
    if "G0" in older and "G1" in older:
        older.remove("G1")  # a checkpoint, the same in both: G0's deltas show whose it is
    return [label for name, label in names.items() if counts[name]] + older


def formats(health: Arrow) -> str:
    """Return which generations of the format were seen, such as ``G4, 1 partition G3``.

    Parameters
    ----------
    health : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.HEALTH`.
    """
    older = set(OLDER.values())
    labels = [set(kinds) for kinds in health.column("generations").to_pylist()]
    seen = Counter(
        label
        for kinds in labels
        for label in {kind if kind in older else f"G{TODAY}" for kind in kinds - _OF_ANY}
    )
    if not seen:
        if any(labels):
            return "unknown: there are tombstones alone, which tell no generation"
        is_any = pc.any(pc.greater(health.column("rejects"), 0)).as_py()
        return f"unknown: {'no record can be decoded' if is_any else 'there are no records'}"
    (first, _), *others = sorted(seen.items(), key=lambda item: (-item[1], -int(item[0][1:])))
    parts = [f"{count} partition{'s' if count > 1 else ''} {name}" for name, count in others]
    return ", ".join([first, *parts])
