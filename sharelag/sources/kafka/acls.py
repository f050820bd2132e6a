"""The rules of a cluster's authorizer, as ``kafka-acls.sh --list`` has them."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
from confluent_kafka import KafkaError
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)

from sharelag import schemas
from sharelag.errors import AuthorizationError
from sharelag.sources.kafka.client import Connection
from sharelag.sources.kafka.config import ClientConfig
from sharelag.sources.kafka.failures import explain

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

    Attributes
    ----------
    rules
        `sharelag.schemas.ACLS`, in no order.
    may_have_super_users
        Whether ``super.users`` is set, whose value brokers never show, or cannot be looked up.
    may_be_open
        The same of ``allow.everyone.if.no.acl.found``.
    is_kafkas
        Whether it is Kafka's own, which lists all of its rules; another may list none.
    """

    rules: pa.Table
    may_have_super_users: bool = True
    may_be_open: bool = True
    is_kafkas: bool = False


def authorizer(config: ClientConfig) -> Authorizer | None:
    """Return what the authorizer goes by; None if the cluster has none and allows everything.

    Parameters
    ----------
    config : ClientConfig

    Raises
    ------
    AuthorizationError
        We may not describe the cluster, which listing its rules takes.
    ClusterError
        One of its other children.
    """
    connection = Connection(config)
    cluster = connection.result(
        connection.admin.describe_cluster(
            include_authorized_operations=True, request_timeout=connection.within
        ),
        "the cluster",
    )
    # librdkafka gives an empty list where the broker refuses, so its refusal is found here.
    if cluster.authorized_operations is None:
        refused = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED)
        raise explain(refused, "its access rules", config)
    settings = _settings(connection, str(next(iter(cluster.nodes)).id))
    if settings is not None and _AUTHORIZER not in settings:
        return None
    found = connection.result(
        connection.admin.describe_acls(_EVERY, request_timeout=connection.within),
        "the access rules",
    )
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
        for one in found
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
    broker = [ConfigResource(ResourceType.BROKER, node)]
    (future,) = connection.admin.describe_configs(
        broker, request_timeout=connection.within
    ).values()
    try:
        settings = connection.result(future, "the settings of the brokers")
    except AuthorizationError:
        return None
    return {
        name: entry.value for name, entry in settings.items() if entry.value or entry.is_sensitive
    }
