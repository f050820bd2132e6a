"""What every question of a workbench rests on: one reading, what was gathered, answers kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, is_dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import InputError, ShareLagError, unknown_group, unknown_name
from sharelag.metrics.evidence import Evidence
from sharelag.reading import OVER, Reading
from sharelag.reading.once import Once
from sharelag.replay.moment import Choice, Moment, parse_moment, with_zone
from sharelag.sources.inputs import Input
from sharelag.tables.gaps import of_rejected, of_repeated
from sharelag.workbench import engine as engines
from sharelag.workbench import investigate
from sharelag.workbench.broker_metrics import BrokerMetrics, unknown_of, with_metrics
from sharelag.workbench.gaps import of_evidence
from sharelag.workbench.one_group import of_group
from sharelag.workbench.requests import Requests, with_requests
from sharelag.workbench.result import Result
from sharelag.workbench.spark_bar import spark_bar

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sharelag.pipeline.frames import Frames
    from sharelag.pipeline.reading import SparkReading

_T = TypeVar("_T")


@dataclass(frozen=True, eq=False, repr=False)
class Opened:
    """An input at a moment, read once; `sharelag.workbench.bench.Workbench` asks it."""

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
    _once: Once = field(default_factory=Once, init=False)

    # ---- another one -----------------------------------------------------------------------------

    def at(self, moment: str | Moment) -> Self:
        """The same at another moment: a time with its zone, or offsets of the state topic."""
        return replace(
            self, as_of=parse_moment(moment) if isinstance(moment, str) else with_zone(moment)
        )

    def refresh(self) -> Self:
        """The same, read again; where the input holds what it held before, the answers are kept."""
        # An input remembers what it asked, too; a copy of it does not.
        fresh = replace(self, source=copied(self.source), metrics=copied(self.metrics))
        version = self._once("version", self.source.version)
        if self.metrics is None and version is not None and version == fresh.source.version():
            object.__setattr__(fresh, "_once", self._once)
        return fresh

    def close(self) -> None:
        """Take what this workbench keeps out of Spark's cache; a later question reads again."""
        for name in ("reading", "frames"):
            if name in self._once:
                self._once(name, self._read).close()
        object.__setattr__(self, "_once", Once())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def only(self, *groups: str) -> Self:
        """The same with these groups alone."""
        return replace(self, choice=replace(self.choice, groups=frozenset(groups)))

    # ---- tables ----------------------------------------------------------------------------------

    @property
    def frames(self) -> Frames:
        """All tables as Spark DataFrames, by name: ``bench.frames.lag``."""
        return self._on_spark().frames

    def sql(self, query: str, args: dict[str, Any] | list[Any] | None = None) -> DataFrame:
        """Run a query over these tables; see `sharelag.pipeline.frames.Frames.sql`."""
        return self.frames.sql(query, args)

    def request_frame(self, name: str) -> DataFrame:
        """A table of the log of requests as a Spark DataFrame, for logs of any size.

        Parameters
        ----------
        name : str
            One of `sharelag.schemas.requests.REQUEST_TABLES`, or ``holds``, ``memberships``,
            ``sessions`` or ``batching``.

        Raises
        ------
        InputError
            No log of requests was given, or it has no such table.
        """
        from sharelag.pipeline.requests import request_frame

        if self.requests is None:
            raise InputError("no log of requests was given: use sharelag.open(..., requests=LOG)")
        return request_frame(self._session(), self.requests.log, name)

    @property
    def reading(self) -> Reading:
        """What all answers come from."""
        return self._once("reading", self._read)

    @property
    def is_gathered(self) -> bool:
        """Whether everything was read already; the lag alone takes a tenth of that time."""
        return "evidence" in self._once

    def here(self) -> Self | None:
        """The same in this process, where that answers long before Spark does; else None.

        Only of so few records (`engines.FEW_RECORDS`). Both engines give the same rows; what is
        read later of a cluster goes up to its end then.
        """
        source = copied(self.source)  # it keeps what it has read, such as where its log ends
        on_spark = engines.choose(self.engine, source) == "spark"
        if on_spark and not engines.is_sooner_here(source):
            return None
        return replace(self, source=source, engine="local")

    def lag_at_once(self) -> pa.Table:
        """`LAG` as soon as it can be known, without waiting for all else or for Spark."""
        here = None if "reading" in self._once else self.here()
        if here is None:
            return self.reading.table("lag")
        with engines.reading(here.source, "local", self.as_of, self.choice, history=False) as begun:
            return begun.table("lag")

    @property
    def groups(self) -> tuple[str, ...]:
        """The share groups that have any state, sorted."""
        return tuple(sorted(pc.unique(self.evidence().lag.column("group_id")).to_pylist()))

    def evidence(self, group: str | None = None) -> Evidence:
        """Everything that was gathered, of one group or all.

        Raises
        ------
        InputError
            There is no such group.
        """
        gathered = self._once("evidence", self._gather)
        if group is None:
            return gathered
        self._require(gathered, group)
        return self._once(("evidence", group), lambda: of_group(gathered, group))

    def describe(self) -> str:
        """Where the records come from, for people; no secrets."""
        try:
            return self.source.describe()
        except ShareLagError as error:
            return f"nothing that can be read ({error})"

    # ---- behind it -------------------------------------------------------------------------------

    def _read(self) -> Reading:
        is_own = self.spark is not None or self.cache
        if is_own and engines.choose(self.engine, self.source) == "spark":
            return self._spark_reading()
        return engines.read(self.source, self.engine, self.as_of, self.choice, self.over)

    def _on_spark(self) -> SparkReading:
        """The reading if it is on Spark, else another one that is."""
        from sharelag.pipeline.reading import SparkReading

        reading = self.reading
        return (
            reading
            if isinstance(reading, SparkReading)
            else self._once("frames", self._spark_reading)
        )

    def _spark_reading(self) -> SparkReading:
        from sharelag.pipeline.reading import SparkReading

        return SparkReading(self.source, self.as_of, self.choice, self.over, self.spark, self.cache)

    def _session(self) -> SparkSession:
        return self._on_spark().spark

    def _rejected(self) -> tuple[str, ...]:
        return of_rejected(self.reading.counted.rejected, self.choice.generation)

    def _frame(
        self, made: Callable[[SparkReading], DataFrame], left_out: int
    ) -> Callable[[], DataFrame] | None:
        """The DataFrame of a result; None where its table did not come from Spark."""
        is_whole = self.reading.engine == "local" and not left_out
        return None if is_whole else lambda: made(self._on_spark())

    def _gather(self) -> Evidence:
        evidence = with_requests(
            self._run("reading share groups", lambda: self.reading.evidence), self.requests
        )
        for group in sorted(self.choice.groups):
            self._require(evidence, group)
        return with_metrics(evidence, self.metrics, self.source)

    if not TYPE_CHECKING:  # else every name would be known

        def __getattr__(self, name: str) -> Any:
            said = unknown_name(name, dir(type(self)), "a Workbench")
            if not name.startswith("_") and hasattr(Result, name):  # such as to_spark
                said = f"a Workbench has no attribute {name!r}: answers do, as bench.lag().{name}"
            raise AttributeError(said)

    def _state(self, group: str, *names: str) -> Evidence:
        """The lag of a group and some more of its tables, without reading others."""
        reading = self.reading
        tables = self._run(
            "reading share groups", lambda: {name: reading.table(name) for name in ("lag", *names)}
        )
        found = Evidence(
            reading.now, rejected=reading.counted.rejected, engine=reading.engine, lag_only=True,
            **tables,
        )  # fmt: skip
        self._require(found, group)
        return of_group(found, group)

    def _require(self, evidence: Evidence, group: str | None) -> None:
        if group is not None and not isinstance(group, str):
            raise InputError(f"share groups have names: give a text, not {group!r}")
        there = sorted(pc.unique(evidence.lag.column("group_id")).to_pylist())
        if group is not None and group not in there:
            if not there and (why := self._without_records()):
                raise InputError(*why)
            there = self._other_groups() or there  # of the others nothing was read
            kinds = engines.other_groups(self.source)
            raise InputError(unknown_group(group, there, f"in {self.describe()}", kinds))

    def _without_records(self) -> tuple[str, ...]:
        """What it means that there is no record of the state topic, if there is none."""
        counted = self.reading.counted
        is_now = self.as_of is None and not counted.records
        if is_now and counted.rejected and not self._other_groups():
            return (engines.only_rejects(counted.rejected, self.choice.generation),)
        if counted.first is not None or counted.rejected:
            return ()
        return (engines.without_records(self.source, self.as_of),)

    def _other_groups(self) -> list[str]:
        """The groups with state, where only some were read."""
        is_part = self.choice.groups or self.choice.topics
        return engines.group_names(self.source, self.choice.generation) if is_part else []

    def _base_of_state(self, table: pa.Table) -> Result:
        """What results say that rest on the state topic alone, not on all that was gathered."""
        notes = () if len(table) else self._without_records()
        return replace(self._base(gathered=False), notes=notes)

    def _base(self, gathered: bool = True) -> Result:
        """What all results say of where they come from."""
        base = Result(
            "",
            pa.table({}),
            {},
            None,
            self.describe(),
            engine=self.reading.engine,
            session=self._session,
        )
        return self._base_of(self.evidence(), base) if gathered else base

    def _base_of(self, evidence: Evidence, base: Result | None = None) -> Result:
        """What all results say that rest on this evidence."""
        base = self._base(gathered=False) if base is None else base
        notes = () if len(evidence.lag) else self._without_records()
        notes += of_repeated(evidence.repeated)
        base = replace(base, as_of=evidence.as_of, engine=evidence.engine, notes=notes)
        if evidence.lag_only:
            return replace(base, unknown=of_rejected(evidence.rejected, self.choice.generation))
        unknown = of_evidence(evidence, self.as_of is not None, self.choice.generation)
        return replace(base, unknown=unknown + unknown_of(evidence.measured, self.metrics))

    def _step(self) -> timedelta:
        return investigate.step_of(self.evidence().progress, self.over)

    def _ask(self, question: Any, work: Callable[[], _T]) -> _T:
        words = question if isinstance(question, str) else question[0]
        return self._once(question, lambda: self._run(f"reading {words}", work))

    def _run(self, words: str, work: Callable[[], _T]) -> _T:
        if engines.choose(self.engine, self.source) != "spark":
            return work()
        with spark_bar(words, self.bars):
            return work()


def copied(source: Any) -> Any:
    """An input that has not been asked anything yet."""
    return replace(source) if is_dataclass(source) and not isinstance(source, type) else source
