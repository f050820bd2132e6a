"""Follow topics into an archive, exactly once: a Structured Streaming job.

Spark's checkpoint numbers the micro-batches and stores the offsets of each before it runs. A
micro-batch reads its offsets, writes its files to a staging folder, and adds all of them to the
archive in one step (`sharelag.inputs.files.archive`), with its number. If it is killed before that
step, it is run again; if after, the archive already has its number. The tasks write to the archive
themselves: on a cluster it must be a shared folder.
"""

from __future__ import annotations

import json
import logging
import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from sharelag import schemas
from sharelag.errors import InputError, ShareLagError, TopicMissingError
from sharelag.inputs.files.archive import (
    GAP,
    GAPS,
    OFFSETS,
    RECORDS,
    ArchiveInfo,
    View,
    begin,
    commit,
    compact,
    current,
    hold_lock,
    require_same_topics,
    staging,
    write_parquet,
)
from sharelag.inputs.files.captures import of_share_groups
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.config import ClientConfig
from sharelag.inputs.spark import session
from sharelag.inputs.spark.data_source import FORMAT, register
from sharelag.inputs.spark.queries import brief, has_ended, require_streams, start_query
from sharelag.tables.arrow import for_spark
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC

_LOG = logging.getLogger(__name__)

# Seconds to wait, because a job that has just ended still locks the archive for a moment.
_LOCK_WAIT = 5.0

#: A task's report of a file that it wrote, or of a gap.
_REPORT = pa.schema([("task", pa.int32()), ("path", pa.string()), *GAP])


def follow(
    config: ClientConfig,
    folder: Path,
    *,
    topics: Sequence[str] = (STATE_TOPIC, GROUP_TOPIC),
    every: float = 10.0,
    until_now: bool = False,
    max_offsets_per_trigger: int = 500_000,
    compact_every: int = 100,
) -> StreamingQuery:
    """Start appending topics to an archive, from its end or from their beginning.

    Parameters
    ----------
    config : ClientConfig
    folder : pathlib.Path
        An archive to continue, or the path of a new one.
    topics : sequence of str
        The first must exist; missing ones are included from the next start on. Only the share group
        records of ``__consumer_offsets`` are stored.
    every : float
        Seconds between micro-batches, and between samples of all end offsets while there are no
        records.
    until_now : bool
        End when everything up to now has been archived.
    max_offsets_per_trigger : int
        Approximate maximum number of offsets per micro-batch.
    compact_every : int
        Number of micro-batches and samples after which small files are merged.

    Returns
    -------
    pyspark.sql.streaming.StreamingQuery
        Wait for it with ``awaitTermination()``; it can be stopped or killed at any time.

    Raises
    ------
    InputError
        When the folder has other contents, an archive of another cluster or other topics, or of
        topics that were deleted and created again since, one that has lost its checkpoint, or one
        that another job is writing to; or with Spark Connect.
    SetupError
        When Spark cannot run it.
    ClusterError
        One of its children.
    """
    folder = folder.absolute()
    ids = kafka.topic_ids(config, topics)
    there = {topic: _first_offsets(config, topic, topic != topics[0]) for topic in topics}
    spark = session()
    require_streams(spark, "follow into an archive from a process with its own Spark")
    info = begin(folder, kafka.cluster_id(config), there, config, ids)
    with ExitStack() as stack:
        if not stack.enter_context(hold_lock(folder / ".following", wait=_LOCK_WAIT)):
            raise InputError(
                f"another job is writing to {folder}: stop it first, or choose another folder"
            )
        checkpoint = folder / "checkpoint"
        last = current(folder).batch
        if last >= 0 and not (checkpoint / "offsets" / str(last)).exists():
            raise InputError(
                f"the checkpoint of the archive {folder} is missing or older than its records: "
                "create a new archive (this one can still be read)"
            )
        job = _Job(config, folder, info, compact_every)
        register(spark)
        options = {"subscribe": ",".join(name for name, first in there.items() if first)}
        options |= {"startingOffsets": _starting(info, there), "failOnDataLoss": "false"}
        options |= {"maxOffsetsPerTrigger": str(max_offsets_per_trigger), "includeGaps": "true"}
        options |= config.spark_options()
        rows = spark.readStream.format(FORMAT).options(**options).load()
        writer = rows.writeStream.foreachBatch(brief(job.append))
        writer = writer.option("checkpointLocation", str(checkpoint))
        trigger: dict[str, Any] = (
            {"availableNow": True} if until_now else {"processingTime": f"{every} seconds"}
        )
        query = start_query(writer.trigger(**trigger).start)
        held = stack.pop_all()
    threading.Thread(
        target=job.attend, args=(query, every, held), name="sharelag-follow", daemon=True
    ).start()
    return query


