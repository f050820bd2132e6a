"""The rules of a cluster's authorizer, as ``kafka-acls.sh --list`` has them."""

from __future__ import annotations

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


def acls(config: ClientConfig) -> pa.Table | None:
    """Return all rules of the authorizer; None if the cluster has none and allows everything.

    Parameters
    ----------
    config : ClientConfig

    Returns
    -------
    pyarrow.Table, optional
        `sharelag.schemas.ACLS`, in no order.

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
    if not _has_authorizer(connection, str(next(iter(cluster.nodes)).id)):
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
    return pa.Table.from_pylist(rows, schema=schemas.ACLS)


def _has_authorizer(connection: Connection, node: str) -> bool:
    """Whether the cluster has one; also true where its settings may not be read."""
    broker = [ConfigResource(ResourceType.BROKER, node)]
    (future,) = connection.admin.describe_configs(
        broker, request_timeout=connection.within
    ).values()
    try:
        settings = connection.result(future, "the settings of the brokers")
    except AuthorizationError:
        return True  # somebody refuses
    return _AUTHORIZER not in settings or bool(settings[_AUTHORIZER].value)
