"""Dead-letter queues (KIP-1191): their records, by headers, compared with archived offsets.

    state topic                      queue                          source topic
    archived (4), archiving (3)  <-> headers __dlq.errors.*     <-> is the offset still in the log?

A leader writes the state ``Archiving``, then the dead letter, then ``Archived``, even if the second
step failed; it starts over after a crash. So letters can be missing or duplicate. The status of an
offset is

* ``written``: archived, with one record in the queue;
* ``duplicate``: with several;
* ``marker``: with a record that has the key and value of a transaction marker, which Kafka 4.4
  also sends when its lock expires;
* ``missing``: archived, with none;
* ``archiving``: in progress; ``stuck``: for longer than the patience;
* ``passed``: in the queue; the start offset has passed it, and the state records that archived it
  are pruned;
* ``unexpected``: in the queue, though the group has not finished it;
* ``unknown``: archived or in the queue, of a group with topics known only by id, which cannot be
  matched with the topic names of letters;
* ``unreadable``: a record of the queue that is not a dead letter of a share group.

`redrive_arrow` plans with Kafka's commands how to send dead letters again; nothing is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.columns import codes, mask, numbers
from sharelag.model import DeliveryState
from sharelag.schemas import SHARE_PARTITION, Arrow
from sharelag.tables.arrow import as_table, ascending, changes, each_offset, flat, keys, table_of
from sharelag.tables.words import client_words, shell_word

#: Headers of a dead letter, by Kafka's ``ShareGroupDLQStateManager``.
PREFIX = "__dlq.errors."
_NEEDED = {"group": "group_id", "topic": "topic", "partition": "partition", "offset": "offset"}
_HEADERS = _NEEDED | {"delivery.count": "delivery_count", "message": "message"}
#: A window has at most 10,000 offsets, plus gaps; a longer batch is damaged.
_LONGEST = 10_000_000
#: Keys of transaction markers (``ControlRecordType``), and the prefix and length of their values
#: (``EndTransactionMarker``).
_MARKERS = pa.array([b"\0\0\0\0", b"\0\0\0\1"])  # abort, commit
_MARKED, _MARKER_SIZE = b"\0\0", 6
_ARCHIVED, _ARCHIVING = int(DeliveryState.ARCHIVED), int(DeliveryState.ARCHIVING)


def letters_arrow(raw: Arrow) -> pa.Table:
    """Read the headers of a queue's records as `LETTERS`, one row per record.

    The last of several equal headers counts.
    """
    table = as_table(raw)
    rows = table.num_rows
    lists = flat(table.column("headers"))
    parents = pc.list_parent_indices(lists).to_numpy()
    headers = pc.list_flatten(lists)
    names = pc.struct_field(headers, ["key"])
    values = pc.struct_field(headers, ["value"])
    given: dict[str, pa.Array] = {}
    for header, name in _HEADERS.items():
        chosen = mask(pc.equal(names, PREFIX + header))
        place = np.full(rows, -1, np.int64)
        place[parents[chosen]] = np.flatnonzero(chosen)
        given[name] = values.take(pa.array(place, mask=place < 0))
    texts = {name: _texts(value) for name, value in given.items()}
    key, value = flat(table.column("key")), flat(table.column("value"))
    copied = pc.or_(pc.is_valid(key), pc.is_valid(value))
    is_marker = pc.and_(
        pc.is_in(key, _MARKERS),
        pc.and_(pc.equal(pc.binary_length(value), _MARKER_SIZE), pc.starts_with(value, _MARKED)),
    ).fill_null(False)
    columns = {
        "queue": flat(table.column("topic")),
        "queue_partition": flat(table.column("partition")),
        "queue_offset": flat(table.column("offset")),
        "timestamp": flat(table.column("timestamp")),
        "copied": copied,
        "marker": pc.if_else(copied, is_marker, None),
        **texts,
    }
    for name in ("partition", "offset", "delivery_count"):
        columns[name] = _whole(texts[name], schemas.LETTERS.field(name).type)
    wrong = pa.nulls(rows, pa.string())
    for key, name in _NEEDED.items():
        is_bad = pc.is_null(columns[name])
        what = "is not UTF-8" if columns[name] is texts[name] else "is not a number"
        absent = pc.is_null(given[name])
        why = pc.if_else(absent, f"no header {PREFIX}{key}", f"{PREFIX}{key} {what}")
        wrong = pc.if_else(pc.and_(pc.is_null(wrong), is_bad), why, wrong)
    is_fine = pc.is_null(wrong)
    for name in _NEEDED.values():
        columns[name] = pc.if_else(is_fine, columns[name], None)
    columns["problem"] = wrong
    return table_of(columns, schemas.LETTERS)


def topic_ids_of(lag: Arrow) -> dict[str, str]:
    """Return the topic ids of share partitions by topic name, without unknown names."""
    columns = (lag.column(name).to_pylist() for name in ("topic", "topic_id"))
    return {name: one for name, one in zip(*columns, strict=True) if name is not None}


def count_letters(
    letters: Arrow, names: Mapping[str, str], groups: frozenset[str] = frozenset()
) -> pa.Table:
    """Assign `LETTERS` to share partitions, and count those with the same problem together.

    ``names`` maps topics to topic ids; letters of other topics keep their name, which is an id if
    the broker did not know the name. ``groups`` restricts the letters. The result is
    `COUNTED_LETTERS`.
    """
    table = as_table(letters)
    is_fine = pc.is_null(table.column("problem"))
    fine = table.filter(is_fine)
    if groups:
        chosen = pa.array(sorted(groups), pa.string())
        fine = fine.filter(pc.is_in(fine.column("group_id"), chosen))
    topics = flat(fine.column("topic"))
    at = pc.index_in(topics, pa.array(list(names), pa.string()))
    ids = pc.coalesce(pa.array(list(names.values()), pa.string()).take(at), topics)
    fine = fine.append_column("topic_id", ids)
    fine = fine.append_column("records", pa.repeat(1, fine.num_rows))
    by = ["queue", "queue_partition", "problem"]
    sums = table.filter(pc.invert(is_fine)).group_by(by)
    sums = sums.aggregate([("queue_offset", "min"), ("queue_offset", "count")])
    sums = sums.rename_columns([*by, "queue_offset", "records"])
    parts = ({name: part.column(name) for name in part.column_names} for part in (fine, sums))
    return pa.concat_tables([table_of(part, schemas.COUNTED_LETTERS, pad=True) for part in parts])


def _texts(values: pa.Array) -> pa.Array:
    """Return values as texts, null where they are not UTF-8."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:  # some are not UTF-8
        return pa.array([_text(value) for value in values.to_pylist()], pa.string())


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _whole(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Parse non-negative integers; null for other texts."""
    digits = pc.match_substring_regex(texts, r"^[0-9]{1,18}$").fill_null(False)
    numbers = pc.if_else(digits, texts, None).cast(pa.int64())
    most = np.iinfo(kind.to_pandas_dtype()).max
    return pc.if_else(pc.less_equal(numbers, int(most)), numbers, None).cast(kind)


def archived_arrow(records: Arrow) -> pa.Table:
    """Return archived and archiving offsets of a history, as `ARCHIVED_RUNS`.

    ``records`` has all `sharelag.schemas.RECORDS` of share partitions, in log order. An offset that
    was archived once counts as archived since the first time. A state batch longer than any window
    raises an `InputError`.
    """
    table = as_table(records)
    lists = flat(table.column("state_batches"))
    parents = pc.list_parent_indices(lists)
    batches = pc.list_flatten(lists)
    states = pc.struct_field(batches, ["delivery_state"])
    kept = pc.is_in(states, pa.array([_ARCHIVED, _ARCHIVING], states.type))
    batches, parents = batches.filter(kept), parents.filter(kept)
    if not len(batches):
        return schemas.ARCHIVED_RUNS.empty_table()
    first, last, state, count = (
        pc.struct_field(batches, [name]).to_numpy().astype(np.int64)
        for name in ("first_offset", "last_offset", "delivery_state", "delivery_count")
    )
    # Without the batches, which every row would repeat.
    rows = table.select([*SHARE_PARTITION, "record_partition", "offset", "timestamp"]).take(parents)
    length = last - first + 1
    if length.max() > _LONGEST:
        at = int(length.argmax())
        where = [rows.column(name)[at].as_py() for name in ("record_partition", "offset")]
        raise InputError(
            f"the state record {where[0]}:{where[1]} has a batch of {length[at]:,} offsets, more "
            "than a window can have: it is damaged, so there is no ledger of its group"
        )
    share = codes(keys(rows, SHARE_PARTITION))
    which, offset = each_offset(first, last)
    is_done = state[which] == _ARCHIVED
    # Sorting is stable; a share partition may have several states.
    time = numbers(rows, "timestamp")[0][which]
    order = np.lexsort((time, ~is_done, offset, share[which]))
    # The first Archived, else the first Archiving.
    chosen = order[changes(share[which][order], offset[order])]
    which, offset = which[chosen], offset[chosen]
    # In a run of one batch offsets grow by 1, as rows do.
    starts = np.flatnonzero(changes(which, offset - np.arange(len(offset))))
    ends = np.append(starts[1:], len(which)) - 1
    of = pa.array(which[starts])
    place = [flat(rows.column(name)).cast(pa.string()) for name in ("record_partition", "offset")]
    found = {name: flat(rows.column(name)).take(of) for name in SHARE_PARTITION} | {
        "first_offset": offset[starts],
        "last_offset": offset[ends],
        "delivery_state": state[which[starts]],
        "delivery_count": count[which[starts]],
        "since": flat(rows.column("timestamp")).take(of),
        "record": pc.binary_join_element_wise(*place, ":").take(of),
    }
    return pa.table(found).select(schemas.ARCHIVED_RUNS.names).cast(schemas.ARCHIVED_RUNS)


REJECTED, LIMIT, EITHER, OTHER = "rejected", "delivery limit", "rejected or gap", "other"
#: What a summary says where the reason is null.
UNKNOWN_REASON = "reason not known"
#: Texts of the header ``message``, by ``ShareGroupDLQManager``.
REASONS = {
    "Offset rejected by client.": REJECTED,
    "Offset delivery count exceeded the threshold.": LIMIT,
}
#: The status of offsets and letters that cannot be matched, and its reasons: of archived
#: offsets, and of letters.
UNKNOWN, NO_NAME, NO_ID = "unknown", "topic's name not known", "topic's id not known"
#: Statuses by urgency; an unknown one may be any of the others.
STATUSES = (
    *(UNKNOWN, "missing", "stuck", "unexpected", "unreadable"),
    *("duplicate", "archiving", "written", "passed", "marker"),
)
_LAG = ("topic", "start_offset", "effective_start_offset", "log_start_offset", "end_offset")
_RUN = ("delivery_count", "status", "reason", "letters", "queue", "queue_partition", "copied",
           "retained")  # fmt: skip


def ledger_arrow(archived: Arrow, letters: Arrow, lag: Arrow, limits: Arrow, now: int) -> pa.Table:
    """Compare archived offsets with the records of a queue, offset by offset.

    ``archived`` has `ARCHIVED_RUNS` of whole share partitions; ``letters`` and ``lag`` have
    `COUNTED_LETTERS` and `sharelag.schemas.LAG` of the same ones. ``limits`` has ``group_id
    delivery_limit patience_ms nameless``; the last is true if any topic name of the group is
    unknown. ``now`` is in milliseconds. The result is `LEDGER`, sorted by share partition and
    offset.
    """
    runs, every = as_table(archived), as_table(letters)
    which, offset = each_offset(*(numbers(runs, one)[0] for one in ("first_offset", "last_offset")))
    names = [*SHARE_PARTITION, "delivery_state", "delivery_count", "since", "record"]
    mine = runs.select(names).take(pa.array(which)).append_column("offset", pa.array(offset))
    is_fine = pc.is_null(every.column("problem"))
    by = [*SHARE_PARTITION, "offset"]
    # The queue got more partitions if the letters of an offset are in several.
    fine = every.filter(is_fine).sort_by(ascending("queue", "queue_partition", "queue_offset"))
    fine = fine.group_by(by, use_threads=False)
    sums = fine.aggregate([(name, how) for *_, name, how in _SUMMED])
    sums = sums.rename_columns([*by, *(name for name, *_ in _SUMMED)])
    place = list(SHARE_PARTITION)
    if sums.num_rows:
        both = mine.join(sums, [*place, "offset"], join_type="full outer")
    else:
        both = mine
        for name, kind, _, _ in _SUMMED:
            both = both.append_column(name, pa.nulls(both.num_rows, kind))
    both = both.join(as_table(lag).select([*place, *_LAG]), place)
    both = both.join(as_table(limits), "group_id")
    both = both.sort_by(ascending(*place, "offset")).combine_chunks()
    names = ["queue", "queue_partition", "reason", "first_queue_offset", "letters"]
    lost = every.filter(pc.invert(is_fine)).group_by(["queue", "queue_partition", "problem"])
    lost = lost.aggregate([("queue_offset", "min"), ("records", "sum")]).rename_columns(names)
    lost = lost.sort_by(ascending("queue", "queue_partition"))
    columns = {name: lost.column(name) for name in names}
    columns["status"] = pa.repeat("unreadable", lost.num_rows)
    unreadable = table_of(columns, schemas.LEDGER, pad=True)
    return pa.concat_tables([_runs(_judge(both, now)), unreadable])


#: Aggregates of the letters of one offset: name and type, column, and function.
_SUMMED = (
    ("letters", pa.int64(), "queue_offset", "count"),
    ("first_queue_offset", pa.int64(), "queue_offset", "first"),
    ("last_queue_offset", pa.int64(), "queue_offset", "last"),
    ("queue", pa.string(), "queue", "first"),
    ("queue_partition", pa.int32(), "queue_partition", "first"),
    ("told_count", pa.int16(), "delivery_count", "max"),
    ("message", pa.string(), "message", "min"),
    ("copied", pa.bool_(), "copied", "min"),
    ("marker", pa.bool_(), "marker", "max"),
    ("told_topic", pa.string(), "topic", "min"),
)


def _judge(both: pa.Table, now: int) -> pa.Table:
    column = {name: flat(both.column(name)) for name in both.column_names}
    letters = column["letters"].fill_null(0)
    is_done = pc.equal(column["delivery_state"], _ARCHIVED).fill_null(False)
    is_going = pc.equal(column["delivery_state"], _ARCHIVING).fill_null(False)
    waited = pc.subtract(now, column["since"].cast(pa.int64()))
    is_stuck = pc.greater(waited, column["patience_ms"]).fill_null(False)
    past = pc.max_element_wise(column["start_offset"], column["effective_start_offset"])
    is_past = pc.less(column["offset"], past).fill_null(False)
    # Offsets before the start offset are finished, whatever their last known state.
    is_going = pc.and_(is_going, pc.invert(is_past))
    is_done = pc.or_(is_done, pc.and_(pc.is_valid(column["delivery_state"]), is_past))
    # Letters have the topic's id if the broker did not know its name either.
    is_lost = pc.and_(is_done, pc.equal(letters, 0))
    is_nameless = pc.and_(pc.is_null(column["topic"]), is_lost)
    is_stray = pc.and_(
        pc.equal(column["told_topic"], column["topic_id"]).fill_null(False),
        pc.and_(pc.is_null(column["start_offset"]), column["nameless"].fill_null(False)),
    )
    cases = {  # the first true one applies
        UNKNOWN: pc.or_(is_nameless, is_stray),
        "marker": column["marker"].fill_null(False),
        "missing": is_lost,
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
    known = pc.make_struct(*(pc.equal(column["message"], text) for text in REASONS))
    reasons = pc.case_when(known, *REASONS.values(), OTHER)
    is_told = pc.and_(pc.greater(letters, 0), pc.is_valid(column["message"]))
    inside = pc.and_(
        pc.greater_equal(column["offset"], column["log_start_offset"]),
        pc.less(column["offset"], column["end_offset"]),
    )
    reason = pc.if_else(is_stray, NO_ID, pc.if_else(is_told, reasons, inferred))
    made = {"status": status, "reason": pc.if_else(is_nameless, NO_NAME, reason)}
    made |= {"topic": pc.coalesce(column["topic"], column["told_topic"]), "letters": letters}
    return pa.table(column | made | {"delivery_count": count, "retained": inside})


def _runs(rows: pa.Table) -> pa.Table:
    """Merge consecutive offsets with the same outcome into runs."""
    if not rows.num_rows:
        return schemas.LEDGER.empty_table()
    # In a run offsets grow by 1, as rows do.
    offset = numbers(rows, "offset")[0] - np.arange(rows.num_rows)
    begins = changes(offset, *(codes(rows.column(name)) for name in (*SHARE_PARTITION, *_RUN)))
    table = rows.append_column("run", pa.array(np.cumsum(begins)))
    first = table.filter(pa.array(begins))
    summed = {
        "last_offset": ("offset", "max"),
        "offsets": ("offset", "count"),
        "letters": ("letters", "sum"),
        "first_queue_offset": ("first_queue_offset", "min"),
        "last_queue_offset": ("last_queue_offset", "max"),
        "since": ("since", "min"),
    }
    sums = table.group_by("run").aggregate(list(summed.values())).sort_by("run")
    columns = {name: sums.column("_".join(what)) for name, what in summed.items()}
    columns["first_offset"] = first.column("offset")
    columns |= {name: first.column(name) for name in schemas.LEDGER.names if name not in columns}
    return table_of(columns, schemas.LEDGER)


#: Offsets by outcome; records of the queue where offsets are unknown; rows of the ledger.
SUMS = pa.schema({"status": pa.string(), "reason": pa.string(), "offsets": pa.int64(),
                  "rows": pa.int64()})  # fmt: skip


def sums_of(ledger: Arrow) -> pa.Table:
    """Sum a ledger by status and reason, as `SUMS`."""
    table = as_table(ledger)
    counted = pc.coalesce(table.column("offsets"), table.column("letters"))
    table = table.select(["status", "reason"]).append_column("offsets", counted)
    sums = table.group_by(["status", "reason"])
    sums = sums.aggregate([("offsets", "sum"), ("offsets", "count")])
    return sums.rename_columns(SUMS.names).cast(SUMS)


def first_of(ledger: Arrow, most: int, statuses: tuple[str, ...] = ()) -> pa.Table:
    """Return the ``most`` most urgent rows of a ledger, of all or some statuses."""
    table = as_table(ledger)
    if statuses:
        table = table.filter(pc.is_in(table.column("status"), pa.array(statuses, pa.string())))
    place = pc.index_in(table.column("status"), pa.array(STATUSES))
    by = ascending("place", "group_id", "topic", "partition", "first_offset")
    order = pc.sort_indices(table.append_column("place", place), by)
    return table.take(order.slice(0, most))


def summary_words(sums: pa.Table) -> list[str]:
    """Return the sums in words: ``12 written (rejected 12)``."""
    words = []
    for status in STATUSES:
        rows = (one for one in sums.to_pylist() if one["status"] == status)
        if mine := sorted((one["reason"] or UNKNOWN_REASON, one["offsets"]) for one in rows):
            parts = ", ".join(f"{reason} {count:,}" for reason, count in mine)
            words.append(f"{sum(count for _, count in mine):,} {status} ({parts})")
    return words


#: Statuses that a redrive includes by default.
REDRIVEN = ("written", "duplicate", "missing", "passed")


def redrive_arrow(
    ledger: Arrow,
    statuses: tuple[str, ...] = REDRIVEN,
    server: str | None = None,
    command_config: str | Path | None = None,
) -> pa.Table:
    """Plan how to send dead letters again: the place of each record, and a command to send it.

    The result is `REDRIVE` for the rows of a `LEDGER` with these statuses. ``from`` is ``source``
    if the topic's log still has the records, ``queue`` if the queue has copies, else ``lost``.
    Lost records, and copies with other records in between, have no command. An unknown status, or
    nothing to send, raises an `InputError`.
    """
    if "marker" in statuses:
        raise InputError("transaction markers cannot be sent again: leave out the status marker")
    if unknown := [name for name in statuses if name not in STATUSES]:
        raise InputError(f"unknown status {unknown[0]!r}: choose one of {', '.join(STATUSES)}")
    table = as_table(ledger)
    chosen = table.filter(pc.is_in(table.column("status"), pa.array(statuses, pa.string())))
    client = client_words(server, command_config)
    rows = []
    for row in chosen.to_pylist():
        where = "source" if row["retained"] else "queue" if row["copied"] else "lost"
        kept = {name: row[name] for name in schemas.REDRIVE.names if name in row}
        rows.append(kept | {"from": where, "command": _command(row, where, client)})
    return pa.Table.from_pylist(rows, schema=schemas.REDRIVE)


def _command(row: dict[str, Any], where: str, client: list[str]) -> str | None:
    if where == "lost" or row["topic"] is None:
        return None
    if where == "source":
        place = (row["topic"], row["partition"], row["first_offset"])
    else:
        between = row["last_queue_offset"] - row["first_queue_offset"] + 1
        if not between == row["letters"] == row["offsets"]:
            return None
        place = (row["queue"], row["queue_partition"], row["first_queue_offset"])
    topic, partition, begin = place
    reader = ["kafka-console-consumer.sh", *client, "--topic", topic]
    reader += ["--partition", str(partition), "--offset", str(begin)]
    reader += ["--max-messages", str(row["offsets"]), "--formatter-property", "print.key=true"]
    writer = ["kafka-console-producer.sh", *client, "--topic", row["topic"]]
    writer += ["--reader-property", "parse.key=true"]
    return " | ".join(" ".join(map(shell_word, words)) for words in (reader, writer))
