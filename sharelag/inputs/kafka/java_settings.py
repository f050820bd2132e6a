"""Translate Java client settings, as in the properties files of Kafka's commands, to librdkafka's.

Names that this module neither translates nor ignores are passed to librdkafka, which checks them.
Settings that the security protocol does not use are ignored, because Java never reads them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from sharelag.errors import ConfigError

#: Java name -> librdkafka name, with the same meaning.
_RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.partition.fetch.bytes": "fetch.message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "sasl.oauthbearer.assertion.template.file": "sasl.oauthbearer.assertion.jwt.template.file",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}
#: Java settings from which settings that librdkafka checks are derived.
_SOURCES = {new: old for old, new in _RENAMED.items()} | {
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.certificate.location": "ssl.keystore.location",
    "ssl.key.location": "ssl.keystore.location",
}
#: Ignored: they configure a Java process, producing or group membership, and do not affect reading
#: uncommitted records from given offsets without a group.
_IGNORED = {
    *("acks", "allow.auto.create.topics", "auto.commit.interval.ms"),
    *("auto.include.jmx.reporter", "auto.offset.reset", "batch.size"),
    *("bootstrap.controllers", "bootstrap.resolve.timeout.ms", "buffer.memory"),
    *("buffer.memory.allocation.strategy", "default.api.timeout.ms", "delivery.timeout.ms"),
    *("enable.auto.commit", "enable.idempotence", "enable.metrics.push"),
    *("exclude.internal.topics", "group.id", "group.instance.id", "group.protocol"),
    *("group.remote.assignor", "heartbeat.interval.ms", "interceptor.classes"),
    *("isolation.level", "key.deserializer", "key.serializer", "linger.ms", "max.block.ms"),
    *("max.in.flight.requests.per.connection", "max.poll.interval.ms", "max.poll.records"),
    *("max.request.size", "metadata.cluster.check.enable", "metadata.max.idle.ms"),
    *("metadata.recovery.rebootstrap.trigger.ms", "metadata.recovery.strategy"),
    *("metric.reporters", "partition.assignment.strategy", "retries", "security.providers"),
    *("session.timeout.ms", "share.acknowledgement.mode", "share.acquire.mode"),
    *("socket.connection.setup.timeout.max.ms", "ssl.enabled.protocols"),
    *("ssl.keymanager.algorithm", "ssl.protocol", "ssl.provider"),
    *("ssl.secure.random.implementation", "ssl.trustmanager.algorithm", "value.deserializer"),
    "value.serializer",
}
_IGNORED_PREFIXES = (
    *("compression.", "internal.", "log4j.", "metrics.", "partitioner.", "transaction"),
    *("sasl.kerberos.", "sasl.login."),  # the mechanism itself is rejected
    # How a Java client validates its tokens; the broker validates them anyway.
    *("sasl.oauthbearer.allow.", "sasl.oauthbearer.clock.", "sasl.oauthbearer.expected."),
    *("sasl.oauthbearer.header.", "sasl.oauthbearer.jwks.", "sasl.oauthbearer.jwt."),
    *("sasl.oauthbearer.scope.claim.", "sasl.oauthbearer.sub.claim."),
)
#: Rejected, because ignoring them would change the meaning.
_REFUSED = {
    "sasl.client.callback.handler.class": (
        "use user name and password, or OAUTHBEARER with a token endpoint"
    ),
    "plugin.library.paths": "settings files cannot load libraries",
    "ssl.engine.factory.class": "use ssl.truststore.type=PEM and ssl.keystore.type=PEM or PKCS12",
}
#: Smallest and largest value in librdkafka where Java allows others, so that files for Kafka's
#: commands work here.
_LIMITS = {
    "connections.max.idle.ms": (0, 2**31 - 1),  # "never" is -1 in Java and 0 here
    "fetch.max.bytes": (1_000_000, 2**31 - 513),
    "metadata.max.age.ms": (1, 86_400_000),
    "retry.backoff.max.ms": (1, 300_000),
    "retry.backoff.ms": (1, 300_000),
    "socket.connection.setup.timeout.ms": (1_000, 2**31 - 1),
    "socket.receive.buffer.bytes": (0, 100_000_000),  # the system's is -1 in Java and 0 here
    "socket.send.buffer.bytes": (0, 100_000_000),
    "socket.timeout.ms": (10, 300_000),
}
#: Settings with significant leading and trailing blanks; Java trims every other value.
_VERBATIM = ("sasl.username", "sasl.password", "sasl.oauthbearer.client.secret")
#: Template files have these without a value, which is the same as omitting them.
_MAY_BE_EMPTY = ("sasl.jaas.config", "sasl.mechanism", "sasl.mechanisms", "security.protocol")
_BY_ASSERTION = "JwtBearerJwtRetriever"
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_JWT_RETRIEVERS = ("", "DefaultJwtRetriever", "ClientCredentialsJwtRetriever", _BY_ASSERTION)
_IDENTIFIES = "ssl.endpoint.identification.algorithm"
#: Settings that name files, by librdkafka's names.
_FILES = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.crl.location")
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_OWN_LOGIN_HANDLERS = (
    "OAuthBearerLoginCallbackHandler",
    "OAuthBearerUnsecuredLoginCallbackHandler",
)


def to_librdkafka(properties: Mapping[str, str]) -> dict[str, str]:
    """Translate client properties with Java's or librdkafka's names, or both, to librdkafka's.

    Settings that do not affect reading are left out. One that exists only in Java, or contradicts
    another, is a ConfigError. No message contains a secret.
    """
    left = {name: text if name in _VERBATIM else text.strip() for name, text in properties.items()}
    left = {name: value for name, value in left.items() if value or name not in _MAY_BE_EMPTY}
    protocol = left.get("security.protocol", "").upper()
    unused = [part for part in ("SASL", "SSL") if protocol in _PROTOCOLS and part not in protocol]
    left = {n: v for n, v in left.items() if n.partition(".")[0].upper() not in unused}
    _refuse(left)
    for name in _FILES:  # librdkafka's own message does not name a missing file
        if (path := left.get(name)) and not Path(path).exists():
            raise ConfigError(f"cannot read {name}={path}: no such file{_of_windows(path)}")
    done: dict[str, str] = {}
    for translate in (_sasl, _truststore, _keystore):
        done |= translate(left)  # each removes its settings from `left`
    if _IDENTIFIES in left:
        left[_IDENTIFIES] = left[_IDENTIFIES].lower() or "none"
    for name, value in left.items():
        if name not in _IGNORED and not name.startswith(_IGNORED_PREFIXES):
            done[_RENAMED.get(name, name)] = value
    for name, (low, high) in _LIMITS.items():
        if re.fullmatch(r"-?\d{1,19}", done.get(name, "")):
            done[name] = str(min(max(int(done[name]), low), high))
    return done


def as_written(text: str, properties: Mapping[str, str]) -> str:
    """Replace librdkafka's names in a text by those of the properties they come from."""
    names = {
        new: old for new, old in _SOURCES.items() if old in properties and new not in properties
    }
    return re.sub(r"[a-z0-9_]+(?:\.[a-z0-9_]+)+", lambda name: names.get(name[0], name[0]), text)


