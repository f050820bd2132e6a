"""`Reading`: the questions about an input that its tables do not answer; each engine does."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.engine.tables import Each, Ledger, OfQueue, Rows, Tables, earliest
from sharelag.metrics.evidence import Evidence
from sharelag.replay.moment import Moment
from sharelag.schemas import BRIEF_LAG, LAG, SETTINGS
from sharelag.tables.arrow import as_table, table_of
from sharelag.tables.gaps import NO_START_OFFSET

if TYPE_CHECKING:
    from sharelag import schemas
    from sharelag.inputs.kafka.config import ClientConfig


class Reading(Tables):
    """Tables of an input as of one moment, and the questions that no table answers."""

    @property
    def evidence(self) -> Evidence:
        """Return all tables that an investigation needs."""
        return self.once("evidence", self._gather)

    @property
    def brief(self) -> pa.Table:
        """Return lag and what Kafka computes it from, as `sharelag.schemas.BRIEF_LAG`."""
        return self.table("lag").select(BRIEF_LAG.names)

    @property
    def lag_evidence(self) -> Evidence:
        """Return evidence of lag alone: everything else is unknown.

        The settings of groups are known where something was never fetched, as they say what waits.
        """
        found, counted = self.brief, self.counted
        never = pc.equal(found.column("lag_reason"), NO_START_OFFSET)
        groups = sorted(set(found.filter(never).column("group_id").to_pylist()))
        return Evidence(
            as_of=pc.max(found.column("as_of")).as_py() or datetime.now(UTC),
            lag=table_of({name: found.column(name) for name in found.schema.names}, LAG, pad=True),
            settings=self.source.settings(groups, []) if groups else SETTINGS.empty_table(),
            rejected=counted.rejected,
            repeated=counted.repeated,
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
        """Return where the lag of each group concentrates, as `sharelag.metrics.imbalance.SKEW`."""
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
        """Give a reading of all groups as of now, with health; this one if it already is that."""
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

        ``each`` takes `sharelag.schemas.HISTORY`, and gives a batch or table of a schema; ``keys``
        are the ``group_id topic_id partition`` of the share partitions, by default all.
        """

    @abstractmethod
    def over_records(self, each: Each, schema: pa.Schema, keys: pa.Table) -> pa.Table:
        """Apply a function to all records of share partitions, some of them at a time.

        ``each`` takes `sharelag.schemas.RECORDS`, and gives a batch or table of a schema; ``keys``
        are the ``group_id topic_id partition`` of the share partitions.
        """

    @abstractmethod
    def ledger(self, asked: OfQueue, most: int) -> Ledger:
        """Compare archived offsets of share partitions with the records of a dead-letter queue.

        At most ``most`` rows are returned, those first that need attention.
        """

    @abstractmethod
    def windows_at(self, keys: pa.Table, moments: Sequence[int] | int) -> pa.Table:
        """Return the windows of some share partitions at past moments, with all their runs.

        The moments are milliseconds, ascending, or a number: that many evenly spaced ones of the
        times at which a record was written. The result is `sharelag.replay.state.WINDOWS_AT`,
        sorted by moment, group, topic id and partition.
        """

    def close(self) -> None:
        """Release what is cached outside this process."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _loads(self) -> tuple[pa.Table | None, pa.Table | None, pa.Table, pa.Table | None]:
        """Return members, groups, observed and earlier ends for the imbalance; None: unknown."""
        groups = self.table("groups")
        past = earliest(self.table("past_offsets"))
        known = groups if groups.num_rows else None
        members = None if known is None else self.table("members")
        return members, known, self.table("observed"), past if past.num_rows else None

    def _gather(self) -> Evidence:
        self.read_ahead()
        whole = self._evidence(
            *("windows", "lag", "observed", "past_offsets", "logs", "brokers", "members", "groups"),
            *("settings", "times", "committed_times", "progress", "gaps"),
        )
        rejected, repeated = self.counted.rejected, self.counted.repeated
        of_groups = self.counted_groups.rejected
        return replace(whole, rejected=rejected, rejected_groups=of_groups, repeated=repeated)
