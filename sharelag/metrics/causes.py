"""The causes of lag in words, with advice; `finders` finds them, `explain` ranks them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sharelag.metrics import finders
from sharelag.metrics.facts import Facts
from sharelag.metrics.finders import Found
from sharelag.model.defects import BY_CAUSE
from sharelag.tables.level import CRITICAL, NOTE, WARNING


@dataclass(frozen=True)
class Cause:
    """A cause of lag: its texts and the function that finds it."""

    name: str
    severity: str
    summary: str
    advice: str
    find: Callable[[Facts], Found]
    #: Causes that this one explains in the same share partition.
    includes: frozenset[str] = frozenset()


_STUCK = frozenset({"head_of_line", "members_idle", "slow_consumers", "burst", "hot_partition"})

#: Where commands in an advice name the group.
OF_GROUP = "--group GROUP"
#: In the order of the output among causes of the same severity and size.
CAUSES = (
    Cause(
        "no_members",
        CRITICAL,
        "the group has no members",
        f"start consumers; kafka-share-groups.sh --describe {OF_GROUP} --members lists them",
        finders.no_members,
        _STUCK | {"redelivery_storm", "lock_expiry", "window_full", "not_started"},
    ),
    Cause(
        "unassigned",
        CRITICAL,
        "the group has members, but these partitions are not assigned to any of them",
        "check the members' subscriptions; the lag of a topic without subscribers never goes away",
        finders.unassigned,
        _STUCK,
    ),
    Cause(
        "start_went_back",
        CRITICAL,
        "the start offset went back without a reset: records may be delivered twice",
        f"a defect of brokers ({BY_CAUSE['start_went_back'].issue}): upgrade them to "
        f"{BY_CAUSE['start_went_back'].fixed_in}, and check for duplicates since then",
        finders.start_went_back,
    ),
    Cause(
        "count_regressed",
        CRITICAL,
        "the delivery complete count went back: Kafka's lag is too high",
        f"a defect of brokers ({BY_CAUSE['count_regressed'].issue}): upgrade them to "
        f"{BY_CAUSE['count_regressed'].fixed_in}; effective lag is correct",
        finders.count_regressed,
    ),
    Cause(
        "start_beyond_end",
        CRITICAL,
        "the start offset is beyond the end of the log: records before it are never delivered",
        "it was set there, or an unclean election shortened the log: stop the members and reset "
        f"these partitions alone; sharelag plan-reset {OF_GROUP} --topic TOPIC:PARTITION "
        "--to-latest shows what that does, and how",
        finders.start_beyond_end,
    ),
    Cause(
        "window_full",
        CRITICAL,
        "the in-flight window is full: nothing new is delivered until its first record is done",
        "finish or reject the record at that offset, or raise share.partition.max.record.locks",
        finders.window_full,
        _STUCK,
    ),
    Cause(
        "open_transaction",
        CRITICAL,
        "the group reads only committed records, and an open transaction blocks it",
        "find and abort it with kafka-transactions.sh, or wait until the producer ends it",
        finders.open_transaction,
        _STUCK | {"markers"},
    ),
    Cause(
        "members_idle",
        CRITICAL,
        "members are assigned these partitions but make no progress on them",
        "check the members: they send heartbeats, but neither finish nor release records; "
        "sharelag doctor names defects of brokers with which fetches hang",
        finders.members_idle,
        frozenset({"slow_consumers", "burst", "hot_partition"}),
    ),
    Cause(
        "records_deleted",
        WARNING,
        "records were deleted before the group finished them",
        "the group is further behind than the topic's retention: raise it, or add consumers",
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
        "letters_lost",
        WARNING,
        "what the group gives up is lost: brokers do not write it to its dead-letter queue",
        f"until then sharelag dlq {OF_GROUP} shows what is missing",
        finders.letters_lost,
    ),
    Cause(
        "lock_expiry",
        WARNING,
        "acquisition locks expire before records are acknowledged, so records are redelivered",
        "raise share.record.lock.duration.ms, fetch fewer records per poll, or renew locks",
        finders.lock_expiry,
        _STUCK | {"redelivery_storm", "poison_records"},
    ),
    Cause(
        "redelivery_storm",
        WARNING,
        "more deliveries fail than succeed",
        "find out why consumers release records; reject records that cannot succeed",
        finders.redelivery_storm,
        _STUCK | {"poison_records"},
    ),
    Cause(
        "poison_records",
        WARNING,
        "some records fail at every delivery, up to the delivery limit",
        "look at the records at these offsets; reject them, or fix the consumer",
        finders.poison_records,
        frozenset({"head_of_line", "members_idle"}),
    ),
    Cause(
        "head_of_line",
        WARNING,
        "one record holds the start offset, although records after it are finished",
        "check the record at that offset and its consumer; if the consumer hangs, the lock expires",
        finders.head_of_line,
        frozenset({"members_idle", "slow_consumers"}),
    ),
    Cause(
        "hot_partition",
        WARNING,
        "one partition receives much more than its share of the records",
        "choose keys that spread records better, or assign more members to that partition",
        finders.hot_partition,
        frozenset({"slow_consumers", "burst"}),
    ),
    Cause(
        "slow_consumers",
        WARNING,
        "records arrive faster than members finish them",
        "add members, or make processing faster",
        finders.slow_consumers,
    ),
    Cause(
        "burst",
        NOTE,
        "many records arrived at once, and members are working through them",
        "wait: sharelag progress estimates the time to drain",
        finders.burst,
        frozenset({"slow_consumers"}),
    ),
    Cause(
        "markers",
        NOTE,
        "only offsets without records are left: the lag disappears with the next record",
        "nothing: Kafka counts transaction markers and aborted records as lag until it passes them",
        finders.markers,
        _STUCK,
    ),
    Cause(
        "compaction_holes",
        NOTE,
        "the lag includes offsets whose records were removed by compaction",
        "count the existing records with sharelag reconcile --true",
        finders.compaction_holes,
        frozenset({"slow_consumers", "burst", "members_idle"}),
    ),
    Cause(
        "not_started",
        NOTE,
        "records arrived, but none is finished yet, so start offset and lag are unknown",
        "check that a member polls and acknowledges; share.auto.offset.reset sets where it starts",
        finders.not_started,
    ),
)
