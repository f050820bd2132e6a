"""The Kafka version, and whether share groups are on, from one ApiVersions request.

librdkafka does not expose that response. It is the only request that a broker answers before
authentication, so a socket and the message classes of kafka-python are enough.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, field

from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from sharelag.errors import BrokerUnreachableError, ClusterError
from sharelag.model.versions import release_of
from sharelag.sources.kafka.config import ClientConfig
from sharelag.sources.kafka.tls import connect, host_and_port
from sharelag.version import __version__

_VERSION = 3
_UNSUPPORTED_VERSION = 35
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
    """Ask the first bootstrap server that answers.

    Raises
    ------
    ClusterError
        When no broker answered, or the answer is not Kafka's protocol.
    """
    failures = []
    for address in config.bootstrap_servers.split(","):
        try:
            with connect(config, *host_and_port(address), config.timeout) as connection:
                connection.sendall(_request())
                return _parse(_response(connection))
        except OSError as error:
            failures.append(f"{address}: {error}")
        except (struct.error, IndexError, ValueError, TypeError) as error:
            raise ClusterError(
                f"{address} does not answer as a Kafka broker: check host and port"
            ) from error
    raise BrokerUnreachableError(f"no broker answered ({'; '.join(failures)}): check the addresses")


def _request() -> bytes:
    requested = ApiVersionsRequest(
        version=_VERSION, client_software_name="sharelag", client_software_version=__version__
    )
    requested.with_header(correlation_id=1, client_id="sharelag")
    return bytes(requested.encode(header=True, framed=True))


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
    said = ApiVersionsResponse.decode(response, version=_VERSION, header=True)
    if said.error_code == _UNSUPPORTED_VERSION:
        raise ClusterError(
            "the broker is older than Kafka 2.4; share groups need 4.0: upgrade the cluster"
        )
    if said.error_code or said.api_keys is None:
        raise ValueError(f"error {said.error_code}")
    return Features(
        {api.api_key: api.max_version for api in said.api_keys},
        {feature.name: feature.max_version_level for feature in said.finalized_features or []},
        {feature.name: feature.max_version for feature in said.supported_features or []},
    )
