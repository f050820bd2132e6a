"""The causes of lag in words, with what to do; `finders` finds them, `explain` ranks them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sharelag.metrics import finders
from sharelag.metrics.facts import Facts
from sharelag.metrics.finders import Found
from sharelag.tables.level import CRITICAL, NOTE, WARNING


@dataclass(frozen=True)
class Cause:
    """What can be wrong, in words, and how it is found."""

    name: str
    severity: str
    summary: str
    advice: str
    find: Callable[[Facts], Found]
    includes: frozenset[str] = (
        frozenset()
    )  # causes that this one explains in the same share partition


_STUCK = frozenset({"head_of_line", "members_idle", "slow_consumers", "burst", "hot_partition"})

#: In the order in which they are told where severity and size are the same.
CAUSES = (
    Cause(
        "no_members",
        CRITICAL,
        "nobody is in the group",
        "start consumers of the group; kafka-share-groups.sh --describe --members shows who is there",
        finders.no_members,
        _STUCK | {"redelivery_storm", "lock_expiry", "window_full", "not_started"},
    ),
    Cause(
        "unassigned",
        CRITICAL,
        "the group has members, but none of them is told to fetch this",
        "check what the members subscribe to; a topic that nobody subscribes to keeps its lag",
        finders.unassigned,
        _STUCK,
    ),
    Cause(
        "start_went_back",
        CRITICAL,
        "the start offset fell although nobody reset it: records may be delivered twice",
        "a defect of brokers (apache/kafka#23074): update them, and look for duplicates since then",
        finders.start_went_back,
    ),
    Cause(
        "count_regressed",
        CRITICAL,
        "the delivery complete count fell: Kafka's lag is too high",
        "a defect of brokers (apache/kafka#23112): update them; effective lag is right",
        finders.count_regressed,
    ),
    Cause(
        "window_full",
        CRITICAL,
        "the window of records in flight is full: nothing new is delivered until its first record is finished",
        "finish or reject the record at that offset, or raise share.partition.max.record.locks of the group",
        finders.window_full,
        _STUCK,
    ),
    Cause(
        "open_transaction",
        CRITICAL,
        "the group reads committed records only, and an open transaction holds it",
        "kafka-transactions.sh find-hanging and abort, or wait until the producer ends it",
        finders.open_transaction,
        _STUCK | {"markers"},
    ),
    Cause(
        "members_idle",
        CRITICAL,
        "members have these partitions and do nothing with them",
        "look at the members: they send heartbeats, but neither finish records nor give them back",
        finders.members_idle,
        frozenset({"slow_consumers", "burst", "hot_partition"}),
    ),
    Cause(
        "records_deleted",
        WARNING,
        "offsets were deleted before anybody finished them",
        "retention is shorter than the group is behind: keep records longer, or add consumers",
        finders.records_deleted,
    ),
    Cause(
        "retention_near",
        WARNING,
        "unfinished records may be deleted soon",
        "raise retention.ms of the topic until the group has caught up",
        finders.retention_near,
    ),
    Cause(
        "lock_expiry",
        WARNING,
        "locks end before records are acknowledged, and the records are delivered again",
        "raise share.record.lock.duration.ms, fetch fewer records at once, or renew locks while working",
        finders.lock_expiry,
        _STUCK | {"redelivery_storm", "poison_records"},
    ),
    Cause(
        "redelivery_storm",
        WARNING,
        "more deliveries fail than succeed",
        "find out why consumers release records; reject what cannot succeed",
        finders.redelivery_storm,
        _STUCK | {"poison_records"},
    ),
    Cause(
        "poison_records",
        WARNING,
        "some records fail at every delivery, up to the limit",
        "look at the records at these offsets; reject them, or mend what reads them",
        finders.poison_records,
        frozenset({"head_of_line", "members_idle"}),
    ),
    Cause(
        "head_of_line",
        WARNING,
        "one offset holds the start offset, although records after it are finished",
        "look at the record at that offset and at who works on it; its lock ends by itself if its member hangs",
        finders.head_of_line,
        frozenset({"members_idle", "slow_consumers"}),
    ),
    Cause(
        "hot_partition",
        WARNING,
        "one partition gets much more than its share of the records",
        "choose keys that spread better, or assign more members to that partition",
        finders.hot_partition,
        frozenset({"slow_consumers", "burst"}),
    ),
    Cause(
        "slow_consumers",
        WARNING,
        "records arrive faster than the members finish them",
        "add members, or make each record cheaper",
        finders.slow_consumers,
    ),
    Cause(
        "burst",
        NOTE,
        "many records arrived at once, and the members work on them",
        "wait: see how long it takes to drain",
        finders.burst,
        frozenset({"slow_consumers"}),
    ),
    Cause(
        "markers",
        NOTE,
        "only offsets without records are left: the lag goes away with the next record",
        "nothing to do: Kafka counts transaction markers and aborted records as lag until they are passed",
        finders.markers,
        _STUCK,
    ),
    Cause(
        "compaction_holes",
        NOTE,
        "the lag counts offsets whose records were compacted away",
        "sharelag reconcile --true counts what is really there",
        finders.compaction_holes,
        frozenset({"slow_consumers", "burst", "members_idle"}),
    ),
    Cause(
        "not_started",
        NOTE,
        "nothing was finished yet, so that there is no start offset and no lag, although records came",
        "look whether a member polls, and finishes what it gets; share.auto.offset.reset decides where it begins",
        finders.not_started,
    ),
)
