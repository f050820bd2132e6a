"""Why is a share group behind? Gathers what can be known of it, from one reading of the input, and judges.

Each answer works for now and for any moment of the record, on either engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.engine import Answer, Choice, Past, named, reading, state_of
from sharelag.errors import InputError
from sharelag.metrics.age import asked_offsets
from sharelag.metrics.evidence import Evidence
from sharelag.metrics.facts import Facts
from sharelag.metrics.imbalance import imbalance_arrow
from sharelag.metrics.imbalance import trend as imbalance_trend
from sharelag.metrics.lag import lag_arrow
from sharelag.metrics.placement import findings
from sharelag.metrics.progress import progress_arrow
from sharelag.metrics.reconcile import reconcile_arrow
from sharelag.metrics.skew import skew_arrow
from sharelag.metrics.timeline import timeline_arrow
from sharelag.model import milliseconds
from sharelag.replay.history import HISTORY_KEY
from sharelag.replay.members import groups_arrow, latest_group_records, members_arrow
from sharelag.replay.moment import Moment, of_groups, up_to
from sharelag.sources.described import described_offsets
from sharelag.sources.inputs import Input, KafkaInput
from sharelag.sources.scan import scan
from sharelag.wire.decode import decode_arrow, of_topic
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC

#: More moments than a person looks at, and a few requests to the cluster each.
MOST_MOMENTS = 2_000
#: How far back rates and histories are looked at.
OVER = timedelta(hours=1)
#: In how many parts of that the ends of topics are asked for.
_PARTS = 10


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

    Returns
    -------
    Evidence
    """
    choice = choice or Choice()
    with reading(source, engine, as_of, choice) as past:
        ids = sorted(pc.unique(past.windows.column("topic_id")).to_pylist())
        # The state has been read before the end offsets: the other way round the lag could seem negative.
        offsets = source.offsets(ids, as_of)
        lag = choice.of(pa.Table.from_batches([lag_arrow(past.windows, offsets)]))
        now = _moment(as_of, lag, past)
        span = _span(over, now, past)
        observed = past.observe(now, span)
    past_offsets = source.past_offsets(ids, [now - span + n * span / _PARTS for n in range(_PARTS + 1)])
    logs = source.logs(ids)
    names = sorted(set(lag.column("group_id").to_pylist()))
    topics = sorted(set(lag.column("topic").drop_null().to_pylist()))
    moment = now if as_of is not None else None
    group_records = _group_records(source, choice.groups, moment)
    evidence = Evidence(
        as_of=now,
        lag=lag,
        windows=past.windows,
        observed=observed,
        past_offsets=past_offsets,
        members=pa.Table.from_batches([members_arrow(group_records)]),
        groups=_chosen_partitions(pa.Table.from_batches([groups_arrow(group_records)]), choice),
        settings=source.settings(names, topics),
        logs=logs,
        gaps=past.gaps,
        rejected=past.rejected,
        engine=past.engine,
    )
    return _with_progress(evidence, source)


def _with_progress(evidence: Evidence, source: Input) -> Evidence:
    """Ask when the oldest records are of, which depends on what a group gets, and judge the progress."""
    committed = pc.is_in(evidence.lag.column("group_id"), pa.array(sorted(evidence.reads_committed), pa.string()))
    parts, times = [], {}
    for read_committed, chosen in ((False, pc.invert(committed)), (True, committed)):
        lag = evidence.lag.filter(chosen)
        asked = asked_offsets(lag, evidence.logs)
        times[read_committed] = source.times(asked, read_committed) if asked.num_rows else schemas.TIMES.empty_table()
        parts.append(
            progress_arrow(
                lag,
                evidence.observed,
                evidence.past_offsets,
                times[read_committed],
                evidence.logs,
                evidence.as_of,
                Facts(replace(evidence, lag=lag)).patience,
                evidence.groups,
            )
        )
    order = [(name, "ascending") for name in ("group_id", "topic", "topic_id", "partition")]
    progress = pa.Table.from_batches(parts).sort_by(order)
    return replace(evidence, progress=progress, times=times[False], committed=times[True])


def imbalance(evidence: Evidence, by: str | None = None) -> pa.Table:
    """How unevenly lag, arrivals, work and assignments are spread, as `sharelag.schemas.IMBALANCE`."""
    return pa.Table.from_batches([imbalance_arrow(evidence.lag, *_loads(evidence), by)])


