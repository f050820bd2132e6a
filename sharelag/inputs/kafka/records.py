"""Single records of topics and their timestamps, by minimal fetches; and counts of a backlog.

Kafka's lag counts offsets. Some have no record to deliver: transaction markers, records that
compaction removed, and, for a read_committed group, records of aborted transactions.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import IsolationLevel, KafkaError, Message
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import OffsetSpec
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.errors import ClusterError, InputError, NoLeaderError, list_names
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.client import Connection, consumer, is_of_group
from sharelag.inputs.kafka.config import READING, ClientConfig
from sharelag.inputs.kafka.failures import (
    first_refusal,
    latest_reason,
    silence_error,
    translate_error,
)
from sharelag.model import TERMINAL_STATES, DeliveryState, counts_all
from sharelag.schemas import SCANNED
from sharelag.tables.arrow import flat

#: Topic and partition.
Place = tuple[str, int]
#: Its place, the message, and whether it is the end of the log instead of a record.
_Arrived = tuple[Place, Message, bool]
#: Topic, partition, offset.
_Position = tuple[str, int, int]
#: Offset and milliseconds of a record.
_First = tuple[int | None, int | None]

_LOG = logging.getLogger(__name__)
_PARTITIONS_A_ROUND = 300
_AT_ONCE = 100  # messages
_WAIT = 0.1  # seconds
_HIDDEN = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
}

#: Settings to read one record per partition: whatever else the broker sends is discarded.
FRUGAL = {
    "fetch.message.max.bytes": 32 << 10,  # per partition; a larger record batch comes alone
    "fetch.max.bytes": 4 << 20,  # per response
    "queued.min.messages": 1,
    "fetch.queue.backoff.ms": 0,  # otherwise the client pauses after every record batch
    "fetch.wait.max.ms": 50,
    "auto.offset.reset": "earliest",  # positions below the log start
}


def record_times(
    config: ClientConfig, positions: pa.Table, read_committed: bool = False
) -> pa.Table:
    """Return `sharelag.schemas.TIMES`: the first record at or after each position, in their order.

    ``positions`` has the columns ``topic``, ``topic_id``, ``partition`` and ``asked_offset``; rows
    with a null are ignored. Below the log start it is the first record; without a record at or
    after the position (end of the log, only transaction markers) the offset is null. A position
    that could not be read (topic deleted or not authorized, no leader) has no row.
    ``read_committed`` selects the records that a read_committed group receives: none of aborted
    transactions, none from the first open one on. One fetch of 32 KiB per partition, or one record
    batch if that is larger.
    """
    names = ["topic", "topic_id", "partition", "asked_offset"]
    requested = positions.select(names).drop_null().to_pylist()
    asked = sorted({(row["topic"], row["partition"], row["asked_offset"]) for row in requested})
    found = _first_records(config, asked, read_committed) if asked else {}
    rows = []
    for row in requested:
        place = (row["topic"], row["partition"], row["asked_offset"])
        if place in found:
            rows.append(row | dict(zip(("offset", "timestamp"), found[place], strict=True)))
    return pa.Table.from_pylist(rows, schema=schemas.TIMES)


def _first_records(
    config: ClientConfig, asked: Sequence[_Position], read_committed: bool
) -> dict[_Position, _First]:
    connection = Connection(config)
    partitions = kafka.partitions_of(connection, sorted({topic for topic, _, _ in asked}))
    answers = kafka.answers(connection, dict.fromkeys(partitions, OffsetSpec.latest()))
    ends = {(p.topic, p.partition): answer.offset for p, answer in answers.items() if answer}
    found: dict[_Position, _First] = {}
    left = [at for at in asked if at[:2] in ends]
    errors: list[KafkaError] = []
    silent: dict[str, ClusterError] = {}
    isolation = {"isolation.level": "read_committed"} if read_committed else {}
    with closing(consumer(config, error_cb=errors.append, **FRUGAL, **isolation)) as client:
        while left:
            pending: dict[Place, int] = {}
            later = []
            for topic, partition, offset in left:
                if offset >= ends[topic, partition]:
                    found[topic, partition, offset] = (None, None)
                elif len(pending) < _PARTITIONS_A_ROUND and (topic, partition) not in pending:
                    pending[topic, partition] = offset
                else:
                    later.append((topic, partition, offset))
            found |= _one_round(client, config, errors, pending, silent)
            left = later
    for kind in {type(error): None for error in silent.values()}:
        topics = [topic for topic, error in silent.items() if type(error) is kind]
        more = f" (and {list_names(topics[1:])} likewise)" if len(topics) > 1 else ""
        its = "their" if len(topics) > 1 else "its"
        _LOG.warning("%s%s; continuing without %s timestamps", silent[topics[0]], more, its)
    return found


def _one_round(
    client: Any,
    config: ClientConfig,
    errors: Sequence[KafkaError],
    pending: dict[Place, int],
    silent: dict[str, ClusterError],
) -> dict[_Position, _First]:
    """Return the first record of each partition; remove it from ``pending`` or fill ``silent``."""
    found: dict[_Position, _First] = {}

    def hide(place: Place, error: ClusterError) -> None:
        silent.setdefault(place[0], error)
        # An error of a whole topic has no partition.
        for hidden in [p for p in pending if p[0] == place[0]] if place[1] == -1 else [place]:
            pending.pop(hidden, None)

    client.assign([Partition(*place, offset) for place, offset in pending.items()])
    for arrived in until_done(client, config, errors, lambda: not pending, _AT_ONCE, _HIDDEN, hide):
        for place, message, is_end in arrived:
            if place in pending and message.offset() >= pending[place]:
                kind, time = message.timestamp()
                first = (None, None) if is_end else (message.offset(), time if kind else None)
                found[(*place, pending.pop(place))] = first
                client.incremental_unassign([Partition(*place)])
    return found


# ---- reading -------------------------------------------------------------------------------------


def until_done(
    client: Any,
    config: ClientConfig,
    errors: Sequence[KafkaError],
    is_done: Callable[[], bool | int],
    at_once: int,
    hidden: Collection[int] = (),
    hide: Callable[[Place, ClusterError], None] | None = None,
) -> Iterator[Iterator[_Arrived]]:
    """Yield batches of messages of an assigned consumer until ``is_done``; consume each at once.

    It is a ClusterError if the credentials are refused, or nothing arrives within the timeout. So
    is an error in place of a message, unless its code is in ``hidden``: then ``hide`` receives it.
    """
    waited = 0.0
    while not is_done():
        started = time.monotonic()
        messages = client.consume(at_once, timeout=_WAIT)
        outcomes = (message.error() for message in messages)
        is_of_leaders = any(error is None or not is_of_group(error) for error in outcomes)
        waited = 0.0 if is_of_leaders else waited + time.monotonic() - started
        yield _place(messages, config, hidden, hide)
        if wrong := first_refusal(errors):
            raise translate_error(wrong, "records", config)
        if waited > max(config.patience.left(), min(READING, config.timeout)):
            config.patience.lose(waited)
            raise silence_error(config, "records", latest_reason(errors))


def _place(
    messages: Iterable[Message],
    config: ClientConfig,
    hidden: Collection[int],
    hide: Callable[[Place, ClusterError], None] | None,
) -> Iterator[_Arrived]:
    for message in messages:
        place, error = (message.topic(), message.partition()), message.error()
        if error is None or error.code() == KafkaError._PARTITION_EOF:
            yield place, message, error is not None
        elif not is_of_group(error):
            refusal = translate_error(error, place[0], config)
            if hide is None or error.code() not in hidden:
                raise refusal
            hide(place, refusal)


# ---- one record ---------------------------------------------------------------------------------


_TIMESTAMPS = {1: "CreateTime", 2: "LogAppendTime"}


@dataclass(frozen=True)
class TopicRecord:
    """A record as Kafka stores it; its repr shows no payload."""

    topic: str
    partition: int
    offset: int
    timestamp: datetime | None
    timestamp_type: str | None  # CreateTime or LogAppendTime
    key: bytes | None = field(repr=False)
    value: bytes | None = field(repr=False)
    headers: tuple[tuple[str, bytes | None], ...] = field(repr=False)


def record_at(config: ClientConfig, topic: str, partition: int, offset: int) -> TopicRecord:
    """Read the record at an offset; if there is none, raise an InputError with the reason.

    One fetch of 32 KiB, or one record batch if that is larger. Records of aborted transactions are
    read, too: share groups that read uncommitted records receive them.
    """
    connection = Connection(config)
    place = Partition(topic, partition)
    described = kafka.descriptions(connection, [topic]).get(topic)
    known = {one.id: one for one in described.partitions} if described else {}
    if partition not in known:
        raise InputError(f"topic {topic!r} has no partition {partition}: check the number")
    if known[partition].leader is None:
        replicas = known[partition].replicas
        where, which = ("brokers", "one of them") if len(replicas) > 1 else ("broker", "it")
        raise NoLeaderError(
            f"partition {partition} of {topic} has no leader: its replicas are on {where} "
            f"{', '.join(str(node.id) for node in replicas)}; start {which}, and try again"
        )
    first, end = (
        kafka.offset_of(
            connection, kafka.ask_offsets(connection, {place: spec})[place], f"offsets of {topic}"
        )
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
    )
    at = f"{topic}:{partition}:{offset}"
    if offset >= end:
        raise InputError(f"no record at {at} yet: the log ends at {end}")
    if offset < first:
        raise InputError(
            f"the record at {at} is gone: the log begins at {first}; retention or a deletion of "
            "records removed it"
        )
    found = _first(config, topic, partition, offset)
    if found is None or found.offset() != offset:
        following = "" if found is None else f"; the next record is at {found.offset()}"
        raise InputError(
            f"no record at {at}: it is the marker of a transaction, or the topic is compacted and "
            f"a later record has the same key{following}"
        )
    kind, milliseconds = found.timestamp()
    return TopicRecord(
        topic,
        partition,
        offset,
        datetime.fromtimestamp(milliseconds / 1000, UTC) if kind in _TIMESTAMPS else None,
        _TIMESTAMPS.get(kind),
        found.key(),
        found.value(),
        tuple(found.headers() or ()),
    )


def _first(config: ClientConfig, topic: str, partition: int, offset: int) -> Message | None:
    """Return the first record at or after an offset; None if only markers follow."""
    errors: list[KafkaError] = []
    found: list[Message | None] = []
    with closing(consumer(config, error_cb=errors.append, **FRUGAL)) as client:
        client.assign([Partition(topic, partition, offset)])
        for arrived in until_done(client, config, errors, found.__len__, 1):
            found += [None if is_end else one for _, one, is_end in arrived]
    return found[0]


_REFUSED = (KafkaError.TOPIC_AUTHORIZATION_FAILED,)
_MANY = 2_000  # messages
_TERMINAL = tuple(map(int, TERMINAL_STATES))


def scan(config: ClientConfig, windows: schemas.Arrow, offsets: schemas.Arrow) -> pa.Table:
    """Read all unfinished offsets of `WINDOWS` by `OFFSETS`, and count their records.

    Return `sharelag.schemas.SCANNED`, one row per window, in their order. ``unfinished`` is the
    effective lag of the same windows and offsets.

    The backlog is read once, however many groups share it, and a second time if offsets without a
    record suggest that transactions ended in it, or if much was written since. Memory does not grow
    with the backlog. Records deleted during the scan count as missing.
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
    # Offsets without a record, and unknown ones, may be transaction markers.
    doubtful = {
        place: log
        for place, log in answering.items()
        if log.is_cut or log.records < log.end - log.first
    }
    for share in (share for log in doubtful.values() for share in log.shares):
        share.committed = 0
    _read(config, doubtful, "read_committed")
    rows = []
    for share in shares:
        log = answering.get(share.place)
        is_counted = share.known and (log or not share.size)
        rows.append(share.columns | (share.counts(log) if is_counted else {}))
    return pa.Table.from_pylist(rows, schema=SCANNED)


