"""Options of `sharelag simulate`, what they stand for, and those that would be ignored."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import product
from pathlib import Path
from runpy import run_path
from typing import TYPE_CHECKING, Any

import click

from sharelag.cli.options import (
    Duration,
    duration,
    flag,
    flags,
    given_options,
    pick,
    repeat,
    source_of,
    switch,
    text,
)
from sharelag.cli.output import read_by, reading_of, require_rows, tell

if TYPE_CHECKING:
    import pyarrow as pa

    from sharelag.metrics.evidence import Evidence
    from sharelag.whatif.past import Past
    from sharelag.whatif.scenario import Scenario, Service

#: How many seeds answer a question for which one is not enough.
SEEDS = 20
#: How many members are searched.
BETWEEN = [1, 64]
_MS = timedelta(milliseconds=1)


def _deprecate(_: click.Context, option: click.Parameter, value: Any) -> Any:
    if value is not None:
        tell(f"{option.opts[0]} is deprecated: use --service, such as --service 20ms")
    return value


class Counts(click.ParamType[list[int]]):
    """Numbers of members such as 8,16; or two bounds."""

    name = "N,N"

    def __init__(self, bounds: bool = False) -> None:
        self.bounds = bounds

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[int]:
        """Read and check them."""
        if isinstance(value, list):
            return value
        try:
            counts = [int(part) for part in value.split(",")]
        except ValueError:
            counts = []
        if self.bounds and (len(counts) != 2 or not 0 <= counts[0] <= counts[1]):
            self.fail(f"{value!r} is not a range of member counts, such as 1,64.", param, ctx)
        if not counts or min(counts) < 0 or (len(set(counts)) < len(counts) and not self.bounds):
            self.fail(f"{value!r} is not a list of member counts, such as 8,16.", param, ctx)
        return counts


class AssignorName(click.ParamType[str]):
    """An assignor by its name; a function or class of a file is registered under that name."""

    name = "NAME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Run the file of such a function, or find such a class."""
        file, _, function = value.rpartition(":")
        if file.endswith(".py"):
            from sharelag.whatif.assignors.registry import register

            try:
                there = run_path(file)
            except Exception as error:  # anything can go wrong in code of others
                self.fail(
                    f"{file!r} cannot be run ({type(error).__name__}: {error}): give a Python file "
                    "with a function of a group.",
                    param,
                    ctx,
                )
            if function not in there:
                self.fail(f"{file!r} has no function {function!r}: correct the name.", param, ctx)
            register(value, there[function])
        elif file.endswith(".jar"):
            from sharelag.whatif.assignors.jar import jar_assignor
            from sharelag.whatif.assignors.registry import register

            register(value, jar_assignor(file, function))
        elif value.endswith(".jar"):
            self.fail(f"{value!r} is a jar: name its class, as {value}:com.Mine.", param, ctx)
        elif value.endswith(".py"):
            self.fail(f"{value!r} is a file: name its function, as {value}:assign.", param, ctx)
        return str(value)


