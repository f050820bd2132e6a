"""Scenarios as JSON: to edit them, send them to other machines, and compare them as text.

Keys are the fields of `sharelag.whatif.scenario`; only the names of topics and their numbers of
partitions are required. Keys that end in ``_ms`` also accept durations such as ``"5m"``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sharelag.durations import parse_duration
from sharelag.errors import InputError
from sharelag.whatif.estimates import Assumption
from sharelag.whatif.scenario import MOST_PARTITIONS, Scenario

#: The parts of an assumption with a code.
_CODED = ("code", "what", "why")
#: Mistakes that one message lists.
_MOST_MISTAKES = 5


def to_json(scenario: Scenario, *, indent: int | None = None) -> str:
    """Return a scenario as JSON.

    Parameters
    ----------
    scenario : Scenario
    indent : int, optional
        Indentation for people; by default there is no white space.

    Returns
    -------
    str
        Canonical ASCII: two scenarios have the same text exactly if they are equal.
    """
    plain = _adapter().dump_python(scenario, mode="json")
    # Assumptions keep their codes, so that they are not read back as facts.
    plain["assumed"] = [
        {name: getattr(one, name) for name in _CODED} if isinstance(one, Assumption) else one
        for one in scenario.assumed
    ]
    for written in plain["members"]:
        if not written["edited"]:
            del written["edited"]
    for topic, written in zip(scenario.topics, plain["topics"], strict=True):
        # Derived values would hide changes of the fields that they follow from.
        if replace(topic, starts=()) == topic:
            del written["starts"]
        if topic.is_named_only:
            del written["id"]
    separators = (",", ":") if indent is None else None
    return json.dumps(plain, sort_keys=True, allow_nan=False, separators=separators, indent=indent)


def from_json(text: str | bytes) -> Scenario:
    """Return the scenario of a JSON text.

    Raises
    ------
    InputError
        The text is not JSON, or not a scenario: with the mistakes and their places.
    """

    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is not a number")

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        for key, times in Counter(key for key, _ in pairs).items():
            if times > 1:  # the last would count, and the others be ignored
                raise ValueError(f"the key {key!r} is there more than once")
        return dict(pairs)

    def whole(digits: str) -> int:
        if abs(number := int(digits)) >= 1 << 63:
            raise ValueError(f"{digits} is more than any offset or time")
        return number

    try:
        given = json.loads(text, parse_constant=refuse, parse_int=whole, object_pairs_hook=distinct)
    except RecursionError:
        raise InputError("a scenario cannot be read: it is nested too deeply") from None
    except ValueError as error:
        why = (
            f"it is not valid JSON ({error})" if isinstance(error, json.JSONDecodeError) else error
        )
        raise InputError(f"a scenario cannot be read: {why}") from error
    try:
        given = _in_milliseconds(given)
    except InputError as error:
        raise _wrong([str(error)]) from error
    parts = (given.get(name) if isinstance(given, dict) else None for name in ("topics", "assumed"))
    topics, assumed = (listed if isinstance(listed, list) else [] for listed in parts)
    assumed[:] = map(_assumption, assumed)
    # A few lines may declare so many partitions that one object for each fills the memory.
    counts = [one.get("partitions") for one in topics if isinstance(one, dict)]
    if (together := sum(n for n in counts if isinstance(n, int))) > MOST_PARTITIONS:
        raise _wrong([f"topics: {together:,} partitions are more than {MOST_PARTITIONS:,}"])
    try:
        scenario = _adapter().validate_python(given)
    except ValidationError as error:
        mistakes = [
            f"{'.'.join(map(str, one['loc'])) or 'all of it'}: {one['msg']}"
            for one in error.errors()
        ]
        raise _wrong(mistakes) from error
    # Dataclasses ignore unknown keys, so that a misspelt key would silently be a default.
    if unknown := list(_unknown(given, _adapter().dump_python(scenario, mode="json"), "")):
        raise _wrong([f"{key}: unknown key" for key in unknown])
    return replace(scenario, assumed=tuple(assumed)) if assumed else scenario


def _assumption(given: Any) -> Any:
    """Return a coded assumption as such, and anything else unchanged."""
    is_coded = isinstance(given, dict) and given.keys() == set(_CODED)
    is_text = is_coded and all(isinstance(text, str) for text in given.values())
    return Assumption(**given) if is_text else given


def _wrong(mistakes: list[str]) -> InputError:
    more = f", and {len(mistakes) - _MOST_MISTAKES} more" if len(mistakes) > _MOST_MISTAKES else ""
    return InputError(f"a scenario cannot be read: {'; '.join(mistakes[:_MOST_MISTAKES])}{more}")


def _in_milliseconds(given: Any, where: str = "", name: str = "") -> Any:
    """Replace durations in words by milliseconds."""
    if isinstance(given, dict):
        return {key: _in_milliseconds(one, f"{where}{key}.", key) for key, one in given.items()}
    if isinstance(given, list):
        return [_in_milliseconds(one, f"{where}{n}.", name) for n, one in enumerate(given)]
    if isinstance(given, str) and name.endswith("_ms"):
        try:
            number = parse_duration(given) / timedelta(milliseconds=1)
        except InputError as error:
            raise InputError(f"{where[:-1]}: {error}") from None
        return int(number) if number.is_integer() else number
    return given


def _unknown(given: Any, known: Any, where: str) -> Iterator[str]:
    """Yield the keys that were not read."""
    if isinstance(given, dict) and isinstance(known, dict):
        for key, value in given.items():
            if key in known:
                yield from _unknown(value, known[key], f"{where}{key}.")
            else:
                yield f"{where}{key}"
    elif isinstance(given, list) and isinstance(known, list):
        for number, (one, other) in enumerate(zip(given, known, strict=False)):
            yield from _unknown(one, other, f"{where}{number}.")


@cache
def _adapter() -> TypeAdapter[Scenario]:
    return TypeAdapter(Scenario)
