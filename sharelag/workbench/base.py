"""The basis of all questions of a workbench: one reading, its evidence, and cached answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, is_dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.engine import OVER, Once, Reading, RecordCounts, engines
from sharelag.errors import InputError, ShareLagError, not_found, unknown_name
from sharelag.inputs import Input
from sharelag.metrics.evidence import Evidence
from sharelag.model.settings import in_force
from sharelag.replay.moment import Choice, Moment, as_moment
from sharelag.schemas import SHARE_PARTITION
from sharelag.tables.arrow import keys
from sharelag.tables.gaps import of_rejected, of_rejected_groups, of_repeated
from sharelag.workbench.ask import LagExtras, Question, find_question
from sharelag.workbench.result import Result

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sharelag.engine.spark.reading import Frames, SparkReading
    from sharelag.workbench.side_inputs import BrokerMetrics, Requests

_T = TypeVar("_T")


class Tables(NamedTuple):
    """The inputs of a question: a workbench, and a reading with the tables that it needs."""

    bench: Opened
    read: Reading


@dataclass(frozen=True, eq=False, repr=False)
class Opened:
    """An input at a moment, read once; `sharelag.workbench.bench.Workbench` adds questions."""

    source: Input
    as_of: Moment = None
    choice: Choice = field(default_factory=Choice)
    engine: str = "spark"
    over: timedelta = OVER
    patience: timedelta | None = None
    about: str = ""
    bars: bool | None = None
    spark: SparkSession | None = None
    cache: bool = False
    requests: Requests | None = None
    metrics: BrokerMetrics | None = None
    #: A Delta table with forecasts and their outcomes.
    ledger: str | None = None
    #: Whether only one question follows, so that no other answer can contradict it.
    asks_once: bool = False
    _once: Once = field(default_factory=Once, init=False)
    _later: Opened | None = field(default=None, init=False)  # the same input as of its end

    # ---- another one -----------------------------------------------------------------------------

    def at(self, moment: str | Moment) -> Self:
        """Return the workbench as of another moment: a time, or offsets of the state topic."""
        # There are no forecasts of the past.
        then = replace(self, as_of=as_moment(moment), ledger=None)
        object.__setattr__(then, "_later", self if self.as_of is None else self._later)
        return then

    def refresh(self) -> Self:
        """Return a workbench that reads again; the answers stay if the input has not changed."""
        # An input caches its own requests; a copy of it does not.
        fresh = replace(self, source=copy_input(self.source), metrics=copy_input(self.metrics))
        version = self._once("version", self.source.version)
        if self.metrics is None and version is not None and version == fresh.source.version():
            object.__setattr__(fresh, "_once", self._once)
        return fresh

    def close(self) -> None:
        """Release this workbench's tables from Spark's cache; later questions read again."""
        for name in ("reading", "frames"):
            if name in self._once:
                self._once(name, self._read).close()
        object.__setattr__(self, "_once", Once())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def only(self, *groups: str) -> Self:
        """Return the workbench restricted to these groups."""
        if not all(isinstance(one, str) for one in groups):
            raise InputError(f"give groups one after the other, as strings, not as {groups}")
        chosen = replace(self, choice=replace(self.choice, groups=frozenset(groups)))
        object.__setattr__(chosen, "_later", self._later)
        return chosen

    # ---- questions -------------------------------------------------------------------------------

    def ask(self, name: str, **options: Any) -> Result:
        """Answer a question of `sharelag.workbench.ask.QUESTIONS` from its tables.

        A ``group`` among its options must exist.
        """
        question = find_question(name)

        def answer() -> Result:
            read = self._reading_for(question, options)
            named = () if self.asks_once else sorted(self.choice.groups)
            for group in () if question.any_group else (*named, options.get("group")):
                if group is not None:
                    self.require_group(question.groups_in(read), group)
            return question.answer(Tables(self, read), **options)

        key = (name, *options.items())
        try:
            hash(key)
        except TypeError:  # unhashable tables and mappings may change, and ids may be reused
            return self._run(f"reading {name}", answer)
        return self._once(key, lambda: self._run(f"reading {name}", answer))

    def _reading_for(self, question: Question, options: dict[str, Any]) -> Reading:
        """Return the reading; for a single question, without the history if it needs none."""
        if self.asks_once and not question.needs_history(options):
            keep = {"history": False} if self._is_here() else {}
            return self._once("reading", lambda: self._read(**keep))
        reading = self.reading
        of_states = question.needs & {"lag", "windows", "brokers", "evidence"}
        if of_states and not self.asks_once and not question.needs <= {"lag", "windows", "offsets"}:
            reading.read_ahead()  # on Spark one pass collects the tables of later questions, too
        return reading

    def base(self, read: Reading, past: bool = False, of_groups: bool = False) -> Result:
        """Return a result with the source of a reading and what is missing in it.

        ``past``: the answer is about other times, and so about deleted states, too.
        ``of_groups``: it uses the groups' own records, too.
        """
        notes, lacks = self._not_found(read.ever if past else read.table("lag")), self._lacks
        found = self._describe_reading(read, read.record_counts, lacks(of_groups, past), notes)
        rejected = of_rejected_groups(read.group_record_counts.rejected) if of_groups else ()
        return replace(found, as_of=read.now, unknown=(*rejected, *found.unknown))

    def _describe_reading(
        self,
        read: Reading,
        counted: RecordCounts | Evidence,
        lacks: tuple[str, ...],
        notes: tuple[str, ...],
    ) -> Result:
        rejected = of_rejected(counted.rejected, self.choice.generation)
        return Result(
            "",
            pa.table({}),
            {},
            None,
            self.describe(),
            engine=read.engine,
            session=self._session,
            notes=notes + of_repeated(counted.repeated),
            rejected=counted.rejected,
            repeated=counted.repeated,
            unknown=tuple(dict.fromkeys((*rejected, *lacks))),
            lacks=lacks,
        )

    # ---- tables ----------------------------------------------------------------------------------

    @property
    def frames(self) -> Frames:
        """All tables as Spark DataFrames, by name: ``bench.frames.lag``."""
        return self._on_spark().frames

    def sql(self, query: str, args: dict[str, Any] | list[Any] | None = None) -> DataFrame:
        """Run a query over these tables; see `sharelag.engine.spark.reading.Frames.sql`."""
        return self.frames.sql(query, args)

    def request_frame(self, name: str) -> DataFrame:
        """Return a table of the request log as a Spark DataFrame, for logs of any size.

        It is one of `sharelag.schemas.REQUEST_TABLES`, or ``holds``, ``memberships``, ``sessions``
        or ``batching``.
        """
        from sharelag.engine.spark.text_files import request_frame

        if self.requests is None:
            raise InputError("no request log was given: use sharelag.open(..., requests=LOG)")
        return request_frame(self._session(), self.requests.log, name)

    @property
    def reading(self) -> Reading:
        """The reading that all answers use."""
        return self._once("reading", self._read)

    @property
    def is_gathered(self) -> bool:
        """Whether all evidence was read already; lag alone takes a tenth of that time."""
        return "evidence" in self._once

    def here(self) -> Self | None:
        """Return the workbench on the local engine if that is much faster than Spark, else None.

        The limit is `engines.FEW_RECORDS`. Both engines return the same rows; later reads of a
        cluster go up to its end at that time.
        """
        source = copy_input(self.source)  # an input caches its reads, such as the end of its log
        on_spark = engines.choose(self.engine, source) == "spark"
        if on_spark and not engines.is_faster_here(source):
            return None
        return replace(self, source=source, engine="local")

    @property
    def groups(self) -> tuple[str, ...]:
        """The share groups that have any state, sorted."""
        return tuple(sorted(pc.unique(self.reading.table("lag").column("group_id")).to_pylist()))

    def evidence(self, group: str | None = None) -> Evidence:
        """Return the evidence on one group or all."""
        gathered = self._once("evidence", self._gather)
        if group is None:
            return gathered
        self.require_group(gathered.lag, group)
        return self._once(("evidence", group), lambda: gathered.of_group(group))

    def describe(self) -> str:
        """Return the origin of the records in words, without secrets."""
        try:
            return self.source.describe()
        except ShareLagError as error:
            return f"nothing that can be read ({error})"

    # ---- behind it -------------------------------------------------------------------------------

    def _is_here(self) -> bool:
        return engines.choose(self.engine, self.source) == "local"

    def _read(self, **kept: bool) -> Reading:
        is_own = self.spark is not None or self.cache
        if is_own and not self._is_here():
            return self._spark_reading()
        later: dict[str, Any] = {}
        if self._is_here() and self._later is not None and self._later.is_gathered:
            later = {"later": self._later.reading}
        return engines.read(
            self.source, self.engine, self.as_of, self.choice, self.over, **kept, **later
        )

    def _on_spark(self) -> SparkReading:
        """Return the reading if it is on Spark, else another one that is."""
        from sharelag.engine.spark.reading import SparkReading

        reading = self.reading
        if isinstance(reading, SparkReading):
            return reading
        return self._once("frames", self._spark_reading)

    def _spark_reading(self) -> SparkReading:
        from sharelag.engine.spark.reading import SparkReading

        return SparkReading(self.source, self.as_of, self.choice, self.over, self.spark, self.cache)

    def _session(self) -> SparkSession:
        return self._on_spark().spark

    def frame_of(
        self, made: Callable[[SparkReading], DataFrame], left_out: int
    ) -> Callable[[], DataFrame] | None:
        """Return the DataFrame of a result, or None if its table did not come from Spark."""
        is_whole = self.reading.engine == "local" and not left_out
        return None if is_whole else lambda: made(self._on_spark())

    def _gather(self) -> Evidence:
        evidence = self._run("reading share groups", lambda: self.reading.evidence)
        if self.requests is not None:
            from sharelag.metrics.holders import add_holders

            holders = self.requests.holders(evidence.lag, evidence.windows, evidence.as_of)
            evidence = replace(evidence, holders=holders, lag=add_holders(evidence.lag, holders))
        for group in () if self.asks_once else sorted(self.choice.groups):
            self.require_group(evidence.lag, group)
        if self.metrics is None:
            return evidence
        measured = self.metrics.beside(evidence.lag, evidence.as_of, self.source)
        return replace(evidence, measured=measured)

    if not TYPE_CHECKING:  # else every name would be known

        def __getattr__(self, name: str) -> Any:
            text = unknown_name(name, dir(self), "a Workbench")
            if not name.startswith("_") and hasattr(Result, name):  # such as to_spark
                text = f"a Workbench has no attribute {name!r}: answers do, as bench.lag().{name}"
            raise AttributeError(text)

    def state_of(self, group: str, *names: str) -> Evidence:
        """Return the lag of a group and some of its other tables, without reading more."""
        reading = self.reading
        tables = self._run(
            "reading share groups", lambda: {name: reading.table(name) for name in ("lag", *names)}
        )
        found = Evidence(
            reading.now, rejected=reading.record_counts.rejected, engine=reading.engine,
            lag_only=True, **tables,
        )  # fmt: skip
        self.require_group(found.lag, group)
        return found.of_group(group)

    def require_group(self, rows: pa.Table, group: str | None) -> None:
        """Raise `InputError` if a group has no row."""
        if group is not None and not isinstance(group, str):
            raise InputError(f"share groups have names: give a string, not {group!r}")
        there = sorted(pc.unique(rows.column("group_id")).to_pylist())
        if group is not None and group not in there:
            known = self._other_groups() or there
            if not known and (why := self._without_records()):
                raise InputError(*why)
            kinds, where = engines.other_groups(self.source), f"in {self.describe()}"
            raise InputError(engines.without_group(group, self.choice, known, where, kinds))

    def _without_records(self) -> tuple[str, ...]:
        """Explain a state topic without records; empty if it has some."""
        counts = self.reading.record_counts
        rejected = counts.rejected if self.as_of is None else 0  # of any moment
        if rejected and not counts.records and not self._other_groups():
            return (engines.only_rejects(rejected, self.choice.generation),)
        if counts.first is not None or rejected:
            return ()
        return (engines.without_records(self.source, self.as_of),)

    def _not_found(self, there: pa.Table) -> tuple[str, ...]:
        """Return sentences on selected topics without a share partition, or on no records."""
        found = () if len(there) else self._without_records()
        # Names may be right though a group has no state of a topic, or a moment none of any.
        if found or self.as_of is not None or self.choice.groups:
            return found
        lacking = self.choice.lacking(there)
        return (not_found(lacking),) if lacking else ()

    def _other_groups(self) -> list[str]:
        """Return all groups with state, if the reading may lack some of them."""
        is_part = self.choice.groups or self.choice.topics or self.as_of is not None
        return engines.group_names(self.source, self.choice.generation) if is_part else []

    def base_of_state(self, read: Reading, table: pa.Table) -> Result:
        """Return the source and gaps of an answer from the state topic alone."""
        notes = () if len(table) else self._without_records()
        lacks = engines.rejects_of(read)
        found = self._describe_reading(read, read.record_counts, lacks, notes)
        return replace(found, as_of=read.end)

    def base_of(self, evidence: Evidence, of_times: bool = True) -> Result:
        """Return the source and gaps of an answer from this evidence.

        ``of_times``: it needs to know when records were written.
        """
        notes, log = self._not_found(self.reading.table("lag")), self.requests
        notes += self.of_past_ends(evidence.lag)
        if evidence.lag_only:
            lacks = engines.rejects_of(self.reading)
            base = self._describe_reading(self.reading, evidence, lacks, notes)
            return replace(base, as_of=evidence.as_of)
        lacks = self._lacks(of_groups=True, of_times=of_times)
        base = self._describe_reading(self.reading, evidence, lacks, notes)
        notes = base.notes
        unknown = evidence.unknown(self.as_of is not None, self.choice.generation)
        if log is not None:
            notes, lacks = notes + log.words(evidence.as_of), lacks + log.lacks
        if self.metrics is not None:
            notes += self.metrics.words(set(evidence.lag.column("group_id").to_pylist()))
            unknown += self.metrics.unknown(evidence.measured)
        unknown = tuple(dict.fromkeys((*unknown, *lacks)))
        return replace(base, as_of=evidence.as_of, notes=notes, unknown=unknown, lacks=lacks)

    def of_past_ends(self, lag: pa.Table, is_past: bool = False) -> tuple[str, ...]:
        """Say whose clock dates the end offsets, of the moment or earlier."""
        if not (is_past or isinstance(self.as_of, datetime)):
            return ()
        names = frozenset(lag.column("topic").to_pylist())
        return self._once(("past ends", names), lambda: engines.past_by_records(self.source, lag))

    def _lacks(self, of_groups: bool, of_times: bool) -> tuple[str, ...]:
        """Return the gaps of answers from the reading, computed once."""
        given = of_groups, of_times
        return self._once(("lacks", *given), lambda: engines.lacks_of(self.reading, *given))

    def beside(self, read: Reading, lag: pa.Table) -> LagExtras:
        """Rows of `LAG` beside what a broker's request log and its metrics say about them."""
        found = self.held_beside(read, lag, lag)
        if self.metrics is None:
            return found
        from sharelag.metrics.measured import add_measured

        measured = self.metrics.beside(lag, read.now, self.source)
        return LagExtras(
            add_measured(found.table, measured),
            (*found.notes, *self.metrics.words(set(lag.column("group_id").to_pylist()))),
            (*found.unknown, *self.metrics.unknown(measured)),
            found.lacks,
        )

    def held_beside(
        self, read: Reading, lag: pa.Table, rows: pa.Table, runs: bool = False
    ) -> LagExtras:
        """Return rows of share partitions with the members that hold their offsets.

        They come from a request log. With ``runs``, ``held`` has the acquired runs, for charts.
        """
        if self.requests is None:
            return LagExtras(rows)
        from sharelag.metrics.holders import add_holders, with_held_runs

        holders = self.requests.holders(lag, read.table("states"), read.now)
        rows = add_holders(rows, holders)
        rows = with_held_runs(rows, holders) if runs else rows
        return LagExtras(rows, self.requests.words(read.now), (), self.requests.lacks)

    def keep(self, question: Any, work: Callable[[], _T]) -> _T:
        """Compute and cache an answer; a question starts with the text for a progress bar."""
        words = question if isinstance(question, str) else question[0]
        return self._once(question, lambda: self._run(f"reading {words}", work))

    def _run(self, words: str, work: Callable[[], _T]) -> _T:
        if self._is_here():
            return work()
        from sharelag.inputs.spark.sessions import spark_bar

        with spark_bar(words, self.bars):
            return work()


