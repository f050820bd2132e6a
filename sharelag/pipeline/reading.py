"""One reading of an input on Spark: tables come from the pipeline, a row a share partition each."""

from __future__ import annotations

import weakref
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.dead_letter_ledger import STATUSES, SUMS, first_of
from sharelag.metrics.dead_letters import archived_arrow, topic_ids_of
from sharelag.metrics.evidence import Evidence
from sharelag.metrics.lag import ROLLUP_KEYS, lag_arrow
from sharelag.metrics.skew import SKEW
from sharelag.model import milliseconds
from sharelag.pipeline import answers, dead_letters, states
from sharelag.pipeline.collecting import collected, frame_of
from sharelag.pipeline.frames import Frames
from sharelag.pipeline.past import Past
from sharelag.pipeline.tables import TABLES
from sharelag.pipeline.tasks import unpacked
from sharelag.reading import ORDER, OVER, Counted, Ledger, Reading
from sharelag.replay.moment import Choice, Moment
from sharelag.replay.positions import POSITIONS, Positions
from sharelag.schemas.arrow import as_table, for_spark, one_batch
from sharelag.schemas.comparisons import DESCRIBED, RECONCILED, SCANNED
from sharelag.schemas.dead_letters import ARCHIVED_RUNS, LEDGER
from sharelag.sources.inputs import Input
from sharelag.sources.kafka.config import ClientConfig
from sharelag.sources.kafka.scan import scan
from sharelag.sources.spark import interrupts, session
from sharelag.sources.spark.frames import FrameInput
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sharelag.reading import OfQueue

_SHARE_PARTITION = ["group_id", "topic_id", "partition"]
#: What readings that are gone have left in Spark's cache. A finalizer may run anywhere, so it calls
#: nobody.
_ABANDONED: deque[list[DataFrame]] = deque()


