"""Lag over time: by record, at regular moments, between two moments; and events."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.durations import duration, parse_span, spell
from sharelag.engine import ORDER, Each, Reading, Rows, add_topic_names
from sharelag.errors import InputError
from sharelag.inputs.offsets import of_topics, offsets_at
from sharelag.metrics.columns import numbers
from sharelag.metrics.events import add_leaders, events_arrow, member_events
from sharelag.metrics.lag import timeline_arrow
from sharelag.model import iso, milliseconds
from sharelag.replay.moment import Moment, as_moment, as_time, parse_moment, parse_since, parse_time
from sharelag.schemas import DIFF
from sharelag.tables import gaps, views
from sharelag.tables.arrow import as_table, ascending
from sharelag.tables.words import moment, pluralize
from sharelag.workbench.ask import question
from sharelag.workbench.base import Opened, Tables, count_share_partitions, only
from sharelag.workbench.result import Result, chart

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sharelag.engine.spark.reading import SparkReading

#: Maximum number of history rows collected into this process; the DataFrame has all.
MOST_ROWS = 20_000


@question("history", "windows", "lag", of_deleted=True)
def history(t: Tables, group: str | None = None, since: str | datetime | None = None) -> Result:
    """Return the changes of share partitions, record by record, from a time or duration on."""
    bench, begin = t.bench, begin_of(since, t.read.now)
    # A short history is read once for all groups; of a long one, each group has its latest rows.
    mine = None if t.read.record_counts.records <= MOST_ROWS else group
    rows = bench.keep(("history", begin, mine), lambda: t.read.history(begin, MOST_ROWS, mine))
    frame = bench.frame_of(lambda read: read.history_frame(begin, group), rows.left_out)
    table, base = only(rows.table, group), bench.base(t.read, past=True)
    lost = int(pc.sum(pc.invert(table.column("follows").fill_null(True))).as_py() or 0)
    missing = f"what changed before {lost:,} of {len(table):,} rows: records may be missing there"
    count = count_share_partitions(table)
    notes = []
    if rows.left_out:
        first = pc.min(rows.table.column("record_timestamp")).as_py()
        notes.append(
            f"the latest {len(rows.table):,} of {rows.total:,} rows, from {moment(first)} on; "
            "to_spark() has all"
        )
    return base.answer(
        f"History of {pluralize(count, 'share partition')}, record by record",
        table,
        views.HISTORY,
        "record_timestamp",
        as_of=pc.max(table.column("record_timestamp")).as_py(),
        charts={
            measure: chart("window_heat", table, measure)
            for measure in ("span", "available", "complete", "deliveries")
        },
        notes=notes,
        unknown=[missing] * bool(lost),
        frame=frame,
    )


@question("windows", "offsets", "lag", of_deleted=True)
def diff(t: Tables, before: str | Moment) -> Result:
    """Return what changed since an earlier moment, or within the last duration such as ``2h``."""
    read, base = t.read, t.bench.base(t.read, past=True)
    if isinstance(before, str):
        before = parse_since(before, lambda: read.now, parse_moment)
    table = read.diff(read.then(as_moment(before))).drop_columns("topic")
    ids = sorted(set(table.column("topic_id").to_pylist()))
    table = add_topic_names(table, read.source.offsets(ids)).select(DIFF.names)
    table = read.choice.of(table.sort_by(ORDER))
    unknown = gaps.of_column(table, "finished", "how much was finished")
    return base.answer("What changed", table, views.DIFF, "finished", unknown=unknown)


def begin_of(since: str | datetime | None, end: datetime) -> datetime | None:
    """Return the first moment: a time with its zone, or a duration before the end (``30m``)."""
    if isinstance(since, str):
        return parse_since(since, lambda: end, parse_time)
    if since is not None and not isinstance(since, datetime):
        raise InputError(f"cannot begin at {since!r}: give a datetime, or a text such as 30m")
    return as_time(since)


#: Maximum number of moments, each of which takes a few requests to the cluster.
MOST_MOMENTS = 2_000
#: Number of moments of a timeline without a given step.
STEPS = 60
#: The lag of each group at each moment.
TRENDS = pa.schema([schemas.TIMELINE.field(name) for name in ("group_id", "as_of", "lag")])
#: Maximum number of timeline rows that one process holds.
_MOST_ROWS = 5_000_000
#: Maximum number of timeline rows collected into this process; the DataFrame has all.
MOST_TIMELINE_ROWS = 200_000


@question("history", "windows", "lag", of_deleted=True)
def timeline(
    t: Tables,
    group: str | None = None,
    every: str | float | timedelta | None = None,
    since: str | datetime | None = None,
    whole: bool = False,
) -> Result:
    """Return the lag of every share partition at regular moments."""
    bench, begin = t.bench, begin_of(since, t.read.now)
    step = parse_span(every) if every is not None else default_step(bench)
    over = bench.over if begin is None and not whole else None
    if every is None and begin is None:
        over = STEPS * step  # other groups' records may begin much earlier
    elif every is None and begin is not None:
        step = max(step, (t.read.now - begin) / STEPS)
    moments = regular_moments(t.read, step, begin, over)
    # A short timeline is computed once for all groups, a long one for each group.
    mine = None if _are_few(bench, moments) else group
    rows = bench.keep(
        ("timeline", step, begin, over, mine),
        lambda: timeline_of(t.read, moments, step, mine, MOST_TIMELINE_ROWS),
    )
    frame = bench.frame_of(lambda read: timeline_frame(read, moments, step, group), rows.left_out)
    table, base = only(rows.table, group), bench.base(t.read, past=True)
    notes = [*bench.of_past_ends(only(t.read.ever, group), is_past=True)]
    if rows.left_out:
        most = pluralize(count_share_partitions(table), "share partition")
        notes.append(f"the {most} with the most lag; to_spark() has all")
    return base.answer(
        f"Lag every {duration(step / timedelta(milliseconds=1))}",
        table,
        views.TIMELINE,
        "as_of",
        as_of=pc.max(table.column("as_of")).as_py(),
        charts={"lag": chart("lag_over_time", table), "rates": chart("rates_over_time", table)},
        notes=notes,
        unknown=gaps.of_ends(table),
        frame=frame,
    )


def trends(bench: Opened) -> pa.Table:
    """Return the lag of each group at the moments of `timeline`, as ``group_id as_of lag``.

    Null if the lag of a share partition is unknown; no row without share partitions.
    """
    step = default_step(bench)
    moments = regular_moments(bench.reading, step, None, STEPS * step)
    if _are_few(bench, moments):
        return lag_sums(bench.ask("timeline").table)
    read = bench.reading
    each = _lags(read, read.ever, moments, step)

    def sums(history: pa.RecordBatch) -> pa.Table:  # runs in Spark's tasks
        return lag_sums(as_table(each(history)))

    some = read.ever if read.choice.topics else None
    return bench.keep(("trends", step), lambda: lag_sums(read.over_history(sums, TRENDS, some)))


@question("history", "evidence", "groups", of_deleted=True)
def events(
    t: Tables,
    group: str | None = None,
    since: str | datetime | None = None,
    every: timedelta | None = None,
) -> Result:
    """Return events: resets, new leaders, archived records, members that joined or left."""
    bench, begin = t.bench, begin_of(since, t.read.now)
    base = bench.base(t.read, past=True)
    step = every or default_step(bench)
    found = bench.keep(
        ("events", begin, every),
        lambda: _events(t.read, begin or t.read.evidence.as_of - bench.over, step),
    )
    within = duration(step / timedelta(milliseconds=1))
    gone = (
        "when members that are gone by now joined, and those that left so long ago that Kafka has "
        "dropped the record of it"
    )
    missing = gaps.of_missing(t.read.table("gaps").num_rows, 0)
    return base.answer(
        "What happened",
        only(found, group),
        views.EVENTS,
        "happened_at",
        notes=(f"events of one kind within {within} are one row",),
        unknown=[gone, *missing],
    )


def default_step(bench: Opened) -> timedelta:
    """Return the default step of a timeline: a sixtieth of the span of rates."""
    # All groups have the same step, so that the cached answer serves each.
    seen = pc.max(bench.reading.table("progress").column("observed_ms")).as_py()
    return timedelta(milliseconds=max((seen or bench.over / timedelta(milliseconds=1)) / STEPS, 1))


def _are_few(bench: Opened, moments: Sequence[datetime]) -> bool:
    rows: int = len(moments) * bench.reading.ever.num_rows
    return rows <= MOST_TIMELINE_ROWS


# ---- helpers -----------------------------------------------------------------------------------


def regular_moments(
    reading: Reading, every: timedelta, since: datetime | None = None, over: timedelta | None = None
) -> list[datetime]:
    """Return at most `MOST_MOMENTS` moments, ascending; the last is that of the reading."""
    first, last = since or reading.record_counts.first, reading.now
    first = max(first, last - over) if first and over else first
    if first is None or first > last:
        return []
    if (last - first) / every > MOST_MOMENTS:
        raise InputError(
            f"every {spell(every)} since {iso(first)} is more than {MOST_MOMENTS:,} moments: "
            "choose a longer step"
        )
    return [last - n * every for n in range(int((last - first) / every) + 1)][::-1]


def timeline_of(
    reading: Reading,
    moments: Sequence[datetime],
    every: timedelta,
    group: str | None = None,
    most: int | None = None,
) -> Rows:
    """Return the lag of the selected share partitions at moments ``every`` apart, as `TIMELINE`.

    ``most`` limits the rows to those of the share partitions with the most lag now; without it,
    more rows than one process should hold raise an error.
    """
    if not moments:
        return Rows(schemas.TIMELINE.empty_table(), 0)
    ever = reading.ever
    keys = only(ever, group)
    rows = len(moments) * keys.num_rows
    if most is None and rows > _MOST_ROWS:
        raise InputError(
            f"{rows:,} rows are too many to look at: choose a longer step, or fewer groups"
        )
    kept = keys.num_rows if most is None else min(keys.num_rows, max(most // len(moments), 1))
    if kept < keys.num_rows:
        keys = keys.sort_by([("lag", "descending"), *ORDER]).slice(0, kept)
    each = _lags(reading, keys, moments, every)
    chosen = None if keys.num_rows == ever.num_rows else keys
    table = reading.over_history(each, schemas.TIMELINE, chosen)
    table = add_topic_names(table.drop_columns("topic"), ever).select(schemas.TIMELINE.names)
    table = reading.choice.of(table.sort_by([*ORDER, ("as_of", "ascending")]))
    return Rows(table, table.num_rows + rows - kept * len(moments))


def lag_sums(timeline: pa.Table) -> pa.Table:
    """Return each group's lag at each moment, as `TRENDS`; null if a part is unknown."""
    grouped = timeline.group_by(["group_id", "as_of"]).aggregate(
        [("lag", "sum", pc.ScalarAggregateOptions(skip_nulls=False))]
    )
    return grouped.rename_columns(TRENDS.names).cast(TRENDS)


