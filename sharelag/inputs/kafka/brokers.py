"""Brokers: their ids and partitions, supported versions, settings, and our rights.

Requests for rights change nothing: the broker's answer or refusal shows what may be described,
and includes the operations that its authorizer would allow (KIP-430).
"""

from __future__ import annotations

import logging
import socket
import struct
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import pyarrow as pa
from confluent_kafka import KafkaError, TopicCollection
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ConfigSource,
    ResourcePatternType,
    ResourceType,
)

from sharelag import schemas
from sharelag.errors import (
    AuthorizationError,
    BrokerUnreachableError,
    ClusterError,
    TopicMissingError,
    list_names,
)
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.client import Connection
from sharelag.inputs.kafka.config import ClientConfig
from sharelag.inputs.kafka.failures import connect, host_and_port, translate_error
from sharelag.model import CLUSTER
from sharelag.model.settings import CATALOGUE, LATER, effective
from sharelag.model.settings.queues import (
    CREATED,
    ENABLED,
    MISSING,
    PREFIX,
    SHARE_VERSION,
    Queues,
    is_topic_name,
)
from sharelag.model.versions import release_of
from sharelag.tables.arrow import ascending
from sharelag.version import __version__
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC


def leaders(config: ClientConfig, topics: Iterable[str]) -> pa.Table:
    """Return `sharelag.schemas.LEADERS` of topics by metadata, without missing topics."""
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
            "leader_id": None if one.leader is None or one.leader.id < 0 else int(one.leader.id),
            "replicas": [node.id for node in one.replicas],
            "in_sync_replicas": [node.id for node in one.isr],
            "as_of": requested,
        }
        for name, found in described.items()
        for one in found.partitions
    ]
    return pa.Table.from_pylist(rows, schema=schemas.LEADERS)


def nodes(config: ClientConfig) -> pa.Table:
    """Return `sharelag.schemas.NODES` by metadata, sorted by id; an unset rack is null."""
    found = Connection(config).describe_cluster()
    requested = datetime.now(UTC)
    rows = [
        {"broker_id": one.id, "host": one.host, "port": one.port, "rack": one.rack or None}
        | {"as_of": requested}
        for one in sorted(found.nodes, key=lambda node: int(node.id))
    ]
    return pa.Table.from_pylist(rows, schema=schemas.NODES)


# ---- supported versions --------------------------------------------------------------------------
# librdkafka does not expose ApiVersions. A broker answers it before authentication, so a socket is
# enough, with kafka-python for the encoding.


_VERSION, _UNSUPPORTED_VERSION = 3, 35
#: Keys of the requests that reveal support of share groups (KIP-932, KIP-1226).
WRITE_SHARE_GROUP_STATE = 85


@dataclass(frozen=True)
class Features:
    """The supported APIs and finalized features of a broker."""

    apis: dict[int, int]  # request key: highest version
    finalized: dict[str, int]  # feature: finalized level
    supported: dict[str, int] = field(default_factory=dict)  # feature: highest level

    @property
    def release(self) -> str | None:
        """The broker's release, such as ``4.3``, inferred from its features; None if unknown."""
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
    """Ask the first bootstrap server that answers; ClusterError if none speaks Kafka."""
    failures = []
    for address in config.bootstrap_servers.split(","):
        started = time.monotonic()
        try:
            left = config.patience.left()
            with connect(config, *host_and_port(address), left) as connection:
                return _ask(connection)
        except OSError as error:
            config.patience.lose(time.monotonic() - started)
            failures.append(f"{address}: {error}")
        except (struct.error, ValueError, IndexError, TypeError) as error:
            raise ClusterError(
                f"{address} does not answer as a Kafka broker: check host and port"
            ) from error
    raise BrokerUnreachableError(f"no broker answered ({'; '.join(failures)}): check the addresses")


