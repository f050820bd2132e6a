"""How do we connect? Java-style client properties, as for Kafka's own commands, in our client's terms."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import javaproperties

from sharelag.errors import ConfigError

#: Settings whose values never leave this process.
_SECRET = re.compile(r"password|secret|jaas|token(?!\.endpoint)|\.key$|key\.pem|credential", re.IGNORECASE)
_MASK = "********"

#: Java's names that librdkafka knows by another name, or with another form of value.
_RENAMED = {
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "sasl.oauthbearer.token.endpoint.url": "sasl.oauthbearer.token.endpoint.url",
    "request.timeout.ms": "socket.timeout.ms",
    "connections.max.idle.ms": "connections.max.idle.ms",
}
#: Taken as they are.
_SAME = frozenset(
    [
        "bootstrap.servers",
        "client.id",
        "security.protocol",
        "sasl.mechanism",
        "sasl.kerberos.service.name",
        "metadata.max.age.ms",
        "reconnect.backoff.ms",
        "reconnect.backoff.max.ms",
        "retry.backoff.ms",
        "retry.backoff.max.ms",
        "ssl.key.password",
        "client.rack",
        "client.dns.lookup",
        "ssl.cipher.suites",
        "check.crcs",
        "fetch.min.bytes",
        "fetch.max.bytes",
        "isolation.level",
        "socket.connection.setup.timeout.ms",
    ]
)
#: Meaningful to a Java client only; commonly found in the files that people have.
_IGNORED = re.compile(
    r"(key|value)\.(de)?serializer$|interceptor\.classes|metric(s|\.)|group\.(id|protocol|instance)|"
    r"(enable\.)?auto\.(commit|offset)|max\.(poll|partition)|sasl\.client\.callback|sasl\.login\.(?!callback)|"
    r"ssl\.(provider|protocol|enabled\.protocols|secure\.random|trustmanager|engine)|default\.api\.timeout|"
    r"(send|receive)\.buffer|(acks|retries|linger\.ms|batch\.size|compression\.type|buffer\.memory)$|"
    r"enable\.(idempotence|metrics\.push)|heartbeat\.interval|session\.timeout|partition\.assignment|share\.|"
    r"sasl\.kerberos\.(kinit|min|ticket)|fetch\.max\.wait|sasl\.oauthbearer\.(jwks|clock|expected|header|jwt|scope|sub)"
)
#: librdkafka's own names pass through; nothing else begins like these.
_NATIVE = re.compile(
    r"sasl\.(mechanisms|username|password|oauthbearer\.(config|method|client\.id|client\.secret|scope|extensions|"
    r"token\.endpoint\.url))$|ssl\.(ca|key|certificate|crl|keystore)\.(location|pem|password)$|"
    r"enable\.ssl\.certificate\.verification$|socket\.|broker\.|log_level$|debug$|metadata\.broker\.list$|statistics\."
)
_STORE_NAMES = ("ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.password")
_KEYSTORE_NAMES = ("ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.password")


@dataclass(frozen=True)
class ClientConfig:
    """Settings of our Kafka client; printing one shows no secret."""

    settings: Mapping[str, Any] = field(repr=False)  # in librdkafka's names
    timeout: float = 10.0  # seconds to wait for brokers

    def librdkafka(self) -> dict[str, Any]:
        """The settings with their secrets, for the client and nobody else."""
        return dict(self.settings)

    def public(self) -> dict[str, Any]:
        """The settings with every secret masked, for captures and messages."""
        return {name: _MASK if _SECRET.search(name) else value for name, value in self.settings.items()}

    @property
    def bootstrap_servers(self) -> str:
        """The addresses that were given."""
        return str(self.settings["bootstrap.servers"])

    def __repr__(self) -> str:
        return f"ClientConfig({self.public()}, timeout={self.timeout})"


def client_config(
    bootstrap_servers: str | None = None,
    command_config: Path | None = None,
    command_properties: Mapping[str, str] | None = None,
    timeout: float = 10.0,
) -> ClientConfig:
    """Gather the client's settings.

    Parameters
    ----------
    bootstrap_servers : str, optional
        ``host:port[,...]``; wins over the file, which wins over ``$KAFKA_BOOTSTRAP_SERVERS``.
    command_config : pathlib.Path, optional
        A Java properties file, as Kafka's commands take it: SASL PLAIN, SCRAM or OAUTHBEARER, SSL with PEM.
    command_properties : mapping, optional
        Single properties; they win over the file.
    timeout : float
        Seconds to wait for brokers.

    Raises
    ------
    ConfigError
        When the file cannot be read, a setting is unknown, or in a form our client cannot use (JKS); the
        message says how to put it.
    """
    properties = _read(command_config) if command_config else {}
    properties |= dict(command_properties or {})
    servers = bootstrap_servers or properties.get("bootstrap.servers") or os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if not servers:
        raise ConfigError("no cluster is named: give --bootstrap-server HOST:PORT")
    for address in servers.split(","):
        if not re.fullmatch(r"\s*(\w+://)?(\[[0-9a-fA-F:]+\]|[^:\s\[\]]+):\d+\s*", address):
            raise ConfigError(f"{address!r} is no broker address: give HOST:PORT, such as localhost:9092")
    return ClientConfig(_translate(properties) | {"bootstrap.servers": servers}, timeout)


def from_spark_options(options: Mapping[str, str], timeout: float = 30.0) -> ClientConfig:
    """The settings among the options of a Spark source: those that begin with ``kafka.``."""
    properties = {name[6:]: value for name, value in options.items() if name.lower().startswith("kafka.")}
    return client_config(None, None, properties, timeout)


def _read(path: Path) -> dict[str, str]:
    try:
        with path.open("rb") as file:
            return dict(javaproperties.load(file))
    except OSError as error:
        raise ConfigError(f"cannot read the client properties {path}: {error.strerror}") from error
    except javaproperties.InvalidUEscapeError as error:
        raise ConfigError(f"{path} is no Java properties file: {error}") from error


def _translate(properties: Mapping[str, str]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for name, value in properties.items():
        if name in _SAME or _NATIVE.match(name):
            settings[name] = value
        elif name in _RENAMED:
            settings[_RENAMED[name]] = value
        elif name in _SPECIAL or name in _STORE_NAMES or name in _KEYSTORE_NAMES:
            continue
        elif not _IGNORED.match(name):
            raise ConfigError(f"the client setting {name!r} is unknown: check its spelling, or leave it out")
    for name, translate in _SPECIAL.items():
        if properties.get(name) is not None:
            settings |= translate(properties[name], properties)
    settings |= _truststore(properties) | _keystore(properties)
    for name in ("security.protocol", "sasl.mechanism"):
        if name in settings:
            settings[name] = settings[name].strip().upper()
    return settings


def _jaas(text: str, properties: Mapping[str, str]) -> dict[str, Any]:
    options = {name: (quoted or bare).replace('\\"', '"') for name, quoted, bare in re.findall(
        r'([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))', text
    )}  # fmt: skip
    mechanism = properties.get("sasl.mechanism", "").upper()
    if mechanism == "OAUTHBEARER":
        names = {"clientId": "client.id", "clientSecret": "client.secret", "scope": "scope"}
        found = {f"sasl.oauthbearer.{names[n]}": value for n, value in options.items() if n in names}
        return {"sasl.oauthbearer.method": "oidc", **found}
    if "username" not in options or "password" not in options:
        raise ConfigError(
            "sasl.jaas.config has no username and password: expected "
            'org.apache.kafka.common.security.plain.PlainLoginModule required username="..." password="...";'
        )
    return {"sasl.username": options["username"], "sasl.password": options["password"]}


def _endpoint_check(value: str, _: Mapping[str, str]) -> dict[str, Any]:
    return {"ssl.endpoint.identification.algorithm": value.strip().lower() or "none"}


_SPECIAL: dict[str, Callable[[str, Mapping[str, str]], dict[str, Any]]] = {
    "sasl.jaas.config": _jaas,
    "ssl.endpoint.identification.algorithm": _endpoint_check,
}


def _truststore(properties: Mapping[str, str]) -> dict[str, Any]:
    location = properties.get("ssl.truststore.location")
    if not location:
        return {}
    kind = _store_type(properties.get("ssl.truststore.type"), location)
    if kind == "PEM":
        return {"ssl.ca.location": location}
    pem = str(Path(location).with_suffix(".pem"))
    raise ConfigError(
        f"the truststore {location} is {kind}, which our client does not read; convert it once: keytool -list -rfc "
        f"-keystore {location} > {pem}, then set ssl.truststore.type=PEM and ssl.truststore.location={pem}"
    )


def _keystore(properties: Mapping[str, str]) -> dict[str, Any]:
    location = properties.get("ssl.keystore.location")
    if not location:
        return {}
    kind = _store_type(properties.get("ssl.keystore.type"), location)
    if kind == "PEM":
        # Kafka's PEM keystores hold the certificate chain and the key in one file.
        return {"ssl.certificate.location": location, "ssl.key.location": location}
    if kind == "PKCS12":
        return {
            "ssl.keystore.location": location,
            "ssl.keystore.password": properties.get("ssl.keystore.password", ""),
        }
    p12 = str(Path(location).with_suffix(".p12"))
    raise ConfigError(
        f"the keystore {location} is {kind}, which our client does not read; convert it once: keytool "
        f"-importkeystore -srckeystore {location} -destkeystore {p12} -deststoretype PKCS12, then set "
        f"ssl.keystore.type=PKCS12 and ssl.keystore.location={p12}"
    )


def _store_type(given: str | None, location: str) -> str:
    """Java takes JKS for granted; the file's name often says better."""
    if given:
        return given.strip().upper()
    return {".pem": "PEM", ".crt": "PEM", ".p12": "PKCS12", ".pfx": "PKCS12"}.get(Path(location).suffix.lower(), "JKS")
