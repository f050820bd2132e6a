"""A reading in this process: records stream through the kernels, superseded ones are dropped."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.engine import (
    OVER,
    Counted,
    CountedGroups,
    Each,
    Ledger,
    Reading,
    Rows,
    add_topic_names,
    chosen_partitions,
    rows_of,
)
from sharelag.engine.local.records import (
    StateTopic,
    decode_topic,
    keep_records,
    read_states,
    read_whole,
)
from sharelag.engine.partitions import HISTORY_ORDER, from_time, latest
from sharelag.inputs import Input
from sharelag.model import milliseconds
from sharelag.replay.moment import Choice, Moment, up_to
from sharelag.tables.arrow import as_table, one_batch
from sharelag.wire.decode import Decoded
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC

if TYPE_CHECKING:
    from sharelag.engine import OfQueue
    from sharelag.inputs.kafka.config import ClientConfig
    from sharelag.replay.members import GroupLog

#: Up to so many records are held decoded, 200 bytes each, where earlier moments are looked at.
KEPT = 1_000_000


class QuickReading(Reading):
    """The tables of an input, computed in this process.

    Parameters
    ----------
    source, as_of, choice, over
        As for `Reading`.
    history : bool
        Store the state after each record, which everything except windows and lag needs.
    health : bool
        Also count the records of the state topic, which decodes every record once more.
    later : QuickReading, optional
        Of the same input as of its end: its records are decoded once for all earlier moments.
    """

    engine = "local"

    def __init__(
        self,
        source: Input,
        as_of: Moment = None,
        choice: Choice | None = None,
        over: timedelta = OVER,
        *,
        history: bool = True,
        health: bool = False,
        later: QuickReading | None = None,
    ) -> None:
        super().__init__(source, as_of, choice, over)
        self._with_history, self._with_health, self._later = history, health, later
        self._version: Hashable = None  # of what the history was read of
        self._saw_group_records = False

    @property
    def counted(self) -> Counted:
        """Return counts of the records."""
        return self._read.counted

    @property
    def counted_groups(self) -> CountedGroups:
        """Return counts of the groups' own records."""
        from sharelag.replay.members import find_deleted_groups

        def count() -> CountedGroups:
            log = self._group_log
            deleted = find_deleted_groups(log.latest)
            return CountedGroups(log.records, log.rejected, frozenset(deleted))

        return self.once("counted groups", count)

    @property
    def has_group_records(self) -> bool:
        """Whether the input has any record of the topic of group records."""
        _ = self._group_log
        return self._saw_group_records

    def then(self, as_of: Moment) -> QuickReading:
        """Return a reading of the same records as of another moment, without history."""
        return QuickReading(self.source, as_of, self.choice, self.over, history=False)

    def before(self, as_of: Moment, choice: Choice) -> StateTopic | None:
        """Return the state as of an earlier time; None where that has to be read anew.

        What that needs is kept: the decoded records, unless they are very many.
        """
        is_all = not self.choice.groups and self.counted.records <= KEPT
        if not is_all or not isinstance(as_of, datetime) or as_of > self.now:
            return None
        version = self.source.version()
        kept = self.once("kept", lambda: keep_records(self.source, self.choice.generation))
        whole = self._history if version is not None and version == self._version else None
        return kept.up_to(as_of, choice.groups, self.source.kafka_version, whole)

    def _whole(self) -> QuickReading:
        is_whole = self._with_health and self.as_of is None and not self.choice.groups
        every = self.choice.everything()
        return self if is_whole else QuickReading(self.source, choice=every, health=True)

    def _scan(self, config: ClientConfig) -> pa.RecordBatch:
        from sharelag.inputs.kafka.scan import scan

        offsets = self.table("offsets")
        windows = self.choice.of(add_topic_names(self.table("windows"), offsets))
        return scan(config, windows.select(schemas.WINDOWS.names), offsets)

    def history(
        self, since: datetime | None = None, most: int | None = None, group: str | None = None
    ) -> Rows:
        """Return the state after each record."""
        table = from_time(self._history, since)
        if group is not None:
            table = table.filter(pc.equal(table.column("group_id"), group))
        table = self.choice.of(add_topic_names(table, self.table("offsets")))
        return Rows(latest(table, most).sort_by(HISTORY_ORDER), table.num_rows)

    def history_tables(self, since: datetime | None = None) -> Iterator[pa.Table]:
        """Yield all rows of the history."""
        yield self.history(since).table

    def over_history(self, each: Each, schema: pa.Schema, keys: pa.Table | None = None) -> pa.Table:
        """Apply a function to the whole history of share partitions."""
        history = self._history if keys is None else rows_of(self._history, keys)
        return as_table(each(one_batch(history))).cast(schema)

    def over_records(self, each: Each, schema: pa.Schema, keys: pa.Table) -> pa.Table:
        """Apply a function to all records of share partitions."""
        return as_table(each(one_batch(self._records(keys)))).cast(schema)

    def ledger(self, asked: OfQueue, most: int) -> Ledger:
        """Compare archived offsets with the records of a dead-letter queue."""
        from sharelag.metrics.dead_letters import (
            archived_arrow,
            count_letters,
            first_of,
            ledger_arrow,
            letters_arrow,
            sums_of,
            topic_ids_of,
        )
        from sharelag.schemas import ARCHIVED_RUNS, COUNTED_LETTERS

        archived = self.over_records(archived_arrow, ARCHIVED_RUNS, asked.lag)
        names = topic_ids_of(asked.lag)
        found = (
            count_letters(letters_arrow(batch), names, asked.groups)
            for batch in asked.queue.batches()
        )
        letters = pa.concat_tables([COUNTED_LETTERS.empty_table(), *found])
        table = ledger_arrow(archived, letters, asked.lag, asked.limits, milliseconds(self.now))
        return Ledger(first_of(table, most), sums_of(table))

    def windows_at(self, keys: pa.Table, moments: Sequence[int] | int) -> pa.Table:
        """Return the windows of some share partitions at past moments."""
        from sharelag.metrics.columns import evenly_spaced
        from sharelag.replay.state import replay_at

        records = self._records(keys)
        if isinstance(moments, int):
            times = pc.unique(records.column("timestamp").drop_null()).view(pa.int64())
            moments = evenly_spaced(times.to_numpy(), moments)
        return replay_at(records, np.array(moments, np.int64), self.source.kafka_version)

    # ---- behind it -------------------------------------------------------------------------------

    def _compute(self, name: str) -> schemas.Arrow:
        if name == "windows":
            return self._read.windows
        if name == "gaps":
            return self._read.gaps
        if name == "observed":
            from sharelag.metrics.observed import observe

            return observe(self._history, self.now, self.over)
        if name == "snapshots":
            from sharelag.metrics.health import snapshots_arrow

            return snapshots_arrow(self._history)
        if name == "members":
            from sharelag.replay.members import members_arrow

            return members_arrow(self._group_log.latest)
        if name == "groups":
            from sharelag.replay.members import groups_arrow

            return chosen_partitions(as_table(groups_arrow(self._group_log.latest)), self.choice)
        if name == "health":
            if not self._with_health:
                raise ValueError(
                    "this reading has no health: create it with QuickReading(..., health=True)"
                )
            from sharelag.metrics.health import health_arrow

            return health_arrow(
                self._read.counts, self.source.partitions(STATE_TOPIC), self._history
            )
        raise ValueError(f"unknown table {name!r}")

    @property
    def _read(self) -> StateTopic:
        def read() -> StateTopic:
            if self._later is not None and (found := self._later.before(self.as_of, self.choice)):
                return found
            self._version = self.source.version()
            if self._with_history:
                return read_whole(self.source, self.as_of, self.choice, self._with_health)
            return read_states(self.source, self.as_of, self.choice)

        return self.once("read", read)

    @property
    def _history(self) -> pa.Table:
        if self._read.history is None:
            raise ValueError(
                "this reading has no history: create it with QuickReading(..., history=True)"
            )
        return self._read.history

    @property
    def _group_log(self) -> GroupLog:
        """The share group records up to the moment; superseded ones are dropped while reading."""
        from sharelag.replay.members import read_group_log

        def read() -> GroupLog:
            moment = self.now if self.as_of is not None else None
            found: Iterator[Decoded] = iter(())
            if self.group_records_refused is None:
                choice = self.choice.without_topics()
                found = decode_topic(
                    self.source, GROUP_TOPIC, choice=choice, seen=self._see_group_records
                )
            written = (one._replace(records=up_to(one.records, moment)) for one in found)
            return read_group_log(written, schemas.GROUP_RECORDS)

        return self.once("group log", read)

    def _see_group_records(self, raw: schemas.Arrow) -> None:
        self._saw_group_records |= raw.num_rows > 0

    def _records(self, wanted: pa.Table) -> pa.Table:
        """Return all records of some share partitions; they are held in memory, so choose few."""
        groups = frozenset(wanted.column("group_id").to_pylist()) or self.choice.groups
        choice = replace(self.choice.without_topics(), groups=groups)
        found = decode_topic(self.source, STATE_TOPIC, self.as_of, choice)
        parts = [rows_of(one.records, wanted) for one in found]
        return pa.Table.from_batches(parts, schemas.RECORDS)
