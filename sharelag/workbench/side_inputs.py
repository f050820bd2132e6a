"""A broker's request log and brokers' metrics, in addition to the input."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.engine import Once
from sharelag.errors import InputError
from sharelag.inputs import Input
from sharelag.inputs.files.request_log import RequestLog, lacking_requests
from sharelag.inputs.measured import from_root, read_metrics
from sharelag.metrics.holders import holders_arrow
from sharelag.metrics.measured import (
    CLOSE,
    about_share_groups,
    acknowledgement_words,
    letter_words,
    measured_arrow,
)
from sharelag.metrics.requests import (
    batching,
    check_requests,
    leader_epochs_of_records,
    memberships,
    partial_deletes_of_records,
    request_errors,
    sessions,
)
from sharelag.model import iso
from sharelag.model.versions import resolve_version
from sharelag.replay.holds import held_at, holds_of
from sharelag.schemas import HOLDERS, REQUEST_TABLES, Arrow
from sharelag.tables import views
from sharelag.tables.words import pluralize
from sharelag.wire.requests.lines import BESIDE, OWN, TAKEN
from sharelag.workbench.result import Result

_DERIVED = {
    "memberships": memberships,
    "sessions": sessions,
    "batching": batching,
    "errors": request_errors,
}
#: Names of the tables of a request log.
NAMES = ("held", "holds", "findings", *_DERIVED, *REQUEST_TABLES)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Requests:
    """The tables of a request log, each computed once."""

    log: RequestLog
    _once: Once = field(default_factory=Once, init=False, compare=False, repr=False)

    def table(
        self, name: str, as_of: datetime | None = None, history: Arrow | None = None
    ) -> pa.Table:
        """Return a table by name, one of `NAMES`.

        ``held`` is `holds` at ``as_of``, by default the end of the log; ``history``, of the same
        cluster, is for ``findings`` about records.
        """
        if name not in NAMES:
            raise InputError(f"unknown table {name!r}: choose one of {', '.join(NAMES)}")
        if name != "rejects":
            self._require_some()
        if name in REQUEST_TABLES:
            return self.log.tables[name]
        if name == "findings":
            return self.findings(history)
        if name in _DERIVED:
            return self._once(name, lambda: _DERIVED[name](self.log.tables))
        if name == "holds":
            return self.holds
        end = self.log.covers[1] if self.log.covers else 0
        at = end if as_of is None else _micros(as_of)
        if not self._is_covered(at):
            raise InputError(f"{self.span()}, which does not include that moment")
        return held_at(self.holds, at)

    @property
    def holds(self) -> pa.Table:
        """Return `sharelag.schemas.HOLDS`."""
        return self._once("holds", lambda: holds_of(self.log.tables))

    def findings(self, history: Arrow | None = None) -> pa.Table:
        """Return `sharelag.schemas.REQUEST_FINDINGS`, by time."""
        self._require_some()
        found = [check_requests(self.log.tables, history)]
        if history is not None:
            found += [leader_epochs_of_records(history), partial_deletes_of_records(history)]
        both = pa.concat_tables(found)
        # A defect that both the log and the records show counts once.
        same = ["finding", "group_id", "topic_id", "partition", "member_id", "summary"]
        firsts = both.group_by(same).aggregate([("timestamp", "min")])
        firsts = firsts.rename_columns([*same, "timestamp"]).select(both.column_names)
        return firsts.cast(both.schema).sort_by([("timestamp", "ascending")])

    def holders(self, lag: Arrow, windows: Arrow, as_of: datetime) -> pa.Table:
        """Return `sharelag.schemas.HOLDERS`; no rows where the log lacks the moment."""
        self._require_some()
        at = _micros(as_of)
        if not self._is_covered(at):
            return HOLDERS.empty_table()
        return holders_arrow(lag, windows, self.log.tables, self.holds, at)

    def _is_covered(self, at: int) -> bool:
        covers = self.log.covers
        return covers is not None and covers[0] <= at <= covers[1]

    @property
    def lacks(self) -> tuple[str, ...]:
        """Return the gaps of answers: whether many requests could not be read."""
        counts = self.log.counts
        return lacking_requests(self.log.path, counts)

    def _require_some(self) -> None:
        """Raise `InputError` if no request of the log could be read."""
        _ = self.lacks

    def words(self, as_of: datetime) -> tuple[str]:
        """Return the span of the log in words, and whether it includes a moment."""
        is_covered = self._is_covered(_micros(as_of))
        lacks = "" if is_covered else "; who holds what at the moment above is not known"
        return (f"{self.span()}{lacks}",)

    def span(self) -> str:
        """Return the span of the log in words."""
        if self.log.covers is None:
            return "no request about share groups could be read"
        first, last = (iso(_EPOCH + timedelta(microseconds=at)) for at in self.log.covers)
        return f"the request log covers {first} to {last}, its times {self._zones()}"

    def _zones(self) -> str:
        """Return the time zones of the log, and their origin, in words."""
        unnamed = "read as UTC, since they name no zone: name it if it is another"
        words = {
            OWN: "have their own zone",
            BESIDE: "are in the zone derived from a collector's times beside them",
            TAKEN: f"read as {self.log.zone}" if self.log.zone else unnamed,
        }
        return ", or ".join(words[one] for one in words if one in self.log.zone_sources)

    def summary(self) -> str:
        """Return the number of lines in words."""
        count, skipped = self.log.line_counts
        rejects = self.log.tables["rejects"].num_rows
        return (
            f"{pluralize(count, 'line')}: "
            f"{pluralize(count - skipped - rejects, 'request')} about share groups, "
            f"{rejects:,} that could not be read, {pluralize(skipped, 'other')} skipped"
        )


def _micros(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)


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
    "be of an earlier load; two readings between which a gauge changes show it"
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
        """Return acknowledgements by broker and letters by group in words; None: all groups."""
        return (*acknowledgement_words(self.table), *letter_words(self.table, groups))

    def beside(self, lag: pa.Table, as_of: datetime, source: Input) -> pa.Table:
        """Return the metrics of share partitions of an input, as `sharelag.schemas.MEASURED`."""
        return measured_arrow(lag, self.table, as_of, resolve_version(source.kafka_version))

    def unknown(self, measured: pa.Table) -> tuple[str, ...]:
        """Say why the metrics describe no share partition, if that is the case."""
        if not measured.num_rows:
            return ()
        if measured.column("in_flight_offsets").null_count < measured.num_rows:
            return ()
        groups = pc.unique(measured.column("group_id"))
        of_groups = pc.is_in(self.table.column("group_id"), value_set=groups)
        is_gauge = pc.equal(self.table.column("metric"), "InFlightMessageCount")
        gauges = self.table.filter(pc.and_(is_gauge, of_groups))
        if not gauges.num_rows:
            return (_NOT_LOADED,)
        is_read = measured.column("lock_timeouts").null_count < measured.num_rows
        return (*_several(gauges), *([_EARLIER] if is_read else [])) or (_NOT_CLOSE,)


def metrics_of(
    places: str | Path | Sequence[str | Path] | None, timeout: float
) -> BrokerMetrics | None:
    """Return the metrics of one or several places; None without any."""
    if places is None:
        return None
    given = (places,) if isinstance(places, str | Path) else tuple(places)
    return BrokerMetrics(tuple(map(from_root, given)), timeout) if given else None


def _several(gauges: pa.Table) -> tuple[str, ...]:
    """Say if several places have gauges of one share partition."""
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
    """Return the figures of some groups or all, with notes on acknowledgements."""
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
