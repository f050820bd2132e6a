"""Refuse options that the command would ignore: they are wrong usage."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import click
from click.core import ParameterSource

from sharelag.cli.simulate_options import variants_of

#: What says where an input is and what is taken of it; a scenario has all that itself.
_OF_INPUT = (
    *("bootstrap_server", "command_config", "command_property", "capture", "raw", "segments"),
    "generation",
    *("group", "all_groups", "topic", "as_of", "engine", "timeout"),
    *("service", "service_ms", "over"),
)
#: Of which questions options are that others do not go by.
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
#: What a span of the past has itself.
_NOT_PAST = ("scenario", "duration", "autoscale", "service_ms", "over", "rebalance_every", "sweep")
_NOT_WANTED = (
    *("members", "assignor", "setting", "autoscale", "seed", "seeds", "duration"),
    *("rebalance_every", "service", "service_ms"),
)
#: What the suite's scenarios leave to choose.
_OF_SUITE = ("suite", "assignor", "baseline", "seed", "sweep", "output", "verbose")
_QUESTIONS = (
    *("against", "compare", "what_clears", "fewest_members", "timeline", "show_scenario"),
    *("since", "tune", "members_wanted", "suite"),
)


def require_one_question(options: dict[str, Any]) -> None:
    """Refuse options that do not go together, with what to leave out or to add."""
    given = given_options()
    if options["scenario"] == "list":
        if others := [name for name in given if name not in ("scenario", "output")]:
            raise click.UsageError(f"--scenario list runs nothing: remove {flags(others)}.")
        return
    if "list" in options["assignor"]:
        if others := [name for name in given if name not in ("assignor", "output")]:
            raise click.UsageError(f"--assignor list runs nothing: remove {flags(others)}.")
        return
    if options["scenario"] is not None and (of_input := given_options(_OF_INPUT)):
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
    """Check that everything named exists, before an input is read for nothing."""
    from sharelag.errors import InputError
    from sharelag.whatif.compare import require_baseline
    from sharelag.whatif.comparison.tables import MEASURED, OVER_OPTIMAL
    from sharelag.whatif.scenario import Member, Scenario, Topic
    from sharelag.whatif.search import Goal

    # What variants are called does not depend on what they are variants of.
    names = list(variants_of(Scenario((Topic("any", 1),), (Member(),)), options))
    if options["show_scenario"] and len(names) > 1:
        raise click.UsageError(
            f"--show-scenario prints one scenario, not {len(names)}: {', '.join(names)}."
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
    if options["fewest_members"] and options["members"]:
        raise click.UsageError(
            "--fewest-members varies the number of members: remove --members, or use --between."
        )
    if options["tune"]:
        _require_tunable(options)
    if options["members_wanted"]:
        if options["scenario"] is not None:
            raise click.UsageError("--members-wanted reads an input: remove --scenario.")
        if varied := given_options(_NOT_WANTED):
            raise click.UsageError(
                f"--members-wanted is a sum over the group as it is: remove {flags(varied)}."
            )
    if options["suite"]:
        if others := [name for name in given_options() if name not in _OF_SUITE]:
            raise click.UsageError(f"--suite brings its own scenarios: remove {flags(others)}.")
        if not options["assignor"] or len(options["seed"]) > 1:
            raise click.UsageError("--suite goes by --assignor, and one --seed at most.")
    if options["what_clears"] and (set_ := given_options(("setting", "autoscale"))):
        raise click.UsageError(f"--what-clears tries assignors and members: remove {flags(set_)}.")
    if options["since"] and (of_others := given_options(_NOT_PAST)):
        raise click.UsageError(
            f"--since simulates the past of an input until --until: remove {flags(of_others)}."
        )
    if options["fewest_members"] and options["autoscale"]:
        raise click.UsageError(
            "--fewest-members and --autoscale both vary the number of members: choose one."
        )


def _require_tunable(options: dict[str, Any]) -> None:
    """Refuse what the tuner varies itself, or cannot do without."""
    if not options["goal"]:
        raise click.UsageError("--tune needs a goal: add --goal, such as --goal 'age_p95<30s'.")
    if varied := given_options(("members", "autoscale")):
        raise click.UsageError(
            f"--tune varies the number of members: remove {flags(varied)}, or use --between."
        )
    if len(options["assignor"]) > 1 or len(options["seed"]) > 1:
        raise click.UsageError("--tune goes by one assignor and one seed: give each once.")


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
                f"{flags([name])} needs at least two seeds: one run cannot show chance."
            )


def given_options(among: Collection[str] | None = None) -> list[str]:
    """Return the options given on the command line, of some or of all, in the order of the help."""
    context = click.get_current_context()
    names = [one.name for one in context.command.params if one.name is not None]
    return [
        name
        for name in names
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        and (among is None or name in among)
    ]


def flags(names: Iterable[str], word: str = "and") -> str:
    """Options by their names on the command line, in one text."""
    return f" {word} ".join(f"--{name.replace('_', '-')}" for name in names)
