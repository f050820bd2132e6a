"""Metrics of brokers beside what was read: `with_metrics`, and what of them is not known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.metrics.evidence import Evidence
from sharelag.metrics.in_flight import CLOSE, measured_arrow
from sharelag.metrics.measured import about_share_groups, acknowledgement_words
from sharelag.reading.once import Once
from sharelag.sources.measured.read import read_metrics
from sharelag.tables import views
from sharelag.workbench.result import Result

_NOT_CLOSE = (
    f"what brokers measured then: no metrics of a share partition within {CLOSE.seconds} s of that "
    "moment"
)
_SEVERAL = (
    "which broker leads some share partitions, as several places have metrics of them: name the "
    "broker of each place, 1=FILE_OR_URL"
)
_EARLIER = (
    "what is in flight: the broker has loaded share partitions more than once, and its gauges may "
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

    def words(self) -> tuple[str, ...]:
        """How members acknowledged records, by broker."""
        return tuple(acknowledgement_words(self.table))


def metrics_of(
    places: str | Path | Sequence[str | Path] | None, timeout: float
) -> BrokerMetrics | None:
    """Return the metrics of one place or of several; None without any."""
    if places is None:
        return None
    given = (places,) if isinstance(places, str | Path) else tuple(places)
    return BrokerMetrics(given, timeout) if given else None


def with_metrics(evidence: Evidence, metrics: BrokerMetrics | None) -> Evidence:
    """Add what brokers measured of the share partitions to evidence."""
    if metrics is None:
        return evidence
    return replace(evidence, measured=measured_arrow(evidence.lag, metrics.table, evidence.as_of))


def unknown_of(measured: pa.Table, metrics: BrokerMetrics | None) -> tuple[str, ...]:
    """Say why brokers' metrics describe no share partition, where that is so."""
    if metrics is None or not measured.num_rows:
        return ()
    if measured.column("in_flight_offsets").null_count < measured.num_rows:
        return ()
    places = pc.coalesce(metrics.table.column("broker"), metrics.table.column("read_from"))
    spans = metrics.table.filter(pc.equal(metrics.table.column("metric"), "InFlightMessageCount"))
    is_several = spans.num_rows and len(pc.unique(places)) > 1
    if is_several:
        return (_SEVERAL,)
    is_read = measured.column("lock_timeouts").null_count < measured.num_rows
    return (_EARLIER,) if is_read else (_NOT_CLOSE,)


def metrics_answer(metrics: BrokerMetrics, group: str | None, everything: bool) -> Result:
    """The figures, with how members acknowledged records."""
    table = metrics.table if everything else about_share_groups(metrics.table)
    if group is not None:
        table = table.filter(pc.equal(table.column("group_id"), group).fill_null(False))
    at = pc.max(table.column("as_of")).as_py() or datetime.now(UTC)
    return Result(
        "What brokers measure",
        table,
        views.BROKER_METRICS.columns,
        at,
        ", ".join(sorted(set(metrics.table.column("read_from").to_pylist()))),
        means=views.BROKER_METRICS.means,
        notes=metrics.words(),
    )
