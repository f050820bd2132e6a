"""A right on a cluster: one operation on one resource, as Kafka's authorizer knows it."""

from __future__ import annotations

from typing import NamedTuple

#: The only name of a resource of the type CLUSTER.
CLUSTER = "kafka-cluster"


class Right(NamedTuple):
    """A right on one resource.

    Attributes
    ----------
    operation
        A name of ``org.apache.kafka.common.acl.AclOperation``.
    resource_type
        TOPIC, GROUP or CLUSTER.
    resource
        None: every one.
    """

    operation: str
    resource_type: str
    resource: str | None
