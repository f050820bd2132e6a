"""Effective settings: the group's within the broker's bounds, else the broker's, else Kafka's."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from sharelag.model.settings.catalogue import CATALOGUE, LATER, Setting, Typed, catalogue, find
from sharelag.model.settings.rules import parse
from sharelag.model.versions import NEWEST

if TYPE_CHECKING:
    import pyarrow as pa


class Value(NamedTuple):
    """An effective value and its source."""

    value: Typed  # None: unknown
    source: str  # group, broker, default; assumed: not reported, so Kafka's default is used


def effective(
    group: Mapping[str, object], broker: Mapping[str, object], profile: str = NEWEST
) -> dict[str, Value]:
    """Return the effective settings of a group: every one of the profile.

    ``group`` is what is stored for the group (``kafka-configs.sh --entity-type groups``),
    ``broker`` the brokers' values: a missing name has Kafka's default, None means unknown. A stored
    value beyond the broker's bounds is replaced by the bound, with the broker as its source. The
    first entry of a list is the effective one.

    ``GroupConfig.evaluate`` and ``GroupConfigManager`` of Kafka 4.3.1 and 4.4: brokers check a
    value when it is set, and clamp it when their own bounds change afterwards.
    """
    settings = catalogue(profile)
    own = {
        s.name: _of_group(s, group.get(s.name), broker, profile)
        for s in settings
        if s.scope == "group"
    }
    chosen = {
        s.name: _first(_of_broker(s.name, broker, profile)) for s in settings if s.kind == "list"
    }
    return own | chosen


def in_force(settings: pa.Table, group: str) -> dict[str, Value]:
    """Return the typed settings of one group and of the brokers: every one of the catalogue.

    A setting that is missing in `sharelag.schemas.SETTINGS` has Kafka's default and the source
    ``"assumed"``; those of dead-letter queues are there where brokers report any.
    """
    return each_in_force(settings, [group])[group]


def each_in_force(settings: pa.Table, groups: Iterable[str]) -> dict[str, dict[str, Value]]:
    """Return what `in_force` returns, for several groups."""
    own: defaultdict[str, dict[str, tuple[str, str]]] = defaultdict(dict)
    brokers: dict[str, tuple[str, str]] = {}
    for row in settings.select(["scope", "entity", "name", "value", "source"]).to_pylist():
        if row["value"] is None:
            continue
        if row["scope"] == "broker":
            brokers[row["name"]] = (row["value"], row["source"])
        elif row["scope"] == "group" and row["entity"] is not None:
            own[row["entity"]][row["name"]] = (row["value"], row["source"])
    # Most groups have the same values: parse each once.
    typed = cache(lambda setting, value: parse(setting, value)[0])

    def value_of(setting: Setting, mine: Mapping[str, tuple[str, str]]) -> Value:
        given = mine.get(setting.name) if setting.scope == "group" else brokers.get(setting.name)
        given = given or brokers.get(setting.broker or "")
        if given is None:
            return Value(setting.default, "assumed")
        return Value(typed(setting, given[0]), given[1])

    names = set(settings.column("name").to_pylist())
    is_later = any(one.name in names for one in LATER)
    later = [one for one in LATER if is_later and one.scope != "topic"]
    others = {one.name: value_of(one, {}) for one in (*CATALOGUE, *later)}
    return {
        group: {one.name: value_of(one, own[group]) for one in (*CATALOGUE, *later)}
        if group in own
        else dict(others)
        for group in groups
    }


def _of_group(
    setting: Setting, stored: object, broker: Mapping[str, object], profile: str
) -> Value:
    if stored is None:
        return (
            _of_broker(setting.broker, broker, profile)
            if setting.broker
            else Value(setting.default, "default")
        )
    typed, _ = parse(setting, stored)
    for bound, is_beyond in ((setting.least_by, operator.lt), (setting.greatest_by, operator.gt)):
        limit = _of_broker(bound, broker, profile).value if bound else None
        if isinstance(typed, int) and isinstance(limit, int) and is_beyond(typed, limit):
            return Value(limit, "broker")
    return Value(typed, "group")


def _of_broker(name: str, broker: Mapping[str, object], profile: str) -> Value:
    setting = find(name, profile)
    if setting is None:  # not in this Kafka version
        return Value(None, "broker")
    if name not in broker:
        return Value(setting.default, "default")
    return Value(None if broker[name] is None else parse(setting, broker[name])[0], "broker")


def _first(listed: Value) -> Value:
    return (
        listed._replace(value=listed.value[0])
        if isinstance(listed.value, tuple) and listed.value
        else listed
    )
