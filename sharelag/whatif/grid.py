"""Runs of variants of a scenario, each with each seed.

Variants are all combinations of assignors, numbers of members and settings. A grid has each
different run once, with a stable id, even if several variants need it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from sharelag.errors import InputError
from sharelag.model.settings.catalogue import find
from sharelag.model.settings.rules import parse
from sharelag.tables.words import pluralize
from sharelag.version import __version__
from sharelag.whatif.assignors.jar import JarAssignor
from sharelag.whatif.assignors.registry import find_assignor, known_assignor
from sharelag.whatif.autoscale import Autoscaler, autoscaler_of
from sharelag.whatif.comparison.tables import OVER_OPTIMAL, RUNS
from sharelag.whatif.consumers import KAFKA_NAMES, require_members, with_values
from sharelag.whatif.scenario import Scenario, Settings
from sharelag.whatif.scenario_json import to_json
from sharelag.whatif.simulate import SimulationResult, require_seed, simulate

#: The name of an unchanged scenario.
AS_IT_IS = "as it is"
#: Between the parts of a variant's name.
_BETWEEN = " · "


def variants(
    scenario: Scenario,
    *,
    assignors: str | Iterable[str] = (),
    members: int | Iterable[int] = (),
    settings: Mapping[str, Settings | Mapping[str, object]] | Iterable[Any] = (),
    autoscalers: Sequence[str] = (),
) -> dict[str, Scenario]:
    """Return all combinations of assignors, members, settings and autoscalers.

    Parameters
    ----------
    scenario : Scenario
        Supplies everything that is not varied.
    assignors : str or iterable of str
        Some of `sharelag.whatif.assignor_names`.
    members : int or iterable of int
        Numbers of members; faults of single members are then left out (`Scenario.with_members`).
    settings : mapping of str to Settings or mapping
        By a label of your choice: all settings, or only those that differ from the scenario by
        Kafka's names, such as ``{"short locks": {"share.record.lock.duration.ms": 15000}}``. Values
        may exceed the ranges that brokers enforce.
    autoscalers : sequence of str
        Such as ``keda:threshold=100``, each once.

    Returns
    -------
    dict of str to Scenario
        By names of the varied parts such as ``simple · 8 members · short locks``; ``as it is`` if
        nothing is varied.

    Raises
    ------
    InputError
        An assignor, a setting or an autoscaler is unknown, or a value cannot be read.
    """
    labelled: Mapping[str, Any] = (
        settings if isinstance(settings, Mapping) else dict.fromkeys(map(str, settings))
    )
    if not all(isinstance(one, Settings | Mapping) for one in labelled.values()):
        raise InputError(
            "settings are given by label: {'short locks': {'share.record.lock.duration.ms': 15000}}"
        )
    assignors = [assignors] if isinstance(assignors, str) else list(assignors)
    members = list(members) if isinstance(members, Iterable) else [members]
    members = [require_members(one) for one in members]
    for name in assignors:
        find_assignor(name)
    people = {pluralize(one, "member"): scenario.with_members(one) for one in members}
    chosen = {
        label: given if isinstance(given, Settings) else _with_named(scenario.settings, given)
        for label, given in labelled.items()
    }
    policies: dict[str, Autoscaler | None] = {text: autoscaler_of(text) for text in autoscalers}
    if len(policies) < len(autoscalers):
        raise InputError("an autoscaler is given twice: give each once")
    made = product(
        assignors or [""],
        (people or {"": scenario}).items(),
        (chosen or {"": scenario.settings}).items(),
        (policies or {"": scenario.autoscaler}).items(),
    )
    return {
        _BETWEEN.join(filter(None, (name, who, label, scaled))) or AS_IT_IS: replace(
            some, assignor=name or scenario.assignor, settings=in_force, autoscaler=policy
        )
        for name, (who, some), (label, in_force), (scaled, policy) in made
    }


def require_seeds(seeds: Iterable[int]) -> list[int]:
    """Return random seeds as a list without duplicates."""
    if not isinstance(seeds, Iterable):
        raise InputError(f"seeds are several numbers: give range({seeds}) or [{seeds}]")
    chosen = [require_seed(seed) for seed in seeds]
    if len(set(chosen)) < len(chosen):
        raise InputError("duplicate seeds would count twice: give each seed once")
    return chosen


def require_fixed(scenario: Scenario) -> None:
    """Refuse to search for a number of members that an autoscaler changes."""
    if scenario.autoscaler is not None:
        raise InputError(
            "an autoscaler decides how many members there are, so their number cannot be searched "
            "for: give the scenario with autoscaler=None, or compare autoscalers"
        )


def _with_named(settings: Settings, given: Mapping[str, object]) -> Settings:
    values: dict[str, Any] = {}
    for name, value in given.items():
        setting = find(name)
        if setting is None or name not in KAFKA_NAMES:
            raise InputError(f"unknown setting {name!r}: choose one of {', '.join(KAFKA_NAMES)}")
        typed, why = parse(setting, value)
        if typed is None or (name == "share.auto.offset.reset" and typed not in setting.choices):
            raise InputError(
                f"{name} cannot be {value!r}: {why or 'give ' + ' or '.join(setting.choices)}"
            )
        values[KAFKA_NAMES[name]] = typed
    return with_values(settings, values)


#: Called with the number of runs done, and of all runs.
Progress = Callable[[int, int], object]
#: Makes the runs of variants and seeds, as `sharelag.sweep` does.
Runs: TypeAlias = Callable[[Mapping[str, Scenario], Iterable[int]], pa.Table]
#: Called with the id of a run and its result.
Keep: TypeAlias = Callable[[str, SimulationResult], object]


def further(progress: Progress | None, before: int, later: int = 0) -> Progress | None:
    """Report some runs as part of more: ``before`` are done, ``later`` are expected."""
    if progress is None:
        return None
    return lambda done, all_: progress(before + done, before + all_ + max(later, 0))


class PlannedRun(NamedTuple):
    """One planned simulation; its id is the same in every process."""

    id: str
    scenario: Scenario
    seed: int


class Cell(NamedTuple):
    """One row of the result: a variant with a seed, and optionally the optimal run."""

    variant: str
    run: PlannedRun
    optimal: PlannedRun | None = None


class Grid(NamedTuple):
    """All planned runs."""

    cells: tuple[Cell, ...]

    @property
    def runs(self) -> tuple[PlannedRun, ...]:
        """Each run once, even if two cells need it."""
        needed = (one for cell in self.cells for one in cell[1:] if one is not None)
        return tuple({one.id: one for one in needed}.values())


def grid(variants: Mapping[str, Scenario], seeds: Iterable[int], *, optimal: bool = False) -> Grid:
    """Plan the runs of variants and seeds, optionally with those of the assignor `optimal`."""
    if not isinstance(variants, Mapping):
        raise InputError(
            "variants are scenarios by name: give {'as it is': scenario, ...}, "
            "as sharelag.whatif.variants makes them"
        )
    seeds = require_seeds(seeds)
    if not variants or not seeds:
        raise InputError("there is nothing to run: give at least one variant and one seed")

    def plan(scenario: Scenario) -> list[PlannedRun]:
        is_own = is_ours(scenario.assignor)
        source = "" if is_own else _source(find_assignor(scenario.assignor))
        # Everything that a run depends on, except the seed.
        text = "\n".join([__version__, source, to_json(scenario)])
        ids = (sha256(f"{seed}\n{text}".encode()).hexdigest()[:32] for seed in seeds)
        return [PlannedRun(id_, scenario, seed) for id_, seed in zip(ids, seeds, strict=True)]

    cells: list[Cell] = []
    for name, scenario in variants.items():
        best = plan(replace(scenario, assignor="optimal")) if optimal else [None] * len(seeds)
        cells += (Cell(name, *runs) for runs in zip(plan(scenario), best, strict=True))
    return Grid(tuple(cells))


def run(planned: PlannedRun, keep: Keep | None = None) -> dict[str, Any]:
    """Simulate a planned run, and return its summary with its id; ``keep`` gets the result."""
    found = simulate(planned.scenario, planned.seed)
    if keep is not None:
        keep(planned.id, found)
    (row,) = found.summary.to_pylist()
    return {"run": planned.id, **row}


def in_turn(
    variants: Mapping[str, Scenario],
    seeds: Iterable[int],
    *,
    optimal: bool = False,
    progress: Progress | None = None,
    keep: Keep | None = None,
) -> pa.Table:
    """Run variants and seeds in this process, one after the other."""
    plan, rows = grid(variants, seeds, optimal=optimal), list[dict[str, Any]]()
    planned, report = plan.runs, progress or (lambda *_: None)
    for done, one in enumerate(planned):
        report(done, len(planned))
        rows.append(run(one, keep))
    report(len(planned), len(planned))
    return as_runs(plan, rows)


def as_runs(plan: Grid, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Return the rows of all cells in the order of the grid, as `RUNS` and `OVER_OPTIMAL`.

    ``rows`` are one per run: as `run` returns it, or ``run`` and ``error``.
    """
    by_id = {row["run"]: row for row in rows}
    made, further = [], ()
    for name, planned, best in plan.cells:
        row = {**by_id[planned.id], "variant": name, "seed": planned.seed}
        if best is not None:
            further = OVER_OPTIMAL
            for over in OVER_OPTIMAL.names:
                measure = over.replace("_over_optimal", "_ms")
                value, least = row.get(measure), by_id[best.id].get(measure)
                row[over] = None if value is None or not least else value / least
        made.append(row)
    return pa.Table.from_pylist(made, schema=pa.schema([*RUNS, *further]))


def is_ours(assignor: str) -> bool:
    """Return whether an assignor is built in, or unknown."""
    function = known_assignor(assignor)
    if isinstance(function, JarAssignor):
        return False
    return function is None or str(getattr(function, "__module__", "")).startswith("sharelag.")


def _source(function: Any) -> str:
    """Return the code of a user's own assignor, which may change under the same name.

    The whole file counts, because the assignor may use other parts of it; a notebook cell has no
    file.
    """
    if isinstance(function, JarAssignor):
        return f"{function.class_name} {function.libraries} {function.digest}"
    try:
        source, file = inspect.getsource(function), Path(inspect.getsourcefile(function) or "")
        return source + (sha256(file.read_bytes()).hexdigest() if file.is_file() else "")
    except (OSError, TypeError):  # defined in a shell, or a callable object
        code = getattr(function, "__code__", None)
        return "" if code is None else f"{code.co_code.hex()} {code.co_names} {code.co_consts}"
