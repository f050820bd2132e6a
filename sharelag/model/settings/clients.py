"""Consumer properties that share consumers ignore or refuse."""

from __future__ import annotations

from collections.abc import Mapping

from sharelag.model.settings.rules import Problem

_GROUP = (
    "set it for the group, because it must be the same for all members: "
    "kafka-configs.sh --alter --entity-type groups --entity-name GROUP --add-config {}=..."
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
#: An early draft of KIP-932 let each consumer choose its lock duration.
_LOCK_DURATION = "record.lock.duration.ms"


def lint_consumer(properties: Mapping[str, object]) -> list[Problem]:
    """Check a consumer's properties before it becomes a share consumer.

    Parameters
    ----------
    properties : mapping of name to value
        As in a properties file.

    Returns
    -------
    list of Problem
        In the order of the properties; `Problem.hint` says what to use instead.

    Notes
    -----
    ``ShareConsumerConfig`` of Kafka 4.3.1, and the section on consumer configuration of KIP-932.
    """
    return [
        problem for name, value in properties.items() if (problem := _problem(name, str(value)))
    ]


def _problem(name: str, value: str) -> Problem | None:
    if name in _NOT_FOR_SHARE_CONSUMERS:
        why = (
            "has no effect on share consumers" if name in _IGNORED else "share consumers refuse it"
        )
        return Problem(name, value, why, _NOT_FOR_SHARE_CONSUMERS[name])
    if name.endswith(_LOCK_DURATION):
        return Problem(
            name, value, "moved to group config", _GROUP.format(f"share.{_LOCK_DURATION}")
        )
    return None
