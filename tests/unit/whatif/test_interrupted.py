"""Does a simulation end in its middle when nobody waits for it any more?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from sharelag.whatif import simulate
from sharelag.whatif.compiled import support
from sharelag.whatif.gallery import named
from sharelag.whatif.simulation.clock import interruptible


class GoneError(Exception):
    """Nobody waits."""


@pytest.mark.parametrize(("name", "compiled"), [("leader-change", False), ("uneven", True)])
def test_a_simulation_that_nobody_waits_for_ends(
    name: str, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = replace(named(name), duration_ms=3_600_000)
    assert (support.why_not(scenario) is None) is compiled
    monkeypatch.setattr(support, "_is_loaded", True)
    looks = 0

    def check() -> None:
        nonlocal looks
        looks += 1
        if looks == 5:
            raise GoneError

    with pytest.raises(GoneError), interruptible(check):
        simulate(scenario)
    assert looks == 5
