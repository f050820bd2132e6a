"""Limits on work: estimate it before it begins, and refuse what would take too long."""

from __future__ import annotations

from collections.abc import Mapping
from math import log2
from typing import TYPE_CHECKING, Any

from sharelag.cli.simulate_options import seeds_of

if TYPE_CHECKING:
    from sharelag.whatif.scenario import Scenario

#: What is simulated at most (`sharelag.whatif.comparison.size`): in one run, and in all that this
#: process makes. At some ten thousand a second the first takes up to half an hour and the second
#: some hours.
MOST_A_RUN, MOST = 20e6, 100e6


def require_an_end(tried: Mapping[str, Scenario], options: dict[str, Any]) -> None:
    """Refuse simulations that would take hours.

    Raises
    ------
    InputError
        With what makes it less.
    """
    from sharelag.errors import InputError
    from sharelag.whatif.comparison.size import size

    sizes = [size(scenario) for scenario in tried.values()]
    runs = len(seeds_of(options)) * _each(options)
    less = (
        "give a shorter --duration, or larger record batches in a scenario of your own "
        "(--show-scenario)"
    )
    if max(sizes) > MOST_A_RUN:
        raise InputError(
            f"a run has about {max(sizes):.2g} record batches, polls and timeline rows, more than "
            f"the limit of {MOST_A_RUN:.2g}: {less}"
        )
    if not options["sweep"] and sum(sizes) * runs > MOST:
        raise InputError(
            f"{len(sizes) * runs} runs have about {sum(sizes) * runs:.2g} record batches, polls "
            f"and timeline rows, more than the limit of {MOST:.2g} in one process: try fewer "
            f"variants or --seeds, spread the runs over cores with --sweep DIR, or {less}"
        )


def _each(options: dict[str, Any]) -> int:
    """Runs of a variant and seed, those of a search as many as halving takes at least."""
    if options["fewest_members"]:
        least, most = options["between"]
        return 1 + int(log2(most - least + 1))
    return 2 if options["optimal"] or options["against"] else 1
