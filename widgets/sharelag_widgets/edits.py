"""Who has which partitions after some edits? The same as ``editor_math.js`` does in the browser.

An edit is a mapping with an ``id``, what it ``do``es (``assign``, ``take``, ``move``, ``add``, ``remove``, ``set``,
``reset``) and to whom. Partitions are numbers of rows, as ranges (``0-2,7``), so that a thousand of them stay small.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

#: Rows by member.
Held = dict[str, set[int]]
Edit = Mapping[str, Any]


def folded(base: Mapping[str, Iterable[int]], edits: Sequence[Edit], at: int) -> Held:
    """The rows of each member once the first ``at`` edits are done.

    Edits that name somebody who is not there (any more) change nothing.
    """
    held = _copied(base)
    for edit in edits[:at]:
        held = _copied(base) if edit["do"] == "reset" else _after(held, edit)
    return held


def new_edit(do: str, **about: Any) -> dict[str, Any]:
    """An edit with an id of its own."""
    return {"id": uuid.uuid4().hex, "do": do, **about}


def as_ranges(numbers: Iterable[int]) -> str:
    """``[0, 1, 2, 7]`` as ``0-2,7``."""
    ascending = sorted(set(numbers))
    if not ascending:
        return ""
    breaks = [(a, b) for a, b in pairwise(ascending) if b > a + 1]
    firsts = [ascending[0], *(b for _, b in breaks)]
    lasts = [*(a for a, _ in breaks), ascending[-1]]
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(firsts, lasts, strict=True))


def numbers_in(text: str) -> list[int]:
    """``0-2,7`` as ``[0, 1, 2, 7]``."""
    ends = [part.split("-") for part in text.split(",") if part]
    return [number for part in ends for number in range(int(part[0]), int(part[-1]) + 1)]


def _copied(base: Mapping[str, Iterable[int]]) -> Held:
    return {member: set(rows) for member, rows in base.items()}


def _after(held: Held, edit: Edit) -> Held:
    do, rows = edit["do"], set(numbers_in(edit.get("rows", "")))
    if do == "add":
        held.setdefault(edit["member"], set())
    elif do == "remove":
        held.pop(edit["member"], None)
    elif do == "set":
        return {member: set(numbers_in(edit["all"].get(member, ""))) for member in held}
    elif do != "move" or edit["to"] in held:
        if do in ("take", "move"):
            for member, has in held.items():
                if edit["from"] in (None, member):
                    has -= rows
        if do in ("assign", "move") and edit["to"] in held:
            held[edit["to"]] |= rows
    return held
