"""Settings of share groups and consumers, one row each, in Kafka 4.3.1, 4.4 and KIP-932's drafts.

Kafka's rows are those of ``GroupCoordinatorConfig``, ``ShareGroupConfig``,
``ShareCoordinatorConfig`` (brokers) and ``GroupConfig`` (groups); the drafts' are those of KIP-932
while it was under discussion.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias

from sharelag.model.versions import NEWEST, basis, has_reached

#: A parsed value; None: the group uses the broker's value, or there is no value.
Typed: TypeAlias = int | bool | str | tuple[str, ...] | None
_Range: TypeAlias = tuple[int, int, int | None]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. Bounds that are other settings are given by name, and are the broker's."""

    name: str
    scope: Literal["broker", "group", "topic"]
    kind: Literal["int", "short", "bool", "text", "list"]
    default: Typed  # None: the broker's value, or nothing
    least: int | None = None
    greatest: int | None = None
    choices: tuple[str, ...] = ()
    pattern: str | None = None  # regex for values other than the choices
    broker: str | None = None  # the broker setting that applies to groups without a value
    least_by: str | None = None
    greatest_by: str | None = None
    below: str | None = None  # the setting of the same scope that must be greater
    since: str = "4.1"  # first Kafka version; 4.1 includes earlier previews (`FIRST`)
    internal: bool = False  # not described by brokers; later versions may remove it
    status: Literal["current", "draft", "older draft"] = "current"
    is_own_topic: bool = False  # it names a topic of the user's, not one of Kafka's own


def _broker(
    name: str, default: int, least: int | None = 1, greatest: int | None = None, **more: Any
) -> Setting:
    return Setting(name, "broker", more.pop("kind", "int"), default, least, greatest, **more)


def _between(name: str) -> dict[str, Any]:
    """Return the broker settings that bound a value."""
    return {"least_by": f"group.share.min.{name}", "greatest_by": f"group.share.max.{name}"}


_SESSION, _HEARTBEAT = "session.timeout.ms", "heartbeat.interval.ms"
#: Group settings within broker bounds. For the broker's value, which applies to groups without
#: their own, and for both bounds: the default, the minimum and the maximum. Then the first versions
#: with that value, and with everything else.
_BOUNDED: tuple[tuple[str, _Range, _Range, _Range, str, str], ...] = (
    ("partition.max.record.locks", (2000, 100, 10_000), (100, 100, 2000), (4000, 2000, 10_000),
     "4.1", "4.3"),
    ("delivery.count.limit", (5, 2, 10), (2, 2, 5), (10, 5, 25), "4.1", "4.3"),
    ("record.lock.duration.ms", (30_000, 1000, 3_600_000), (15_000, 1000, 30_000),
     (60_000, 30_000, 3_600_000), "4.1", "4.1"),
    (_SESSION, (45_000, 1, None), (45_000, 1, None), (60_000, 1, None), "4.1", "4.1"),
    (_HEARTBEAT, (5000, 1, None), (5000, 1, None), (15_000, 1, None), "4.1", "4.1"),
    ("assignment.interval.ms", (1000, 0, None), (0, 0, None), (15_000, 0, None), "4.3", "4.3"),
)  # fmt: skip


def _declare_on_brokers() -> Iterator[Setting]:
    for name, own, low, high, since, later in _BOUNDED:
        below = f"group.share.{_SESSION}" if name == _HEARTBEAT else None
        most = f"group.share.max.{name}"
        yield _broker(f"group.share.{name}", *own, since=since, below=below, **_between(name))
        yield _broker(f"group.share.min.{name}", *low, since=later, greatest_by=most)
        yield _broker(most, *high, since=later)


def _declare_on_groups() -> Iterator[Setting]:
    for name, (default, least, _), _, _, _, since in _BOUNDED:
        below = f"share.{_SESSION}" if name == _HEARTBEAT else None
        more = _between(name) | {"broker": f"group.share.{name}", "below": below, "since": since}
        yield Setting(f"share.{name}", "group", "int", default, least, **more)


_STATE = "share.coordinator.state.topic"
_PERSISTER = "org.apache.kafka.server.share.persister.DefaultStatePersister"
#: ISO 8601 as Java's ``Duration`` parses it, without a sign: an offset reset goes back in time.
_LOOK_BACK = (
    r"by_duration:[pP](?=[\dtT])(\d+[dD])?([tT](?=\d)(\d+[hH])?(\d+[mM])?(\d+([.,]\d{0,9})?[sS])?)?"
)

