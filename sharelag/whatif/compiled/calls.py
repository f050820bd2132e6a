"""What Python calls of the loop, in plain form; `sharelag.whatif.compiled.ready` compiles it."""

from __future__ import annotations

from typing import Any

from sharelag.whatif.compiled import batches, ends, requests, sampling, serving, states, working
from sharelag.whatif.compiled import kernel as loop

#: By name.
CALLS: dict[str, Any] = {
    "run": loop.run,
    "sample": sampling.sample,
    "note_drained": ends.note_drained,
    "closes": requests.closes,
    "poll": working.poll,
    "close_sessions": working.close_sessions,
    "move_start": states.move_start,
    "expire": states.expire,
    "wake": serving.wake,
    "end_leader": serving.end_leader,
    "held_in": batches.held_in,
}
