"""Evidence: all tables gathered about some share groups as of one moment."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.metrics.imbalance import count_stateless
from sharelag.schemas import HOLDERS
from sharelag.tables import gaps, views
from sharelag.tables.displayable import Displayable
from sharelag.tables.presentation import Presentation
from sharelag.tables.words import moment
from sharelag.wire.placement import missing_in_words

ISOLATION = "share.isolation.level"
_OF_NOW = "settings, retention and last stable offsets of that moment; the current ones are used"


@dataclass(frozen=True)
class Evidence(Displayable):
    """Tables of `sharelag.schemas` of the same share partitions; unavailable ones are empty."""

    as_of: datetime
    lag: pa.Table  # LAG
    windows: pa.Table = field(default_factory=schemas.WINDOWS.empty_table)
    observed: pa.Table = field(default_factory=schemas.OBSERVED.empty_table)
    progress: pa.Table = field(default_factory=schemas.PROGRESS.empty_table)
    past_offsets: pa.Table = field(default_factory=schemas.OFFSETS.empty_table)
    committed: pa.Table = field(default_factory=schemas.TIMES.empty_table)  # read_committed groups
    times: pa.Table = field(default_factory=schemas.TIMES.empty_table)
    members: pa.Table = field(default_factory=schemas.MEMBERS.empty_table)
    groups: pa.Table = field(default_factory=schemas.GROUPS.empty_table)
    settings: pa.Table = field(default_factory=schemas.SETTINGS.empty_table)
    logs: pa.Table = field(default_factory=schemas.LOGS.empty_table)
    brokers: pa.Table = field(default_factory=schemas.BROKERS.empty_table)
    gaps: pa.Table = field(default_factory=schemas.GAPS.empty_table)
    #: Holders of offsets from a broker's request log; empty without one of this moment.
    holders: pa.Table = field(default_factory=HOLDERS.empty_table)
    #: Brokers' metrics of the share partitions; empty without metrics.
    measured: pa.Table = field(default_factory=schemas.MEASURED.empty_table)
    rejected: int = 0  # undecodable records of the state topic
    rejected_groups: int = 0  # undecodable ones of groups and members
    repeated: int = 0  # records that repeat another one and were left out
    engine: str = "local"
    #: Time after which a condition counts as stuck; None: the group's lock duration.
    patience: timedelta | None = None
    #: Whether only lag was requested: all other columns of the table ``lag`` are null.
    lag_only: bool = False

    #: Source of the tables in words.
    SOURCE: ClassVar[str] = "a workbench"

    @cached_property
    def cause_inputs(self) -> dict[timedelta | None, Any]:
        """The `sharelag.metrics.causes.CauseInputs` of this evidence, by patience."""
        return {}

    @cached_property
    def ranked(self) -> dict[tuple[timedelta | None, float], pa.RecordBatch]:
        """The cached results of `explain`, which a dashboard requests a dozen times."""
        return {}

    def presentation(self) -> Presentation:
        """Return the number of rows of each table."""
        sizes = {name: len(one) for name, one in vars(self).items() if isinstance(one, pa.Table)}
        rows = {"by": pa.array(list(sizes)), "value": pa.array(list(sizes.values()))}
        return Presentation(
            title="What was read",
            when=f"as of {moment(self.as_of)}",
            table=pa.table(rows),
            columns=views.EVIDENCE.columns,
            source=f"{self.SOURCE}, {self.engine} engine",
            means=views.EVIDENCE.means,
        )

    def unknown(self, is_past: bool, generation: int | None = None) -> tuple[str, ...]:
        """Return sentences on unknown values of the whole evidence.

        ``is_past``: the moment is before the last; ``generation``: that of the decoding.
        """
        rejected = gaps.of_rejected(self.rejected, generation)
        is_known = self.lag_only or self.settings.num_rows or self.logs.num_rows
        past = (_OF_NOW,) if is_past and is_known else ()
        if self.lag_only:  # without groups and settings
            return (*rejected, *past, *gaps.of_missing(self.gaps.num_rows, 0))
        stateless = count_stateless(self.groups, self.windows)
        are_read = self.groups.num_rows or self.rejected_groups
        return (
            *rejected,
            *gaps.of_rejected_groups(self.rejected_groups),
            *((gaps.NO_RECORDS,) if self.lag.num_rows and not are_read else ()),
            *gaps.of_leaderless(self.brokers),
            *gaps.of_settings(self.settings),
            *past,
            *gaps.of_missing(self.gaps.num_rows, stateless, missing_in_words(self.windows)),
        )

    @cached_property
    def _past_rows(self) -> dict[str, pa.ListScalar]:
        """The rows of ``past_offsets`` by topic id: there may be millions, of many groups."""
        ids, rows = self.past_offsets.column("topic_id"), np.arange(len(self.past_offsets))
        found = pa.table({"id": ids, "row": rows}).group_by("id").aggregate([("row", "list")])
        return dict(zip(found["id"].to_pylist(), found["row_list"], strict=True))

    def of_group(self, group: str) -> Evidence:
        """Return the evidence on one group, which leads to the same answers."""

        def only(table: Any) -> Any:
            return table.filter(pc.equal(table.column("group_id"), group))

        tables = {
            name: only(one)
            for name, one in vars(self).items()
            if "group_id" in getattr(one, "column_names", ())
        }
        topics = pc.unique(tables["lag"].column("topic_id")).to_pylist()
        rows = [self._past_rows[one].values for one in topics if one in self._past_rows]
        past = np.sort(np.concatenate([np.empty(0, np.int64), *rows]))
        mine = replace(self, past_offsets=self.past_offsets.take(past), **tables)
        # Groups are ranked separately, so the results for all hold for each.
        mine.ranked.update({key: only(found) for key, found in self.ranked.items()})
        return mine

    @property
    def reads_committed(self) -> frozenset[str]:
        """The groups with isolation level read_committed."""
        isolation = self.settings.filter(pc.equal(self.settings.column("name"), ISOLATION))
        chosen = isolation.filter(pc.equal(isolation.column("value"), "read_committed"))
        return frozenset(chosen.column("entity").to_pylist())
