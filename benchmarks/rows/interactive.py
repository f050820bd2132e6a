"""Waiting times in a notebook: imports, the first table, a click."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any

import numpy as np

import sharelag
from benchmarks.harness import Bench, Contest, GateError, Measured, Row, Side, limit
from benchmarks.inputs import CAPTURES
from benchmarks.processes import command, own_python
from sharelag_widgets.dashboards import (
    FleetView,
    GroupView,
    ImbalanceView,
    Now,
    PoisonHunt,
    StateTopicHealth,
    WhatIfLab,
    WindowExplorer,
)
from tests.support.synthetic import capture_of

#: Any dashboard, and the steps of a user on it.
Dashboard = Any
Act = Callable[[Dashboard], Iterator[Callable[[], object]]]
_BOARDS = (Now, FleetView, StateTopicHealth, GroupView, WindowExplorer, PoisonHunt, ImbalanceView)
_IMPORTS = "import sharelag, sharelag_widgets; sharelag.open"
_USUAL = "import pandas, pyarrow, plotly.graph_objects, ipywidgets"
_FIRST = """
import sharelag
bench = sharelag.open("demo")
print(bench.lag()._repr_html_().count("<tr"))
bench.close()
"""
_LAG = """
import sys
from sharelag import cli
from sharelag.cli import output
{change}
sys.argv[1:] = ["lag", "--capture", *sys.argv[1:]]
cli.main()
"""
_WITH_PANDAS = "output.Without.find_spec = lambda *_: None"
#: Acceptable waiting times in seconds: for the first table, a click, simulations;
_PATIENCE, _CLICK, _WHAT_IF = 10.0, 1.0, 10.0
#: for another group of the demo, which is small;
_PICK = 0.3
#: for the verdict of a dashboard, and for all of it.
_VERDICT, _COMPLETE = 5.0, 10.0
#: Groups, share partitions of each, and records of each of these: 400,000 records.
_MANY = (200, 50, 40)
#: Steps in *Now* in one round.
_STEPS = 8


@contextmanager
def imports(_: Bench) -> Iterator[Contest]:
    """Import the modules of a notebook, compared with those that most notebooks import anyway."""
    yield Contest(
        Side("import sharelag, sharelag_widgets", partial(command, own_python(_IMPORTS)),
             unit="times"),
        Side("import pandas, pyarrow, plotly, ipywidgets", partial(command, own_python(_USUAL)),
             unit="times"),
        lambda *_: None,
    )  # fmt: skip


@contextmanager
def first_table(_: Bench) -> Iterator[Contest]:
    """Start a process, import, start Spark, and show the first answer."""

    def check(rows: str, _: object) -> None:
        if int(rows) < 2:
            raise GateError(f"the first table has {rows} rows")

    ours = Side("sharelag.open, lag", partial(command, own_python(_FIRST)), unit="times")
    yield Contest(ours, limit(_PATIENCE), check)


@contextmanager
def _workbench() -> Iterator[sharelag.Workbench]:
    with sharelag.open("demo") as bench:
        yield bench


@contextmanager
def clicks(bench: Bench, act: Act) -> Iterator[Contest]:
    """Take the 95th percentile of a user's steps on every dashboard."""
    open_bench = bench.keep("demo", _workbench)
    boards = [kind(open_bench) for kind in _BOARDS]

    def ours() -> Measured:
        times = [_seconds(step) for board in boards for step in act(board)]
        return Measured(len(times), wall=float(np.percentile(times, 95)), cpu=0)

    def check(count: int, _: object) -> None:
        if count < len(boards) // 2:
            raise GateError(f"{count} clicks only")

    yield Contest(Side("95th percentile of clicks", ours, unit="times"), limit(_CLICK), check)
    for board in boards:
        board.close()


def refresh(board: Dashboard) -> Iterator[Callable[[], object]]:
    """Click *Refresh* and wait; three times."""
    for _ in range(3):
        yield board.refresh