def _ask(connection: socket.socket) -> Features:
    """Request the supported versions (KIP-511) and features (KIP-584)."""
    # Imported here, because it takes a tenth of a second that most commands can save.
    from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

    request = ApiVersionsRequest[_VERSION](
        client_software_name="sharelag", client_software_version=__version__
    )
    request.with_header(correlation_id=1, client_id="sharelag")
    connection.sendall(request.encode(header=True, framed=True))
    with connection.makefile("rb") as answer:
        (size,) = struct.unpack(">i", _exactly(answer, 4))
        versions = ApiVersionsResponse.decode(_exactly(answer, size), version=_VERSION, header=True)
    if versions.error_code == _UNSUPPORTED_VERSION:
        raise ClusterError(
            "the broker is older than Kafka 2.4; share groups need 4.0: upgrade the cluster"
        )
    if versions.error_code:
        raise ValueError(f"error {versions.error_code}")
    return Features(
        {one.api_key: one.max_version for one in versions.api_keys},
        {one.name: one.max_version_level for one in versions.finalized_features},
        {one.name: one.max_version for one in versions.supported_features},
    )


def _exactly(answer: BinaryIO, size: int) -> bytes:
    if not 0 <= size <= 1 << 20:
        raise ValueError(f"a response of {size} bytes")
    data = answer.read(size)
    if len(data) < size:
        raise ConnectionResetError("the broker closed the connection")
    return data


_Row: TypeAlias = dict[str, str | bool | None]
#: Value and source by name.
_Values: TypeAlias = dict[str, tuple[str | None, str]]
#: The same, or None if not authorized.
_Reported: TypeAlias = _Values | None

#: The topic settings about retention and compaction.
TOPIC_SETTINGS = (
    *("cleanup.policy", "errors.deadletterqueue.group.enable", "message.timestamp.type"),
    *("min.compaction.lag.ms", "retention.bytes", "retention.ms", "segment.ms"),
)
_ALL = (*CATALOGUE, *LATER)
_GROUP_SETTINGS = {setting.name: setting for setting in _ALL if setting.scope == "group"}
_BROKER_SETTINGS = sorted(setting.name for setting in _ALL if setting.scope == "broker")
#: Settings that brokers before 4.4 lack: their absence does not indicate missing rights.
_LATER = frozenset(setting.name for setting in LATER)

_SOURCES = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG.value: "topic",
    ConfigSource.DYNAMIC_BROKER_CONFIG.value: "broker",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value: "broker",
    ConfigSource.STATIC_BROKER_CONFIG.value: "broker",
    ConfigSource.DEFAULT_CONFIG.value: "default",
    8: "group",  # DYNAMIC_GROUP_CONFIG, which confluent-kafka has no name for
}

_LOG = logging.getLogger(__name__)


def settings(config: ClientConfig, groups: Iterable[str], topics: Iterable[str]) -> pa.Table:
    """Return `sharelag.schemas.SETTINGS` in force for groups, topics and the brokers.

    The rows are sorted by scope, entity and name. The topics that groups name as dead-letter queues
    are added. A missing topic has no rows, or one that says so if its name is that of a dead-letter
    queue; a missing group has the brokers' settings.

    A value is null if we are not authorized (a warning names the missing permission), or if brokers
    disagree. Values of groups are clamped to the brokers' bounds as in
    `sharelag.model.settings.effective`. Brokers before 4.3 describe some of them only as broker
    settings.
    """
    connection = Connection(config)
    ids = [str(node.id) for node in connection.describe_cluster().nodes]
    of_brokers = _describe(connection, ResourceType.BROKER, "broker", ids, 1)
    brokers = _agree([values for _, values in of_brokers])
    rows = list(_setting_rows("broker", None, brokers, _BROKER_SETTINGS))
    for group, values in _describe(connection, ResourceType.GROUP, "group", groups):
        in_force = None if values is None else _in_force(values, brokers)
        rows += _setting_rows("group", group, in_force, _GROUP_SETTINGS)
    queues = set(Queues.of(pa.Table.from_pylist(rows, schema=schemas.SETTINGS)).of_groups.values())
    asked = {*topics, *filter(is_topic_name, queues)}  # brokers accept other names in the setting
    for topic, values in _describe(connection, ResourceType.TOPIC, "topic", asked):
        rows += _setting_rows("topic", topic, values, TOPIC_SETTINGS)
        asked.remove(topic)
    if brokers is not None and CREATED in brokers:  # from Kafka 4.4 on
        prefix = brokers[PREFIX][0] or ""
        missing = sorted(topic for topic in asked if topic and topic.startswith(prefix))
        rows += [_row("topic", topic, ENABLED, "false", MISSING) for topic in missing]
        try:  # the feature that enables dead-letter queues
            level = str(broker_features(config).share_version)
            rows.append(_row("broker", None, SHARE_VERSION, level, "feature"))
        except ClusterError as error:
            _LOG.warning("the level of %s is unknown: %s", SHARE_VERSION, error)
    order = ascending("scope", "entity", "name")
    return pa.Table.from_pylist(rows, schema=schemas.SETTINGS).sort_by(order)


