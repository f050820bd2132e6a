"""Prometheus metrics of share groups, and of the collection itself.

An unknown value is a missing series: -1 and 0 would be numbers that somebody adds up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
from prometheus_client import CollectorRegistry, write_to_textfile
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sharelag.errors import InputError
from sharelag.metrics.evidence import Evidence
from sharelag.metrics.facts import Bools, Facts, Floats
from sharelag.metrics.imbalance import imbalance_arrow
from sharelag.metrics.lag import rollup_arrow
from sharelag.monitoring.exports.gathered import Gathered
from sharelag.schemas import SHARE_PARTITION
from sharelag.schemas.arrow import keys
from sharelag.tables.words import label

_LABELS = ("group", "topic", "partition")
#: Metrics of each share partition: name, help, column of its numbers.
_OF_LAG = (
    (
        "kafka_share_group_lag",
        "End offset - start offset - delivery complete count (KIP-1226).",
        "lag",
    ),
    (
        "kafka_share_group_start_offset",
        "The share-partition start offset, as persisted.",
        "start_offset",
    ),
    (
        "kafka_share_group_delivery_complete_count",
        "Records completed at or after the start offset, as persisted.",
        "delivery_complete_count",
    ),
)
#: Values of the label `state`, and the columns of their numbers.
_WINDOW = (
    ("available", "window_available"),
    ("unknown", "window_unknown"),
    ("complete", "window_complete"),
)
#: Metrics of each group: name, help, key of `scaling`.
_OF_GROUP = (
    ("kafka_share_group_sum_lag", "Total lag of the share partitions of the group.", "lag"),
    (
        "kafka_share_group_sum_lag_excluding_stuck",
        "Total lag without what more consumers cannot finish, such as records that always fail.",
        "lag_excluding_stuck",
    ),
    (
        "kafka_share_group_unknown_lags",
        "Share partitions of the group whose lag is unknown.",
        "unknown_lags",
    ),
    ("kafka_share_group_members", "Members of the group, by its own records.", "members"),
)


class ShareGroupCollector(Collector):
    """A collector for the official client library.

    Parameters
    ----------
    gathered : callable
        Returns the latest result, as `sharelag.monitoring.exports.gathered.gathering` yields it.
    """

    def __init__(self, gathered: Callable[[], Gathered]) -> None:
        self._gathered = gathered

    def collect(self) -> Iterable[Metric]:
        """Yield all metrics; those of share groups only if the last collection succeeded."""
        gathered = self._gathered()
        if gathered.evidence is not None:
            yield from _share_partitions(gathered.evidence)
            yield from _groups(gathered.evidence, gathered.groups)
        yield from _of_gathering(gathered)

    def describe(self) -> Iterable[Metric]:
        """Return nothing: a registry would collect everything just for the names."""
        return []


def registry_of(gathered: Callable[[], Gathered]) -> CollectorRegistry:
    """Return a registry with these metrics only, without those of this process."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ShareGroupCollector(gathered))
    return registry


def write_textfile(gathered: Gathered, file: Path) -> None:
    """Write the metrics for node_exporter's textfile collector, atomically.

    Raises
    ------
    InputError
        When the file cannot be written.
    """
    try:
        write_to_textfile(str(file), registry_of(lambda: gathered))
    except OSError as error:
        raise InputError(
            f"cannot write {file} ({error.strerror}): choose a file in an existing directory"
        ) from error


def _share_partitions(evidence: Evidence) -> Iterator[Metric]:
    facts = Facts.of(evidence)
    chosen = _named_uniquely(evidence)
    labels = [
        [str(row["group_id"]), str(row["topic"]), str(row["partition"])]
        for row in evidence.lag.select(["group_id", "topic", "partition"]).to_pylist()
    ]
    for name, words, column in _OF_LAG:
        yield _gauge(name, words, _LABELS, labels, facts.lag(column), chosen)
    words = "Age of the oldest unfinished record."
    age = facts.progress("age_ms") / 1000
    yield _gauge("kafka_share_group_oldest_unacked_seconds", words, _LABELS, labels, age, chosen)
    words = (
        "Records in the window: available again, complete, "
        "or unknown (acquired, or their state never persisted)."
    )
    family = GaugeMetricFamily(
        "kafka_share_group_window_records", words, labels=[*_LABELS, "state"]
    )
    for state, column in _WINDOW:
        _add(family, [[*one, state] for one in labels], facts.lag(column), chosen)
    yield family


