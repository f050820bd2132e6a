"""`sharelag simulate`: what-ifs from a cluster's state, by name, or from a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from math import inf, log2
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sharelag.cli.ask import PARTIAL
from sharelag.cli.options import ANSWER, CHOICE, INPUT, Call, command, source_of, switch, text
from sharelag.cli.output import groups_in, plain, print_rows, read_by, simulation_bar, tell, write
from sharelag.cli.simulate_options import (
    BETWEEN,
    SCENARIO,
    SEEDS,
    TRIALS,
    VARIANTS,
    evidence_of,
    given_seeds,
    past_of,
    ranges_of,
    require_names,
    require_one_question,
    scenario_of,
    seeds_of,
    variants_of,
)
from sharelag.tables import views
from sharelag.tables.words import pluralize

if TYPE_CHECKING:
    import pyarrow as pa

    from sharelag.whatif.scenario import Scenario

#: The approximate number of the tuner's runs.
_TUNED = 700


@command(INPUT, CHOICE, ANSWER, SCENARIO, VARIANTS, TRIALS)
@switch("--timeline  Print the lag of each share partition over time instead of a summary.")
@text(
    "--since WHEN  Simulate the past from this time (or this long before its end: 1h), as it was "
    "and with --members, --assignor and --setting."
)
@text("--until WHEN  End of that past.  [default: the end of the input]")
@text(
    "--alert RULE  Report whether this alert would have fired in that past, such as 'age>30s' or "
    "'lag>1000'."
)
@text(
    "--chart FILE.html  Also write the chart of that past to this file.",
    type=click.Path(dir_okay=False, path_type=Path),
)
@switch("--show-scenario  Print the scenario as JSON, for --scenario FILE.json, and run nothing.")
def simulate(output: str, **options: Any) -> int:
    """Simulate a share group with other assignors, members or settings.

    The simulation starts from the current state of the group. Options given several times are tried
    in every combination, with the same seeds. With --compare, each variant has a row with the
    measures that decide; without a VERDICT, the runs show no difference from the first one. All
    intervals, such as DIFF-FROM to DIFF-TO of a difference, hold together with 95 % confidence.

    With --tune, it searches for settings that keep the goals, says how far each of them is from
    breaking one, and prints Kafka's commands without running them.

    With --suite, it ranks assignors, including your own functions, over randomly drawn scenarios.

    With --since, it starts from the state at that time, with the records that really arrived: one
    row shows what happened, one the same simulated, and the others what would have happened
    instead. Exits with 3 if the simulation does not explain what happened.

    Exits with 3, too, if it is not known how long a record takes: times then rest on an assumption
    (rows have `complete: false`), no variant is called better, and searches are refused.
    """
    from sharelag.whatif.comparison.rows import unknown_work
    from sharelag.whatif.scenario_json import to_json

    require_one_question(options)
    if options["scenario"] == "list" or "list" in options["assignor"]:
        _list(output, "assignor" if "list" in options["assignor"] else "scenario")
        return 0
    if options["suite"]:
        return _rank(output, options)
    require_names(options)
    if options["members_wanted"] is not None:
        return _print_wanted(output, options)
    if options["since"] is not None:
        return _otherwise(output, options)
    scenario, settings = scenario_of(options)
    tried = variants_of(scenario, options)
    if not options["show_scenario"]:
        _require_an_end(scenario, tried, options)
    unknown = "" if options["show_scenario"] else unknown_work(scenario)
    status, verdict = Call.will_end(PARTIAL if unknown else 0), ""
    if options["show_scenario"]:
        write(to_json(one, indent=2) for one in tried.values())
    elif options["against"]:
        _against(tried, output, options)
    elif options["tune"]:
        verdict = _tune(tried, settings, output, options)
    elif options["fewest_members"] is not None:
        _search(tried, output, options)
    elif options["what_clears"]:
        verdict = _clear(scenario, output, options)
    elif options["compare"]:
        verdict = _compare(tried, output, options)
    elif options["timeline"]:
        steps = _mark(_timelines(tried, options), tried.values())
        print_rows(steps, output, views.SIMULATED_TIMELINE.columns)
    else:
        _print_runs(tried, output, options)
    if options["members"] is not None and any(fault.member for fault in scenario.faults):
        tell("faults of single members are left out, since --members changes their number")
    said = filter(None, [verdict or unknown])
    tell(*(f"assumed: {sentence}" for sentence in scenario.assumed), *said)
    return status


def _require_an_end(
    scenario: Scenario, tried: Mapping[str, Scenario], options: dict[str, Any]
) -> None:
    from sharelag.whatif.horizon import MOST, require_end, size

    if options["what_clears"]:
        from sharelag.whatif.clearing import search

        found = search(scenario, **_to_clear(scenario, options))
        sizes, runs = [found.size], found.runs * (len(given_seeds(options)) or found.seeds)
    elif options["tune"]:
        sizes, runs = [size(one) for one in tried.values()], _TUNED
    else:
        sizes = [size(one) for one in tried.values()]
        each = _each(options)
        runs = len(seeds_of(options, max(len(tried), each))) * each
    less = (
        "give a shorter --duration, fewer variants or --seeds, or larger record batches in a "
        "scenario of your own (--show-scenario)"
    )
    less += "" if options["sweep"] else ", or spread the runs over cores with --sweep DIR"
    require_end(sizes, runs, less, inf if options["sweep"] else MOST)


def _each(options: dict[str, Any]) -> int:
    """Return the runs of a variant and seed, for a search at least those of the bisection."""
    if options["fewest_members"]:
        least, most = options["between"] or BETWEEN
        return 1 + int(log2(most - least + 1))
    return 2 if options["optimal"] or options["against"] else 1


# ---- answers -------------------------------------------------------------------------------------


def _mark(
    rows: Iterable[dict[str, Any]], scenarios: Iterable[Scenario]
) -> Iterator[dict[str, Any]]:
    """Mark rows as incomplete if their times rest on an assumption."""
    from sharelag.whatif.comparison.rows import unknown_work

    mark = {"complete": False} if any(map(unknown_work, scenarios)) else {}
    return (row | mark for row in rows)


def _print_runs(tried: dict[str, Scenario], output: str, options: dict[str, Any]) -> None:
    from sharelag.whatif.comparison import rows as trials

    rows = [*_mark(plain(_runs(tried, options).drop_columns(["run"])), tried.values())]
    failed = any(row["error"] for row in rows)
    view = views.summary(bool(options["setting"] or options["autoscale"]), failed)
    print_rows(rows, output, view.columns, trials.run_for_people)


def _runs(tried: dict[str, Scenario], options: dict[str, Any]) -> pa.Table:
    from sharelag.whatif.grid import in_turn

    make, seeds = _sweep(options) or in_turn, seeds_of(options, len(tried))
    with simulation_bar() as progress:
        return make(tried, seeds, optimal=options["optimal"], progress=progress)


def _sweep(options: dict[str, Any]) -> Callable[..., pa.Table] | None:
    """Return the function that simulates on Spark and keeps the runs, if a folder was named."""
    if not options["sweep"]:
        return None
    from sharelag.engine.spark.sweep import sweep

    return partial(sweep, out=options["sweep"])


def _timelines(tried: dict[str, Scenario], options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    from sharelag.tables.lines import each_row, plain_rows
    from sharelag.whatif.simulate import simulate as run

    for name, scenario in tried.items():
        for seed in seeds_of(options):
            result = run(scenario, seed)
            (of,) = plain_rows(result.summary.select(["assignor", "members", "seed"]))
            for row in each_row(result.timeline):
                # of the partition; the run has a column with the same name
                fetching = row.pop("members")
                yield {"variant": name, **of, **row, "fetching": fetching}


def _compare(tried: dict[str, Scenario], output: str, options: dict[str, Any]) -> str:
    """Print a comparison, and return its verdict."""
    from sharelag.whatif.compare import compared
    from sharelag.whatif.comparison import rows as trials

    comparison = compared(_runs(tried, options), options["baseline"], options["confidence"], tried)
    if output == "human" and not options["measure"] and not options["optimal"]:
        columns, rows = views.DECISION.columns, comparison.decision()
        best = comparison.best_cells()
        print_rows(rows, output, columns, trials.decision_for_people, best)
    else:
        shown = trials.SHOWN if output == "human" else ()
        rows = [*_mark(comparison.rows(options["measure"] or shown), tried.values())]
        print_rows(rows, output, views.COMPARED.columns, trials.for_people)
    tell(*comparison.sentences())
    return comparison.verdict()


def _clear(scenario: Scenario, output: str, options: dict[str, Any]) -> str:
    """Print what clears the lag, and return the verdict."""
    from sharelag.whatif.clearing import what_clears

    with simulation_bar() as progress:
        seeds, given = given_seeds(options) or None, _to_clear(scenario, options)
        found = what_clears(scenario, seeds=seeds, progress=progress, **given)
    if output == "human":
        rows, view = found.grid()
        print_rows(rows, output, view.columns)
    else:
        print_rows(_mark(plain(found.cells), [scenario]), output)
    tell(*found.sentences())
    return found.verdict()


def _to_clear(scenario: Scenario, options: dict[str, Any]) -> dict[str, Any]:
    from sharelag.whatif.clearing import ASSIGNORS

    return {
        "assignors": options["assignor"] or ASSIGNORS,
        "members": options["members"] or (),
        "duration_ms": scenario.duration_ms if options["duration"] else None,
    }


def _search(tried: dict[str, Scenario], output: str, options: dict[str, Any]) -> None:
    from sharelag.whatif.comparison import rows as trials
    from sharelag.whatif.search import Goal, fewest_members

    goal = Goal.parse(options["fewest_members"], options["confidence"])
    least, most = options["between"] or BETWEEN
    rows, sentences = [], []
    for name, scenario in tried.items():
        with simulation_bar() as progress:
            seeds = seeds_of(options)
            found = fewest_members(
                scenario, goal=goal, seeds=seeds, between=(least, most), progress=progress
            )
        rows += found.rows(name)
        sentences.append(f"{name}: {found}")
    print_rows(rows, output, views.PROBES.columns, trials.probe_for_people)
    tell(*sentences)


def _tune(
    tried: dict[str, Scenario], settings: pa.Table | None, output: str, options: dict[str, Any]
) -> str:
    """Print the settings that fit, or the trade-offs, and return the verdict."""
    from sharelag.metrics.settings import choose_basis
    from sharelag.model.versions import resolve_version
    from sharelag.whatif.tune import tune
    from sharelag.workbench.next_steps import address_of

    (scenario,) = tried.values()
    known: dict[str, Any] = {"settings": settings}
    if settings is not None:
        source = source_of(options)
        version = resolve_version(source.kafka_version)
        known["kafka_version"] = choose_basis(settings, version).version
        known["server"], known["command_config"] = address_of(source)
    if sweep := _sweep(options):
        known["runs"] = sweep
    with simulation_bar() as progress:
        found = tune(
            scenario,
            options["goal"],
            ranges=ranges_of(options),
            seeds=options["seeds"] or SEEDS,
            seed=next(iter(options["seed"]), 0),
            confidence=options["confidence"],
            progress=progress,
            **known,
        )
    if options["front"]:
        front = found.traded_for_people() if output == "human" else found.front
        print_rows(front, output, views.TRADED.columns)
    else:
        print_rows(found.settings, output, views.TUNED.columns)
    tell(*found.sentences())
    return found.verdict()


def _against(tried: dict[str, Scenario], output: str, options: dict[str, Any]) -> None:
    from sharelag.whatif.comparison import rows as trials
    from sharelag.whatif.consumer_group import should_move

    seeds = seeds_of(options)
    rows: list[dict[str, Any]] = []
    for name, scenario in tried.items():
        with simulation_bar() as bar:
            moving = should_move(scenario, seeds, confidence=options["confidence"], progress=bar)
        rows += moving.rows(name)
    print_rows(rows, output, views.MOVING.columns, trials.moving_for_people)
    words = f"intervals of {100 * options['confidence']:g} %; {trials.MOVING}"
    few = trials.too_few(rows, len(seeds), options["confidence"])
    tell(f"{pluralize(len(seeds), 'seed')}, {words}", *few)


def _rank(output: str, options: dict[str, Any]) -> int:
    """Print the ranking of assignors on the suite, and return the exit code."""
    from sharelag.whatif.ranking import rank_assignors

    chosen: dict[str, Any] = {"baseline": options["baseline"]} if options["baseline"] else {}
    with simulation_bar() as progress:
        if sweep := _sweep(options):
            chosen["runs"] = partial(sweep, progress=progress)
        found = rank_assignors(
            options["assignor"],
            count=options["suite"],
            seed=next(iter(options["seed"]), 0),
            progress=progress,
            **chosen,
        )
    rows = found.for_people() if output == "human" else found.ranked
    print_rows(rows, output, views.RANKED.columns)
    tell(found.conditions(), found.verdict())
    return 0


def _print_wanted(output: str, options: dict[str, Any]) -> int:
    """Print how many members each group wants, and return the exit code."""
    from sharelag.whatif.horizon import members_wanted

    evidence = evidence_of(options)
    groups = sorted(groups_in(evidence.lag))
    found = [members_wanted(evidence, one, options["members_wanted"]) for one in groups]
    view = views.WANTED.without("why") if output == "human" else views.WANTED
    status = Call.will_end(PARTIAL if any(one.members is None for one in found) else 0)
    print_rows([one.row() for one in found], output, view.columns)
    read_by(evidence, source_of(options))
    tell(*map(str, found))
    return status


def _otherwise(output: str, options: dict[str, Any]) -> int:
    """Print what happened, and its simulation with and without changes.

    Returns the exit code: whether the simulation explains what happened.
    """
    from sharelag.whatif.otherwise import AS_IT_WAS, Alert, otherwise

    chart: Path | None = options["chart"]
    if chart is not None and not chart.absolute().parent.is_dir():
        raise click.UsageError(f"--chart: {chart} is in no existing folder: choose another file.")
    alert = None if options["alert"] is None else Alert.parse(options["alert"])
    past = past_of(options)
    tried = variants_of(past.scenario, options)
    _require_an_end(past.scenario, {AS_IT_WAS: past.scenario, **tried}, options)
    with simulation_bar() as progress:
        found = otherwise(
            past,
            tried,
            alert=alert,
            seeds=seeds_of(options),
            confidence=options["confidence"],
            progress=progress,
        )
    status = Call.will_end(0 if found.explained.is_close else PARTIAL)
    print_rows(found.rows, output, views.OTHERWISE.columns, found.for_people)
    if chart is not None:
        from sharelag.charts import otherwise_figure

        otherwise_figure(found).write_html(chart, include_plotlyjs=True)
    tell(*found.conditions(), found.verdict())
    return status


def _list(output: str, what: str) -> None:
    from sharelag.whatif import assignor_descriptions, names

    descriptions = assignor_descriptions() if what == "assignor" else names()
    print_rows([{what: name, "about": about} for name, about in descriptions.items()], output)
