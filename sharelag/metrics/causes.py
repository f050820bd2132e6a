"""Why is there lag? One plain function a cause; `sharelag.metrics.explain` ranks what they find.

Each looks at all share partitions at once and says where it holds. Whatever is not known speaks for no cause.
What cannot be known from the state topic (who holds a record, why it was archived) is not claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from sharelag.metrics.facts import Bools, Facts, Floats, sums
from sharelag.metrics.lag import NO_START_OFFSET

CRITICAL, WARNING, NOTE = "critical", "warning", "note"


@dataclass(frozen=True)
class Found:
    """Where a cause holds, and what shows it: a value a share partition each."""

    where: Bools
    held: Floats  # offsets of lag that it explains
    since: Floats  # milliseconds
    evidence: Mapping[str, Floats] = field(default_factory=dict)


@dataclass(frozen=True)
class Cause:
    """What can be wrong, in words, and how it is found."""

    name: str
    severity: str
    summary: str
    advice: str
    find: Callable[[Facts], Found]
    includes: frozenset[str] = frozenset()  # causes that this one explains in the same share partition


def patience(facts: Facts) -> Floats:
    """How long something may take before it is called stuck: as a lock lasts, at most a quarter of the span."""
    lock = np.nan_to_num(facts.setting("share.record.lock.duration.ms"), nan=30_000)
    return np.maximum(np.minimum(lock, facts.progress("observed_ms") / 4), 1_000)


def no_members(facts: Facts) -> Found:
    """Nobody is in the group."""
    where = facts.behind & (facts.members == 0)
    return Found(
        where,
        facts.lag("effective_lag"),
        facts.emptied,
        {"members": facts.members, "lag": facts.lag("effective_lag")},
    )


def unassigned(facts: Facts) -> Found:
    """The group has members, and none of them was told to fetch the share partition."""
    where = facts.behind & (facts.members > 0) & (facts.assigned == 0) & _nothing_happens(facts)
    return Found(
        where,
        facts.lag("effective_lag"),
        facts.observed("last_finished"),
        {"members": facts.members, "assigned members": facts.assigned},
    )


def members_idle(facts: Facts) -> Found:
    """Members have the share partition, records wait, and nothing is finished or given back."""
    waiting = facts.progress("age_ms") > patience(facts)
    where = facts.behind & (facts.assigned > 0) & waiting & _nothing_happens(facts)
    return Found(
        where,
        facts.lag("effective_lag"),
        facts.observed("last_finished"),
        {
            "assigned members": facts.assigned,
            "oldest record waits ms": facts.progress("age_ms"),
            "acquired at most": facts.lag("window_unknown"),
        },
    )


def window_full(facts: Facts) -> Found:
    """The window is as wide as it may be, or as much is acquired as may be: nothing new is delivered (C-12)."""
    limit = facts.setting("share.partition.max.record.locks")
    span = facts.lag("window_end_offset") - facts.lag("effective_start_offset")
    where = ((span >= limit) | (facts.lag("window_unknown") >= limit)) & (facts.lag("unread") > 0)
    return Found(
        where,
        facts.lag("unread"),
        facts.observed("head_since"),
        _head(facts) | {"window span": span, "acquired at most": facts.lag("window_unknown"), "limit": limit},
    )


def open_transaction(facts: Facts) -> Found:
    """A read_committed group waits at the last stable offset, which an open transaction holds."""
    end, stable = facts.lag("end_offset"), facts.stable_end
    held = end - np.maximum(stable, facts.lag("effective_start_offset"))
    where = facts.behind & facts.reads_committed & (stable < end) & (held > 0)
    return Found(where, held, np.full(len(held), np.nan), {"last stable offset": stable, "end offset": end})


def start_went_back(facts: Facts) -> Found:
    """The start offset fell although nobody reset it: a defect of brokers before 4.4 (apache/kafka#23074)."""
    times = facts.observed("start_back")
    return Found(times > 0, facts.lag("effective_lag"), facts.observed("start_back_at"), {"times": times})


def count_regressed(facts: Facts) -> Found:
    """Start offset and delivery complete count fell together: a defect of brokers before 4.4 (apache/kafka#23112)."""
    times = facts.observed("count_back")
    counted = facts.lag("delivery_complete_count")
    where = (times > 0) & ~(facts.observed("start_back") > 0)
    held = np.maximum(facts.lag("lag") - facts.lag("effective_lag"), 0)
    return Found(where, held, facts.observed("count_back_at"), {"times": times, "delivery complete count": counted})


def records_deleted(facts: Facts) -> Found:
    """The log was deleted below records that nobody had finished; Kafka's lag still counts them."""
    lost = facts.progress("lost")
    evidence = {"log start offset": facts.lag("log_start_offset"), "start offset": facts.lag("start_offset")}
    return Found(lost > 0, lost, np.full(len(lost), np.nan), evidence)


def lock_expiry(facts: Facts) -> Found:
    """Records are given back as long after their acquisition as locks last: nobody acknowledged them in time."""
    lock, every = facts.setting("share.record.lock.duration.ms"), facts.observed("release_every_ms")
    where = facts.behind & (every >= 0.6 * lock) & (every <= 1.6 * lock)
    return Found(
        where,
        facts.lag("effective_lag"),
        facts.observed("head_since"),
        {"given back every ms": every, "lock duration ms": lock, "given back": facts.observed("released")},
    )


def poison_records(facts: Facts) -> Found:
    """Records have one delivery left, or have been archived at their last."""
    limit, most = facts.setting("share.delivery.count.limit"), facts.observed("max_delivery_count")
    where = facts.behind & ((most >= np.maximum(limit - 1, 2)) | (facts.given_up > 0))
    return Found(
        where,
        facts.head_length,
        facts.observed("head_since"),
        _head(facts) | {"highest delivery count": most, "limit": limit, "archived at the limit": facts.given_up},
    )


def redelivery_storm(facts: Facts) -> Found:
    """More deliveries fail than succeed."""
    finished, released = facts.observed("finished"), facts.observed("released")
    where = facts.behind & (released >= 10) & (released > finished)
    return Found(
        where,
        facts.lag("effective_lag"),
        facts.observed("begin"),
        {"given back": released, "finished": finished, "deliveries beyond the first": facts.observed("redelivered")},
    )


def head_of_line(facts: Facts) -> Found:
    """One offset pins the start offset, and records after it are finished."""
    before = facts.lag("effective_start_offset") - facts.lag("start_offset")
    beyond = facts.lag("window_complete") - before
    stuck = facts.now - facts.observed("head_since") > patience(facts)
    # Brokers do not pass a transaction marker at the start offset; no record is stuck there.
    where = facts.behind & (beyond > 0) & stuck & ~facts.is_hole
    return Found(where, facts.head_length, facts.observed("head_since"), _head(facts) | {"finished after it": beyond})


def hot_partition(facts: Facts) -> Found:
    """Most of what arrives goes to one of several partitions, and there the lag is."""
    arrived, of = np.nansum(facts.arrivals, axis=1), facts.topic_of_group
    partitions, total = sums(np.ones(len(of)), of), sums(arrived, of)
    lag = facts.lag("effective_lag")
    is_hot = (partitions >= 3) & (arrived * 2 > total) & (arrived * partitions >= 3 * total) & (arrived > 0)
    where = facts.behind & is_hot & (lag * 2 > sums(lag, of)) & (facts.progress("age_ms") > patience(facts))
    return Found(where, lag, facts.observed("begin"), {"arrived here": arrived, "arrived in all partitions": total})


def burst(facts: Facts) -> Found:
    """Much arrived at once, and it is being worked on."""
    arrivals, lag = facts.arrivals, facts.lag("effective_lag")
    parts = arrivals.shape[1]
    most = np.max(np.nan_to_num(arrivals), axis=1, initial=0)
    usual = (np.nansum(arrivals, axis=1) - most) / max(parts - 1, 1)
    where = facts.behind & (most >= 4 * usual) & (2 * most >= lag) & (10 * lag >= most) & (most > 10) & (parts > 2)
    where &= facts.progress("completion_rate") > 0
    return Found(
        where,
        np.minimum(lag, most),
        np.full(len(lag), np.nan),
        {"arrived at once": most, "otherwise in that time": usual},
    )


def slow_consumers(facts: Facts) -> Found:
    """Records are finished steadily, but not as fast as they arrive."""
    arriving, done = facts.progress("arrival_rate"), facts.progress("completion_rate")
    where = facts.behind & (done > 0) & (arriving > done) & (facts.progress("age_ms") > patience(facts))
    return Found(
        where,
        facts.lag("effective_lag"),
        facts.observed("begin"),
        {"arrivals a second": arriving, "finished a second": done, "assigned members": facts.assigned},
    )


def markers(facts: Facts) -> Found:
    """What is left are offsets without records: transaction markers, or aborted records."""
    asked, record = facts.next_record
    left = facts.lag("effective_lag")
    nothing = asked & (np.isnan(record) | (record >= facts.lag("end_offset")))
    nothing |= facts.is_hole & facts.nothing_unread & (facts.lag("window_available") == 0)
    is_open = facts.reads_committed & (facts.stable_end < facts.lag("end_offset"))
    where = facts.behind & nothing & ~is_open & ~facts.is_compacted
    return Found(where, left, np.full(len(left), np.nan), {"offsets without records": left})


def compaction_holes(facts: Facts) -> Found:
    """The log of a compacted topic has no record at the oldest unfinished offset: lag counts what is gone."""
    _, record = facts.next_record
    gone = np.where(np.isnan(record), facts.lag("end_offset"), record) - facts.lag("effective_start_offset")
    where = facts.behind & facts.is_compacted & (gone > 0)
    return Found(where, gone, np.full(len(gone), np.nan), {"next record": record, "gone before it": gone})


def not_started(facts: Facts) -> Found:
    """Nothing was ever fetched, so Kafka knows no start offset and no lag."""
    reason = facts.evidence.lag.column("lag_reason").to_pylist()
    waiting = facts.lag("end_offset") > facts.lag("log_start_offset")
    where = np.array([text == NO_START_OFFSET for text in reason], bool) & waiting
    unknown = np.full(len(where), np.nan)
    return Found(where, unknown, unknown, {"members": facts.members, "end offset": facts.lag("end_offset")})


def retention_near(facts: Facts) -> Found:
    """Unfinished records will be deleted soon."""
    margin, retention = facts.progress("margin_ms"), facts.progress("retention_ms")
    where = facts.behind & (margin <= retention / 10)
    return Found(
        where,
        facts.lag("effective_lag"),
        np.full(len(margin), np.nan),
        {"may be deleted in ms": margin, "retention ms": retention},
    )


def _nothing_happens(facts: Facts) -> Bools:
    """Nothing was finished or given back for longer than patience; what is not known does not count as nothing."""
    last = np.fmax(facts.observed("last_finished"), facts.observed("last_released"))
    last = np.where(np.isnan(last), facts.observed("begin"), last)
    return np.asarray(facts.now - last > patience(facts), bool)


def _head(facts: Facts) -> dict[str, Floats]:
    return {
        "offset": facts.lag("effective_start_offset"),
        "stuck for ms": facts.now - facts.observed("head_since"),
        "deliveries": facts.observed("head_delivery_count"),
    }


_STUCK = frozenset({"head_of_line", "members_idle", "slow_consumers", "burst", "hot_partition"})

#: In the order in which they are told where severity and size are the same.
CAUSES = (
    Cause(
        "no_members",
        CRITICAL,
        "nobody is in the group",
        "start consumers of the group; kafka-share-groups.sh --describe --members shows who is there",
        no_members,
        _STUCK | {"redelivery_storm", "lock_expiry", "window_full", "not_started"},
    ),
    Cause(
        "unassigned",
        CRITICAL,
        "the group has members, but none of them is told to fetch this",
        "check what the members subscribe to; a topic that nobody subscribes to keeps its lag",
        unassigned,
        _STUCK,
    ),
    Cause(
        "start_went_back",
        CRITICAL,
        "the start offset fell although nobody reset it: records may be delivered twice",
        "a defect of brokers (apache/kafka#23074): update them, and look for duplicates since then",
        start_went_back,
    ),
    Cause(
        "count_regressed",
        CRITICAL,
        "the delivery complete count fell: Kafka's lag is too high",
        "a defect of brokers (apache/kafka#23112): update them; effective lag is right",
        count_regressed,
    ),
    Cause(
        "window_full",
        CRITICAL,
        "the window of records in flight is full: nothing new is delivered until its first record is finished",
        "finish or reject the record at that offset, or raise share.partition.max.record.locks of the group",
        window_full,
        _STUCK,
    ),
    Cause(
        "open_transaction",
        CRITICAL,
        "the group reads committed records only, and an open transaction holds it",
        "kafka-transactions.sh find-hanging and abort, or wait until the producer ends it",
        open_transaction,
        _STUCK | {"markers"},
    ),
    Cause(
        "members_idle",
        CRITICAL,
        "members have these partitions and do nothing with them",
        "look at the members: they send heartbeats, but neither finish records nor give them back",
        members_idle,
        frozenset({"slow_consumers", "burst", "hot_partition"}),
    ),
    Cause(
        "records_deleted",
        WARNING,
        "records were deleted before anybody finished them",
        "retention is shorter than the group is behind: keep records longer, or add consumers",
        records_deleted,
    ),
    Cause(
        "retention_near",
        WARNING,
        "unfinished records may be deleted soon",
        "raise retention.ms of the topic until the group has caught up",
        retention_near,
    ),
    Cause(
        "lock_expiry",
        WARNING,
        "locks end before records are acknowledged, and the records are delivered again",
        "raise share.record.lock.duration.ms, fetch fewer records at once, or renew locks while working",
        lock_expiry,
        _STUCK | {"redelivery_storm", "poison_records"},
    ),
    Cause(
        "redelivery_storm",
        WARNING,
        "more deliveries fail than succeed",
        "find out why consumers release records; reject what cannot succeed",
        redelivery_storm,
        _STUCK | {"poison_records"},
    ),
    Cause(
        "poison_records",
        WARNING,
        "some records fail at every delivery, up to the limit",
        "look at the records at these offsets; reject them, or mend what reads them",
        poison_records,
        frozenset({"head_of_line", "members_idle"}),
    ),
    Cause(
        "head_of_line",
        WARNING,
        "one offset holds the start offset, although records after it are finished",
        "look at the record at that offset and at who works on it; its lock ends by itself if its member hangs",
        head_of_line,
        frozenset({"members_idle", "slow_consumers"}),
    ),
    Cause(
        "hot_partition",
        WARNING,
        "most records go to one partition",
        "choose keys that spread better, or assign more members to that partition",
        hot_partition,
        frozenset({"slow_consumers", "burst"}),
    ),
    Cause(
        "slow_consumers",
        WARNING,
        "records arrive faster than the members finish them",
        "add members, or make each record cheaper",
        slow_consumers,
    ),
    Cause(
        "burst",
        NOTE,
        "many records arrived at once, and the members work on them",
        "wait: see how long it takes to drain",
        burst,
        frozenset({"slow_consumers"}),
    ),
    Cause(
        "markers",
        NOTE,
        "only offsets without records are left: the lag goes away with the next record",
        "nothing to do: Kafka counts transaction markers and aborted records as lag until they are passed",
        markers,
        _STUCK,
    ),
    Cause(
        "compaction_holes",
        NOTE,
        "the lag counts offsets whose records were compacted away",
        "sharelag reconcile --true counts what is really there",
        compaction_holes,
        frozenset({"slow_consumers", "burst", "members_idle"}),
    ),
    Cause(
        "not_started",
        NOTE,
        "nothing was ever fetched, so that there is no start offset and no lag yet",
        "let a member poll; share.auto.offset.reset decides where the group begins",
        not_started,
    ),
)