# ---- requests ------------------------------------------------------------------------------------


def _describe(
    connection: Connection, kind: ResourceType, scope: str, names: Iterable[str], at_once: int = 100
) -> Iterator[tuple[str, _Reported]]:
    """Yield name and settings of each existing entity; None, with a warning, if not authorized."""
    asked = sorted({name for name in names if name})  # the client rejects ""
    refused = []
    what = f"the settings of {scope} {{!r}}"
    for name, entries in connection.describe_configs(kind, asked, what, at_once):
        if entries is None:
            refused.append(name)
        yield name, None if entries is None else _values(entries)
    if refused:
        _LOG.warning(
            "the settings of %s%s %s are unknown: grant DESCRIBE_CONFIGS on %s",
            scope,
            "s" * (len(refused) > 1),
            list_names(refused),
            "the cluster" if scope == "broker" else "them" if len(refused) > 1 else "it",
        )


def _values(entries: Mapping[str, Any]) -> _Values:
    # None of the settings of `CATALOGUE` is secret: brokers of a version that lacks one, but whose
    # file sets it, describe it as sensitive and ignore it.
    return {
        entry.name: (entry.value, _SOURCES[entry.source])
        for entry in entries.values()
        if entry.source in _SOURCES and not entry.is_sensitive
    }


# ---- combining settings --------------------------------------------------------------------------


def _agree(brokers: list[_Reported]) -> _Reported:
    """Return the settings of any broker; null where they disagree, as during an upgrade."""
    seen = [described for described in brokers if described is not None]
    if not seen or len(seen) < len(brokers):
        return None
    agreed = {name: value for described in reversed(seen) for name, value in described.items()}
    for name in sorted(agreed.keys() & set(_BROKER_SETTINGS)):
        values = {described.get(name, ("missing", ""))[0] for described in seen}
        if len(values) > 1:
            _LOG.warning(
                "brokers have different values of %s (%s): the value is unknown",
                name,
                ", ".join(sorted(map(str, values))),
            )
            agreed[name] = (None, "broker")
    return agreed


def _in_force(values: _Values, brokers: _Reported) -> _Values:
    stored = {
        name: value
        for name, (value, source) in values.items()
        if source == "group" and name in _GROUP_SETTINGS
    }
    brokers = brokers or {}
    bounds = {name: brokers.get(name, (None,))[0] for name in {*_BROKER_SETTINGS, *brokers}}
    clamped = effective(stored, bounds, "4.4")
    found: _Values = {}
    for name, setting in _GROUP_SETTINGS.items():
        if name in stored:
            value, source = clamped[name]
            found[name] = (str(value).lower() if isinstance(value, bool) else str(value), source)
        elif name in values:
            found[name] = values[name]  # the broker's own, or Kafka's default
        elif setting.broker in brokers:
            # Brokers before 4.3 have it only as a broker setting.
            found[name] = brokers[setting.broker]
    return found


