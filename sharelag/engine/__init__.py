"""A reading of an input: the same tables by name on either engine, and answers beyond tables.

The state topic is read once, then the input is queried for everything else, in the order that keeps
lag from being negative: the state before the end offsets. `sharelag.engine.local` computes the
tables in this process, `sharelag.engine.spark` on Spark; `engines` chooses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.errors import AuthorizationError
from sharelag.metrics.columns import names_by_place
from sharelag.metrics.evidence import Evidence
from sharelag.replay.moment import Choice, Moment
from sharelag.tables.arrow import as_table, ascending, flat, keys, one_batch, table_of
from sharelag.tables.gaps import NO_START_OFFSET, are_seconds
from sharelag.wire.fields import STATE_TOPIC

if TYPE_CHECKING:
    from sharelag.inputs import Input
    from sharelag.inputs.kafka.config import ClientConfig
    from sharelag.inputs.queues import Queue


#: A function of the whole history, or all records, of some share partitions.
Each = Callable[[pa.RecordBatch], schemas.Arrow]


class RecordCounts(NamedTuple):
    """Counts of the records of the state topic."""

    records: int  # of the selected groups, up to the moment
    rejected: int  # could not be decoded
    first: datetime | None  # write time of the first record
    last: datetime | None  # write time of the last record
    repeated: int = 0  # repetitions of other records, left out; of all groups


class GroupRecordCounts(NamedTuple):
    """Counts of the groups' own records, and the groups deleted according to them."""

    records: int
    rejected: int  # could not be decoded
    deleted: frozenset[str]


class Rows(NamedTuple):
    """A table that may have been cut to a maximum number of rows."""

    table: pa.Table
    total: int  # number of rows before the cut

    @property
    def left_out(self) -> int:
        """The number of rows that are not in the table."""
        return self.total - int(self.table.num_rows)


class OfQueue(NamedTuple):
    """A dead-letter queue, and the groups whose records are searched in it."""

    queue: Queue
    lag: pa.Table  # `sharelag.schemas.LAG` of the share partitions
    limits: pa.Table  # ``group_id delivery_limit patience_ms nameless`` of their groups
    groups: frozenset[str]  # only letters of these; empty: of all groups, known or not


class Ledger(NamedTuple):
    """The ledger of a dead-letter queue: some of its rows, and sums of all."""

    table: pa.Table  # `sharelag.schemas.LEDGER`
    sums: pa.Table  # status reason offsets rows


_T = TypeVar("_T")


