"""Which rights we have on a cluster, by requests that change nothing.

A broker tells by an answer or a refusal what may be described, and says with the description which
other operations its authorizer would allow (KIP-430).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
from confluent_kafka import KafkaError, TopicCollection
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from sharelag import schemas
from sharelag.errors import AuthorizationError, TopicMissingError
from sharelag.inputs.kafka.client import Connection
from sharelag.inputs.kafka.config import ClientConfig
from sharelag.inputs.kafka.failures import translate_error
from sharelag.model import CLUSTER
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC

_Row: TypeAlias = dict[str, str | bool | None]

_OPERATIONS = {
    "TOPIC": ("DESCRIBE", "READ"),
    "GROUP": ("DESCRIBE", "READ", "DELETE"),
    "CLUSTER": ("DESCRIBE", "CLUSTER_ACTION"),
}
_AT_ONCE = 100  # names a request


def ask_rights(config: ClientConfig, groups: Iterable[str], topics: Iterable[str]) -> pa.Table:
    """Ask the cluster what it lets us do with groups, topics and the coordinators' topics.

    Return `sharelag.schemas.ASKED_RIGHTS`. What needs DESCRIBE first (reading a topic needs its
    leaders, consuming in a group its coordinator) is refused with it. Null is what no request
    tells: the rights on a topic that does not exist, and what else is granted on a cluster that may
    not be described.
    """
    connection = Connection(config)
    rows = list(_of_cluster(connection))
    names = sorted({STATE_TOPIC, GROUP_TOPIC, *topics})
    rows += _describe(connection, "TOPIC", names)
    # Looking for the coordinator of a group would make a new cluster create that topic.
    if any(row["resource"] == GROUP_TOPIC for row in rows):
        rows += _describe(connection, "GROUP", sorted(set(groups)))
    rows += _configs(connection, ResourceType.TOPIC, topics)
    rows += _configs(connection, ResourceType.GROUP, groups)
    return pa.Table.from_pylist(rows, schema=schemas.ASKED_RIGHTS)


def refusal(config: ClientConfig, topic: str) -> AuthorizationError | None:
    """Return the error that reading a topic would end with; None where it may be read."""
    connection = Connection(config)
    if all(row["allowed"] for row in _describe(connection, "TOPIC", [topic])):
        return None
    error = translate_error(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), topic, config)
    return error if isinstance(error, AuthorizationError) else None


def principal_of(config: ClientConfig) -> str | None:
    """Return who the brokers take us for; None where the settings do not tell.

    Kafka's default: the user name of SASL PLAIN and SCRAM. Names in certificates and tokens are
    mapped by rules of the brokers.
    """
    settings = config.settings
    is_sasl = str(settings.get("security.protocol", "")).upper().startswith("SASL")
    mechanism = str(settings.get("sasl.mechanism", settings.get("sasl.mechanisms", "")))
    by_name = is_sasl and (mechanism == "PLAIN" or mechanism.startswith("SCRAM-"))
    name = settings.get("sasl.username") if by_name else None
    return f"User:{name}" if name else None


def _describe(connection: Connection, kind: str, names: list[str]) -> Iterator[_Row]:
    # As groups of any type: brokers answer this request for share groups, too, with these rights
    # and nothing else of them (`KafkaApis.handleDescribeGroupsRequest`).
    admin = connection.admin
    ask = admin.describe_topics if kind == "TOPIC" else admin.describe_consumer_groups
    for begin in range(0, len(names), _AT_ONCE):
        some: Any = names[begin : begin + _AT_ONCE]
        some = TopicCollection(some) if kind == "TOPIC" else some
        asked = ask(some, include_authorized_operations=True, request_timeout=connection.within)
        for name, future in asked.items():
            try:
                told = connection.result(future, name).authorized_operations
            except AuthorizationError:
                yield from _rows(kind, name, dict.fromkeys(_OPERATIONS[kind], False))
            except TopicMissingError:
                continue
            else:
                yield from _rows(kind, name, {"DESCRIBE": True} | _read_operations(kind, told))


def _read_operations(kind: str, operations: Iterable[Any] | None) -> dict[str, bool]:
    """Return what the answer allows; nothing where the broker did not say."""
    if operations is None:
        return {}
    allowed = {one.name for one in operations}
    return {operation: operation in allowed for operation in _OPERATIONS[kind]}


def _of_cluster(connection: Connection) -> Iterator[_Row]:
    cluster = connection.describe_cluster(with_rights=True)
    told = cluster.authorized_operations
    # Everybody may ask for the brokers; only those with DESCRIBE learn the rights.
    allowed = {"DESCRIBE": False} if told is None else _read_operations("CLUSTER", told)
    yield from _rows("CLUSTER", CLUSTER, allowed)
    node = str(next(iter(cluster.nodes)).id)
    for row in _configs(connection, ResourceType.BROKER, [node]):
        yield row | {"resource_type": "CLUSTER", "resource": CLUSTER}


def _configs(connection: Connection, kind: ResourceType, names: Iterable[str]) -> Iterator[_Row]:
    for name, entries in connection.describe_configs(kind, sorted(set(names))):
        yield from _rows(kind.name, name, {"DESCRIBE_CONFIGS": entries is not None})


def _rows(kind: str, name: str, allowed: dict[str, bool]) -> Iterator[_Row]:
    where: _Row = {"resource_type": kind, "resource": name}
    for operation, is_allowed in allowed.items():
        yield where | {"operation": operation, "allowed": is_allowed}


# ---- rules of the authorizer --------------------------------------------------------------------


_EVERY = AclBindingFilter(
    *(ResourceType.ANY, None, ResourcePatternType.ANY, None, None),
    *(AclOperation.ANY, AclPermissionType.ANY),
)
#: What confluent-kafka calls otherwise than Kafka.
_KAFKAS_NAMES = {"BROKER": "CLUSTER"}
_AUTHORIZER = "authorizer.class.name"
_STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_SUPER_USERS, _OPEN = "super.users", "allow.everyone.if.no.acl.found"


class Authorizer(NamedTuple):
    """What an authorizer goes by, as far as brokers show it.

    ``rules`` are `sharelag.schemas.ACLS`, in no order. The next two say whether ``super.users``,
    whose value brokers never show, and ``allow.everyone.if.no.acl.found`` are set or cannot be
    looked up; ``is_kafkas`` whether it is Kafka's own, which lists all of its rules: another may
    list none.
    """

    rules: pa.Table
    may_have_super_users: bool = True
    may_be_open: bool = True
    is_kafkas: bool = False


def authorizer(config: ClientConfig) -> Authorizer | None:
    """Return what the authorizer goes by; None if the cluster has none and allows everything.

    It is an AuthorizationError if we may not describe the cluster, which listing its rules takes.
    """
    connection = Connection(config)
    cluster = connection.describe_cluster(with_rights=True)
    # librdkafka gives an empty list where the broker refuses, so its refusal is found here.
    if cluster.authorized_operations is None:
        refused = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED)
        raise translate_error(refused, "its access rules", config)
    settings = _settings(connection, str(next(iter(cluster.nodes)).id))
    if settings is not None and _AUTHORIZER not in settings:
        return None
    asked = connection.admin.describe_acls(_EVERY, request_timeout=connection.within)
    rows = [
        {
            "principal": one.principal,
            "acl_host": one.host,
            "operation": one.operation.name,
            "permission": one.permission_type.name,
            "resource_type": _KAFKAS_NAMES.get(one.restype.name, one.restype.name),
            "pattern_type": one.resource_pattern_type.name,
            "resource": one.name,
        }
        for one in connection.result(asked, "the access rules")
    ]
    return Authorizer(
        pa.Table.from_pylist(rows, schema=schemas.ACLS),
        settings is None or _SUPER_USERS in settings,
        settings is None or _OPEN in settings,
        settings is not None and settings[_AUTHORIZER] == _STANDARD,
    )


def _settings(connection: Connection, node: str) -> dict[str, str | None] | None:
    """Return a broker's settings that have a value; None where they may not be read.

    What Kafka has no type of is described where it is set, without its value.
    """
    what = "the settings of the brokers"
    ((_, settings),) = connection.describe_configs(ResourceType.BROKER, [node], what)
    if settings is None:
        return None
    return {
        name: entry.value for name, entry in settings.items() if entry.value or entry.is_sensitive
    }
