"""Current windows and lag: tables in this process that a stream keeps up to date.

The stream starts with the whole state topic, as Kafka's own coordinators do, or with all records of
the user's stream. It has no earlier state to continue from, so a restart never brings back stale
data. After each micro-batch, and regularly while there is none, end offsets are requested, and
then the lag of every share partition is computed. In the other order it could seem negative.

If lag cannot be computed, the tables stay unchanged, and `Live.stale` says why they are not
current. If brokers are away, or have no state topic at that moment, the stream starts again as soon
as they answer with it.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sharelag import schemas
from sharelag.durations import parse_duration
from sharelag.engine.spark.cluster import config_of
from sharelag.engine.spark.stream.changes import updated, windows
from sharelag.errors import (
    ClusterError,
    DataLossError,
    InputError,
    ShareLagError,
    TopicMissingError,
    are_away,
    first_line,
    is_of,
    raised_in_worker,
)
from sharelag.inputs import KafkaInput
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.config import ClientConfig
from sharelag.inputs.offsets import latest_ends
from sharelag.inputs.spark import session
from sharelag.inputs.spark.data_source import FORMAT, register, require_admission_control
from sharelag.inputs.spark.ends import Ends, read_ends
from sharelag.inputs.spark.frames import FrameInput, as_frame
from sharelag.inputs.spark.queries import brief, has_ended, require_own_process, start_query
from sharelag.inputs.spark.sessions import set_meanwhile
from sharelag.metrics.lag import choose_states, lag_arrow
from sharelag.model.versions import Version
from sharelag.replay.state import DELETED
from sharelag.tables import render, views
from sharelag.tables.displayable import Displayable
from sharelag.tables.gaps import of_lag
from sharelag.tables.presentation import Presentation
from sharelag.tables.words import moment, pluralize
from sharelag.wire.fields import STATE_TOPIC

if TYPE_CHECKING:
    from sharelag.inputs.spark.frames import Tabular

_LOG = logging.getLogger(__name__)

#: Called with windows and lag (`sharelag.schemas.WINDOWS`, `LAG`) each time lag was computed.
OnUpdate = Callable[[pa.Table, pa.Table], None]

# Each shuffle partition is a Python worker and a state store in every micro-batch.
_MOST_PARTITIONS = 8

# Seconds between restarts while brokers are away; each restart also waits for the timeout.
_SHORTEST_PAUSE, _LONGEST_PAUSE = 1.0, 10.0


class Live(Displayable):
    """Current windows and lag of a cluster. Created by `sharelag.stream.watch`."""

    def __init__(
        self,
        source: ClientConfig | FrameInput,
        spark: SparkSession,
        groups: frozenset[str],
        every: float,
        on_update: OnUpdate | None,
        checkpoints: str | Path | None,
        topic: str = STATE_TOPIC,
        generation: int | None = None,
    ) -> None:
        self._source: _Topic | _Stream = (
            _Stream(source) if isinstance(source, FrameInput) else _Topic(source, topic)
        )
        self._groups, self._every, self._on_update = groups, every, on_update
        self._generation = generation
        self._checkpoints = checkpoints
        self._spark = spark
        # Of all records read: windows, and those of deleted states.
        self._found = self._deleted = schemas.WINDOWS.empty_table()
        self._windows = schemas.WINDOWS.empty_table()  # of the current lag
        self._lag = schemas.LAG.empty_table()
        self._number = 0  # counts computed lags and changes of `_why`
        self._sampled = 0.0
        self._current = False  # whether the windows include all initial records
        self._checkpoint: Path | None = None
        self._why: str | None = None  # why the lag is not current
        self._failure: ShareLagError | None = None
        self._changed = threading.Condition(threading.RLock())
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sharelag-live", daemon=True)
        self._thread.start()

    @property
    def lag(self) -> pa.Table:
        """`sharelag.schemas.LAG` at the last sample of end offsets, whose time is in ``as_of``."""
        return self._lag

    @property
    def windows(self) -> pa.Table:
        """`sharelag.schemas.WINDOWS` of this lag."""
        return self._windows

    @property
    def stale(self) -> str | None:
        """The reason why the lag is not current: what failed, or that the stream has ended.

        None while it is current, and again once lag can be computed, for example when brokers
        answer again.
        """
        if self._failure is not None:
            return str(self._failure)
        return "it was stopped" if self._stopped.is_set() else self._why

    def updates(self, seconds: float | None = None) -> Iterator[pa.Table]:
        """Yield the current lag, and then each time that it moved or that `stale` changed.

        Parameters
        ----------
        seconds : float, optional
            Duration; by default until `stop`.

        Yields
        ------
        pyarrow.Table
            `lag`. If it changes faster than it is consumed, intermediate states are skipped. While
            it is not current, it is yielded unchanged, once for each reason.

        Raises
        ------
        ClusterError
            The stream ended by itself. Brokers or a topic that are away do not end it.
        """
        until = None if seconds is None else time.monotonic() + seconds
        seen, number = None, 0
        while (number := self.wait(number, until)) and not self._stopped.is_set():
            with self._changed:
                lag, why = self._lag, self._why
            now = lag.drop_columns("as_of"), why
            if now != seen:
                seen = now
                yield lag

    def check(self) -> None:
        """Check that the stream is running; raise the error that ended it."""
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Stop the stream; the last tables stay available."""
        self._stopped.set()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return render.as_text(self.presentation())

    def presentation(self) -> Presentation:
        """Return the current lag, and whether it is still current."""
        lag, stale = self._lag, self.stale
        return Presentation(
            title=f"Lag of {pluralize(len(lag), 'share partition')}, live",
            when=f"as of {moment(pc.max(lag.column('as_of')).as_py())}",
            table=lag,
            columns=views.LAG.columns,
            source=f"{self._source.describe()}, spark engine",
            unknown=of_lag(lag),
            notes=(f"no longer current: {stale}",) if stale else (),
            order="lag",
        )

    def wait(self, number: int = 0, until: float | None = None) -> int:
        """Wait for a newer lag or until a monotonic time; return the new number, or 0.

        ``number`` is the result of the last call. Raises the error that ended the stream.
        """
        with self._changed:
            seconds = None if until is None else max(until - time.monotonic(), 0.0)
            self._changed.wait_for(
                lambda: self._number > number or self._failure or self._stopped.is_set(), seconds
            )
            self.check()
            return self._number if self._number > number else 0

    # ---- internals -------------------------------------------------------------------------------

    def _run(self) -> None:
        """Follow until stopped, and start again while brokers or the topic are away."""
        pause = _SHORTEST_PAUSE
        try:
            while not self._stopped.is_set():
                try:
                    self._follow()
                except Exception as error:
                    if not self._number or not _say_when_it_continues(error):
                        raise
                    self._note_failure(error)
                    pause = _SHORTEST_PAUSE if self._current else min(2 * pause, _LONGEST_PAUSE)
                    self._stopped.wait(pause)
        except BaseException as error:
            ended = raised_in_worker(error) or ClusterError(first_line(error))
            why = f"the stream of {self._source.records} has ended ({ended}): watch again"
            self._failure = error if isinstance(error, ShareLagError) else type(ended)(why)
        with self._changed:
            self._changed.notify_all()

    def _follow(self) -> None:
        """Read records from the beginning until stopped, or until some were pruned unread."""
        self._current = False
        self._found = self._deleted = schemas.WINDOWS.empty_table()
        query = start_query(self._start)
        try:
            self._sample_ends(query)
        finally:
            if query.isActive:
                query.stop()
            self._tidy()

    def _note_failure(self, error: BaseException) -> None:
        """Keep the lag, and store the reason, which may change: another broker may be away now."""
        message = str(raised_in_worker(error) or first_line(error))
        self._set_stale(". ".join(filter(None, (message, _say_when_it_continues(error)))))

    def _set_stale(self, why: str) -> None:
        with self._changed:
            if why != self._why:
                if self._why is None:  # the reason of each attempt has other milliseconds
                    _LOG.warning("the lag is not current: %s", why)
                self._why = why
                self._number += 1
                self._changed.notify_all()

    def _start(self) -> StreamingQuery:
        raw = self._source.read(self._spark)
        changes = windows(
            raw,
            groups=self._groups,
            generation=self._generation,
            kafka_version=self._source.kafka_version,
        )
        writer = changes.writeStream.outputMode("update")
        self._tidy()
        if self._checkpoints:
            self._checkpoint = Path(self._checkpoints) / uuid4().hex
            writer = writer.option("checkpointLocation", str(self._checkpoint))
        partitions = min(self._spark.sparkContext.defaultParallelism, _MOST_PARTITIONS)
        writer = writer.foreachBatch(brief(self._take))
        with set_meanwhile(self._spark, "spark.sql.shuffle.partitions", str(partitions)):
            return writer.trigger(processingTime=f"{self._every} seconds").start()

    def _take(self, changes: DataFrame, _: int) -> None:
        rows = changes.toArrow()
        with self._changed:
            self._found = updated(self._found, rows)
            self._deleted = updated(self._deleted, rows, deleted=True)
            self._current |= self._source.first_is_all
            if self._current:
                self._compute()

    def _sample_ends(self, query: StreamingQuery) -> None:
        """Sample end offsets while no records arrive, until the query ends or is to end."""
        while not self._stopped.is_set():
            with self._changed:
                if not self._current:
                    self._current = self._source.is_read(query)
                    progress = query.lastProgress
                    if not self._current and progress is not None and progress["batchId"] > 0:
                        self._set_stale(
                            f"{self._source.records} that were there when the stream began are "
                            "still being read"
                        )
                if self._current and time.monotonic() - self._sampled >= max(self._every, 1.0):
                    self._compute()
            if has_ended(query):
                break
        if self._stopped.is_set():
            return
        failure = query.exception()
        if failure is None:
            raise ClusterError("the stream was stopped from elsewhere: watch again")
        if DataLossError.__name__ not in str(failure):
            raise failure
        # Pruned records are superseded, but share partitions may have been deleted in the
        # meantime.
        self._set_stale(
            f"records of {self._source.records} were pruned before they were read: it is read "
            "again from its beginning"
        )

    def _compute(self) -> None:
        try:
            topic_ids = pc.unique(self._found.column("topic_id")).to_pylist()
            offsets = self._source.offsets(topic_ids)
            states = choose_states(self._found, self._deleted.select(DELETED.names))
            self._lag = pa.Table.from_batches([lag_arrow(states, offsets)])
        except ShareLagError as error:
            if self._number and not isinstance(error, _OtherTopicError):
                self._note_failure(error)
            else:
                self._end(error)
            return
        self._windows = self._found
        self._sampled = time.monotonic()
        self._why = None
        try:
            if self._on_update is not None:
                self._on_update(self._windows, self._lag)
        except ShareLagError as error:
            if not self._number:
                self._end(error)
                return
            _LOG.warning("on_update failed: %s", error)  # the lag is current all the same
        self._number += 1
        self._changed.notify_all()

    def _end(self, error: ShareLagError) -> None:
        self._failure = error
        self._stopped.set()
        self._changed.notify_all()

    def _tidy(self) -> None:
        if self._checkpoint is not None:
            shutil.rmtree(self._checkpoint, ignore_errors=True)


