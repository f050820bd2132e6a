"""Does a simulation end in its middle when nobody waits for it any more?"""

from dataclasses import replace

import pytest

from sharelag.whatif import simulate
from sharelag.whatif.compiled import support
from sharelag.whatif.gallery import named
from sharelag.whatif.simulation.clock import interruptible


class GoneError(Exception):
    """Nobody waits."""


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_simulation_that_nobody_waits_for_ends(
    is_loaded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = replace(named("uneven"), duration_ms=3_600_000)
    monkeypatch.setattr(support, "_is_loaded", is_loaded)
    monkeypatch.setattr(support, "LOADED_FROM", 1 << 60)
    looks = 0

    def check() -> None:
        nonlocal looks
        looks += 1
        if looks == 5:
            raise GoneError

    with pytest.raises(GoneError), interruptible(check):
        simulate(scenario)
    assert looks == 5
