"""Passes over the records of an input on Spark, each of which finds several tables."""

from __future__ import annotations

import logging
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from sharelag import schemas
from sharelag.engine import OVER, Once, Reading, rows_of
from sharelag.engine.spark import states
from sharelag.engine.spark.packing import FOUND, collect
from sharelag.engine.spark.tasks import Files, Logs, Records, TaskRecords
from sharelag.errors import InputError, SetupError, first_line
from sharelag.inputs import Input, KafkaInput
from sharelag.inputs.files.pieces import plan
from sharelag.inputs.spark import java, session
from sharelag.inputs.spark.files import files_in_reach
from sharelag.inputs.spark.frames import FrameInput
from sharelag.inputs.spark.sessions import has_stopped
from sharelag.inputs.spark.workers import explain_failures
from sharelag.metrics.observed import observe
from sharelag.replay.moment import Choice, Moment, filter_groups
from sharelag.tables.arrow import as_table, one_batch
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC

_LOG = logging.getLogger(__name__)
#: What readings that are gone have left in Spark's cache. A finalizer may run anywhere, so it calls
#: nobody.
_ABANDONED: deque[list[DataFrame]] = deque()


class Pass(NamedTuple):
    """Tables that one pass over the records found."""

    found: pa.Table  # FOUND
    until: datetime | None = None  # up to when the history was observed; None: it was not
    with_members: bool = False


class Passes(Reading):
    """The passes of a reading over its records, and the tables that each of them found.

    Parameters as for `sharelag.engine.spark.reading.SparkReading`.
    """

    def __init__(
        self,
        source: Input,
        as_of: Moment = None,
        choice: Choice | None = None,
        over: timedelta = OVER,
        spark: SparkSession | None = None,
        cache: bool = False,
    ) -> None:
        super().__init__(source, as_of, choice, over)
        self._spark, self._cache = spark, cache
        self._of_session = Once()
        self._kept_by: Passes | None = None
        self._kept: list[DataFrame] = []
        weakref.finalize(self, _ABANDONED.append, self._kept)
        while _ABANDONED:
            _unpersist(_ABANDONED.popleft())

    @property
    def spark(self) -> SparkSession:
        """The session that everything runs on."""
        java.cancel_jobs()
        return self.of_session("session", self._session)

    @property
    def of_session(self) -> Once:
        """Values that belong to that session, each computed once; empty once it has stopped."""
        made = self._of_session
        if "session" in made and has_stopped(made("session", self._session)):
            self._of_session = Once()
        return self._of_session

    @property
    def is_stream(self) -> bool:
        """Whether the records are a stream, which has no tables as of one moment."""
        return isinstance(self.source, FrameInput) and self.source.raw.isStreaming

    def close(self) -> None:
        """Take what is kept out of Spark's cache."""
        _unpersist(self._kept)

    def _session(self) -> SparkSession:
        given = self._spark
        if given is None and isinstance(self.source, FrameInput):
            given = self.source.raw.sparkSession
        if given is not None and has_stopped(given):
            raise SetupError(
                "the Spark session of this workbench was stopped: open it again, with DataFrames "
                "or spark= of a session that runs"
            )
        return given or session()

    # ---- records ---------------------------------------------------------------------------------

    def raw_of(self, topic: str) -> DataFrame:
        """Raw records of a topic; others may be among them."""
        topic = STATE_TOPIC if self.source.holds_both else topic
        return self.of_session(("raw", topic), lambda: self.source.frame(self.spark, topic))

    def _records_of(self, keys: pa.Table | None = None, group: str | None = None) -> Records:
        """Return the chosen records of some share partitions or of one group, or all of them."""
        found = self._chosen(only(self._whole_records, STATE_TOPIC))
        if group is not None:
            found = found.where(partial(filter_groups, groups=frozenset([group])))
        return found if keys is None else found.where(partial(rows_of, wanted=keys))

    def _chosen(self, records: Records) -> Records:
        groups = self.choice.groups
        found = records.written_by(self.as_of)
        return found.where(partial(filter_groups, groups=groups)) if groups else found

    def _chosen_topics(self, records: Records) -> Records:
        """Return the records of the chosen topics, by name, or id where the name is not known."""
        if not self.choice.topics:
            return records
        ends = self.table("offsets")
        known = dict(zip(*(ends.column(n).to_pylist() for n in ("topic_id", "topic")), strict=True))
        return records.where(partial(_of_topics, choice=self.choice, names=known))

    @property
    def _caches(self) -> bool:
        return self._cache or not self.source.rereadable

    @property
    def _whole_records(self) -> Records:
        """The records of the state topic, and if they come together those of the groups'."""
        return self.of_session("whole", self._keep_records if self._caches else self._read_records)

    def _read_records(self, topic: str = STATE_TOPIC) -> Records:
        """Return records where tasks can read them best."""

        def found() -> Records:
            files = files_in_reach(self.spark, self.source, topic)
            if files is not None:
                with explain_failures():  # an archive may have replaced them since they were listed
                    planned = plan(files, topic)
                return self._as_read(Records(Files(self.spark, planned), (topic,)))
            both = (STATE_TOPIC, GROUP_TOPIC) if self.source.holds_both else (topic,)
            return self._as_read(Records(self.raw_of(topic), both))

        return self.of_session(("records", topic), found)

    def _as_read(self, records: Records) -> Records:
        """Return records with what says how this input's are read."""
        version = self.source.kafka_version
        return replace(records, generation=self.choice.generation, kafka_version=version)

    def _keep_records(self) -> Records:
        read = self._read_records()
        return replace(read, source=self._keep(read.pack()), packed=True)

    def _keep(self, frame: DataFrame) -> DataFrame:
        """Keep a DataFrame in Spark's cache, if it has one."""
        try:
            self._kept.append(frame.persist())
        except PySparkException as error:  # serverless services have none
            _LOG.warning(
                "Spark keeps nothing in a cache here, so records are read once for each answer "
                "(%s)", first_line(error).rstrip("."),
            )  # fmt: skip
        return frame

    # ---- passes ----------------------------------------------------------------------------------

    def _states(self, whole: bool = False) -> Pass:
        """Return what one pass found of states.

        With ``whole`` it also finds what most answers need of the history, and the members, where
        that can be done in the same pass.
        """

        def find() -> Pass:
            records = self._whole_records if whole or self._cache else self._first_records
            until = self._known_end() if whole else None
            # Answers say which states are missing, by what groups have initialized.
            with_members = whole or "groups" in self.source.may_lack
            return self._pass(records, _find, until, with_members and self._members_come_along)

        return self.once("states", find)

    @property
    def _members_come_along(self) -> bool:
        """Whether the moment is a time, so that one pass finds states and members up to it."""
        is_time = self.as_of is None or isinstance(self.as_of, datetime)
        return is_time and GROUP_TOPIC in self._whole_records.topics

    def _pass(
        self,
        records: Records,
        find: Callable[..., Iterator[tuple[str, schemas.Arrow]]],
        until: datetime | None,
        with_members: bool,
    ) -> Pass:
        records = self._chosen(records if with_members else only(records, STATE_TOPIC))
        found = records.find(partial(find, until=until, over=self.over, with_members=with_members))
        return Pass(collect(found, FOUND), until, with_members)

    @property
    def _first_records(self) -> Records:
        """The records for windows alone: of a cluster, unless they are in Spark's cache already."""
        source = self.source
        if not isinstance(source, KafkaInput) or "whole" in self.of_session:
            return self._whole_records
        logs = Logs(self.spark, source.config, {STATE_TOPIC: source.state_ranges})
        return self._as_read(Records(logs))

    def _known_end(self) -> datetime | None:
        """Return the moment of the end offsets, where it is known before they are read."""
        if isinstance(self.as_of, datetime):
            return self.as_of
        return self.source.as_of() if self.as_of is None else None

    def _refuse_stream(self, name: str) -> None:
        if self.is_stream:
            raise InputError(
                f"the records are a stream, which has no {name} as of one moment: use "
                "frames.windows and frames.lag with writeStream, sharelag.stream.watch for both "
                "as of now, or open a table of the records"
            )

    def read_ahead(self) -> None:
        """Read the records once for all that most answers need of them."""
        self._refuse_stream("evidence")
        self._states(whole=True)
        self._rest()

    def _rest(self) -> Pass:
        """Return what the first pass left out, found together, where it was for the lag alone."""

        def find() -> Pass:
            done = self._states()
            with_members = self._members_come_along and not done.with_members
            until = None if done.until == self.now else self.now
            if until is None and not with_members:
                return done
            return self._pass(self._whole_records, _find_beside, until, with_members)

        return self.once("rest", find)


