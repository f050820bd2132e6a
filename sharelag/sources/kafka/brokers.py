"""Brokers of the cluster: which of them are there, and which lead which topic partition."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from sharelag import schemas
from sharelag.errors import AuthorizationError, TopicMissingError
from sharelag.sources.kafka import topics as kafka
from sharelag.sources.kafka.client import Connection
from sharelag.sources.kafka.config import ClientConfig


def leaders(config: ClientConfig, topics: Iterable[str]) -> pa.Table:
    """Return the leader and replicas of each partition of topics, by metadata.

    Parameters
    ----------
    config : ClientConfig
    topics : iterable of str
        Topics that are missing, or that may not be described, have no rows.

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.LEADERS`, one row per partition.

    Raises
    ------
    ClusterError
        One of its children.
    """
    connection = Connection(config)
    described = kafka.descriptions(
        connection, list(topics), (AuthorizationError, TopicMissingError)
    )
    requested = datetime.now(UTC)
    rows = [
        {
            "topic": name,
            "topic_id": kafka.id_text(found.topic_id),
            "partition": one.id,
            "leader_id": _id(one.leader),
            "replicas": [node.id for node in one.replicas],
            "in_sync_replicas": [node.id for node in one.isr],
            "as_of": requested,
        }
        for name, found in described.items()
        for one in found.partitions
    ]
    return pa.Table.from_pylist(rows, schema=schemas.LEADERS)


def nodes(config: ClientConfig) -> pa.Table:
    """Return the brokers that are in the cluster, by metadata.

    Parameters
    ----------
    config : ClientConfig

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.NODES`, sorted by id; the rack is null where ``broker.rack`` is not set.

    Raises
    ------
    ClusterError
        One of its children.
    """
    connection = Connection(config)
    found = connection.result(
        connection.admin.describe_cluster(request_timeout=connection.within), "the cluster"
    )
    requested = datetime.now(UTC)
    rows = [
        {
            "broker_id": node.id,
            "host": node.host,
            "port": node.port,
            "rack": node.rack or None,
            "as_of": requested,
        }
        for node in sorted(found.nodes, key=lambda node: int(node.id))
    ]
    return pa.Table.from_pylist(rows, schema=schemas.NODES)


def _id(node: Any) -> int | None:
    """Return the id of a broker; None where there is none, which Kafka calls -1."""
    return None if node is None or node.id < 0 else int(node.id)
