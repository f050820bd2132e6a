"""Windows of share partitions, and their lag: single, summed, and by several definitions."""

from __future__ import annotations

from numbers import Integral

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.engine import ORDER, add_topic_names
from sharelag.errors import InputError, unknown_topic
from sharelag.tables import gaps, views
from sharelag.tables.words import pluralize
from sharelag.workbench.ask import LagExtras, question
from sharelag.workbench.base import Tables, count_share_partitions, delivery_limit, only
from sharelag.workbench.result import Result, chart


@question("windows", "offsets", "lag", stands_alone=True, sums_with="by")
def lag(t: Tables, group: str | None = None, by: str | None = None, brief: bool = False) -> Result:
    """Return the lag of share partitions: with all terms, summed, or with Kafka's own terms."""
    base = t.bench.base(t.read)
    each = only(t.read.brief if brief else t.read.table("lag"), group)
    extra = LagExtras(each) if brief or by else t.bench.beside(t.read, each)
    table, view = extra.table, views.BRIEF if brief else views.lag(t.bench.metrics is not None)
    if by is not None:
        table = only(t.read.rollup(by), group)
        view = views.ROLLUP.without("topic") if by == "group" else views.ROLLUP
    elif (
        "notes" not in table.column_names
        or not pc.any(pc.greater(pc.list_value_length(table.column("notes")), 0)).as_py()
    ):
        view = view.without("notes")
    charts = {
        "decomposition": chart("decomposition", each, by or "partition"),
        "spans": chart("window_span", each, lambda: t.read.table("settings")),
        "lorenz": chart("lorenz", each),
    }
    hidden = gaps.of_hidden(each) if hasattr(t.bench.source, "config") else ()
    return base.answer(
        f"Lag of {pluralize(len(each), 'share partition')}{f' by {by}' if by else ''}",
        table,
        view,
        "lag",
        charts={} if brief else charts,
        notes=(*extra.notes, *t.bench.of_past_ends(each)),
        unknown=(*gaps.of_lag(each), *hidden, *extra.unknown, *extra.lacks),
        lacks=extra.lacks,
    )


@question("windows", "offsets", "lag")
def reconcile(t: Tables, described: str | None = None, true: bool = False) -> Result:
    """Return the lag by several definitions, and why they differ."""
    if true and (t.bench.as_of is not None or not hasattr(t.bench.source, "config")):
        raise InputError(
            "true lag is counted in the logs of a running cluster as of now: give "
            "--bootstrap-server and no --as-of"
        )
    from sharelag.inputs.kafka.described import parse_offsets
    from sharelag.metrics.reconcile import NO_LAG, REASONS

    printed = None if described is None else parse_offsets(described)
    if printed is not None and t.bench.choice.groups:
        chosen = pa.array(sorted(t.bench.choice.groups))
        printed = printed.filter(pc.is_in(printed.column("group_id"), chosen))
    base, table = t.bench.base(t.read), t.read.reconcile(printed, true)
    unknown = gaps.of_column(table, "lag", "the lag")
    if printed is not None:
        unknown += gaps.of_column(printed, "lag", "Kafka's lag", [REASONS[NO_LAG]])
    return base.answer(
        "The same lag, measured in several ways",
        table,
        views.choose_reconciled(described is not None, true),
        "lag",
        as_of=pc.max(table.column("as_of")).as_py(),
        notes=t.bench.of_past_ends(table),
        unknown=unknown,
    )


#: Default maximum number of moments.
MOST_MOMENTS = 240
#: Maximum number of windows of the past collected into this process.
MOST_WINDOWS = 100_000


@question("windows", "offsets", "lag", stands_alone=True)
def windows(t: Tables, group: str | None = None, held: bool = False) -> Result:
    """Return the window of every share partition."""
    lag = only(t.read.table("lag"), group)
    named = add_topic_names(only(t.read.table("windows"), group), t.read.table("offsets"))
    table = t.bench.choice.of(named).sort_by(ORDER)
    extra = t.bench.held_beside(t.read, lag, table, held)
    return _windows_answer(t, group, extra)


@question("windows", "offsets", "lag", "records", of_deleted=True)
def moments(t: Tables, group: str, topic: str | None = None, most: int = MOST_MOMENTS) -> Result:
    """Return the windows of a group after each of its records."""
    ever = only(t.read.ever, group)
    if topic is not None:
        topics = ever.column("topic").to_pylist()
        if topic not in topics:
            raise InputError(unknown_topic(topic, topics, group))
        ever = ever.filter(pc.equal(ever.column("topic"), topic))
    if not isinstance(most, Integral) or most < 1:
        raise InputError(f"cannot show {most!r} moments: give a whole number above 0")
    most = max(min(int(most), MOST_WINDOWS // max(ever.num_rows, 1)), 1)
    table = add_topic_names(t.read.windows_at(ever, most), ever)
    return _windows_answer(t, group, LagExtras(table))


def _windows_answer(t: Tables, group: str | None, extra: LagExtras) -> Result:
    def limit() -> int | None:  # deferred, as only charts need settings
        return None if group is None else delivery_limit(t.read.table("settings"), group)

    table = extra.table
    without = int(pc.sum(pc.invert(table.column("from_snapshot").fill_null(False))).as_py() or 0)
    drawn = {
        "deliveries": chart("delivery_count", table, limit=limit),
        "states": chart("window_state", table, limit=limit),
    }
    if len(table) != 1:
        drawn.pop("states")  # the chart shows one share partition
    unknown = gaps.of_rows(
        without, len(table), "the whole state", ["no snapshot is among the records"]
    )
    return t.bench.base(t.read).answer(
        f"Windows of {pluralize(count_share_partitions(table), 'share partition')}",
        table,
        views.windows_with("notes" in table.column_names),
        "window_end_offset",
        charts=drawn,
        notes=extra.notes,
        unknown=(*unknown, *extra.lacks),
        lacks=extra.lacks,
    )
