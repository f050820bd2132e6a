"""Dead-letter queues: the ledger of one, and a plan to send its records again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.engine import Ledger, OfQueue
from sharelag.errors import InputError, list_names
from sharelag.inputs import Input
from sharelag.inputs.queues import Queue, queue_of
from sharelag.metrics.dead_letters import REDRIVEN, REJECTED, UNKNOWN, redrive_arrow, summary_words
from sharelag.metrics.imbalance import name_topics
from sharelag.model.settings import each_in_force
from sharelag.model.settings.queues import COPIES, TOPIC
from sharelag.tables import views
from sharelag.tables.words import pluralize
from sharelag.workbench.ask import question
from sharelag.workbench.base import Tables
from sharelag.workbench.next_steps import address_of
from sharelag.workbench.result import Result

_LIMIT, _LOCK = "share.delivery.count.limit", "share.record.lock.duration.ms"
#: Maximum number of runs collected into this process; the DataFrame has all.
MOST_RUNS = 20_000
_PRUNED = (
    "what was archived in records of the state topic that Kafka has pruned: an archive "
    "(capture --follow) keeps them; letters of these are passed or unexpected"
)
#: The gap of an answer with unknown statuses.
NAMELESS = (
    "which letters belong to topics known only by their ids, as letters have names: also give the "
    "records of __consumer_offsets, or give a capture or the running cluster"
)
_GAPS = (
    "a record that is neither in the queue nor at the delivery limit was rejected, or was a gap: "
    "compacted offsets are archived, too, and never sent to a queue, nor are markers unless their "
    "locks expire"
)
_ONCE = (
    "whether missing letters were in the queue before: retention, or a queue that was deleted, "
    "removes them without a trace"
)
_ALIKE = (
    "which letters without key and value belong to markers of transactions: Kafka 4.4 sends these "
    f"when their locks expire; with {COPIES}=true later ones show it"
)
_TO_ALL = (
    "Nothing was sent. Records sent to the topic again reach all its groups; a reset (sharelag "
    "plan-reset) returns them to one."
)
_AS_TEXT = (
    "The console tools read keys and values as text, take a missing key for the text null, and "
    "drop headers: for other records use a program of your own."
)
_BEYOND = (
    "Where offsets without a copy are gaps (markers, compacted records), their command reads as "
    "many records after the run: compare its output with the run before piping it on."
)


def _once(queue: Queue) -> str:
    """Say that missing letters may have expired, and whether some certainly did."""
    begins = {partition: first for partition, (first, _) in queue.ranges.items() if first}
    if not begins:
        return _ONCE
    where = list_names([f"{first} of partition {at}" for at, first in sorted(begins.items())])
    return f"{_ONCE}; {queue.topic} has no records before offset {where} any more"


def _may_have_markers(ledger: pa.Table) -> bool:
    """Return whether letters without a copy may be of markers, which members never reject."""
    bare = pc.and_(pc.greater(ledger.column("letters"), 0), pc.invert(ledger.column("copied")))
    return pc.any(pc.and_(bare, pc.not_equal(ledger.column("reason"), REJECTED))).as_py() is True


@question("windows", "lag", "groups", "settings", "records")
def dead_letters(
    t: Tables, group: str | None = None, queue: Any = None, statuses: tuple[str, ...] = ()
) -> Result:
    """Return archived offsets, and which are in the dead-letter queue (KIP-1191)."""
    given = _of_queue(t, group, queue)
    found = _ledger(t, given, group, queue, statuses)
    table, more = _of_statuses(found.table, statuses), _count_left_out(found, statuses)
    known = set(found.sums.column("status").to_pylist())
    notes = (
        "; ".join(summary_words(found.sums)) or "nothing was archived, and the queue is empty",
        f"not here, but in the DataFrame (to_spark): {pluralize(more, 'run')} of offsets"
        if more
        else "",
        (given.queue.refusal or "") if known & {"missing", "stuck", "archiving"} else "",
    )
    base = t.bench.base_of(t.bench.evidence(group), of_times=False)
    nameless = (NAMELESS,) * (UNKNOWN in known)
    unknown = (
        *nameless,
        _PRUNED,
        *([_GAPS, _once(given.queue)] if "missing" in known else []),
        *([_ALIKE] if _may_have_markers(found.table) else []),
    )
    return base.answer(
        "Where are the records that were given up?",
        table,
        views.LEDGER,
        notes=filter(None, notes),
        unknown=unknown,
        lacks=nameless,
        frame=t.bench.frame_of(lambda read: read.ledger_frame(given), more),
    )


@question("windows", "lag", "groups", "settings", "records")
def redrive(
    t: Tables, group: str | None = None, queue: Any = None, statuses: tuple[str, ...] = ()
) -> Result:
    """Return how archived records could be sent again; nothing is sent."""
    statuses = statuses or REDRIVEN
    found = _ledger(t, _of_queue(t, group, queue), group, queue, statuses)
    ledger, more = found.table, _count_left_out(found, statuses)
    table = redrive_arrow(ledger, statuses, *address_of(t.bench.source))
    shown = {(row["status"], row["from"]) for row in table.to_pylist()}
    may_have_gaps = ("missing", "source") in shown
    may_have_gaps = may_have_gaps or _may_have_markers(_of_statuses(ledger, statuses))
    lost = pc.sum(pc.equal(table.column("from"), "lost")).as_py() or 0
    base = t.bench.base_of(t.bench.evidence(group), of_times=False)
    lacks = (NAMELESS,) * (UNKNOWN in found.sums.column("status").to_pylist())
    if more:
        lacks += (f"{pluralize(more, 'more run')} of offsets: ask for a group or topic",)
    words = f"lost, in neither the topic nor the queue: the records of {pluralize(lost, 'run')}"
    return replace(base, unknown=()).answer(
        "How could dead letters be sent again?",
        table,
        views.REDRIVE,
        notes=(_TO_ALL, _AS_TEXT, *([_BEYOND] * may_have_gaps), *([words] * (lost > 0))),
        unknown=lacks,
        lacks=lacks,
    )


def _count_left_out(found: Ledger, statuses: tuple[str, ...]) -> int:
    """Count the runs, of all or some statuses, beyond the collected ones."""
    every, here = (_of_statuses(one, statuses) for one in (found.sums, found.table))
    return int((pc.sum(every.column("rows")).as_py() or 0) - here.num_rows)


def _of_statuses(ledger: pa.Table, statuses: tuple[str, ...]) -> pa.Table:
    is_one = pc.is_in(ledger.column("status"), pa.array(statuses, pa.string()))
    return ledger.filter(is_one) if statuses else ledger


def _ledger(
    t: Tables, given: OfQueue, group: str | None, queue: Any, statuses: tuple[str, ...]
) -> Ledger:
    # The cached ledger refers to the queue, so that no other object can get its id.
    key = queue if isinstance(queue, str) else id(queue)

    def read(of: tuple[str, ...]) -> Ledger:
        kept = t.bench.keep(
            ("dead letters", group, key, of), lambda: (queue, t.read.ledger(given, MOST_RUNS, of))
        )
        return kept[1]

    found = read(())
    return read(statuses) if statuses and _count_left_out(found, ()) else found


def _of_queue(t: Tables, group: str | None, queue: Any) -> OfQueue:
    """Return the share partitions, of a group or all, and the queue to compare."""
    evidence = t.bench.evidence(group)
    lag = name_topics(evidence.lag, evidence.groups)
    groups = sorted(set(lag.column("group_id").to_pylist()))
    force = each_in_force(evidence.settings, groups)
    limits = {
        "group_id": pa.array(groups, pa.string()),
        "delivery_limit": pa.array([force[one][_LIMIT].value for one in groups], pa.int64()),
        "patience_ms": pa.array([force[one][_LOCK].value for one in groups], pa.int64()),
    }
    nameless = lag.filter(pc.is_null(lag.column("topic"))).column("group_id")
    limits["nameless"] = pc.is_in(limits["group_id"], nameless.combine_chunks())
    groups_of = frozenset(groups if group is not None or t.bench.choice.groups else [])
    where = _queue(t.bench.source, evidence.settings, group, queue)
    return OfQueue(where, lag, pa.table(limits), groups_of)


def _queue(source: Input, settings: pa.Table, group: str | None, queue: Any) -> Queue:
    if queue is not None:
        return queue_of(source, queue)
    mine = settings.filter(pc.equal(settings.column("scope"), "group"))
    if group is not None:
        mine = mine.filter(pc.equal(mine.column("entity"), group))
    values = mine.filter(pc.equal(mine.column("name"), TOPIC)).column("value").to_pylist()
    names = sorted({name for name in values if name})
    if len(names) != 1:
        is_read = mine.column("value").null_count < len(mine)
        found = "none is set" if is_read else "the settings of the group are unknown"
        found = f"groups have several: {list_names(names)}" if names else found
        raise InputError(
            f"which dead-letter queue is not known ({TOPIC}: {found}): give its topic or "
            "its records with --queue (queue=)"
        )
    return replace(queue_of(source, names[0]), of_group=True)
