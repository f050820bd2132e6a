"""A broker's log of requests beside what was read: who holds what, and what the checkers found."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from sharelag.engine import Once
from sharelag.errors import InputError
from sharelag.inputs.files.request_log import RequestLog, lacking_requests
from sharelag.metrics.evidence import Evidence
from sharelag.metrics.holders import add_holders, holders_arrow
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
from sharelag.replay.holds import held_at, holds_of
from sharelag.schemas import HOLDERS, REQUEST_TABLES, Arrow
from sharelag.tables.words import counted
from sharelag.wire.requests.times import BESIDE, OWN, TAKEN

_WORKED_OUT = {
    "memberships": memberships,
    "sessions": sessions,
    "batching": batching,
    "errors": request_errors,
}
#: The names of its tables.
NAMES = ("held", "holds", "findings", *_WORKED_OUT, *REQUEST_TABLES)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Requests:
    """The tables of a log of requests, each worked out once."""

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
        if name in _WORKED_OUT:
            return self._once(name, lambda: _WORKED_OUT[name](self.log.tables))
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
        # A defect that both the log and the records show is one.
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
        """Return what answers lack, in sentences: many requests that could not be read."""
        counts = self.log.counts
        return lacking_requests(self.log.path, counts)

    def _require_some(self) -> None:
        """Refuse to say anything of a cluster by a log of which nothing could be read."""
        _ = self.lacks

    def words(self, as_of: datetime) -> tuple[str]:
        """Return from when to when the log goes, and whether that includes a moment."""
        is_covered = self._is_covered(_micros(as_of))
        lacks = "" if is_covered else "; who holds what at the moment above is not known"
        return (f"{self.span()}{lacks}",)

    def span(self) -> str:
        """Return from when to when the log goes, in words."""
        if self.log.covers is None:
            return "no request about share groups could be read"
        first, last = (iso(_EPOCH + timedelta(microseconds=at)) for at in self.log.covers)
        return f"the log of requests goes from {first} to {last}, its times {self._zones()}"

    def _zones(self) -> str:
        """Return which zones its times are in, and what tells them, in words."""
        unnamed = "taken as UTC since nothing tells their zone: name it if it is another"
        words = {
            OWN: "have their own zone",
            BESIDE: "are in the zone that a collector's times beside them tell",
            TAKEN: f"taken as {self.log.zone}" if self.log.zone else unnamed,
        }
        return ", or ".join(said for told_by, said in words.items() if told_by in self.log.told_by)

    def summary(self) -> str:
        """Return how many lines there are, in words."""
        count, skipped = self.log.counted
        rejects = self.log.tables["rejects"].num_rows
        return (
            f"{counted(count, 'line')}: "
            f"{counted(count - skipped - rejects, 'request')} about share groups, "
            f"{rejects:,} that could not be read, {counted(skipped, 'other')} skipped"
        )


def with_requests(evidence: Evidence, requests: Requests | None) -> Evidence:
    """Add who holds what to evidence and to the notes of its lag, where a log covers its moment."""
    if requests is None:
        return evidence
    holders = requests.holders(evidence.lag, evidence.windows, evidence.as_of)
    return replace(evidence, holders=holders, lag=add_holders(evidence.lag, holders))


def _micros(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)
