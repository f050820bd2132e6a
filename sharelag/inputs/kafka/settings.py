"""Settings of groups, topics and brokers, from the brokers."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import pyarrow as pa
from confluent_kafka.admin import ConfigSource, ResourceType

from sharelag import schemas
from sharelag.errors import ClusterError, list_names
from sharelag.inputs.kafka.brokers import broker_features
from sharelag.inputs.kafka.client import Connection
from sharelag.inputs.kafka.config import ClientConfig
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

_Row: TypeAlias = dict[str, str | None]
#: Value and source by name.
_Values: TypeAlias = dict[str, tuple[str | None, str]]
#: The same, or None if we are not authorized.
_Reported: TypeAlias = _Values | None

#: The topic settings about retention and compaction.
TOPIC_SETTINGS = (
    *("cleanup.policy", "errors.deadletterqueue.group.enable", "message.timestamp.type"),
    *("min.compaction.lag.ms", "retention.bytes", "retention.ms", "segment.ms"),
)
_ALL = (*CATALOGUE, *LATER)
_GROUP_SETTINGS = {setting.name: setting for setting in _ALL if setting.scope == "group"}
_BROKER_SETTINGS = sorted(setting.name for setting in _ALL if setting.scope == "broker")
#: What brokers before 4.4 do not have; nobody misses it where nothing may be described.
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
    """Return `sharelag.schemas.SETTINGS` in force of groups, topics and the brokers.

    The rows are sorted by scope, entity and name. The topics that groups name as dead-letter queues
    are added. A topic that does not exist has no rows, or one that says so where its name is one of
    dead-letter queues; a group that does not exist has the brokers' settings.

    A value is null if it is secret, if we are not authorized (a warning names the missing
    permission), or if brokers disagree. Values of groups are clamped to the brokers' bounds as in
    `sharelag.model.settings.effective`. Brokers before 4.3 describe some of them only as broker
    settings.
    """
    connection = Connection(config)
    brokers = _agree(_of_brokers(connection))
    rows = list(_rows("broker", None, brokers, _BROKER_SETTINGS))
    for group, values in _describe(connection, ResourceType.GROUP, "group", groups):
        rows += _rows(
            "group",
            group,
            None if values is None else _in_force(values, brokers),
            list(_GROUP_SETTINGS),
        )
    queues = set(Queues.of(pa.Table.from_pylist(rows, schema=schemas.SETTINGS)).of_groups.values())
    wanted = {*topics, *filter(is_topic_name, queues)}  # brokers take others, and describe none
    for topic, values in _describe(connection, ResourceType.TOPIC, "topic", wanted):
        rows += _rows("topic", topic, values, TOPIC_SETTINGS)
        wanted.remove(topic)
    if brokers is not None and CREATED in brokers:  # from Kafka 4.4 on
        prefix = brokers[PREFIX][0] or ""
        missing = sorted(topic for topic in wanted if topic and topic.startswith(prefix))
        rows += [_row("topic", topic, ENABLED, "false", MISSING) for topic in missing]
        rows += _share_version(config)
    order = [(name, "ascending") for name in ("scope", "entity", "name")]
    return pa.Table.from_pylist(rows, schema=schemas.SETTINGS).sort_by(order)


# ---- asking --------------------------------------------------------------------------------------


def _of_brokers(connection: Connection) -> list[_Reported]:
    nodes = [str(node.id) for node in connection.describe_cluster().nodes]
    return [values for _, values in _describe(connection, ResourceType.BROKER, "broker", nodes, 1)]


def _describe(
    connection: Connection,
    kind: ResourceType,
    scope: str,
    names: Iterable[str],
    at_once: int = 100,
) -> Iterator[tuple[str, _Reported]]:
    """Yield name and settings of each existing entity; None, with a warning, if not authorized."""
    wanted = sorted({name for name in names if name})  # the client does not accept ""
    refused = []
    what = f"the settings of {scope} {{!r}}"
    for name, entries in connection.describe_configs(kind, wanted, what, at_once):
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
    return {
        entry.name: (None if entry.is_sensitive else entry.value, _SOURCES[entry.source])
        for entry in entries.values()
        if entry.source in _SOURCES
    }


# ---- putting together ----------------------------------------------------------------------------


def _agree(brokers: list[_Reported]) -> _Reported:
    """Return the settings of all brokers; a value that they disagree on is null."""
    seen = [described for described in brokers if described is not None]
    if not seen or len(seen) < len(brokers):
        return None
    agreed = dict(seen[0])
    for name in sorted(agreed.keys() & set(_BROKER_SETTINGS)):
        values = {described.get(name, (None, ""))[0] for described in seen}
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
    bounds = dict.fromkeys(_BROKER_SETTINGS) | {
        name: value for name, (value, _) in (brokers or {}).items()
    }
    clamped = effective(stored, bounds, "4.4")
    found: _Values = {}
    for name, setting in _GROUP_SETTINGS.items():
        if name in stored:
            value, source = clamped[name]
            found[name] = (str(value).lower() if isinstance(value, bool) else str(value), source)
        elif name in values:
            found[name] = values[name]  # the broker's own, or Kafka's default
        elif setting.broker in (brokers or {}):
            # Brokers before 4.3 have it only as a broker setting.
            found[name] = (brokers or {})[setting.broker]
    return found


def _rows(
    scope: str, entity: str | None, values: _Reported, names: Iterable[str]
) -> Iterator[_Row]:
    """Yield one row per setting; a broker that omits a setting does not have or expose it."""
    for name in names:
        if name in values if values is not None else name not in _LATER:
            value, source = (None, None) if values is None else values[name]
            yield _row(scope, entity, name, value, source)


def _row(scope: str, entity: str | None, name: str, value: str | None, source: str | None) -> _Row:
    return {"scope": scope, "entity": entity, "name": name, "value": value, "source": source}


def _share_version(config: ClientConfig) -> Iterator[_Row]:
    """Yield the level of the feature that turns dead-letter queues on, where a broker tells it."""
    try:
        level = broker_features(config).share_version
    except ClusterError as error:
        _LOG.warning("the level of %s is unknown: %s", SHARE_VERSION, error)
    else:
        yield _row("broker", None, SHARE_VERSION, str(level), "feature")
