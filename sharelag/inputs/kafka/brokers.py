"""Brokers: which are there, which lead which topic partition, and what they support."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BytesIO
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
from sharelag.wire.encode import read_varint, unsigned_varint


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
# authentication, so a socket is enough. Of kafka-python, importing the message alone takes longer
# than a short command's question (0.2 s of a processor).


_API_VERSIONS, _VERSION = 18, 3
_UNSUPPORTED_VERSION = 35
#: Tags of the response's sections.
_SUPPORTED, _FINALIZED = 0, 2
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
                connection.sendall(_request())
                return _parse(_response(connection))
        except OSError as error:
            config.patience.lose(time.monotonic() - begun)
            failures.append(f"{address}: {error}")
        except (struct.error, ValueError) as error:
            raise ClusterError(
                f"{address} does not answer as a Kafka broker: check host and port"
            ) from error
    raise BrokerUnreachableError(f"no broker answered ({'; '.join(failures)}): check the addresses")


def _request() -> bytes:
    """Return an ApiVersionsRequest with its header (``RequestHeader`` of version 2)."""
    name, tool = b"sharelag", __version__.encode()
    header = struct.pack(">hhih", _API_VERSIONS, _VERSION, 1, len(name)) + name + b"\0"
    body = b"".join(unsigned_varint(len(text) + 1) + text for text in (name, tool)) + b"\0"
    return struct.pack(">i", len(header + body)) + header + body


def _response(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    return _exactly(connection, size)


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


def _parse(response: bytes) -> Features:
    """Read an ApiVersionsResponse (KIP-511, and KIP-584 for the features).

    Raises ValueError or struct.error where it is anything else.
    """
    said = BytesIO(response)
    _, error = _numbers(said, ">ih")  # after the correlation id
    if error == _UNSUPPORTED_VERSION:
        raise ClusterError(
            "the broker is older than Kafka 2.4; share groups need 4.0: upgrade the cluster"
        )
    if error:
        raise ValueError(f"error {error}")
    apis = {}
    for _ in range(_count(said)):
        key, _, most = _numbers(said, ">hhh")
        apis[key] = most
        _skip_tags(said)
    _numbers(said, ">i")  # throttle time
    supported: dict[str, int] = {}
    finalized: dict[str, int] = {}
    for _ in range(_varint(said)):
        tag, size = _varint(said), _varint(said)
        if tag == _SUPPORTED:
            supported = {name: most for name, _, most in _features(said)}
        elif tag == _FINALIZED:
            finalized = {name: most for name, most, _ in _features(said)}
        else:
            said.read(size)
    return Features(apis, finalized, supported)


def _features(said: BytesIO) -> list[tuple[str, int, int]]:
    found = []
    for _ in range(_count(said)):
        name = said.read(_count(said)).decode()
        found.append((name, *_numbers(said, ">hh")))
        _skip_tags(said)
    return found


def _numbers(said: BytesIO, layout: str) -> tuple[Any, ...]:
    return struct.unpack(layout, said.read(struct.calcsize(layout)))


def _count(said: BytesIO) -> int:
    """Read the length of a compact text or array."""
    if not (more := _varint(said)):
        raise ValueError("a text or an array is null")
    return more - 1


def _varint(said: BytesIO) -> int:
    number, end = read_varint(said.getvalue(), said.tell())
    said.seek(end)
    return number


def _skip_tags(said: BytesIO) -> None:
    for _ in range(_varint(said)):
        _varint(said)
        said.read(_varint(said))
