"""Does a simulation end in its middle when nobody waits for it any more?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from sharelag.whatif import simulate
from sharelag.whatif.compiled.support import is_compiled
from sharelag.whatif.named import named
from sharelag.whatif.simulation.clock import interruptible


class GoneError(Exception):
    """Nobody waits."""


@pytest.mark.parametrize(("name", "compiled"), [("crash-loop", False), ("uneven", True)])
def test_a_simulation_that_nobody_waits_for_ends(name: str, compiled: bool) -> None:
    scenario = replace(named(name), duration_ms=3_600_000)
    assert is_compiled(scenario) is compiled
    looks = 0

    def check() -> None:
        nonlocal looks
        looks += 1
        if looks == 5:
            raise GoneError

    with pytest.raises(GoneError), interruptible(check):
        simulate(scenario)
    assert looks == 5