def _groups(evidence: Evidence, groups: Mapping[str, Mapping[str, Any]]) -> Iterator[Metric]:
    labels = [[group] for group in groups]
    everyone = np.ones(len(groups), bool)
    for name, words, key in _OF_GROUP:
        values = np.array(
            [math.nan if one[key] is None else one[key] for one in groups.values()], float
        )
        yield _gauge(name, words, ["group"], labels, values, everyone)
    left = Facts.of(evidence).left_lag
    greatest = {row["group_id"]: row["max_lag"] for row in rollup_arrow(left, "group").to_pylist()}
    words = "The largest lag of a share partition."
    values = np.array(
        [
            math.nan if numbers["lag"] is None or greatest[group] is None else greatest[group]
            for group, numbers in groups.items()
        ],
        float,
    )
    yield _gauge("kafka_share_group_max_lag", words, ["group"], labels, values, everyone)
    even = {
        row["group_id"]: row["max_mean"]
        for row in imbalance_arrow(left, by="partition").to_pylist()
        if row["topic_id"] is None
        and row["measure"] == "lag"
        and row["max_mean"] is not None
        and not row["unknown"]
    }
    words = "The largest lag of a share partition divided by the group's mean: 1 is even."
    values = np.array([even.get(group, math.nan) for group in groups], float)
    yield _gauge("kafka_share_group_imbalance_ratio", words, ["group"], labels, values, everyone)


def _of_gathering(gathered: Gathered) -> Iterator[Metric]:
    succeeded = GaugeMetricFamily(
        "kafka_share_group_last_success_timestamp_seconds", "Time of the last collection."
    )
    if gathered.succeeded is not None:
        succeeded.add_metric([], gathered.succeeded)
    took = GaugeMetricFamily(
        "kafka_share_group_collect_duration_seconds", "Duration of the last collection."
    )
    if gathered.seconds is not None:
        took.add_metric([], gathered.seconds)
    attempts = CounterMetricFamily(
        "kafka_share_group_collect_attempts",
        "Attempted collections since the start.",
    )
    attempts.add_metric([], gathered.attempts)
    errors = CounterMetricFamily(
        "kafka_share_group_collect_errors",
        "Failed collections since the start, by kind of error.",
        labels=["kind"],
    )
    for kind, count in sorted(gathered.errors.items()):
        errors.add_metric([kind], count)
    yield from (succeeded, took, attempts, errors)


def _named_uniquely(evidence: Evidence) -> Bools:
    """Select the share partitions whose topic name is known and that have one state only."""
    key = keys(evidence.lag, SHARE_PARTITION)
    codes = key.dictionary_encode().indices.to_numpy()
    has_topic = pc.is_valid(evidence.lag.column("topic")).to_numpy()
    return (
        np.asarray(has_topic & (np.bincount(codes)[codes] == 1), bool)
        if len(codes)
        else np.zeros(0, bool)
    )


def _gauge(
    name: str,
    words: str,
    names: Iterable[str],
    labels: list[list[str]],
    values: Floats,
    chosen: Bools,
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, words, labels=list(names))
    _add(family, labels, values, chosen)
    return family


def _add(family: GaugeMetricFamily, labels: list[list[str]], values: Floats, chosen: Bools) -> None:
    for place in np.flatnonzero(chosen & ~np.isnan(values)).tolist():
        family.add_metric([label(one) for one in labels[place]], float(values[place]))
