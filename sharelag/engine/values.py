"""What a reading gives beside tables, and what it takes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from sharelag import schemas

if TYPE_CHECKING:
    from sharelag.inputs.queues import Queue

#: A function of the whole history, or all records, of some share partitions.
Each = Callable[[pa.RecordBatch], schemas.Arrow]


class Counted(NamedTuple):
    """Counts of the records of the state topic."""

    records: int  # of the selected groups, up to the moment
    rejected: int  # could not be decoded
    first: datetime | None  # write time of the first record
    last: datetime | None
    repeated: int = 0  # that repeat another one and were left out; of all groups


class CountedGroups(NamedTuple):
    """Counts of the groups' own records, and which groups these say were deleted."""

    records: int
    rejected: int  # could not be decoded
    deleted: frozenset[str]


class Rows(NamedTuple):
    """A table that may have been cut to a maximum number of rows."""

    table: pa.Table
    total: int  # rows that there are

    @property
    def left_out(self) -> int:
        """The number of rows that are not in the table."""
        return self.total - int(self.table.num_rows)


class OfQueue(NamedTuple):
    """A dead-letter queue, and whose records are looked for in it."""

    queue: Queue
    lag: pa.Table  # `sharelag.schemas.LAG` of the share partitions
    limits: pa.Table  # ``group_id delivery_limit patience_ms nameless`` of their groups
    groups: frozenset[str]  # only letters of these; empty: of all, also of unknown ones


class Ledger(NamedTuple):
    """The ledger of a dead-letter queue: some of its rows, and sums of all."""

    table: pa.Table  # `sharelag.schemas.LEDGER`
    sums: pa.Table  # status reason offsets rows
