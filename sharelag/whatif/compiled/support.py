"""Whether kernels run a scenario as plain Python or compiled."""

from __future__ import annotations

from sharelag.compiled import begin_later
from sharelag.whatif.compiled.memory import estimate_records
from sharelag.whatif.scenario import Scenario

#: Records of a process after which loading the compiled kernels pays, which takes a second: 20,000
#: take some 2.5 s of a core in plain Python, 1.0 s including the load, and 0.02 s without it.
LOADED_FROM = 20_000
#: The same if they have to be compiled first, which takes some 20 s once per machine.
COMPILED_FROM = 170_000
#: Fetches walk each share partition, and each idle member fetches, about twice a second; ten walks
#: take as long as a record.
_WALK_MS = 5_000
#: Records of a scenario from which loaded compiled kernels pay.
_LEAST = 1_000
_LATER = (
    "from sharelag.compiled import run_alone; from sharelag.whatif.compiled import ready; "
    "run_alone(ready.make_ready)"
)
#: Records simulated in this process.
_so_far = 0
_is_loaded = _has_begun = False


def use_compiled(scenario: Scenario) -> bool:
    """Count the records of a scenario, and return whether compiled kernels run it.

    They do if there is enough to simulate, in one run or in many small ones. If nothing is compiled
    yet, another process compiles meanwhile; this one waits for the compiler only after plain Python
    has taken as long.
    """
    global _has_begun, _is_loaded, _so_far
    fetched = max(len(scenario.starts), sum(member.count for member in scenario.members))
    walked = fetched * scenario.duration_ms // _WALK_MS
    records = estimate_records(scenario) + walked
    if records < _LEAST:
        return False
    _so_far += records
    if not _is_loaded and _so_far >= LOADED_FROM:
        # Imported late, because numba loads slowly.
        from sharelag.whatif.compiled.ready import is_ready, make_ready

        _is_loaded = is_ready()
        if not _is_loaded and _so_far >= COMPILED_FROM:
            make_ready()
            _is_loaded = True
        elif not (_is_loaded or _has_begun):
            _has_begun = True
            begin_later(_LATER)
    return _is_loaded
