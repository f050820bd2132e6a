"""What happened to share partitions, record by record, and between two moments."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import InputError
from sharelag.reading import Each, Rows
from sharelag.replay.moment import parse_since, parse_time, with_zone
from sharelag.schemas import SHARE_PARTITION
from sharelag.schemas.arrow import keys
from sharelag.tables import gaps, views
from sharelag.tables.words import counted, moment
from sharelag.workbench import charts
from sharelag.workbench import engine as engines
from sharelag.workbench.one_group import only
from sharelag.workbench.opened import Opened
from sharelag.workbench.result import Result

#: Rows of a history that are brought into this process; its DataFrame has all.
MOST_ROWS = 20_000


class WithHistory(Opened):
    """Questions about what changed."""

    def history(self, group: str | None = None, since: str | datetime | None = None) -> Result:
        """What happened to every share partition, record by record, from a time or span on."""
        evidence = self.evidence(group)
        begin = (
            parse_since(since, lambda: evidence.as_of, parse_time)
            if isinstance(since, str)
            else _time(since)
        )
        # What is few is read once for all groups; of many records each group has its own latest
        # ones.
        few = self.reading.counted.records <= MOST_ROWS
        mine = None if few else group
        rows = self._ask(
            ("history", begin, mine), lambda: self.reading.history(begin, MOST_ROWS, mine)
        )
        frame = self._frame(lambda read: read.history_frame(begin, group), rows.left_out)
        base = replace(self._base(), as_of=evidence.as_of, frame=frame, unknown=self._rejected())
        return _history_answer(rows, group, base)

    def over_history(self, question: Hashable, each: Each, schema: pa.Schema) -> pa.Table:
        """A function over whole histories, run once under this name. See `Reading.over_history`."""
        return self._ask(
            ("over history", question), lambda: self.reading.over_history(each, schema)
        )

    def diff(self, before: str | datetime) -> Result:
        """What changed since an earlier moment, or in the last time such as ``2h``."""
        table = self._ask(("diff", before), lambda: engines.diff_of(self.reading, before))
        return _diff_answer(table, replace(self._base(), unknown=self._rejected()))


def _history_answer(rows: Rows, group: str | None, base: Result) -> Result:
    """What happened, record by record."""
    table = only(rows.table, group)
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
    return replace(
        base,
        title=f"History of {counted(count, 'share partition')}, record by record",
        table=table,
        columns=views.HISTORY.columns,
        means=views.HISTORY.means,
        as_of=pc.max(table.column("record_timestamp")).as_py(),
        order="record_timestamp",
        charts={
            measure: partial(_heat, table, measure)
            for measure in ("span", "available", "complete", "deliveries")
        },
        notes=(*notes, *base.notes),
        unknown=(*unknown, *base.unknown),
    )


def _heat(table: pa.Table, measure: str, theme: charts.Theme) -> Any:
    return charts.window_heat_figure(charts.window_heat_records(table, measure), theme)


def _diff_answer(table: pa.Table, base: Result) -> Result:
    """What changed between two moments."""
    return replace(
        base,
        title="What changed",
        table=table,
        columns=views.DIFF.columns,
        means=views.DIFF.means,
        order="finished",
        unknown=gaps.of_column(table, "finished", "how much was finished") + base.unknown,
    )


def _time(since: datetime | None) -> datetime | None:
    """A time with its zone, as `Workbench.history` takes it."""
    if since is not None and not isinstance(since, datetime):
        raise InputError(f"cannot begin at {since!r}: give a datetime, or a text such as 30m")
    with_zone(since)
    return since
