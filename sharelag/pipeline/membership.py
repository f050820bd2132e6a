"""Replay the share groups' own records to members and groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame

from sharelag import schemas
from sharelag.pipeline.records import written_by
from sharelag.replay.members import (
    GROUP_KEY,
    REPLAYED,
    groups_arrow,
    latest_group_records,
    members_arrow,
)
from sharelag.replay.moment import Moment
from sharelag.schemas.arrow import for_spark
from sharelag.sources.spark.tabular import as_frame

if TYPE_CHECKING:
    from sharelag.sources.spark.tabular import Tabular


def members(group_records: Tabular, as_of: Moment = None) -> DataFrame:
    """Return the members of every share group as of a moment.

    Parameters
    ----------
    group_records : DataFrame of Spark or pandas, or pyarrow.Table
        `sharelag.schemas.GROUP_RECORDS`.
    as_of : datetime, mapping of partition to offset, or None
        The last record to include; offsets are those of ``__consumer_offsets``.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.MEMBERS`; see `sharelag.replay.members`.
    """
    return members_of(membership(group_records, as_of))


def groups(group_records: Tabular, as_of: Moment = None) -> DataFrame:
    """Return `sharelag.schemas.GROUPS` as of a moment; parameters as for `members`."""
    return groups_of(membership(group_records, as_of))


def membership(group_records: Tabular, as_of: Moment = None) -> DataFrame:
    """Return members and groups from one replay, for `members_of` and `groups_of`.

    Parameters as for `members`. Each task keeps the last record of each key; then the records of a
    group are brought together.
    """
    records = as_frame(group_records, REPLAYED, "group records")
    chosen = records if as_of is None else records.where(written_by(as_of))

    def thin_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield for_spark(latest_group_records(batches, REPLAYED), REPLAYED)

    def replay_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kept = latest_group_records(batches, REPLAYED).cast(
            REPLAYED
        )  # Spark names the items of lists anew
        yield _as_struct("member", members_arrow(kept), schemas.MEMBERS)
        yield _as_struct("in_group", groups_arrow(kept), schemas.GROUPS)

    thin = chosen.select(REPLAYED.names).mapInArrow(thin_task, schemas.spark_schema(REPLAYED))
    return thin.repartition(*GROUP_KEY).mapInArrow(replay_task, schemas.spark_schema(_BOTH))


def members_of(both: DataFrame) -> DataFrame:
    """The members among what `membership` gave."""
    return both.where("member is not null").select("member.*")


def groups_of(both: DataFrame) -> DataFrame:
    """The groups among what `membership` gave."""
    return both.where("in_group is not null").select("in_group.*")


def _as_struct(name: str, rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    ours = for_spark(rows, schema)
    struct = pa.StructArray.from_arrays(ours.columns, fields=list(ours.schema))
    columns = {field.name: pa.nulls(rows.num_rows, field.type) for field in _BOTH}
    return pa.RecordBatch.from_pydict(columns | {name: struct}, schema=_BOTH)


def _of_spark(schema: pa.Schema) -> pa.DataType:
    """A table's columns as one struct, with the times that Spark has."""
    return pa.struct(list(for_spark(pa.RecordBatch.from_pylist([], schema=schema), schema).schema))


#: A row is a member or a group; the other column is null.
_BOTH = pa.schema([("member", _of_spark(schemas.MEMBERS)), ("in_group", _of_spark(schemas.GROUPS))])