def skew(evidence: Evidence) -> pa.Table:
    """What the lag of each group crowds around, as `sharelag.metrics.skew.SKEW`."""
    return pa.Table.from_batches([skew_arrow(evidence.lag, *_loads(evidence))])


def _loads(evidence: Evidence) -> tuple[pa.Table | None, pa.Table | None, pa.Table, pa.Table | None]:
    """Members, groups, what was observed and earlier ends, as the figures of balance take them; None: not known."""
    groups = evidence.groups if evidence.groups.num_rows else None
    past = _earliest(evidence.past_offsets)
    members = None if groups is None else evidence.members
    return members, groups, evidence.observed, past if past.num_rows else None


def timeline(
    source: Input,
    every: timedelta,
    engine: str = "auto",
    as_of: Moment = None,
    choice: Choice | None = None,
    since: datetime | None = None,
    over: timedelta | None = None,
) -> Answer:
    """The lag of the chosen share partitions at regular moments, as `sharelag.schemas.TIMELINE`.

    Parameters
    ----------
    source, engine, as_of, choice
        As for `gather`.
    every : timedelta
    since : datetime, optional
        The first moment; without it, when the first record was written.
    over : timedelta, optional
        At most so long before the last moment.

    Raises
    ------
    InputError
        When that would be more than `MOST_MOMENTS` moments.
    """
    choice = choice or Choice()
    with reading(source, engine, as_of, choice) as past:
        history = past.history().sort_by([(name, "ascending") for name in HISTORY_KEY])
        rejected, chosen = past.rejected, past.engine
        first = since or past.first
    ids = sorted(pc.unique(history.column("topic_id")).to_pylist())
    now = source.offsets(ids, as_of)
    asked = None if as_of is not None else pc.max(now.column("as_of")).as_py()
    last = asked or _end(as_of, past)
    first = max(first, last - over) if first and over else first
    if first is None or first > last:
        return Answer(schemas.TIMELINE.empty_table(), rejected, chosen)
    if (last - first) / every > MOST_MOMENTS:
        raise InputError(f"every {every} since {first} is more than {MOST_MOMENTS} moments: choose a longer step")
    moments = [last - n * every for n in range(int((last - first) / every) + 1)][::-1]
    # The ends of the last moment are those that were asked for just now.
    past_offsets = pa.concat_tables([source.past_offsets(ids, moments[:-1]), now])
    rows = timeline_arrow(history, past_offsets, _known_moments(past_offsets, moments, every))
    rows = named(rows.drop_columns("topic"), now).select(schemas.TIMELINE.names)
    order = [(name, "ascending") for name in ("group_id", "topic", "topic_id", "partition", "as_of")]
    return Answer(choice.of(rows.sort_by(order)), rejected, chosen)


def trend(
    source: Input,
    every: timedelta,
    engine: str = "auto",
    as_of: Moment = None,
    choice: Choice | None = None,
    by: str | None = None,
    over: timedelta | None = None,
) -> Answer:
    """How unevenly lag was spread over partitions and topics at regular moments, as `sharelag.schemas.IMBALANCE`."""
    table, rejected, chosen = timeline(source, every, engine, as_of, choice, over=over)
    moments = pc.unique(table.column("as_of")).to_pylist()
    lags = {at: table.filter(pc.equal(table.column("as_of"), pa.scalar(at, schemas.TIMESTAMP))) for at in moments}
    return Answer(pa.Table.from_batches([imbalance_trend(lags, by=by)]), rejected, chosen)


