"""Validate settings as Kafka's own classes do, all problems at once, and find effective values.

Also validate consumer properties, which share consumers may refuse or ignore.
"""

from __future__ import annotations

import operator
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

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
    refusal,
)
from sharelag.model.versions import NEWEST, RELEASES, has_reached

if TYPE_CHECKING:
    import pyarrow as pa

_BITS = {"int": 32, "short": 16}
#: Minimum similarity of an unknown name to a suggested setting.
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
    """Check the value of a setting, a text or parsed; nothing is wrong if Kafka accepts it.

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
    """Return what other versions of Kafka report for values, if they disagree with one version.

    There is a sentence for all releases that say the same, newest first.
    """
    refused = {problem.name for problem in check_all(values, profile)}
    versions: dict[str, list[str]] = {}
    for other in RELEASES[RELEASES.index(FIRST) :][::-1]:
        problems = check_all(values, other)
        if {problem.name for problem in problems} == refused:
            continue
        whys = "; ".join(f"{problem.name}: {problem.why}" for problem in problems)
        versions.setdefault(f"refuse that ({whys})" if whys else "accept that", []).append(other)
    return [f"Kafka {', '.join(others)} would {words}" for words, others in versions.items()]


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


def _suggest(name: str, known: Iterable[str], cutoff: float) -> str:
    """Return a question about the nearest known name, or nothing."""
    from difflib import get_close_matches

    near = get_close_matches(name, sorted(known), 1, cutoff)
    return f"did you mean {near[0]}?" if near else ""


def _unknown(name: str, value: str, profile: str) -> Problem:
    """Return the problem with a name that is not in this version's catalogue."""
    known = {known.name for known in catalogue(profile)}
    hint = _suggest(name, known, _NEAR)
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


# ---- effective values ----------------------------------------------------------------------------


class Value(NamedTuple):
    """An effective value and its source."""

    value: Typed  # None: unknown
    source: str  # group, broker, default; assumed: not reported, so Kafka's default is used


def effective(
    group: Mapping[str, object], broker: Mapping[str, object], profile: str = NEWEST
) -> dict[str, Value]:
    """Return the effective settings of a group: all of the profile.

    ``group`` has the values stored for the group (``kafka-configs.sh --entity-type groups``),
    ``broker`` those of the brokers: a missing name has Kafka's default, None means unknown. A
    stored value beyond the broker's bounds is replaced by the bound, with the broker as its source.
    The first entry of a list is the effective one.

    ``GroupConfig.evaluate`` and ``GroupConfigManager`` of Kafka 4.3.1 and 4.4: brokers check a
    value when it is set, and clamp it when their own bounds change afterwards.
    """
    found = {}
    for one in catalogue(profile):
        if one.scope == "group":
            found[one.name] = _of_group(one, group.get(one.name), broker, profile)
    for one in catalogue(profile):
        if one.kind == "list":
            listed = _of_broker(one.name, broker, profile)
            if isinstance(listed.value, tuple) and listed.value:
                listed = listed._replace(value=listed.value[0])
            found[one.name] = listed
    return found


def in_force(settings: pa.Table, group: str) -> dict[str, Value]:
    """Return the typed settings of one group and of the brokers: all of the catalogue.

    A setting that is missing in `sharelag.schemas.SETTINGS` has Kafka's default and the source
    ``"assumed"``; settings of dead-letter queues are included if brokers report any.
    """
    return each_in_force(settings, [group])[group]