def another_group(board: Dashboard) -> Iterator[Callable[[], object]]:
    """Choose each group."""
    if hasattr(board, "group"):
        for group in board.bench.groups:
            yield partial(setattr, board, "group", group)


def another_moment(board: Dashboard) -> Iterator[Callable[[], object]]:
    """Go back in time, like a drag over the chart; no moment twice."""
    end = board.bench.lag().as_of
    for seconds in range(7, 180, 2):  # the shorter of the two inputs lasts 200 s
        yield partial(setattr, board.selection, "moment", end - timedelta(seconds=seconds))


def another_range(board: Dashboard) -> Iterator[Callable[[], object]]:
    """Choose each range of each group."""
    for group in board.bench.groups:
        board.group = group
        for _, seconds in board.range.options:
            yield partial(setattr, board.range, "value", seconds)


def one_click(board: Dashboard) -> Iterator[Callable[[], object]]:
    """Try two more members of each group, and another assignor."""
    for group in board.bench.groups:
        board.group = group
        yield partial(board.run, "members")
        yield partial(board.run, "lag-aware")


@contextmanager
def what_if(bench: Bench) -> Iterator[Contest]:
    """Press Run with the initial choices: two variants, five seeds, two minutes simulated."""
    lab = WhatIfLab(bench.keep("demo", _workbench))
    lab.runs.value = 5

    def ours() -> str:
        lab.run()
        lab.join()
        return str(lab.state)

    def check(state: str, _: object) -> None:
        if state != "done":
            raise GateError(f"the comparison is {state}: {lab.header.failure}")

    yield Contest(Side("run and draw", ours, unit="times"), limit(_WHAT_IF), check)
    lab.close()


def _many(bench: Bench) -> Path:
    """Return a capture of 10,000 share partitions with an hour of end offsets."""
    folder = bench.folder / "inputs" / "capture-{}-{}-{}".format(*_MANY)
    if not folder.exists():
        capture_of(folder, *_MANY)
    return folder


@contextmanager
def now(bench: Bench, goal: float, whole: bool, many: bool) -> Iterator[Contest]:
    """Open an input and show *Now* to a viewer, like Voila."""
    where = _many(bench) if many else "demo"

    def ours() -> Measured:
        begin, judged = time.perf_counter(), threading.Event()
        with sharelag.open(where, engine="local") as opened:
            board = opened.dashboard()
            board.verdict.observe(lambda _: judged.set(), names=["level"])
            if not board.verdict.level:
                judged.wait(_PATIENCE * 10)
            spent = time.perf_counter() - begin
            board.join()
            spent = time.perf_counter() - begin if whole else spent
            said = (board.verdict.sentence, opened.overview().title, board.header.failure)
            board.close()
        return Measured(said, wall=spent, cpu=0)

    def check(said: tuple[str, str, str], _: object) -> None:
        sentence, title, failure = said
        if sentence != title or failure:
            raise GateError(
                f"the dashboard says {sentence!r} {failure}, and the overview {title!r}"
            )

    os.environ["VOILA_KERNEL_ID"] = "benchmark"
    try:
        yield Contest(Side("open and show", ours, unit="times"), limit(goal), check)
    finally:
        del os.environ["VOILA_KERNEL_ID"]