def _refuse(properties: Mapping[str, str]) -> None:
    for name, instead in _REFUSED.items():
        if properties.get(name):
            raise ConfigError(f"{name} cannot be used here: {instead}")
    handler = properties.get("sasl.login.callback.handler.class", "")
    if handler and not handler.endswith(_OWN_LOGIN_HANDLERS):
        raise ConfigError(
            "sasl.login.callback.handler.class names a class that only Java can load: use SCRAM, "
            "PLAIN, or OAUTHBEARER with sasl.oauthbearer.token.endpoint.url"
        )
    retriever = properties.get("sasl.oauthbearer.jwt.retriever.class", "").rpartition(".")[2]
    if retriever not in _JWT_RETRIEVERS:
        raise ConfigError(
            "sasl.oauthbearer.jwt.retriever.class names a class that only Java can load: tokens "
            "are fetched with client credentials or a JWT assertion from "
            "sasl.oauthbearer.token.endpoint.url"
        )


# ---- SASL ----------------------------------------------------------------------------------------


def _sasl(left: dict[str, str]) -> dict[str, str]:
    if "sasl.mechanisms" in left:  # librdkafka's alias
        left.setdefault("sasl.mechanism", left.pop("sasl.mechanisms"))
    for name in ("security.protocol", "sasl.mechanism"):
        if name in left:
            left[name] = left[name].upper()
    mechanism = left.get("sasl.mechanism", "")
    if left.get("security.protocol", "").startswith("SASL_") and not mechanism:
        raise ConfigError(
            "security.protocol requires SASL but sasl.mechanism is not set: set PLAIN, "
            "SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER, as the broker's listener does"
        )
    if mechanism == "GSSAPI":
        raise ConfigError(
            "sasl.mechanism=GSSAPI (Kerberos) is not built into this client: "
            "use SCRAM, PLAIN, OAUTHBEARER or TLS"
        )
    if mechanism and mechanism not in _MECHANISMS:
        raise ConfigError(
            f"unknown sasl.mechanism: use one of {', '.join(_MECHANISMS)}; check --command-config"
        )
    done = _login(mechanism, left.pop("sasl.jaas.config", ""))
    if mechanism == "OAUTHBEARER":
        if left.get("sasl.oauthbearer.method", "oidc").lower() == "default":
            return done  # librdkafka's own unsecured tokens, requested by name
        if "sasl.oauthbearer.token.endpoint.url" not in left:
            raise ConfigError(
                "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url to fetch tokens: add it"
            )
        done["sasl.oauthbearer.method"] = "oidc"
        retriever = left.get("sasl.oauthbearer.jwt.retriever.class", "").rpartition(".")[2]
        if retriever == _BY_ASSERTION:
            done["sasl.oauthbearer.grant.type"] = _JWT_BEARER
    return done


