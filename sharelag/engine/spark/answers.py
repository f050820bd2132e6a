"""Lag, imbalance, progress, health and ledgers, computed from states, offsets and letters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sharelag import schemas
from sharelag.engine.spark import states
from sharelag.engine.spark.packing import FOUND, Batches, meet, pack_table, read_tables, to_bytes
from sharelag.engine.spark.states import column_names, records_of
from sharelag.engine.spark.tasks import Records, TaskRecords, origin_of
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
from sharelag.metrics.progress import progress_of
from sharelag.metrics.reconcile import reconcile_arrow
from sharelag.tables.arrow import for_spark, one_batch

if TYPE_CHECKING:
    from sharelag.inputs.spark.frames import Tabular

_BY = list(schemas.SHARE_PARTITION)
#: An earlier end offset beside the lag.
_PAST = pa.field("past_end_offset", pa.int64())


def lag(windows: Tabular, offsets: Tabular) -> DataFrame:
    """Return the lag of every share partition, term by term.

    Parameters
    ----------
    windows : DataFrame of Spark or pandas, or pyarrow.Table
        `sharelag.schemas.WINDOWS`, read before the offsets; or raw or decoded records of the state
        topic, of which the windows are found on the way.
    offsets : the same
        `sharelag.schemas.OFFSETS`; of several rows of a topic partition the latest by ``as_of``,
        and of one moment that with the largest end.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.LAG`; see `sharelag.metrics.lag` for what the terms mean.

    Notes
    -----
    Of windows that `windows` returns, their records are replayed in the same task; all end offsets
    are sent to each task. Those of `offsets` of a cluster, of a table of this process and of small
    Parquet files are read when this is called; others are a query.
    """
    ends_of, beside = _send_ends(offsets)
    origin = origin_of(windows)
    if isinstance(origin, states.Replayed):
        windows = origin.records
    elif "window_end_offset" in column_names(windows):
        # The lag does not need the batches: null stands for them.
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
    """Return what gives a task the last known ends, and what is sent to it for that."""
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


def rollup(lag: Tabular, by: str) -> DataFrame:
    """Sum a lag table up by ``"group"`` or ``"topic"``; see `sharelag.metrics.lag.rollup_arrow`."""
    rollup_keys(by)  # an unknown one is refused before anything is read
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
    """How unevenly the load of each group is spread.

    Parameters
    ----------
    lag, members, groups, observed, past, brokers : DataFrame of Spark or pandas, or pyarrow.Table
        As for `sharelag.metrics.imbalance.imbalance_arrow`; all but the first are optional.
    by : {"partition", "topic", "member", "broker"}, optional
        Only the rows over these.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.IMBALANCE`; all tables of a group meet in one task.
    """
    require_over(by)
    given = {"lag": lag, "members": members, "groups": groups, "observed": observed}
    given["brokers"] = brokers
    return _of_loads(given, past, partial(imbalance_arrow, by=by), schemas.IMBALANCE)


def skew(
    lag: Tabular,
    members: Tabular | None = None,
    groups: Tabular | None = None,
    observed: Tabular | None = None,
    past: Tabular | None = None,
) -> DataFrame:
    """Return `sharelag.metrics.imbalance.SKEW`; parameters as for `imbalance`."""
    given = {"lag": lag, "members": members, "groups": groups, "observed": observed}
    return _of_loads(given, past, skew_arrow, SKEW)


def _of_loads(
    given: dict[str, Any],
    past: Tabular | None,
    each: Callable[..., pa.RecordBatch],
    schema: pa.Schema,
) -> DataFrame:
    """Bring the loads of each group into one task."""
    columns, has_past = NEEDED, past is not None
    if past is not None:  # offsets belong to no group, so they go with the lag
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
    """Age, rates, drain and retention of every share partition.

    Parameters
    ----------
    lag, observed : DataFrame of Spark or pandas, or pyarrow.Table
        `sharelag.schemas.LAG` and `OBSERVED`.
    known : Evidence
        What the input tells: ``as_of``, ``past_offsets``, ``times``, ``committed``, ``logs``,
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
        `sharelag.schemas.HEALTH`; see `sharelag.metrics.health` for what the figures mean.
    """
    found = records_of(raw)
    if found.decoded:
        raise InputError(
            "the health of the state topic is about raw records, and these are decoded: give the "
            "raw ones, with the columns " + ", ".join(schemas.RAW.names)
        )
    found = replace(found, generation=found.generation if generation is None else generation)

    def health_task(mine: TaskRecords) -> Batches:
        yield find_health(mine, partitions)

    return found.map(health_task, schemas.HEALTH)


def find_health(mine: TaskRecords, partitions: Partitions = None) -> pa.RecordBatch:
    """Return `sharelag.schemas.HEALTH` of the state partitions that one task has."""
    counts = [mine.raw.apply(lambda raw: gather(raw, mine.generation, mine.kafka_version))]
    counts += [count_finished(part) for part in mine.histories()]
    return health_arrow(pa.concat_tables(counts), partitions)


#: Offsets of a queue that one task reads.
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
