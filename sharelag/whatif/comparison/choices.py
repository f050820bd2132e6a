"""Variants of a scenario: every combination of assignors, numbers of members and settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from sharelag.errors import InputError
from sharelag.model.settings.catalogue import find
from sharelag.model.settings.rules import parse
from sharelag.whatif.assignors.registry import find_assignor
from sharelag.whatif.autoscale import autoscaler_of
from sharelag.whatif.consumers import KAFKA_NAMES
from sharelag.whatif.scenario import Scenario, Settings

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


def autoscaled(variants: Mapping[str, Scenario], texts: Sequence[str]) -> dict[str, Scenario]:
    """Each variant with each autoscaler, by names such as ``8 members · keda:threshold=100``.

    Texts are as `autoscaler_of` reads them; none of them leaves the variants as they are.

    Raises
    ------
    InputError
        One cannot be read, or comes twice.
    """
    autoscalers = {text: autoscaler_of(text) for text in texts}
    if len(autoscalers) < len(texts):
        raise InputError("an autoscaler is given twice: give each once")
    if not autoscalers:
        return dict(variants)
    return {
        text if name == AS_IT_IS else f"{name}{_BETWEEN}{text}": replace(
            scenario, autoscaler=autoscaler
        )
        for name, scenario in variants.items()
        for text, autoscaler in autoscalers.items()
    }


def _members(count: int) -> str:
    return f"{count} member" if count == 1 else f"{count} members"


def _changed(settings: Settings, given: Settings | Mapping[str, object]) -> Settings:
    if isinstance(given, Settings):
        return given
    limits: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for name, value in given.items():
        setting = find(name)
        if setting is None or name not in KAFKA_NAMES:
            raise InputError(f"unknown setting {name!r}: choose one of {', '.join(KAFKA_NAMES)}")
        typed, why = parse(setting, value)
        if typed is None or (name == "share.auto.offset.reset" and typed not in setting.choices):
            raise InputError(
                f"{name} cannot be {value!r}: {why or 'give ' + ' or '.join(setting.choices)}"
            )
        ours = KAFKA_NAMES[name]
        (limits if hasattr(settings.limits, ours) else own)[ours] = typed
    return replace(settings, limits=replace(settings.limits, **limits), **own)
