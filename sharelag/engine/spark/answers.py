"""Functions of DataFrames: decoded records, windows, members and groups, and tables from these.

`records_of` finds the records behind a user's DataFrame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from sharelag import schemas
from sharelag.engine.spark.packing import (
    FOUND,
    REPLAYED,
    Batches,
    meet,
    pack_table,
    read_tables,
    to_bytes,
)
from sharelag.engine.spark.tasks import Records, TaskRecords, is_written_by, origin_of, set_origin
from sharelag.errors import InputError
from sharelag.inputs.offsets import fold_ends, latest_ends
from sharelag.inputs.queues import Queue, read_queue
from sharelag.inputs.spark.files import raw_frame
from sharelag.inputs.spark.frames import as_frame, frame_of, is_of_spark, read_here
from sharelag.inputs.spark.workers import map_in_arrow
from sharelag.metrics.dead_letters import count_letters, ledger_arrow, letters_arrow
from sharelag.metrics.evidence import Evidence
from sharelag.metrics.health import Partitions, count_finished, gather, health_arrow
from sharelag.metrics.imbalance import NEEDED, SKEW, imbalance_arrow, require_over, skew_arrow
from sharelag.metrics.lag import OFFSET_KEYS, diff_arrow, lag_arrow, rollup_arrow, rollup_keys
from sharelag.metrics.observed import observe
from sharelag.metrics.progress import progress_of
from sharelag.metrics.reconcile import reconcile_arrow
from sharelag.model.versions import Version, require_version
from sharelag.replay.members import find_deleted_groups, groups_arrow, members_arrow
from sharelag.replay.moment import Moment, as_moment
from sharelag.tables.arrow import as_table, for_spark, one_batch
from sharelag.wire.decode import decode_arrow
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC
from sharelag.wire.generations import require_generation

if TYPE_CHECKING:
    from sharelag.inputs.spark.frames import Tabular


class Decoded(NamedTuple):
    """Records and rejects of raw records, both lazy: each reads the raw records when it is used."""

    records: DataFrame
    rejects: DataFrame


def decode(
    raw: Tabular,
    topic: str = STATE_TOPIC,
    generation: int | None = None,
    kafka_version: Version = None,
) -> Decoded:
    """Decode raw Kafka records from any connector, table or stream.

    Parameters
    ----------
    raw : DataFrame of Spark or pandas, or pyarrow.Table
        The columns of Spark's own Kafka source (`sharelag.schemas.RAW`); others are ignored. Rows
        of both topics may be mixed.
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
        A column is missing or has the wrong type, or the generation or version does not exist.

    Notes
    -----
    ``windows``, ``history``, ``members`` and the other functions take ``raw`` itself. Given
    ``records`` exactly as returned here, they read ``raw`` in one pass anyway. Given filtered or
    stored records, they read those.
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
    """Return the records of a topic, given raw, or decoded by `decode` now or earlier.

    Missing columns, columns of the wrong type and streams are an InputError.
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
    """Return whether records count as raw: all do whose columns are not those of decoded ones."""
    names = column_names(given)
    return "key" in names or "record_type" not in names


def column_names(given: Tabular) -> list[str]:
    """Return the column names of a DataFrame or a table; none for anything else."""
    if isinstance(given, pa.Table | pa.RecordBatch):
        return list(given.schema.names)
    columns: Any = getattr(given, "columns", None)
    if columns is None:  # an object that exports Arrow streams
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


#: A task's counts of the raw records that it read.
COUNTED = pa.schema(
    [
        ("records", pa.int64()),
        ("rejected", pa.int64()),  # could not be decoded
        ("first", schemas.TIMESTAMP),  # write times of the first and the last record
        ("last", schemas.TIMESTAMP),
        ("repeated", pa.int64()),  # repetitions of other records
    ]
)


class Replayed(NamedTuple):
    """The records from which windows were computed."""

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
        The last record to take into account. Offsets exclude state partitions that they do not
        name.
    kafka_version : str, optional
        Version of the brokers, such as ``4.3.1``; the newest if there is none. It decides whether
        equal neighbours among the batches are one, and how decoding goes: see `sharelag.decode`.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.WINDOWS`, one row per share partition that exists.

    Notes
    -----
    The records are read once, and only the needed columns. The rows of a task are exchanged as
    compressed bytes, once, so that one task has all of a state partition.
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
    """Yield windows, counts and gaps of one task's records, by name."""
    found = mine.replay()
    times = [pa.array([at], pa.int64()).view(schemas.TIMESTAMP) for at in (found.first, found.last)]
    numbers = [pa.array([n]) for n in (found.records, found.rejected)]
    counted = [*numbers, *times, pa.array([mine.raw.repeated])]
    yield "windows", found.windows
    yield "deleted", found.deleted
    yield "counted", pa.RecordBatch.from_arrays(counted, schema=COUNTED)
    yield "gaps", mine.raw.gaps