def _login(mechanism: str, jaas: str) -> dict[str, str]:
    if not jaas:
        return {}
    module, options = parse_jaas(jaas)
    if module == "OAuthBearerLoginModule":
        names = {"clientId": "client.id", "clientSecret": "client.secret", "scope": "scope"}
        done = {
            f"sasl.oauthbearer.{new}": options[old] for old, new in names.items() if old in options
        }
        named = [pair for pair in options.items() if pair[0].startswith("extension_")]
        if named:
            pairs = (f"{name.removeprefix('extension_')}={text}" for name, text in named)
            done["sasl.oauthbearer.extensions"] = ",".join(pairs)
        return done
    if module not in ("PlainLoginModule", "ScramLoginModule"):
        raise ConfigError(
            f"the login module {module} of sasl.jaas.config works only in Java clients: "
            "use SCRAM or PLAIN"
        )
    if (module == "PlainLoginModule") != (mechanism == "PLAIN"):
        raise ConfigError(
            f"sasl.jaas.config has a {module} but sasl.mechanism is {mechanism or 'not set'}: "
            "make them match"
        )
    if missing := [name for name in ("username", "password") if name not in options]:
        raise ConfigError(
            f'sasl.jaas.config has no {" and no ".join(missing)}: add {missing[0]}="..." to it'
        )
    return {"sasl.username": options["username"], "sasl.password": options["password"]}


# ---- TLS -----------------------------------------------------------------------------------------


def _truststore(left: dict[str, str]) -> dict[str, str]:
    location, kind = _store(left, "truststore")
    left.pop("ssl.truststore.password", None)  # PEM certificates are not secret
    if not location or kind == "PEM":
        return {"ssl.ca.location": location} if location else {}
    command = (
        "openssl pkcs12 -in {} -nokeys -out"
        if kind == "PKCS12"
        else "keytool -list -rfc -keystore {} >"
    )
    raise ConfigError(
        f"ssl.truststore.location is a {kind} store, which only Java reads: "
        f"convert it with `{command.format(shlex.quote(location))} truststore.pem`, then set "
        "ssl.truststore.location=truststore.pem and ssl.truststore.type=PEM"
    )


def _keystore(left: dict[str, str]) -> dict[str, str]:
    location, kind = _store(left, "keystore")
    if not location:
        return {}
    if kind == "PEM":
        # Java has the key and its certificates in one file; librdkafka needs it twice.
        left.pop("ssl.keystore.password", None)
        return {"ssl.key.location": location, "ssl.certificate.location": location}
    if kind == "PKCS12":
        return {"ssl.keystore.location": location}
    raise ConfigError(
        "ssl.keystore.location is a JKS store, which only Java reads: convert it with "
        f"`keytool -importkeystore -srckeystore {shlex.quote(location)} "
        "-destkeystore keystore.p12 -deststoretype PKCS12`, then set "
        "ssl.keystore.location=keystore.p12 and ssl.keystore.type=PKCS12"
    )


