"""The knobs of a group, within its brokers' bounds: settings, members, renewals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from sharelag.durations import duration
from sharelag.errors import InputError
from sharelag.metrics.settings import bounds, setting_commands, settings_in_force
from sharelag.model.settings import each_in_force
from sharelag.model.settings.catalogue import CONSUMER, find
from sharelag.model.versions import NEWEST, has_reached
from sharelag.schemas import SETTINGS
from sharelag.tables.words import pluralize
from sharelag.whatif.consumers import KAFKA_NAMES
from sharelag.whatif.grid import variants
from sharelag.whatif.scenario import Member, Scenario

Value: TypeAlias = int | str | bool

MEMBERS, POLL, MODE, RENEW = "members", "max.poll.records", "share.acquire.mode", "renew"
_ENABLED = "share.renew.acknowledge.enable"
#: The version of Kafka that introduced lock renewals (KIP-1222).
_RENEW_SINCE = "4.2"
#: Tuned settings of groups, and the steps between their values.
_GROUP_KNOBS = {
    "share.record.lock.duration.ms": 1000,
    "share.partition.max.record.locks": 100,
    "share.delivery.count.limit": 1,
}
#: Default upper bounds; more may be given.
_MOST_POLLED, _MOST_MEMBERS, _TIMES_MEMBERS = 1000, 64, 2
_GREATEST = (1 << 31) - 1
#: How to set what is not a setting of the group.
_WHERE = {
    "broker": "on every broker, for all groups: group.{}={} in server.properties, then a restart",
    "consumer": "in the consumers: {}={}",
}


def text_of(value: Value | None) -> str:
    """Return a value as Kafka's files have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Knob:
    """A number from ``low`` to ``high``, or one of ``choices``."""

    name: str  # Kafka's name of the group's setting if there is one; members or renew
    whose: str  # group, broker (for all its groups), consumer, application or deployment
    low: int = 0
    high: int = 0
    step: int = 1
    choices: tuple[Value, ...] = ()

    @property
    def is_free(self) -> bool:
        """Whether there is a choice."""
        return len(self.choices) > 1 or self.low < self.high

    def at(self, share: float) -> Value:
        """Return the value at a share of the range, by ratios: 1 to 100 has 10 in its middle."""
        if self.choices:
            return self.choices[min(int(share * len(self.choices)), len(self.choices) - 1)]
        value = self.low * (self.high / self.low) ** share
        return int(min(max(round(value / self.step) * self.step, self.low), self.high))

    def share_of(self, value: Value) -> float:
        """Return the position of a value in the range; those outside are at its ends."""
        if self.choices:
            place = self.choices.index(value) if value in self.choices else 0
            return (place + 0.5) / len(self.choices)
        if self.low == self.high:
            return 0.0
        within = min(max(int(value), self.low), self.high)
        return log(within / self.low) / log(self.high / self.low)


@dataclass(frozen=True)
class Edge:
    """A value that keeps the goals, and the next one to try towards the end of the range."""

    good: int
    next: int
    bad: int | None = None
    cliff: str = ""

    def update(self, missed: Sequence[str], knob: Knob) -> Edge:
        """Return the edge after the next value was tried."""
        if not missed and self.bad is None:
            return replace(self, good=self.next)
        good, bad = (self.good, self.next) if missed else (self.next, self.bad)
        cliff = f"{bad}: {', '.join(missed)}" if missed else self.cliff
        middle = knob.at((knob.share_of(good) + knob.share_of(bad or good)) / 2)
        is_between = min(good, bad or good) < int(middle) < max(good, bad or 0)
        return Edge(good, int(middle) if is_between else good, bad, cliff)


def knobs(
    scenario: Scenario,
    ranges: Mapping[str, Any] | None = None,
    settings: pa.Table | None = None,
    kafka_version: str = NEWEST,
) -> tuple[Knob, ...]:
    """Return the knobs that can be tuned; parameters are those of `sharelag.whatif.tune`."""
    table = SETTINGS.empty_table() if settings is None else settings
    (force,) = each_in_force(table, [scenario.group_id]).values()
    values = {name: one.value for name, one in force.items() if one.source != "assumed"}
    found = []
    for name, step in _GROUP_KNOBS.items():
        own = find(name, kafka_version)
        setting = own or find(f"group.{name}", kafka_version)
        if setting is None:
            raise InputError(f"Kafka {kafka_version} has no {name}: give a later version")
        least, greatest = bounds(setting, values, kafka_version)
        whose = "group" if own else "broker"
        found.append(Knob(name, whose, least or 1, greatest or _GREATEST, step))
    now, room = len(scenario.each_member()), scenario.settings.max_size
    most = min(max(_MOST_MEMBERS, _TIMES_MEMBERS * now), room)
    found += [Knob(MEMBERS, "deployment", 1, most), Knob(POLL, "consumer", 1, _MOST_POLLED)]
    if has_reached(kafka_version, CONSUMER[MODE].since):
        found.append(Knob(MODE, "consumer", choices=("batch_optimized", "record_limit")))
    each = scenario.each_member() or scenario.members
    explicit = all(one.behaviour.acknowledgement == "explicit" for one in each)
    if explicit and has_reached(kafka_version, _RENEW_SINCE):
        found.append(Knob(RENEW, "application", choices=(False, True)))
    given, beyond = dict(ranges or {}), {MEMBERS: room, POLL: _GREATEST}
    narrowed = tuple(
        _narrow(one, given.pop(one.name, None), beyond.get(one.name, one.high)) for one in found
    )
    for name in given:
        names = ", ".join(one.name for one in found)
        raise InputError(f"{name!r} cannot be tuned: choose one of {names}")
    return narrowed