def find(
    mine: TaskRecords,
    with_states: bool,
    until: datetime | None,
    over: timedelta,
    with_members: bool,
) -> Iterator[tuple[str, schemas.Arrow]]:
    """Yield states, the history observed until a moment, and members of one task's records.

    Without a moment, no history is observed.
    """
    if with_states:
        yield from find_states(mine)
    if until is not None:
        found = [as_table(observe(one, until, over)) for one in mine.histories()]
        yield "observed", pa.concat_tables([schemas.OBSERVED.empty_table(), *found])
    if with_members:
        yield from find_membership(mine)


def history(records: Tabular | Records, gaps: pa.Table | None = None) -> DataFrame:
    """Return the state of every share partition after each of its records.

    Parameters
    ----------
    records : DataFrame of Spark or pandas, or pyarrow.Table
        Raw records (`sharelag.schemas.RAW`), or decoded ones (`RECORDS`).
    gaps : pyarrow.Table, optional
        `sharelag.schemas.GAPS`: missing offsets between decoded records. Gaps between raw records
        are found automatically.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.HISTORY`, one row per record; share partitions are contiguous, each in log
        order.
    """
    return records_of(records).map(partial(TaskRecords.histories, gaps=gaps), schemas.HISTORY)


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


#: A task's counts of the groups' records, as `sharelag.engine.GroupRecordCounts`.
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
    """Yield members, groups and counts of one task's records, by name."""
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


# ---- lag, imbalance, progress, health and ledgers ------------------------------------------------


_BY = list(schemas.SHARE_PARTITION)
#: An earlier end offset beside the lag.
_PAST = pa.field("past_end_offset", pa.int64())


def lag(windows: Tabular, offsets: Tabular) -> DataFrame:
    """Return the lag of every share partition, term by term.

    Parameters
    ----------
    windows : DataFrame of Spark or pandas, or pyarrow.Table
        `sharelag.schemas.WINDOWS`, read before the offsets; or raw or decoded records of the state
        topic, from which the windows are computed.
    offsets : the same
        `sharelag.schemas.OFFSETS`. The latest row of a topic partition by ``as_of`` counts, and
        among equal times the one with the largest end.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.LAG`; see `sharelag.metrics.lag` for the meaning of the terms.

    Notes
    -----
    The records of windows returned by `windows` are replayed in the same task; all end offsets are
    sent to each task. Offsets of a cluster, of a table in this process and of small Parquet files
    are read when this function is called; others are a query. A share partition has a row for each
    of its states; answers of `sharelag.open` choose one (`sharelag.metrics.lag.choose_states`).
    """
    ends_of, beside = _send_ends(offsets)
    origin = origin_of(windows)
    if isinstance(origin, Replayed):
        windows = origin.records
    elif "window_end_offset" in column_names(windows):
        _refuse_stream(windows, "windows")
        # The lag does not need the batches, so they are null.
        names = [name for name in schemas.WINDOWS.names if name != "batches"]
        frame = as_frame(windows, schemas.WINDOWS, "windows").select(names)

        def lag_task(batches: Iterable[pa.RecordBatch], *sent: pa.Buffer) -> Batches:
            known = ends_of(*sent)
            for batch in batches:
                found = lag_arrow(for_spark(batch, schemas.WINDOWS), known)
                yield for_spark(found, schemas.LAG)

        return map_in_arrow(frame, lag_task, schemas.LAG, beside)

    def replay_task(mine: TaskRecords, *sent: pa.Buffer) -> Batches:
        yield lag_arrow(mine.replay().windows, ends_of(*sent))

    return records_of(windows).map(replay_task, schemas.LAG, beside)


def _send_ends(offsets: Tabular) -> tuple[Callable[..., pa.Table], DataFrame | None]:
    """Return a function that gives a task the last known ends, and the DataFrame that it needs."""
    _refuse_stream(offsets, "offsets")
    if not is_of_spark(offsets):
        known = schemas.conform_given(offsets, schemas.OFFSETS, "offsets")
    elif (known := origin_of(offsets)) is None:
        known = read_here(offsets, later=True)
    if isinstance(known, pa.Table):
        ends = to_bytes(latest_ends(known))
        return lambda: read_tables(pa.py_buffer(ends), schemas.OFFSETS), None
    rows = as_frame(offsets, schemas.OFFSETS, "offsets").select(schemas.OFFSETS.names)

    def pack_task(batches: Iterable[pa.RecordBatch]) -> Batches:
        yield pack_table("ends", fold_ends(batches, latest_ends))

    beside = map_in_arrow(rows, pack_task, FOUND).select("rows")
    return lambda packed: latest_ends(read_tables(packed, schemas.OFFSETS)), beside