class _Job:
    def __init__(
        self, config: ClientConfig, folder: Path, info: ArchiveInfo, compact_every: int
    ) -> None:
        self.config, self.folder, self.info = config, folder, info
        self.compact_every = compact_every
        self.scratch = staging(folder, "follow")
        self.commits = count(1)
        self.sampled = 0.0
        self._naming = threading.Lock()  # both threads take samples
        newest = current(folder).files(OFFSETS)[-1:]
        self.newest = max((int(path.stem.rpartition("-to-")[2]) for path in newest), default=0)

    def append(self, rows: DataFrame, batch: int) -> None:
        view = current(self.folder)
        if batch <= view.batch:
            return
        day = _day(view)
        scratch = self.scratch / f"{batch}"
        scratch.mkdir()
        write = partial(_write, str(scratch))
        report = rows.mapInArrow(write, schemas.spark_schema(_REPORT)).toArrow()
        is_file = report.column("path").is_valid()
        add = {}
        for row in report.filter(is_file).to_pylist():
            of_day = f"{RECORDS}/source={row['topic']}/day={day}"
            add[f"{of_day}/{batch:012d}-{row['task']:05d}.parquet"] = Path(row["path"])
        gaps = report.filter(pc.invert(is_file)).select(GAP.names).cast(GAP)
        if gaps.num_rows:
            add |= _aside(scratch, f"{GAPS}/{batch:012d}.parquet", gaps)
        # Sample ends after reading the records: otherwise lag could be negative.
        add |= self._sample(scratch, day)
        commit(self.folder, add, batch=batch, day=day)
        shutil.rmtree(scratch)  # including files of failed task attempts
        self._tidy()

    def attend(self, query: StreamingQuery, every: float, held: ExitStack) -> None:
        """Sample end offsets while no records arrive, until the query ends; then release `held`."""
        scratch = self.scratch / "idle"
        scratch.mkdir()
        with held:
            while not has_ended(query):
                if time.monotonic() - self.sampled < max(every, 1.0):
                    continue
                day = _day(current(self.folder))
                try:
                    sample = self._sample(scratch, day)
                    commit(self.folder, sample, day=day)
                    self._tidy()
                except (ShareLagError, OSError) as error:  # even a full disk may recover
                    _LOG.warning("could not sample end offsets: %s", error)
                    self.sampled = time.monotonic()
                for path in scratch.iterdir():
                    path.unlink()

    def _tidy(self) -> None:
        """Merge small files periodically; a damaged file does not end the job."""
        if next(self.commits) % self.compact_every == 0:
            try:
                compact(self.folder)
            except (InputError, OSError) as error:
                _LOG.warning("small files of the archive stay as they are: %s", error)

    def _sample(self, scratch: Path, day: str) -> dict[str, Path]:
        config = self.config.renew()  # so that silent brokers do not shorten the next sample
        offsets = kafka.list_offsets(config, kafka.topic_ids(config))
        # Requested after records and ends, these reveal another cluster or a topic created again.
        ids = kafka.topic_ids(config, list(self.info.topics))
        require_same_topics(self.folder, self.info, ids)
        self.sampled = time.monotonic()
        with self._naming:
            self.newest = newest = max(time.time_ns(), self.newest + 1)
        name = f"{OFFSETS}/day={day}/{newest:020d}.parquet"
        return _aside(scratch, name, offsets.cast(schemas.OFFSETS))


def _day(view: View) -> str:
    """Return today; clocks can go back, but days of an archive must not: they order files."""
    return max(f"{datetime.now(UTC):%Y-%m-%d}", view.day)


def _aside(scratch: Path, name: str, table: pa.Table) -> dict[str, Path]:
    path = scratch / f"{uuid4().hex}.parquet"
    write_parquet(path, table.schema, table.to_batches())
    return {name: path}


def _write(scratch: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the records of one task, of one topic partition, to a file; report it and gaps."""
    from pyspark import TaskContext  # missing if only the client of Spark Connect is installed

    path = Path(scratch) / f"{uuid4().hex}.parquet"
    gaps: list[pa.RecordBatch] = []
    topics: set[str] = set()
    names = ("topic", "partition", "offset", "gapEnd", "timestamp")

    def records() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            is_gap = batch.column("gapEnd").is_valid()
            rows = batch.filter(is_gap)
            columns = [rows.column(name).cast(of.type) for name, of in zip(names, GAP, strict=True)]
            gaps.append(pa.RecordBatch.from_arrays(columns, schema=GAP))
            found = batch.filter(pc.invert(is_gap)).select(schemas.RAW.names).cast(schemas.RAW)
            found = of_share_groups(found)
            topics.update(pc.unique(found.column("topic")).to_pylist())
            yield found

    write_parquet(path, schemas.RAW, records())
    context = TaskContext.get()
    task = context.partitionId() if context else 0
    files = [{"task": task, "path": str(path), "topic": topic} for topic in topics]
    if not files:
        path.unlink()
    yield for_spark(pa.RecordBatch.from_pylist(files, schema=_REPORT), _REPORT)
    for gap in gaps:
        yield for_spark(gap, _REPORT)


def _first_offsets(config: ClientConfig, topic: str, optional: bool) -> list[int]:
    try:
        return [first for _, (first, _) in sorted(kafka.offset_ranges(config, topic).items())]
    except TopicMissingError:
        if not optional:
            raise
        return []


def _starting(info: ArchiveInfo, there: Mapping[str, Sequence[int]]) -> str:
    """Return the start of the archive: the log start at its creation, 0 for later partitions.

    With "earliest", a job killed in its first micro-batch would restart from the log start at that
    time, and records pruned in the meantime would be missing without a gap.
    """
    offsets = {}
    for topic, now in there.items():
        then = info.topics[topic]
        offsets[topic] = {str(p): then[p] if p < len(then) else 0 for p in range(len(now))}
    return json.dumps({topic: each for topic, each in offsets.items() if each})