class Once:
    """A thread-safe memo: computes the result of each key once."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}
        self._locks: defaultdict[Hashable, Any] = defaultdict(RLock)  # one lock per key
        self._lock = RLock()

    def __call__(self, question: Hashable, work: Callable[[], _T]) -> _T:
        """Return the stored result, or compute and store it; a failure is not stored."""
        with self._lock:
            requested = self._locks[question]
        with requested:
            if question not in self._known:
                self._known[question] = work()
            answer: _T = self._known[question]
            return answer

    def __contains__(self, question: Hashable) -> bool:
        return question in self._known


#: Default span of rates and histories.
OVER = timedelta(hours=1)
#: Number of intervals in that span at which end offsets are fetched.
_PARTS = 10
_SORTED = {
    "windows": ("group_id", "topic_id", "partition", "record_topic", "record_partition"),
    "deleted": ("group_id", "topic_id", "partition", "record_topic", "record_timestamp"),
    "states": ("group_id", "topic_id", "partition"),
    "lag": ("group_id", "topic", "topic_id", "partition"),
    "progress": ("group_id", "topic", "topic_id", "partition"),
    "observed": ("group_id", "topic_id", "partition"),
    "snapshots": ("group_id", "topic_id", "partition", "record_topic", "record_partition"),
    "members": ("group_id", "member_id"),
    "groups": ("group_id",),
    "gaps": ("topic", "partition", "first_offset"),
    "health": ("topic", "partition"),
}


class Reading(ABC):
    """Tables of an input as of one moment, each computed once, and the questions beside them.

    ``over`` is the span before that moment for rates; shorter if the records start later.
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
        """The error of a cluster that denies access to the groups' records, else None.

        Then only members and groups are unknown.
        """
        # Only a cluster can deny access.
        refused: AuthorizationError | None = getattr(self.source, "group_records_refused", None)
        return refused

    def require_group_records(self) -> None:
        """Raise that error, for answers that only concern members or groups."""
        if self.group_records_refused is not None:
            raise self.group_records_refused

    def table(self, name: str) -> pa.Table:
        """Return a table by name, in its schema of `sharelag.schemas`.

        ``windows states lag observed progress snapshots members groups gaps health`` come from the
        records, ``offsets past_offsets logs leaders nodes times committed_times settings`` from the
        input, and ``brokers`` from both.
        """
        return self.once(
            ("table", name), self._of_input.get(name) or (lambda: self._compute_sorted(name))
        )

    @property
    @abstractmethod
    def record_counts(self) -> RecordCounts:
        """Return counts of the records."""

    @property
    @abstractmethod
    def group_record_counts(self) -> GroupRecordCounts:
        """Return counts of the groups' own records."""

    @property
    @abstractmethod
    def has_group_records(self) -> bool:
        """Whether the input has any group records."""

    @abstractmethod
    def _compute(self, name: str) -> schemas.Arrow: ...

    # ---- when ------------------------------------------------------------------------------------

    @property
    def topic_ids(self) -> list[str]:
        """The topic ids of the share partitions."""
        return self._ids("windows")

    def _ids(self, *names: str) -> list[str]:
        each = (pc.unique(self.table(name).column("topic_id")).to_pylist() for name in names)
        return sorted({one for ids in each for one in ids})

    @property
    def now(self) -> datetime:
        """The moment; unless it is a time, the time of the end offsets or the last record."""
        requested: datetime | None = None
        if self.as_of is None:
            requested = pc.max(self.table("offsets").column("as_of")).as_py()
        return requested or self.end

    @property
    def end(self) -> datetime:
        """The moment, without querying the input."""
        if isinstance(self.as_of, datetime):
            return self.as_of
        return self.record_counts.last or datetime.now(UTC)

    @property
    def span(self) -> timedelta:
        """The span before the moment for rates."""
        first = self.record_counts.first
        known = self.now - first if first else self.over
        return max(min(self.over, known), timedelta(milliseconds=_PARTS))

    # ---- what the input answers ------------------------------------------------------------------

    @property
    def _of_input(self) -> dict[str, Callable[[], pa.Table]]:
        """The tables that come from the input, each with the function that fetches it."""
        source = self.source
        return {
            # The state is read before the end offsets; otherwise lag could be negative.
            # Histories name topics of deleted states, too.
            "offsets": lambda: source.offsets(self._ids("windows", "deleted"), self.as_of),
            "past_offsets": lambda: source.past_offsets(self.topic_ids, self._moments()),
            "logs": lambda: source.logs(self.topic_ids),
            "leaders": lambda: source.leaders(self.topic_ids, self.as_of),
            "nodes": lambda: source.nodes(self.as_of),
            "brokers": lambda: self._brokers(self.table("leaders"), self.table("nodes")),
            "settings": self._settings,
            "times": lambda: self._times(False),
            "committed_times": lambda: self._times(True),
        }

    def _moments(self) -> list[datetime]:
        return [self.now - self.span + n * self.span / _PARTS for n in range(_PARTS + 1)]

    def latest_brokers(self) -> pa.Table:
        """Return ``brokers`` by current metadata: as of the end of the input, not the moment."""
        return self._brokers(self.source.leaders(self.topic_ids), self.source.nodes())

    def _brokers(self, leaders: pa.Table, nodes: pa.Table) -> pa.Table:
        from sharelag.metrics.brokers import brokers

        partitions = self.source.partitions(STATE_TOPIC)
        return brokers(self.table("lag"), self.table("offsets"), leaders, nodes, partitions)

    def _settings(self) -> pa.Table:
        lag = self.table("lag")
        names = sorted(set(lag.column("group_id").to_pylist()))
        return self.source.settings(names, sorted(set(lag.column("topic").drop_null().to_pylist())))

    def _times(self, is_committed: bool) -> pa.Table:
        from sharelag.metrics.progress import request_times

        requested = request_times(self._evidence("lag", "logs", "settings"))[is_committed]
        if not requested.num_rows:
            return schemas.TIMES.empty_table()
        return self.source.times(requested, is_committed)

    # ---- together --------------------------------------------------------------------------------

    def _lag(self) -> pa.Table:
        from sharelag.metrics.lag import lag_arrow

        return self.choice.of(as_table(lag_arrow(self.table("states"), self.table("offsets"))))

    def _choose_states(self) -> pa.Table:
        from sharelag.metrics.lag import choose_states

        return choose_states(self.table("windows"), self.table("deleted"))

    def _progress(self) -> pa.Table:
        from sharelag.metrics.progress import progress_of

        self.read_ahead()
        of_input = ("past_offsets", "times", "committed_times", "logs", "groups", "settings")
        return progress_of(self._evidence("lag", "observed", *of_input))

    def read_ahead(self) -> None:  # one process reads once in any case
        """Read the records once for most answers, if the engine can."""

    def _evidence(self, *names: str) -> Evidence:
        """Return evidence with some tables; the others are empty."""
        fields = {"committed_times": "committed", "states": "windows"}
        tables = {fields.get(name, name): self.table(name) for name in names}
        return Evidence(
            as_of=self.now,
            engine=self.engine,
            patience=self.source.patience,
            **{"lag": schemas.LAG.empty_table(), **tables},
        )

    def _compute_sorted(self, name: str) -> pa.Table:
        # Their inputs are in this process already, on either engine.
        alike = {"lag": self._lag, "progress": self._progress, "states": self._choose_states}
        if name == "observed" and are_seconds(self.table("windows")):
            return schemas.OBSERVED.empty_table()
        rows = alike[name]() if name in alike else self._compute(name)
        table = pa.Table.from_batches([one_batch(rows)])
        table = chosen_partitions(table, self.choice) if name == "groups" else table
        return table.sort_by(ascending(*_SORTED[name]))

    # ---- what no table answers -------------------------------------------------------------------

    @property
    def evidence(self) -> Evidence:
        """Return all tables for an investigation."""
        return self.once("evidence", self._gather)

    @property
    def brief(self) -> pa.Table:
        """Return lag and its terms in Kafka, as `sharelag.schemas.BRIEF_LAG`."""
        return self.table("lag").select(schemas.BRIEF_LAG.names)

    @property
    def ever(self) -> pa.Table:
        """Return the share partitions with a state now or before: null lag where it was deleted."""
        return self.once("ever", self._find_ever)

    def _find_ever(self) -> pa.Table:
        lag, gone = self.table("lag"), self.table("deleted")
        gone = self.choice.of(add_topic_names(gone, self.table("offsets")))
        gone = gone.filter(
            pc.invert(pc.is_in(*(keys(one, schemas.SHARE_PARTITION) for one in (gone, lag))))
        )
        names = [*schemas.SHARE_PARTITION, "topic"]
        gone = gone.group_by(names, use_threads=False).aggregate([])
        known = lag.select([*names, "lag"])
        return pa.concat_tables([known, gone], promote_options="default").sort_by(ORDER)

    @property
    def lag_evidence(self) -> Evidence:
        """Return evidence of lag only: everything else is unknown.

        Settings of groups are included if some topic was never fetched: they decide what waits.
        """
        found, counts = self.brief, self.record_counts
        never = pc.equal(found.column("lag_reason"), NO_START_OFFSET)
        groups = sorted(set(found.filter(never).column("group_id").to_pylist()))
        return Evidence(
            as_of=pc.max(found.column("as_of")).as_py() or datetime.now(UTC),
            lag=table_of(
                {name: found.column(name) for name in found.schema.names}, schemas.LAG, pad=True
            ),
            settings=self.source.settings(groups, []) if groups else schemas.SETTINGS.empty_table(),
            rejected=counts.rejected,
            repeated=counts.repeated,
            engine=self.engine,
            patience=self.source.patience,
            lag_only=True,
        )

    def rollup(self, by: str) -> pa.Table:
        """Return lag summed by ``"group"`` or ``"topic"``, as `sharelag.schemas.ROLLUP`."""
        from sharelag.metrics.lag import rollup_arrow

        return pa.Table.from_batches([rollup_arrow(self.table("lag"), by)])

    def imbalance(self, by: str | None = None) -> pa.Table:
        """Return how unevenly load is spread, as `sharelag.schemas.IMBALANCE`."""
        from sharelag.metrics.imbalance import imbalance_arrow

        self.read_ahead()
        brokers = self.table("brokers") if self.table("leaders").num_rows else None
        return as_table(imbalance_arrow(self.table("lag"), *self._loads(), by, brokers))

    def skew(self) -> pa.Table:
        """Return where each group's lag is concentrated, as `sharelag.metrics.imbalance.SKEW`."""
        from sharelag.metrics.imbalance import skew_arrow

        self.read_ahead()
        return as_table(skew_arrow(self.table("lag"), *self._loads()))

    def diff(self, before: Reading) -> pa.Table:
        """Return what changed since another reading, as `sharelag.schemas.DIFF`."""
        from sharelag.metrics.lag import diff_arrow

        return diff_arrow(before.table("windows"), self.table("windows"))

    def reconcile(self, described: pa.Table | None, true: bool) -> pa.Table:
        """Return lag by several definitions, as `sharelag.schemas.RECONCILED`."""
        from sharelag.metrics.reconcile import reconcile_arrow

        config = getattr(self.source, "config", None)
        scanned = self._scan(config) if true and config is not None else None
        return as_table(reconcile_arrow(self.table("lag"), described, scanned))

    @abstractmethod
    def then(self, as_of: Moment) -> Reading:
        """Return a reading of the same records as of another moment."""

    @contextmanager
    def whole(self) -> Iterator[Reading]:
        """Yield a reading of all groups as of now, with health; this one if it qualifies."""
        other = self._whole()
        try:
            yield other
        finally:
            if other is not self:
                other.close()

    @abstractmethod
    def _whole(self) -> Reading: ...

    @abstractmethod
    def _scan(self, config: ClientConfig) -> schemas.Arrow:
        """Count the existing records of a cluster, as `sharelag.schemas.SCANNED`."""

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

        ``each`` takes `sharelag.schemas.HISTORY` and returns a batch or table of a schema; ``keys``
        are the ``group_id topic_id partition`` of the share partitions, by default all.
        """

    def over_own_history(self, each: Each, schema: pa.Schema) -> pa.Table:
        """As `over_history`, without mirrored states of share partitions that have their own."""
        return self.over_history(partial(_over_own, each=each), schema)

    @abstractmethod
    def over_records(self, each: Each, schema: pa.Schema, keys: pa.Table) -> pa.Table:
        """Apply a function to all records of share partitions, some of them at a time.

        ``each`` takes `sharelag.schemas.RECORDS` and returns a batch or table of a schema; ``keys``
        are the ``group_id topic_id partition`` of the share partitions.
        """

    @abstractmethod
    def ledger(self, given: OfQueue, most: int, statuses: tuple[str, ...] = ()) -> Ledger:
        """Compare archived offsets of share partitions with the records of a dead-letter queue.

        At most ``most`` rows (of these ``statuses``) are returned, first those that need attention.
        """

    @abstractmethod
    def windows_at(self, keys: pa.Table, moments: Sequence[int] | int) -> pa.Table:
        """Return the windows of some share partitions at past moments, with all their runs.

        ``moments`` are ascending milliseconds, or a number: that many evenly spaced write times of
        records. The result is `sharelag.replay.state.WINDOWS_AT`, sorted by moment, group, topic
        id and partition.
        """

    def close(self) -> None:
        """Release what is cached outside this process."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _loads(self) -> tuple[pa.Table | None, pa.Table | None, pa.Table, pa.Table | None]:
        """Return members, groups, observed and earlier ends for the imbalance; None: unknown."""
        from sharelag.metrics.rates import raise_ends

        groups, observed = self.table("groups"), self.table("observed")
        past = raise_ends(earliest(self.table("past_offsets")), self.table("lag"), observed)
        known = groups if groups.num_rows else None
        members = None if known is None else self.table("members")
        return members, known, observed, past if past.num_rows else None

    def _gather(self) -> Evidence:
        self.read_ahead()
        whole = self._evidence(
            *("states", "lag", "observed", "past_offsets", "logs", "brokers", "members", "groups"),
            *("settings", "times", "committed_times", "progress", "gaps"),
        )
        rejected, repeated = self.record_counts.rejected, self.record_counts.repeated
        of_groups = self.group_record_counts.rejected
        return replace(whole, rejected=rejected, rejected_groups=of_groups, repeated=repeated)


