"""Scenarios as JSON: to be edited by people, sent to other machines, and compared by their text.

Keys are the fields of `sharelag.whatif.scenario`; all but the topics' names and numbers of
partitions may be left out. Keys that end in ``_ms`` take durations such as ``"5m"``, too.
"""

from __future__ import annotations

import json
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

#: What an assumption has whose code programs read.
_CODED = ("code", "what", "why")
#: How many mistakes one message names.
_MOST_MISTAKES = 5


def to_json(scenario: Scenario, *, indent: int | None = None) -> str:
    """Write a scenario down.

    Parameters
    ----------
    scenario : Scenario
    indent : int, optional
        For people; without it there is nothing between the tokens.

    Returns
    -------
    str
        Canonical: equal scenarios have the same text, different ones another. Only ASCII.
    """
    plain = _adapter().dump_python(scenario, mode="json")
    # What nothing is known of keeps its code: who reads it back must not take a guess for a fact.
    plain["assumed"] = [
        {name: getattr(one, name) for name in _CODED} if isinstance(one, Assumption) else one
        for one in scenario.assumed
    ]
    for written in plain["members"]:
        if not written["edited"]:
            del written["edited"]
    for topic, written in zip(scenario.topics, plain["topics"], strict=True):
        # What follows from other fields would hide what people change there.
        if replace(topic, starts=()) == topic:
            del written["starts"]
        if replace(topic, id="") == topic:
            del written["id"]
    separators = (",", ":") if indent is None else None
    return json.dumps(plain, sort_keys=True, allow_nan=False, separators=separators, indent=indent)


def from_json(text: str | bytes) -> Scenario:
    """Read a scenario.

    Raises
    ------
    InputError
        It is not JSON, or not a scenario: with what is wrong, and where.
    """

    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is not a number")

    try:
        given = json.loads(text, parse_constant=refuse)
    except RecursionError:
        raise InputError("a scenario cannot be read: it is nested too deeply") from None
    except ValueError as error:
        raise InputError(f"a scenario cannot be read: it is not valid JSON ({error})") from error
    try:
        given = _in_milliseconds(given)
    except InputError as error:
        raise _wrong([str(error)]) from error
    parts = (given.get(name) if isinstance(given, dict) else None for name in ("topics", "assumed"))
    topics, assumed = (listed if isinstance(listed, list) else [] for listed in parts)
    assumed[:] = map(_assumption, assumed)
    # A few lines may name so many partitions that one object for each fills the memory.
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
    # Dataclasses take what they know and drop the rest, and a misspelt key would be a default.
    if unknown := list(_unknown(given, _adapter().dump_python(scenario, mode="json"), "")):
        raise _wrong([f"{key}: unknown key" for key in unknown])
    return replace(scenario, assumed=tuple(assumed)) if assumed else scenario


def _assumption(given: Any) -> Any:
    """Return what was assumed with a code as that; anything else as it is."""
    is_coded = isinstance(given, dict) and given.keys() == set(_CODED)
    is_text = is_coded and all(isinstance(text, str) for text in given.values())
    return Assumption(**given) if is_text else given


def _wrong(mistakes: list[str]) -> InputError:
    more = f", and {len(mistakes) - _MOST_MISTAKES} more" if len(mistakes) > _MOST_MISTAKES else ""
    return InputError(f"a scenario cannot be read: {'; '.join(mistakes[:_MOST_MISTAKES])}{more}")


def _in_milliseconds(given: Any, where: str = "", name: str = "") -> Any:
    """Replace durations as people type them by what the fields hold."""
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
