"""Records replayed: share partitions now and after each record, and members and groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame

from sharelag import schemas
from sharelag.engine import Each
from sharelag.engine.spark.packing import Batches
from sharelag.engine.spark.records import records_of
from sharelag.engine.spark.tasks import Records, TaskRecords, set_origin
from sharelag.metrics.observed import observe
from sharelag.model.versions import require_version
from sharelag.replay.history import history_arrow
from sharelag.replay.members import find_deleted_groups, groups_arrow, members_arrow
from sharelag.replay.moment import Moment, as_moment
from sharelag.tables.arrow import as_table
from sharelag.wire.fields import GROUP_TOPIC

if TYPE_CHECKING:
    from sharelag.inputs.spark.frames import Tabular

#: What a task counted of the raw records that it read.
COUNTED = pa.schema(
    [
        ("records", pa.int64()),
        ("rejected", pa.int64()),  # that could not be decoded
        ("first", schemas.TIMESTAMP),  # when the first and the last of the records were written
        ("last", schemas.TIMESTAMP),
        ("repeated", pa.int64()),  # that are there again
    ]
)


class Replayed(NamedTuple):
    """Records that windows were made of."""

    records: Records


def windows(
    records: Tabular | Records, as_of: str | Moment = None, kafka_version: str | None = None
) -> DataFrame:
    """Return the state of every share partition as of a moment.

    Parameters
    ----------
    records : DataFrame of Spark or pandas, or pyarrow.Table
        Raw records (`sharelag.schemas.RAW`), or decoded ones (`RECORDS`).
    as_of : str, datetime, mapping of state partition to offset, or None
        The last record to take into account; offsets leave out the state partitions they do not
        name.
    kafka_version : str, optional
        Of the brokers, such as ``4.3.1``; the newest if there is none. It decides whether equal
        neighbours among the batches are one, and how decoding goes: see `sharelag.decode`.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.WINDOWS`, one row per share partition that exists.

    Notes
    -----
    The records are read once, and only the columns that are needed. What a task reads is exchanged
    as compressed bytes, once, so that each state partition is whole in one task.
    """
    require_version(kafka_version)
    found = records_of(records).read_until(as_moment(as_of))
    if kafka_version is not None:
        found = replace(found, kafka_version=kafka_version)

    def windows_task(mine: TaskRecords) -> Batches:
        yield mine.replay().windows

    frame = found.map(windows_task, schemas.WINDOWS)
    set_origin(frame, Replayed(found))
    return frame


def find_states(mine: TaskRecords) -> Iterator[tuple[str, schemas.Arrow]]:
    """Return windows, what was counted and the gaps of what one task has, by name."""
    found = mine.replay()
    times = [pa.array([at], pa.int64()).view(schemas.TIMESTAMP) for at in (found.first, found.last)]
    numbers = [pa.array([n]) for n in (found.records, found.rejected)]
    counted = [*numbers, *times, pa.array([mine.raw.repeated])]
    yield "windows", found.windows
    yield "counted", pa.RecordBatch.from_arrays(counted, schema=COUNTED)
    yield "gaps", mine.raw.gaps


def history(records: Tabular | Records, gaps: pa.Table | None = None) -> DataFrame:
    """Return the state of every share partition after each of its records.

    Parameters
    ----------
    records : DataFrame of Spark or pandas, or pyarrow.Table
        Raw records (`sharelag.schemas.RAW`), or decoded ones (`RECORDS`).
    gaps : pyarrow.Table, optional
        `sharelag.schemas.GAPS`: offsets that are missing between decoded records. Of raw records
        they are found on the way.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.HISTORY`, one row per record; share partitions are contiguous, each in the
        order of the log.
    """
    return records_of(records).map(partial(histories, gaps=gaps), schemas.HISTORY)


def histories(mine: TaskRecords, gaps: pa.Table | None = None) -> Batches:
    """Yield the whole history of some share partitions at a time, of what one task has."""
    for part in mine.share_partitions():
        yield history_arrow(part, mine.raw.gaps if gaps is None else gaps)


def summarize(each: Each, schema: pa.Schema) -> Callable[[TaskRecords], pa.Table]:
    """Return a function that applies another to the whole history of share partitions in a task.

    ``each`` takes `sharelag.schemas.HISTORY` of some share partitions, all rows of each, and gives
    what leaves the task instead of the history.
    """

    def summarize_task(mine: TaskRecords) -> pa.Table:
        found = (as_table(each(one)).cast(schema) for one in histories(mine))
        return pa.concat_tables([schema.empty_table(), *found])

    return summarize_task


def observed(records: Tabular | Records, end: datetime, over: timedelta) -> DataFrame:
    """Summarize the history of a span; see `sharelag.metrics.observed.observe`.

    Parameters
    ----------
    records : DataFrame of Spark or pandas, or pyarrow.Table
        Raw records (`sharelag.schemas.RAW`), or decoded ones (`RECORDS`).
    end : datetime
    over : timedelta

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.OBSERVED`, one row per share partition.
    """

    def observe_task(mine: TaskRecords) -> Batches:
        for part in histories(mine):
            yield observe(part, end, over)

    return records_of(records).map(observe_task, schemas.OBSERVED)


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
