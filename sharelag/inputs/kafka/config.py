"""Client settings: Java-style properties, as for Kafka's own commands, for librdkafka.

Values may refer to environment variables and files: ``${env:KAFKA_PASSWORD}``, by the rules of
Kafka's ``ConfigTransformer`` and the three providers of its clients. They keep a reference without
a value as text; here it is an error, because it would be sent to brokers as a password.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from sharelag.errors import ConfigError, list_names
from sharelag.inputs.kafka.java_settings import as_written, to_librdkafka
from sharelag.inputs.texts import read_text, text_of
from sharelag.tables.words import pluralize

_LIST = "config.providers"
#: A provider, an optional path, and a name: not nested, not resolved again.
_REFERENCE = re.compile(r"\$\{([^}:]*):(?:([^}:]*):)?([^}]*)\}")
#: Maximum size of a file with secrets in bytes.
_MOST_BYTES = 1 << 20

_Parameters = Mapping[str, str]
_Lookup = Callable[[str, str, _Parameters], str | None]


def resolve(properties: Mapping[str, str]) -> dict[str, str]:
    """Replace references to config providers in Java client properties.

    ``config.providers`` and its settings are removed; references to other providers are kept. A
    provider that is not Kafka's own, or lacks the value, is a ConfigError. No message contains a
    value.
    """
    names = [name.strip() for name in properties.get(_LIST, "").split(",") if name.strip()]
    providers = {name: _provider(name, properties) for name in names}
    return {
        setting: _REFERENCE.sub(partial(_value_of, setting, providers), value)
        for setting, value in properties.items()
        if setting != _LIST and not setting.startswith(f"{_LIST}.")
    }


def _provider(name: str, properties: Mapping[str, str]) -> tuple[_Lookup, _Parameters]:
    of_it = f"{_LIST}.{name}."
    class_name = properties.get(f"{of_it}class", "").strip()
    if class_name not in _PROVIDERS:
        problem = f"is {class_name}, which only Java can load" if class_name else "is not set"
        raise ConfigError(f"{of_it}class {problem}: use one of {', '.join(sorted(_PROVIDERS))}")
    param = f"{of_it}param."
    given = {key.removeprefix(param): value for key, value in properties.items()}
    return _PROVIDERS[class_name], given


def _value_of(
    setting: str, providers: Mapping[str, tuple[_Lookup, _Parameters]], found: re.Match[str]
) -> str:
    if found[1] not in providers:
        return found[0]
    lookup, parameters = providers[found[1]]
    try:
        text = lookup(found[2] or "", found[3], parameters)
    except ConfigError as error:
        raise ConfigError(f"{found[0]} of {setting} cannot be read: {error}") from None
    if text is None:
        raise ConfigError(f"{found[0]} of {setting} has no value: check its spelling")
    return text


def _of_environment(path: str, key: str, parameters: _Parameters) -> str | None:
    if path:
        raise ConfigError("a variable of the environment has no path: write ${env:NAME}")
    pattern = parameters.get("allowlist.pattern", "").strip()
    try:
        is_allowed = not pattern or re.fullmatch(pattern, key) is not None
    except re.error as error:
        raise ConfigError(f"allowlist.pattern is not a pattern ({error})") from None
    if not is_allowed:
        raise ConfigError("allowlist.pattern does not allow this name")
    return os.environ.get(key)


def _of_file(path: str, key: str, parameters: _Parameters) -> str | None:
    import javaproperties

    text = _text(path, parameters)
    try:
        return dict(javaproperties.loads(text)).get(key)
    except javaproperties.InvalidUEscapeError:
        raise ConfigError(f"{path} is not a Java properties file") from None


def _of_folder(path: str, key: str, parameters: _Parameters) -> str | None:
    # Kafka lists the folder's files, so a name with a path does not match any.
    if not key or key != Path(key).name or not (Path(path) / key).is_file():
        _require_allowed(path, parameters)
        return None
    return _text(str(Path(path) / key), parameters)


def _text(path: str, parameters: _Parameters) -> str:
    place = _require_allowed(path, parameters)
    try:
        with place.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ConfigError(f"{path} is larger than {_MOST_BYTES >> 20} MiB")
        return text_of(content)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except ValueError:
        raise ConfigError(f"{path} is not text in UTF-8") from None


def _require_allowed(path: str, parameters: _Parameters) -> Path:
    """Return a path that a provider may read: any path without ``allowed.paths``."""
    place = Path(os.path.normpath(path))
    given = [each.strip() for each in parameters.get("allowed.paths", "").split(",")]
    allowed = [Path(os.path.normpath(each)) for each in given if each]
    if allowed and not any(place.is_relative_to(each) for each in allowed):
        raise ConfigError(f"allowed.paths does not allow {path}")
    return place


_PROVIDERS: dict[str, _Lookup] = {
    f"org.apache.kafka.common.config.provider.{name}ConfigProvider": lookup
    for name, lookup in (("EnvVar", _of_environment), ("File", _of_file), ("Directory", _of_folder))
}


#: Minimum seconds for a request: healthy brokers answer within it.
LEAST = 0.25
#: Seconds for all requests after the timeout is used up: TLS and login to a healthy broker may take
#: longer than `LEAST`.
GRACE = 0.75
#: Minimum seconds for a client that reads records: each is new, and first connects to all leaders.
READING = 1.5


@dataclass
class Patience:
    """The time lost on unanswered requests, over all requests with a client's settings.

    A command sends many requests to the same brokers. If each waited for the whole timeout, a
    silent broker would cost a multiple of it. So time spent on unanswered requests is deducted from
    that of later ones. Answered requests cost nothing, however long they take, unless time was lost
    before: then brokers have problems, and late answers, such as those after a change of leaders,
    would add up.

    ``timeout`` is the maximum time to lose in seconds, plus `GRACE`; it is restored when no time
    was lost for that long.
    """

    timeout: float
    clock: Callable[[], float] = time.monotonic
    #: The last client that a broker answered; see `known`.
    answered_client: Any = field(default=None, init=False, repr=False)
    _lost: float = field(default=0.0, init=False)
    _last: float = field(default=0.0, init=False)

    def left(self) -> float:
        """Return the seconds that the next request may wait."""
        if self._lost and self.clock() - self._last > self.timeout:
            self._lost = 0.0
        return max(min(self.timeout, self.timeout + GRACE - self._lost), LEAST)

    def lose(self, seconds: float) -> None:
        """Record the time spent on a request that was not answered."""
        self.left()  # forget time that was lost long ago
        self._lost += seconds
        self._last = self.clock()

    def note_answer(self, seconds: float) -> None:
        """Record an answer that took some seconds."""
        if seconds > LEAST and self.left() < self.timeout:
            self.lose(seconds)

    @property
    def known(self) -> Any:
        """The client with connections to brokers that answer; None while no time is lost.

        A new client may not manage to log in within a short remaining time.
        """
        return None if self.left() == self.timeout else self.answered_client

    def __reduce__(self) -> tuple[Any, ...]:
        return Patience, (self.timeout,)  # clients cannot leave their process


_LOG = logging.getLogger(__name__)
#: Settings that are safe to print; all others are masked, so that unknown secrets do not leak.
_PUBLIC = {
    *("bootstrap.servers", "client.id", "client.rack", "sasl.mechanism"),
    *("sasl.oauthbearer.method", "security.protocol"),
    "ssl.endpoint.identification.algorithm",
}
#: Prefixes of Java settings that determine how to connect to brokers.
_CONNECTING = ("client.", "security.", "sasl.", "ssl.")
MASK = "********"
#: Pattern of setting names; any other text may be the rest of a broken line.
_NAME = re.compile(r"[a-z_]+|[a-z0-9_]+([.-][a-z0-9_-]+)+")
_BROKEN = "part of a password, on a line that is broken in two"
_ADDRESS = re.compile(r"\s*(?:\w+://)?(?:\[[0-9a-fA-F:]+\]|[^:\s\[\]]+):([0-9]{1,5})\s*")
_UNKNOWN = re.compile('No such configuration property: "(.+)"')
#: Java's request timeout, which librdkafka does not have.
_TIMEOUT = "default.api.timeout.ms"


@dataclass(frozen=True)
class ClientConfig:
    """Settings of our Kafka client; its repr shows no secrets."""

    settings: Mapping[str, Any] = field(repr=False)  # by librdkafka's names
    timeout: float = 10.0  # seconds to wait for brokers
    #: The file that they were read from, for the commands of Kafka that we print.
    command_config: Path | None = field(default=None, compare=False)
    #: Settings by Java names, for Spark's Kafka source; empty if only librdkafka's are known.
    java: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def patience(self) -> Patience:
        """The remaining time for requests, and the client that was answered last."""
        return Patience(self.timeout)

    def renew(self) -> ClientConfig:
        """Return the same settings with the whole timeout, for a new step of a long run."""
        return replace(self)

    def public(self) -> dict[str, Any]:
        """Return the settings for captures and messages, with possible secrets masked."""
        return {name: value if name in _PUBLIC else MASK for name, value in self.settings.items()}

    @property
    def is_public(self) -> bool:
        """Whether no setting can be a secret."""
        return self.settings.keys() <= _PUBLIC

    def spark_options(self) -> dict[str, str]:
        """Return the settings, with secrets, as options for `from_spark_options`."""
        options = {f"kafka.{name}": str(value) for name, value in self.settings.items()}
        return options | {f"kafka.{_TIMEOUT}": str(int(self.timeout * 1000))}

    def connector_options(self) -> dict[str, str]:
        """Return the connection settings, with secrets, as options of Spark's Kafka source."""
        found = {name: text for name, text in self.java.items() if name.startswith(_CONNECTING)}
        found |= {"bootstrap.servers": self.bootstrap_servers, "allow.auto.create.topics": "false"}
        return {f"kafka.{name}": text for name, text in found.items()}

    @property
    def bootstrap_servers(self) -> str:
        """The bootstrap addresses."""
        return str(self.settings["bootstrap.servers"])

    def __repr__(self) -> str:
        return f"ClientConfig({self.public()}, timeout={self.timeout})"


