"""Read the offsets that count as lag, and count their records, aborted records and empty offsets.

Kafka's lag counts offsets. Some have no record to deliver: transaction markers, records that
compaction removed, and, for a read_committed group, records of aborted transactions.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import IsolationLevel, KafkaError
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import OffsetSpec
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.errors import ClusterError
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.client import Connection, consumer
from sharelag.inputs.kafka.config import ClientConfig
from sharelag.inputs.kafka.records import Place, place_messages, until_done
from sharelag.model import TERMINAL_STATES, DeliveryState, counts_all
from sharelag.schemas import SCANNED
from sharelag.tables.arrow import flat

_LOG = logging.getLogger(__name__)
_REFUSED = (KafkaError.TOPIC_AUTHORIZATION_FAILED,)
_AT_ONCE = 2_000  # messages
_TERMINAL = tuple(map(int, TERMINAL_STATES))


def scan(config: ClientConfig, windows: schemas.Arrow, offsets: schemas.Arrow) -> pa.Table:
    """Read all unfinished offsets of `WINDOWS` by `OFFSETS`, and count their records.

    Return `sharelag.schemas.SCANNED`, one row per window, in their order. ``unfinished`` is the
    effective lag of the same windows and offsets.

    The backlog is read once, however many groups share it, and a second time if offsets without a
    record show that transactions may have ended in it, or if much was written since. Memory does
    not grow with the backlog. Records deleted during the scan count as missing.
    """
    schemas.require(windows, schemas.WINDOWS, "windows")
    schemas.require(offsets, schemas.OFFSETS, "offsets")
    shares = _shares(windows, offsets)
    logs: dict[Place, _Log] = {}
    for share in shares:
        if share.size:
            logs.setdefault(share.place, _Log()).shares.append(share)
    answering = _ask_bounds(config, logs)
    hidden = _read(config, answering, "read_uncommitted")
    answering = {place: log for place, log in answering.items() if place[0] not in hidden}
    doubtful = {place: log for place, log in answering.items() if log.may_have_aborted}
    for share in (share for log in doubtful.values() for share in log.shares):
        share.committed = 0
    _read(config, doubtful, "read_committed")
    rows = []
    for share in shares:
        log = answering.get(share.place)
        is_counted = share.known and (log or not share.size)
        rows.append(share.columns | (share.counts(log) if is_counted else {}))
    return pa.Table.from_pylist(rows, schema=SCANNED)


# ---- what is to be counted -----------------------------------------------------------------------


@dataclass
class _Share:
    """The unfinished offsets of one share partition, as ranges, and the records found there."""

    columns: dict[str, Any]  # known before anything is read
    known: bool  # whether the ranges are known
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    seen: int = 0  # records below the last stable offset
    undecided: int = 0  # records beyond it
    committed: int | None = None  # of those seen; None: not read a second time, so all of them

    @property
    def place(self) -> Place:
        return self.columns["topic"], self.columns["partition"]

    @property
    def size(self) -> int:
        return int((self.ends - self.starts).sum())

    def among(self, offsets: NDArray[np.int64]) -> int:
        if not offsets.size:
            return 0
        near = slice(
            self.ends.searchsorted(offsets[0], "right"),
            self.starts.searchsorted(offsets[-1], "right"),
        )
        inside = offsets.searchsorted(self.ends[near]) - offsets.searchsorted(self.starts[near])
        return int(inside.sum())

    def counts(self, log: _Log | None) -> dict[str, Any]:
        records = self.seen if self.committed is None else self.committed
        first = log.start if log else 0
        deleted = int(np.maximum(np.minimum(self.ends, first) - self.starts, 0).sum())
        return {
            "records": records,
            "undecided": self.undecided,
            "aborted": self.seen - records,
            "no_record": self.size - deleted - self.seen - self.undecided,
            "deleted": deleted,
            "last_stable_offset": log.stable if log else None,
        }


@dataclass
class _Log:
    shares: list[_Share] = field(default_factory=list)
    start: int = 0
    stable: int = 0
    end: int = 0
    is_cut: bool = False  # whether reading stops before the end of the log
    records: int = 0  # read without isolation, at any offset

    @property
    def first(self) -> int:
        """The first offset that some group has not finished."""
        return max(self.start, min(int(share.starts[0]) for share in self.shares))

    def bound(self, start: int, stable: int, end: int) -> None:
        """Set log start, last stable offset and end, and choose where reading ends.

        Read to the end of the log, which shows whether there are markers of the transactions that
        wrote our records, unless reading our records twice is shorter.
        """
        self.start, self.stable, self.end = start, stable, end
        wanted = max(int(share.ends[-1]) for share in self.shares)
        if end - wanted > wanted - self.first:
            self.end, self.is_cut = wanted, True

    @property
    def may_have_aborted(self) -> bool:
        """Whether some offsets have no record or are unknown: they may be transaction markers."""
        return self.is_cut or self.records < self.end - self.first

    def until(self, isolation: str) -> int:
        """Return where reading ends: read_committed consumers stop at the last stable offset."""
        return min(self.stable, self.end) if isolation == "read_committed" else self.end

    def take(self, offsets: NDArray[np.int64], isolation: str) -> None:
        stable = int(offsets.searchsorted(self.stable))
        if isolation == "read_uncommitted":
            self.records += offsets.size
        for share in self.shares:
            if isolation == "read_committed":
                share.committed = (share.committed or 0) + share.among(offsets[:stable])
            else:
                share.seen += share.among(offsets[:stable])
                share.undecided += share.among(offsets[stable:])


def _shares(windows: schemas.Arrow, offsets: schemas.Arrow) -> list[_Share]:
    logs = {
        (row["topic_id"], row["partition"]): row
        for row in offsets.select(schemas.OFFSETS.names).to_pylist()
    }
    runs = flat(windows.column("runs"))
    at = np.append(0, np.cumsum(pc.list_value_length(runs).fill_null(0)))
    first, last, state = map(np.asarray, pc.list_flatten(runs).flatten()[:3])
    done = np.isin(state, _TERMINAL)
    waits = state == int(DeliveryState.AVAILABLE)
    names = ["group_id", "topic_id", "partition", "effective_start_offset", "window_end_offset"]
    names += ["start_offset", "delivery_complete_count"]
    shares = []
    for i, row in enumerate(windows.select(names).to_pylist()):
        own = slice(at[i], at[i + 1])
        size = (row["window_end_offset"] or 0) - (row["start_offset"] or 0)
        if counts_all(row["delivery_complete_count"], size, waits[own].sum()):
            row["effective_start_offset"] = row["window_end_offset"]
        finished = first[own][done[own]], last[own][done[own]] + 1
        shares.append(_share(row, logs.get((row["topic_id"], row["partition"]), {}), *finished))
    return shares


def _share(
    window: dict[str, Any],
    log: Mapping[str, Any],
    firsts: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> _Share:
    known = window["effective_start_offset"] is not None and log.get("end_offset") is not None
    low = max(window["effective_start_offset"] or 0, log.get("log_start_offset") or 0)
    end = max(log.get("end_offset") or 0, window["window_end_offset"] or 0, low)
    begins, ends = np.append(low, ends).clip(low, end), np.append(firsts, end).clip(low, end)
    some = (begins < ends) & known
    columns = {name: window[name] for name in ("group_id", "topic_id", "partition")}
    columns |= {"topic": log.get("topic"), "as_of": log.get("as_of")}
    share = _Share(columns, known, begins[some], ends[some])
    columns["unfinished"] = share.size if known else None
    return share


def _ask_bounds(config: ClientConfig, logs: Mapping[Place, _Log]) -> dict[Place, _Log]:
    connection = Connection(config)
    there = kafka.partitions_of(connection, sorted({topic for topic, _ in logs}))
    wanted = [p for p in there if (p.topic, p.partition) in logs]
    latest = dict.fromkeys(wanted, OffsetSpec.latest())
    stable = kafka.answers(connection, latest, IsolationLevel.READ_COMMITTED)
    end = kafka.ask_offsets(connection, latest)  # after the stable ones, which it is never below
    start = kafka.ask_offsets(connection, dict.fromkeys(wanted, OffsetSpec.earliest()))
    answering = {}
    for p in wanted:
        low, high = (kafka.answer_of(connection, of[p]) for of in (start, end))
        if low and high and stable[p]:
            log = answering[p.topic, p.partition] = logs[p.topic, p.partition]
            log.bound(low.offset, stable[p].offset, high.offset)
    return answering


# ---- reading -------------------------------------------------------------------------------------


def _read(config: ClientConfig, logs: Mapping[Place, _Log], isolation: str) -> set[str]:
    """Read every log with this isolation level; return the topics that may not be read."""
    hidden: set[str] = set()
    untils = {place: log.until(isolation) for place, log in logs.items()}
    ends = {place: end for place, end in untils.items() if logs[place].first < end}
    if not ends:
        return hidden

    def hide(place: Place, said: ClusterError) -> None:
        if place[0] not in hidden:
            _LOG.warning("%s; continuing without the records of its backlog", said)
        hidden.add(place[0])

    heard: list[KafkaError] = []
    settings = {"isolation.level": isolation, "auto.offset.reset": "earliest"}
    with closing(consumer(config, error_cb=heard.append, **settings)) as client:
        client.assign([Partition(*place, logs[place].first) for place in ends])
        for messages in until_done(client, config, heard, lambda: not ends, _AT_ONCE):
            upto: dict[Place, int] = {}
            found: dict[Place, list[int]] = {}
            for place, message, is_end in place_messages(messages, config, _REFUSED, hide):
                if is_end:
                    upto[place] = message.offset()
                else:
                    found.setdefault(place, []).append(message.offset())
            for place in found.keys() & ends.keys():
                offsets = np.array(found[place], np.int64)
                logs[place].take(offsets[: offsets.searchsorted(ends[place])], isolation)
                upto[place] = max(upto.get(place, 0), found[place][-1] + 1)
            done = {place for place in ends if upto.get(place, -1) >= ends[place]}
            for place in done | {place for place in ends if place[0] in hidden}:
                del ends[place]
                client.incremental_unassign([Partition(*place)])
    return hidden