def _refuse_stream(given: Any, what: str) -> None:
    if is_of_spark(given) and given.isStreaming:
        raise InputError(
            f"the {what} are a stream: use sharelag.stream.lag, or write them to a table and read "
            "that"
        )


def rollup(lag: Tabular, by: str) -> DataFrame:
    """Sum a lag table by ``"group"`` or ``"topic"``; see `sharelag.metrics.lag.rollup_arrow`."""
    rollup_keys(by)  # refuses an unknown key before anything is read
    each = partial(rollup_arrow, by=by)
    return meet({"lag": lag}, {"lag": schemas.LAG}, ["group_id"], each, schemas.ROLLUP)


def imbalance(
    lag: Tabular,
    members: Tabular | None = None,
    groups: Tabular | None = None,
    observed: Tabular | None = None,
    past: Tabular | None = None,
    by: str | None = None,
    brokers: Tabular | None = None,
) -> DataFrame:
    """Return how unevenly the load of each group is spread.

    Parameters
    ----------
    lag, members, groups, observed, past, brokers : DataFrame of Spark or pandas, or pyarrow.Table
        As for `sharelag.metrics.imbalance.imbalance_arrow`; all but the first are optional.
    by : {"partition", "topic", "member", "broker"}, optional
        Restrict the answer to rows over these.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.IMBALANCE`; all tables of a group meet in one task.
    """
    require_over(by)
    given = {"lag": lag, "members": members, "groups": groups, "observed": observed}
    given["brokers"] = brokers
    return _meet_loads(given, past, partial(imbalance_arrow, by=by), schemas.IMBALANCE)


def skew(
    lag: Tabular,
    members: Tabular | None = None,
    groups: Tabular | None = None,
    observed: Tabular | None = None,
    past: Tabular | None = None,
) -> DataFrame:
    """Return `sharelag.metrics.imbalance.SKEW`; parameters as for `imbalance`."""
    given = {"lag": lag, "members": members, "groups": groups, "observed": observed}
    return _meet_loads(given, past, skew_arrow, SKEW)


def _meet_loads(
    given: dict[str, Any],
    past: Tabular | None,
    each: Callable[..., pa.RecordBatch],
    schema: pa.Schema,
) -> DataFrame:
    """Bring all loads of a group into one task."""
    columns, has_past = NEEDED, past is not None
    if past is not None:  # offsets do not belong to a group, so they travel with the lag
        past = as_frame(past, NEEDED["past"], "past")
        then = past.select(NEEDED["past"].names).dropDuplicates(OFFSET_KEYS)
        then = then.withColumnRenamed("end_offset", _PAST.name)
        lag = as_frame(given["lag"], NEEDED["lag"], "lag")
        given["lag"] = lag.select(NEEDED["lag"].names).join(then, OFFSET_KEYS, "left")
        columns = NEEDED | {"lag": NEEDED["lag"].append(_PAST)}

    def spread(**tables: pa.Table) -> pa.RecordBatch:
        if has_past:
            then = tables["lag"].select([*OFFSET_KEYS, _PAST.name])
            tables["past"] = then.rename_columns([*OFFSET_KEYS, "end_offset"])
            tables["lag"] = tables["lag"].drop_columns(_PAST.name)
        return each(**tables)

    return meet(given, columns, ["group_id"], spread, schema)


def progress(lag: Tabular, observed: Tabular, known: Evidence) -> DataFrame:
    """Return age, rates, time to drain and retention of every share partition.

    Parameters
    ----------
    lag, observed : DataFrame of Spark or pandas, or pyarrow.Table
        `sharelag.schemas.LAG` and `OBSERVED`.
    known : Evidence
        What the input knows: ``as_of``, ``past_offsets``, ``times``, ``committed``, ``logs``,
        ``groups`` and ``settings``; one row per topic partition, group or setting, which every task
        gets.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.PROGRESS`; see `sharelag.metrics.progress.progress_of`.
    """

    def judge(**tables: pa.Table) -> pa.Table:
        return progress_of(replace(known, **tables))

    columns = {"lag": schemas.LAG, "observed": schemas.OBSERVED}
    return meet({"lag": lag, "observed": observed}, columns, ["group_id"], judge, schemas.PROGRESS)


def diff(before: Tabular, after: Tabular) -> DataFrame:
    """Compare the windows of two moments; see `sharelag.metrics.lag.diff_arrow`.

    Parameters
    ----------
    before, after : DataFrame of Spark or pandas, or pyarrow.Table
        `sharelag.schemas.WINDOWS`.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.DIFF`, without names of topics.
    """
    columns = dict.fromkeys(("before", "after"), schemas.WINDOWS)
    return meet({"before": before, "after": after}, columns, _BY, diff_arrow, schemas.DIFF)


