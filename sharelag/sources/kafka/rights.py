"""Which rights we have on a cluster, by requests that change nothing.

A broker tells by an answer or a refusal what may be described, and says with the description which
other operations its authorizer would allow (KIP-430).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, TypeAlias

import pyarrow as pa
from confluent_kafka import KafkaError, TopicCollection
from confluent_kafka.admin import ConfigResource, ResourceType

from sharelag import schemas
from sharelag.errors import AuthorizationError, TopicMissingError
from sharelag.model.rights import CLUSTER
from sharelag.sources.kafka.client import Connection
from sharelag.sources.kafka.config import ClientConfig
from sharelag.sources.kafka.failures import explain
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC

_Row: TypeAlias = dict[str, str | bool | None]

_OPERATIONS = {
    "TOPIC": ("DESCRIBE", "READ"),
    "GROUP": ("DESCRIBE", "READ", "DELETE"),
    "CLUSTER": ("DESCRIBE", "CLUSTER_ACTION"),
}
_AT_ONCE = 100  # names a request


def ask_rights(config: ClientConfig, groups: Iterable[str], topics: Iterable[str]) -> pa.Table:
    """Ask the cluster what it lets us do.

    Parameters
    ----------
    config : ClientConfig
    groups, topics : iterable of str
        Names; the topics of coordinators are always asked about.

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.ASKED_RIGHTS`. What needs DESCRIBE first (reading a topic needs its
        leaders, consuming in a group its coordinator) is refused with it. Null is what no request
        tells: the rights on a topic that does not exist, and what else is granted on a cluster
        that may not be described.

    Raises
    ------
    ClusterError
        No broker answers, or it refused our credentials.
    """
    connection = Connection(config)
    rows = list(_of_cluster(connection))
    names = sorted({STATE_TOPIC, GROUP_TOPIC, *topics})
    rows += _described(connection, "TOPIC", names, lambda some: _topics(connection, some))
    # Looking for the coordinator of a group would make a new cluster create that topic.
    if any(row["resource"] == GROUP_TOPIC for row in rows):
        rows += _described(
            connection, "GROUP", sorted(set(groups)), lambda some: _groups(connection, some)
        )
    rows += _configs(connection, "TOPIC", ResourceType.TOPIC, sorted(set(topics)))
    rows += _configs(connection, "GROUP", ResourceType.GROUP, sorted(set(groups)))
    return pa.Table.from_pylist(rows, schema=schemas.ASKED_RIGHTS)


def refusal(config: ClientConfig, topic: str) -> AuthorizationError | None:
    """Return the error that reading a topic would end with; None where it may be read.

    Raises
    ------
    ClusterError
        No broker answers, or it refused our credentials.
    """
    connection = Connection(config)
    rows = _described(connection, "TOPIC", [topic], lambda some: _topics(connection, some))
    if all(row["allowed"] is not False for row in rows):
        return None
    error = explain(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), topic, config)
    return error if isinstance(error, AuthorizationError) else None


def principal_of(config: ClientConfig) -> str | None:
    """Return who the brokers take us for; None where the settings do not tell.

    Kafka's default: the user name of SASL PLAIN and SCRAM. Names in certificates and tokens are
    mapped by rules of the brokers.
    """
    settings = config.librdkafka()
    is_sasl = str(settings.get("security.protocol", "")).upper().startswith("SASL")
    mechanism = str(settings.get("sasl.mechanism", settings.get("sasl.mechanisms", "")))
    by_name = is_sasl and (mechanism == "PLAIN" or mechanism.startswith("SCRAM-"))
    name = settings.get("sasl.username") if by_name else None
    return f"User:{name}" if name else None


def _topics(connection: Connection, names: list[str]) -> dict[str, Future[Any]]:
    found: dict[str, Future[Any]] = connection.admin.describe_topics(
        TopicCollection(names),
        include_authorized_operations=True,
        request_timeout=connection.within,
    )
    return found


def _groups(connection: Connection, names: list[str]) -> dict[str, Future[Any]]:
    # As groups of any type: brokers answer this request for share groups, too, with these rights
    # and nothing else of them (`KafkaApis.handleDescribeGroupsRequest`).
    found: dict[str, Future[Any]] = connection.admin.describe_consumer_groups(
        names, include_authorized_operations=True, request_timeout=connection.within
    )
    return found


def _described(
    connection: Connection,
    kind: str,
    names: list[str],
    ask: Callable[[list[str]], dict[str, Future[Any]]],
) -> Iterator[_Row]:
    for begin in range(0, len(names), _AT_ONCE):
        for name, future in ask(names[begin : begin + _AT_ONCE]).items():
            try:
                told = connection.result(future, name).authorized_operations
            except AuthorizationError:
                yield from _rows(kind, name, dict.fromkeys(_OPERATIONS[kind], False))
            except TopicMissingError:
                continue
            else:
                yield from _rows(kind, name, {"DESCRIBE": True} | _told(kind, told))


def _told(kind: str, operations: Iterable[Any] | None) -> dict[str, bool]:
    """Return what the answer allows; nothing where the broker did not say."""
    if operations is None:
        return {}
    allowed = {one.name for one in operations}
    return {operation: operation in allowed for operation in _OPERATIONS[kind]}


def _of_cluster(connection: Connection) -> Iterator[_Row]:
    cluster = connection.result(
        connection.admin.describe_cluster(
            include_authorized_operations=True, request_timeout=connection.within
        ),
        "the cluster",
    )
    told = cluster.authorized_operations
    # Everybody may ask for the brokers; only those with DESCRIBE learn the rights.
    yield from _rows(
        "CLUSTER", CLUSTER, {"DESCRIBE": False} if told is None else _told("CLUSTER", told)
    )
    node = str(next(iter(cluster.nodes)).id)
    for row in _configs(connection, "CLUSTER", ResourceType.BROKER, [node]):
        yield row | {"resource": CLUSTER}


def _configs(
    connection: Connection, kind: str, resource: ResourceType, names: list[str]
) -> Iterator[_Row]:
    for begin in range(0, len(names), _AT_ONCE):
        some = [ConfigResource(resource, name) for name in names[begin : begin + _AT_ONCE]]
        asked = connection.admin.describe_configs(some, request_timeout=connection.within)
        for one, future in asked.items():
            try:
                connection.result(future, one.name)
            except AuthorizationError:
                yield from _rows(kind, one.name, {"DESCRIBE_CONFIGS": False})
            except TopicMissingError:
                continue
            else:
                yield from _rows(kind, one.name, {"DESCRIBE_CONFIGS": True})


def _rows(kind: str, name: str, allowed: dict[str, bool]) -> Iterator[_Row]:
    for operation, is_allowed in allowed.items():
        yield {
            "operation": operation,
            "resource_type": kind,
            "resource": name,
            "allowed": is_allowed,
        }