def each_setting(settings: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Yield scope, entity, name, value and source; a mapping per row would take long."""
    columns = ("scope", "entity", "name", "value", "source")
    return zip(*(settings.column(one).to_pylist() for one in columns), strict=True)


def each_in_force(settings: pa.Table, groups: Iterable[str]) -> dict[str, dict[str, Value]]:
    """Return the result of `in_force` for several groups."""
    own: defaultdict[str, dict[str, tuple[str, str]]] = defaultdict(dict)
    brokers: dict[str, tuple[str, str]] = {}
    for scope, entity, name, value, source in each_setting(settings):
        if value is None:
            continue
        if scope == "broker":
            brokers[name] = (value, source)
        elif scope == "group" and entity is not None:
            own[entity][name] = (value, source)

    def value_of(setting: Setting, mine: Mapping[str, tuple[str, str]]) -> Value:
        given = mine.get(setting.name) if setting.scope == "group" else brokers.get(setting.name)
        given = given or brokers.get(setting.broker or "")
        if given is None:
            return Value(setting.default, "assumed")
        return Value(parse(setting, given[0])[0], given[1])

    names = set(settings.column("name").to_pylist())
    is_later = any(one.name in names for one in LATER)
    later = [one for one in LATER if is_later and one.scope != "topic"]
    others = {one.name: value_of(one, {}) for one in (*CATALOGUE, *later)}

    @cache  # most groups have the same values
    def of_group(mine: frozenset[tuple[str, tuple[str, str]]]) -> dict[str, Value]:
        given = dict(mine)
        return others | {one.name: value_of(one, given) for one in (*CATALOGUE, *later) if given}

    return {group: of_group(frozenset(own.get(group, {}).items())) for group in groups}


def _of_group(
    setting: Setting, stored: object, broker: Mapping[str, object], profile: str
) -> Value:
    if stored is None:
        of_brokers = setting.broker and _of_broker(setting.broker, broker, profile)
        return of_brokers or Value(setting.default, "default")
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


#: The consumer's group in commands of hints; only `lint_rows` may know its name.
OF_GROUP = "--entity-name GROUP"
_GROUP = (
    "set it for the group, because it must be the same for all members: "
    f"kafka-configs.sh --alter --entity-type groups {OF_GROUP} --add-config {{}}=..."
)
_ACKNOWLEDGED = (
    "share consumers acknowledge records and do not commit offsets: see share.acknowledgement.mode"
)
_ASSIGNED = "the group coordinator assigns partitions: see the broker setting group.share.assignors"
#: Consumer property -> what replaces it. Kafka's share consumer refuses all but the ignored ones.
_NOT_FOR_SHARE_CONSUMERS = {
    "auto.offset.reset": _GROUP.format("share.auto.offset.reset"),
    "isolation.level": _GROUP.format("share.isolation.level"),
    "session.timeout.ms": _GROUP.format("share.session.timeout.ms"),
    "heartbeat.interval.ms": _GROUP.format("share.heartbeat.interval.ms"),
    "enable.auto.commit": _ACKNOWLEDGED,
    "auto.commit.interval.ms": _ACKNOWLEDGED,
    "partition.assignment.strategy": _ASSIGNED,
    "group.remote.assignor": _ASSIGNED,
    "interceptor.classes": "share consumers do not run interceptors: remove it",
    "group.instance.id": "share groups have no static members: remove it",
    "group.protocol": "share groups have only one protocol: remove it",
    "group.type": "the class of the consumer decides (KafkaShareConsumer): remove it",
}
_IGNORED = frozenset(["auto.commit.interval.ms", "group.type"])
_NO_PROPERTY = "Kafka's consumers have no such property"
_REFUSED = "share consumers refuse it"
#: An early draft of KIP-932 let each consumer choose its lock duration.
_LOCK_DURATION = "record.lock.duration.ms"
_LOCK = f"share.{_LOCK_DURATION}"
_MODE = "share.acknowledgement.mode"
_WORK = "max.poll.interval.ms"
#: How near an unknown name is to the property that was meant.
_NEAR_PROPERTY = 0.85


def lint_consumer(
    properties: Mapping[str, object], force: Mapping[str, Value] | None = None
) -> list[Problem]:
    """Check a consumer's properties, as in a file, before it becomes a share consumer.

    The problems are in the order of the properties; `Problem.hint` says what to use instead. Names
    that Kafka does not know are among them where they are nearly those of a property: see
    `unknown_properties` for the others. ``force`` has the settings in force for its group; without
    it, Kafka's defaults.

    ``ConsumerConfig`` and ``ShareConsumerConfig`` of Kafka 4.3.1, and the section on consumer
    configuration of KIP-932.
    """
    texts = {name: str(value) for name, value in properties.items()}
    return [
        problem
        for name, value in texts.items()
        for problem in (
            _find_refused(name, value, force or {}),
            _find_unintended(name, value, texts, force or {}),
        )
        if problem is not None
    ]


def unknown_properties(names: Iterable[str]) -> list[str]:
    """Return the names that Kafka's consumers do not have as properties, in their order.

    Kafka hands them to deserializers and other plug-ins, and ignores them otherwise.
    """
    own = CONSUMER.keys() | _NOT_FOR_SHARE_CONSUMERS.keys()
    return [name for name in names if name not in own and not name.endswith(_LOCK_DURATION)]


def _find_refused(name: str, value: str, force: Mapping[str, Value]) -> Problem | None:
    """Return the problem of a property that Kafka refuses or ignores."""
    refused = refusal(CONSUMER[name], value) if name in CONSUMER else ""
    if refused and (name in _IGNORED or name not in _NOT_FOR_SHARE_CONSUMERS):
        return Problem(name, value, f"{_REFUSED}: {refused}")
    if name in _NOT_FOR_SHARE_CONSUMERS:
        why = "has no effect on share consumers" if name in _IGNORED else _REFUSED
        hint = _NOT_FOR_SHARE_CONSUMERS[name]
        now = force.get(f"share.{name}")
        if now is not None and now.value is not None:
            hint += f" (now {now.value})"
        if name == "enable.auto.commit" and value.strip().lower() == "false":
            hint = (
                f"to acknowledge records yourself, set {_MODE}=explicit: without it, the next poll "
                "accepts what the last one returned"
            )
        return Problem(name, value, why, hint)
    if name.endswith(_LOCK_DURATION):
        return Problem(name, value, "moved to group config", _GROUP.format(_LOCK))
    hint = "" if name in CONSUMER else _suggest(name, CONSUMER, _NEAR_PROPERTY)
    # The value may be a password under a misspelt name, so it is not shown.
    return Problem(name, "", _NO_PROPERTY, hint) if hint else None


def _find_unintended(
    name: str, value: str, properties: Mapping[str, str], force: Mapping[str, Value]
) -> Problem | None:
    """Return the problem of a property that Kafka accepts with an unintended effect."""
    if name != _WORK or refusal(CONSUMER[_WORK], value):
        return None
    lock = force.get(_LOCK)
    duration = lock.value if lock is not None else getattr(find(_LOCK), "default", None)
    if not isinstance(duration, int) or int(value) <= duration:
        return None
    whose = "Kafka's default" if lock is None else "in force for the group"
    renewal = "" if properties.get(_MODE) == "explicit" else f" (needs {_MODE}=explicit)"
    return Problem(
        name,
        value,
        f"longer than {_LOCK} = {duration} ({whose}): locks may expire while the records of a poll "
        "are being processed, and others receive them again",
        f"take fewer records per poll, renew their locks{renewal}, or {_GROUP.format(_LOCK)}",
    )