def _events(reading: Reading, since: datetime, every: timedelta) -> pa.Table:
    """Return `EVENTS`; events of one kind within ``every`` are one row."""
    evidence = reading.evidence
    each = partial(events_arrow, since=since, every=every)
    found = reading.over_own_history(each, schemas.EVENTS).drop_columns("topic")
    of_groups = member_events(reading.table("members"), reading.table("groups"), since)
    table = add_topic_names(found, reading.table("offsets")).select(schemas.EVENTS.names)
    table = add_leaders(table, evidence.brokers)
    table = reading.choice.of(pa.concat_tables([table, of_groups]))
    order = ("happened_at", "group_id", "topic", "partition", "event", "member_id")
    return table.sort_by(ascending(*order))


def timeline_frame(
    reading: SparkReading, moments: Sequence[datetime], every: timedelta, group: str | None = None
) -> DataFrame:
    """Return the whole timeline of a reading on Spark as a DataFrame."""
    keys = only(reading.ever, group)
    return reading.timeline_frame(_lags(reading, keys, moments, every), group)


def _lags(reading: Reading, keys: pa.Table, moments: Sequence[datetime], every: timedelta) -> Each:
    """Return a function that computes the lags at some moments from a history."""
    ids = sorted(pc.unique(keys.column("topic_id")).to_pylist())
    # The ends of the last moment are those just read.
    later = reading.source.as_of() if reading.as_of is not None else None  # to include later ends
    past = reading.source.past_offsets(ids, [*moments[:-1], *([later] if later else [])])
    ends = pa.concat_tables([past, of_topics(reading.table("offsets"), ids)])
    chosen = known_moments(ends, moments, every)
    return partial(timeline_arrow, past_offsets=_with_ends_at(ends, chosen), moments=chosen)


