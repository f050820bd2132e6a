"""Convert errors of the client library to sharelag's, which say what to do."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError

from sharelag.errors import (
    AuthenticationError,
    AuthorizationError,
    BrokerUnreachableError,
    ClusterError,
    NoLeaderError,
    TopicMissingError,
    list_names,
)
from sharelag.inputs.kafka.config import MASK, ClientConfig
from sharelag.model.kafka_errors import ERRORS, Kind, of_kind
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC

#: Codes of brokers that cannot be reached, and of credentials that are refused.
UNREACHABLE, LOGIN = of_kind(Kind.REACH), of_kind(Kind.LOGIN)
_NO_LEADER = of_kind(Kind.LEADERS)
_NO_TOPIC = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
}
#: Prefix of the client library's messages about a broker that metadata names, with its id.
_NAMED = re.compile(r"(?:\w+://)?(\S+:\d+)/(\d+): ")
#: The message for an answer in another protocol, whose first bytes are taken for a size.
_SIZE = re.compile(r"Invalid response size (\d{1,10}) ")
#: Prefix of messages from an endpoint of tokens rather than a broker.
_UNFETCHED = "Failed to acquire SASL OAUTHBEARER token: "
_SILENT = {KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._TRANSPORT}


def latest_reason(errors: Sequence[KafkaError]) -> KafkaError | None:
    """Return the last error that gives a cause, unlike "all brokers are down".

    An error for a broker that another one named is preferred to that of a silent broker.
    """
    why = [error for error in errors if error.code() != KafkaError._ALL_BROKERS_DOWN]
    named = [error for error in why if _NAMED.match(error.str())]
    return (named or why or [*errors] or [None])[-1]


def first_refusal(errors: Iterable[KafkaError]) -> KafkaError | None:
    """Return the first permanent error, which means that our credentials were refused."""
    return next((error for error in errors if is_refusal(error)), None)


def is_refusal(error: KafkaError) -> bool:
    """Return whether a broker refused the login; disconnections have the same code."""
    went_away = KafkaError(KafkaError._TRANSPORT).str()
    return error.code() in LOGIN and f"handshake failed: {went_away}" not in error.str()


def translate_error(error: KafkaError, what: str, config: ClientConfig) -> ClusterError:
    """Convert a client error to a `ClusterError` that says what to do."""
    code = error.code()
    known = ERRORS.get(code)
    if known is None:
        return ClusterError(f"the request for {what} failed: {error.str()} ({error.name()})")
    advice = known.what_to_do(what)
    if is_refusal(error) and error.str().startswith(_UNFETCHED):
        why = error.str().removeprefix(_UNFETCHED)  # may quote the endpoint's answer
        if secret := str(config.settings.get("sasl.oauthbearer.client.secret", "")):
            why = why.replace(secret, MASK)
        return AuthenticationError(
            f"no token came from sasl.oauthbearer.token.endpoint.url ({why}), so no broker was "
            "contacted: check that address, and the client's id and secret, in --command-config"
        )
    if is_refusal(error):
        return AuthenticationError(
            f"{config.bootstrap_servers} refused our credentials ({error.str()}): {advice}"
        )
    if known.kind is Kind.RIGHTS:
        action = "ask the cluster for" if "CLUSTER" in known.name else "read"
        return AuthorizationError(f"not authorized to {action} {what}: {advice}")
    if code in _NO_TOPIC:
        advice = _NEVER_USED.get(what, ERRORS[KafkaError.UNKNOWN_TOPIC_OR_PART].advice)
        topic = what if what in _NEVER_USED else repr(what)
        return TopicMissingError(f"the cluster has no topic {topic}: {advice}")
    if code in _NO_LEADER:
        return NoLeaderError(f"{what} has a partition without a leader ({known.name}): {advice}")
    if code in UNREACHABLE | LOGIN:
        return silence_error(config, what, error)
    return ClusterError(f"the request for {what} failed: {known.meaning} ({known.name}): {advice}")


#: What a missing internal topic means.
_NEVER_USED = {
    STATE_TOPIC: (
        "no share group was ever used on it. Consume with one (kafka-console-share-consumer.sh; if "
        "sharelag doctor says share.version 0, kafka-features.sh upgrade --feature share.version=1 "
        "turns them on first), or check that this is the right cluster"
    ),
    GROUP_TOPIC: "no group of any type was ever used on it",
}
#: TLS alerts of a broker about the certificate of its client.
_WANTS_CERTIFICATE = (
    *("alert bad certificate", "alert certificate required", "alert certificate unknown"),
    *("alert certificate expired", "alert unknown ca"),
)


def explain_distrust(config: ClientConfig, error: KafkaError) -> str | None:
    """Return whose certificate was rejected and what to do, if an error concerns one."""
    if "certificate verify failed" in error.str():
        return distrust(config)
    if any(alert in error.str() for alert in _WANTS_CERTIFICATE):
        return (
            f"{config.bootstrap_servers} refused our certificate, or requires one: set "
            "ssl.keystore.location to a certificate that the broker trusts, with its key"
        )
    return None


def silence_error(config: ClientConfig, what: str, error: KafkaError | None = None) -> ClusterError:
    """Return the error for a request that nobody answered.

    A new client may fail to reach a broker even if others of the same command were answered.
    """
    if config.patience.answered_client is None:
        return unreachable_error(config, error)
    if advertised := _find_advertised(config, error):
        return NoLeaderError(advertised)
    why = f" ({error.str()})" if error else ""
    return NoLeaderError(
        f"the request for {what} was not answered at {config.bootstrap_servers} within "
        f"{config.timeout:g} s{why}, though other requests were: a broker is down, or leaders are "
        "moving. Try again; --timeout waits longer"
    )


def unreachable_error(
    config: ClientConfig, error: KafkaError | None = None
) -> BrokerUnreachableError:
    """Return the error for brokers that do not answer, or whose certificate is not trusted."""
    found = (error and explain_distrust(config, error)) or _find_advertised(config, error)
    if found := found or _other_protocol(config, error):
        return BrokerUnreachableError(found)
    # The number of brokers that are down says nothing about the cause.
    is_why = error and error.code() != KafkaError._ALL_BROKERS_DOWN
    why = f" ({error.str()})" if error and is_why else ""
    code = error.code() if error and error.code() in UNREACHABLE else KafkaError._TIMED_OUT
    advice = ERRORS[code].advice
    return BrokerUnreachableError(
        f"no broker answered at {config.bootstrap_servers} within {config.timeout:g} s{why}: "
        f"{advice}"
    )


def _other_protocol(config: ClientConfig, error: KafkaError | None) -> str | None:
    if error and (size := _SIZE.search(error.str())):
        begin = int(size[1]).to_bytes(4, "big")
        if begin.isascii() and begin.decode().isprintable():
            return (
                f"{config.bootstrap_servers} answers {begin.decode()!r}..., which no Kafka broker "
                "does: give the host and port of a broker's listener"
            )
    has_no_answer = error is None or error.code() in _SILENT or size
    return needs_tls(config) if has_no_answer else None


def _find_advertised(config: ClientConfig, error: KafkaError | None) -> str | None:
    found = _NAMED.match(error.str()) if error else None
    known = {address.strip().rpartition("//")[2] for address in config.bootstrap_servers.split(",")}
    if error is None or found is None or found[1] in known:
        return None
    return (
        f"{config.bootstrap_servers} answered and named broker {found[2]} at {found[1]}, which was "
        f"not reached from here within {config.timeout:g} s ({error.str()}): let "
        "advertised.listeners of that broker name an address that this machine reaches, or start "
        "the broker if it is down; --timeout waits longer"
    )


def silent_leaders(config: ClientConfig, topic: str, silent: Mapping[int, Any]) -> NoLeaderError:
    """Return the error for partitions, with their nodes if known, whose leaders do not answer."""
    nodes = [node for node in silent.values() if node is not None]
    brokers = sorted({f"broker {n.id} at {n.host}:{n.port}" for n in nodes})
    led = f" (led by {list_names(brokers)})" if brokers else ""
    numbers = list_names([*map(str, sorted(silent))])
    error = NoLeaderError(
        f"partition {numbers} of {topic}{led} did not answer within {config.timeout:g} s, though "
        "other brokers did: its leader is down or moving. Try again, or see kafka-topics.sh "
        "--describe --unavailable-partitions; --timeout waits longer"
    )
    error.topic, error.silent = topic, frozenset(silent)
    return error


# ---- diagnosis with our own sockets --------------------------------------------------------------
# The client library reports any such certificate as one that could not be verified, and a listener
# that requires TLS only as a disconnection.


#: Codes of certificate errors with specific advice, from OpenSSL's ``X509_V_ERR_...``.
_EXPIRED, _HOST, _ADDRESS = 10, 62, 64
_ADVICE = {
    _EXPIRED: "the broker needs a new one",
    _HOST: "use a host name that the certificate has, or have it issued for this one",
    _ADDRESS: "use an address that the certificate has, or have it issued for this one",
}
_UNKNOWN = "set ssl.truststore.location to the certificate of the authority that issued it"
_WITHIN = 1.0  # seconds; the command's timeout has already passed


def connect(config: ClientConfig, host: str, port: int, within: float) -> socket.socket:
    """Open a connection to a broker, with TLS where the settings say so; OSError if it fails."""
    plain = socket.create_connection((host, port), timeout=within)
    if not _wants_tls(config):
        return plain
    import ssl  # here and below: most commands do not need it, and save a fortieth of their time

    settings = config.settings
    context = ssl.create_default_context(
        cafile=settings.get("ssl.ca.location"), cadata=settings.get("ssl.ca.pem")
    )
    if settings.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    if certificate := settings.get("ssl.certificate.location"):
        context.load_cert_chain(
            certificate, settings.get("ssl.key.location"), settings.get("ssl.key.password")
        )
    return context.wrap_socket(plain, server_hostname=host)


def host_and_port(address: str) -> tuple[str, int]:
    """Split a bootstrap server's address, which may begin with a protocol."""
    host, _, port = address.rpartition("://")[2].strip().rpartition(":")
    return host.strip("[]"), int(port)