@contextmanager
def steps(bench: Bench, act: Act, goal: float, many: bool, whole: bool = True) -> Iterator[Contest]:
    """Take the 95th percentile of steps in *Now*, each until all of it is updated.

    Without ``whole`` only until the selected group is updated, which comes before the others.
    """
    with sharelag.open(_many(bench) if many else "demo", engine="local") as opened:
        board = opened.dashboard()
        todo = chain.from_iterable(act(board) for _ in repeat(None))
        there = threading.Event()  # parts of the previous moment are dim until then

        def brighten(change: dict[str, tuple[str, ...]]) -> None:
            if "sharelag-moves" not in change["new"]:
                there.set()

        board.observe(brighten, names=["_dom_classes"])

        def ours() -> Measured:
            times, done = [], []
            for step in islice(todo, _STEPS):
                there.clear()
                begin = time.perf_counter()
                step()
                _ = board.join() if whole else there.wait()
                times.append(time.perf_counter() - begin)
                board.join()
                explained = board.seen.explain(board.group)
                done.append((board.cards.state, explained.summaries[0].state, board.header.failure))
            return Measured(done, wall=float(np.percentile(times, 95)), cpu=0)

        def check(done: list[tuple[str, str, str]], _: object) -> None:
            for state, explained, failure in done:
                if state != explained or failure:
                    raise GateError(f"the cards say {state!r} {failure}, and explain {explained!r}")

        yield Contest(Side("95th percentile", ours, unit="times"), limit(goal), check)
        board.close()


@contextmanager
def shortcut(_: Bench, without: str) -> Iterator[Contest]:
    """Run a quick command as a whole process; the rival lacks one of its shortcuts."""
    ours, usual = (
        own_python(_LAG.format(change=one), str(CAPTURES / "demo")) for one in ("", without)
    )

    def check(answer: str, other: str) -> None:
        if answer != other or answer.count("\n") < 2:
            raise GateError("the two answers differ")

    yield Contest(
        Side("sharelag lag", partial(command, ours), unit="times"),
        Side("sharelag lag, without the shortcut", partial(command, usual), unit="times"),
        check,
    )


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


ROWS = (
    Row("I1", "notebook: imports, in a separate process", "import pandas, pyarrow, plotly, "
        "ipywidgets", 1.5, 1, imports, by=("wall",), within=True),
    Row("I2", "notebook: from nothing to the first table, with the start of Spark", "10 s", 1, 0.67,
        first_table, by=("wall",), within=True),
    Row("I3", "dashboards: refresh, 95th percentile", "1 s", 1, 0.5,
        partial(clicks, act=refresh), by=("wall",), within=True),
    Row("I4", "dashboards: another group, 95th percentile", "1 s", 1, 0.5,
        partial(clicks, act=another_group), by=("wall",), within=True),
    Row("I5", "what-if dashboard: ten simulations compared and drawn", "10 s", 1, 0.5, what_if,
        by=("wall",), within=True),
    Row("I6", "terminal: `sharelag lag` of a recorded cluster, which ends its process at once",
        "the same, ended by the interpreter", 1, 1.1,
        partial(shortcut, without="cli.leave = sys.exit"), by=("cpu",)),
    Row("I7", "terminal: `sharelag lag` of a recorded cluster, which hides pandas from pyarrow",
        "the same, with pandas", 1, 1.2, partial(shortcut, without=_WITH_PANDAS), by=("cpu",)),
    *(Row(name, f"*Now* of {words}: {what}", f"{goal:g} s", 1, 0.5, make, case, by=("wall",),
          within=True)
      for case, words, many in (("demo", "the demo", False),
                                ("10,000", "10,000 share partitions, 400,000 records", True))
      for name, what, goal, make in (
          ("I14", "until the verdict stands", _VERDICT,
           partial(now, goal=_VERDICT, whole=False, many=many)),
          ("I15", "until all is there", _COMPLETE,
           partial(now, goal=_COMPLETE, whole=True, many=many)),
          *((number, f"{doing}, 95th percentile", patience,
             partial(steps, act=act, goal=patience, many=many, whole=number != "I17"))
            for number, doing, patience, act in (
                ("I16", "another group", _CLICK if many else _PICK, another_group),
                ("I17", "another moment of the group in sight", _CLICK, another_moment),
                ("I18", "another range", _CLICK, another_range),
                ("I19", "a what-if of one click", _WHAT_IF, one_click),
                ("I20", "another moment of all groups", _VERDICT, another_moment))))),
)  # fmt: skip
