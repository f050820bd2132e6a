"""All tables of an input as Spark DataFrames, by name.

frames = sharelag.open("incident-42").frames
frames.lag.where("lag > 1000").show()
frames.sql("select group_id, sum(lag) from lag group by 1").show()
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from sharelag import schemas
from sharelag.engine import Reading
from sharelag.engine.spark.records import Decoded, decode, select_records
from sharelag.engine.tables import Once
from sharelag.errors import InputError, first_line
from sharelag.inputs.spark.frames import frame_of
from sharelag.tables.declared import answers, groups, lag, records, windows
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC

if TYPE_CHECKING:
    from sharelag.inputs.spark.frames import FrameInput

TABLES = {
    table.name: table
    for table in (
        *(records.RAW, records.RECORDS, records.REJECTS),
        *(windows.WINDOWS, windows.HISTORY, windows.OBSERVED, windows.SNAPSHOTS),
        *(records.GROUP_RECORDS, groups.MEMBERS, groups.GROUPS),
        *(records.OFFSETS, records.PAST_OFFSETS, records.LOGS, groups.LEADERS, groups.NODES),
        *(groups.BROKERS, records.TIMES, groups.SETTINGS, records.GAPS, records.HEALTH),
        *(lag.LAG, lag.BRIEF_LAG, answers.PROGRESS, answers.IMBALANCE),
    )
}


class OnSpark(Reading):
    """What frames go by: a reading that has a Spark session."""

    @property
    @abstractmethod
    def spark(self) -> SparkSession:
        """The session that everything runs on."""

    @property
    @abstractmethod
    def of_session(self) -> Once:
        """Values that belong to that session, each computed once; empty once it has stopped."""

    @property
    @abstractmethod
    def is_stream(self) -> bool:
        """Whether the records are a stream, which has no tables as of one moment."""

    @abstractmethod
    def raw_of(self, topic: str) -> DataFrame:
        """Raw records of a topic; others may be among them."""

    @abstractmethod
    def history_rows(self) -> DataFrame:
        """Return the whole history of the chosen groups."""


class Frames:
    """The tables of `sharelag.engine.spark.frames.TABLES` as DataFrames, created on first use.

    ``raw records rejects history group_records`` are lazy: each use reads the raw records anew.
    The others have one row per share partition, topic partition or the like. They are found when
    they are first used, the windows before the end offsets, so that lag is never negative, and stay
    in this process. They cover the selected groups and the moment, except ``raw rejects gaps
    health``, which cover the whole input, and ``group_records``, which cover any time; topics are
    selected only in ``lag progress imbalance``, because their names come from the offsets.
    """

    def __init__(self, reading: OnSpark) -> None:
        self._reading = reading

    # ---- records ---------------------------------------------------------------------------------

    @property
    def raw(self) -> DataFrame:
        """Kafka records of both topics (`RAW`); one row is a record, as any connector gives it."""
        reading = self._reading
        state = reading.raw_of(STATE_TOPIC)
        if not reading.source.holds_both:
            state = state.unionByName(reading.raw_of(GROUP_TOPIC))
        return state.select(schemas.RAW.names)

    @property
    def records(self) -> DataFrame:
        """Decoded records of ``__share_group_state`` (`RECORDS`); one row is a record."""
        found = self._decode(STATE_TOPIC).records
        return select_records(found, self._reading.as_of, self._reading.choice.groups)

    @property
    def rejects(self) -> DataFrame:
        """Undecodable records of both topics, of any group (`REJECTS`); one row is a record."""
        decoded = [self._decode(topic) for topic in (STATE_TOPIC, GROUP_TOPIC)]
        return decoded[0].rejects.unionByName(decoded[1].rejects)

    @property
    def gaps(self) -> DataFrame:
        """Offsets of the state topic missing between records (`GAPS`); one row is a range."""
        return self._found("gaps")

    @property
    def windows(self) -> DataFrame:
        """States (`WINDOWS`); one row is a share partition with its offsets, epochs and batches."""
        if self._reading.is_stream:
            from sharelag.engine.spark import stream

            choice = self._reading.choice
            whole = self._reading.as_of is None
            given = self._reading.raw_of(STATE_TOPIC) if whole else self.records
            return stream.windows(given, groups=choice.groups, generation=choice.generation)
        return self._found("windows")

    @property
    def history(self) -> DataFrame:
        """The state after every record, and what it changed (`HISTORY`); one row is a record."""
        return self._reading.history_rows()

    @property
    def observed(self) -> DataFrame:
        """History of the span, summarized (`OBSERVED`); one row is a share partition; ms."""
        return self._found("observed")

    @property
    def snapshots(self) -> DataFrame:
        """Last snapshots, and what followed (`SNAPSHOTS`); one row is a share partition."""
        return self._found("snapshots")

    @property
    def group_records(self) -> DataFrame:
        """Share group records of ``__consumer_offsets`` (`GROUP_RECORDS`); one row is a record."""
        if self._reading.group_records_refused is not None:
            return frame_of(self._reading.spark, schemas.GROUP_RECORDS.empty_table())
        chosen = self._reading.choice.groups
        return select_records(self._decode(GROUP_TOPIC).records, None, chosen)

    @property
    def members(self) -> DataFrame:
        """Members (`MEMBERS`); one row is a member with its assignment."""
        return self._found("members")

    @property
    def groups(self) -> DataFrame:
        """Groups (`GROUPS`); one row is a share group, with epochs and initialized partitions."""
        return self._found("groups")

    # ---- what else the input tells ---------------------------------------------------------------

    @property
    def offsets(self) -> DataFrame:
        """Ends of the share partitions' topics (`OFFSETS`); one row is a topic partition."""
        return self._found("offsets")

    @property
    def past_offsets(self) -> DataFrame:
        """The same at moments of the span (`OFFSETS`); one row is a topic partition and moment."""
        return self._found("past_offsets")

    @property
    def logs(self) -> DataFrame:
        """Last stable offsets and retention in ms, bytes (`LOGS`); one row is a topic partition."""
        return self._found("logs")

    @property
    def leaders(self) -> DataFrame:
        """Leaders and replicas (`LEADERS`); one row is a topic partition."""
        return self._found("leaders")

    @property
    def nodes(self) -> DataFrame:
        """Brokers with their racks (`NODES`); one row is a broker."""
        return self._found("nodes")

    @property
    def brokers(self) -> DataFrame:
        """The brokers around share partitions (`BROKERS`); one row is a share partition."""
        return self._found("brokers")

    @property
    def times(self) -> DataFrame:
        """Times of the oldest unfinished records (`TIMES`); one row is an offset."""
        return self._found("times")

    @property
    def settings(self) -> DataFrame:
        """Settings in force of groups, topics and brokers (`SETTINGS`); one row is a setting."""
        return self._found("settings")

    # ---- numbers ---------------------------------------------------------------------------------

    @property
    def lag(self) -> DataFrame:
        """Lag in offsets, term by term (`LAG`); one row is a share partition."""
        if self._reading.is_stream:
            from sharelag.engine.spark import stream

            given = cast("FrameInput", self._reading.source).given_offsets
            ends = schemas.OFFSETS.empty_table if given is None else given
            return self.of_chosen_topics(stream.lag(self.windows, ends))
        return self._found("lag")

    @property
    def brief_lag(self) -> DataFrame:
        """Lag and what Kafka computes it from (`BRIEF_LAG`); one row is a share partition."""
        if self._reading.is_stream:
            return self.lag.select(schemas.BRIEF_LAG.names)
        return self._once("brief_lag", lambda: self._reading.brief)

    @property
    def progress(self) -> DataFrame:
        """Age (ms), rates per second, forecast (`PROGRESS`); one row is a share partition."""
        return self._found("progress")

    @property
    def imbalance(self) -> DataFrame:
        """Spread of load (`IMBALANCE`); one row is a measure over a group or one of its topics."""
        return self._once("imbalance", lambda: self._reading.imbalance())

    @property
    def health(self) -> DataFrame:
        """The state topic up to its last record (`HEALTH`); one row is a state partition; bytes."""
        return self._found("health")

    # ---- together --------------------------------------------------------------------------------

    def sql(self, query: str, args: dict[str, Any] | list[Any] | None = None) -> DataFrame:
        """Run a query in which the names of these tables stand for them.

        Parameters
        ----------
        query : str
            A ``SELECT``, with or without its own ``WITH``. Other tables and views of the session
            can be joined; a view of the same name as one of these is not touched, and not seen.
        args : dict or list, optional
            Values of its parameters, as ``SparkSession.sql`` takes them.

        Raises
        ------
        InputError
            The query names a table or a column that is not there, or cannot be parsed.
        """
        named = [name for name in TABLES if re.search(rf"\b{name}\b", query, re.IGNORECASE)]
        given = {f"sharelag_{name}": getattr(self, name) for name in named}
        # Only names of these tables stand in it beside the query; Spark puts the DataFrames in
        # their places.
        view = "{0} AS (SELECT * FROM {{sharelag_{0}}})"
        views = ", ".join(view.format(name) for name in named)
        text = query.strip().rstrip(";")
        if named:
            # Braces stand for DataFrames then; the line's end closes a comment of the query's.
            text = f"WITH {views} (\n{text.replace('{', '{{').replace('}', '}}')}\n)"
        try:
            return self._reading.spark.sql(text, args=args, **given)
        except AnalysisException as error:  # also of queries that cannot be parsed
            said = first_line(error).rstrip(".")
            raise InputError(f"{said}; the tables here are {', '.join(TABLES)}") from error

    def __getitem__(self, name: str) -> DataFrame:
        if name not in TABLES:
            raise InputError(f"unknown table {name!r}: choose one of {', '.join(TABLES)}")
        frame: DataFrame = getattr(self, name)
        return frame

    def __iter__(self) -> Iterator[str]:
        return iter(TABLES)

    def __repr__(self) -> str:
        width = max(map(len, TABLES))
        return "\n".join(f"{name:<{width}}  {table.row}" for name, table in TABLES.items())

    # ---- behind it -------------------------------------------------------------------------------

    def of_chosen_topics(self, frame: DataFrame) -> DataFrame:
        """Return the rows of the chosen topics, by name, or id where the name is not known."""
        topics = self._reading.choice.topics
        if not topics:
            return frame
        name = F.coalesce("topic", "topic_id")
        each: list[Column] = [
            (name == topic) & (F.col("partition").isin(*partitions) if partitions else F.lit(True))
            for topic, partitions in topics.items()
        ]
        return frame.where(reduce(Column.__or__, each))

    def _found(self, name: str) -> DataFrame:
        return self._once(name, lambda: self._reading.table(name))

    def _once(self, name: str, table: Callable[[], pa.Table]) -> DataFrame:
        reading = self._reading
        return reading.of_session(("frame", name), lambda: frame_of(reading.spark, table()))

    def _decode(self, topic: str) -> Decoded:
        reading = self._reading
        version = reading.source.kafka_version
        return decode(reading.raw_of(topic), topic, reading.choice.generation, version)