def _setting_rows(
    scope: str, entity: str | None, values: _Reported, names: Iterable[str]
) -> Iterator[_Row]:
    """Yield one row per setting; a broker that omits a setting does not have or expose it."""
    for name in names:
        if name in values if values is not None else name not in _LATER:
            value, source = (None, None) if values is None else values[name]
            yield _row(scope, entity, name, value, source)


def _row(scope: str, entity: str | None, name: str, value: str | None, source: str | None) -> _Row:
    return {"scope": scope, "entity": entity, "name": name, "value": value, "source": source}


_OPERATIONS = {
    "TOPIC": ("DESCRIBE", "READ"),
    "GROUP": ("DESCRIBE", "READ", "DELETE"),
    "CLUSTER": ("DESCRIBE", "CLUSTER_ACTION"),
}
_AT_ONCE = 100  # names per request


def ask_rights(config: ClientConfig, groups: Iterable[str], topics: Iterable[str]) -> pa.Table:
    """Ask the cluster what we may do with groups, topics and the coordinators' topics.

    Return `sharelag.schemas.ASKED_RIGHTS`. Operations that imply DESCRIBE are refused with it. Null
    means that no request can tell: the rights on a missing topic, and those on a cluster without
    DESCRIBE.
    """
    connection = Connection(config)
    rows = list(_of_cluster(connection))
    names = sorted({STATE_TOPIC, GROUP_TOPIC, *topics})
    rows += _list_rights(connection, "TOPIC", names)
    # Looking up a group's coordinator would make a new cluster create that topic.
    if any(row["resource"] == GROUP_TOPIC for row in rows):
        rows += _list_rights(connection, "GROUP", sorted(set(groups)))
    rows += _configs(connection, ResourceType.TOPIC, topics)
    rows += _configs(connection, ResourceType.GROUP, groups)
    return pa.Table.from_pylist(rows, schema=schemas.ASKED_RIGHTS)


def refusal(config: ClientConfig, topic: str) -> AuthorizationError | None:
    """Return the error with which reading a topic would fail; None if we may read it."""
    connection = Connection(config)
    if all(row["allowed"] for row in _list_rights(connection, "TOPIC", [topic])):
        return None
    error = translate_error(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), topic, config)
    return error if isinstance(error, AuthorizationError) else None


def principal_of(config: ClientConfig) -> str | None:
    """Return the principal that brokers derive from our settings; None if unknown.

    This is Kafka's default: the user name of SASL PLAIN and SCRAM. Brokers map names in
    certificates and tokens by their own rules.
    """
    settings = config.settings
    is_sasl = str(settings.get("security.protocol", "")).upper().startswith("SASL")
    mechanism = str(settings.get("sasl.mechanism", settings.get("sasl.mechanisms", "")))
    by_name = is_sasl and (mechanism == "PLAIN" or mechanism.startswith("SCRAM-"))
    name = settings.get("sasl.username") if by_name else None
    return f"User:{name}" if name else None


def _list_rights(connection: Connection, kind: str, names: list[str]) -> Iterator[_Row]:
    # Describe them as consumer groups: brokers answer this for share groups, too, with these rights
    # and no other data (`KafkaApis.handleDescribeGroupsRequest`).
    admin = connection.admin
    ask = admin.describe_topics if kind == "TOPIC" else admin.describe_consumer_groups
    for begin in range(0, len(names), _AT_ONCE):
        some: Any = names[begin : begin + _AT_ONCE]
        some = TopicCollection(some) if kind == "TOPIC" else some
        futures = ask(some, include_authorized_operations=True, request_timeout=connection.within)
        for name, future in futures.items():
            try:
                rights = connection.result(future, name).authorized_operations
            except AuthorizationError:
                yield from _rights_of(kind, name, dict.fromkeys(_OPERATIONS[kind], False))
            except TopicMissingError:
                continue
            else:
                allowed = {"DESCRIBE": True} | _read_operations(kind, rights)
                yield from _rights_of(kind, name, allowed)


def _read_operations(kind: str, operations: Iterable[Any] | None) -> dict[str, bool]:
    if operations is None:
        return {}
    allowed = {one.name for one in operations}
    return {operation: operation in allowed for operation in _OPERATIONS[kind]}


