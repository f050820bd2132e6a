"""Raw records decoded and replayed: share partitions now and after each record, members and groups.

`records_of` finds the records that a DataFrame of the user's stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sharelag import schemas
from sharelag.engine import Each
from sharelag.engine.spark.packing import REPLAYED, Batches
from sharelag.engine.spark.tasks import Records, TaskRecords, is_written_by, origin_of, set_origin
from sharelag.errors import InputError
from sharelag.inputs.spark.frames import as_frame
from sharelag.inputs.spark.workers import map_in_arrow
from sharelag.metrics.observed import observe
from sharelag.model.versions import Told, require_version
from sharelag.replay.members import find_deleted_groups, groups_arrow, members_arrow
from sharelag.replay.moment import Moment, as_moment
from sharelag.tables.arrow import as_table, for_spark
from sharelag.wire.decode import decode_arrow
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC
from sharelag.wire.generations import require_generation

if TYPE_CHECKING:
    from sharelag.inputs.spark.frames import Tabular


class Decoded(NamedTuple):
    """Records and rejects of raw records; each of the two reads these when it is used."""

    records: DataFrame
    rejects: DataFrame


def decode(
    raw: Tabular,
    topic: str = STATE_TOPIC,
    generation: int | None = None,
    kafka_version: Told = None,
) -> Decoded:
    """Decode raw Kafka records from any connector, table or stream.

    Parameters
    ----------
    raw : DataFrame of Spark or pandas, or pyarrow.Table
        The columns of Spark's own Kafka source (`sharelag.schemas.RAW`); further ones are ignored.
        Rows of both topics may be mixed.
    topic : str
        ``__share_group_state``, or ``__consumer_offsets`` for the share groups' members and
        assignments.
    generation, kafka_version
        As for `sharelag.wire.decode_arrow`.

    Returns
    -------
    Decoded
        ``records`` as `sharelag.schemas.RECORDS` (or `GROUP_RECORDS`), ``rejects`` as
        `sharelag.schemas.REJECTS`. Records of other kinds are in neither.

    Raises
    ------
    InputError
        When a column is missing or of another type, or there is no such generation or version.

    Notes
    -----
    ``windows``, ``history``, ``members`` and the other functions of a state take ``raw`` itself.
    Given ``records`` as they are returned here, they read ``raw`` all the same, in one pass; given
    records that were filtered or stored, they read those.
    """
    raw = as_frame(raw, schemas.RAW, "raw records")
    require_generation(generation)
    require_version(kafka_version)
    good = schemas.RECORDS if topic == STATE_TOPIC else schemas.GROUP_RECORDS
    both = pa.schema([*good, *(f for f in schemas.REJECTS if f.name not in good.names)])

    def decode_task(batches: Iterable[pa.RecordBatch]) -> Batches:
        for batch in batches:
            for found in decode_arrow(batch, topic, generation, kafka_version)[:2]:
                if found.num_rows:
                    yield for_spark(found, both)

    rows = map_in_arrow(raw.select(schemas.RAW.names), decode_task, both)
    is_reject = F.col("reason").isNotNull()
    records = rows.where(~is_reject).select(good.names)
    if topic in REPLAYED:
        origin = Records(raw, (topic,), generation, kafka_version=kafka_version)
        set_origin(records, origin)
    return Decoded(records, rows.where(is_reject).select(schemas.REJECTS.names))


def records_of(given: Tabular | Records, topic: str = STATE_TOPIC) -> Records:
    """Return the records of a topic, given raw, or decoded by `decode` or long ago.

    Columns that are missing or of another type are an InputError, and so is a stream.
    """
    if isinstance(given, Records):
        return given
    origin = origin_of(given)
    if isinstance(origin, Records):
        if origin.topics != (topic,):
            raise InputError(f"these are records of {origin.topics[0]}: give those of {topic}")
        found = origin
    elif is_raw(given):
        found = Records(as_frame(given, schemas.RAW, "raw records"), (topic,))
    else:
        what = "records" if topic == STATE_TOPIC else "group records"
        frame = as_frame(given, REPLAYED[topic], what)
        found = Records(frame, (topic,), decoded=True)
    if isinstance(found.source, DataFrame) and found.source.isStreaming:
        raise InputError(
            "the records are a stream: use sharelag.stream.windows and sharelag.stream.lag with "
            "writeStream, or give a table of the records"
        )
    return found


def is_raw(given: Tabular) -> bool:
    """Return whether records count as raw, by their columns: all that are not decoded do."""
    names = column_names(given)
    return "key" in names or "record_type" not in names


def column_names(given: Tabular) -> list[str]:
    """Return the names of the columns of a DataFrame or a table, none of what is neither."""
    if isinstance(given, pa.Table | pa.RecordBatch):
        return list(given.schema.names)
    columns: Any = getattr(given, "columns", None)
    if columns is None:  # what passes its rows on as Arrow
        columns = getattr(getattr(given, "schema", None), "names", ())
    return [str(name) for name in columns]


def select_records(
    records: DataFrame, as_of: Moment = None, groups: frozenset[str] = frozenset()
) -> DataFrame:
    """Return the decoded records of some groups (default all) written up to a moment."""
    records = records.where(F.col("group_id").isin(*groups)) if groups else records
    return records if as_of is None else records.where(is_written_by(as_of, "record_partition"))


def missing_offsets(raw: Tabular | Records) -> DataFrame:
    """Return `sharelag.schemas.GAPS`: offsets of the state topic missing between raw records.

    Parameters
    ----------
    raw : DataFrame of Spark or pandas, or pyarrow.Table
        `sharelag.schemas.RAW`.
    """

    def find_gaps(records: TaskRecords) -> Iterator[pa.RecordBatch]:
        records.raw.apply(lambda batches: sum(1 for _ in batches))
        yield from records.raw.gaps.to_batches()

    return records_of(raw).map(find_gaps, schemas.GAPS)


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


def find(
    mine: TaskRecords,
    with_states: bool,
    until: datetime | None,
    over: timedelta,
    with_members: bool,
) -> Iterator[tuple[str, schemas.Arrow]]:
    """Return what one task has of states, of the history observed until a moment, and of members.

    Without a moment nothing is observed.
    """
    if with_states:
        yield from find_states(mine)
    if until is not None:
        each = partial(observe, end=until, over=over)
        yield "observed", summarize(each, schemas.OBSERVED)(mine)
    if with_members:
        yield from find_membership(mine)


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
    return records_of(records).map(partial(TaskRecords.histories, gaps=gaps), schemas.HISTORY)


def summarize(each: Each, schema: pa.Schema) -> Callable[[TaskRecords], pa.Table]:
    """Return a function that applies another to the whole history of share partitions in a task.

    ``each`` takes `sharelag.schemas.HISTORY` of some share partitions, all rows of each, and gives
    what leaves the task instead of the history.
    """

    def summarize_task(mine: TaskRecords) -> pa.Table:
        found = (as_table(each(one)).cast(schema) for one in mine.histories())
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
    each = partial(observe, end=end, over=over)
    return records_of(records).map_parts(TaskRecords.histories, each, schemas.OBSERVED)


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