def copy_input(source: Any) -> Any:
    """Return a copy of an input without its caches."""
    if not is_dataclass(source) or isinstance(source, type):
        return source
    # Earlier answers of brokers say nothing about brokers that are silent now.
    config = getattr(source, "config", None)
    return replace(source) if config is None else replace(source, config=config.renew())


_LIMIT = "share.delivery.count.limit"
#: Keys of a share partition, without its group.
_TOPIC_KEY = ("topic_id", "partition")


def only(table: pa.Table | None, group: str | None) -> Any:
    """Return the rows of one group, or all; None stays None."""
    if group is None or table is None:
        return table
    return table.filter(pc.equal(table.column("group_id"), group))


def worst_first(table: pa.Table, evidence: Evidence, group: str) -> pa.Table:
    """Sort a group's rows: share partitions that its causes name, then the others by lag.

    The order within a share partition stays.
    """
    from sharelag.metrics.explain import explain

    mine = evidence.of_group(group)
    named: dict[tuple[Any, Any], int] = {}
    for number, row in enumerate(explain(mine).to_pylist()):
        named.setdefault((row["topic_id"], row["partition"]), number)  # None: several partitions
    places = zip(*(mine.lag.column(name).to_pylist() for name in _TOPIC_KEY), strict=True)
    ranks = [
        min(named.get(place, len(named)), named.get((place[0], None), len(named)))
        for place in places
    ]
    first = mine.lag.append_column("_rank", pa.array(ranks, pa.int64()))
    first = first.sort_by([("_rank", "ascending"), ("lag", "descending")])
    return first_come(table, first)


def first_come(table: pa.Table, first: pa.Table) -> pa.Table:
    """Move share partitions of another table to the front, in its order."""
    place = pc.index_in(keys(table, SHARE_PARTITION), keys(first, SHARE_PARTITION))
    ordered = table.append_column("_place", place).sort_by([("_place", "ascending")])
    return ordered.drop_columns("_place")


def count_share_partitions(rows: pa.Table) -> int:
    """Return the number of share partitions, each of which may have several states or moments."""
    return len(pc.unique(keys(rows, SHARE_PARTITION)))


def delivery_limit(settings: pa.Table, group: str) -> int | None:
    """Return a group's delivery limit, or None if unknown."""
    if not settings.num_rows:
        return None
    limit = in_force(settings, group)[_LIMIT].value
    return limit if isinstance(limit, int) else None
