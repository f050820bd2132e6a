"""The lag and the windows of a case at regular moments, from one reading each."""

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
from sharelag.reports.case import Case
from sharelag.workbench.charts.window_heat import WINDOW_HEAT, window_heat_records

#: Moments of a line (a capture has the ends of topics at sixty), and of a window that people go
#: through in time.
LINE_MOMENTS = 48
WINDOW_MOMENTS = 48
#: What names a share partition.
KEY = ["group_id", "topic_id", "partition"]
#: Signs of trouble.
_NEVER = 2**62  # milliseconds
FIRST = ("first_released", "first_archived", "first_reset")


def timeline(case: Case, moments: int = LINE_MOMENTS) -> pa.Table:
    """The lag of each share partition at so many moments, as `sharelag.schemas.TIMELINE`."""
    every = max(case.known_span / moments, timedelta(milliseconds=10))
    return case.bench.timeline(every=every).table


def signs(case: Case) -> pa.Table:
    """What happened to each share partition since the beginning of the case, as `SIGNS` with ``topic``.

    Those with the earliest sign of trouble come first.
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
    """The share partitions whose history begins with their creation, by `KEY`."""
    return signs.filter(signs.column("is_born")).select(KEY)


def is_whole(case: Case, signs: pa.Table) -> bool:
    """Whether everything that happened since the beginning of the case is known, so that nothing else did.

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
    """How wide the windows were since the beginning of the case, as `charts.window_heat.WINDOW_HEAT`."""
    begin = pc.min(signs.column("first_record")).as_py()
    if begin is None:
        return WINDOW_HEAT.empty_table()
    # Clocks of brokers may be ahead of ours.
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
    """That something did not happen, as far as the records tell."""
    return (
        words
        if is_whole
        else f"As far as the records that are there tell, {words[0].lower()}{words[1:]}"
    )


def windows_at(
    case: Case, share_partitions: Sequence[tuple[str, str, int]], moments: int = WINDOW_MOMENTS
) -> pa.Table:
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
        `sharelag.schemas.WINDOWS` of all moments below each other, with ``topic`` and ``as_of``
        beside.
    """
    rows = [dict(zip(KEY, one, strict=True)) for one in share_partitions]
    wanted = pa.Table.from_pylist(
        rows, schema=pa.schema([schemas.WINDOWS.field(name) for name in KEY])
    )
    step = case.known_span / max(moments - 1, 1)
    at = sorted({milliseconds(case.evidence.as_of - n * step) for n in range(moments)})
    table = case.bench.windows_at(wanted, at)
    return named(table, case.evidence.lag.select(["topic_id", "topic"]))
