"""Grids of runs: each variant with each seed, and each different run once, under a stable id."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import pyarrow as pa

from sharelag.errors import InputError
from sharelag.version import __version__
from sharelag.whatif.assignors.registry import find_assignor, known_assignor
from sharelag.whatif.comparison.tables import OVER_OPTIMAL, RUNS
from sharelag.whatif.scenario import Scenario
from sharelag.whatif.scenario_json import to_json
from sharelag.whatif.simulate import SimulationResult, require_seed, simulate

#: The variant to which distances are measured.
_OPTIMAL = "optimal"


@dataclass(frozen=True)
class PlannedRun:
    """One simulation to be made.

    Attributes
    ----------
    id
        The same wherever and whenever: made of the scenario, the seed, and the version of sharelag.
    """

    id: str
    scenario: Scenario
    seed: int


@dataclass(frozen=True)
class Cell:
    """One row of the answer: a variant and a seed, its run, and the optimal run beside it."""

    variant: str
    seed: int
    run: str
    optimal: str | None = None


@dataclass(frozen=True)
class Grid:
    """All that is to be run: each run once, although two cells may need it."""

    runs: tuple[PlannedRun, ...]
    cells: tuple[Cell, ...]


def grid(variants: Mapping[str, Scenario], seeds: Iterable[int], *, optimal: bool = False) -> Grid:
    """Lay out the runs of variants and seeds.

    Parameters
    ----------
    variants : mapping of str to Scenario
    seeds : iterable of int
    optimal : bool
        With the same scenarios under the assignor ``optimal``, to measure the distance to it.

    Raises
    ------
    InputError
        No variant or no seed is given, or a seed twice.
    """
    if not isinstance(variants, Mapping):
        raise InputError(
            "variants are scenarios by name: give {'as it is': scenario, ...}, "
            "as sharelag.whatif.variants makes them"
        )
    seeds = seeds_in(seeds)
    if not variants or not seeds:
        raise InputError("there is nothing to run: give at least one variant and one seed")
    if len(set(seeds)) < len(seeds):
        raise InputError("duplicate seeds would count twice: give each seed once")
    runs: dict[str, PlannedRun] = {}
    cells = []
    for name, scenario in variants.items():
        own, best = _text(scenario), None
        twin = replace(scenario, assignor=_OPTIMAL)
        if optimal:
            best = _text(twin)
        for seed in seeds:
            run = PlannedRun(_id(own, seed), scenario, seed)
            runs.setdefault(run.id, run)
            bound = None if best is None else PlannedRun(_id(best, seed), twin, seed)
            if bound is not None:
                runs.setdefault(bound.id, bound)
            cells.append(Cell(name, seed, run.id, None if bound is None else bound.id))
    return Grid(tuple(runs.values()), tuple(cells))


def seeds_in(seeds: Iterable[int]) -> list[int]:
    """Return the seeds one by one.

    Raises
    ------
    InputError
        They are not whole numbers from 0 on.
    """
    if not isinstance(seeds, Iterable):
        raise InputError(f"seeds are several numbers: give range({seeds}) or [{seeds}]")
    return [require_seed(seed) for seed in seeds]


def run(planned: PlannedRun) -> dict[str, Any]:
    """Simulate, and give the row of the summary with the run's id."""
    return row_of(planned, simulate(planned.scenario, planned.seed))


def row_of(planned: PlannedRun, found: SimulationResult) -> dict[str, Any]:
    """The row of the summary with the run's id."""
    (row,) = found.summary.to_pylist()
    return {"run": planned.id, **row}


def as_runs(plan: Grid, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """The rows of all cells, in the order of the grid: `RUNS`, and `OVER_OPTIMAL` if it has that.

    ``rows`` are one per run, in any order: as `run` gives it, or ``run`` and ``error``.
    """
    by_id = {row["run"]: row for row in rows}
    made = []
    for cell in plan.cells:
        row = {**by_id[cell.run], "variant": cell.variant, "seed": cell.seed}
        if cell.optimal is not None:
            best = by_id[cell.optimal]
            row["drain_over_optimal"] = _ratio(row, best, "drain_ms")
            row["age_p95_over_optimal"] = _ratio(row, best, "age_p95_ms")
        made.append(row)
    requested = any(cell.optimal is not None for cell in plan.cells)
    return pa.Table.from_pylist(
        made, schema=pa.schema([*RUNS, *(OVER_OPTIMAL if requested else ())])
    )


def _ratio(row: Mapping[str, Any], best: Mapping[str, Any], name: str) -> float | None:
    value, least = row.get(name), best.get(name)
    return None if value is None or not least else value / least


def is_ours(assignor: str) -> bool:
    """Whether sharelag itself has the assignor, or it is unknown."""
    function = known_assignor(assignor)
    return function is None or str(getattr(function, "__module__", "")).startswith("sharelag.")


def _text(scenario: Scenario) -> str:
    """All that a run depends on, but for the seed."""
    source = "" if is_ours(scenario.assignor) else _source(find_assignor(scenario.assignor))
    return "\n".join([__version__, source, to_json(scenario)])


def _source(function: Any) -> str:
    """A user's own assignor may change under the same name."""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):  # made in a shell, or an object that can be called
        code = getattr(function, "__code__", None)
        return "" if code is None else f"{code.co_code.hex()} {code.co_names} {code.co_consts}"


def _id(text: str, seed: int) -> str:
    return sha256(f"{seed}\n{text}".encode()).hexdigest()[:32]
