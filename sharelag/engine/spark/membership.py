"""Replay the share groups' own records to members and groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame

from sharelag import schemas
from sharelag.engine.spark.packing import Batches
from sharelag.engine.spark.records import records_of
from sharelag.engine.spark.tasks import Records, TaskRecords
from sharelag.replay.members import find_deleted_groups, groups_arrow, members_arrow
from sharelag.replay.moment import Moment, as_moment
from sharelag.wire.fields import GROUP_TOPIC

if TYPE_CHECKING:
    from sharelag.inputs.spark.frames import Tabular

#: What a task counted of the groups' records, as `sharelag.engine.CountedGroups`.
COUNTED_GROUPS = pa.schema(
    [("records", pa.int64()), ("rejected", pa.int64()), ("deleted", pa.list_(pa.string()))]
)


def members(records: Tabular | Records, as_of: str | Moment = None) -> DataFrame:
    """Return the members of every share group as of a moment.

    Parameters
    ----------
    records : DataFrame of Spark or pandas, or pyarrow.Table
        Raw records (`sharelag.schemas.RAW`), or decoded ones of ``__consumer_offsets``
        (`GROUP_RECORDS`).
    as_of : str, datetime, mapping of partition to offset, or None
        The last record to include; offsets are those of ``__consumer_offsets``.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.MEMBERS`; see `sharelag.replay.members`.
    """
    return _map(records, as_of, members_arrow, schemas.MEMBERS)


def groups(records: Tabular | Records, as_of: str | Moment = None) -> DataFrame:
    """Return `sharelag.schemas.GROUPS` as of a moment; parameters as for `members`."""
    return _map(records, as_of, groups_arrow, schemas.GROUPS)


def find_membership(mine: TaskRecords) -> Iterator[tuple[str, schemas.Arrow]]:
    """Return the members and groups of what one task has, and what was counted, by name."""
    log = mine.group_log()
    counted = [log.records, log.rejected, find_deleted_groups(log.latest)]
    yield "members", members_arrow(log.latest)
    yield "groups", groups_arrow(log.latest)
    yield "counted groups", pa.table([[one] for one in counted], schema=COUNTED_GROUPS)


def _map(
    records: Tabular | Records,
    as_of: str | Moment,
    each: Callable[[pa.RecordBatch], pa.RecordBatch],
    schema: pa.Schema,
) -> DataFrame:
    def membership_task(mine: TaskRecords) -> Batches:
        yield each(mine.group_log().latest)

    found = records_of(records, GROUP_TOPIC).read_until(as_moment(as_of))
    return found.map(membership_task, schema)
