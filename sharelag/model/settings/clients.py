"""Consumer properties that share consumers refuse or ignore, or that miss what was meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from sharelag.model.settings.catalogue import find
from sharelag.model.settings.consumer import CONSUMER, refusal
from sharelag.model.settings.force import Value
from sharelag.model.settings.rules import Problem

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
    return [
        name
        for name in names
        if not (
            name in CONSUMER or name in _NOT_FOR_SHARE_CONSUMERS or name.endswith(_LOCK_DURATION)
        )
    ]


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