def _of_cluster(connection: Connection) -> Iterator[_Row]:
    cluster = connection.describe_cluster(with_rights=True)
    operations = cluster.authorized_operations
    # Anybody may describe the cluster; only those with DESCRIBE receive the rights.
    allowed = {"DESCRIBE": False} if operations is None else _read_operations("CLUSTER", operations)
    yield from _rights_of("CLUSTER", CLUSTER, allowed)
    node = str(next(iter(cluster.nodes)).id)
    for row in _configs(connection, ResourceType.BROKER, [node]):
        yield row | {"resource_type": "CLUSTER", "resource": CLUSTER}


def _configs(connection: Connection, kind: ResourceType, names: Iterable[str]) -> Iterator[_Row]:
    for name, entries in connection.describe_configs(kind, sorted(set(names))):
        yield from _rights_of(kind.name, name, {"DESCRIBE_CONFIGS": entries is not None})


def _rights_of(kind: str, name: str, allowed: dict[str, bool]) -> Iterator[_Row]:
    where: _Row = {"resource_type": kind, "resource": name}
    for operation, is_allowed in allowed.items():
        yield where | {"operation": operation, "allowed": is_allowed}


# ---- rules of the authorizer --------------------------------------------------------------------


_EVERY = AclBindingFilter(
    *(ResourceType.ANY, None, ResourcePatternType.ANY, None, None),
    *(AclOperation.ANY, AclPermissionType.ANY),
)
#: Resource types that confluent-kafka names differently from Kafka.
_KAFKAS_NAMES = {"BROKER": "CLUSTER"}
_AUTHORIZER = "authorizer.class.name"
_STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_SUPER_USERS, _OPEN = "super.users", "allow.everyone.if.no.acl.found"


class Authorizer(NamedTuple):
    """The configuration of an authorizer, as far as brokers expose it.

    ``rules`` are `sharelag.schemas.ACLS`, in no order. The next two say whether ``super.users`` and
    ``allow.everyone.if.no.acl.found`` are set or unknown; ``is_kafkas`` whether it is Kafka's own,
    which lists all of its rules.
    """

    rules: pa.Table
    may_have_super_users: bool = True
    may_be_open: bool = True
    is_kafkas: bool = False


def authorizer(config: ClientConfig) -> Authorizer | None:
    """Return the authorizer's configuration; None if the cluster has none and allows everything.

    It is an AuthorizationError if we may not describe the cluster, which is needed to list rules.
    """
    connection = Connection(config)
    cluster = connection.describe_cluster(with_rights=True)
    # librdkafka returns an empty list if the broker refuses, so detect the refusal here.
    if cluster.authorized_operations is None:
        refused = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED)
        raise translate_error(refused, "its access rules", config)
    node = str(next(iter(cluster.nodes)).id)
    what = "the settings of the brokers"
    ((_, entries),) = connection.describe_configs(ResourceType.BROKER, [node], what)
    # Settings of types unknown to Kafka are described if they are set, without values.
    settings = (
        None
        if entries is None
        else {name: one.value for name, one in entries.items() if one.value or one.is_sensitive}
    )
    if settings is not None and _AUTHORIZER not in settings:
        return None
    asked = connection.admin.describe_acls(_EVERY, request_timeout=connection.within)
    rows = [
        {
            "principal": one.principal,
            "acl_host": one.host,
            "operation": one.operation.name,
            "permission": one.permission_type.name,
            "resource_type": _KAFKAS_NAMES.get(one.restype.name, one.restype.name),
            "pattern_type": one.resource_pattern_type.name,
            "resource": one.name,
        }
        for one in connection.result(asked, "the access rules")
    ]
    return Authorizer(
        pa.Table.from_pylist(rows, schema=schemas.ACLS),
        settings is None or _SUPER_USERS in settings,
        settings is None or _OPEN in settings,
        settings is not None and settings[_AUTHORIZER] == _STANDARD,
    )
