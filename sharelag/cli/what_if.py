"""What if the group were another one? Simulations, from a cluster's state or by name."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from sharelag.cli.output import groups_in, read_by, require_rows, shown, start, write
from sharelag.options import (
    CHOICE,
    ENGINE,
    INPUT,
    OUTPUT,
    TIMEOUT,
    VERBOSE,
    choice_of,
    moment_of,
    source_of,
    with_options,
)

if TYPE_CHECKING:
    from sharelag.whatif.scenario import Scenario

#: Headings of a simulation's summary, in the order of the columns on a terminal.
COLUMNS = {
    "SCENARIO": "scenario",
    "ASSIGNOR": "assignor",
    "MEMBERS": "members",
    "SEED": "seed",
    "DRAIN-MS": "drain_ms",
    "LAG-P50": "lag_p50",
    "LAG-P95": "lag_p95",
    "LAG-MAX": "lag_max",
    "AGE-P95-MS": "age_p95_ms",
    "COMPLETED": "completed",
    "ARCHIVED": "archived",
    "REDELIVERIES": "redeliveries",
    "WASTED": "wasted",
    "MOVES": "moves",
    "IDLE": "idle_members",
    "BUSY": "busy_share",
}
_NUMBERS = "numbers of members, such as 8,16"


class _Counts(click.ParamType[list[int]]):
    name = "N,N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        if isinstance(value, list):
            return value
        try:
            counts = [int(part) for part in value.split(",")]
        except ValueError:
            self.fail(f"{value!r} are not {_NUMBERS}.", param, ctx)
        if min(counts) < 0:
            self.fail(f"{value!r} are not {_NUMBERS}.", param, ctx)
        return counts


@click.command()
@with_options(INPUT, CHOICE, OUTPUT, ENGINE, TIMEOUT, VERBOSE)
@click.option("--scenario", metavar="NAME", help="A named scenario instead of an input; `list` shows what there is.")
@click.option("--assignor", multiple=True, metavar="NAME", help="How partitions are assigned; repeatable to compare.")
@click.option("--members", type=_Counts(), metavar="N,N", help="How many members; as they are when not given.")
@click.option("--seed", type=click.IntRange(min=0), multiple=True, metavar="N", help="Of all chance; repeatable.")
@click.option("--duration", type=click.FloatRange(min=0.001), metavar="SECONDS", help="600 from an input.")
@click.option(
    "--rebalance-every",
    type=click.FloatRange(min=0.001),
    metavar="SECONDS",
    help="Ask assignors that Kafka does not have again so often; else only when members come or go.",
)
@click.option(
    "--service-ms",
    type=click.FloatRange(min=0),
    metavar="MS",
    help="Work in each record, on average; else estimated from how fast the group is.",
)
@click.option(
    "--over",
    type=click.FloatRange(min=0.001),
    default=3600,
    show_default=True,
    metavar="SECONDS",
    help="The span that rates are taken from.",
)
@click.option("--timeline", is_flag=True, help="The lag of each share partition, step by step, instead of sums.")
def simulate(output: str, timeline: bool, **options: Any) -> None:
    """Simulate a share group: with other assignors, other numbers of members, from where it is now."""
    from sharelag import show
    from sharelag.whatif.simulate import simulate as run

    if options["scenario"] == "list":
        _list(output)
        return
    scenario = _scenario(options)
    rows: list[dict[str, Any]] = []
    for members in options["members"] or [None]:
        peopled = scenario if members is None else scenario.with_members(members)
        for assignor in options["assignor"] or [scenario.assignor]:
            for seed in options["seed"] or [0]:
                result = run(replace(peopled, assignor=assignor), seed)
                told = show.plain_rows(result.timeline if timeline else result.summary)
                (of,) = show.plain_rows(result.summary.select(["assignor", "members", "seed"]))
                rows += [of | row for row in told] if timeline else told
    write(show.lines(rows, output, None if timeline else COLUMNS))
    for sentence in scenario.assumed:
        click.echo(f"sharelag: assumed: {show.terminal(sentence)}", err=True)


def _scenario(options: dict[str, Any]) -> Scenario:
    from sharelag.whatif.named import named

    scenario = _from_input(options) if options["scenario"] is None else named(options["scenario"])
    if options["duration"] is not None:
        scenario = replace(scenario, duration_ms=round(options["duration"] * 1000))
    if options["rebalance_every"] is not None:
        every = round(options["rebalance_every"] * 1000)
        scenario = replace(scenario, settings=replace(scenario.settings, rebalance_interval_ms=every))
    return scenario


def _from_input(options: dict[str, Any]) -> Scenario:
    from sharelag import investigate
    from sharelag.scenarios_from import scenario_from
    from sharelag.whatif.scenario import Service

    source, moment, choice = source_of(options), moment_of(options), choice_of(options)
    with shown(source) as read:
        chosen = start(options["engine"], source)
        evidence = investigate.gather(read, chosen, moment, choice, timedelta(seconds=options["over"]))
    require_rows(choice, moment, groups_in(evidence.lag))
    mean = options["service_ms"]
    scenario = scenario_from(evidence, service=None if mean is None else Service(mean, "exponential"))
    read_by(evidence, source)
    return scenario


def _list(output: str) -> None:
    from sharelag import show
    from sharelag.whatif.named import names

    write(show.lines([{"scenario": name, "about": about} for name, about in names().items()], output))


COMMANDS = (simulate,)
