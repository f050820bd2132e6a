"""Which scenarios the compiled loop runs; the readable loop runs all."""

from __future__ import annotations

from sharelag.whatif.compiled.sizes import records_of, words
from sharelag.whatif.scenario import Scenario

#: Records that one process simulates until it pays to load the compiled loop, which takes a second:
#: 20,000 take 2.3 s of a core in the readable loop, and 1.0 s with loading, 0.02 s without.
LOADED_FROM = 20_000
#: The same if it has to be compiled first, which takes some 36 s once on a machine.
COMPILED_FROM = 300_000
#: Records of a scenario from which on a compiled loop that is loaded pays.
_LEAST = 1_000
#: Words of memory (8 bytes) that a compiled run may take.
_MOST_WORDS = 1 << 25


#: Records of this process so far, of scenarios that the compiled loop runs.
_so_far = 0
_is_loaded = False


def use_compiled(scenario: Scenario) -> bool:
    """Count a scenario that is to be run, and say whether the compiled loop runs it.

    It does if it can, and if there is enough to simulate. Many small runs are a large one: what a
    process has simulated so far counts. Nobody waits for the compiler before the readable loop has
    taken as long.
    """
    global _is_loaded, _so_far
    records = records_of(scenario)
    if records < _LEAST or why_not(scenario) is not None:
        return False
    _so_far += records
    if not _is_loaded and _so_far >= LOADED_FROM:
        # Only here: numba takes its time to load.
        from sharelag.whatif.compiled.ready import is_ready, make_ready

        _is_loaded = is_ready()
        if not _is_loaded and _so_far >= COMPILED_FROM:
            make_ready()
            _is_loaded = True
    return _is_loaded


def why_not(scenario: Scenario) -> str | None:
    """Say why a scenario needs the readable loop; None: the compiled one runs it, too."""
    if words(scenario) > _MOST_WORDS:
        return "its windows and members take too much memory"
    return None
