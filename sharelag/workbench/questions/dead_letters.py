"""Dead-letter queues: the ledger of one, and a plan to send its records again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import InputError, listed
from sharelag.metrics.dead_letter_ledger import REJECTED, UNKNOWN, summary_words
from sharelag.metrics.loads import name_topics
from sharelag.metrics.redrive import REDRIVEN, redrive_arrow
from sharelag.model.settings import each_in_force
from sharelag.model.settings.queues import COPIES, TOPIC
from sharelag.reading import Ledger, OfQueue
from sharelag.sources.queues import Queue, queue_of
from sharelag.tables import views
from sharelag.workbench.opened import Opened
from sharelag.workbench.resets import address_of
from sharelag.workbench.result import Result

_LIMIT, _LOCK = "share.delivery.count.limit", "share.record.lock.duration.ms"
#: Runs of offsets that are brought into this process; the DataFrame has all.
MOST_RUNS = 20_000
_PRUNED = (
    "what was archived in records of the state topic that Kafka has pruned: an archive "
    "(capture --follow) keeps them; letters of these are passed or unexpected"
)
#: What an answer lacks where statuses are unknown.
NAMELESS = (
    "which letters belong to topics of which only the ids are known, as letters have names: give "
    "the records of __consumer_offsets, too, a capture, or the running cluster"
)
_GAPS = (
    "a record that is neither in the queue nor at the delivery limit was rejected, or was a gap: "
    "compacted offsets are archived, too, and never sent to a queue, nor are markers unless their "
    "locks expire"
)
_ONCE = (
    "whether missing letters were in the queue before: retention, or a queue that was deleted, "
    "takes them away, and nothing tells"
)
_ALIKE = (
    "which letters without key and value belong to markers of transactions: Kafka 4.4 sends these "
    f"when their locks expire; with {COPIES}=true later ones show it"
)
_TO_ALL = (
    "Nothing was sent. What is sent to the topic again comes to all its groups; a reset "
    "(sharelag plan-reset) brings it back to one."
)
_AS_TEXT = (
    "The console tools read keys and values as text, take a missing key for the text null, and "
    "drop headers: for other records use a program of your own."
)
_BEYOND = (
    "Where offsets without a copy are gaps (markers, compacted records), their command reads as "
    "many records after the run: compare its output with the run before it is piped on."
)


def _once(queue: Queue) -> str:
    """Say that missing letters may have been there, and where it is sure that some are gone."""
    begins = {partition: first for partition, (first, _) in queue.ranges.items() if first}
    if not begins:
        return _ONCE
    where = listed([f"{first} of partition {number}" for number, first in sorted(begins.items())])
    return f"{_ONCE}; {queue.topic} has no records before offset {where} any more"


def _may_have_markers(ledger: pa.Table) -> bool:
    """Whether there are letters without a copy that may be of markers, which nobody rejects."""
    bare = pc.and_(pc.greater(ledger.column("letters"), 0), pc.invert(ledger.column("copied")))
    return pc.any(pc.and_(bare, pc.not_equal(ledger.column("reason"), REJECTED))).as_py() is True


class WithQueues(Opened):
    """Questions about dead-letter queues."""

    def dead_letters(self, group: str | None = None, queue: Any = None) -> Result:
        """What was archived, and what of it is in the dead-letter queue (KIP-1191).

        Parameters
        ----------
        group : str, optional
            Else all groups; letters of other groups in the same queue are left out.
        queue : str, pathlib.Path, DataFrame of Spark, pandas or polars, or Arrow table, optional
            The topic that is the queue, Parquet files, or records with Spark's columns of Kafka
            and ``headers``; else the topic that the group's setting names. No payload is shown.

        Returns
        -------
        Result
            `sharelag.schemas.dead_letters.LEDGER`, those rows first that need attention;
            ``to_spark()`` has all.

        Raises
        ------
        InputError
            The group is not known, it has no queue, or the queue cannot be read.
        """
        evidence = self.evidence(group)
        asked = self._of_queue(group, queue)
        found = self._ledger(asked, group, queue)
        table, total = found.table, pc.sum(found.sums.column("rows")).as_py() or 0
        more = total - table.num_rows
        notes = [
            "; ".join(summary_words(found.sums)) or "nothing was archived, and the queue is empty",
            f"{more:,} more runs of offsets are in the DataFrame (to_spark)" if more else "",
        ]
        base = self._base()
        statuses = set(found.sums.column("status").to_pylist())
        is_missing = "missing" in statuses
        if statuses & {"missing", "stuck", "archiving"}:
            notes.append(asked.queue.refusal or "")
        unknown = (
            *([NAMELESS] if UNKNOWN in statuses else []),
            _PRUNED,
            *([_GAPS, _once(asked.queue)] if is_missing else []),
            *([_ALIKE] if _may_have_markers(table) else []),
        )
        return replace(
            base,
            title="Where are the records that were given up?",
            table=table,
            columns=views.LEDGER.columns,
            as_of=evidence.as_of,
            notes=(*base.notes, *(note for note in notes if note)),
            unknown=(*unknown, *base.unknown),
            means=views.LEDGER.means,
            frame=self._frame(lambda read: read.ledger_frame(asked), more),
        )

    def redrive(
        self,
        group: str | None = None,
        queue: Any = None,
        statuses: tuple[str, ...] = REDRIVEN,
    ) -> Result:
        """How records that were given up could be sent again; nothing is sent.

        Parameters
        ----------
        group, queue
            As for `dead_letters`.
        statuses : tuple of str
            Of its column ``status``.

        Raises
        ------
        InputError
            As for `dead_letters`, or a status does not exist.
        """
        evidence = self.evidence(group)
        ledger = self._ledger(self._of_queue(group, queue), group, queue).table
        table = redrive_arrow(ledger, statuses, *address_of(self.source))
        planned = ledger.filter(pc.is_in(ledger.column("status"), pa.array(statuses, pa.string())))
        counted = {(row["status"], row["from"]) for row in table.to_pylist()}
        may_have_gaps = ("missing", "source") in counted or _may_have_markers(planned)
        lost = pc.sum(pc.equal(table.column("from"), "lost")).as_py() or 0
        note = f"{lost:,} runs are lost: neither the topic nor the queue has the records"
        base = self._base()
        return replace(
            base,
            title="How could dead letters be sent again?",
            table=table,
            columns=views.REDRIVE.columns,
            as_of=evidence.as_of,
            notes=(
                *base.notes,
                *(_TO_ALL, _AS_TEXT),
                *([_BEYOND] if may_have_gaps else []),
                *([note] if lost else []),
            ),
            unknown=(NAMELESS,) * (UNKNOWN in ledger.column("status").to_pylist()),
            means=views.REDRIVE.means,
        )

    def _ledger(self, asked: OfQueue, group: str | None, queue: Any) -> Ledger:
        key = queue if isinstance(queue, str) else id(queue)
        return self._ask(
            ("dead letters", group, key), lambda: self.reading.ledger(asked, MOST_RUNS)
        )

    def _of_queue(self, group: str | None, queue: Any) -> OfQueue:
        """Return what is compared: share partitions of a group or all, and the queue."""
        evidence = self.evidence(group)
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
        groups_of = frozenset(groups if group is not None or self.choice.groups else [])
        return OfQueue(self._queue(group, queue), lag, pa.table(limits), groups_of)

    def _queue(self, group: str | None, queue: Any) -> Queue:
        if queue is not None:
            return queue_of(self.source, queue)
        settings = self.evidence(group).settings
        mine = settings.filter(pc.equal(settings.column("name"), TOPIC))
        if group is not None:
            mine = mine.filter(pc.equal(mine.column("entity"), group))
        names = sorted({name for name in mine.column("value").to_pylist() if name})
        if len(names) != 1:
            found = f"groups have several: {', '.join(names)}" if names else "none is set"
            raise InputError(
                f"which dead-letter queue is not known ({TOPIC}: {found}): give its topic or "
                "its records with --queue (queue=)"
            )
        return replace(queue_of(self.source, names[0]), of_group=True)
