"""Metrics of brokers and clients, from files and live addresses.

Formats are Prometheus exposition and the four of Kafka's JmxTool; names are those of MBeans, or
those into which the Prometheus JMX exporter translates them.
"""

from __future__ import annotations

import math
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from http.client import HTTPException
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import pyarrow as pa

from sharelag.errors import InputError
from sharelag.inputs.files.raw_files import absolute
from sharelag.inputs.texts import text_of
from sharelag.schemas import BROKER_METRICS

_ADDRESS = re.compile(r"https?://", re.IGNORECASE)
_OTHER = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_TAKES = "a file with metrics, or http://HOST:PORT/metrics"
_TEXTS = "what JmxTool printed, or Prometheus text"
_NAMED = re.compile(r"([\w.-]+)=(.+)", re.DOTALL)
#: Maximum size of a file or response in bytes; all metrics of a large broker are a tenth of it.
MOST_BYTES = 256 << 20


def read_metrics(places: Sequence[str | Path], timeout: float = 10.0) -> pa.Table:
    """Read `sharelag.schemas.BROKER_METRICS` from files and addresses.

    Addresses are such as ``http://broker:7071/metrics``; ``1=FILE`` names broker 1 as its origin.
    Several readings of one broker give rates. Figures of a file of Prometheus text without
    timestamps are as old as the file. A place that cannot be read, or holds no metrics, is an
    InputError.
    """
    found = [_read(str(place), timeout) for place in places]
    return pa.concat_tables([BROKER_METRICS.empty_table(), *found])


def _read(place: str, timeout: float) -> pa.Table:
    broker, place = _split_broker(place)
    if _ADDRESS.match(place):
        text, shown, at = _fetch(place, timeout)
    elif other := _OTHER.match(place):  # the rest may contain a password
        raise InputError(f"{other[0]} addresses are not read: give {_TAKES}")
    else:
        text, shown, at = _file(Path(place))
    return metrics_of(text, shown, at, broker)


def _split_broker(place: str) -> tuple[str | None, str]:
    """Split a place into its broker, if named, and the rest."""
    named = None if Path(place).exists() else _NAMED.fullmatch(place)
    return (named[1], named[2]) if named else (None, place)


def from_root(place: str | Path) -> str:
    """Return a place of metrics with an absolute path, for reading it again."""
    broker, where = _split_broker(str(place))
    return absolute(where) if broker is None else f"{broker}={absolute(where)}"


def _file(path: Path) -> tuple[str, str, datetime]:
    try:
        with path.open("rb") as file:
            content = _content(file)
        at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): give {_TAKES}") from error
    return _text(content, str(path)), str(path), at


def _fetch(address: str, timeout: float) -> tuple[str, str, datetime]:
    parts = urlsplit(address)
    # A query may contain a token: it is sent, but never shown.
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    if "@" in parts.netloc:
        raise InputError(f"remove the password from the address {shown}: it would not be sent")
    opener = urllib.request.build_opener(_NoRedirect())
    try:
        with opener.open(address, timeout=timeout) as answer:
            content = _content(answer)
    except (OSError, HTTPException, ValueError) as error:
        why = error.reason if isinstance(error, urllib.error.URLError) else error
        raise InputError(
            f"{shown} has no metrics that can be read ({why}): check the address"
        ) from error
    return _text(content, shown), shown, datetime.now(UTC)


