"""Validate settings as Kafka's own classes do, reporting all problems at once."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from sharelag.model.settings.catalogue import (
    CATALOGUE,
    CONSUMER,
    DRAFT,
    FIRST,
    LATER,
    PROPOSED,
    Setting,
    Typed,
    catalogue,
    find,
    out_of_range,
)
from sharelag.model.versions import NEWEST, RELEASES, has_reached

_BITS = {"int": 32, "short": 16}
#: How near an unknown name is to the setting that was meant.
_NEAR = 0.8


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem with one setting, and its fix."""

    name: str
    value: str
    why: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.name} = {self.value}: {self.why}" + (f"; {self.hint}" if self.hint else "")


def check(
    name: str, value: object, profile: str = NEWEST, others: Mapping[str, object] | None = None
) -> list[Problem]:
    """Check the value of one setting, a text or parsed; nothing is wrong where Kafka accepts it.

    ``others`` are settings of the group and the brokers that bound the value; missing ones have
    their defaults. A conflict between two settings is reported for the one being checked.

    Rules: ``GroupConfig.validate`` and ``ShareGroupConfig`` of Kafka 4.3.1 and 4.4; KIP-932 for the
    draft.
    """
    setting = find(name, profile)
    if setting is None:
        return [_unknown(name, str(value), profile)]
    typed, why = parse(setting, value)
    whys = [why] if why else _conflicts(setting, typed, profile, others or {})
    return [Problem(name, str(value), why) for why in whys]


def check_all(values: Mapping[str, object], profile: str = NEWEST) -> list[Problem]:
    """Check several settings of a group, of the brokers, or both, together, in their order."""
    problems = [
        problem for name, value in values.items() for problem in check(name, value, profile, values)
    ]
    # An explicit bound can conflict with a default value.
    for setting in catalogue(profile):
        bounds = {setting.least_by, setting.greatest_by} if setting.scope == "broker" else set()
        if setting.name not in values and not (bounds | {setting.below}).isdisjoint(values):
            present = value_in(setting.name, values, profile)
            shown = f"{present} (not set here)"
            whys = _conflicts(setting, present, profile, values)
            problems += [Problem(setting.name, shown, why) for why in whys]
    return problems


def differing(values: Mapping[str, object], profile: str) -> list[str]:
    """Return what other versions of Kafka say of values, where that is not what one says.

    There is a sentence for all releases that say the same, the newest first.
    """
    refused = {problem.name for problem in check_all(values, profile)}
    said: dict[str, list[str]] = {}
    for other in RELEASES[RELEASES.index(FIRST) :][::-1]:
        problems = check_all(values, other)
        if {problem.name for problem in problems} == refused:
            continue
        whys = "; ".join(f"{problem.name}: {problem.why}" for problem in problems)
        said.setdefault(f"refuse that ({whys})" if whys else "accept that", []).append(other)
    return [f"Kafka {', '.join(others)} would {words}" for words, others in said.items()]


def parse(setting: Setting, value: object) -> tuple[Typed, str]:
    """Parse a value as Kafka does; the second item is the error, empty if there is none."""
    text = str(value).strip()
    if setting.kind in _BITS:
        if not re.fullmatch(r"[+-]?[0-9]+", text) or int(text).bit_length() >= _BITS[setting.kind]:
            return None, f"{text!r} is not a {_BITS[setting.kind]}-bit integer"
        return int(text), out_of_range(int(text), setting)
    if setting.kind == "bool":
        choice = {"true": True, "false": False}.get(text.lower())
        return choice, "" if choice is not None else f"{text!r} is neither true nor false"
    if setting.kind == "list":
        texts = value if isinstance(value, tuple | list) else text.split(",") if text else ()
        items = [str(item).strip() for item in texts]
        is_named = items and all(items)
        return tuple(items), "" if is_named else "give at least one name, and no empty names"
    is_choice = text in setting.choices or re.fullmatch(setting.pattern or r"(?!)", text)
    if setting.choices and not is_choice:
        also = " or by_duration: with a duration such as PT1H" if setting.pattern else ""
        return None, f"{text!r} is not one of {', '.join(setting.choices)}{also}"
    return text, ""


def value_in(name: str, values: Mapping[str, object], profile: str) -> Typed:
    """Return a setting's own value, else the broker's, else the default; None if unknown."""
    setting = find(name, profile)
    if setting is None:
        return None
    if values.get(name) is not None:
        return parse(setting, values[name])[0]
    return value_in(setting.broker, values, profile) if setting.broker else setting.default


def _conflicts(
    setting: Setting, value: Typed, profile: str, others: Mapping[str, object]
) -> list[str]:
    """Return the conflicts of a number with other settings, and of a topic with Kafka's own."""
    if setting.is_own_topic and isinstance(value, str) and value.startswith("__"):
        return ["a topic whose name begins with __ is Kafka's own"]
    if not isinstance(value, int):
        return []
    rules = (
        (setting.least_by, operator.lt, "less than"),
        (setting.greatest_by, operator.gt, "greater than"),
        (setting.below, operator.ge, "not less than"),
    )
    found = []
    for bound, wrong, words in rules:
        limit = value_in(bound, others, profile) if bound else None
        if isinstance(limit, int) and wrong(value, limit):
            found.append(f"{words} {bound} = {limit}")
    return found


def _unknown(name: str, value: str, profile: str) -> Problem:
    """Return what is wrong with a name that the catalogue of this version does not have."""
    known = sorted({known.name for known in catalogue(profile)})
    near = get_close_matches(name, known, 1, _NEAR)
    hint = f"did you mean {near[0]}?" if near else ""
    since = {one.name: one.since for one in (*CATALOGUE, *LATER)}.get(name)
    if since and profile != PROPOSED and not has_reached(profile, since):
        return Problem(name, value, f"only Kafka {since} and newer have it", hint)
    if since or any(one.name == name for one in DRAFT):
        whose = "KIP-932's draft" if profile == PROPOSED else f"Kafka {profile}"
        return Problem(name, value, f"{whose} has no such setting", hint)
    if name in CONSUMER:
        own = f"share.{name}"
        hint = "consumers have it: check their file with --consumer-config"
        hint += f"; the group's setting is {own}" if own in known else ""
    return Problem(name, value, "not a setting of share groups or their brokers", hint)