SCENARIO = [
    text(
        "--scenario NAME|FILE.json  A named scenario or a file instead of an input; `list` shows "
        "the names."
    ),
    duration(
        "--duration  How long to simulate.  [default: that of the scenario; 10m for an input, and "
        "with --compare and --tune less for a busy group, down to 2m]",
        most=timedelta.max,
    ),
    duration(
        "--rebalance-every  How often lag-aware assignors reassign.  [default: when members come "
        "or go]"
    ),
    duration(
        "--service  Mean processing time of a record.  [default: estimated from the group's rates]",
        least=timedelta(),
    ),
    click.option(
        "--service-ms", type=Duration(timedelta(), bare="ms"), hidden=True, callback=_deprecate
    ),
    duration("--over  How far back to look for rates.", default="1h"),
]
VARIANTS = [
    repeat(
        "--assignor NAME|FILE.py:FUNCTION|FILE.jar:CLASS  The assignor, or one of your own; "
        "repeatable. `list` describes them. A jar needs Kafka's own jars, from KAFKA_HOME.",
        type=AssignorName(),
    ),
    text("--members N,N  Numbers of members.  [default: the current number]", type=Counts()),
    repeat("--setting NAME=V,V  Values of a setting by Kafka's name; repeatable."),
    repeat(
        "--autoscale POLICY  An autoscaler: keda:threshold=100,min=1,max=20, target-age:goal=30s "
        "or fixed:8; repeatable."
    ),
    text("--seed N  Random seed; repeatable.", type=click.IntRange(min=0), multiple=True),
    text(
        "--seeds N  Number of random seeds, from 0 on.  [default: 1; with --compare and "
        f"--what-clears as many as distinguish the variants; {SEEDS} for other questions that "
        "need many runs]",
        type=click.IntRange(min=1, max=1_000_000),
    ),
]
TRIALS = [
    switch(
        "--compare  Compare the variants, and an input's group as it is: means, differences, the "
        "winner."
    ),
    switch("--what-clears  Try assignors with more and more members until the lag clears."),
    pick("--against  Compare to a consumer group doing the same work.", among=["consumer-group"]),
    text(
        "--suite [N]  Rank the assignors over N randomly drawn scenarios, 200 if N is not given; "
        "see docs/assignors.md.",
        type=click.IntRange(min=1),
        is_flag=False,
        flag_value=200,
    ),
    text(
        "--baseline VARIANT  The variant to compare with.  [default: the first; for an input the "
        "group as it is; with --suite the assignor simple]"
    ),
    repeat(
        "--measure NAME  Print this measure with all its intervals instead of the decision table; "
        "repeatable."
    ),
    switch("--optimal  Also measure the distance to the assignor `optimal`."),
    text("--fewest-members GOAL  Find the fewest members that meet a goal, such as 'age_p95<30s'."),
    switch(
        "--tune  Search for settings and members that keep every --goal with the fewest "
        "member-hours. --setting NAME=LOW..HIGH and --between narrow the search; NAME=VALUE is "
        "fixed."
    ),
    repeat(
        "--goal GOAL  A goal for --tune to keep, such as 'age_p95<30s' or 'redelivered_share<1%'; "
        "repeatable."
    ),
    switch(
        "--front  With --tune, print what more or fewer member-hours would achieve instead of the "
        "settings."
    ),
    text(
        "--members-wanted GOAL  Calculate how many members keep records younger than this, such "
        "as 30s, at the current arrival rate; a formula without simulation, as the exporter uses "
        "for KEDA."
    ),
    text(
        "--between N,N  Range of member counts to search.  [default: 1,64]",
        type=Counts(bounds=True),
    ),
    text(
        "--confidence SHARE  Confidence of intervals, winners and the search, between 0.5 and 1.",
        type=click.FloatRange(0.5, 1, min_open=True, max_open=True),
        default=0.95,
    ),
    text(
        "--sweep DIR  Run on Spark and keep finished runs in this folder; run it again to "
        "continue.",
        type=click.Path(file_okay=False, path_type=Path),
    ),
]


def given_seeds(options: dict[str, Any]) -> list[int]:
    """Return the given seeds; none if the question decides."""
    return list(options["seed"]) or list(range(options["seeds"] or 0))


def seeds_of(options: dict[str, Any], variants: int = 1) -> list[int]:
    """Return the given seeds, or as many as the question needs for a number of variants."""
    from sharelag.whatif.comparison.intervals import enough_seeds

    many = any(options[name] for name in ("against", "fewest_members", "sweep", "since", "tune"))
    quick = enough_seeds(variants, options["confidence"]) if options["compare"] else 1
    return given_seeds(options) or list(range(SEEDS if many else quick))


