"""Apply edits of an assignment, as ``editor_math.js`` does in the browser.

An edit is a mapping with an ``id``, what it ``do``es (``assign``, ``take``, ``move``, ``add``,
``remove``, ``set``, ``reset``) and to whom. Partitions are numbers of rows, as ranges (``0-2,7``),
so that a thousand of them stay small.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from sharelag.errors import InputError

#: Partitions of each topic of each member, as `sharelag.whatif.assign` gives them.
Assignment: TypeAlias = dict[str, dict[str, list[int]]]
#: The row of each topic and partition.
Places: TypeAlias = dict[tuple[str, int], int]
#: Rows by member.
Held: TypeAlias = dict[str, set[int]]
Edit = Mapping[str, Any]


def fold(base: Mapping[str, Iterable[int]], edits: Sequence[Edit], at: int) -> Held:
    """Return the rows of each member once the first ``at`` edits are done.

    Edits that name somebody who is not there (any more) change nothing.
    """
    held = _copy(base)
    for edit in edits[:at]:
        held = _copy(base) if edit["do"] == "reset" else _after(held, edit)
    return held


def held_of(
    assignment: Mapping[str, Mapping[str, Iterable[int]]], places: Places, *, strict: bool = True
) -> Held:
    """Return an assignment by rows; without ``strict``, partitions that have none are left out."""
    held: Held = {}
    for member, topics in assignment.items():
        if not isinstance(member, str) or not member:
            raise InputError(f"{member!r} cannot name a member: give texts that are not empty")
        theirs = [(topic, int(number)) for topic, numbers in topics.items() for number in numbers]
        if strict and (missing := [place for place in theirs if place not in places]):
            topic, number = missing[0]
            raise InputError(
                f"{member!r} has partition {number} of {topic!r}, which is not in the table: "
                "add its row"
            )
        held[member] = {places[place] for place in theirs if place in places}
    return held


def assignment_of(held: Held, places: Places) -> Assignment:
    """Return the same by topics and partitions."""
    names = list(places)
    assigned: Assignment = {}
    for member, rows in held.items():
        assigned[member] = {}
        for topic, number in sorted(names[row] for row in rows):
            assigned[member].setdefault(topic, []).append(number)
    return assigned


def new_edit(do: str, **about: Any) -> dict[str, Any]:
    """Return an edit with a new id."""
    return {"id": uuid.uuid4().hex, "do": do, **about}


def renumber(edits: Sequence[Edit], places: Mapping[int, int]) -> list[dict[str, Any]]:
    """Return the same edits after rows were renumbered; edits of rows that are gone are dropped."""

    def moved(ranges: str) -> str:
        return as_ranges(places[row] for row in numbers_in(ranges) if row in places)

    made = [dict(edit) for edit in edits]
    for edit in made:
        if "rows" in edit:
            edit["rows"] = moved(edit["rows"])
        if "all" in edit:
            edit["all"] = {member: moved(ranges) for member, ranges in edit["all"].items()}
    return made


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


def _copy(base: Mapping[str, Iterable[int]]) -> Held:
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
