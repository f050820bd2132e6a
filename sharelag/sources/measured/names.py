"""Names of Kafka's metrics: MBeans, and what the Prometheus JMX exporter makes of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

#: Attributes of Kafka's meters, histograms and gauges.
_METER = ("Count", "MeanRate", "OneMinuteRate", "FiveMinuteRate", "FifteenMinuteRate")
_SPREAD = ("Count", "Min", "Max", "Mean", "StdDev")
_GAUGE = ("Value",)
_SHARE_GROUP = "kafka.server:type=ShareGroupMetrics"
_SHARE_PARTITION = "kafka.server:type=SharePartitionMetrics"
_SESSIONS = "kafka.server:type=ShareSessionCache"
_COORDINATOR = "kafka.server:type=group-coordinator-metrics"
_STATE = "kafka.server:type=share-coordinator-metrics"
#: Metrics about share groups of Kafka 4.4.0, by MBean, with the attributes of each.
METRICS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    _SHARE_GROUP: {
        "RecordAcknowledgementsPerSec": _METER,
        "PartitionLoadTimeMs": _SPREAD,
        "RequestTopicPartitionsFetchRatio": _SPREAD,
        "TopicPartitionsAcquireTimeMs": _SPREAD,
        # since 4.4, of a group from its first letter on
        "DeadLetterQueueRecordCount": _METER,
        "DeadLetterQueueTotalProduceRequestsPerSec": _METER,
        "DeadLetterQueueFailedProduceRequestsPerSec": _METER,
    },
    _SHARE_PARTITION: {
        "AcquisitionLockTimeoutPerSec": _METER,
        "FetchLockRatio": _SPREAD,
        "FetchLockTimeMs": _SPREAD,
        "InFlightBatchCount": _GAUGE,
        "InFlightBatchMessageCount": _SPREAD,
        "InFlightMessageCount": _GAUGE,
    },
    _SESSIONS: {
        "SharePartitionsCount": _GAUGE,
        "ShareSessionEvictionsPerSec": _METER,
        "ShareSessionsCount": _GAUGE,
    },
    _COORDINATOR: dict.fromkeys(
        (
            *("group-count", "share-group-count", "num-partitions"),
            *("share-group-rebalance-count", "share-group-rebalance-rate"),
            *("rebalance-count", "rebalance-rate"),
            *("share-acknowledgement-count", "share-acknowledgement-rate"),
            *("record-acknowledgement-count", "record-acknowledgement-rate"),
            *("offset-commit-count", "offset-commit-rate"),
            *("partition-load-time-avg", "partition-load-time-max"),
        ),
        _GAUGE,
    ),
    _STATE: dict.fromkeys(
        (
            *("num-partitions", "partition-load-time-avg", "partition-load-time-max"),
            *("write-rate", "write-total", "write-latency-avg", "write-latency-max"),
        ),
        _GAUGE,
    ),
}
#: What KIP-932 called metrics while under discussion; only with the tag ``protocol=share``.
_LEGACY = {
    "offset-commit-count": "share-acknowledgement-count",
    "offset-commit-rate": "share-acknowledgement-rate",
}
_TAGS = {
    "group": "group_id",
    "groupid": "group_id",
    "topic": "topic",
    "partition": "partition",
    "acktype": "ack_type",
    "clientinstanceid": "client_instance_id",
}
#: Labels by which people tell brokers apart.
_BROKER = ("broker", "brokerid", "nodeid", "instance")
_PROPERTY = re.compile(r'([^=,]+)=("(?:[^"\\]|\\.)*"|[^,]*)(?:,|$)', re.DOTALL)
_QUOTED = re.compile(r"\\(.)", re.DOTALL)
_WITH_GROUP = re.compile(r"(\w+?)_group_(.+?)((?:_count)?(?:_total)?)")
_GROUP_TOPIC = re.compile(r"group_(.+)_topic")
_NOT_A_LETTER = re.compile(r"[^a-z0-9]")


class Name(NamedTuple):
    """What a name tells; None where it does not."""

    mbean: str | None
    metric: str
    attribute: str | None
    labels: dict[str, str]


def of_mbean(text: str) -> Name | None:
    """Read ``kafka.server:type=X,name=Y,group=g:Count``, as JmxTool writes it; None if it is not.

    Kafka's older metrics have their name in the property ``name``, its newer ones in the attribute.
    """
    object_name, _, attribute = text.rpartition(":")
    domain, colon, properties = object_name.partition(":")
    if not (colon and domain and attribute):
        return None
    pairs = {key: _unquoted(value) for key, value in _PROPERTY.findall(properties)}
    kind = pairs.pop("type", None)
    mbean = domain if kind is None else f"{domain}:type={kind}"
    if "name" in pairs:
        return Name(mbean, pairs.pop("name"), attribute, pairs)
    return Name(mbean, attribute, "Value", pairs)


def of_prometheus(name: str, labels: Mapping[str, str]) -> Name:
    """Find the MBean of a sample of the JMX exporter, by its common rules or by its default ones.

    Both may write in lower case, with ``-`` and ``.`` as ``_``. The exporter's example for Kafka
    has rules for two labels: of three, the group becomes a part of the name, or of the topic's
    label. It is read from there, as it was written. Another sample keeps its name.
    """
    left = dict(labels)
    titled = left.get("name")
    found = _names().get(_plain(name) + (f"/{_plain(titled)}" if titled else ""))
    if found is None and (mixed := _WITH_GROUP.fullmatch(name)):
        found = _names().get(_plain(mixed[1] + mixed[3]))
        left["group"] = mixed[2]
    for key in labels:
        if mixed := _GROUP_TOPIC.fullmatch(key):
            left |= {"group": mixed[1], "topic": left.pop(key)}
    if found is None:
        return Name(None, name, None, dict(labels))
    if titled:
        del left["name"]
    quantile = left.pop("quantile", None)
    attribute = found[2] if quantile is None else f"{quantile} quantile"
    return Name(found[0], found[1], attribute, left)


@cache
def _names() -> dict[str, tuple[str, str, str]]:
    """Every name that the exporter's rules give to a known metric, in letters and digits."""
    found: dict[str, tuple[str, str, str]] = {}
    for mbean, metrics in METRICS.items():
        bean = _plain(mbean.replace("type=", ""))
        for metric, attributes in metrics.items():
            whole, short = _plain(metric), _plain(metric.removesuffix("PerSec"))
            for attribute in attributes:
                place = (mbean, metric, attribute)
                found[f"{bean}{_plain(attribute)}/{whole}"] = place
                found[f"{bean}{whole}{_plain(attribute)}"] = place
            if "Count" in attributes:
                found[f"{bean}{whole}counttotal"] = (mbean, metric, "Count")
            if "Value" in attributes:
                found[bean + whole] = (mbean, metric, "Value")
                # The exporter removes the ending of a counter from the names of other types.
                found.setdefault(bean + whole.removesuffix("total"), (mbean, metric, "Value"))
            if "OneMinuteRate" in attributes:
                for ending in ("", "total", "count"):
                    found[bean + short + ending] = (mbean, metric, "Count")
                found[bean + whole + "total"] = (mbean, metric, "Count")
            elif "Mean" in attributes:  # the rules name the quantiles alone, by a label
                found.setdefault(bean + whole, (mbean, metric, "Mean"))
    return found