def reconcile(
    lag: Tabular, described: Tabular | None = None, scanned: Tabular | None = None
) -> DataFrame:
    """Return lag by several definitions; see `sharelag.metrics.reconcile.reconcile_arrow`.

    Parameters
    ----------
    lag, described, scanned : DataFrame of Spark or pandas, or pyarrow.Table
        `sharelag.schemas.LAG`, `sharelag.schemas.DESCRIBED` and `SCANNED`.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.RECONCILED`.
    """
    given = {"lag": lag, "described": described, "scanned": scanned}
    columns = {"lag": schemas.LAG, "described": schemas.DESCRIBED, "scanned": schemas.SCANNED}
    return meet(given, columns, ["group_id"], reconcile_arrow, schemas.RECONCILED)


def health(
    raw: Tabular | Records, partitions: Partitions = None, generation: int | None = None
) -> DataFrame:
    """Return the health of every partition of the state topic.

    Parameters
    ----------
    raw : DataFrame of Spark or pandas, or pyarrow.Table
        `sharelag.schemas.RAW`.
    partitions : int, mapping of topic to int, or None
        The number of partitions of the state topic; without it misplaced records are unknown.
    generation : int, optional
        As for `sharelag.wire.decode_arrow`.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.HEALTH`; see `sharelag.metrics.health` for the meaning of the figures.
    """
    found = records_of(raw)
    if found.decoded:
        raise InputError(
            "the health of the state topic needs raw records, and these are decoded: give the raw "
            "ones, with the columns " + ", ".join(schemas.RAW.names)
        )
    found = replace(found, generation=found.generation if generation is None else generation)

    def health_task(mine: TaskRecords) -> Batches:
        yield find_health(mine, partitions)

    return found.map(health_task, schemas.HEALTH)


def find_health(mine: TaskRecords, partitions: Partitions = None) -> pa.RecordBatch:
    """Return `sharelag.schemas.HEALTH` of one task's state partitions."""
    counts = [mine.raw.apply(lambda raw: gather(raw, mine.generation, mine.kafka_version))]
    counts += [count_finished(part) for part in mine.histories()]
    return health_arrow(pa.concat_tables(counts), partitions)


#: Number of a queue's offsets that one task reads.
PIECE = 100_000
_PIECES = pa.schema([("partition", pa.int32()), ("first", pa.int64()), ("end", pa.int64())])


def letters(
    spark: SparkSession,
    queue: Queue,
    names: Mapping[str, str],
    groups: frozenset[str] = frozenset(),
    piece: int = PIECE,
) -> DataFrame:
    """Return the letters of a queue, `sharelag.schemas.COUNTED_LETTERS`, as `count_letters` does.

    A task reads ``piece`` offsets of a running cluster; no payload leaves the tasks.
    """
    known = dict(names)

    def letters_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = letters_arrow(batch.cast(schemas.WITH_HEADERS))
            yield for_spark(one_batch(count_letters(found, known, groups)), schemas.COUNTED_LETTERS)

    if queue.config is None:
        files = queue.paths
        given = queue.given if files is None else raw_frame(spark, files, schemas.WITH_HEADERS)
        frame = as_frame(given, schemas.WITH_HEADERS, "the dead-letter queue", spark)
        frame = frame.select(schemas.WITH_HEADERS.names)
        return map_in_arrow(frame, letters_task, schemas.COUNTED_LETTERS)
    config, topic = queue.config, queue.topic

    def read_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for row in (row for batch in batches for row in batch.to_pylist()):
            span = {row["partition"]: (row["first"], row["end"])}
            yield from letters_task(read_queue(config, topic, span))

    pieces = [
        {"partition": partition, "first": begin, "end": end}
        for partition, span in queue.ranges.items()
        for begin, end in pairwise([*range(span[0], span[1], piece), span[1]])
    ]
    rows = frame_of(spark, pa.Table.from_pylist(pieces, schema=_PIECES))
    return map_in_arrow(rows.repartition(max(len(pieces), 1)), read_task, schemas.COUNTED_LETTERS)


def ledger(
    archived: DataFrame, found: DataFrame, lag: DataFrame, limits: pa.Table, now: int
) -> DataFrame:
    """Compare archived offsets with letters, each share partition in one task.

    The tables are `sharelag.schemas.ARCHIVED_RUNS`, `COUNTED_LETTERS` and `LAG`; the result is
    `LEDGER`.
    """
    tables = {"archived": archived, "letters": found, "lag": lag}
    columns = {
        "archived": schemas.ARCHIVED_RUNS,
        "letters": schemas.COUNTED_LETTERS,
        "lag": schemas.LAG,
    }
    each = partial(ledger_arrow, limits=limits, now=now)
    return meet(tables, columns, _BY, each, schemas.LEDGER)
