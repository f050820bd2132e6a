"""Which properties Kafka's consumers have, and the values they take, as in Kafka 4.3.1 and 4.4.

Names, types and ranges are those of ``ConsumerConfig``, which ``ShareConsumerConfig`` extends.
"""

from __future__ import annotations

from typing import NamedTuple


class Property(NamedTuple):
    """One property of a consumer; None: not bounded."""

    kind: str  # Kafka's name of the type, in lower case
    least: float | None = None
    greatest: float | None = None
    choices: tuple[str, ...] = ()
    any_case: bool = False  # of the choices
    since: str = "4.1"  # the first release that has it; 4.1 includes earlier ones


_INTS_FROM: dict[int, str] = {
    -1: "receive.buffer.bytes send.buffer.bytes",
    0: "auto.commit.interval.ms default.api.timeout.ms fetch.max.bytes fetch.max.wait.ms "
    "fetch.min.bytes max.partition.fetch.bytes request.timeout.ms",
    1: "max.poll.interval.ms max.poll.records metrics.num.samples",
}
_LONGS_FROM_0 = (
    "metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms metrics.sample.window.ms "
    "reconnect.backoff.max.ms reconnect.backoff.ms retry.backoff.max.ms retry.backoff.ms"
)
_UNBOUNDED: dict[str, str] = {
    "int": "heartbeat.interval.ms session.timeout.ms sasl.login.connect.timeout.ms "
    "sasl.login.read.timeout.ms sasl.oauthbearer.clock.skew.seconds",
    "long": "connections.max.idle.ms sasl.kerberos.min.time.before.relogin "
    "sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms "
    "sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms "
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms socket.connection.setup.timeout.ms "
    "socket.connection.setup.timeout.max.ms",
    "double": "sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor",
    "boolean": "allow.auto.create.topics check.crcs enable.auto.commit enable.metrics.push "
    "exclude.internal.topics internal.throw.on.fetch.stable.offset.unsupported "
    "sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.header.urlencode",
    "list": "bootstrap.servers interceptor.classes metric.reporters "
    "partition.assignment.strategy sasl.oauthbearer.expected.audience ssl.cipher.suites "
    "ssl.enabled.protocols",
    "class": "key.deserializer value.deserializer sasl.client.callback.handler.class "
    "sasl.login.callback.handler.class sasl.login.class sasl.oauthbearer.jwt.retriever.class "
    "sasl.oauthbearer.jwt.validator.class ssl.engine.factory.class",
    "password": "sasl.jaas.config sasl.oauthbearer.assertion.private.key.passphrase "
    "sasl.oauthbearer.client.credentials.client.secret ssl.key.password "
    "ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.password "
    "ssl.truststore.certificates ssl.truststore.password",
    "string": "client.id client.rack group.id group.instance.id group.remote.assignor "
    "sasl.kerberos.kinit.cmd sasl.kerberos.service.name sasl.mechanism "
    "sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.iss "
    "sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file "
    "sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.template.file "
    "sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.expected.issuer "
    "sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.scope "
    "sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name "
    "sasl.oauthbearer.token.endpoint.url security.providers "
    "ssl.endpoint.identification.algorithm ssl.keymanager.algorithm ssl.keystore.location "
    "ssl.keystore.type ssl.protocol ssl.provider ssl.secure.random.implementation "
    "ssl.trustmanager.algorithm ssl.truststore.location ssl.truststore.type",
}


def _words(*choices: str, any_case: bool = False, since: str = "4.1") -> Property:
    return Property("string", choices=choices, any_case=any_case, since=since)


#: Property by name.
CONSUMER: dict[str, Property] = {
    **{name: Property(kind) for kind, names in _UNBOUNDED.items() for name in names.split()},
    **{name: Property("int", least) for least, some in _INTS_FROM.items() for name in some.split()},
    **{name: Property("long", 0) for name in _LONGS_FROM_0.split()},
    "sasl.login.refresh.buffer.seconds": Property("short", 0, 3600),
    "sasl.login.refresh.min.period.seconds": Property("short", 0, 900),
    "sasl.login.refresh.window.factor": Property("double", 0.5, 1.0),
    "sasl.login.refresh.window.jitter": Property("double", 0.0, 0.25),
    "sasl.oauthbearer.assertion.claim.exp.seconds": Property("int", 0, 86_400),
    "sasl.oauthbearer.assertion.claim.nbf.seconds": Property("int", 0, 3600),
    "auto.offset.reset": _words("latest", "earliest", "none", "by_duration:PnDTnHnMn.nS"),
    "client.dns.lookup": _words("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    "group.protocol": _words("CONSUMER", "CLASSIC", any_case=True),
    "isolation.level": _words("read_committed", "read_uncommitted"),
    "metadata.recovery.strategy": _words("REBOOTSTRAP", "NONE", any_case=True),
    "metrics.recording.level": _words("INFO", "DEBUG", "TRACE"),
    "sasl.oauthbearer.assertion.algorithm": _words("ES256", "RS256", any_case=True),
    "security.protocol": _words("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT", any_case=True),
    "share.acknowledgement.mode": _words("implicit", "explicit"),
    "share.acquire.mode": _words("batch_optimized", "record_limit", any_case=True, since="4.2"),
    "config.providers": Property("list", since="4.2"),
    "bootstrap.resolve.timeout.ms": Property("long", 0, since="4.4"),
    "metadata.cluster.check.enable": Property("boolean", since="4.4"),
    "sasl.oauthbearer.allow.unverified.audience": Property("boolean", since="4.4"),
    "sasl.oauthbearer.allow.unverified.issuer": Property("boolean", since="4.4"),
}

#: What Java's ``String.trim`` takes off.
_TRIMMED = "".join(map(chr, range(33)))
_BITS = {"int": 32, "long": 64, "short": 16}


def refusal(known: Property, text: str) -> str:
    """Return why a consumer refuses the text of a property; empty where it does not.

    Lists, classes and passwords are not checked: what a class is, only its consumer can tell.
    """
    text = text.strip(_TRIMMED)
    if known.choices:
        is_choice = text in known.choices or (known.any_case and text.upper() in _upper(known))
        return "" if is_choice else f"{text!r} is not one of {', '.join(known.choices)}"
    if known.kind in _BITS:
        number = _integer(text, _BITS[known.kind])
        if number is None:
            return f"{text!r} is not a {_BITS[known.kind]}-bit integer"
        return _out_of_range(number, known)
    if known.kind == "double":
        try:
            # Python reads 1_0 as a number, and Java does not.
            return _out_of_range(float(text.replace("_", "x")), known)
        except ValueError:
            return f"{text!r} is not a number"
    if known.kind == "boolean" and text.lower() not in ("true", "false"):
        return f"{text!r} is neither true nor false"
    return ""


def _upper(known: Property) -> set[str]:
    return {choice.upper() for choice in known.choices}


def _integer(text: str, bits: int) -> int | None:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdecimal()):
        return None
    # As many digits as Python converts, and more than any of these types has.
    number = int(text[:40])
    return number if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) else None


def _out_of_range(number: float, known: Property) -> str:
    if known.least is not None and not number >= known.least:
        return f"less than the minimum {known.least}"
    if known.greatest is not None and not number <= known.greatest:
        return f"greater than the maximum {known.greatest}"
    return ""