class SparkReading(Past):
    """The tables of an input from Spark.

    Parameters
    ----------
    source, as_of, choice, over
        As for `Reading`.
    spark : pyspark.sql.SparkSession, optional
        The active one, or one for this machine, when not given.
    """

    engine = "spark"

    def __init__(
        self,
        source: Input,
        as_of: Moment = None,
        choice: Choice | None = None,
        over: timedelta = OVER,
        spark: SparkSession | None = None,
    ) -> None:
        super().__init__(source, as_of, choice, over)
        self._spark = spark
        _unpersist_abandoned()

    @property
    def spark(self) -> SparkSession:
        """The session that everything runs on."""
        interrupts.cancel_jobs()
        return self.once("session", self._session)

    @property
    def frames(self) -> Frames:
        """All tables as DataFrames."""

        def made() -> Frames:
            kept: list[DataFrame] = []
            weakref.finalize(self, _ABANDONED.append, kept)
            return Frames(self, kept)

        return self.once("frames", made)

    @property
    def counted(self) -> Counted:
        """The records in numbers."""
        rows = self._states.filter(self._states.column("counted_records").is_valid())
        return Counted(
            pc.sum(rows.column("counted_records")).as_py() or 0,
            pc.sum(rows.column("rejected")).as_py() or 0,
            pc.min(rows.column("first")).as_py(),
            pc.max(rows.column("last")).as_py(),
        )

    @property
    def has_group_records(self) -> bool:
        """Whether the input has any record of the topic of group records."""
        records = self.frames.raw_of(GROUP_TOPIC).where(F.col("topic") == GROUP_TOPIC)
        return bool(records.select("topic").limit(1).toArrow().num_rows)

    def rollup(self, by: str) -> pa.Table:
        """The lag summed up."""
        table = self.once(
            ("rollup", by), lambda: collected(answers.rollup(self.frames.lag, by), schemas.ROLLUP)
        )
        return table.sort_by([(name, "ascending") for name in ROLLUP_KEYS[by]])

    def imbalance(self, by: str | None = None) -> pa.Table:
        """How unevenly load is spread."""

        def made() -> pa.Table:
            return collected(self.frames.imbalance_by(by), schemas.IMBALANCE)

        table = self.once(("imbalance", by), made)
        table = table.append_column("of_topic", table.column("topic_id").is_valid().cast(pa.int8()))
        order = ("group_id", "of_topic", "topic", "topic_id", "over", "measure")
        return table.sort_by([(name, "ascending") for name in order]).drop_columns("of_topic")

    def skew(self) -> pa.Table:
        """Where the lag of each group is concentrated."""
        table = self.once("skew", lambda: collected(answers.skew(**self.frames.loads()), SKEW))
        return table.sort_by([("group_id", "ascending")])

    def diff(self, before: Reading) -> pa.Table:
        """What changed since another reading."""
        if not isinstance(before, SparkReading):
            raise TypeError("both readings must be on Spark")
        table = collected(answers.diff(before.frames.windows, self.frames.windows), schemas.DIFF)
        return table.sort_by([(name, "ascending") for name in _SHARE_PARTITION])

    def then(self, as_of: Moment) -> SparkReading:
        """The same records as of another moment."""
        other = SparkReading(self.source, as_of, self.choice, self.over, self.spark)
        other.once(("frame", "raw"), lambda: self.frames.raw_of(STATE_TOPIC))
        return other

    def whole(self) -> SparkReading:
        """A reading of all groups as of now."""
        is_whole = self.as_of is None and not self.choice.groups
        every = self.choice.everything()
        return self if is_whole else SparkReading(self.source, choice=every, spark=self.spark)

    def reconcile(self, described: pa.Table | None, true: bool) -> pa.Table:
        """The lag in several ways."""
        frames, config = self.frames, getattr(self.source, "config", None)
        reported = None if described is None else frame_of(self.spark, described.cast(DESCRIBED))
        scanned = self._scanned(config) if true and config is not None else None
        return collected(answers.reconcile(frames.lag, reported, scanned), RECONCILED).sort_by(
            ORDER
        )

    def ledger(self, asked: OfQueue, most: int) -> Ledger:
        """Compare archived offsets with the records of a dead-letter queue, in the tasks."""
        frame = self.ledger_frame(asked).persist()
        self.frames.kept.append(frame)
        counted = F.coalesce("offsets", "letters")
        sums = frame.groupBy("status", "reason").agg(
            F.sum(counted).alias("offsets"), F.count("*").alias("rows")
        )
        place = F.array_position(F.array(*map(F.lit, STATUSES)), F.col("status"))
        order = ("group_id", "topic", "partition", "first_offset")
        rows = frame.orderBy(place, *order).limit(most)
        return Ledger(first_of(collected(rows, LEDGER), most), collected(sums, SUMS))

    def ledger_frame(self, asked: OfQueue) -> DataFrame:
        """The whole ledger of a dead-letter queue."""
        archived = states.replayed_by(self._records_of(asked.lag), archived_arrow, ARCHIVED_RUNS)
        names = topic_ids_of(asked.lag)
        letters = dead_letters.letters(self.spark, asked.queue, names, asked.groups)
        lag, now = frame_of(self.spark, asked.lag), milliseconds(self.now)
        return dead_letters.ledger(archived, letters, lag, asked.limits, now)

    def close(self) -> None:
        """Take what is kept out of Spark's cache."""
        if "frames" in self.once:
            _unpersist(self.frames.kept)

    # ---- behind it -------------------------------------------------------------------------------

    def _gather(self) -> Evidence:
        # What does not wait for the lag is worked out beside it: jobs of few rows leave the machine
        # idle.
        with ThreadPoolExecutor(1) as pool:
            beside = pool.submit(
                lambda: [self.table(name) for name in ("gaps", "groups", "members")]
            )
            self.table("lag")
            beside.result()
        return super()._gather()

    def _compute(self, name: str) -> schemas.Arrow:
        if isinstance(self.source, FrameInput) and self.source.raw.isStreaming:
            raise InputError(
                f"the records are a stream, which has no {name} as of one moment: use "
                "frames.windows and frames.lag with writeStream, sharelag.stream.watch for both "
                "as of now, or open a table of the records"
            )
        if name == "windows":
            return pa.Table.from_batches(unpacked(self._states.to_batches()), schemas.WINDOWS)
        if name == "lag":  # both of its tables are here, a row a share partition
            lag = lag_arrow(self.table("windows"), self.table("offsets"))
            return self.choice.of(as_table(lag))
        return collected(self.frames[name], TABLES[name].schema)

    def _positions(self) -> Positions | None:
        found = self.frames.positions
        if found is None:
            return None
        rows = collected(found, states.STATES)
        rejected = pc.sum(rows.column("rejected")).as_py() or 0
        table = pa.Table.from_batches(unpacked(rows.to_batches()), POSITIONS)
        order = [(name, "ascending") for name in _SHARE_PARTITION]
        return Positions(one_batch(table.sort_by(order)), rejected)

    @property
    def _states(self) -> pa.Table:
        """Windows and counts, which one job finds."""
        return self.once("states", lambda: collected(self.frames.states, states.STATES))

    def _session(self) -> SparkSession:
        if self._spark is None and isinstance(self.source, FrameInput):
            return self.source.raw.sparkSession
        return self._spark or session()

    def _scanned(self, config: ClientConfig) -> DataFrame:
        """The backlog counted, each topic partition once, in the tasks."""
        offsets = self.table("offsets")

        def scan_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            found = [batch for batch in batches if batch.num_rows]
            if found:
                windows = (
                    pa.Table.from_batches(found).select(schemas.WINDOWS.names).cast(schemas.WINDOWS)
                )
                yield for_spark(one_batch(scan(config, windows, offsets)), SCANNED)

        together = self._named(self.frames.windows).repartition("topic_id", "partition")
        return together.mapInArrow(scan_task, schemas.spark_schema(SCANNED))


def _unpersist_abandoned() -> None:
    while _ABANDONED:
        _unpersist(_ABANDONED.popleft())


def _unpersist(kept: list[DataFrame]) -> None:
    while kept:
        # Connect analyzes a DataFrame again to release it, which fails where its files are gone.
        with suppress(AnalysisException):
            kept.pop().unpersist()