def lags_at(reading: Reading, ends: pa.Table, moments: Sequence[datetime]) -> pa.Table:
    """Return the lag of every share partition at moments with known end offsets, as `TIMELINE`."""
    ends = _with_ends_at(ends, moments)
    each = partial(timeline_arrow, past_offsets=ends, moments=list(moments))
    return reading.over_history(each, schemas.TIMELINE)


def _with_ends_at(ends: pa.Table, moments: Sequence[datetime]) -> pa.Table:
    """Add ends at moments without a sample if the samples before and after are equal."""
    times, is_noted = numbers(ends, "as_of")
    noted = set(times[is_noted].tolist())
    others = [at for at in moments if milliseconds(at) not in noted]
    return pa.concat_tables([ends, offsets_at(ends.filter(pa.array(is_noted)), others)])


def known_moments(
    past_offsets: pa.Table, moments: Sequence[datetime], within: timedelta | None = None
) -> list[datetime]:
    """Return the moments, or the last sample of ends before each, ascending and distinct.

    Samples older than ``within`` do not count.
    """
    times, is_noted = numbers(past_offsets, "as_of")
    noted = np.unique(times[is_noted])
    requested = np.array([milliseconds(at) for at in moments], np.int64)
    place = np.searchsorted(noted, requested, side="right") - 1
    chosen = requested
    if len(noted):
        near = place >= 0
        if within is not None:
            near &= requested - noted[place] < within / timedelta(milliseconds=1)
        chosen = np.where(near, noted[place], requested)
    return pa.array(np.unique(chosen)).view(schemas.TIMESTAMP).to_pylist()  # type: ignore[no-any-return]