#: Kafka 4.3.1's settings, with its defaults and ranges except those in `EARLIER`; `Setting.since`
#: says which settings older brokers lack.
CATALOGUE: tuple[Setting, ...] = (
    # Broker settings for share groups.
    *_declare_on_brokers(),
    _broker("group.share.max.size", 200, 1, 1000),
    _broker("group.share.max.share.sessions", 2000, least_by="group.share.max.size"),
    _broker("group.share.initialize.retry.interval.ms", 30_000, since="4.2", internal=True),
    _broker("share.fetch.purgatory.purge.interval.requests", 1000, None),
    Setting("group.share.assignors", "broker", "list", ("simple",)),
    Setting("group.share.persister.class.name", "broker", "text", _PERSISTER, internal=True),
    # Broker settings for the share coordinator.
    _broker(f"{_STATE}.num.partitions", 50),
    _broker(f"{_STATE}.replication.factor", 3, kind="short"),
    _broker(f"{_STATE}.min.isr", 2, kind="short"),
    _broker(f"{_STATE}.segment.bytes", 104_857_600),
    _broker(f"{_STATE}.compression.codec", 0, 0, 4),  # ids of ``CompressionType``
    _broker(f"{_STATE}.prune.interval.ms", 300_000, internal=True),
    _broker("share.coordinator.cold.partition.snapshot.interval.ms", 300_000, internal=True),
    _broker("share.coordinator.snapshot.update.records.per.snapshot", 500, 0, 500),
    _broker("share.coordinator.threads", 1),
    _broker("share.coordinator.load.buffer.size", 5_242_880),
    _broker("share.coordinator.append.linger.ms", -1, -1),
    _broker("share.coordinator.write.timeout.ms", 5000),
    _broker("share.coordinator.cached.buffer.max.bytes", 1_048_588, 524_288, since="4.3"),
    # Group settings.
    *_declare_on_groups(),
    Setting("share.auto.offset.reset", "group", "text", "latest", choices=("latest", "earliest"),
            pattern=_LOOK_BACK),
    Setting("share.isolation.level", "group", "text", "read_uncommitted",
            choices=("read_uncommitted", "read_committed")),
    Setting("share.renew.acknowledge.enable", "group", "bool", True, since="4.3"),
)  # fmt: skip

_QUEUE = "errors.deadletterqueue"
_OFFLOAD = "share.assignor.offload.enable"
_DLQ_MANAGER = "org.apache.kafka.server.share.dlq.DefaultShareGroupDLQManager"
#: Additional settings of Kafka 4.4: dead-letter queues (KIP-1191), and assignments computed
#: asynchronously (KIP-1263).
LATER: tuple[Setting, ...] = (
    Setting(f"group.{_OFFLOAD}", "broker", "bool", True, since="4.4", internal=True),
    Setting("group.share.dlq.manager.class.name", "broker", "text", _DLQ_MANAGER, since="4.4",
            internal=True),
    Setting(_OFFLOAD, "group", "bool", True, broker=f"group.{_OFFLOAD}", since="4.4",
            internal=True),
    Setting(f"{_QUEUE}.auto.create.topics.enable", "broker", "bool", False, since="4.4"),
    Setting(f"{_QUEUE}.topic.name.prefix", "broker", "text", "dlq.", since="4.4"),
    Setting(f"{_QUEUE}.topic.name", "group", "text", "", since="4.4", is_own_topic=True),
    Setting(f"{_QUEUE}.copy.record.enable", "group", "bool", False, since="4.4"),
    Setting(f"{_QUEUE}.group.enable", "topic", "bool", False, since="4.4"),
)  # fmt: skip


def _draft(
    name: str, default: Typed, least: int | None = None, greatest: int | None = None, **more: Any
) -> Setting:
    scope, kind = more.pop("scope", "broker"), more.pop("kind", "int")
    return Setting(
        name, scope, kind, default, least, greatest, status=more.pop("status", "draft"), **more
    )