def _store(left: dict[str, str], which: str) -> tuple[str, str]:
    """Return the location of a store and its type by content, whatever ``ssl.*.type`` says."""
    location = left.pop(f"ssl.{which}.location", "")
    left.pop(f"ssl.{which}.type", None)
    if not location:
        return "", ""
    try:
        with Path(location).open("rb") as file:
            start = file.read(4)
    except OSError as error:
        raise ConfigError(
            f"cannot read ssl.{which}.location={location}: {error.strerror}{_of_windows(location)}"
        ) from error
    if start == b"\xfe\xed\xfe\xed":
        return location, "JKS"
    # Since Java 9 keytool writes PKCS12, often into files named .jks, and Java reads them.
    return location, "PKCS12" if start[:1] == b"\x30" else "PEM"


def _of_windows(location: str) -> str:
    """Return why a Windows path lacks its backslashes, if it does."""
    is_stripped = re.match(r"[A-Za-z]:[^\\/]", location)
    return r"; write C:/certs, or C:\\certs, in a properties file" if is_stripped else ""


# ---- sasl.jaas.config ---------------------------------------------------------------------------
# Source of the grammar: org.apache.kafka.common.security.JaasConfig, which uses Java's
# StreamTokenizer: LoginModuleClass controlFlag key=value key="value" ... ;


_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/          # blanks and comments
      | "(?P<double>(?:\\.|[^"\\])*)"
      | '(?P<single>(?:\\.|[^'\\])*)'
      | (?P<mark>[;=])
      | (?P<word>[^\s;="']+)
      | (?P<open>.)                    # a quotation mark that is not closed""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[0-7]{1,2}|.)", re.DOTALL)
_CONTROLS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_FLAGS = ("required", "requisite", "sufficient", "optional")


def parse_jaas(text: str) -> tuple[str, dict[str, str]]:
    """Parse a ``sasl.jaas.config``: its login module, without the package, and the options.

    Invalid text is a ConfigError; the message does not quote it, because it contains a password.
    """
    tokens = _tokens(text)
    marks = [token for token in tokens if token.is_mark]
    if len(tokens) < 3 or marks[-1:] != [tokens[-1]] or tokens[-1].text != ";":
        raise _unreadable("it must end with a ';'")
    if sum(mark.text == ";" for mark in marks) > 1:
        raise _unreadable("it must have exactly one login module")
    module, flag, *options = tokens[:-1]
    if module.is_mark or flag.text.lower() not in _FLAGS:
        raise _unreadable("the login module must be followed by 'required'")
    names, equals, values = options[0::3], options[1::3], options[2::3]
    are_pairs = all(e.is_mark for e in equals) and not any(t.is_mark for t in names + values)
    if len(options) % 3 or not are_pairs:
        raise _unreadable(
            "its options must be name=\"value\" pairs; a '\"' inside a value is written '\\\"'"
        )
    pairs = zip(names, values, strict=True)
    return module.text.rpartition(".")[2], {name.text: value.text for name, value in pairs}


class _Token(NamedTuple):
    text: str
    is_mark: bool


def _tokens(text: str) -> list[_Token]:
    tokens = []
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup
        if kind == "open":
            raise _unreadable("a quotation mark is not closed")
        if kind in ("double", "single"):
            tokens.append(_Token(_ESCAPE.sub(_unescape, found[kind]), False))
        elif kind:
            tokens.append(_Token(found[0], kind == "mark"))
    return tokens


def _unescape(found: re.Match[str]) -> str:
    code = found[1]
    is_octal = code.isdigit() and set(code) <= set("01234567")
    return chr(int(code, 8)) if is_octal else _CONTROLS.get(code, code)


def _unreadable(why: str) -> ConfigError:
    return ConfigError(
        f"sasl.jaas.config cannot be parsed: {why}. Write it as: "
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="..." password="..."; without the section of a JAAS file around it; a line '
        r"continues on the next one only if \ is its last character"
    )
