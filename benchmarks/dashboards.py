"""Dashboards of the demo on Spark: the first table, a refresh, and a change of group."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

import sharelag
from sharelag_widgets.dashboards import (
    FleetView,
    GroupView,
    ImbalanceView,
    PoisonHunt,
    StateTopicHealth,
    WindowExplorer,
)
from sharelag_widgets.dashboards.group_dashboard import GroupDashboard

_ROUNDS = 5
#: Milliseconds that feel immediate.
_GOAL = 1_000.0
#: Seconds until the first table of a notebook.
_FIRST = 15.0


def run() -> None:
    bench = sharelag.open("demo")
    begin = time.perf_counter()
    bench.lag()
    first = time.perf_counter() - begin
    verdict = "below" if first < _FIRST else "NOT below"
    print(f"first table, with the start of Spark: {first:.1f} s: {verdict} {_FIRST:.0f} s")
    refreshes: list[float] = []
    changes: list[float] = []
    for kind in (
        FleetView,
        StateTopicHealth,
        GroupView,
        WindowExplorer,
        PoisonHunt,
        ImbalanceView,
    ):
        board = kind(bench)
        mine = [_timed(lambda board=board: _refresh(board)) for _ in range(_ROUNDS)]
        refreshes += mine
        print(f"{kind.__name__:16} refresh          {_told(mine)}")
        if not issubclass(kind, GroupDashboard):
            continue
        other = [
            _timed(lambda board=board, group=group: _show(board, group)) for group in bench.groups
        ]
        changes += other
        print(f"{kind.__name__:16} another group    {_told(other)}")
    for name, times in (("refresh", refreshes), ("another group", changes)):
        verdict = "below" if np.percentile(times, 95) < _GOAL else "NOT below"
        print(f"{'all':16} {name:16} {_told(times)}: p95 {verdict} {_GOAL:.0f} ms")


def _refresh(board: object) -> None:
    """What a click does, without the thread that it does it in."""
    fresh = board._read(lambda: False, lambda *_: None)  # type: ignore[attr-defined]
    board.bench = fresh  # type: ignore[attr-defined]


def _show(board: object, group: str) -> None:
    board.group = group  # type: ignore[attr-defined]


def _timed(work: Callable[[], None]) -> float:
    begin = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - begin)


def _told(times: list[float]) -> str:
    middle, late = np.percentile(times, [50, 95])
    return f"median {middle:7.1f}  p95 {late:7.1f}  n={len(times)}"
