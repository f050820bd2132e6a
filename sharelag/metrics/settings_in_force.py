"""Settings of groups and brokers as rows: value, source, what Kafka accepts, what it refuses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.model.settings import Problem, Setting, Value, check_all, each_in_force, lint_consumer
from sharelag.model.settings.catalogue import FIRST, LATER, Typed, catalogue
from sharelag.model.settings.cautions import cautions
from sharelag.model.settings.clients import OF_GROUP
from sharelag.model.settings.queues import Queues
from sharelag.model.settings.rules import value_in
from sharelag.model.versions import ASSUMED, NEWEST, RELEASES, Basis, basis
from sharelag.tables.words import shell_word

#: One property of a consumer that share consumers refuse or ignore.
LINT = pa.schema([(name, pa.string()) for name in ("name", "value", "problem", "hint")])
#: One setting of a group, or of the brokers, where ``group_id`` is null.
IN_FORCE = pa.schema(
    [
        (name, pa.string())
        for name in ("group_id", "name", "value", "source", "default", "range", "problem", "hint")
    ]
)
#: No row has a problem.
NO_CONFLICT = "no setting conflicts with another, or with what Kafka accepts"
#: Begins a problem of what Kafka does not refuse, and what does not work.
ACCEPTED = "Kafka accepts it, but "
_UNTOLD = "by the settings that are known, as the input does not have their version"
_GIVEN = "given"


def settings_in_force(
    settings: pa.Table,
    groups: Iterable[str],
    given: Mapping[str, str] | None = None,
    brokers: int | None = None,
    kafka_version: str | None = None,
) -> pa.Table:
    """Return the settings of some groups and of their brokers, each checked with the others.

    Parameters
    ----------
    settings : pyarrow.Table
        `sharelag.schemas.SETTINGS`; a setting that is not in it has Kafka's default.
    groups : iterable of str
    given : mapping of name to value, optional
        Values to check as if they were set.
    brokers : int, optional
        How many brokers the cluster has, where that is known.
    kafka_version : str, optional
        Of the brokers; without it that of `judged_as`.

    Returns
    -------
    pyarrow.Table
        `IN_FORCE`: the groups' settings, then the brokers'.
    """
    found = each_in_force(settings, [*groups, ""])
    theirs = found.pop("")
    profile = judged_as(settings, kafka_version, FIRST).version
    queues = Queues.of(settings)
    rows = [
        row
        for group, force in found.items()
        for row in _rows(force, given or {}, group, "group", profile, queues=queues)
    ]
    rows += _rows(theirs, given or {}, None, "broker", profile, brokers)
    return pa.Table.from_pylist(rows, schema=IN_FORCE)


def judged_as(
    settings: pa.Table,
    kafka_version: str | None = None,
    oldest: str = RELEASES[0],
    whose: str = "",
) -> Basis:
    """Return the version by which to judge settings and commands of an input.

    It is that of the brokers, where it is known. Otherwise brokers that describe settings, and none
    of Kafka 4.4, are older; the rules of 4.3 hold for all of these. Of no settings it is the
    newest. Parameters and errors as of `sharelag.model.versions.basis`.
    """
    untold, names = ASSUMED, set(settings.column("name").to_pylist())
    if names:
        is_later = any(one.name in names for one in LATER)
        untold = Basis(NEWEST if is_later else "4.3", _UNTOLD)
    return basis(kafka_version, untold, oldest, whose)


def is_refused(found: pa.Table) -> bool:
    """Return whether Kafka would refuse any of the settings in a table of `IN_FORCE`."""
    accepted = pc.starts_with(found.column("problem"), ACCEPTED)
    return bool(pc.any(pc.invert(accepted)).as_py())


def check_given(given: Mapping[str, str], profile: str = NEWEST) -> pa.Table:
    """Check values as if they were set on brokers and groups that have Kafka's defaults.

    Parameters
    ----------
    given : mapping of name to value
    profile : str
        A version, or "draft".

    Returns
    -------
    pyarrow.Table
        `IN_FORCE`: the settings that were given, and those that they conflict with.
    """
    return pa.Table.from_pylist(list(_rows({}, given, None, None, profile)), schema=IN_FORCE)


def lint_rows(
    properties: Mapping[str, object], settings: pa.Table | None = None, group: str = ""
) -> pa.Table:
    """Return what is wrong with a consumer's properties, as `LINT`.

    Parameters
    ----------
    properties : mapping of name to value
    settings : pyarrow.Table, optional
        `sharelag.schemas.SETTINGS`, with those of the consumer's group.
    group : str, optional
        The group whose settings count; else that of the property ``group.id``. Commands in hints
        name it.
    """
    group = group or str(properties.get("group.id") or "")
    force = {} if settings is None else each_in_force(settings, [group])[group]
    known = {name: value for name, value in force.items() if value.source != "assumed"}
    named = f"--entity-name {shell_word(group)}" if group else OF_GROUP
    rows = [
        {
            "name": one.name,
            "value": one.value or None,
            "problem": one.why,
            "hint": one.hint.replace(OF_GROUP, named),
        }
        for one in lint_consumer(properties, known)
    ]
    return pa.Table.from_pylist(rows, schema=LINT)


def _rows(
    force: Mapping[str, Value],
    given: Mapping[str, str],
    group: str | None,
    scope: str | None,
    profile: str = NEWEST,
    brokers: int | None = None,
    queues: Queues | None = None,
) -> Iterator[dict[str, Any]]:
    values: dict[str, object] = {
        name: one.value for name, one in force.items() if one.source != "assumed"
    }
    values = {name: value for name, value in values.items() if value is not None} | dict(given)
    problems: defaultdict[str, list[Problem]] = defaultdict(list)
    for problem in check_all(values, profile):
        problems[problem.name].append(problem)
    for problem in cautions(values, brokers, profile, queues):
        if problem.name not in problems:
            problems[problem.name] = [replace(problem, why=ACCEPTED + problem.why)]
    known = {setting.name: setting for setting in reversed(catalogue(profile))}
    names = [name for name in reversed(known) if name in force or name in given or problems[name]]
    for name in (*names, *(name for name in given if name not in known)):
        setting = known.get(name)
        if setting is not None and scope not in (None, setting.scope):
            continue
        if setting is None and scope == "group":
            continue  # an unknown name is reported once, with the brokers' settings
        if name in given:
            value, source = Value(given[name], _GIVEN)
        elif setting is not None:
            value, source = force.get(name, Value(setting.default, "default"))
            if setting.internal and source == "assumed":
                continue  # brokers do not describe it
        yield {
            "group_id": group,
            "name": name,
            "value": _text(value),
            "source": source,
            "default": None if setting is None else _text(setting.default),
            "range": None if setting is None else _range(setting, values, profile),
            "problem": "; ".join(_whys(setting, value, problems[name])) or None,
            "hint": "; ".join(filter(None, (one.hint for one in problems[name]))) or None,
        }


def _whys(setting: Setting | None, value: Typed, problems: Sequence[Problem]) -> Iterator[str]:
    yield from (problem.why for problem in problems)
    names = (_text(value) or "").split(",")
    if setting is not None and setting.kind == "list" and len(names) > 1:
        yield f"{'' if problems else ACCEPTED}only the first is used: {names[0].strip()}"


def _text(value: Typed) -> str | None:
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)


def _range(setting: Setting, values: Mapping[str, object], profile: str) -> str | None:
    """Return what Kafka accepts, within the bounds that other settings set."""
    if setting.kind == "bool":
        return "true, false"
    if setting.choices:
        return ", ".join(
            (*setting.choices, *(["by_duration:PnDTnHnMn.nS"] if setting.pattern else []))
        )
    least = _bound(max, setting.least, setting.least_by, values, profile)
    greatest = _bound(min, setting.greatest, setting.greatest_by, values, profile)
    if least is None and greatest is None:
        return None
    return f"{'' if least is None else least}..{'' if greatest is None else greatest}"


def _bound(
    tighter: Any, own: int | None, by: str | None, values: Mapping[str, object], profile: str
) -> int | None:
    other = value_in(by, values, profile) if by else None
    numbers = [number for number in (own, other) if isinstance(number, int)]
    return tighter(numbers) if numbers else None