def _narrow(knob: Knob, given: Any, greatest: int) -> Knob:
    if given is None:
        return knob
    if knob.choices:
        chosen = str(given).lower()
        kept = tuple(one for one in knob.choices if text_of(one) == chosen)
        if not kept:
            choices = " or ".join(map(text_of, knob.choices))
            raise InputError(f"{knob.name} cannot be {given!r}: give {choices}")
        return replace(knob, choices=kept)
    low, high = given if isinstance(given, tuple | list) else (given, given)
    try:
        low, high = int(low), int(high)
    except (TypeError, ValueError):
        raise InputError(
            f"{knob.name} cannot be {given!r}: give a whole number, or the smallest and the largest"
        ) from None
    if not knob.low <= low <= high <= greatest:
        hint = "" if knob.whose not in ("group", "deployment") else ", by the brokers' own settings"
        raise InputError(
            f"{knob.name} cannot be from {low} to {high}: give a range within {knob.low} to "
            f"{greatest}{hint}"
        )
    return replace(knob, low=low, high=high)


def as_it_is(scenario: Scenario, each: Sequence[Knob]) -> dict[str, Value | None]:
    """Return the values of a scenario; None if its members differ."""
    limits, members = scenario.settings.limits, scenario.each_member() or scenario.members
    seen: dict[str, set[Value]] = {
        MEMBERS: {len(scenario.each_member())},
        POLL: {one.max_poll_records for one in members},
        MODE: {one.acquire_mode for one in members},
        RENEW: {one.behaviour.renew_ms is not None for one in members},
        **{name: {getattr(limits, KAFKA_NAMES[name])} for name in _GROUP_KNOBS},
    }
    return {
        one.name: next(iter(seen[one.name])) if len(seen[one.name]) == 1 else None for one in each
    }


def turn(scenario: Scenario, values: Mapping[str, Value | None]) -> Scenario:
    """Return a scenario with some values; locks are renewed after half of their duration."""
    given: dict[str, Any] = {name: one for name, one in values.items() if one is not None}
    count = given.pop(MEMBERS, None)
    polled, mode, renew = (given.pop(name, None) for name in (POLL, MODE, RENEW))
    if renew:
        given[_ENABLED] = True
    several = () if count in (None, len(scenario.each_member())) else (count,)
    (found,) = variants(scenario, members=several, settings={"": given}).values()
    half = max(found.settings.limits.lock_duration_ms // 2, 1)

    def member(one: Member) -> Member:
        renewed = one.behaviour.renew_ms if renew is None else half if renew else None
        return replace(
            one,
            max_poll_records=polled or one.max_poll_records,
            acquire_mode=mode or one.acquire_mode,
            behaviour=replace(one.behaviour, renew_ms=renewed),
        )

    return replace(found, members=tuple(map(member, found.members)))


def to_set(
    scenario: Scenario,
    each: Sequence[Knob],
    changed: Mapping[str, Value],
    settings: pa.Table | None = None,
    kafka_version: str = NEWEST,
    server: str | None = None,
    command_config: Path | None = None,
) -> list[str]:
    """Return how to set each changed value, as Kafka's command or in words; nothing is run."""
    table = SETTINGS.empty_table() if settings is None else settings
    whose = {knob.name: knob.whose for knob in each}
    texts = {name: text_of(value) for name, value in changed.items()}
    given = {name: text for name, text in texts.items() if whose[name] == "group"}
    renews = changed.get(RENEW)
    if renews and not scenario.settings.limits.renew_enabled:
        given[_ENABLED] = "true"
    groups = [scenario.group_id]
    found = settings_in_force(table, groups, given, None, kafka_version)
    lines = setting_commands(found, given, groups, kafka_version, server, command_config) or [
        f"{row['name']}={row['value']}, but {row['problem']}"
        for row in found.to_pylist()
        if row["name"] in given  # a value that conflicts with another setting has no command
    ]
    listed = [f"for the group: {line}" for line in lines]
    elsewhere = ((name, _WHERE.get(whose[name], "")) for name in texts)
    listed += [where.format(name, texts[name]) for name, where in elsewhere if where]
    if renews is not None:
        lock_ms = changed.get("share.record.lock.duration.ms")
        half = duration(int(lock_ms or scenario.settings.limits.lock_duration_ms) / 2)
        how = f"acknowledge(record, AcknowledgeType.RENEW) every {half} of work"
        listed.append(f"in the application: {how if renews else 'no AcknowledgeType.RENEW'}")
    if MEMBERS in changed:
        now, then = len(scenario.each_member()), pluralize(int(changed[MEMBERS]), "member")
        listed.append(f"in the deployment: {then} instead of {now}")
    return listed