#: Sort order of tables of share partitions.
ORDER = ascending("group_id", "topic", "topic_id", "partition")

#: The position of a record, which is unique.
_PLACE = ascending("record_topic", "record_partition", "record_offset")
#: Sort order of histories.
HISTORY_ORDER = [*ORDER, *_PLACE]


def _over_own(history: pa.RecordBatch, each: Each) -> schemas.Arrow:
    is_own = pc.equal(history.column("record_topic"), STATE_TOPIC)
    if not pc.all(is_own).as_py():
        place = keys(history, schemas.SHARE_PARTITION)
        has_own = pc.is_in(place, place.filter(is_own))
        history = history.filter(pc.or_(is_own, pc.invert(has_own)))
    return each(history)


def add_topic_names(table: pa.Table, offsets: pa.Table) -> pa.Table:
    """Add topic names to topic ids; null if unknown."""
    position = pc.index_in(table.column("topic_id"), flat(offsets.column("topic_id")))
    names = flat(offsets.column("topic")).take(position)
    if "record_topic" in table.schema.names:
        names = pc.coalesce(names, names_by_place(table))
    return table.append_column("topic", names)


def rows_of(rows: schemas.Arrow, places: pa.Table) -> schemas.Arrow:
    """Return the rows of some share partitions."""
    names = schemas.SHARE_PARTITION
    return rows.filter(pc.is_in(keys(rows, names), keys(places, names)))