def client_config(
    bootstrap_servers: str | None = None,
    command_config: str | Path | None = None,
    command_properties: Mapping[str, str] | None = None,
    timeout: float = 10.0,
) -> ClientConfig:
    """Collect the client's settings.

    Parameters
    ----------
    bootstrap_servers : str, optional
        ``host:port[,...]``; overrides the file, which overrides ``$KAFKA_BOOTSTRAP_SERVERS``.
    command_config : str or pathlib.Path, optional
        A Java properties file, as Kafka's commands take it: SASL PLAIN, SCRAM or OAUTHBEARER, SSL
        with PEM, and values by ``config.providers``.
    command_properties : mapping, optional
        Single properties; they override the file.
    timeout : float
        Seconds to wait for brokers.

    Raises
    ------
    ConfigError
        When the file cannot be read, a setting has a wrong value, or decides how to connect in a
        form that our client cannot use (JKS); the message says what to write instead. Settings that
        no Kafka client knows are ignored with a warning, as Kafka's commands do.
    """
    file = Path(command_config) if command_config else None
    properties = read_properties(file) if file else {}
    properties = resolve(properties | dict(command_properties or {}))
    named_otherwise = properties.pop("metadata.broker.list", None)  # librdkafka's alias
    servers = (
        bootstrap_servers
        or properties.get("bootstrap.servers")
        or named_otherwise
        or os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    )
    if not servers:
        raise ConfigError("no cluster given: use --bootstrap-server HOST:PORT")
    for address in servers.split(","):
        found = _ADDRESS.fullmatch(address)
        if not found or not 0 < int(found[1]) < 1 << 16:
            raise ConfigError(
                f"invalid broker address {address!r}: give HOST:PORT, such as localhost:9092"
            )
    named = {name: value for name, value in properties.items() if _NAME.fullmatch(name)}
    for name, value in named.items():
        if re.search("[\0\ud800-\udfff]", value):  # would crash librdkafka's C code
            raise ConfigError(
                rf"{name} has a character that is not text: remove \u0000 and \uD800 to \uDFFF"
            )
    odd = len(properties) - len(named)
    try:
        settings, unknown = _known({"client.id": "sharelag"} | to_librdkafka(named))
    except ConfigError as error:
        message = as_written(str(error), named)
        raise ConfigError(f"{message}; look for {_BROKEN}" if odd else message) from None
    _note_ignored([as_written(name, named) for name in unknown], odd)
    java = properties | {"bootstrap.servers": servers}
    return ClientConfig(settings | {"bootstrap.servers": servers}, timeout, file, java)


