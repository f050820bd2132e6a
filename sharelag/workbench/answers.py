"""Answers: one function a question, from evidence to a `Result` with table, charts and gaps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.durations import duration
from sharelag.metrics.drift import drift_arrow
from sharelag.metrics.evidence import Evidence
from sharelag.metrics.explain import explain
from sharelag.metrics.in_flight import with_measured
from sharelag.metrics.lag import ROLLUP_KEYS
from sharelag.metrics.placement import Partitions
from sharelag.metrics.setting_commands import kafkas_settings_commands
from sharelag.metrics.settings_in_force import settings_in_force
from sharelag.metrics.skew import verdict_words
from sharelag.model import iso
from sharelag.model.settings import in_force
from sharelag.reading import Rows
from sharelag.schemas import SHARE_PARTITION
from sharelag.schemas.arrow import as_table, beside, keys, rows_by_group
from sharelag.tables import gaps, views
from sharelag.tables.words import moment
from sharelag.workbench import charts
from sharelag.workbench.charts import text
from sharelag.workbench.engine import Answer
from sharelag.workbench.explained import summarize_groups
from sharelag.workbench.judged import headline, judged_groups
from sharelag.workbench.membership import unknown_brokers, unknown_states
from sharelag.workbench.result import Draw, Result

_LIMIT = "share.delivery.count.limit"
#: Members that notes name one by one.
_MOST_NOTES = 10
#: Of a share partition, without its group.
_OF_TOPIC = ("topic_id", "partition")


def only(table: pa.Table | None, group: str | None) -> Any:
    """The rows of one group, or all; None stays as it is."""
    return (
        table
        if group is None or table is None
        else table.filter(pc.equal(table.column("group_id"), group))
    )


def of_group(evidence: Evidence, group: str | None) -> Evidence:
    """What was gathered of one group, or all."""
    names = (
        *("lag", "windows", "observed", "progress", "members", "groups", "holders", "brokers"),
        "measured",
    )
    return replace(evidence, **{name: only(getattr(evidence, name), group) for name in names})


def worst_first(table: pa.Table, evidence: Evidence, group: str) -> pa.Table:
    """Return rows of a group with the share partitions first that its causes name, then by lag.

    Parameters
    ----------
    table : pyarrow.Table
        With `SHARE_PARTITION`; the order of the rows of a share partition stays.
    evidence : Evidence
    group : str
    """
    mine = of_group(evidence, group)
    named: dict[tuple[Any, Any], int] = {}
    for number, row in enumerate(explain(mine).to_pylist()):
        named.setdefault((row["topic_id"], row["partition"]), number)  # None: several partitions
    places = zip(*(mine.lag.column(name).to_pylist() for name in _OF_TOPIC), strict=True)
    ranks = [
        min(named.get(place, len(named)), named.get((place[0], None), len(named)))
        for place in places
    ]
    first = mine.lag.append_column("_rank", pa.array(ranks, pa.int64()))
    first = first.sort_by([("_rank", "ascending"), ("lag", "descending")])
    return first_come(table, first)


def first_come(table: pa.Table, first: pa.Table) -> pa.Table:
    """Return a table with some share partitions before the rest, in the order of another table."""
    place = pc.index_in(keys(table, SHARE_PARTITION), keys(first, SHARE_PARTITION))
    ordered = table.append_column("_place", place).sort_by([("_place", "ascending")])
    return ordered.drop_columns("_place")


def delivery_limit(evidence: Evidence, group: str) -> int | None:
    """How often a record of a group may be delivered, as far as it is known."""
    if not evidence.settings.num_rows:
        return None
    limit = in_force(evidence.settings, group)[_LIMIT].value
    return limit if isinstance(limit, int) else None


def lag(evidence: Evidence, by: str | None, base: Result, sums: pa.Table | None = None) -> Result:
    """The lag of share partitions with its age, or its sums, which are given then."""
    table = evidence.lag
    age = beside(keys(table, SHARE_PARTITION), evidence.progress, SHARE_PARTITION).column("age_ms")
    aged = with_measured(table.append_column("age_ms", age), evidence.measured)
    drawn: dict[str, Any] = {
        "decomposition": _chart(
            charts.decomposition_figure, charts.decomposition_records, table, by or "partition"
        ),
        "spans": _chart(
            charts.window_span_figure, charts.window_span_records, table, evidence.settings
        ),
        "lorenz": _chart(charts.lorenz_figure, charts.lorenz_records, table),
    }
    title = f"Lag of {len(table):,} share partition{'s' * (len(table) != 1)}"
    view = views.lag(evidence.measured.num_rows > 0)
    if by and sums is not None:
        title += f" by {by}"
        aged = _with_oldest(sums, aged, by)
        view = views.ROLLUP
    view = view.after("lag", "age_ms")
    if by == "group":
        view = view.without("topic")
    if not pc.any(pc.greater(pc.list_value_length(table.column("notes")), 0)).as_py():
        view = view.without("notes")
    unknown = (*gaps.of_lag(table), *gaps.of_column(evidence.progress, "age_ms", "the age"))
    return replace(
        base,
        title=title,
        table=aged,
        columns=view.columns,
        order="lag",
        charts=drawn,
        unknown=unknown + base.unknown,
    )


def _chart(figure: Callable[..., Any], records: Callable[..., Any], *about: Any) -> Draw:
    """What draws a chart of some tables in a theme; nothing is drawn yet."""
    return lambda theme: figure(records(*about), theme)


def _with_oldest(sums: pa.Table, aged: pa.Table, by: str) -> pa.Table:
    """The sums with the age of the oldest record in each; null where one of the ages is null."""
    names = ROLLUP_KEYS[by]
    oldest = aged.group_by(names).aggregate(
        [("age_ms", "max", pc.ScalarAggregateOptions(skip_nulls=False))]
    )
    age = beside(keys(sums, names), oldest.rename_columns([*names, "age_ms"]), names).column(
        "age_ms"
    )
    return sums.append_column("age_ms", age)


def windows(table: pa.Table, base: Result, limit: int | None = None) -> Result:
    """What the coordinator holds of each share partition."""
    without = int(pc.sum(pc.invert(table.column("from_snapshot").fill_null(False))).as_py() or 0)
    drawn = {
        "deliveries": lambda theme: charts.delivery_count_figure(
            charts.delivery_count_records(table), theme, limit
        ),
        "states": lambda theme: charts.window_state_figure(
            charts.window_state_records(table), theme, limit
        ),
    }
    if len(table) != 1:
        drawn.pop("states")  # a chart of one share partition
    unknown = gaps.of_rows(
        without, len(table), "the whole state", ["no snapshot is among the records"]
    )
    return replace(
        base,
        title=f"Windows of {len(table):,} share partition{'s' * (len(table) != 1)}",
        table=table,
        columns=views.windows_with("notes" in table.column_names),
        order="window_end_offset",
        charts=drawn,
        unknown=unknown + base.unknown,
    )


def history(rows: Rows, group: str | None, base: Result) -> Result:
    """What happened, record by record."""
    table = only(rows.table, group)
    lost = int(pc.sum(pc.invert(table.column("follows").fill_null(True))).as_py() or 0)
    unknown = (
        [f"what changed before {lost:,} of {len(table):,} rows: records may be missing there"]
        if lost
        else []
    )
    notes = []
    if rows.left_out:
        first = pc.min(rows.table.column("record_timestamp")).as_py()
        notes.append(
            f"the latest {len(rows.table):,} of {rows.total:,} rows, from {moment(first)} on; "
            "to_spark() has all"
        )
    return replace(
        base,
        title=f"History of {_count(table):,} share partitions, record by record",
        table=table,
        columns=views.HISTORY.columns,
        means=views.HISTORY.means,
        as_of=pc.max(table.column("record_timestamp")).as_py(),
        order="record_timestamp",
        charts={
            measure: partial(_heat, table, measure)
            for measure in ("span", "available", "complete", "deliveries")
        },
        notes=tuple(notes),
        unknown=(*unknown, *base.unknown),
    )


def _count(table: pa.Table) -> int:
    """How many share partitions a table has rows of."""
    return len(pc.unique(keys(table, SHARE_PARTITION)))


def _heat(table: pa.Table, measure: str, theme: charts.Theme) -> Any:
    return charts.window_heat_figure(charts.window_heat_records(table, measure), theme)


def timeline(answer: Answer, every: timedelta, group: str | None, base: Result) -> Result:
    """The lag at regular moments."""
    table = only(answer.table, group)
    notes = []
    if answer.left_out:
        notes.append(
            f"the {_count(table):,} share partitions with the most lag; to_spark() has all"
        )
    return replace(
        base,
        notes=tuple(notes),
        title=f"Lag every {duration(every / timedelta(milliseconds=1))}",
        table=table,
        columns=views.TIMELINE.columns,
        as_of=pc.max(table.column("as_of")).as_py(),
        order="as_of",
        charts={
            "lag": _chart(charts.lag_over_time_figure, charts.lag_over_time_records, table),
            "rates": _chart(charts.rates_over_time_figure, charts.rates_over_time_records, table),
        },
        unknown=gaps.of_ends(table) + gaps.of_rejected(answer.rejected, answer.generation),
        engine=answer.engine,
    )


def events(answer: Answer, every: timedelta, group: str | None, base: Result) -> Result:
    """What happened to share partitions and groups."""
    step = duration(every / timedelta(milliseconds=1))
    return replace(
        base,
        title="What happened",
        table=only(answer.table, group),
        columns=views.EVENTS.columns,
        order="happened_at",
        notes=(f"events of one kind within {step} are one row",),
        unknown=(
            (
                "when members that are gone by now joined, and those that left so long ago that "
                "Kafka has dropped the record of it"
            ),
            *gaps.of_rejected(answer.rejected, answer.generation),
        ),
        engine=answer.engine,
    )


def overview(evidence: Evidence, patience: timedelta | None, base: Result) -> Result:
    """How each group is, the worst first."""
    groups = judged_groups(evidence, patience)
    progress = rows_by_group(evidence.progress, ["group_id", "arrival_rate", "completion_rate"])
    members = {row["group_id"]: row["members"] for row in evidence.groups.to_pylist()}
    rows = [
        group
        | {
            "arrival_rate": _sum_of(progress[group["group_id"]], "arrival_rate"),
            "completion_rate": _sum_of(progress[group["group_id"]], "completion_rate"),
            "gone": group["drain"],
            "members": members.get(group["group_id"]),
            "cause": group["causes"][0]["cause"] if group["causes"] else None,
        }
        for group in groups
    ]
    names = schemas.OVERVIEW.names
    return replace(
        base,
        title=headline(groups, []),
        table=pa.Table.from_pylist(
            [{name: row[name] for name in names} for row in rows], schemas.OVERVIEW
        ),
        columns=views.OVERVIEW.columns,
        means=views.OVERVIEW.means,
    )


def _sum_of(rows: list[dict[str, Any]], name: str) -> float | None:
    """A sum, and None where one of its parts is unknown."""
    values = [row[name] for row in rows]
    return None if None in values or not values else float(sum(values))


def explained(evidence: Evidence, patience: timedelta | None, base: Result) -> Result:
    """Why the groups lag."""
    causes = as_table(explain(evidence, patience))
    return replace(
        base,
        title="Why is there lag?",
        table=causes,
        columns=views.CAUSES.columns,
        summaries=tuple(summarize_groups(evidence, causes, patience)),
        charts={
            "causes": lambda theme: charts.cause_figure(
                charts.cause_records(causes, evidence.as_of), theme, as_of=evidence.as_of
            )
        },
    )


def progress(evidence: Evidence, base: Result) -> Result:
    """Age, rates, and when the lag will be gone."""
    table = with_measured(evidence.progress, evidence.measured)
    spans = table.column("observed_ms")
    over = pc.max(spans).as_py()
    notes = (f"rates are over the {duration(over)} before that moment",) if over else ()
    breaks = pc.sum(pc.greater(table.column("breaks"), 0)).as_py() or 0
    unknown = (
        *gaps.of_column(table, "age_ms", "the age"),
        *gaps.of_column(table, "arrival_rate", "how fast records arrive"),
        *gaps.of_column(table, "completion_rate", "how fast they are finished"),
        *gaps.of_rows(
            breaks, len(table), "all changes", ["records are missing: the rates are lower bounds"]
        ),
    )
    return replace(
        base,
        title="Age, rates and forecast",
        table=table,
        columns=views.progress(evidence.measured.num_rows > 0).columns,
        order="age_ms",
        charts={
            "drain": _chart(charts.drain_figure, charts.drain_records, table),
            "rates": _chart(charts.rates_figure, charts.rates_records, table),
        },
        notes=notes,
        unknown=unknown + base.unknown,
    )


def imbalance(
    evidence: Evidence, table: pa.Table, skew: pa.Table, base: Result, by: str | None = None
) -> Result:
    """How unevenly load is spread, and where the lag is concentrated."""
    verdicts = skew.to_pylist()
    return replace(
        base,
        title="How is the load spread?",
        table=table,
        columns=views.IMBALANCE.columns,
        means=views.IMBALANCE.means,
        order="gini",
        notes=tuple(f"{row['group_id']}: {verdict_words(row)}" for row in verdicts),
        charts=_spread(evidence),
        unknown=(unknown_brokers(evidence.brokers) if by == "broker" else ())
        + (("members of the groups",) if not evidence.groups.num_rows else ())
        + base.unknown,
    )


def _spread(evidence: Evidence) -> dict[str, Any]:
    """Charts of how lag and partitions are spread."""
    drawn: dict[str, Any] = {
        "lorenz": _chart(charts.lorenz_figure, charts.lorenz_records, evidence.lag),
        "assigned": _chart(
            charts.assigned_figure, charts.assigned_records, evidence.members, evidence.lag
        ),
    }
    if len(pc.unique(evidence.lag.column("group_id"))) != 1:
        drawn.pop("assigned")  # a chart of one group
    return drawn


def designs(evidence: Evidence, costs: pa.Table, base: Result) -> Result:
    """What a history would cost in each design of share state, by group."""
    ends = beside(keys(costs, SHARE_PARTITION), evidence.lag, SHARE_PARTITION).column("end_offset")
    behind = pc.subtract(ends, costs.column("scanned_from"))
    is_there = pc.greater(costs.column("user_topic_records"), 0)
    scanned = pc.if_else(is_there, pc.max_element_wise(behind, 0, skip_nulls=False), 0)
    size = pc.add(costs.column("key_bytes"), costs.column("value_bytes"))
    table = costs.append_column("scanned_offsets", scanned).append_column("bytes", size)
    names = views.DESIGNS.names[2:]
    whole = pc.ScalarAggregateOptions(skip_nulls=False)
    sums = table.group_by(["group_id", "design"]).aggregate(
        [(name, "sum", whole) for name in names]
    )
    sums = sums.rename_columns([name.removesuffix("_sum") for name in sums.schema.names])
    return replace(
        base,
        title="What would this history cost in other designs?",
        table=sums.select(views.DESIGNS.names).sort_by(
            [("group_id", "ascending"), ("design", "ascending")]
        ),
        columns=views.DESIGNS.columns,
        means=views.DESIGNS.means,
        notes=(
            "Nobody writes G0 to G2, and Kafka 4.0 wrote G3; today's records are G4.",
            "Leaders of G0 and G1 look for their records among the user's: SCANNED is the most.",
        ),
    )


def members(table: pa.Table, evidence: Evidence, base: Result) -> Result:
    """Who is in the groups, and what each has to fetch."""
    return replace(
        base,
        title=f"{len(table):,} member{'s' * (len(table) != 1)}",
        table=table,
        columns=views.MEMBERS.columns,
        order="assigned",
        charts=_spread(evidence) if len(table) else {},
        notes=tuple(_drifting(evidence)),
        unknown=(("members of the groups",) if not evidence.groups.num_rows else ()) + base.unknown,
    )


def group_states(table: pa.Table, base: Result, is_past: bool = False) -> Result:
    """Every group with its state, epochs and lag."""
    return replace(
        base,
        title=f"{len(table):,} group{'s' * (len(table) != 1)}",
        table=table,
        columns=views.GROUP_STATES.columns,
        order="lag",
        unknown=unknown_states(table, is_past) + base.unknown,
    )


def brokers(table: pa.Table, base: Result) -> Result:
    """The brokers around each share partition."""
    count = len(table)
    return replace(
        base,
        title=f"Brokers of {count:,} share partition{'s' * (count != 1)}",
        table=table,
        columns=views.BROKERS.columns,
        order="lag",
        charts={
            "load": _chart(charts.broker_load_figure, charts.broker_load_records, table),
        },
        unknown=unknown_brokers(table) + base.unknown,
    )


def _drifting(evidence: Evidence) -> Iterator[str]:
    """Who does not have the partitions that the assignor chose for it."""
    rows = drift_arrow(evidence.members, evidence.groups).to_pylist()
    for row in rows[:_MOST_NOTES]:
        of, since = row["assignment_epoch"], row["since"]
        yield (
            f"{row['group_id']}: {row['member_id']} is not at its target assignment: epoch "
            f"{row['member_epoch']}{'' if of is None else f' of {of}'}, topic partitions to come: "
            f"{row['missing']}, to give up: {row['surplus']}"
            + (f", since {iso(since)}" if since else "")
        )
    if (left := len(rows) - _MOST_NOTES) > 0:
        yield f"and {left:,} more members that are not at their target assignment"


def health(
    answer: Answer, findings: pa.Table, base: Result, partitions: Partitions = None
) -> Result:
    """How the state topic does."""
    table = answer.table
    last: datetime | None = pc.max(table.column("last_timestamp")).as_py()
    return replace(
        base,
        title=f"State topic: {len(table):,} partitions",
        table=table,
        columns=views.HEALTH.columns,
        means=views.HEALTH.means,
        as_of=last,
        order="records",
        charts={
            "records": _chart(charts.state_record_figure, charts.state_record_records, table),
            "keys": _chart(charts.state_key_figure, charts.state_key_records, table, partitions),
        },
        notes=tuple(findings.column("summary").to_pylist()),
        unknown=gaps.of_rejected(answer.rejected, answer.generation),
        engine=answer.engine,
    )


def snapshots(answer: Answer, base: Result) -> Result:
    """The last snapshot of each share partition."""
    table = answer.table
    return replace(
        base,
        title=f"Last snapshots: {text.counted(len(table), 'share partition')}",
        table=table,
        columns=views.SNAPSHOTS.columns,
        means=views.SNAPSHOTS.means,
        as_of=pc.max(table.column("record_timestamp")).as_py(),
        order="updates_since",
        unknown=gaps.of_column(table, "snapshot_offset", "the last snapshot")
        + gaps.of_rejected(answer.rejected, answer.generation),
        engine=answer.engine,
    )


def settings(
    known: pa.Table,
    groups: Sequence[str],
    given: Mapping[str, object],
    brokers: int | None,
    address: tuple[str | None, Path | None],
    base: Result,
) -> Result:
    """The settings in force of each group and of the brokers, of `sharelag.schemas.SETTINGS`."""
    values = {name: str(value) for name, value in given.items()}
    described = set(known.column("entity").to_pylist())
    table = settings_in_force(known, groups, values, brokers)
    commands = kafkas_settings_commands(table, values, groups, "4.3.1", *address)
    return replace(
        base,
        title=f"Settings of {text.counted(len(groups), 'share group')} and their brokers",
        table=table,
        notes=tuple(f"Kafka's command: {command}" for command in commands),
        columns=views.SETTINGS.columns,
        order="problem",
        means=views.SETTINGS.means,
        unknown=tuple(gaps.no_settings(group) for group in groups if group not in described),
    )


def drift_of_settings(table: pa.Table, base: Result) -> Result:
    """The settings that are not as they were."""
    return replace(
        base,
        title="Settings that changed",
        table=table,
        columns=views.SETTINGS_DRIFT.columns,
        means=views.SETTINGS_DRIFT.means,
    )


def reconciled(answer: Answer, described: bool, true: bool, base: Result) -> Result:
    """The lag in several ways."""
    table = answer.table
    return replace(
        base,
        title="The same lag, measured in several ways",
        table=table,
        columns=views.reconciled(described, true).columns,
        as_of=pc.max(table.column("as_of")).as_py(),
        order="lag",
        unknown=gaps.of_column(table, "lag", "the lag")
        + gaps.of_rejected(answer.rejected, answer.generation),
        engine=answer.engine,
    )


def diff(table: pa.Table, base: Result) -> Result:
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
