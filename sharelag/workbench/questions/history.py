"""What happened to share partitions, record by record, and between two moments."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from sharelag.engine import ORDER, add_topic_names
from sharelag.errors import InputError
from sharelag.replay.moment import Moment, as_moment, parse_moment, parse_since, parse_time
from sharelag.schemas import DIFF, SHARE_PARTITION
from sharelag.tables import gaps, views
from sharelag.tables.arrow import keys
from sharelag.tables.words import counted, moment
from sharelag.workbench.ask import question
from sharelag.workbench.one_group import only
from sharelag.workbench.result import Result, chart

if TYPE_CHECKING:
    from sharelag.workbench.opened import Tables

#: Rows of a history that are brought into this process; its DataFrame has all.
MOST_ROWS = 20_000


@question("history", "windows", "lag")
def history(t: Tables, group: str | None = None, since: str | datetime | None = None) -> Result:
    """Return what happened to every share partition, record by record, from a time or span on."""
    bench, begin = t.bench, begin_of(since, t.read.now)
    # What is few is read once for all groups; of many records each group has its own latest ones.
    mine = None if t.read.counted.records <= MOST_ROWS else group
    rows = bench.keep(("history", begin, mine), lambda: t.read.history(begin, MOST_ROWS, mine))
    frame = bench.frame_of(lambda read: read.history_frame(begin, group), rows.left_out)
    table, base = only(rows.table, group), bench.base(t.read)
    lost = int(pc.sum(pc.invert(table.column("follows").fill_null(True))).as_py() or 0)
    unknown = (
        [f"what changed before {lost:,} of {len(table):,} rows: records may be missing there"]
        if lost
        else []
    )
    count = len(pc.unique(keys(table, SHARE_PARTITION)))
    notes = []
    if rows.left_out:
        first = pc.min(rows.table.column("record_timestamp")).as_py()
        notes.append(
            f"the latest {len(rows.table):,} of {rows.total:,} rows, from {moment(first)} on; "
            "to_spark() has all"
        )
    return base.answer(
        f"History of {counted(count, 'share partition')}, record by record",
        table,
        views.HISTORY,
        "record_timestamp",
        as_of=pc.max(table.column("record_timestamp")).as_py(),
        charts={
            measure: chart("window_heat", table, measure)
            for measure in ("span", "available", "complete", "deliveries")
        },
        notes=notes,
        unknown=unknown,
        frame=frame,
    )


@question("windows", "offsets", "lag")
def diff(t: Tables, before: str | Moment) -> Result:
    """Return what changed since an earlier moment, or in the last time such as ``2h``."""
    read, base = t.read, t.bench.base(t.read)
    if isinstance(before, str):
        before = parse_since(before, lambda: read.now, parse_moment)
    table = read.diff(read.then(before)).drop_columns("topic")
    ids = sorted(set(table.column("topic_id").to_pylist()))
    table = add_topic_names(table, read.source.offsets(ids)).select(DIFF.names)
    table = read.choice.of(table.sort_by(ORDER))
    unknown = gaps.of_column(table, "finished", "how much was finished")
    return base.answer("What changed", table, views.DIFF, "finished", unknown=unknown)


def begin_of(since: str | datetime | None, end: datetime) -> datetime | None:
    """Return the first moment: a time with its zone, or a span before the end such as ``30m``."""
    if isinstance(since, str):
        return parse_since(since, lambda: end, parse_time)
    if since is not None and not isinstance(since, datetime):
        raise InputError(f"cannot begin at {since!r}: give a datetime, or a text such as 30m")
    as_moment(since)
    return since