def _content(file: BinaryIO) -> bytes:
    """Read a file, but no more than shows that it is too large."""
    pieces, size = [], 0  # a single read would allocate the maximum size for the smallest file
    while size <= MOST_BYTES and (piece := file.read(1 << 20)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Reject redirections: requests go only to the addresses that the user gave."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _text(content: bytes, shown: str) -> str:
    if len(content) > MOST_BYTES:
        raise InputError(f"{shown} is larger than {MOST_BYTES >> 20} MiB: give the metrics alone")
    try:
        return text_of(content)
    except UnicodeDecodeError as error:
        raise InputError(f"{shown} is not text: give metrics as text, not compressed") from error


# ---- texts with metrics --------------------------------------------------------------------------


_NUMBER = r"[-+]?(?:\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|NaN|Infinity)"
#: Formats with one number per line, by the separator of name and number.
_LINES = {
    "time=": re.compile(rf"(.+)=({_NUMBER})"),
    "time\t": re.compile(rf"(.+)\t({_NUMBER})"),
    'time,"': re.compile(rf'(.+),"({_NUMBER})"'),
}
_HEADER = '"time",'
_LAST = datetime(9999, 1, 1, tzinfo=UTC).timestamp()

_Sample: TypeAlias = "tuple[datetime, Name, float]"


def metrics_of(text: str, source: str, at: datetime, broker: str | None = None) -> pa.Table:
    """Parse text as `sharelag.schemas.BROKER_METRICS`; InputError if it has no metrics.

    The text is Prometheus exposition, or the output of ``kafka-run-class.sh
    org.apache.kafka.tools.JmxTool`` in any ``--report-format``, possibly repeated
    (``--reporting-interval``). ``at`` is the time of reading, unless the text has one. JMX
    attributes with text values are left out, and NaN becomes null.
    """
    start = next((mark for mark in (_HEADER, *_LINES) if text.startswith(mark)), None)
    try:
        if start is None:
            found = _prometheus(text, at)
        else:
            found = _wide(text) if start == _HEADER else _by_line(text, _LINES[start])
        rows = []
        for when, name, value in found:
            row = {"broker": None} | row_of(name) | ({"broker": broker} if broker else {})
            known = None if math.isnan(value) else value
            rows.append(row | {"as_of": when, "read_from": source, "figure": known})
    except (ValueError, KeyError, IndexError, OverflowError) as error:
        why = f" that can be read ({str(error)[:200]!r})"
        raise InputError(f"{source} has no metrics{why}: give {_TEXTS}") from error
    if not rows:
        raise InputError(f"{source} has no metrics: give {_TEXTS}")
    return pa.Table.from_pylist(rows, schema=BROKER_METRICS)


def _prometheus(text: str, at: datetime) -> Iterator[_Sample]:
    from prometheus_client.parser import text_string_to_metric_families

    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            when = at if sample.timestamp is None else _time(float(sample.timestamp))
            yield when, of_prometheus(sample.name, sample.labels), float(sample.value)


def _wide(text: str) -> Iterator[_Sample]:
    """Yield samples from JmxTool's default output: a line of names, then one line per reading."""
    names: list[str] = []
    for line in text.splitlines():
        if line.startswith(_HEADER):
            names = line[1:-1].split('","')
            continue
        values = line.split(",")
        if len(values) != len(names):
            raise ValueError(
                f"{len(values)} values for {len(names)} names: a value has a comma, print "
                "--report-format properties"
            )
        when = _time(int(values[0]) / 1000)
        for name, value in zip(names[1:], values[1:], strict=True):
            known = of_mbean(name)
            if known is not None and re.fullmatch(_NUMBER, value):
                yield when, known, _number(value)


def _by_line(text: str, pattern: re.Pattern[str]) -> Iterator[_Sample]:
    when: datetime | None = None
    for line in text.splitlines():
        found = pattern.fullmatch(line)
        if found is None:
            continue  # text values, of one line or several
        if found[1] == "time":
            when = _time(int(found[2]) / 1000)
        elif when is not None and (name := of_mbean(found[1])) is not None:
            yield when, name, _number(found[2])


def _number(text: str) -> float:
    return float(text.replace("Infinity", "inf"))


def _time(seconds: float) -> datetime:
    if not 0 <= seconds < _LAST:
        raise ValueError(f"{seconds} is not a time in seconds since 1970")
    return datetime.fromtimestamp(seconds, UTC)


# ---- names of metrics ----------------------------------------------------------------------------


#: Attributes of Kafka's meters, histograms and gauges.
_METER = ("Count", "MeanRate", "OneMinuteRate", "FiveMinuteRate", "FifteenMinuteRate")
_SPREAD = ("Count", "Min", "Max", "Mean", "StdDev")
_GAUGE = ("Value",)
_COORDINATOR = "kafka.server:type=group-coordinator-metrics"
#: Metrics about share groups of Kafka 4.4.0, by MBean, with the attributes of each.
METRICS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "kafka.server:type=ShareGroupMetrics": {
        "RecordAcknowledgementsPerSec": _METER,
        **dict.fromkeys(("PartitionLoadTimeMs", "RequestTopicPartitionsFetchRatio"), _SPREAD),
        "TopicPartitionsAcquireTimeMs": _SPREAD,
        # since 4.4, of a group from its first letter on
        "DeadLetterQueueRecordCount": _METER,
        "DeadLetterQueueTotalProduceRequestsPerSec": _METER,
        "DeadLetterQueueFailedProduceRequestsPerSec": _METER,
    },
    "kafka.server:type=SharePartitionMetrics": {
        "AcquisitionLockTimeoutPerSec": _METER,
        "FetchLockRatio": _SPREAD,
        "FetchLockTimeMs": _SPREAD,
        "InFlightBatchCount": _GAUGE,
        "InFlightBatchMessageCount": _SPREAD,
        "InFlightMessageCount": _GAUGE,
    },
    "kafka.server:type=ShareSessionCache": {
        **dict.fromkeys(("SharePartitionsCount", "ShareSessionsCount"), _GAUGE),
        "ShareSessionEvictionsPerSec": _METER,
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
    "kafka.server:type=share-coordinator-metrics": dict.fromkeys(
        (
            *("num-partitions", "partition-load-time-avg", "partition-load-time-max"),
            *("write-rate", "write-total", "write-latency-avg", "write-latency-max"),
        ),
        _GAUGE,
    ),
}
#: Names of metrics in early drafts of KIP-932; only with the tag ``protocol=share``.
_LEGACY = {
    "offset-commit-count": "share-acknowledgement-count",
    "offset-commit-rate": "share-acknowledgement-rate",
}
_TAGS = {"group": "group_id", "groupid": "group_id", "topic": "topic", "partition": "partition"}
_TAGS |= {"acktype": "ack_type", "clientinstanceid": "client_instance_id"}
#: Labels that commonly identify brokers.
_BROKER = ("broker", "brokerid", "nodeid", "instance")
_PROPERTY = re.compile(r'([^=,]+)=("(?:[^"\\]|\\.)*"|[^,]*)(?:,|$)', re.DOTALL)
_QUOTED = re.compile(r"\\(.)", re.DOTALL)
_WITH_GROUP = re.compile(r"(\w+?)_group_(.+?)((?:_count)?(?:_total)?)")
_GROUP_TOPIC = re.compile(r"group_(.+)_topic")
_NOT_A_LETTER = re.compile(r"[^a-z0-9]")


class Name(NamedTuple):
    """The parts of a metric's name; None if the name lacks them."""

    mbean: str | None
    metric: str
    attribute: str | None
    labels: dict[str, str]


def of_mbean(text: str) -> Name | None:
    """Parse ``kafka.server:type=X,name=Y,group=g:Count`` of JmxTool; None for any other text.

    Kafka's older metrics have their name in the property ``name``, newer ones in the attribute.
    """
    object_name, _, attribute = text.rpartition(":")
    domain, colon, properties = object_name.partition(":")
    if not (colon and domain and attribute):
        return None
    pairs = {key: _unquote(value) for key, value in _PROPERTY.findall(properties)}
    kind = pairs.pop("type", None)
    mbean = domain if kind is None else f"{domain}:type={kind}"
    if "name" in pairs:
        return Name(mbean, pairs.pop("name"), attribute, pairs)
    return Name(mbean, attribute, "Value", pairs)


def of_prometheus(name: str, labels: Mapping[str, str]) -> Name:
    """Find the MBean of a JMX exporter sample, by the exporter's common or default rules.

    Both may write in lower case, with ``-`` and ``.`` as ``_``. The exporter's example for Kafka
    has rules for two labels: of three, the group becomes a part of the name, or of the topic's
    label, from which it is parsed. Any other sample keeps its name.
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
    """Map names that the exporter's rules give to known metrics, in letters and digits."""
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
                # The exporter drops a counter's suffix from names of other types.
                found.setdefault(bean + whole.removesuffix("total"), (mbean, metric, "Value"))
            if "OneMinuteRate" in attributes:
                for ending in ("", "total", "count"):
                    found[bean + short + ending] = (mbean, metric, "Count")
                found[bean + whole + "total"] = (mbean, metric, "Count")
            elif "Mean" in attributes:  # the rules put quantiles in a label
                found.setdefault(bean + whole, (mbean, metric, "Mean"))
    return found


def row_of(name: Name) -> dict[str, object]:
    """Return the columns of `sharelag.schemas.BROKER_METRICS` that a name determines."""
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


def _unquote(value: str) -> str:
    """Undo ``javax.management.ObjectName.quote``."""
    if len(value) < 2 or not (value.startswith('"') and value.endswith('"')):
        return value
    return _QUOTED.sub(lambda found: "\n" if found[1] == "n" else found[1], value[1:-1])