def distrust(config: ClientConfig) -> str | None:
    """Return why a bootstrap server's certificate is not trusted, and what to do; else None."""
    import ssl

    for address in config.bootstrap_servers.split(","):
        try:
            connect(config, *host_and_port(address), _WITHIN).close()
        except ssl.SSLCertVerificationError as error:
            why = error.verify_message.rstrip(".")
            advice = _ADVICE.get(error.verify_code, _UNKNOWN)
            return f"the certificate of {address.strip()} is not trusted ({why}): {advice}"
        except (OSError, ValueError):
            continue  # the client library's own error describes the problem
    return None


def needs_tls(config: ClientConfig) -> str | None:
    """Return which bootstrap server requires TLS that the settings lack; None if none does."""
    if _wants_tls(config):
        return None
    import ssl

    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    until = time.monotonic() + _WITHIN
    for address in config.bootstrap_servers.split(","):
        host, port = host_and_port(address)
        try:
            left = max(until - time.monotonic(), 0.01)
            with socket.create_connection((host, port), timeout=left) as plain:
                context.wrap_socket(plain, server_hostname=host).close()
        except (OSError, ValueError):
            continue
        protocol = _protocol(config)
        return (
            f"{address.strip()} speaks TLS, and security.protocol is {protocol}: set it to "
            f"{'SASL_SSL' if protocol.startswith('SASL') else 'SSL or SASL_SSL'} in "
            "--command-config, as the broker's listener has it"
        )
    return None


def _protocol(config: ClientConfig) -> str:
    return str(config.settings.get("security.protocol", "PLAINTEXT")).upper()


def _wants_tls(config: ClientConfig) -> bool:
    return "SSL" in _protocol(config).split("_")
