"""Lag-aware assignment against Kafka's own: 200 drawn scenarios, kept in data/studies."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.assignor_study import (
    ALIKE,
    RATIOS,
    code_version,
    reasons,
    splits,
    study,
    summed_up,
    worst,
)
from sharelag.whatif import assign

STUDIES = Path(__file__).parents[1] / "data" / "studies"
#: `drawn` of these.
NUMBERS = range(200)


def run() -> None:
    begin = time.perf_counter()
    runs = study(NUMBERS)
    took = time.perf_counter() - begin
    print(
        f"{runs.num_rows} runs in {took:.0f} s; "
        "ratios to 'simple', geometric means with 95 % intervals"
    )
    keep(runs)
    for name in ("simple", "sticky", "lag-proportional", "lag-aware-sticky"):
        first, then = seconds(name)
        print(
            f"1,000 partitions, 200 members, {name}: {first:.2f} s, "
            f"and {then:.2f} s with a changed lag:"
        )


def seconds(assignor: str, partitions: int = 1000, members: int = 200) -> tuple[float, float]:
    """Time an assignor for a group without assignment, and again after the lag has changed."""
    falling = {number: 1e6 / (number + 1) for number in range(partitions)}
    ids = [f"m{number}" for number in range(members)]
    took, current = [], dict[str, dict[str, list[int]]]()
    for lag in (falling, {partitions - 1 - number: amount for number, amount in falling.items()}):
        group = [{"id": id_, "subscribed": ["t"], "current": current.get(id_, {})} for id_ in ids]
        begin = time.perf_counter()
        current = assign(assignor, group, {"t": {"partitions": partitions, "lag": lag}})
        took.append(time.perf_counter() - begin)
    return took[0], took[1]


def keep(runs: pa.Table) -> None:
    """Print what the runs say, and keep both."""
    rows, split, behind = summed_up(runs), splits(runs), worst(runs)
    why = reasons([row["number"] for row in behind])
    STUDIES.mkdir(parents=True, exist_ok=True)
    pq.write_table(runs, STUDIES / "assignors.parquet")
    told = {
        "code": code_version(),
        "alike": ALIKE,
        "summary": rows,
        "splits": split,
        "worst": behind,
        "reasons": why,
    }
    (STUDIES / "assignors.json").write_text(json.dumps(told, indent=1) + "\n")
    for family in dict.fromkeys(row["family"] for row in rows):
        ours = [row for row in rows if row["family"] == family]
        print(f"\n{family or 'all'}, {ours[0]['scenarios']} scenarios")
        print(text_table([_HEADER, *map(_line, ours)]))
    print("\n'lag-aware-sticky' in scenarios with")
    print(
        text_table([list(split[0]), *([_short(value) for value in row.values()] for row in split)])
    )
    print(
        "\nWhere 'lag-aware-sticky' is furthest behind 'simple', "
        "and everybody everywhere, and the one without lag:"
    )
    print(
        text_table(
            [list(behind[0]), *([_short(value) for value in row.values()] for row in behind)]
        )
    )
    print("\nThe worse of the two ratios there, if one thing were another:")
    print(text_table([list(why[0]), *([_short(value) for value in row.values()] for row in why)]))


_HEADER = ["assignor"]
_HEADER += ["drain", "better/same/worse", "p95 age", "better/same/worse"]
_HEADER += [
    "never drained",
    "drain/optimal",
    "drain/bound",
    "moves/min",
    "pairs of all-to-all",
    "idle members",
]


def _line(row: dict[str, Any]) -> list[str]:
    line = [row["assignor"]]
    for measure in RATIOS:
        better, worse = row[f"{measure}_better"], row[f"{measure}_worse"]
        line.append(
            f"{row[f'{measure}_ratio']:.2f} "
            f"[{row[f'{measure}_low']:.2f}..{row[f'{measure}_high']:.2f}]"
        )
        line.append(f"{better}/{row['scenarios'] - better - worse}/{worse}")
    over = "-" if row["drain_over_bound"] is None else f"{row['drain_over_bound']:.2f}"
    low, high = row["drain_over_optimal_low"], row["drain_over_optimal_high"]
    optimal = f"{row['drain_over_optimal']:.2f} [{low:.2f}..{high:.2f}]"
    return [
        *line,
        str(row["never_drained"]),
        optimal,
        over,
        f"{row['moves_per_minute']:.1f}",
        f"{row['pairs_of_all']:.0%}",
        f"{row['idle_members']:.1f}",
    ]


def _short(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def text_table(rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