#: Names and bounds of the drafts of KIP-932 where they differ from Kafka 4.3.1; no release has
#: all of them.
DRAFT: tuple[Setting, ...] = (
    _draft("group.share.enable", False, kind="bool"),
    _draft("group.share.delivery.attempt.limit", 5, 2, 10),
    _draft("group.share.record.lock.duration.ms", 30_000, 1000, 60_000,
           greatest_by="group.share.record.lock.duration.max.ms"),
    _draft("group.share.record.lock.duration.max.ms", 60_000, 1000, 3_600_000),
    _draft("group.share.record.lock.partition.limit", 200, 100, 10_000),
    _draft("group.share.session.timeout.ms", 45_000, 1, **_between(_SESSION)),
    _draft("group.share.min.session.timeout.ms", 45_000, 1,
           greatest_by=f"group.share.max.{_SESSION}"),
    _draft("group.share.max.session.timeout.ms", 60_000, 1),
    _draft("group.share.heartbeat.interval.ms", 5000, 1, below=f"group.share.{_SESSION}",
           **_between(_HEARTBEAT)),
    _draft("group.share.min.heartbeat.interval.ms", 5000, 1,
           greatest_by=f"group.share.max.{_HEARTBEAT}"),
    _draft("group.share.max.heartbeat.interval.ms", 15_000, 1),
    _draft("group.share.max.groups", 10, 1, 100),
    _draft("group.share.max.size", 200, 10, 1000),
    _draft("group.share.assignors", ("org.apache.server.group.share.SimpleAssignor",), kind="list"),
    # The draft's text omits the name; this is the name in Kafka.
    _draft("group.share.max.share.sessions", 1000, 1, status="older draft"),
    _draft("group.share.isolation.level", "read_uncommitted", scope="group", kind="text",
           choices=("read_uncommitted", "read_committed")),
    _draft("group.share.auto.offset.reset", "latest", scope="group", kind="text",
           choices=("latest", "earliest")),
    _draft("group.share.record.lock.duration.ms", None, 1000, scope="group",
           broker="group.share.record.lock.duration.ms",
           greatest_by="group.share.record.lock.duration.max.ms"),
    _draft("group.type", None, scope="group", kind="text", choices=("consumer", "share")),
    _draft("share.coordinator.state.topic.num.partitions", 50, 1),
)  # fmt: skip

#: Earlier forms of a setting: the release that changed it, and the differences before.
EARLIER: dict[str, tuple[str, dict[str, Any]]] = {
    "share.coordinator.append.linger.ms": ("4.2", {"default": 5, "least": 0}),
    "share.coordinator.snapshot.update.records.per.snapshot": ("4.3", {"greatest": None}),
}

#: Used instead of a version: KIP-932 while under discussion.
PROPOSED = "draft"
#: The first release whose settings are known.
FIRST = "4.1"


@cache
def catalogue(profile: str = NEWEST) -> tuple[Setting, ...]:
    """Return the settings of one Kafka version, or of the "draft"; another one is an InputError.

    Earlier versions differ in the defaults and ranges of `EARLIER`; 4.4 also has `LATER`. An
    unknown version has the settings of the nearest known one.
    """
    if profile == PROPOSED:
        return DRAFT
    version = basis(profile, oldest=FIRST).version
    settings = (*CATALOGUE, *LATER)
    return tuple(_as_of(one, version) for one in settings if has_reached(version, one.since))


def _as_of(setting: Setting, version: str) -> Setting:
    changed, different = EARLIER.get(setting.name, (FIRST, {}))
    return setting if has_reached(version, changed) else replace(setting, **different)


def find(name: str, profile: str = NEWEST) -> Setting | None:
    """Look up a setting by name; in the draft, where two share one, the broker's."""
    return next((one for one in catalogue(profile) if one.name == name), None)


class Property(NamedTuple):
    """One property of a consumer; None: not bounded."""

    kind: str  # Kafka's name of the type, in lower case
    least: float | None = None
    greatest: float | None = None
    choices: tuple[str, ...] = ()
    any_case: bool = False  # whether choices are case-insensitive
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

#: Characters that Java's ``String.trim`` removes.
_TRIMMED = "".join(map(chr, range(33)))
_BITS = {"int": 32, "long": 64, "short": 16}


def refusal(known: Property, text: str) -> str:
    """Return why a consumer refuses the text of a property; empty if it does not.

    Lists, classes and passwords are not checked: only the consumer can load a class.
    """
    text = text.strip(_TRIMMED)
    if known.choices:
        others = {choice.upper() for choice in known.choices} if known.any_case else ()
        is_choice = text in known.choices or text.upper() in others
        return "" if is_choice else f"{text!r} is not one of {', '.join(known.choices)}"
    if known.kind in _BITS:
        number = _integer(text, _BITS[known.kind])
        if number is None:
            return f"{text!r} is not a {_BITS[known.kind]}-bit integer"
        return out_of_range(number, known)
    if known.kind == "double":
        try:
            # Python parses 1_0 as a number, Java does not.
            return out_of_range(float(text.replace("_", "x")), known)
        except ValueError:
            return f"{text!r} is not a number"
    if known.kind == "boolean" and text.lower() not in ("true", "false"):
        return f"{text!r} is neither true nor false"
    return ""


def _integer(text: str, bits: int) -> int | None:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdecimal()):
        return None
    # Python limits the number of digits that it converts; none of these types has more.
    number = int(text[:40])
    return number if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) else None


def out_of_range(number: float, known: Setting | Property) -> str:
    """Return which bound a number, or NaN, exceeds; empty if it is within them."""
    if known.least is not None and not number >= known.least:
        return f"less than the minimum {known.least}"
    if known.greatest is not None and not number <= known.greatest:
        return f"greater than the maximum {known.greatest}"
    return ""
