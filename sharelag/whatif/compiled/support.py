"""In which form the kernels run a scenario: as they are, or compiled."""

from __future__ import annotations

from sharelag.compiled import begin_later
from sharelag.whatif.compiled.memory import records_of
from sharelag.whatif.scenario import Scenario

#: Records that one process simulates until it pays to load what is compiled, which takes a second:
#: 20,000 take some 2.5 s of a core in plain Python, and 1.0 s with loading, 0.02 s without.
LOADED_FROM = 20_000
#: The same if it has to be compiled first, which takes some 20 s once on a machine.
COMPILED_FROM = 170_000
#: Records of a scenario from which on compiled kernels that are loaded pay.
_LEAST = 1_000
_LATER = (
    "from sharelag.compiled import run_alone; from sharelag.whatif.compiled import ready; "
    "run_alone(ready.make_ready)"
)
#: Records of this process so far.
_so_far = 0
_is_loaded = _has_begun = False


def use_compiled(scenario: Scenario) -> bool:
    """Count a scenario that is to be run, and say whether compiled kernels run it.

    They do if there is enough to simulate. Many small runs are a large one: what a process has
    simulated so far counts. Where nothing was compiled yet, another process does that meanwhile;
    nobody waits for the compiler before plain Python has taken as long.
    """
    global _has_begun, _is_loaded, _so_far
    records = records_of(scenario)
    if records < _LEAST:
        return False
    _so_far += records
    if not _is_loaded and _so_far >= LOADED_FROM:
        # Only here: numba takes its time to load.
        from sharelag.whatif.compiled.ready import is_ready, make_ready

        _is_loaded = is_ready()
        if not _is_loaded and _so_far >= COMPILED_FROM:
            make_ready()
            _is_loaded = True
        elif not (_is_loaded or _has_begun):
            _has_begun = True
            begin_later(_LATER)
    return _is_loaded
