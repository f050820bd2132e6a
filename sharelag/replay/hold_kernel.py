"""The kernel of `holds`: when what was acquired of one run of offsets was held no longer."""

from __future__ import annotations

from typing import Any

import numpy as np

from sharelag.compiled import kernel

ACQUIRED, ACKNOWLEDGED, WRITTEN = 0, 1, 2
#: How a hold ends; those of acknowledgements stand at their type (4 renews).
ENDS = [
    *("gap", "accept", "release", "reject", "renew"),
    *("lock expired", "acquired again", "state written", "session closed", "leader changed"),
]
_RENEW, _EXPIRED, _AGAIN, _STATE = 4, 5, 6, 7
#: A time that did not come.
NEVER = np.iinfo(np.int64).max


@kernel
def ends_of_holds(
    segment: Any, time: Any, kind: Any, member: Any, count: Any, lock: Any, how: Any, last: Any
) -> Any:
    """Return the end of each acquisition, its cause and until when it was locked.

    Events are sorted by segment and time. A time is `NEVER` where it is not known or did not come
    until ``last``, the end of the log. Where an acknowledgement counted after its lock should have
    expired, the broker's clock is right: the lock held until then.
    """
    ends = np.full(time.size, NEVER)
    causes = np.zeros(time.size, np.int64)
    locked = np.full(time.size, NEVER)
    held = -1
    for k in range(time.size):
        if k and segment[k] != segment[k - 1]:
            held = -1
        if kind[k] == ACQUIRED:
            if held >= 0:
                ends[held], causes[held] = time[k], _AGAIN
                if locked[held] <= time[k]:
                    ends[held], causes[held] = locked[held], _EXPIRED
            held = k
            if lock[k]:
                locked[k] = time[k] + lock[k]
        elif held >= 0 and kind[k] == ACKNOWLEDGED and member[k] == member[held]:
            if how[k] == _RENEW:
                length = lock[k] if lock[k] else lock[held]
                if length:
                    locked[held] = time[k] + length
            else:
                ends[held], causes[held] = time[k], how[k]
                held = -1
        elif held >= 0 and kind[k] == WRITTEN and count[k] >= count[held]:
            ends[held], causes[held] = time[k], _STATE
            if locked[held] <= time[k]:
                ends[held], causes[held] = locked[held], _EXPIRED
            held = -1
        is_last = k + 1 == time.size or segment[k + 1] != segment[k]
        if is_last and held >= 0 and locked[held] <= last:
            ends[held], causes[held] = locked[held], _EXPIRED
    return ends, causes, locked
