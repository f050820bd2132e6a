"""Effective settings, and properties of consumers that share consumers refuse or ignore."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from sharelag.model.settings.catalogue import (
    CATALOGUE,
    CONSUMER,
    LATER,
    Setting,
    Typed,
    catalogue,
    find,
    refusal,
)
from sharelag.model.settings.rules import Problem, parse
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
        group: others | {one.name: value_of(one, mine) for one in (*CATALOGUE, *later) if mine}
        for group in groups
        for mine in [own.get(group, {})]
    }


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


#: The consumer's group in commands of hints, where only `lint_rows` may know its name.
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
_UNKNOWN = "Kafka's consumers have no such property"
_REFUSED = "share consumers refuse it"
#: An early draft of KIP-932 let each consumer choose its lock duration.
_LOCK_DURATION = "record.lock.duration.ms"
_LOCK = f"share.{_LOCK_DURATION}"
_MODE = "share.acknowledgement.mode"
_WORK = "max.poll.interval.ms"
#: How near an unknown name is to the property that was meant.
_NEAR = 0.85


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
        for problem in (_problem(name, value, force or {}), _meant(name, value, texts, force or {}))
        if problem is not None
    ]


def unknown_properties(names: Iterable[str]) -> list[str]:
    """Return the names that Kafka's consumers do not have as properties, in their order.

    Kafka hands them to deserializers and other plug-ins, and ignores them otherwise.
    """
    own = CONSUMER.keys() | _NOT_FOR_SHARE_CONSUMERS.keys()
    return [name for name in names if name not in own and not name.endswith(_LOCK_DURATION)]


def _problem(name: str, value: str, force: Mapping[str, Value]) -> Problem | None:
    """Return what Kafka refuses or ignores."""
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
                f"for acknowledgements of your own, set {_MODE}=explicit: without it, the next "
                "poll accepts what the last one returned"
            )
        return Problem(name, value, why, hint)
    if name.endswith(_LOCK_DURATION):
        return Problem(name, value, "moved to group config", _GROUP.format(_LOCK))
    near = [] if name in CONSUMER else get_close_matches(name, CONSUMER, 1, _NEAR)
    # The value may be a password under a misspelt name, and is not shown.
    return Problem(name, "", _UNKNOWN, f"did you mean {near[0]}?") if near else None


def _meant(
    name: str, value: str, properties: Mapping[str, str], force: Mapping[str, Value]
) -> Problem | None:
    """Return what Kafka accepts and will not do what was meant."""
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
        f"longer than {_LOCK} = {duration} ({whose}): locks may expire while a poll's records "
        "are worked on, and others get them again",
        f"take fewer records a poll, renew their locks{renewal}, or {_GROUP.format(_LOCK)}",
    )