def row_of(name: Name) -> dict[str, object]:
    """Return the columns of `sharelag.schemas.BROKER_METRICS` that a name tells."""
    row: dict[str, object] = {"mbean": name.mbean, "attribute": name.attribute}
    metric = name.metric
    is_share = name.labels.get("protocol") == "share"
    is_legacy = is_share and name.mbean == _COORDINATOR and metric in _LEGACY
    row |= {"metric": _LEGACY[metric] if is_legacy else metric, "legacy": is_legacy}
    tags = []
    for key, value in name.labels.items():
        plain = _plain(key)
        if plain in _TAGS and _TAGS[plain] not in row:
            row[_TAGS[plain]] = value
        elif plain in _BROKER and "broker" not in row:
            row["broker"] = value
        else:
            tags.append(f"{key}={value}")
    if isinstance(kind := row.get("ack_type"), str):
        row["ack_type"] = kind.lower()
    if isinstance(partition := row.get("partition"), str):
        is_number = partition.isascii() and partition.isdigit() and len(partition) <= 9
        row["partition"] = int(partition) if is_number else None
        tags += [] if is_number else [f"partition={partition}"]
    return row | {"tags": sorted(tags)}


def _plain(text: str) -> str:
    return _NOT_A_LETTER.sub("", text.lower())


def _unquoted(value: str) -> str:
    """Undo ``javax.management.ObjectName.quote``."""
    if len(value) < 2 or not (value.startswith('"') and value.endswith('"')):
        return value
    return _QUOTED.sub(lambda found: "\n" if found[1] == "n" else found[1], value[1:-1])
