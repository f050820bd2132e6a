"""The ledger of a dead-letter queue (KIP-1191): archived offsets against records of the queue.

    state topic                      queue                          source topic
    archived (4), archiving (3)  <-> headers __dlq.errors.*     <-> is the offset still in the log?

A leader writes the state ``Archiving``, then the record of the queue, then ``Archived``, whether
or not the second step worked; it begins again after a crash. So letters can be missing, and there
can be two of one record. The status of an offset is

* ``written``: archived, with one record in the queue;
* ``duplicate``: with several;
* ``marker``: with a record that has the key and the value of a transaction's marker: Kafka 4.4
  sends these, too, when their locks expire, and nobody wrote them to be read;
* ``missing``: archived, with none;
* ``archiving``: on its way, ``stuck``: for longer than the patience;
* ``passed``: in the queue; the start offset has passed it, and the records of the state topic that
  archived it are pruned;
* ``unexpected``: in the queue, though the group has not finished it;
* ``unknown``: archived or in the queue, of a group with topics of which only the ids are known,
  while letters have names: nothing tells which of them belong together;
* ``unreadable``: a record of the queue that is not a dead letter of a share group.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.metrics.dead_letters import codes_of
from sharelag.model import DeliveryState
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import as_table, flat
from sharelag.schemas.dead_letters import LEDGER

REJECTED, LIMIT, EITHER, OTHER = "rejected", "delivery limit", "rejected or gap", "other"
#: Texts of the header ``message``, by ``ShareGroupDLQManager``.
REASONS = {
    "Offset rejected by client.": REJECTED,
    "Offset delivery count exceeded the threshold.": LIMIT,
}
#: The status where nothing tells which letters belong to an id, and its reasons: of archived
#: offsets, and of letters.
UNKNOWN, NO_NAME, NO_ID = "unknown", "topic's name not known", "topic's id not known"
#: What needs somebody's attention first; what is unknown may be any of the others.
STATUSES = (
    *(UNKNOWN, "missing", "stuck", "unexpected", "unreadable"),
    *("duplicate", "archiving", "written", "passed", "marker"),
)
_ARCHIVED, _ARCHIVING = int(DeliveryState.ARCHIVED), int(DeliveryState.ARCHIVING)
_PLACE = ("group_id", "topic_id", "partition")
_OF_LAG = ("topic", "start_offset", "effective_start_offset", "log_start_offset", "end_offset")
_OF_RUN = (
    *("delivery_count", "status", "reason", "letters"),
    *("queue", "queue_partition", "copied", "retained"),
)


def ledger_arrow(
    archived: Arrow,
    letters: Arrow,
    lag: Arrow,
    limits: Arrow,
    now: int,
) -> pa.Table:
    """Compare archived offsets with the records of a queue, offset by offset.

    Parameters
    ----------
    archived : pyarrow.RecordBatch or pyarrow.Table
        `ARCHIVED_RUNS` of whole share partitions.
    letters : pyarrow.RecordBatch or pyarrow.Table
        `COUNTED_LETTERS` of the same ones.
    lag : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.LAG` of them.
    limits : pyarrow.RecordBatch or pyarrow.Table
        ``group_id delivery_limit patience_ms nameless``: the last says whether the name of any of
        the group's topics is unknown.
    now : int
        The moment in milliseconds.

    Returns
    -------
    pyarrow.Table
        `LEDGER`, sorted by share partition and offset.
    """
    mine = _offsets_of(as_table(archived))
    every = as_table(letters)
    is_fine = pc.is_null(every.column("problem"))
    sums = _by_offset(every.filter(is_fine))
    keys = [*_PLACE, "offset"]
    both = mine.join(sums, keys, keys, "full outer") if sums.num_rows else _without_letters(mine)
    about = as_table(lag).select([*_PLACE, *_OF_LAG])
    both = both.join(about, list(_PLACE), list(_PLACE), "left outer")
    both = both.join(as_table(limits), ["group_id"], ["group_id"], "left outer")
    both = both.sort_by([(name, "ascending") for name in keys]).combine_chunks()
    return pa.concat_tables(
        [_runs(_judged(both, now)), _unreadable(every.filter(pc.invert(is_fine)))]
    )


def _unreadable(letters: pa.Table) -> pa.Table:
    sums = (
        letters.group_by(["queue", "queue_partition", "problem"])
        .aggregate([("queue_offset", "min"), ("records", "sum")])
        .rename_columns(["queue", "queue_partition", "reason", "first_queue_offset", "letters"])
        .sort_by([("queue", "ascending"), ("queue_partition", "ascending")])
    )
    sums = sums.append_column("status", pa.repeat("unreadable", sums.num_rows))
    for field in LEDGER:
        if field.name not in sums.column_names:
            sums = sums.append_column(field, pa.nulls(sums.num_rows, field.type))
    return sums.select(LEDGER.names).cast(LEDGER)


def _offsets_of(archived: pa.Table) -> pa.Table:
    first, last = (
        archived.column(name).to_numpy().astype(np.int64)
        for name in ("first_offset", "last_offset")
    )
    length = last - first + 1
    which = np.repeat(np.arange(len(first)), length)
    offset = np.repeat(first - (np.cumsum(length) - length), length) + np.arange(len(which))
    names = [*_PLACE, "delivery_state", "delivery_count", "since", "record"]
    rows = archived.select(names).take(pa.array(which))
    return rows.append_column("offset", pa.array(offset))


#: What is summed up of the letters of one offset.
_SUMS = [
    ("queue_offset", "count"),
    ("queue_offset", "min"),
    ("queue_offset", "max"),
    ("queue", "min"),
    ("queue_partition", "min"),
    ("delivery_count", "max"),
    ("message", "min"),
    ("copied", "min"),
    ("marker", "max"),
    ("topic", "min"),
]
_SUMMED = {
    "letters": pa.int64(),
    "first_queue_offset": pa.int64(),
    "last_queue_offset": pa.int64(),
    "queue": pa.string(),
    "queue_partition": pa.int32(),
    "told_count": pa.int16(),
    "message": pa.string(),
    "copied": pa.bool_(),
    "marker": pa.bool_(),
    "told_topic": pa.string(),
}


def _by_offset(letters: pa.Table) -> pa.Table:
    grouped = letters.group_by([*_PLACE, "offset"]).aggregate(_SUMS)
    names = {f"{name}_{how}": new for (name, how), new in zip(_SUMS, _SUMMED, strict=True)}
    return grouped.rename_columns([names.get(name, name) for name in grouped.column_names])


def _without_letters(mine: pa.Table) -> pa.Table:
    for name, kind in _SUMMED.items():
        mine = mine.append_column(name, pa.nulls(mine.num_rows, kind))
    return mine


def _judged(both: pa.Table, now: int) -> pa.Table:
    column = {name: flat(both.column(name)) for name in both.column_names}
    letters = column["letters"].fill_null(0)
    is_done = pc.equal(column["delivery_state"], _ARCHIVED).fill_null(False)
    is_going = pc.equal(column["delivery_state"], _ARCHIVING).fill_null(False)
    waited = pc.subtract(now, column["since"].cast(pa.int64()))
    is_stuck = pc.greater(waited, column["patience_ms"]).fill_null(False)
    past = pc.max_element_wise(column["start_offset"], column["effective_start_offset"])
    is_past = pc.less(column["offset"], past).fill_null(False)
    # An offset that the start offset has passed is finished, whatever its last known state.
    is_going = pc.and_(is_going, pc.invert(is_past))
    is_done = pc.or_(is_done, pc.and_(pc.is_valid(column["delivery_state"]), is_past))
    # Letters name their topic, unless the broker did not know it either: then they have its id.
    is_nameless = pc.and_(pc.is_null(column["topic"]), pc.equal(letters, 0))
    is_nameless = pc.and_(is_nameless, is_done)
    is_stray = pc.and_(
        pc.equal(column["told_topic"], column["topic_id"]).fill_null(False),
        pc.and_(pc.is_null(column["start_offset"]), column["nameless"].fill_null(False)),
    )
    cases = {  # the first that holds
        UNKNOWN: pc.or_(is_nameless, is_stray),
        "marker": column["marker"].fill_null(False),
        "missing": pc.and_(is_done, pc.equal(letters, 0)),
        "written": pc.and_(is_done, pc.equal(letters, 1)),
        "stuck": pc.and_(is_going, is_stuck),
        "archiving": is_going,
        "duplicate": pc.greater(letters, 1),
        "passed": is_past,
    }
    status = pc.case_when(pc.make_struct(*cases.values()), *cases, "unexpected")
    count = pc.coalesce(column["delivery_count"], column["told_count"])
    is_limit = pc.greater_equal(count, column["delivery_limit"])
    inferred = pc.if_else(is_limit, LIMIT, EITHER)
    told = pc.case_when(
        pc.make_struct(*(pc.equal(column["message"], text) for text in REASONS)),
        *REASONS.values(),
        OTHER,
    )
    is_told = pc.and_(pc.greater(letters, 0), pc.is_valid(column["message"]))
    inside = pc.and_(
        pc.greater_equal(column["offset"], column["log_start_offset"]),
        pc.less(column["offset"], column["end_offset"]),
    )
    reason = pc.if_else(is_stray, NO_ID, pc.if_else(is_told, told, inferred))
    made = column | {
        "status": status,
        "reason": pc.if_else(is_nameless, NO_NAME, reason),
        "delivery_count": count,
        "topic": pc.coalesce(column["topic"], column["told_topic"]),
        "letters": letters,
        "retained": inside,
    }
    return pa.table(made)


def _runs(rows: pa.Table) -> pa.Table:
    """Put offsets together that follow each other with the same outcome."""
    if not rows.num_rows:
        return LEDGER.empty_table()
    alike = codes_of([flat(rows.column(name)) for name in (*_PLACE, *_OF_RUN)])
    offset = rows.column("offset").to_numpy()
    changes = np.ones(len(alike), bool)
    changes[1:] = (np.diff(alike) != 0) | (np.diff(offset) != 1)
    run = pa.array(np.cumsum(changes) - 1)
    table = rows.append_column("run", run)
    first = table.filter(pa.array(changes))
    sums = (
        table.group_by("run")
        .aggregate(
            [
                ("offset", "count"),
                ("offset", "max"),
                ("letters", "sum"),
                ("first_queue_offset", "min"),
                ("last_queue_offset", "max"),
                ("since", "min"),
            ]
        )
        .sort_by("run")
    )
    names = {
        "first_offset": first.column("offset"),
        "last_offset": sums.column("offset_max"),
        "offsets": sums.column("offset_count"),
        "letters": sums.column("letters_sum"),
        "first_queue_offset": sums.column("first_queue_offset_min"),
        "last_queue_offset": sums.column("last_queue_offset_max"),
        "since": sums.column("since_min"),
    }
    kept = {name: first.column(name) for name in LEDGER.names if name not in names}
    return pa.table({name: (kept | names)[name] for name in LEDGER.names}).cast(LEDGER)


#: How many offsets fared how; records of the queue where those are not known.
SUMS = pa.schema(
    [
        ("status", pa.string()),
        ("reason", pa.string()),
        ("offsets", pa.int64()),
        ("rows", pa.int64()),  # of the ledger
    ]
)


def sums_of(ledger: Arrow) -> pa.Table:
    """Sum a ledger up by status and reason, as `SUMS`."""
    table = as_table(ledger)
    counted = pc.coalesce(table.column("offsets"), table.column("letters"))
    table = table.select(["status", "reason"]).append_column("offsets", counted)
    sums = table.group_by(["status", "reason"]).aggregate(
        [("offsets", "sum"), ("offsets", "count")]
    )
    return sums.rename_columns(SUMS.names).cast(SUMS)


def first_of(ledger: Arrow, most: int) -> pa.Table:
    """Return so many rows of a ledger, those first that need attention."""
    table = as_table(ledger)
    place = pc.index_in(table.column("status"), pa.array(STATUSES))
    by = ["place", "group_id", "topic", "partition", "first_offset"]
    order = pc.sort_indices(
        table.append_column("place", place), [(name, "ascending") for name in by]
    )
    return table.take(order.slice(0, most))


def summary_words(sums: pa.Table) -> list[str]:
    """Say how many offsets fared how: ``12 written (rejected 12)``."""
    said = []
    for status in STATUSES:
        mine = sorted(
            (one["reason"] or OTHER, one["offsets"])
            for one in sums.to_pylist()
            if one["status"] == status
        )
        if mine:
            parts = ", ".join(f"{reason} {count:,}" for reason, count in mine)
            said.append(f"{sum(count for _, count in mine):,} {status} ({parts})")
    return said
