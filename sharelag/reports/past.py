"""How did it come about? The lag and the windows of a case at regular moments, from one reading each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import engine, schemas
from sharelag.replay.moment import up_to
from sharelag.replay.state import replay_arrow
from sharelag.reports.case import Case
from sharelag.show import plain_rows

#: Moments of a line (a capture has the ends of topics at sixty), and of a window that people go through in time.
LINE_MOMENTS = 48
WINDOW_MOMENTS = 48
#: What names a share partition.
KEY = ["group_id", "topic_id", "partition"]
#: Signs of trouble.
FIRST = ("first_released", "first_archived", "first_reset")


def timeline(case: Case, moments: int = LINE_MOMENTS) -> pa.Table:
    """The lag of each share partition at so many moments, as `sharelag.schemas.TIMELINE`."""
    every = max(case.known_span / moments, timedelta(milliseconds=10))
    return case.bench.timeline(every=every).table


def history(case: Case) -> pa.Table:
    """Every record's step since the beginning of the case, as `sharelag.schemas.HISTORY` with ``topic``."""
    return case.bench.history(since=case.evidence.as_of - case.known_span).table


def signs(history: pa.Table) -> list[dict[str, Any]]:
    """Of each share partition what happened, and when first: offsets given back or archived, and resets.

    Parameters
    ----------
    history : pyarrow.Table
        `sharelag.schemas.HISTORY` with ``topic``.

    Returns
    -------
    list of dict
        The one with the earliest sign first; None where something did not happen.
    """
    time = history.column("record_timestamp")
    happened = {
        "first_released": pc.greater(history.column("released"), 0),
        "first_archived": pc.greater(history.column("archived"), 0),
        "first_reset": _is_reset(history),
        "last_finished": pc.greater(history.column("finished"), 0),
    }
    for name, where in happened.items():
        history = history.append_column(name, pc.if_else(where.fill_null(False), time, None))
    sums = [(name, "sum") for name in ("released", "archived", "finished")]
    ends = [(name, "max" if name == "last_finished" else "min") for name in happened]
    key = ["group_id", "topic", "topic_id", "partition"]
    table = history.group_by(key).aggregate([*sums, *ends])
    rows = plain_rows(table.rename_columns([*key, *(name for name, _ in [*sums, *ends])]))
    late = "9999"
    return sorted(rows, key=lambda row: (min(row[name] or late for name in FIRST), row["group_id"], row["partition"]))


def born(history: pa.Table) -> pa.Table:
    """The share partitions whose history begins with their creation, by `KEY`.

    Parameters
    ----------
    history : pyarrow.Table
        `sharelag.schemas.HISTORY`, those of each share partition in the order of the log.
    """
    names = ("replaced", "snapshot_epoch")
    # With threads the order is another.
    begins = history.group_by(KEY, use_threads=False).aggregate([(name, "first") for name in names])
    created = pc.and_(begins.column("replaced_first"), pc.equal(begins.column("snapshot_epoch_first"), 0))
    return begins.filter(created).select(KEY)


def is_whole(case: Case, history: pa.Table) -> bool:
    """Whether everything that happened since the beginning of the case is known, so that nothing else did.

    Parameters
    ----------
    case : Case
    history : pyarrow.Table
        Its `history`.
    """
    if case.evidence.gaps.num_rows or case.evidence.rejected:
        return False
    begin = pa.scalar(case.evidence.as_of - case.known_span)
    later = history.filter(pc.greater(history.column("record_timestamp"), begin))
    later = later.filter(pc.not_equal(later.column("record_kind"), "tombstone"))
    # What a share partition did before the first record that is left of it; and where a state is partial.
    missing = pc.invert(pc.and_(later.column("follows"), later.column("from_snapshot")))
    # Of a share partition without a start offset nothing was fetched yet, and what is replaced gives nothing back.
    counts = pc.and_not(later.column("start_offset").is_valid(), later.column("replaced"))
    changes = pc.and_(later.column("released").is_valid(), later.column("archived").is_valid())
    return not pc.any(pc.or_(missing, pc.and_not(counts, changes))).as_py()


def as_far_as_known(words: str, is_whole: bool) -> str:
    """That something did not happen, as far as the records tell."""
    return words if is_whole else f"As far as the records that are there tell, {words[0].lower()}{words[1:]}"


def _is_reset(history: pa.Table) -> pa.ChunkedArray:
    """Where a state was replaced, which is not seen in the first record that is left of a share partition."""
    # Epoch 0 is the state that a share partition begins with.
    later = pc.greater(history.column("snapshot_epoch"), 0)
    return pc.and_(pc.and_(history.column("replaced"), history.column("follows")), later)


def windows_at(case: Case, share_partitions: Sequence[tuple[str, str, int]], moments: int = WINDOW_MOMENTS) -> pa.Table:
    """The windows of some share partitions at so many moments.

    Parameters
    ----------
    case : Case
    share_partitions : sequence of (group, topic id, partition)
        Few: their records are held in memory.
    moments : int

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.WINDOWS` of all moments below each other, with ``topic`` and ``as_of`` beside.
    """
    wanted = pa.array([f"{group}\n{topic_id}\n{partition}" for group, topic_id, partition in share_partitions])
    records = _records(case, wanted)
    step = case.known_span / max(moments - 1, 1)
    at = [case.evidence.as_of - n * step for n in range(moments)][::-1]
    tables = [_windows_at(records, moment) for moment in at]
    table = pa.concat_tables(tables)
    return engine.named(table, case.evidence.lag.select(["topic_id", "topic"]))


def _windows_at(records: pa.Table, moment: datetime) -> pa.Table:
    windows = pa.Table.from_batches([replay_arrow(up_to(records, moment))], schemas.WINDOWS)
    return windows.append_column("as_of", pa.repeat(pa.scalar(moment, schemas.TIMESTAMP), windows.num_rows))


def _records(case: Case, wanted: pa.Array) -> pa.Table:
    if case.evidence.engine == "spark":
        return _records_on_spark(case, wanted)
    parts = [
        decoded.records.filter(pc.is_in(_names(decoded.records), wanted))
        for decoded in engine.decoded(
            case.bench.source, as_of=case.bench.as_of, choice=engine.Choice(case.bench.choice.groups)
        )
    ]
    return pa.Table.from_batches(parts, schemas.RECORDS)


def _records_on_spark(case: Case, wanted: pa.Array) -> pa.Table:
    from pyspark.sql import functions as f

    from sharelag import pipeline
    from sharelag.sources.spark import session
    from sharelag.wire.fields import STATE_TOPIC

    records = pipeline.decode(case.bench.source.frame(session(), STATE_TOPIC)).records
    name = f.concat_ws("\n", "group_id", "topic_id", f.col("partition").cast("string"))
    chosen = pipeline.chosen(records, case.bench.as_of, case.bench.choice.groups).filter(name.isin(wanted.to_pylist()))
    return chosen.toArrow().select(schemas.RECORDS.names).cast(schemas.RECORDS)


def _names(records: pa.RecordBatch) -> pa.Array:
    columns = (records.column("group_id"), records.column("topic_id"), records.column("partition").cast(pa.string()))
    return pc.binary_join_element_wise(*columns, "\n")