def _find(
    mine: TaskRecords, until: datetime | None, over: timedelta, with_members: bool
) -> Iterator[tuple[str, schemas.Arrow]]:
    """Return states, and if asked the observed history and the members, of what one task has."""
    yield from states.find_states(mine)
    yield from _find_beside(mine, until, over, with_members)


def _find_beside(
    mine: TaskRecords, until: datetime | None, over: timedelta, with_members: bool
) -> Iterator[tuple[str, schemas.Arrow]]:
    if until is not None:
        each = partial(observe, end=until, over=over)
        yield "observed", states.summarize(each, schemas.OBSERVED)(mine)
    if with_members:
        yield from states.find_membership(mine)


def only(records: Records, topic: str) -> Records:
    """Return the records of one topic, where they have not been packed together."""
    return records if records.packed else replace(records, topics=(topic,))


def _of_topics(records: pa.RecordBatch, choice: Choice, names: dict[str, str]) -> pa.RecordBatch:
    ids = records.column("topic_id").dictionary_encode()
    known = pa.array([names.get(one) for one in ids.dictionary.to_pylist()], pa.string())
    rows = as_table(records).append_column("_name", known.take(ids.indices))
    return one_batch(choice.of(rows, "_name").drop_columns("_name"))


def _unpersist(kept: list[DataFrame]) -> None:
    while kept:
        frame = kept.pop()
        if has_stopped(frame.sparkSession):
            continue  # its cache is gone with it
        # Connect analyzes a DataFrame again to release it, which fails where its files are gone.
        with suppress(AnalysisException):
            frame.unpersist()
