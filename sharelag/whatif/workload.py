"""Topics as a simulation finds them, and the producers that go on writing to them.

Times are milliseconds from the begin of the simulation unless they say otherwise, rates are a
second's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from uuid import NAMESPACE_OID, uuid5

from sharelag.errors import InputError
from sharelag.model import Window, topic_id_text

#: 2026-01-01T00:00:00Z, when simulations begin unless stated otherwise.
BEGINS_MS = 1_767_225_600_000


@dataclass(frozen=True)
class PartitionStart:
    """One topic partition as the simulation finds it.

    Attributes
    ----------
    end_offset, log_start_offset
        Of the log, the end exclusive.
    window
        What was persisted of the share partition; None: the group is new, and its settings say
        where it begins.
    batch_records
        Records in each record batch of the log so far.
    oldest_age_ms
        How long ago the record at the window's start offset was appended; those after it came
        evenly since.
    missing
        Offsets that compaction has taken out of the log.
    open_from
        Where a transaction begins that stays open until the end: a ``read_committed`` group gets
        nothing from there on, of what is there and of what arrives. None: there is none.
    """

    end_offset: int = 0
    log_start_offset: int = 0
    window: Window | None = None
    batch_records: int = 1
    oldest_age_ms: float = 0.0
    missing: tuple[int, ...] = ()
    open_from: int | None = None

    def __post_init__(self) -> None:
        if self.open_from is not None and not (
            self.log_start_offset <= self.open_from <= self.end_offset
        ):
            raise InputError(
                f"a transaction is open from offset {self.open_from} on, in a log of the offsets "
                f"{self.log_start_offset} to {self.end_offset}: give an offset of that log"
            )


#: Partitions that a scenario has at most. A whole cluster of Kafka has fewer.
MOST_PARTITIONS = 1_000_000


@dataclass(frozen=True)
class Topic:
    """One topic.

    Attributes
    ----------
    name, partitions, id
        The id as Kafka prints it; derived from the name when not given.
    backlog
        Records to deliver in each partition at the begin: one number for all, or one for each.
    batch_records
        Records in each record batch of that backlog.
    starts
        One for each partition, instead of the two above.
    racks
        Of the replicas, by partition.
    retention_ms, segment_records
        How long records are kept, and how many of them are deleted together; None keeps them.
    compact_ms
        How often records are taken out of which a later one has the same key
        (``cleanup.policy=compact``), for producers with keys; the latest record batch of a
        partition stays as it is. None: never.
    added_ms
        When the last of the partitions are added, in the order of their numbers; the others are
        there at the begin. A group begins with them where its settings say, at the moment at which
        it hears of them.
    """

    name: str
    partitions: int
    id: str = ""
    backlog: int | tuple[int, ...] = 0
    batch_records: int = 1
    starts: tuple[PartitionStart, ...] = ()
    racks: tuple[tuple[str, ...], ...] = ()
    retention_ms: int | None = None
    segment_records: int = 1000
    compact_ms: int | None = None
    added_ms: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.partitions > MOST_PARTITIONS:  # before there is a start for each
            raise InputError(
                f"topic {self.name!r} has {self.partitions:,} partitions: give at most "
                f"{MOST_PARTITIONS:,}"
            )
        if not self.id:  # always the same one, so that runs can be repeated
            object.__setattr__(self, "id", topic_id_text(uuid5(NAMESPACE_OID, self.name).bytes))
        if not self.starts:
            counts = (
                self.backlog
                if isinstance(self.backlog, tuple)
                else (self.backlog,) * self.partitions
            )
            there = self.partitions - len(self.added_ms)
            starts = tuple(_backlog(count, self.batch_records) for count in counts[:there])
            object.__setattr__(
                self, "starts", starts + tuple(PartitionStart() for _ in counts[there:])
            )
        if self.partitions < 1 or len(self.starts) != self.partitions:
            raise InputError(
                f"topic {self.name!r} has {self.partitions} partitions "
                f"and {len(self.starts)} starts or backlogs: "
                "give as many as it has partitions, or one number for all"
            )
        if self.compact_ms is not None and self.compact_ms < 1:
            raise InputError(
                f"topic {self.name!r} is compacted every {self.compact_ms} ms: "
                f"give at least 1, or None"
            )
        if len(self.added_ms) >= self.partitions or list(self.added_ms) != sorted(self.added_ms):
            raise InputError(
                f"topic {self.name!r} begins with one partition at least, "
                f"and added_ms has to ascend"
            )

    def there_from(self) -> tuple[int, ...]:
        """From when on each partition is there, in ms."""
        return (0,) * (self.partitions - len(self.added_ms)) + self.added_ms


def _backlog(count: int, batch_records: int) -> PartitionStart:
    return PartitionStart(
        count, window=Window(0, 0, 0, 0, 0, BEGINS_MS, BEGINS_MS), batch_records=batch_records
    )


@dataclass(frozen=True)
class Burst:
    """A span in which a producer makes ``factor`` times as many records."""

    begin_ms: int
    end_ms: int
    factor: float


@dataclass(frozen=True)
class Producer:
    """Who appends records to a topic, and how many.

    Attributes
    ----------
    topic, rate
        Records a second, to all partitions together. Fractions are fine: 0.5 is one every two
        seconds.
    pattern
        ``poisson``: record batches come by chance; ``steady``: at equal distances.
    batch_records
        Records in each record batch.
    weights
        How records are spread over the partitions; evenly when empty, unless there are keys.
    keys, key_skew
        How many keys, the k-th drawn in proportion to ``1 / k ** key_skew``; a key's partition is
        the CRC-32 of its number, as librdkafka's default partitioner has it. The records of one
        record batch have one key. 0 keys: records without a key.
    bursts
        May overlap: the factors multiply.
    day
        24 factors, one for each hour (UTC); empty is always 1.
    transaction_batches, transaction_ms, abort_share
        Record batches in each transaction of a partition, 0 without transactions; how long
        after the last of them its marker comes, which takes an offset, too; and how many of them
        are aborted.
    begin_ms, end_ms
        None produces until the end.
    """

    topic: str
    rate: float
    pattern: Literal["poisson", "steady"] = "poisson"
    batch_records: int = 1
    weights: tuple[float, ...] = ()
    keys: int = 0
    key_skew: float = 0.0
    bursts: tuple[Burst, ...] = ()
    day: tuple[float, ...] = ()
    transaction_batches: int = 0
    transaction_ms: float = 10.0
    abort_share: float = 0.0
    begin_ms: int = 0
    end_ms: int | None = None

    def __post_init__(self) -> None:
        if not self.rate >= 0 or self.batch_records < 1:
            raise InputError(
                f"a producer of {self.topic!r} makes {self.rate} records/s "
                f"in batches of {self.batch_records}: "
                "give a rate of at least 0, and batches of at least 1"
            )
        if self.day and len(self.day) != 24:
            raise InputError(
                f"the day of a producer has {len(self.day)} factors: give 24, one for each hour"
            )
