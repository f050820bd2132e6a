"""Which Kafka is this, and are share groups on? Asked with one ApiVersions request.

Our client library keeps that answer to itself, so the request is sent by hand: it is the one request that a
broker answers before anybody has authenticated.
"""

from __future__ import annotations

import socket
import ssl
import struct
from dataclasses import dataclass

from sharelag.errors import BrokerUnreachableError, ClusterError
from sharelag.sources.config import ClientConfig
from sharelag.wire.encode import unsigned_varint

_API_VERSIONS = 18
_VERSION = 3
_CORRELATION = 1
_UNSUPPORTED_VERSION = 35
#: Keys of the requests that tell what share groups can do (KIP-932, KIP-1226).
WRITE_SHARE_GROUP_STATE = 85
_FINALIZED = 2  # tag of the features that the cluster runs


@dataclass(frozen=True)
class Features:
    """What a broker says about itself."""

    apis: dict[int, int]  # request key: highest version
    finalized: dict[str, int]  # feature: level the cluster runs

    @property
    def share_version(self) -> int:
        """Level of the feature ``share.version``; 0 where share groups are off."""
        return self.finalized.get("share.version", 0)

    @property
    def has_share_state(self) -> bool:
        """Whether brokers write ``__share_group_state`` at all (4.0 and later)."""
        return WRITE_SHARE_GROUP_STATE in self.apis

    @property
    def has_complete_count(self) -> bool:
        """Whether brokers write the delivery complete count, without which Kafka knows no lag (4.2 and later)."""
        return self.apis.get(WRITE_SHARE_GROUP_STATE, -1) >= 1


def broker_features(config: ClientConfig) -> Features:
    """Ask the first bootstrap server that answers.

    Raises
    ------
    ClusterError
        When none answers, or not in Kafka's language.
    """
    failures = []
    for address in config.bootstrap_servers.split(","):
        host, _, port = address.rpartition("://")[2].strip().rpartition(":")
        try:
            with _connect(config, host.strip("[]"), int(port)) as connection:
                connection.sendall(_request())
                return _parse(_response(connection))
        except OSError as error:
            failures.append(f"{address}: {error}")
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise ClusterError(f"{address} does not answer as a Kafka broker: check host and port") from error
    raise BrokerUnreachableError(f"no broker answers ({'; '.join(failures)}): check the addresses")


def _connect(config: ClientConfig, host: str, port: int) -> socket.socket:
    plain = socket.create_connection((host, port), timeout=config.timeout)
    settings = config.librdkafka()
    if "SSL" not in str(settings.get("security.protocol", "PLAINTEXT")).split("_"):
        return plain
    context = ssl.create_default_context(cafile=settings.get("ssl.ca.location"), cadata=settings.get("ssl.ca.pem"))
    if settings.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    if certificate := settings.get("ssl.certificate.location"):
        context.load_cert_chain(certificate, settings.get("ssl.key.location"), settings.get("ssl.key.password"))
    return context.wrap_socket(plain, server_hostname=host)


def _request() -> bytes:
    client = b"sharelag"
    header = struct.pack(">hhih", _API_VERSIONS, _VERSION, _CORRELATION, len(client)) + client + b"\0"
    body = header + unsigned_varint(len(client) + 1) + client + unsigned_varint(2) + b"0" + b"\0"
    return struct.pack(">i", len(body)) + body


def _response(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    return _exactly(connection, size)


def _exactly(connection: socket.socket, size: int) -> bytes:
    if not 0 <= size <= 1 << 20:
        raise IndexError(f"a response of {size} bytes")
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionResetError("the broker closed the connection")
        data += piece
    return data


def _parse(response: bytes) -> Features:
    reader = _Reader(response)
    reader.number(4)  # correlation
    if reader.number(2) == _UNSUPPORTED_VERSION:
        raise ClusterError("the broker is older than Kafka 2.4, and share groups came with 4.0: update the cluster")
    apis = {}
    for _ in range(reader.varint() - 1):
        key, _lowest, highest = reader.number(2), reader.number(2), reader.number(2)
        apis[key] = highest
        reader.tags()
    reader.number(4)  # throttle time
    # Features that a broker could run are tagged, too; before version 4 they leave out those with a level 0.
    return Features(apis, _levels(reader.tags().get(_FINALIZED, b"\1")))


def _levels(data: bytes) -> dict[str, int]:
    reader = _Reader(data)
    levels = {}
    for _ in range(reader.varint() - 1):
        name = reader.take(reader.varint() - 1).decode()
        levels[name], _lowest = reader.number(2), reader.number(2)
        reader.tags()
    return levels


class _Reader:
    """A position in a response."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise IndexError("the response is too short")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big", signed=True)

    def varint(self) -> int:
        value = shift = 0
        while (byte := self.take(1)[0]) > 127:
            value |= (byte & 127) << shift
            shift += 7
        return value | byte << shift

    def tags(self) -> dict[int, bytes]:
        return {self.varint(): self.take(self.varint()) for _ in range(self.varint())}
