"""Settings in force: a group's own within the brokers' bounds, else theirs, else Kafka's defaults."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from sharelag.errors import InputError
from sharelag.model.settings.catalogue import CATALOGUE, Setting, Typed, catalogue, find
from sharelag.model.settings.rules import check, parse

if TYPE_CHECKING:
    import pyarrow as pa


class Value(NamedTuple):
    """A value in force, and where it comes from."""

    value: Typed  # None: not known
    source: str  # group, broker, default; assumed: nobody told, so Kafka's default is taken


def effective(
    group: Mapping[str, object], broker: Mapping[str, object], profile: str = "4.3.1"
) -> dict[str, Value]:
    """The settings that a group works with.

    Parameters
    ----------
    group : mapping of name to value
        What is stored for the group (``kafka-configs.sh --entity-type groups``).
    broker : mapping of name to value
        What the brokers have. A name that is missing has Kafka's default; None means not known.
    profile : {"4.3.1", "4.2", "4.1", "draft"}

    Returns
    -------
    dict of str to Value
        Every setting of groups that the profile has. A stored value beyond the brokers' bounds
        gives way to the bound, whose source is then the broker, and stays where it is stored. Of a
        list, the first is in force.

    Notes
    -----
    ``GroupConfig.evaluate`` and ``GroupConfigManager`` of Kafka 4.3.1: brokers check a value when
    it is set, and clamp it when their own bounds change afterwards.
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


def effective_lock_ms(group: object, broker: object = 30_000, greatest: object = 60_000) -> int:
    """How long a record stays acquired: the group's lock duration, or the broker's, as KIP-932 first had it.

    Parameters
    ----------
    group : int, str or None
        ``group.share.record.lock.duration.ms`` of the group; None leaves it to the broker.
    broker, greatest : int or str
        ``group.share.record.lock.duration.ms`` and ``group.share.record.lock.duration.max.ms`` of
        the brokers.

    Raises
    ------
    InputError
        When one of the values is not allowed, or not together with the others.
    """
    name, bound = "group.share.record.lock.duration.ms", "group.share.record.lock.duration.max.ms"
    others = {name: broker, bound: greatest}
    problems = check(bound, greatest, "draft") + check(name, broker, "draft", others)
    problems += check(name, group, "draft", others, "group") if group is not None else []
    if problems:
        raise InputError("; ".join(map(str, problems)))
    return int(str(broker if group is None else group))


def in_force(settings: pa.Table, group: str) -> dict[str, Value]:
    """The settings of one group and of the brokers, typed, from a table of settings.

    Parameters
    ----------
    settings : pyarrow.Table
        `sharelag.schemas.SETTINGS`; empty where none were captured.
    group : str

    Returns
    -------
    dict of str to Value
        Every setting of the catalogue. What the table does not tell has Kafka's default, and the
        source ``"assumed"``.
    """
    return each_in_force(settings, [group])[group]


def each_in_force(settings: pa.Table, groups: Iterable[str]) -> dict[str, dict[str, Value]]:
    """The same as `in_force`, of each of some groups."""
    own: defaultdict[str, dict[str, tuple[str, str]]] = defaultdict(dict)
    brokers: dict[str, tuple[str, str]] = {}
    for row in settings.select(["scope", "entity", "name", "value", "source"]).to_pylist():
        if row["value"] is None:
            continue
        if row["scope"] == "broker":
            brokers[row["name"]] = (row["value"], row["source"])
        elif row["scope"] == "group" and row["entity"] is not None:
            own[row["entity"]][row["name"]] = (row["value"], row["source"])
    # Most groups have the same values: each is parsed once.
    typed = cache(lambda setting, value: parse(setting, value)[0])

    def value_of(setting: Setting, mine: Mapping[str, tuple[str, str]]) -> Value:
        told = mine.get(setting.name) if setting.scope == "group" else brokers.get(setting.name)
        told = told or brokers.get(setting.broker or "")
        return (
            Value(typed(setting, told[0]), told[1]) if told else Value(setting.default, "assumed")
        )

    return {
        group: {one.name: value_of(one, own.get(group, {})) for one in CATALOGUE}
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
    if setting is None:  # not in this Kafka yet
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