def from_spark_options(options: Mapping[str, str]) -> ClientConfig:
    """Return the settings among the options of a Spark source: those starting with ``kafka.``."""
    properties = {
        name[6:]: value for name, value in options.items() if name.lower().startswith("kafka.")
    }
    if properties.get("isolation.level", "read_uncommitted") != "read_uncommitted":
        raise ConfigError(
            "kafka.isolation.level is always read_uncommitted here: remove the option"
        )
    timeout = properties.get(_TIMEOUT, "30000")
    if not timeout.isdecimal() or len(timeout) > 15:
        raise ConfigError(f"kafka.{_TIMEOUT} is {timeout!r}: give milliseconds, such as 30000")
    return client_config(None, None, properties, int(timeout) / 1000)


def read_properties(path: Path) -> dict[str, str]:
    """Read Java properties, in ISO 8859-1 unless the file shows another encoding."""
    import javaproperties

    try:
        return dict(javaproperties.loads(read_text(path, otherwise="iso-8859-1")))
    except OSError as error:
        raise ConfigError(f"cannot read the client properties {path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not a Java properties file: {error}") from error


def _known(settings: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the settings that librdkafka accepts, and the names of unknown ones."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    known, unknown = dict(settings), list[str]()
    while True:
        # Without address and credentials: this opens TLS files, but fetches no token.
        left_out = ("sasl.mechanism", "bootstrap.servers")
        requested = {name: value for name, value in known.items() if name not in left_out}
        if protocol := requested.get("security.protocol"):
            requested["security.protocol"] = protocol.removeprefix("SASL_")
        try:
            AdminClient(requested | {"log_level": 0})
            return known, unknown
        except KafkaException as error:
            why = re.sub(r"^Failed to create [a-z ]+: ", "", error.args[0].str().strip())
        if (found := _UNKNOWN.fullmatch(why)) and found[1] in known:
            unknown.append(found[1])
            del known[found[1]]
            continue
        # The value may be a password in the wrong line.
        why = re.sub('^Invalid value ".*" for', "Invalid value for", why, flags=re.DOTALL)
        why = why.replace("configuration property", "client setting")
        raise ConfigError(f"{why}: check its spelling and value in --command-config, or remove it")


def _note_ignored(unknown: Sequence[str], hidden: int) -> None:
    """Warn about ignored settings, without text that may be part of a password."""
    shown = sorted(name for name in unknown if "." in name)
    hidden += len(unknown) - len(shown)
    parts = [list_names(shown)] if shown else []
    if hidden:
        parts.append(f"{pluralize(hidden, 'line')} not shown here, which may be {_BROKEN}")
    if parts:
        _LOG.warning(
            "client settings that no Kafka client knows are ignored, as Kafka's commands do: %s",
            " and ".join(parts),
        )
