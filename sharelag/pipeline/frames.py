"""All tables of an input as Spark DataFrames, by name.

frames = sharelag.open("incident-42").frames
frames.lag.where("lag > 1000").show()
frames.sql("select group_id, sum(lag) from lag group by 1").show()
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from sharelag import schemas
from sharelag.errors import InputError, first_line
from sharelag.metrics.lag import BRIEF
from sharelag.metrics.snapshots import snapshots_arrow
from sharelag.pipeline import answers, membership, records, states
from sharelag.pipeline.collecting import frame_of
from sharelag.pipeline.frame_records import FrameRecords
from sharelag.pipeline.tables import TABLES
from sharelag.pipeline.tasks import FileRecords
from sharelag.reading import chosen_partitions, earliest
from sharelag.schemas.arrow import as_table, one_batch
from sharelag.sources.spark.frames import FrameInput
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC


class Frames(FrameRecords):
    """The tables of `sharelag.pipeline.tables.TABLES` as DataFrames, created on first use.

    They are lazy except for what must be known before: using ``lag`` of a cluster, for example,
    reads the windows and then fetches end offsets, so that lag is never negative. Tables with one
    row per share partition stay in Spark's cache until the workbench is closed. They cover the
    selected groups and the moment, except ``raw rejects gaps health``, which cover the whole input,
    and ``group_records``, which cover any time; topics are selected only in ``lag progress
    imbalance``, because their names come from the offsets.
    """

    # ---- records ---------------------------------------------------------------------------------

    @property
    def raw(self) -> DataFrame:
        """Kafka records of both topics (`RAW`); one row is a record, as any connector gives it."""
        source = self._reading.source
        state = self.raw_of(STATE_TOPIC)
        return state if source.holds_both else state.unionByName(self.raw_of(GROUP_TOPIC))

    @property
    def records(self) -> DataFrame:
        """Decoded records of ``__share_group_state`` (`RECORDS`); one row is a record."""
        found = self._decoded(STATE_TOPIC).records
        return records.chosen(found, self._reading.as_of, self._reading.choice.groups)

    @property
    def rejects(self) -> DataFrame:
        """Undecodable records of both topics, of any group (`REJECTS`); one row is a record."""
        decoded = [self._decoded(topic) for topic in (STATE_TOPIC, GROUP_TOPIC)]
        return decoded[0].rejects.unionByName(decoded[1].rejects)

    @property
    def gaps(self) -> DataFrame:
        """Offsets of the state topic missing between records (`GAPS`); one row is a range."""
        return self._keep(
            "gaps", lambda: records.missing_offsets(self._whole_files or self.raw_of(STATE_TOPIC))
        )

    @property
    def windows(self) -> DataFrame:
        """States (`WINDOWS`); one row is a share partition with its offsets, epochs and batches."""
        if self._is_stream:
            from sharelag.pipeline import stream

            choice = self._reading.choice
            whole = self._reading.as_of is None
            chosen = self.raw_of(STATE_TOPIC) if whole else self.records
            return stream.windows(chosen, groups=choice.groups, generation=choice.generation)
        return self._reading.once(("frame", "windows"), lambda: states.windows_of(self.states))

    @property
    def history(self) -> DataFrame:
        """The state after every record, and what it changed (`HISTORY`); one row is a record."""
        return states.history(self.file_records or self.records, self._gaps)

    @property
    def observed(self) -> DataFrame:
        """History of the span, summarized (`OBSERVED`); one row is a share partition; ms."""

        def made() -> DataFrame:
            chosen = self.file_records or self.records
            return states.observed(chosen, self._reading.now, self._reading.span, self._gaps)

        return self._keep("observed", made)

    @property
    def snapshots(self) -> DataFrame:
        """Last snapshots, and what followed (`SNAPSHOTS`); one row is a share partition."""

        def made() -> DataFrame:
            chosen = self.file_records or self.records
            return states.summarized(chosen, snapshots_arrow, schemas.SNAPSHOTS, self._gaps)

        return self._keep("snapshots", made)

    @property
    def group_records(self) -> DataFrame:
        """Share group records of ``__consumer_offsets`` (`GROUP_RECORDS`); one row is a record."""
        if self._reading.group_records_refused is not None:
            return frame_of(self._reading.spark, schemas.GROUP_RECORDS.empty_table())
        chosen = self._reading.choice.groups
        return records.chosen(self._decoded(GROUP_TOPIC).records, None, chosen)

    @property
    def members(self) -> DataFrame:
        """Members (`MEMBERS`); one row is a member with its assignment."""
        return membership.members_of(self._membership)

    @property
    def groups(self) -> DataFrame:
        """Groups (`GROUPS`); one row is a share group, with epochs and initialized partitions."""
        choice, found = self._reading.choice, membership.groups_of(self._membership)
        if not choice.topics:
            return found

        def chosen(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
            return [one_batch(chosen_partitions(as_table(batch), choice))]

        return records.map_arrow(found, chosen, schemas.GROUPS)

    # ---- what else the input tells ---------------------------------------------------------------

    @property
    def offsets(self) -> DataFrame:
        """Ends of the share partitions' topics (`OFFSETS`); one row is a topic partition."""
        return self._of_input("offsets")

    @property
    def past_offsets(self) -> DataFrame:
        """The same at moments of the span (`OFFSETS`); one row is a topic partition and moment."""
        return self._of_input("past_offsets")

    @property
    def logs(self) -> DataFrame:
        """Last stable offsets and retention in ms, bytes (`LOGS`); one row is a topic partition."""
        return self._of_input("logs")

    @property
    def leaders(self) -> DataFrame:
        """Leaders and replicas (`LEADERS`); one row is a topic partition."""
        return self._of_input("leaders")

    @property
    def nodes(self) -> DataFrame:
        """Brokers with their racks (`NODES`); one row is a broker."""
        return self._of_input("nodes")

    @property
    def brokers(self) -> DataFrame:
        """The brokers around share partitions (`BROKERS`); one row is a share partition."""
        return self._of_input("brokers")

    @property
    def times(self) -> DataFrame:
        """Times of the oldest unfinished records (`TIMES`); one row is an offset."""
        return self._of_input("times")

    @property
    def settings(self) -> DataFrame:
        """Settings in force of groups, topics and brokers (`SETTINGS`); one row is a setting."""
        return self._of_input("settings")

    # ---- numbers ---------------------------------------------------------------------------------

    @property
    def lag(self) -> DataFrame:
        """Lag in offsets, term by term (`LAG`); one row is a share partition."""
        if self._is_stream:
            from sharelag.pipeline import stream

            given = cast("FrameInput", self._reading.source).given_offsets
            ends = schemas.OFFSETS.empty_table if given is None else given
            return self.chosen(stream.lag(self.windows, ends))
        return self._keep("lag", lambda: self.chosen(answers.lag(self.windows, self.offsets)))

    @property
    def brief_lag(self) -> DataFrame:
        """Lag alone, scanned rather than replayed (`BRIEF`); one row is a share partition."""
        if self._is_stream:
            return self.lag.select(BRIEF.names)
        return self._reading.once(
            ("frame", "brief_lag"), lambda: frame_of(self._reading.spark, self._reading.brief.table)
        )

    @property
    def progress(self) -> DataFrame:
        """Age (ms), rates per second, forecast (`PROGRESS`); one row is a share partition."""
        return self._keep(
            "progress",
            lambda: answers.progress(self.lag, self.observed, self._reading.input_evidence),
        )

    @property
    def imbalance(self) -> DataFrame:
        """Spread of load (`IMBALANCE`); one row is a measure over a group or one of its topics."""
        return self.imbalance_by(None)

    @property
    def health(self) -> DataFrame:
        """The state topic up to its last record (`HEALTH`); one row is a state partition; bytes."""

        def made() -> DataFrame:
            generation, files = self._reading.choice.generation, self._whole_files
            every = (
                FileRecords(files, generation=generation)
                if files
                else self._decoded(STATE_TOPIC).records
            )
            finished = states.summarized(every, states.finished_of, states.FINISHED, self._gaps)
            partitions = self._reading.source.partitions(STATE_TOPIC)
            return answers.health(self.raw_of(STATE_TOPIC), partitions, finished, generation)

        return self._keep("health", made)

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

    def imbalance_by(self, by: str | None) -> DataFrame:
        """How load is spread over one kind of items; None: over all kinds."""
        known = self._reading.table("leaders").num_rows > 0
        return answers.imbalance(**self.loads(), by=by, brokers=self.brokers if known else None)

    def loads(self) -> dict[str, Any]:
        """What the figures of balance are made of; None: not known."""
        known = self._reading.table("groups").num_rows > 0
        past = earliest(self._reading.table("past_offsets"))
        return {
            "lag": self.lag,
            "members": self.members if known else None,
            "groups": self.groups if known else None,
            "observed": self.observed,
            "past": frame_of(self._reading.spark, past) if past.num_rows else None,
        }

    @property
    def kept_records(self) -> DataFrame:
        """`records`, kept in Spark's cache."""
        return self._keep("records", lambda: self.records)

    @property
    def _membership(self) -> DataFrame:
        reading = self._reading
        moment = reading.now if reading.as_of is not None else None
        return self._keep("membership", lambda: membership.membership(self.group_records, moment))