def reconcile(
    source: Input,
    engine: str = "auto",
    as_of: Moment = None,
    choice: Choice | None = None,
    described: str | None = None,
    true: bool = False,
) -> Answer:
    """The lag in several ways, and why they differ, as `sharelag.schemas.comparisons.RECONCILED`.

    Parameters
    ----------
    source, engine, as_of, choice
        As for `gather`.
    described : str, optional
        What ``kafka-share-groups.sh --describe --offsets`` printed.
    true : bool
        Read the whole backlog, and count the records in it; of a running cluster, as of now.

    Raises
    ------
    InputError
        When the backlog cannot be read there, or the text is not that of the command.
    """
    choice = choice or Choice()
    if true and (as_of is not None or not isinstance(source, KafkaInput)):
        raise InputError("only the logs of a running cluster can be read, as of now: name it with --bootstrap-server")
    state, rejected, engine = state_of(source, engine, as_of, choice)
    offsets = source.offsets(sorted(pc.unique(state.column("topic_id")).to_pylist()), as_of)
    chosen = choice.of(named(state, offsets)).select(schemas.WINDOWS.names)
    lag = lag_arrow(chosen, offsets)
    scanned = scan(source.config, chosen, offsets) if isinstance(source, KafkaInput) and true else None
    told = None if described is None else described_offsets(described)
    if told is not None and choice.groups:
        told = told.filter(pc.is_in(told.column("group_id"), pa.array(sorted(choice.groups))))
    table = pa.Table.from_batches([reconcile_arrow(lag, told, scanned)])
    return Answer(table, rejected, engine)


def health(source: Input, engine: str = "auto") -> tuple[Answer, pa.Table]:
    """How the state topic does.

    Returns
    -------
    answer, findings
        `sharelag.schemas.HEALTH`, and what should not be so as `sharelag.metrics.placement.FINDINGS`.
    """
    partitions = source.partitions(STATE_TOPIC)
    with reading(source, engine, None, Choice(), with_health=True) as past:
        table = past.health(partitions)
        return Answer(table, past.rejected, past.engine), findings(table, past.windows, partitions)


def _known_moments(past_offsets: pa.Table, moments: Sequence[datetime], every: timedelta) -> list[datetime]:
    """The moments themselves; of an input that noted the ends at others, the last of those before each."""
    noted = np.sort(
        np.array([milliseconds(at) for at in pc.unique(past_offsets.column("as_of")).to_pylist()], np.int64)
    )
    asked = np.array([milliseconds(at) for at in moments], np.int64)
    place = np.searchsorted(noted, asked, side="right") - 1
    near = (place >= 0) & (asked - noted[place] < every / timedelta(milliseconds=1)) if len(noted) else asked < 0
    kept = np.where(near, noted[place] if len(noted) else asked, asked)
    return pa.array(np.unique(kept)).view(schemas.TIMESTAMP).to_pylist()  # type: ignore[no-any-return]


def _earliest(past_offsets: pa.Table) -> pa.Table:
    """Of each topic partition the first known end."""
    known = past_offsets.filter(past_offsets.column("end_offset").is_valid())
    first = known.group_by(["topic_id", "partition"]).aggregate([("end_offset", "min")])
    return first.rename_columns(["topic_id", "partition", "end_offset"])


def _moment(as_of: Moment, lag: pa.Table, past: Past) -> datetime:
    """As of when, if only offsets of the state topic were named, or nothing: then it is when the ends were asked."""
    if isinstance(as_of, datetime):
        return as_of
    asked: datetime | None = None if as_of is not None else pc.max(lag.column("as_of")).as_py()
    return asked or _end(as_of, past)


def _end(as_of: Moment, past: Past) -> datetime:
    return as_of if isinstance(as_of, datetime) else past.last or datetime.now(UTC)


def _span(over: timedelta, now: datetime, past: Past) -> timedelta:
    known = now - past.first if past.first else over
    return max(min(over, known), timedelta(milliseconds=_PARTS))


def _group_records(source: Input, groups: frozenset[str], moment: datetime | None) -> pa.RecordBatch:
    """The share groups' own records until a moment: few, since what is superseded is dropped while reading."""

    def records() -> Iterator[pa.RecordBatch]:
        for batch in source.batches(GROUP_TOPIC):
            decoded = decode_arrow(batch.filter(of_topic(batch, GROUP_TOPIC)), GROUP_TOPIC).records
            yield up_to(of_groups(decoded, groups), moment)

    return latest_group_records(records(), schemas.GROUP_RECORDS)


def _chosen_partitions(groups: pa.Table, choice: Choice) -> pa.Table:
    """Groups without the initialized partitions that nobody asked about: others' balance is not the question."""
    if not choice.topics:
        return groups
    rows = groups.to_pylist()
    for row in rows:
        row["initialized_topics"] = [
            topic | {"partitions": kept}
            for topic in row["initialized_topics"] or []
            if (kept := [p for p in topic["partitions"] if choice.has(topic["topic_name"] or topic["topic_id"], p)])
        ]
    return pa.Table.from_pylist(rows, schema=groups.schema)
