"""A right on a cluster: one operation on one resource, as Kafka's authorizer knows it."""

from __future__ import annotations

from typing import NamedTuple

#: The only name of a resource of the type CLUSTER.
CLUSTER = "kafka-cluster"


class Right(NamedTuple):
    """A right on one resource; the operation is one of Kafka's ``AclOperation``.

    The type is TOPIC, GROUP or CLUSTER; without a resource it is on every one.
    """

    operation: str
    resource_type: str
    resource: str | None
