"""One reading of an input: the same tables by name, on either engine.

The state topic is read once, then the input is queried for everything else, in the order that keeps
lag from being negative: the state before the end offsets. `sharelag.quick` computes the tables in
this process, `sharelag.pipeline` on Spark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.errors import AuthorizationError
from sharelag.metrics.evidence import Evidence
from sharelag.reading.once import Once
from sharelag.replay.moment import Choice, Moment, filter_groups
from sharelag.schemas.arrow import flat, keys, one_batch
from sharelag.wire.fields import STATE_TOPIC
from sharelag.wire.generations import TODAY

if TYPE_CHECKING:
    from sharelag.replay.positions import Positions
    from sharelag.sources.inputs import Input
    from sharelag.sources.queues import Queue

#: How far back rates and histories go by default.
OVER = timedelta(hours=1)
#: From this many records on a compiled scan is worth loading the compiler.
SCAN_FROM_RECORDS = 10_000
#: Number of intervals in that span at which end offsets are fetched.
_PARTS = 10
#: A function of the whole history, or all records, of some share partitions.
Each = Callable[[pa.RecordBatch], schemas.Arrow]
#: Sort order of tables of share partitions.
ORDER = [(name, "ascending") for name in ("group_id", "topic", "topic_id", "partition")]
_SORTED = {
    "windows": ("group_id", "topic_id", "partition"),
    "lag": ("group_id", "topic", "topic_id", "partition"),
    "progress": ("group_id", "topic", "topic_id", "partition"),
    "observed": ("group_id", "topic_id", "partition"),
    "snapshots": ("group_id", "topic_id", "partition", "record_topic", "record_partition"),
    "members": ("group_id", "member_id"),
    "groups": ("group_id",),
    "gaps": ("topic", "partition", "first_offset"),
    "health": ("topic", "partition"),
}


class Counted(NamedTuple):
    """Counts of the records of the state topic."""

    records: int  # of the selected groups, up to the moment
    rejected: int  # could not be decoded
    first: datetime | None  # write time of the first record
    last: datetime | None


class Rows(NamedTuple):
    """A table that may have been cut to a maximum number of rows."""

    table: pa.Table
    total: int  # rows that there are

    @property
    def left_out(self) -> int:
        """The number of rows that are not in the table."""
        return self.total - int(self.table.num_rows)


class Brief(NamedTuple):
    """Lag alone, and what could not be decoded."""

    table: pa.Table  # sharelag.metrics.lag.BRIEF, of the chosen share partitions
    rejected: int


class OfQueue(NamedTuple):
    """A dead-letter queue, and whose records are looked for in it."""

    queue: Queue
    lag: pa.Table  # `sharelag.schemas.LAG` of the share partitions
    limits: pa.Table  # ``group_id delivery_limit patience_ms`` of their groups
    groups: frozenset[str]  # only letters of these; empty: of all, also of unknown ones


class Ledger(NamedTuple):
    """The ledger of a dead-letter queue: some of its rows, and sums of all."""

    table: pa.Table  # `sharelag.schemas.dead_letters.LEDGER`
    sums: pa.Table  # status reason offsets rows


class Reading(ABC):
    """Tables of an input as of one moment, each computed once.

    Parameters
    ----------
    source : Input
    as_of : datetime, mapping of state partition to offset, or None
    choice : Choice, optional
    over : timedelta
        The span before that moment for rates; shorter if the records start later.
    """

    engine: str

    def __init__(
        self,
        source: Input,
        as_of: Moment = None,
        choice: Choice | None = None,
        over: timedelta = OVER,
    ) -> None:
        self.source = source
        self.as_of = as_of
        self.choice = choice or Choice()
        self.over = over
        self.once = Once()

    @property
    def group_records_refused(self) -> AuthorizationError | None:
        """The error of a cluster that does not let us read the groups' records, else None.

        Members and groups are unknown then; everything else is not.
        """
        # Only a cluster refuses anything.
        refused: AuthorizationError | None = getattr(self.source, "group_records_refused", None)
        return refused

    def require_group_records(self) -> None:
        """Raise that error, for answers about members or groups alone.

        Raises
        ------
        AuthorizationError
            The cluster does not let us read the groups' records.
        """
        if self.group_records_refused is not None:
            raise self.group_records_refused

    # ---- tables ----------------------------------------------------------------------------------

    def table(self, name: str) -> pa.Table:
        """Return a table by name, in its schema of `sharelag.schemas`.

        Parameters
        ----------
        name : str
            ``windows lag observed progress snapshots members groups gaps health`` come from the
            records,
            ``offsets past_offsets logs leaders nodes times committed_times settings`` from the
            input, and ``brokers`` from both.
        """
        requested = getattr(self, f"_ask_{name}", None)
        return self.once(
            ("table", name), (lambda: self._sorted(name)) if requested is None else requested
        )

    @property
    def evidence(self) -> Evidence:
        """Return all tables that an investigation needs."""
        return self.once("evidence", self._gather)

    @property
    def brief(self) -> Brief:
        """Return lag and what Kafka computes it from, without windows where that is possible.

        Many records of now are scanned for where share partitions stand. That costs a fraction of
        a replay; the numbers are the same.
        """
        return self.once("brief", self._brief)

    @property
    def lag_evidence(self) -> Evidence:
        """Return evidence of lag alone: everything else is unknown."""
        from sharelag.metrics.lag import with_unknown_terms

        found = self.brief
        return Evidence(
            as_of=pc.max(found.table.column("as_of")).as_py() or datetime.now(UTC),
            lag=with_unknown_terms(found.table),
            rejected=found.rejected,
            engine=self.engine,
            patience=self.source.patience,
            lag_only=True,
        )

    @property
    @abstractmethod
    def counted(self) -> Counted:
        """Return counts of the records."""

    @property
    @abstractmethod
    def has_group_records(self) -> bool:
        """Whether the input has any record of the topic of group records."""

    @abstractmethod
    def rollup(self, by: str) -> pa.Table:
        """Return lag summed by ``"group"`` or ``"topic"``, as `sharelag.schemas.ROLLUP`."""

    @abstractmethod
    def imbalance(self, by: str | None = None) -> pa.Table:
        """Return how unevenly load is spread, as `sharelag.schemas.IMBALANCE`."""

    @abstractmethod
    def skew(self) -> pa.Table:
        """Return where the lag of each group concentrates, as `sharelag.metrics.skew.SKEW`."""

    @abstractmethod
    def diff(self, before: Reading) -> pa.Table:
        """Return what changed since another reading, as `sharelag.schemas.DIFF`."""

    @abstractmethod
    def then(self, as_of: Moment) -> Reading:
        """Return a reading of the same records as of another moment."""

    @abstractmethod
    def whole(self) -> Reading:
        """Return a reading of all groups as of now, with health; this one if it already is that."""

    @abstractmethod
    def reconcile(self, described: pa.Table | None, true: bool) -> pa.Table:
        """Return lag by several definitions, as `sharelag.schemas.comparisons.RECONCILED`."""

    @abstractmethod
    def history(
        self, since: datetime | None = None, most: int | None = None, group: str | None = None
    ) -> Rows:
        """Return the state after each record since a time, as `sharelag.schemas.HISTORY`.

        At most the ``most`` latest rows are returned.
        """

    @abstractmethod
    def history_tables(self, since: datetime | None = None) -> Iterator[pa.Table]:
        """Yield all rows of `history` in order, in pieces."""

    @abstractmethod
    def over_history(self, each: Each, schema: pa.Schema, keys: pa.Table | None = None) -> pa.Table:
        """Apply a function to the whole history of share partitions, some of them at a time.

        Parameters
        ----------
        each : callable
            From `sharelag.schemas.HISTORY` to a batch or table.
        schema : pyarrow.Schema
            Schema of its result.
        keys : pyarrow.Table, optional
            ``group_id topic_id partition`` of the share partitions; default all.
        """

    @abstractmethod
    def over_records(self, each: Each, schema: pa.Schema, keys: pa.Table) -> pa.Table:
        """Apply a function to all records of share partitions, some of them at a time.

        Parameters
        ----------
        each : callable
            From `sharelag.schemas.RECORDS` to a batch or table.
        schema : pyarrow.Schema
            Schema of its result.
        keys : pyarrow.Table
            ``group_id topic_id partition`` of the share partitions.
        """

    @abstractmethod
    def ledger(self, asked: OfQueue, most: int) -> Ledger:
        """Compare archived offsets of share partitions with the records of a dead-letter queue.

        Parameters
        ----------
        asked : OfQueue
        most : int
            Rows that are returned at most, those first that need attention.
        """

    @abstractmethod
    def windows_at(self, keys: pa.Table, moments: Sequence[int] | int) -> pa.Table:
        """Return the windows of some share partitions at past moments, with all their runs.

        Parameters
        ----------
        keys : pyarrow.Table
            ``group_id topic_id partition`` of the share partitions.
        moments : sequence of int, or int
            Milliseconds, ascending; or a number: that many evenly spaced ones of the times at
            which a record was written.

        Returns
        -------
        pyarrow.Table
            `sharelag.replay.at_moments.WINDOWS_AT`, sorted by moment, group, topic id and
            partition.
        """

    @abstractmethod
    def _compute(self, name: str) -> schemas.Arrow: ...

    @abstractmethod
    def _positions(self) -> Positions | None:
        """Return where share partitions stand; None if their windows must be replayed."""

    def close(self) -> None:
        """Release what is cached outside this process."""

    # ---- when ------------------------------------------------------------------------------------

    @property
    def topic_ids(self) -> list[str]:
        """The topic ids of the share partitions."""
        return sorted(pc.unique(self.table("windows").column("topic_id")).to_pylist())

    @property
    def now(self) -> datetime:
        """The moment; unless it is a time, the time of the end offsets or the last record."""
        if isinstance(self.as_of, datetime):
            return self.as_of
        requested: datetime | None = None
        if self.as_of is None:
            requested = pc.max(self.table("lag").column("as_of")).as_py()
        return requested or self.end

    @property
    def end(self) -> datetime:
        """The moment, without querying the input."""
        return (
            self.as_of
            if isinstance(self.as_of, datetime)
            else self.counted.last or datetime.now(UTC)
        )

    @property
    def span(self) -> timedelta:
        """The span before the moment for rates."""
        first = self.counted.first
        known = self.now - first if first else self.over
        return max(min(self.over, known), timedelta(milliseconds=_PARTS))

    # ---- what the input answers -----------------------------------------------------------------

    def _ask_offsets(self) -> pa.Table:
        # Read the state before the end offsets: in the other order lag could be negative.
        ids = self.topic_ids
        return self.source.offsets(ids, self.as_of)

    def _ask_past_offsets(self) -> pa.Table:
        moments = [self.now - self.span + n * self.span / _PARTS for n in range(_PARTS + 1)]
        return self.source.past_offsets(self.topic_ids, moments)

    def _ask_logs(self) -> pa.Table:
        return self.source.logs(self.topic_ids)

    def _ask_leaders(self) -> pa.Table:
        return self.source.leaders(self.topic_ids, self.as_of)

    def _ask_nodes(self) -> pa.Table:
        return self.source.nodes(self.as_of)

    def _ask_brokers(self) -> pa.Table:
        from sharelag.metrics.brokers import brokers

        leaders = self.table("leaders")
        partitions = self.source.partitions(STATE_TOPIC)
        return brokers(
            self.table("lag"), self.table("offsets"), leaders, self.table("nodes"), partitions
        )

    def _ask_settings(self) -> pa.Table:
        lag = self.table("lag")
        names = sorted(set(lag.column("group_id").to_pylist()))
        return self.source.settings(names, sorted(set(lag.column("topic").drop_null().to_pylist())))

    def _ask_times(self) -> pa.Table:
        return self._times(False)

    def _ask_committed_times(self) -> pa.Table:
        return self._times(True)

    def _times(self, is_committed: bool) -> pa.Table:
        from sharelag.metrics.forecast import requested_times

        requested = requested_times(self._evidence("lag", "logs", "settings"))[is_committed]
        return (
            self.source.times(requested, is_committed)
            if requested.num_rows
            else schemas.TIMES.empty_table()
        )

    # ---- together --------------------------------------------------------------------------------

    def _brief(self) -> Brief:
        from sharelag.metrics.lag import BRIEF, brief_arrow  # brings pandas along

        can_scan = (
            self.as_of is None
            and self.choice.generation in (None, TODAY)
            and ("table", "windows") not in self.once
            and self.source.size() >= SCAN_FROM_RECORDS
        )
        found = self._positions() if can_scan else None
        if found is None:
            return Brief(self.table("lag").select(BRIEF.names), self.counted.rejected)
        stand = filter_groups(found.table, self.choice.groups)
        # Only now, after the state has been read: the other way round a lag could seem negative.
        ends = self.source.offsets(sorted(set(stand.column("topic_id").to_pylist())))
        lags = pa.Table.from_batches([brief_arrow(stand, ends)])
        return Brief(self.choice.of(lags), found.rejected)

    def _progress(self) -> pa.Table:
        from sharelag.metrics.forecast import progress_of

        of_input = ("past_offsets", "times", "committed_times", "logs", "groups", "settings")
        return progress_of(self._evidence("lag", "observed", *of_input))

    def _evidence(self, *names: str) -> Evidence:
        """Return evidence with some tables; the others are empty."""
        fields = {"committed_times": "committed"}
        tables = {fields.get(name, name): self.table(name) for name in names}
        return Evidence(
            as_of=self.now,
            engine=self.engine,
            patience=self.source.patience,
            **{"lag": schemas.LAG.empty_table(), **tables},
        )

    def _gather(self) -> Evidence:
        names = (
            "windows",
            "lag",
            "observed",
            "past_offsets",
            "logs",
            "brokers",
            "members",
            "groups",
            "settings",
        )
        whole = self._evidence(*names, "times", "committed_times", "progress", "gaps")
        return replace(whole, rejected=self.counted.rejected)

    def _sorted(self, name: str) -> pa.Table:
        # What progress is made of is in this process already, whatever the engine.
        rows = self._progress() if name == "progress" else self._compute(name)
        table = pa.Table.from_batches([one_batch(rows)])
        by = [column for column in _SORTED.get(name, ()) if column in table.schema.names]
        return table.sort_by([(column, "ascending") for column in by])


def named(table: pa.Table, offsets: pa.Table) -> pa.Table:
    """Add the topic's name to its id, null where it is unknown."""
    position = pc.index_in(table.column("topic_id"), flat(offsets.column("topic_id")))
    return table.append_column("topic", flat(offsets.column("topic")).take(position))


def rows_of(rows: schemas.Arrow, wanted: pa.Table) -> schemas.Arrow:
    """Return the rows of some share partitions."""
    names = ("group_id", "topic_id", "partition")
    return rows.filter(pc.is_in(keys(rows, names), keys(wanted, names)))


def chosen_partitions(groups: pa.Table, choice: Choice) -> pa.Table:
    """Return groups without the initialized partitions that are not selected."""
    if not choice.topics:
        return groups
    rows = groups.to_pylist()
    for row in rows:
        row["initialized_topics"] = [
            topic | {"partitions": kept}
            for topic in row["initialized_topics"] or []
            if (
                kept := [
                    p
                    for p in topic["partitions"]
                    if choice.has(topic["topic_name"] or topic["topic_id"], p)
                ]
            )
        ]
    return pa.Table.from_pylist(rows, schema=groups.schema)


def earliest(past_offsets: pa.Table) -> pa.Table:
    """Return the first known end of each topic partition."""
    known = past_offsets.filter(past_offsets.column("end_offset").is_valid())
    first = known.group_by(["topic_id", "partition"]).aggregate([("end_offset", "min")])
    return first.rename_columns(["topic_id", "partition", "end_offset"])
