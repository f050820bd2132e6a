"""Rows of a benchmark: the cost of some work with sharelag, compared with a rival or a limit.

A row names the work, the rival and two goals, and has a function that prepares both sides:

    @contextmanager
    def decoding(bench: Bench) -> Iterator[Contest]:
        batches = bench.inputs.batches("light", bench.size(1_000_000, 100_000))
        count = sum(batch.num_rows for batch in batches)
        yield Contest(
            ours=Side("decode_arrow", lambda: decode_all(batches), units=count),
            rival=Side("struct in a loop", lambda: loop(batches), units=count),
            check=same_fields,
        )

    ROWS = (Row("P1", "decode everything", "struct in a loop", 35, 50, decoding),)

`ROWS` of the modules in `benchmarks.rows` are found by `benchmarks.__main__`.

* A side is a callable; its answer is passed to ``check``, which raises if the answers are not as
  expected (`GateError`, or an assertion). A row whose check fails has no ratio, and the run fails.
* Sides run in turn, so that other load on the machine affects both: at least five rounds, after
  one that does not count (compiled, cached and read once).
* Wall and CPU time are divided by ``units``. CPU time includes children that have ended; ``living``
  names processes that live on (a JVM, Spark's workers). A side that measures itself, or knows its
  units only at the end, returns `Measured`; with smaller ``units`` a slow rival does only a part of
  the work.
* ``by`` names the measures of the goals; the poorest of them is the verdict. ``within=True``
  inverts the ratio: ours / rival, the smaller the better.
* Results that are expensive to prepare are kept for the rows of a module by
  ``bench.keep(name, open)``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.figures import Spread, poorest, ratio, spread, verdict
from benchmarks.inputs import Inputs
from benchmarks.processes import cpu_seconds, load

ROUNDS = 5
_T = TypeVar("_T")


class GateError(Exception):
    """The answers of the sides are wrong, so their times are meaningless."""


@dataclass(frozen=True)
class Measured:
    """An answer with measurements that replace those of the call; 0: not compared."""

    answer: object
    wall: float | None = None
    cpu: float | None = None
    peak: float | None = None  # bytes
    units: float | None = None


@dataclass(frozen=True)
class Side:
    """One way to do the work."""

    name: str
    run: Callable[[], object]
    units: float = 1
    unit: str = "records"
    living: Callable[[], Sequence[int]] = tuple


def limit(seconds: float) -> Side:
    """Return a side that takes a fixed time, as a limit for the other one."""
    return Side("the goal", lambda: Measured(None, wall=seconds, cpu=0), unit="times")


@dataclass(frozen=True)
class Contest:
    """Two sides, and the check of their answers."""

    ours: Side
    rival: Side
    check: Callable[[Any, Any], None]
    rounds: int = ROUNDS
    warm: bool = True


@dataclass(frozen=True)
class Row:
    """A line of the table: see the module."""

    id: str
    work: str
    against: str
    at_least: float
    aim: float
    make: Callable[[Bench], AbstractContextManager[Contest]]
    case: str = ""
    by: tuple[str, ...] = ("cpu", "wall")
    within: bool = False
    #: The bottleneck, attempts and the next idea: printed if the row falls short.
    note: str = ""

    @property
    def name(self) -> str:
        """The id with the case."""
        return f"{self.id} {self.case}".strip()

    @property
    def area(self) -> str:
        """The module of the row."""
        make = self.make.func if isinstance(self.make, partial) else self.make
        return make.__module__


class Bench:
    """The context of rows in a run: its size, inputs, a scratch folder, and shared resources."""

    def __init__(self, folder: Path, quick: bool = False) -> None:
        self.folder, self.quick = folder, quick
        self.inputs = Inputs(folder)
        self._open, self._kept = ExitStack(), dict[str, Any]()

    def size(self, full: int, quick: int) -> int:
        """Return the first size, or the second in a quick run."""
        return quick if self.quick else full

    def keep(self, name: str, make: Callable[[], AbstractContextManager[_T]]) -> _T:
        """Open a resource once; it is closed at the end of the run."""
        if name not in self._kept:
            self._kept[name] = self._open.enter_context(make())
        found: _T = self._kept[name]
        return found

    def close(self) -> None:
        """Close the resources that were kept."""
        self._kept.clear()
        self._open.close()


@dataclass
class Taken:
    """Measurements of the repetitions of one side, by measure, per unit."""

    side: Side
    costs: dict[str, list[float]] = field(default_factory=dict)
    units: float = 0

    def run(self) -> object:
        """Do the work once and store its measurements."""
        begin, cpu = time.perf_counter(), cpu_seconds(self.side.living())
        answer = self.side.run()
        wall = time.perf_counter() - begin
        spent = cpu_seconds(self.side.living()) - cpu
        found = answer if isinstance(answer, Measured) else Measured(answer)
        self.units = found.units or self.side.units
        known = {"wall": found.wall, "cpu": found.cpu, "peak": found.peak}
        for measure, clock in (("wall", wall), ("cpu", spent), ("peak", None)):
            cost = clock if known[measure] is None else known[measure]
            if cost is not None and known[measure] != 0:
                self.costs.setdefault(measure, []).append(max(cost, 1e-9) / self.units)
        return found.answer


@dataclass(frozen=True)
class Result:
    """A measured row."""

    row: Row
    at: datetime
    quick: bool
    load: tuple[float, float]  # of one minute, before and after
    sides: tuple[Taken, ...] = ()
    ratios: dict[str, Spread] = field(default_factory=dict)
    verdict: str = ""
    error: str = ""


def run_row(row: Row, bench: Bench) -> Result:
    """Measure a row; an error in it becomes its result."""
    begun, before = datetime.now(UTC), load()[0]
    try:
        with row.make(bench) as contest:
            ours, rival = _in_turn(contest)
        ratios = {
            measure: ratio(ours.costs[measure], rival.costs[measure])
            if row.within
            else ratio(rival.costs[measure], ours.costs[measure])
            for measure in ("cpu", "wall", "peak")
            if measure in ours.costs and measure in rival.costs
        }
        found = poorest(
            [verdict(ratios[one].median, row.at_least, row.aim, row.within) for one in row.by]
        )
    except Exception as error:  # any error, so that the other rows continue
        text = f"{type(error).__name__}: {error}".strip()
        return Result(row, begun, bench.quick, (before, load()[0]), error=text)
    return Result(row, begun, bench.quick, (before, load()[0]), (ours, rival), ratios, found)


def _in_turn(contest: Contest) -> tuple[Taken, Taken]:
    """Run both sides in turn, and check their answers before the first round and after the last."""
    if contest.rounds < ROUNDS:
        raise ValueError(f"a contest has at least {ROUNDS} rounds, not {contest.rounds}")
    if contest.warm:
        contest.check(Taken(contest.ours).run(), Taken(contest.rival).run())
    ours, rival = Taken(contest.ours), Taken(contest.rival)
    for _ in range(contest.rounds):
        mine, theirs = ours.run(), rival.run()
    contest.check(mine, theirs)
    return ours, rival


def told(result: Result) -> Iterator[str]:
    """Yield the lines of a result for a terminal."""
    row = result.row
    yield f"{row.name}: {row.work}, against {row.against}"
    if result.error:
        yield f"    FAILED, no ratio: {result.error}"
        return
    for taken in result.sides:
        for measure in ("wall", "cpu"):
            if measure in taken.costs:
                cost = spread([each * taken.units for each in taken.costs[measure]])
                rate = taken.units / cost.median
                yield (
                    f"    {taken.side.name:<44.44} {measure:<4} {cost.median:9.3f} s "
                    f"[{cost.low:.3f}..{cost.high:.3f}]  {rate:14,.0f} {taken.side.unit}/s"
                )
    for measure, found in result.ratios.items():
        yield f"    {measure:<5} {found.median:.3g}x [{found.low:.3g}..{found.high:.3g}]"
    goal = "within" if row.within else "at least"
    yield (
        f"    {result.verdict}: {goal} {row.at_least:g}x, aim {row.aim:g}x by "
        f"{' and '.join(row.by)}; load {result.load[0]:.1f} to {result.load[1]:.1f}"
    )
