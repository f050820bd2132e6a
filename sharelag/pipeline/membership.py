"""The share groups' own records replayed: members and groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from sharelag import schemas
from sharelag.arrow import for_spark
from sharelag.pipeline.records import written_by
from sharelag.replay.members import GROUP_KEY, REPLAYED, groups_arrow, latest_group_records, members_arrow
from sharelag.replay.moment import Moment


def members(group_records: DataFrame, as_of: Moment = None) -> DataFrame:
    """The members of every share group, as of a moment.

    Parameters
    ----------
    group_records : pyspark.sql.DataFrame
        `sharelag.schemas.GROUP_RECORDS`.
    as_of : datetime, mapping of partition to offset, or None
        The last record to take into account; offsets are those of ``__consumer_offsets``.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.MEMBERS`; see `sharelag.replay.members`.
    """
    return _of_group_records(group_records, as_of, members_arrow, schemas.MEMBERS)


def groups(group_records: DataFrame, as_of: Moment = None) -> DataFrame:
    """The share groups that exist, as of a moment: `sharelag.schemas.GROUPS`. Parameters as for `members`."""
    return _of_group_records(group_records, as_of, groups_arrow, schemas.GROUPS)


def latest_records(group_records: DataFrame, as_of: Moment = None) -> DataFrame:
    """The group records that `members` and `groups` rest on: little more than the last of each key.

    Parameters as for `members`, which take what this gives as well. Persist it to ask both.
    """
    schemas.require(group_records, REPLAYED, "group records")
    chosen = group_records if as_of is None else group_records.where(written_by(as_of))

    def thin_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield for_spark(latest_group_records(batches, REPLAYED), REPLAYED)

    return chosen.select(REPLAYED.names).mapInArrow(thin_task, schemas.spark_schema(REPLAYED))


def _of_group_records(
    group_records: DataFrame, as_of: Moment, replay: Callable[[pa.RecordBatch], pa.RecordBatch], schema: pa.Schema
) -> DataFrame:
    """Keep the last record of each key in each task, bring those of a group together, and replay them."""

    def replay_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kept = latest_group_records(batches, REPLAYED)
        yield for_spark(replay(kept.cast(REPLAYED)), schema)  # Spark names the items of lists anew

    thin = latest_records(group_records, as_of)
    return thin.repartition(*GROUP_KEY).mapInArrow(replay_task, schemas.spark_schema(schema))