def from_time(history: schemas.Arrow, since: datetime | None) -> schemas.Arrow:
    """Return the rows of a history since a time; None: all."""
    if since is None:
        return history
    return history.filter(pc.greater_equal(history.column("record_timestamp"), pa.scalar(since)))


def latest(history: pa.Table, most: int | None) -> pa.Table:
    """Return the latest rows of a history in order, up to a maximum number; None: all."""
    if most is None or len(history) <= most:
        return history
    order = [("record_timestamp", "descending"), ("record_offset", "descending")]
    return history.sort_by([*order, *_PLACE[:2]]).slice(0, most)


def chosen_partitions(groups: pa.Table, choice: Choice) -> pa.Table:
    """Return groups without the initialized partitions that are not selected."""
    if not choice.topics:
        return groups
    rows = groups.to_pylist()
    for row in rows:
        kept = []
        for topic in row["initialized_topics"] or []:
            name = topic["topic_name"] or topic["topic_id"]
            chosen = [number for number in topic["partitions"] if choice.has(name, number)]
            kept += [topic | {"partitions": chosen}] if chosen else []
        row["initialized_topics"] = kept
    return pa.Table.from_pylist(rows, schema=groups.schema)


def earliest(past_offsets: pa.Table) -> pa.Table:
    """Return the earliest known end offset of each topic partition."""
    known = past_offsets.filter(past_offsets.column("end_offset").is_valid())
    names = ["topic_id", "partition", "end_offset", "as_of"]
    first = known.group_by(names[:2]).aggregate([(name, "min") for name in names[2:]])
    return first.rename_columns(names)
