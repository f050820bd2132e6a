"""Timing two or more ways in turn, so that whatever else the machine does hits all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def in_turn(sides: Mapping[str, Callable[[], object]], rounds: int = 5) -> None:
    """Print each side's median and range in seconds, and its ratio to the first, round by round."""
    for run in sides.values():
        run()  # compiled, cached and read once before it counts
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, run in sides.items():
            begin = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - begin)
    first = times[next(iter(sides))]
    for name, seconds in times.items():
        ratios = [a / b for a, b in zip(first, seconds, strict=True)]
        print(
            f"{name:<44} {statistics.median(seconds):8.3f} s "
            f"[{min(seconds):.3f}..{max(seconds):.3f}]   "
            f"{statistics.median(ratios):6.2f}x as fast as the first "
            f"[{min(ratios):.2f}..{max(ratios):.2f}]"
        )