def settings_of(given: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """Return all combinations of values, by a label that names them."""
    choices: dict[str, list[str]] = {}
    for one in given:
        name, equals, listed = one.partition("=")
        if not equals or not all(listed.split(",")):
            raise click.UsageError(f"--setting takes NAME=VALUE or NAME=VALUE,VALUE, not {one!r}.")
        choices.setdefault(name, []).extend(listed.split(","))
    values = product(*choices.values()) if choices else ()
    combined = (dict(zip(choices, some, strict=True)) for some in values)
    return {", ".join(f"{name}={value}" for name, value in one.items()): one for one in combined}


def variants_of(scenario: Scenario, options: dict[str, Any]) -> dict[str, Scenario]:
    """Return the variants of a scenario by name; those of an input start with it as it is."""
    from sharelag.whatif.grid import AS_IT_IS, variants

    tried = variants(
        scenario,
        assignors=options["assignor"],
        members=options["members"] or (),
        # The tuner takes ranges, not variants.
        settings=settings_of(() if options["tune"] else options["setting"]),
        autoscalers=options["autoscale"],
    )
    if options["compare"] and options["scenario"] is None and scenario not in tried.values():
        return {AS_IT_IS: scenario} | tried
    return tried


def ranges_of(options: dict[str, Any]) -> dict[str, Any]:
    """Return the values that the tuner may try, as numbers or texts."""
    found: dict[str, Any] = {}
    for one in options["setting"]:
        name, equals, value = one.partition("=")
        if not equals or not value or name in found:
            raise click.UsageError(
                f"with --tune, --setting takes NAME=VALUE or NAME=LOW..HIGH once, not {one!r}."
            )
        low, dots, high = value.partition("..")
        found[name] = (low, high) if dots else value
    if options["between"]:
        found["members"] = tuple(options["between"])
    return found


def scenario_of(options: dict[str, Any]) -> tuple[Scenario, pa.Table | None]:
    """Return the given scenario, or one that starts from an input, and the input's settings.

    The settings are `sharelag.schemas.SETTINGS`; None for a given scenario.
    """
    from sharelag.whatif.gallery import named
    from sharelag.whatif.horizon import cut_short

    name = options["scenario"]
    settings = None
    if name is None:
        scenario, settings = _from_input(options)
    elif name.endswith(".json") or Path(name).is_file():
        scenario = _from_file(name)
    else:
        scenario = named(name)
    is_quick = (options["compare"] or options["tune"]) and not options["sweep"] and name is None
    lasting = options["duration"]
    if lasting is not None:
        scenario = replace(scenario, duration_ms=round(lasting / _MS))
    elif is_quick:
        scenario = cut_short(scenario)
    if options["rebalance_every"] is not None:
        every = round(options["rebalance_every"] / _MS)
        changed = replace(scenario.settings, rebalance_interval_ms=every)
        scenario = replace(scenario, settings=changed)
    return scenario, settings


def past_of(options: dict[str, Any]) -> Past:
    """Return the given span of the past of an input's group."""
    from sharelag.cli.ask import open_bench
    from sharelag.workbench.pasts import gather_past

    source = source_of(options)
    with open_bench(source, options) as bench:
        require_rows(bench.choice, bench.as_of, set(bench.groups), source, 0, needed=True)
        return gather_past(bench, None, options["since"], options["until"], _service(options))


def _service(options: dict[str, Any]) -> Service | None:
    from sharelag.whatif.scenario import Service

    mean = options["service"] if options["service_ms"] is None else options["service_ms"]
    return None if mean is None else Service(mean / _MS, "exponential")


def _from_file(name: str) -> Scenario:
    from sharelag.errors import InputError
    from sharelag.inputs.texts import read_text
    from sharelag.whatif.scenario_json import from_json

    try:
        text = read_text(name)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"cannot read the scenario {name!r} ({error}): give a file that --show-scenario wrote"
        ) from error
    return from_json(text)


def evidence_of(options: dict[str, Any]) -> Evidence:
    """Gather the evidence of the given groups."""
    # A sweep starts Spark after this, which needs files that others can do without.
    is_spared = not options["sweep"]
    given = options["engine"], options["over"], options
    with reading_of(*given, is_spared, needed=True) as (reading, _):
        evidence: Evidence = reading.evidence
    return evidence


def _from_input(options: dict[str, Any]) -> tuple[Scenario, pa.Table]:
    from sharelag.whatif.from_cluster import scenario_from

    source, evidence = source_of(options), evidence_of(options)
    scenario = scenario_from(evidence, service=_service(options))
    read_by(evidence, source)
    return scenario, evidence.settings


#: Options about an input, which a scenario replaces.
_INPUT_OPTIONS = (
    *("bootstrap_server", "command_config", "command_property", "capture", "raw", "segments"),
    "generation",
    *("group", "all_groups", "topic", "as_of", "engine", "timeout"),
    *("service", "service_ms", "over"),
)
#: Options that only some questions use.
_OF = {
    "baseline": ("compare", "suite"),
    "measure": ("compare",),
    "optimal": ("compare",),
    "between": ("fewest_members", "tune"),
    "confidence": ("compare", "against", "fewest_members", "since", "tune"),
    "goal": ("tune",),
    "front": ("tune",),
    "until": ("since",),
    "alert": ("since",),
    "chart": ("since",),
}
#: A question, the options that it sets or varies itself, and why they are refused.
_ALONE = (
    ("fewest_members", "members", "varies the number of members: remove {}, or use --between"),
    ("tune", "members autoscale", "varies the number of members: remove {}, or use --between"),
    ("members_wanted", "scenario", "reads an input: remove {}"),
    (
        "members_wanted",
        "members assignor setting autoscale seed seeds duration rebalance_every service service_ms",
        "is calculated for the group as it is: remove {}",
    ),
    ("what_clears", "setting autoscale", "tries assignors and members: remove {}"),
    (
        "since",
        "scenario duration autoscale service_ms over rebalance_every sweep",
        "simulates the past of an input until --until: remove {}",
    ),
    ("fewest_members", "autoscale", "and {} both vary the number of members: choose one"),
)
#: The options that apply to the suite's scenarios.
_SUITE_OPTIONS = ("suite", "assignor", "baseline", "seed", "sweep", "output", "verbose")
_QUESTIONS = (
    *("against", "compare", "what_clears", "fewest_members", "timeline", "show_scenario"),
    *("since", "tune", "members_wanted", "suite"),
)


