"""What coordinators hold of share partitions, now and at earlier moments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.engine import ORDER, add_topic_names
from sharelag.errors import InputError, unknown_topic
from sharelag.tables import gaps, views
from sharelag.tables.words import counted
from sharelag.workbench.ask import question
from sharelag.workbench.one_group import delivery_limit, only
from sharelag.workbench.result import Result, chart

if TYPE_CHECKING:
    from sharelag.workbench.opened import Tables

#: Moments of windows, when nobody says how many.
MOST_MOMENTS = 240
#: Windows of a past that are brought into this process.
MOST_WINDOWS = 100_000


@question("windows", "offsets", "lag", stands_alone=True)
def windows(t: Tables, group: str | None = None, held: bool = False) -> Result:
    """Return what the coordinator holds of every share partition."""
    lag = only(t.read.table("lag"), group)
    table = t.bench.choice.of(add_topic_names(only(t.read.table("windows"), group), lag)).sort_by(
        ORDER
    )
    base, told = t.bench.base(t.read), t.bench.held_beside(t.read, lag, table, held)
    base = replace(
        base,
        notes=(*base.notes, *told.notes),
        unknown=(*told.lacks, *base.unknown),
        lacks=(*base.lacks, *told.lacks),
    )
    return _windows_answer(told.table, base, partial(_limit, t, group))


@question("windows", "offsets", "lag", "records")
def moments(t: Tables, group: str, topic: str | None = None, most: int = MOST_MOMENTS) -> Result:
    """Return the windows of a group after each of its records, for going back in time."""
    lag = only(t.read.table("lag"), group)
    if topic is not None:
        topics = lag.column("topic").to_pylist()
        if topic not in topics:
            raise InputError(unknown_topic(topic, topics, group))
        lag = lag.filter(pc.equal(lag.column("topic"), topic))
    if not isinstance(most, int) or most < 1:
        raise InputError(f"cannot show {most!r} moments: give a whole number above 0")
    most = max(min(most, MOST_WINDOWS // max(lag.num_rows, 1)), 1)
    table = add_topic_names(t.read.windows_at(lag, most), lag)
    return _windows_answer(table, t.bench.base(t.read), partial(_limit, t, group))


def _limit(t: Tables, group: str | None) -> int | None:
    return None if group is None else delivery_limit(t.read.table("settings"), group)


def _windows_answer(table: pa.Table, base: Result, limit: Callable[[], int | None]) -> Result:
    """Return what the coordinator holds of each share partition."""
    without = int(pc.sum(pc.invert(table.column("from_snapshot").fill_null(False))).as_py() or 0)
    drawn = {
        "deliveries": chart("delivery_count", table, limit=limit),
        "states": chart("window_state", table, limit=limit),
    }
    if len(table) != 1:
        drawn.pop("states")  # a chart of one share partition
    unknown = gaps.of_rows(
        without, len(table), "the whole state", ["no snapshot is among the records"]
    )
    return base.answer(
        f"Windows of {counted(len(table), 'share partition')}",
        table,
        views.windows_with("notes" in table.column_names),
        "window_end_offset",
        charts=drawn,
        unknown=unknown,
    )
