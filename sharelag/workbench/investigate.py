"""Answers about a share group that is behind, from one reading of the input.

Each answer works for now and for any moment of the record, on either engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.columns import numbers
from sharelag.metrics.events import events_arrow, member_events, with_leaders
from sharelag.metrics.evidence import Evidence
from sharelag.metrics.imbalance import trend as imbalance_trend
from sharelag.metrics.placement import findings
from sharelag.metrics.timeline import timeline_arrow
from sharelag.model import milliseconds
from sharelag.reading import ORDER, OVER, Each, Reading, named
from sharelag.replay.moment import Choice, Moment
from sharelag.schemas.arrow import as_table
from sharelag.sources.inputs import Input
from sharelag.sources.inputs.offsets import of_topics
from sharelag.sources.kafka.described import described_offsets
from sharelag.wire.fields import STATE_TOPIC
from sharelag.workbench.engine import Answer, reading
from sharelag.workbench.one_group import only

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sharelag.pipeline.reading import SparkReading

#: More moments than a person looks at, and a few requests to the cluster each.
MOST_MOMENTS = 2_000
#: Moments of a timeline where nobody says a step.
STEPS = 60
#: The lag of groups at moments.
TRENDS = pa.schema([schemas.TIMELINE.field(name) for name in ("group_id", "as_of", "lag")])
#: Rows of a timeline that are held in one process.
_MOST_ROWS = 5_000_000


def gather(
    source: Input,
    engine: str = "auto",
    as_of: Moment = None,
    choice: Choice | None = None,
    over: timedelta = OVER,
) -> Evidence:
    """Everything that is known of some share groups.

    Parameters
    ----------
    source : Input
    engine : {"auto", "local", "spark"}
    as_of : datetime, mapping of state partition to offset, or None
    choice : Choice, optional
    over : timedelta
        The span before that moment which rates are of; shorter where the records begin later.
    """
    with reading(source, engine, as_of, choice, over) as begun:
        return begun.evidence


def lag_alone(
    source: Input,
    engine: str = "auto",
    as_of: Moment = None,
    choice: Choice | None = None,
    over: timedelta = OVER,
) -> Evidence:
    """The lag of some share groups, and nothing else; parameters as for `gather`."""
    with reading(source, engine, as_of, choice, over, history=False) as begun:
        return begun.lag_evidence


def regular_moments(
    begun: Reading, every: timedelta, since: datetime | None = None, over: timedelta | None = None
) -> list[datetime]:
    """The moments of a timeline, ascending, the last of them that of the reading.

    Raises
    ------
    InputError
        When there would be more than `MOST_MOMENTS`.
    """
    first = since or begun.counted.first
    requested = (
        None if begun.as_of is not None else pc.max(begun.table("offsets").column("as_of")).as_py()
    )
    last = requested or begun.end
    first = max(first, last - over) if first and over else first
    if first is None or first > last:
        return []
    if (last - first) / every > MOST_MOMENTS:
        raise InputError(
            f"every {every} since {first} is more than {MOST_MOMENTS} moments: choose a longer step"
        )
    return [last - n * every for n in range(int((last - first) / every) + 1)][::-1]


def timeline_of(
    begun: Reading,
    moments: Sequence[datetime],
    every: timedelta,
    group: str | None = None,
    most: int | None = None,
) -> Answer:
    """The lag of the chosen share partitions at moments that are ``every`` apart, as `TIMELINE`.

    Of more rows than ``most`` those of the share partitions with the most lag now; without
    ``most``, more rows than one process should hold are an error.
    """
    if not moments:
        return Answer.of(begun, schemas.TIMELINE.empty_table())
    lag = begun.table("lag")
    keys = only(lag, group)
    rows = len(moments) * keys.num_rows
    if most is None and rows > _MOST_ROWS:
        raise InputError(
            f"{rows:,} rows are too many to look at: choose a longer step, or fewer groups"
        )
    kept = keys.num_rows if most is None else min(keys.num_rows, max(most // len(moments), 1))
    if kept < keys.num_rows:
        keys = keys.sort_by([("lag", "descending"), *ORDER]).slice(0, kept)
    each, now = _lags(begun, keys, moments, every), begun.table("offsets")
    table = begun.over_history(
        each, schemas.TIMELINE, None if keys.num_rows == lag.num_rows else keys
    )
    table = named(table.drop_columns("topic"), now).select(schemas.TIMELINE.names)
    table = begun.choice.of(table.sort_by([*ORDER, ("as_of", "ascending")]))
    return Answer.of(begun, table, rows - kept * len(moments))


def trends_of(begun: Reading, moments: Sequence[datetime], every: timedelta) -> pa.Table:
    """The lag of each group at moments, as `TRENDS`: summed where the history is replayed."""
    lag = begun.table("lag")
    each = _lags(begun, lag, moments, every)

    def sums(history: pa.RecordBatch) -> pa.Table:
        return lag_sums(as_table(each(history)))

    return lag_sums(begun.over_history(sums, TRENDS, lag if begun.choice.topics else None))


def lag_sums(timeline: pa.Table) -> pa.Table:
    """The lag of each group at each moment, as `TRENDS`; null where a part of it is not known."""
    grouped = timeline.group_by(["group_id", "as_of"]).aggregate(
        [("lag", "sum", pc.ScalarAggregateOptions(skip_nulls=False))]
    )
    return grouped.rename_columns(TRENDS.names).cast(TRENDS)


def step_of(progress: pa.Table, over: timedelta) -> timedelta:
    """The step of a timeline where nobody says one: a sixtieth of the span that rates are of."""
    # One step for all groups: the answer of one is then a part of what is kept.
    seen = pc.max(progress.column("observed_ms")).as_py() or over / timedelta(milliseconds=1)
    return timedelta(milliseconds=max(seen / STEPS, 1))


def events_of(
    begun: Reading,
    since: datetime | None = None,
    every: timedelta | None = None,
    over: timedelta = OVER,
) -> Answer:
    """What happened to the chosen share partitions and groups, as `EVENTS`.

    Parameters
    ----------
    begun : Reading
    since : datetime, optional
        Else as far back as ``over``.
    every : timedelta, optional
        Events of one kind within such a step are one row; else `step_of`.
    over : timedelta
    """
    evidence = begun.evidence
    since = since or evidence.as_of - over
    every = every or step_of(evidence.progress, over)
    each = partial(events_arrow, since=since, every=every)
    found = begun.over_history(each, schemas.EVENTS).drop_columns("topic")
    of_groups = member_events(begun.table("members"), begun.table("groups"), since)
    names = begun.table("lag").select(["topic_id", "topic"])
    table = named(found, names).select(schemas.EVENTS.names)
    table = with_leaders(table, evidence.brokers)
    table = begun.choice.of(pa.concat_tables([table, of_groups]))
    order = ("happened_at", "group_id", "topic", "partition", "event", "member_id")
    return Answer.of(begun, table.sort_by([(name, "ascending") for name in order]))


def timeline_frame(
    begun: SparkReading, moments: Sequence[datetime], every: timedelta, group: str | None = None
) -> DataFrame:
    """The whole timeline of a reading on Spark as a DataFrame."""
    keys = only(begun.table("lag"), group)
    return begun.timeline_frame(_lags(begun, keys, moments, every), group)


def _lags(begun: Reading, keys: pa.Table, moments: Sequence[datetime], every: timedelta) -> Each:
    """Make what works out the lags of share partitions at some moments from their history."""
    ids = sorted(pc.unique(keys.column("topic_id")).to_pylist())
    # The ends of the last moment are those that were read just now.
    past = begun.source.past_offsets(ids, moments[:-1])
    ends = pa.concat_tables([past, of_topics(begun.table("offsets"), ids)])
    return partial(timeline_arrow, past_offsets=ends, moments=known_moments(ends, moments, every))


def lags_at(begun: Reading, ends: pa.Table, moments: Sequence[datetime]) -> pa.Table:
    """The lag of every share partition at moments with known end offsets, as `TIMELINE`."""
    each = partial(timeline_arrow, past_offsets=ends, moments=list(moments))
    return begun.over_history(each, schemas.TIMELINE)


def trend_of(
    begun: Reading, every: timedelta, by: str | None = None, over: timedelta | None = None
) -> Answer:
    """How unevenly lag was spread over partitions and topics over time, as `IMBALANCE`."""
    answer = timeline_of(begun, regular_moments(begun, every, over=over), every)
    table = answer.table
    moments = pc.unique(table.column("as_of")).to_pylist()
    lags = {
        at: table.filter(pc.equal(table.column("as_of"), pa.scalar(at, schemas.TIMESTAMP)))
        for at in moments
    }
    rows = pa.Table.from_batches([imbalance_trend(lags, by=by)])
    return replace(answer, table=rows)


def reconcile_of(begun: Reading, described: str | None = None, true: bool = False) -> Answer:
    """The lag in several ways, and why they differ, as `sharelag.schemas.comparisons.RECONCILED`.

    Parameters
    ----------
    begun : Reading
    described : str, optional
        What ``kafka-share-groups.sh --describe --offsets`` printed.
    true : bool
        Read the whole backlog, and count the records in it; of a running cluster, as of now.

    Raises
    ------
    InputError
        When the backlog cannot be read there, or the text is not that of the command.
    """
    if true and (begun.as_of is not None or not hasattr(begun.source, "config")):
        raise InputError(
            "true lag is counted in the logs of a running cluster as of now: give "
            "--bootstrap-server and no --as-of"
        )
    reported = None if described is None else described_offsets(described)
    if reported is not None and begun.choice.groups:
        reported = reported.filter(
            pc.is_in(reported.column("group_id"), pa.array(sorted(begun.choice.groups)))
        )
    return Answer.of(begun, begun.reconcile(reported, true))


def health_of(begun: Reading) -> tuple[Answer, pa.Table]:
    """How the state topic does, by another reading if this one has chosen groups.

    Returns
    -------
    answer, findings
        `sharelag.schemas.HEALTH`, and what should not be so as
        `sharelag.metrics.placement.FINDINGS`.
    """
    whole = begun.whole()
    try:
        table = whole.table("health")
        found = findings(table, whole.table("windows"), whole.source.partitions(STATE_TOPIC))
        return Answer.of(whole, table), found
    finally:
        if whole is not begun:
            whole.close()


def snapshots_of(begun: Reading) -> Answer:
    """The last snapshot of each share partition, as `SNAPSHOTS` with the topics' names."""
    table = named(begun.table("snapshots"), begun.table("offsets"))
    return Answer.of(begun, begun.choice.of(table).sort_by(ORDER))


def known_moments(
    past_offsets: pa.Table, moments: Sequence[datetime], within: timedelta | None = None
) -> list[datetime]:
    """The moments; for an input that noted the ends at others, the last of those before each.

    Ascending, each once. With ``within``, what was noted longer ago than that is not taken.
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
