"""Variants of a scenario: every combination of assignors, numbers of members and settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from itertools import product
from typing import Any

from sharelag.errors import InputError
from sharelag.model.settings.catalogue import find
from sharelag.model.settings.rules import parse
from sharelag.whatif.assignors.registry import find_assignor
from sharelag.whatif.partition.values import Limits
from sharelag.whatif.scenario import Scenario, Settings

#: Kafka's names of what a simulation goes by, and ours: in `Limits` or in `Settings`.
_FIELDS = {
    "share.partition.max.record.locks": "max_record_locks",
    "share.delivery.count.limit": "delivery_count_limit",
    "share.record.lock.duration.ms": "lock_duration_ms",
    "share.renew.acknowledge.enable": "renew_enabled",
    "share.heartbeat.interval.ms": "heartbeat_interval_ms",
    "share.session.timeout.ms": "session_timeout_ms",
    "share.assignment.interval.ms": "assignment_interval_ms",
    "share.isolation.level": "isolation_level",
    "share.auto.offset.reset": "auto_offset_reset",
}
_OF_LIMITS = frozenset(one.name for one in fields(Limits))
#: The name of a scenario of which nothing is changed.
AS_IT_IS = "as it is"
#: Between the parts of a variant's name.
_BETWEEN = " · "


def variants(
    scenario: Scenario,
    *,
    assignors: str | Iterable[str] = (),
    members: int | Iterable[int] = (),
    settings: Mapping[str, Settings | Mapping[str, object]] | Iterable[Any] = (),
) -> dict[str, Scenario]:
    """Every combination of what is to be tried.

    Parameters
    ----------
    scenario : Scenario
        What is not named stays as it is there.
    assignors : str or iterable of str
        Some of `sharelag.whatif.assignor_names`.
    members : int or iterable of int
        Numbers of members; faults of single members are left out then (`Scenario.with_members`).
    settings : mapping of str to Settings or mapping
        By a label of your choice: all settings, or only those that are other than in the scenario
        by Kafka's names, such as ``{"short locks": {"share.record.lock.duration.ms": 15000}}``.
        Values may leave the ranges that brokers enforce.

    Returns
    -------
    dict of str to Scenario
        By names such as ``simple · 8 members · short locks``: what was given of these; ``as it is``
        for nothing.

    Raises
    ------
    InputError
        An assignor or a setting is not known, or a value cannot be read.
    """
    if not isinstance(settings, Mapping):
        if list(settings):
            raise InputError(
                "settings are given by label: "
                "{'short locks': {'share.record.lock.duration.ms': 15000}}"
            )
        settings = {}
    assignors = [assignors] if isinstance(assignors, str) else list(assignors)
    members = [members] if isinstance(members, int | float) else list(members)
    for name in assignors:
        find_assignor(name)
    peopled = {_members(count): scenario.with_members(count) for count in members} or {"": scenario}
    set_ = {label: _changed(scenario.settings, given) for label, given in settings.items()} or {
        "": scenario.settings
    }
    made = {
        (assignor, who, label): replace(
            some, assignor=assignor or scenario.assignor, settings=in_force
        )
        for assignor, (who, some), (label, in_force) in product(
            assignors or [""], peopled.items(), set_.items()
        )
    }
    return {_BETWEEN.join(filter(None, parts)) or AS_IT_IS: made[parts] for parts in made}


def _members(count: int) -> str:
    return f"{count} member" if count == 1 else f"{count} members"


def _changed(settings: Settings, given: Settings | Mapping[str, object]) -> Settings:
    if isinstance(given, Settings):
        return given
    limits: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for name, value in given.items():
        setting = find(name)
        if setting is None or name not in _FIELDS:
            raise InputError(f"unknown setting {name!r}: choose one of {', '.join(_FIELDS)}")
        typed, why = parse(setting, value)
        if typed is None or (name == "share.auto.offset.reset" and typed not in setting.choices):
            raise InputError(
                f"{name} cannot be {value!r}: {why or 'give ' + ' or '.join(setting.choices)}"
            )
        ours = _FIELDS[name]
        (limits if ours in _OF_LIMITS else own)[ours] = typed
    return replace(settings, limits=replace(settings.limits, **limits), **own)
