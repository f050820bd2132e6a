"""Metrics of brokers beside what was read: `with_metrics`, and what of them is not known."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.engine import Once
from sharelag.inputs import Input
from sharelag.inputs.measured import read_metrics
from sharelag.metrics.evidence import Evidence
from sharelag.metrics.measured import (
    CLOSE,
    about_share_groups,
    acknowledgement_words,
    letter_words,
    measured_arrow,
)
from sharelag.model.versions import told
from sharelag.tables import views
from sharelag.workbench.result import Result

_NOT_CLOSE = (
    f"what brokers measured then: no metrics of a share partition within {CLOSE.seconds} s of that "
    "moment"
)
_NOT_LOADED = (
    "what is in flight: the metrics that were read have none of these share partitions; brokers "
    "have them where they lead them, and from Kafka 4.4 on only while the group has members"
)
_SEVERAL = "which broker leads some share partitions, as several {} have metrics of them{}"
_NAME = ": name the broker of each place, 1=FILE_OR_URL"
_EARLIER = (
    "what is in flight: a broker has loaded share partitions more than once, and its gauges may "
    "be of an earlier load; two readings between which a gauge changes tell"
)


@dataclass(frozen=True)
class BrokerMetrics:
    """Files and addresses with metrics, each read once."""

    places: tuple[str | Path, ...]
    timeout: float = 10.0
    _once: Once = field(default_factory=Once, init=False, compare=False, repr=False)

    @property
    def table(self) -> pa.Table:
        """`sharelag.schemas.BROKER_METRICS`."""
        return self._once("table", lambda: read_metrics(self.places, self.timeout))

    def words(self, groups: Collection[str] | None = None) -> tuple[str, ...]:
        """How members acknowledged records, by broker, and the letters of groups; None: of all."""
        return (*acknowledgement_words(self.table), *letter_words(self.table, groups))


def metrics_of(
    places: str | Path | Sequence[str | Path] | None, timeout: float
) -> BrokerMetrics | None:
    """Return the metrics of one place or of several; None without any."""
    if places is None:
        return None
    given = (places,) if isinstance(places, str | Path) else tuple(places)
    return BrokerMetrics(given, timeout) if given else None


def with_metrics(evidence: Evidence, metrics: BrokerMetrics | None, source: Input) -> Evidence:
    """Add what brokers measured of the share partitions of an input to evidence of it."""
    if metrics is None:
        return evidence
    found = measure_beside(evidence.lag, metrics, evidence.as_of, source)
    return replace(evidence, measured=found)


def measure_beside(
    lag: pa.Table, metrics: BrokerMetrics, as_of: datetime, source: Input
) -> pa.Table:
    """Return what brokers measured of an input's share partitions: `sharelag.schemas.MEASURED`."""
    return measured_arrow(lag, metrics.table, as_of, told(source.kafka_version))


def unknown_of(measured: pa.Table, metrics: BrokerMetrics | None) -> tuple[str, ...]:
    """Say why brokers' metrics describe no share partition, where that is so."""
    if metrics is None or not measured.num_rows:
        return ()
    if measured.column("in_flight_offsets").null_count < measured.num_rows:
        return ()
    of_groups = pc.is_in(
        metrics.table.column("group_id"), value_set=pc.unique(measured.column("group_id"))
    )
    is_gauge = pc.equal(metrics.table.column("metric"), "InFlightMessageCount")
    gauges = metrics.table.filter(pc.and_(is_gauge, of_groups))
    if not gauges.num_rows:
        return (_NOT_LOADED,)
    is_read = measured.column("lock_timeouts").null_count < measured.num_rows
    return (*_several(gauges), *([_EARLIER] if is_read else [])) or (_NOT_CLOSE,)


def _several(gauges: pa.Table) -> tuple[str, ...]:
    """Say where several places have gauges of one share partition."""
    place = pc.coalesce(gauges.column("broker").cast(pa.string()), gauges.column("read_from"))
    places = (
        gauges.append_column("place", place)
        .group_by(["group_id", "topic", "partition"])
        .aggregate([("place", "count_distinct")])
    )
    several = places.filter(pc.greater(places.column("place_count_distinct"), 1))
    if not several.num_rows:
        return ()
    is_named = gauges.column("broker").null_count == 0
    return (_SEVERAL.format(*(("brokers", "") if is_named else ("places", _NAME))),)


def metrics_answer(
    metrics: BrokerMetrics, groups: Collection[str] | None, everything: bool
) -> Result:
    """Return the figures of some groups or all, with how members acknowledged records."""
    table = metrics.table if everything else about_share_groups(metrics.table)
    if groups is not None:
        chosen = pa.array(sorted(groups), pa.string())
        table = table.filter(pc.is_in(table.column("group_id"), value_set=chosen))
    at = pc.max(table.column("as_of")).as_py() or datetime.now(UTC)
    return Result(
        "What brokers measure",
        table,
        views.BROKER_METRICS.columns,
        at,
        ", ".join(sorted(set(metrics.table.column("read_from").to_pylist()))),
        means=views.BROKER_METRICS.means,
        notes=metrics.words(groups),
    )
