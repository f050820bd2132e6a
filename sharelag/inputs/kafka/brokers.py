"""Brokers: which are there, which lead which topic partition, and what they support."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from sharelag import schemas
from sharelag.errors import (
    AuthorizationError,
    BrokerUnreachableError,
    ClusterError,
    TopicMissingError,
)
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.client import Connection
from sharelag.inputs.kafka.config import ClientConfig
from sharelag.inputs.kafka.failures import connect, host_and_port
from sharelag.model.versions import release_of
from sharelag.version import __version__


def leaders(config: ClientConfig, topics: Iterable[str]) -> pa.Table:
    """Return `sharelag.schemas.LEADERS`, one row per partition of topics, by metadata.

    Topics that are missing, or that may not be described, have no rows.
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
    """Return `sharelag.schemas.NODES`: the brokers in the cluster by metadata, sorted by id.

    The rack is null where ``broker.rack`` is not set.
    """
    found = Connection(config).describe_cluster()
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
    return None if node is None or node.id < 0 else int(node.id)


# ---- what a broker supports ---------------------------------------------------------------------
# librdkafka does not expose that response. It is the only request that a broker answers before
# authentication, so a socket is enough, and kafka-python for its bytes.


_VERSION, _UNSUPPORTED_VERSION = 3, 35
#: Keys of the requests that show what share groups support (KIP-932, KIP-1226).
WRITE_SHARE_GROUP_STATE = 85


@dataclass(frozen=True)
class Features:
    """The supported APIs and finalized features of a broker."""

    apis: dict[int, int]  # request key: highest version
    finalized: dict[str, int]  # feature: finalized level
    supported: dict[str, int] = field(default_factory=dict)  # feature: highest level

    @property
    def release(self) -> str | None:
        """The broker's release, such as ``4.3``, by what it supports; None where unknown."""
        return release_of(self.supported.get("metadata.version", 0))

    @property
    def share_version(self) -> int:
        """Level of the feature ``share.version``; 0 if share groups are disabled."""
        return self.finalized.get("share.version", 0)

    @property
    def has_share_state(self) -> bool:
        """Whether brokers write ``__share_group_state`` (4.0 and later)."""
        return WRITE_SHARE_GROUP_STATE in self.apis

    @property
    def has_complete_count(self) -> bool:
        """Whether brokers write the delivery complete count, needed for lag (4.2 and later)."""
        return self.apis.get(WRITE_SHARE_GROUP_STATE, -1) >= 1


def broker_features(config: ClientConfig) -> Features:
    """Ask the first bootstrap server that answers; ClusterError where none speaks Kafka."""
    failures = []
    for address in config.bootstrap_servers.split(","):
        begun = time.monotonic()
        try:
            left = config.patience.left()
            with connect(config, *host_and_port(address), left) as connection:
                return _ask(connection)
        except OSError as error:
            config.patience.lose(time.monotonic() - begun)
            failures.append(f"{address}: {error}")
        except (struct.error, ValueError, IndexError, TypeError) as error:
            raise ClusterError(
                f"{address} does not answer as a Kafka broker: check host and port"
            ) from error
    raise BrokerUnreachableError(f"no broker answered ({'; '.join(failures)}): check the addresses")


def _ask(connection: socket.socket) -> Features:
    """Ask for the supported versions (KIP-511, and KIP-584 for the features).

    It is a ValueError, IndexError, TypeError or struct.error where the answer is anything else.
    """
    # Only here: the import takes a tenth of a second, which most commands do without.
    from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

    request = ApiVersionsRequest[_VERSION](
        client_software_name="sharelag", client_software_version=__version__
    )
    request.with_header(correlation_id=1, client_id="sharelag")
    connection.sendall(request.encode(header=True, framed=True))
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    said = ApiVersionsResponse.decode(_exactly(connection, size), version=_VERSION, header=True)
    if said.error_code == _UNSUPPORTED_VERSION:
        raise ClusterError(
            "the broker is older than Kafka 2.4; share groups need 4.0: upgrade the cluster"
        )
    if said.error_code:
        raise ValueError(f"error {said.error_code}")
    return Features(
        {one.api_key: one.max_version for one in said.api_keys},
        {one.name: one.max_version_level for one in said.finalized_features},
        {one.name: one.max_version for one in said.supported_features},
    )


def _exactly(connection: socket.socket, size: int) -> bytes:
    if not 0 <= size <= 1 << 20:
        raise ValueError(f"a response of {size} bytes")
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionResetError("the broker closed the connection")
        data += piece
    return data