def require_one_question(options: dict[str, Any]) -> None:
    """Refuse options that do not go together, with what to remove or add."""
    given = given_options()
    if options["scenario"] == "list":
        if others := [name for name in given if name not in ("scenario", "output")]:
            raise click.UsageError(f"--scenario list runs nothing: remove {flags(others)}.")
        return
    if "list" in options["assignor"]:
        if others := [name for name in given if name not in ("assignor", "output")]:
            raise click.UsageError(f"--assignor list runs nothing: remove {flags(others)}.")
        return
    if options["scenario"] is not None and (of_input := given_options(_INPUT_OPTIONS)):
        are = "are" if len(of_input) > 1 else "is"
        raise click.UsageError(
            f"{flags(of_input)} {are} for an input and cannot be used with --scenario: remove one."
        )
    _require_one(options)
    for name, questions in _OF.items():
        if name in given and not any(options[question] for question in questions):
            raise click.UsageError(
                f"--{name} needs {flags(questions, 'or')}: add it, or remove --{name}."
            )
    _require_seeds(options)


def require_names(options: dict[str, Any]) -> None:
    """Check that all given names exist before an input is read."""
    from sharelag.errors import InputError, list_names
    from sharelag.whatif.compare import require_baseline
    from sharelag.whatif.comparison.tables import MEASURED, OVER_OPTIMAL
    from sharelag.whatif.scenario import Member, Scenario, Topic
    from sharelag.whatif.search import Goal

    # The names of variants do not depend on the scenario.
    names = list(variants_of(Scenario((Topic("any", 1),), (Member(),)), options))
    if options["show_scenario"] and len(names) > 1:
        raise click.UsageError(
            f"--show-scenario prints one scenario, not {len(names)}: {list_names(names)}."
        )
    require_baseline(names, options["baseline"])
    for name in options["measure"]:
        if name not in MEASURED:
            raise InputError(f"unknown measure {name!r}: choose one of {', '.join(MEASURED)}")
        if name in OVER_OPTIMAL.names and not options["optimal"]:
            raise click.UsageError(f"--measure {name} needs --optimal: add it.")
    for goal in filter(None, (options["fewest_members"], *options["goal"])):
        Goal.parse(goal, options["confidence"])


def _require_one(options: dict[str, Any]) -> None:
    requested = [name for name in _QUESTIONS if options[name]]
    with_sweep = options["compare"] or options["tune"] or options["suite"]
    requested += ["sweep"] if options["sweep"] and not with_sweep else []
    if len(requested) > 1:
        raise click.UsageError(f"{flags(requested)} cannot be combined.")
    if options["tune"] and not options["goal"]:
        raise click.UsageError("--tune needs a goal: add --goal, such as --goal 'age_p95<30s'.")
    for name, refused, why in _ALONE:
        if options[name] and (given := given_options(refused.split())):
            raise click.UsageError(f"{flag(name)} {why.format(flags(given))}.")
    if options["tune"] and (len(options["assignor"]) > 1 or len(options["seed"]) > 1):
        raise click.UsageError("--tune takes one assignor and one seed: give each once.")
    if options["suite"]:
        if others := [name for name in given_options() if name not in _SUITE_OPTIONS]:
            raise click.UsageError(f"--suite brings its own scenarios: remove {flags(others)}.")
        if not options["assignor"] or len(options["seed"]) > 1:
            raise click.UsageError("--suite needs --assignor, and takes one --seed at most.")


def _require_seeds(options: dict[str, Any]) -> None:
    named, count = options["seed"], options["seeds"]
    if named and count:
        raise click.UsageError("choose --seed or --seeds, not both.")
    if options["show_scenario"] and (named or count):
        raise click.UsageError("--show-scenario runs nothing: remove --seed and --seeds.")
    if len(set(named)) < len(named):
        raise click.UsageError("--seed has a duplicate: give each seed once.")
    few = [("fewest_members", count or len(named)), ("tune", count)]
    for name, seeds in few:
        if options[name] and seeds == 1:
            raise click.UsageError(
                f"{flags([name])} needs at least two seeds: one run cannot show how much is chance."
            )