def _say_when_it_continues(error: BaseException) -> str:
    """Say when the stream continues after an error; empty if the error ends the stream."""
    if is_of(TopicMissingError, error):
        return "It continues as soon as the topic is there"
    return "It continues as soon as brokers answer" if are_away(error) else ""


class _OtherTopicError(ClusterError):
    """Another cluster has the address now, or the state topic was created again."""


@dataclass
class _Topic:
    """The state topic of a cluster, and its end offsets from the brokers."""

    config: ClientConfig
    records: str
    topic_id: str | None = None  # of the topic that is watched, once known
    first_is_all: ClassVar[bool] = True  # micro-batches have no limit

    @property
    def kafka_version(self) -> Version:
        return KafkaInput(self.config).kafka_version

    def read(self, spark: SparkSession) -> DataFrame:
        register(spark)
        # Its error is clearer than Spark's.
        kafka.offset_ranges(self.config.renew(), self.records)
        self._require_same()
        options = {"subscribe": self.records, "startingOffsets": "earliest"}
        options |= self.config.spark_options()
        return spark.readStream.format(FORMAT).options(**options).load()

    def is_read(self, _: StreamingQuery) -> bool:
        """Return whether the topic is empty: the first micro-batch starts with its first record."""
        ranges = kafka.offset_ranges(self.config.renew(), self.records)
        return all(first == end for first, end in ranges.values())

    def offsets(self, topic_ids: Sequence[str]) -> pa.Table:
        offsets = KafkaInput(self.config.renew()).offsets(topic_ids)
        self._require_same()
        return offsets

    def _require_same(self) -> None:
        """Refuse another topic; requested after records and ends, its id reveals it."""
        now = kafka.topic_ids(self.config.renew(), [self.records]).get(self.records)
        if now is None:
            raise TopicMissingError(f"{self.describe()} has no topic {self.records} now")
        self.topic_id = self.topic_id or now
        if now != self.topic_id:
            raise _OtherTopicError(
                f"{self.describe()} is another one now, or {self.records} was created again (its "
                f"id was {self.topic_id}, and is {now} now): watch again"
            )

    def describe(self) -> str:
        return KafkaInput(self.config).describe()