# ---- the offsets to count ------------------------------------------------------------------------


@dataclass
class _Share:
    """The unfinished offsets of one share partition, as ranges, and the records found there."""

    columns: dict[str, Any]  # known before reading
    known: bool  # whether the ranges are known
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    seen: int = 0  # records below the last stable offset
    undecided: int = 0  # records beyond it
    committed: int | None = None  # of those seen; None without a second read: all of them

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
    records: int = 0  # read_uncommitted, at any offset

    @property
    def first(self) -> int:
        """The first offset that some group has not finished."""
        return max(self.start, min(int(share.starts[0]) for share in self.shares))

    def bound(self, start: int, stable: int, end: int) -> None:
        """Set log start, last stable offset and log end, and choose where reading ends.

        Read to the end of the log, which shows whether it has markers of the transactions that
        wrote our records, unless reading our records twice is shorter.
        """
        self.start, self.stable, self.end = start, stable, end
        last = max(int(share.ends[-1]) for share in self.shares)
        if end - last > last - self.first:
            self.end, self.is_cut = last, True

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
    known = [p for p in there if (p.topic, p.partition) in logs]
    latest = dict.fromkeys(known, OffsetSpec.latest())
    stable = kafka.answers(connection, latest, IsolationLevel.READ_COMMITTED)
    end = kafka.ask_offsets(connection, latest)  # after the last stable ones, so never below them
    start = kafka.ask_offsets(connection, dict.fromkeys(known, OffsetSpec.earliest()))
    answering = {}
    for p in known:
        low, high = (kafka.answer_of(connection, of[p]) for of in (start, end))
        if low and high and stable[p]:
            log = answering[p.topic, p.partition] = logs[p.topic, p.partition]
            log.bound(low.offset, stable[p].offset, high.offset)
    return answering


# ---- reading -------------------------------------------------------------------------------------


def _read(config: ClientConfig, logs: Mapping[Place, _Log], isolation: str) -> set[str]:
    """Read every log with an isolation level; return the topics that we may not read."""
    hidden: set[str] = set()
    is_whole = isolation == "read_uncommitted"  # read_committed stops at the last stable offset
    untils = {p: log.end if is_whole else min(log.stable, log.end) for p, log in logs.items()}
    ends = {place: end for place, end in untils.items() if logs[place].first < end}
    if not ends:
        return hidden

    def hide(place: Place, error: ClusterError) -> None:
        if place[0] not in hidden:
            _LOG.warning("%s; continuing without the records of its backlog", error)
        hidden.add(place[0])

    errors: list[KafkaError] = []
    settings = {"isolation.level": isolation, "auto.offset.reset": "earliest"}
    with closing(consumer(config, error_cb=errors.append, **settings)) as client:
        client.assign([Partition(*place, logs[place].first) for place in ends])
        for arrived in until_done(client, config, errors, lambda: not ends, _MANY, _REFUSED, hide):
            upto: dict[Place, int] = {}
            found: dict[Place, list[int]] = {}
            for place, message, is_end in arrived:
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
