"""JSON as it was written: every field of a name that is there twice, and numbers digit by digit."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

_HIDDEN = "***"
_DEEPEST = 100


class Fields(list[tuple[str, Any]]):
    """An object of JSON: its names and values, in their order."""


class Literal(str):
    """A number, or what some writers have in place of one, as it was written."""


def parse(data: bytes) -> Any:
    """Read JSON: a ValueError for anything else, a RecursionError for what is nested too deeply."""
    return json.loads(
        data,
        object_pairs_hook=Fields,
        parse_float=Literal,
        parse_int=Literal,
        parse_constant=Literal,
    )


def text(found: Any, indent: int | None = 2, depth: int = 1) -> str:
    """Write what `parse` read, one item a line, or all on one line without ``indent``."""
    if depth > _DEEPEST:
        raise RecursionError(f"JSON is nested more than {_DEEPEST} times")
    if isinstance(found, Literal):
        return str(found)
    if not isinstance(found, list):
        return json.dumps(found, ensure_ascii=False)
    if isinstance(found, Fields):
        begin, end = "{", "}"
        items = [
            f"{json.dumps(name, ensure_ascii=False)}: {text(one, indent, depth + 1)}"
            for name, one in found
        ]
    else:
        begin, end = "[", "]"
        items = [text(one, indent, depth + 1) for one in found]
    if indent is None or not items:
        return f"{begin}{', '.join(items)}{end}"
    inner, outer = "\n" + " " * indent * depth, "\n" + " " * indent * (depth - 1)
    return f"{begin}{inner}{f',{inner}'.join(items)}{outer}{end}"


def without(found: Any, names: Iterable[str]) -> Any:
    """Return the same with fields hidden, in each item of a list.

    ``card.number`` is the field ``number`` within ``card``, and also one whose name has a dot.
    """
    for name in names:
        found = _without(found, name.split("."))
    return found


def _without(found: Any, path: list[str]) -> Any:
    if isinstance(found, Fields):
        return Fields((name, _hidden(name, one, path)) for name, one in found)
    return [_without(one, path) for one in found] if isinstance(found, list) else found


def _hidden(name: str, value: Any, path: list[str]) -> Any:
    for taken in range(1, len(path) + 1):
        if name == ".".join(path[:taken]):
            value = _HIDDEN if taken == len(path) else _without(value, path[taken:])
    return value


def has(found: Any, name: str) -> bool:
    """Whether there is such a field."""
    return _has(found, name.split("."))


def _has(found: Any, path: list[str]) -> bool:
    if isinstance(found, Fields):
        return any(
            name == ".".join(path[:taken]) and (taken == len(path) or _has(one, path[taken:]))
            for name, one in found
            for taken in range(1, len(path) + 1)
        )
    return isinstance(found, list) and any(_has(one, path) for one in found)


def has_fields(found: Any) -> bool:
    """Whether all of it stands under names: a bare number may be what is to be hidden."""
    if isinstance(found, Fields):
        return True
    return isinstance(found, list) and bool(found) and all(map(has_fields, found))