@dataclass(frozen=True)
class _Stream:
    """A stream of the user's, and end offsets that are read again each time."""

    given: FrameInput
    records: str = "raw records"
    first_is_all: ClassVar[bool] = False  # the reader may limit micro-batches (maxFilesPerTrigger)
    kafka_version: ClassVar[None] = None  # unknown

    def read(self, _: SparkSession) -> DataFrame:
        return self.given.raw

    def is_read(self, query: StreamingQuery) -> bool:
        """Return whether the last trigger found no rows, or its sources have none left."""
        status, progress = query.status, query.lastProgress
        # Spark reports idle triggers only ten seconds after the last micro-batch.
        if status["message"].startswith("Waiting") and not status["isDataAvailable"]:
            return True
        return progress is not None and (
            not progress["numInputRows"]
            or all(one["endOffset"] == one["latestOffset"] for one in progress["sources"])
        )

    def offsets(self, _: Sequence[str]) -> pa.Table:
        given = self.given.given_offsets
        if given is None:
            return schemas.OFFSETS.empty_table()
        return latest_ends(read_ends(given, self.given.raw.sparkSession))

    def describe(self) -> str:
        return self.given.describe()


def watch(
    cluster: str | ClientConfig | DataFrame,
    *,
    offsets: Ends | Tabular | None = None,
    groups: str | Sequence[str] = (),
    generation: int | None = None,
    every: float = 2.0,
    on_update: OnUpdate | None = None,
    heed: OnUpdate | None = None,
    command_config: str | Path | None = None,
    properties: Mapping[str, str] | None = None,
    timeout: float = 10.0,
    spark: SparkSession | None = None,
    checkpoints: str | Path | None = None,
) -> Live:
    """Watch the lag of a cluster or of a stream, until `Live.stop` or the end of a ``with`` block.

    If lag cannot be computed, for example while brokers are away, it stays unchanged, and
    `Live.stale` says why. A stream with limited micro-batches (``maxFilesPerTrigger``) has no lag
    until all its initial records are read.

    Parameters
    ----------
    cluster : str, ClientConfig or pyspark.sql.DataFrame
        ``"host:port[,...]"``, as for ``sharelag.open``; or a stream of raw records.
    offsets : path, name of a table, function, or DataFrame, optional
        As for `lag`, beside a stream. They are read in this process each time lag is computed, so
        a function may use the session. Without them, lag is unknown.
    groups : str or sequence of str
        Restrict the answer to these share groups.
    generation : int, optional
        As for `sharelag.decode`.
    every : float
        Seconds between micro-batches, and between samples of end offsets while there are none.
    on_update : callable, optional
        Called with windows and lag each time lag was computed. A `ShareLagError` that it raises is
        logged.
    heed : callable, optional
        Deprecated name of ``on_update``.
    command_config, properties, timeout
        As for ``sharelag.open``.
    spark : pyspark.sql.SparkSession, optional
        By default the active session, or a new one.
    checkpoints : path, optional
        A folder for Spark's state; on a cluster all machines must share it. By default Spark
        chooses a temporary one.

    Returns
    -------
    Live
        It has the first lag, or the reason in `Live.stale` why that takes several micro-batches.

    Raises
    ------
    InputError
        On Spark Connect, or if ``every`` is negative.
    SetupError
        Spark cannot run it.
    ShareLagError
        The cluster does not answer, or ``on_update`` raised it for the first lag.
    """
    if heed is not None:
        warnings.warn("heed is deprecated: use on_update", DeprecationWarning, stacklevel=2)
    if isinstance(cluster, str):
        cluster = config_of(cluster, command_config, properties, timeout)
    if offsets is not None and isinstance(cluster, ClientConfig):
        raise InputError("offsets are only for a stream: a cluster knows its own")
    source: ClientConfig | FrameInput
    if isinstance(cluster, ClientConfig):
        source, spark = cluster, spark or session()
    else:
        source = FrameInput(as_frame(cluster, schemas.RAW, "raw records"), offsets)
        spark = spark or source.raw.sparkSession
    instead = (
        "ask sharelag.open(...) repeatedly, or watch from a process with its own Spark session"
    )
    require_own_process(spark, instead)
    if isinstance(source, ClientConfig):
        require_admission_control()
    names = frozenset([groups] if isinstance(groups, str) else groups)
    every = parse_duration(every).total_seconds()
    update = on_update or heed
    live = Live(source, spark, names, every, update, checkpoints, generation=generation)
    try:
        live.wait()
    except BaseException:
        live.stop()
        raise
    return live
