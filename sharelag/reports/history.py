"""Lag, windows and signs of trouble over the time of a report, from one reading each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.metrics.signs import SIGNS, signs_arrow
from sharelag.model import milliseconds
from sharelag.reading import named
from sharelag.reports.inputs import Case
from sharelag.schemas import SHARE_PARTITION
from sharelag.workbench.charts.window_heat import WINDOW_HEAT, window_heat_records

#: Moments of a line chart (a capture has end offsets at sixty), and of the window strip.
LINE_MOMENTS = 48
WINDOW_MOMENTS = 48
#: The key of a share partition.
KEY = list(SHARE_PARTITION)
#: Columns with the first time of each sign of trouble.
FIRST = ("first_released", "first_archived", "first_reset")
_NEVER = 2**62  # milliseconds


def timeline(case: Case, moments: int = LINE_MOMENTS) -> pa.Table:
    """Compute each share partition's lag at regular moments (`sharelag.schemas.TIMELINE`)."""
    every = max(case.known_span / moments, timedelta(milliseconds=10))
    return case.bench.timeline(every=every).table


def signs(case: Case) -> pa.Table:
    """Collect what happened to each share partition since the beginning (`SIGNS`, with ``topic``).

    The earliest sign of trouble comes first.
    """
    since = case.evidence.as_of - case.known_span
    table = case.bench.over_history(("signs", since), partial(signs_arrow, since=since), SIGNS)
    table = case.bench.choice.of(named(table, case.evidence.lag))
    first = pc.min_element_wise(*[table.column(name).cast(pa.int64()) for name in FIRST])
    table = table.append_column("first", first.fill_null(_NEVER))
    return table.sort_by(
        [(name, "ascending") for name in ("first", "group_id", "partition")]
    ).drop_columns("first")


def born(signs: pa.Table) -> pa.Table:
    """Select the share partitions whose history begins with their creation, by `KEY`."""
    return signs.filter(signs.column("is_born")).select(KEY)


def is_whole(case: Case, signs: pa.Table) -> bool:
    """Return whether the records since the beginning are complete.

    Parameters
    ----------
    case : Case
    signs : pyarrow.Table
        Its `signs`.
    """
    if case.evidence.gaps.num_rows or case.evidence.rejected:
        return False
    return not pc.any(pc.greater(signs.column("missing"), 0)).as_py()


def window_heat(case: Case, signs: pa.Table, measure: str = "span") -> pa.Table:
    """Measure the windows since the beginning (`charts.window_heat.WINDOW_HEAT`)."""
    begin = pc.min(signs.column("first_record")).as_py()
    if begin is None:
        return WINDOW_HEAT.empty_table()
    # Brokers' clocks may be ahead of this machine's.
    end = max(case.evidence.as_of, pc.max(signs.column("last_record")).as_py())
    each = partial(_heat, measure=measure, begin=begin, as_of=end)
    table = case.bench.over_history(
        ("window heat", measure, begin), each, WINDOW_HEAT
    ).drop_columns("topic")
    return case.bench.choice.of(named(table, case.evidence.lag).select(WINDOW_HEAT.names))


def _heat(history: pa.RecordBatch, measure: str, begin: datetime, as_of: datetime) -> pa.Table:
    since = history.filter(pc.greater_equal(history.column("record_timestamp"), pa.scalar(begin)))
    return window_heat_records(since, measure, as_of=as_of, begin=begin)


def as_far_as_known(words: str, is_whole: bool) -> str:
    """Qualify a statement that something did not happen if the records are incomplete."""
    return words if is_whole else f"As far as the records show, {words[0].lower()}{words[1:]}"


def windows_at(
    case: Case, share_partitions: Sequence[tuple[str, str, int]], moments: int = WINDOW_MOMENTS
) -> pa.Table:
    """Rebuild the windows of some share partitions at regular moments.

    Parameters
    ----------
    case : Case
    share_partitions : sequence of (group, topic id, partition)
        Only a few: their records are held in memory.
    moments : int

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.WINDOWS` of all moments, with ``topic`` and ``as_of``.
    """
    rows = [dict(zip(KEY, one, strict=True)) for one in share_partitions]
    wanted = pa.Table.from_pylist(
        rows, schema=pa.schema([schemas.WINDOWS.field(name) for name in KEY])
    )
    step = case.known_span / max(moments - 1, 1)
    at = sorted({milliseconds(case.evidence.as_of - n * step) for n in range(moments)})
    table = case.bench.windows_at(wanted, at)
    return named(table, case.evidence.lag.select(["topic_id", "topic"]))
