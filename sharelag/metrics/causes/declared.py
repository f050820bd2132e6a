"""The causes of lag by severity: critical ones, warnings, notes, each in the order of the output.

Critical: nothing is delivered or finished, or brokers lost finished state. Warnings: records are at
risk, or arrive faster than they are finished. Notes: the lag disappears by itself, or consists of
offsets without records.
"""

from __future__ import annotations

import numpy as np

from sharelag.metrics.causes.inputs import (
    HEADS,
    LAG_AWARE,
    NOTHING_FINISHED,
    OF_GROUP,
    CauseInputs,
    Found,
    cause,
    defect,
    has_lately_released,
    head,
    is_stuck,
    nothing_happens,
    or_earlier,
    sums,
    waits,
)
from sharelag.metrics.observed import BINS
from sharelag.metrics.rates import NEVER
from sharelag.model.defects import BY_CAUSE
from sharelag.tables.level import CRITICAL, NOTE, WARNING


@cause(
    CRITICAL,
    "the group has no members",
    f"start consumers; kafka-share-groups.sh --describe {OF_GROUP} --members lists them",
    includes=NOTHING_FINISHED | {"redelivery_storm", "lock_expiry", "window_full", "not_started"},
    command="members",
    needs_members=True,
)
def no_members(given: CauseInputs) -> Found:
    """Find groups without members."""
    # Fall back to the time when the last member left.
    left = np.isnan(given.progress("age_ms")) & (given.now - given.emptied > given.patience)
    where = given.behind & (given.members == 0) & (waits(given) | left)
    lag = given.lag("effective_lag")
    return Found(where, lag, given.emptied, {"members": given.members, "lag": lag})


@cause(
    CRITICAL,
    "the group has members, but these partitions are not assigned to any of them",
    "check the members' subscriptions; the lag of a topic without subscribers never goes away",
    includes=NOTHING_FINISHED,
    command="members",
    what_if=LAG_AWARE,
    needs_members=True,
)
def unassigned(given: CauseInputs) -> Found:
    """Find share partitions that are not assigned to any of the group's members."""
    where = given.behind & (given.members > 0) & (given.assigned == 0)
    where &= waits(given) & nothing_happens(given)
    evidence = {"members": given.members, "assigned members": given.assigned}
    return Found(where, given.lag("effective_lag"), given.observed("last_finished"), evidence)


@cause(
    CRITICAL,
    "the start offset went back without a reset: records may be delivered twice",
    f"a defect of brokers ({BY_CAUSE['start_went_back'].issue}): upgrade them to "
    f"{BY_CAUSE['start_went_back'].fixed_in}, and check for duplicates since then",
    what_if="",
)
def start_went_back(given: CauseInputs) -> Found:
    """Find start offsets that went back without a reset."""
    times = given.observed("start_back")
    held, since = given.lag("effective_lag"), given.observed("start_back_at")
    known_defect = defect(given, "start_went_back", "start_back_record")
    return Found(times > 0, held, since, {"times": times}, known_defect)


@cause(
    CRITICAL,
    "the delivery complete count went back: Kafka's lag is too high",
    f"a defect of brokers ({BY_CAUSE['count_regressed'].issue}): upgrade them to "
    f"{BY_CAUSE['count_regressed'].fixed_in}; effective lag is correct",
    what_if="",
)
def count_regressed(given: CauseInputs) -> Found:
    """Find delivery complete counts that fell with the start offset."""
    times = given.observed("count_back")
    held = np.maximum(given.lag("lag") - given.lag("effective_lag"), 0)
    # Once the start offset has passed the wrong count, both lags are equal again.
    where = (times > 0) & ~(given.observed("start_back") > 0) & (held != 0)
    evidence = {"times": times, "delivery complete count": given.lag("delivery_complete_count")}
    known_defect = defect(given, "count_regressed", "count_back_record")
    return Found(where, held, given.observed("count_back_at"), evidence, known_defect)


@cause(
    CRITICAL,
    "the start offset is beyond the end of the log: records before it are never delivered",
    "it was set there, or an unclean election shortened the log: stop the members and reset "
    f"these partitions alone; sharelag plan-reset {OF_GROUP} --topic TOPIC:PARTITION "
    "--to-latest shows what that does, and how",
    command="plan-reset --to-latest",
    what_if="",
)
def start_beyond_end(given: CauseInputs) -> Found:
    """Find start offsets that have been beyond the end of the log for longer than patience.

    ``Admin.alterShareGroupOffsets`` accepts any offset, and an unclean election can shorten a log.
    Kafka then shows no lag, and delivers nothing until the log has reached the start offset. Within
    patience, the end offset may just be older than the state.
    """
    start, end = given.lag("start_offset"), given.lag("end_offset")
    where = (start > end) & is_stuck(given)
    evidence = {"start offset": start, "end offset": end, "never delivered": start - end}
    # There is no lag whose offsets it could hold.
    return Found(where, given.unknown, given.observed("head_since"), evidence)


@cause(
    CRITICAL,
    "the in-flight window is full: nothing new is delivered until its first record is done",
    "finish or reject the record at that offset, or raise share.partition.max.record.locks",
    includes=NOTHING_FINISHED,
    command="windows --picture",
    what_if=HEADS,
    members_help=False,
)
def window_full(given: CauseInputs) -> Found:
    """Find windows at their maximum width whose start does not move: nothing new is delivered.

    KIP-932 limits acquired records; brokers (``SharePartition.canAcquireRecords``) limit the span
    of the window, so finished offsets and holes count as well.
    """
    limit = given.setting("share.partition.max.record.locks")
    span = given.lag("window_end_offset") - given.lag("effective_start_offset")
    where = (span >= limit) & (given.lag("unread") > 0) & is_stuck(given)
    evidence = head(given) | {"window span": span}
    evidence |= {"unknown in the window": given.lag("window_unknown"), "limit": limit}
    return Found(where, given.lag("unread"), given.observed("head_since"), evidence)


@cause(
    CRITICAL,
    "the group reads only committed records, and an open transaction blocks it",
    "find and abort it with kafka-transactions.sh, or wait until the producer ends it",
    includes=NOTHING_FINISHED | {"markers"},
    command="explain",
    what_if="",
    members_help=False,
)
def open_transaction(given: CauseInputs) -> Found:
    """Find read_committed groups that wait at the last stable offset for an open transaction."""
    end, stable, since = given.lag("end_offset"), given.stable_end, given.stable_since
    held = end - np.maximum(stable, given.lag("effective_start_offset"))
    where = given.behind & given.reads_committed & (stable < end) & (held > 0)
    where &= given.now - since > given.patience
    return Found(where, held, since, {"last stable offset": stable, "end offset": end})


@cause(
    CRITICAL,
    "members are assigned these partitions but make no progress on them",
    "check the members: they send heartbeats, but neither finish nor release records; sharelag "
    "doctor names broker defects that make fetches hang",
    includes={"slow_consumers", "burst", "hot_partition"},
    command="members",
    needs_members=True,
)
def members_idle(given: CauseInputs) -> Found:
    """Find assigned share partitions with waiting records and neither finishes nor releases."""
    where = given.behind & (given.assigned > 0) & waits(given) & nothing_happens(given)
    evidence = {
        "assigned members": given.assigned,
        "oldest record waits ms": given.progress("age_ms"),
        "unknown in the window": given.lag("window_unknown"),
    }
    return Found(where, given.lag("effective_lag"), given.observed("last_finished"), evidence)


@cause(
    WARNING,
    "records were deleted before the group finished them",
    "the group is further behind than the topic's retention: raise it, or add consumers",
    command="progress",
    members_help=False,
)
def records_deleted(given: CauseInputs) -> Found:
    """Find unfinished offsets below the log start offset; Kafka's lag still counts them.

    A marker at the end of a log that was then deleted completely does not count as a record.
    """
    lost, log_start = given.progress("lost"), given.lag("log_start_offset")
    only_a_marker = (lost <= 1) & (given.lag("end_offset") == log_start)
    evidence = {"log start offset": log_start, "start offset": given.lag("start_offset")}
    return Found((lost > 0) & ~only_a_marker, lost, given.unknown, evidence)


@cause(
    WARNING,
    "unfinished records may be deleted soon",
    "raise retention.ms of the topic until the group has caught up",
    command="progress",
)
def retention_near(given: CauseInputs) -> Found:
    """Find unfinished records that retention will delete soon."""
    margin, retention = given.progress("margin_ms"), given.progress("retention_ms")
    where = given.behind & (margin <= retention / 10)
    evidence = {"may be deleted in ms": margin, "retention ms": retention}
    return Found(where, given.lag("effective_lag"), given.unknown, evidence)


@cause(
    WARNING,
    "what the group gives up is lost: brokers do not write it to its dead-letter queue",
    f"until then sharelag dlq {OF_GROUP} shows what is missing",
    command="settings",
    what_if="",
)
def letters_lost(given: CauseInputs) -> Found:
    """Find groups whose dead-letter queue takes no letters."""
    where = np.asarray(given.refusals != "", bool)
    texts = {"refusal": given.refusals.tolist()}
    return Found(where, given.unknown, given.unknown, texts=texts)


@cause(
    WARNING,
    "acquisition locks expire before records are acknowledged, so records are redelivered",
    "raise share.record.lock.duration.ms, fetch fewer records per poll, or renew locks",
    includes=NOTHING_FINISHED | {"redelivery_storm", "poison_records"},
    command="settings",
)
def lock_expiry(given: CauseInputs) -> Found:
    """Find records that are released exactly when their acquisition locks expire.

    The state topic has the same bytes for a release and for an expired lock. The interval between
    releases of the share partition, or of its first record, tells them apart.
    """
    lock, every = given.setting("share.record.lock.duration.ms"), given.observed("release_every_ms")
    deliveries = given.observed("head_delivery_count")
    since = given.observed("head_since")
    of_head = (given.observed("last_released") - since) / np.maximum(deliveries, 1)
    in_time = [(span >= 0.6 * lock) & (span <= 1.6 * lock) for span in (every, of_head)]
    released, finished = given.observed("released"), given.observed("finished")
    where = given.behind & (in_time[0] | (in_time[1] & (deliveries >= 2)))
    where &= has_lately_released(given, 2 * lock) & (5 * released >= released + finished)
    evidence = {
        "given back every ms": np.where(in_time[0], every, of_head),
        "lock duration ms": lock,
        "given back": released,
        "finished": finished,
    }
    return Found(where, given.lag("effective_lag"), since, evidence)


@cause(
    WARNING,
    "more deliveries fail than succeed",
    "find out why consumers release records; reject records that cannot succeed",
    includes=NOTHING_FINISHED | {"poison_records"},
    command="history --events",
)
def redelivery_storm(given: CauseInputs) -> Found:
    """Find share partitions where more deliveries fail than succeed, overall or recently.

    It judges the last part of the span, at least two tenths, in which failures exceed successes the
    most, so that a good hour does not hide the ten minutes since a server broke down.
    """
    finished, released = (
        given.since_each_part(name)[:, :-1] for name in ("finished_bins", "released_bins")
    )
    fails = (released >= 10) & (released > finished)
    part = np.argmax(np.where(fails, released - finished, -np.inf), axis=1)
    row = np.arange(len(part))
    begin, end = given.observed("begin"), given.observed("end")
    since = begin + (end - begin) * part // BINS
    where = given.behind & fails.any(axis=1) & has_lately_released(given, given.patience)
    evidence = {"given back": released[row, part], "finished": finished[row, part]}
    return Found(where, given.lag("effective_lag"), since, evidence)


@cause(
    WARNING,
    "some records fail at every delivery, up to the delivery limit",
    "look at the records at these offsets; reject them, or fix the consumer",
    includes={"head_of_line", "members_idle"},
    command="windows --picture",
    what_if=HEADS,
    members_help=False,
)
def poison_records(given: CauseInputs) -> Found:
    """Find records with one delivery left, or archived at the delivery count limit."""
    limit = given.setting("share.delivery.count.limit")
    least = np.maximum(limit - 1, 2)
    last = given.waiting_after(least)
    where = given.behind & ((last > 0) | (given.given_up > 0))
    evidence = {
        "one delivery left": last,
        "archived at the limit": given.given_up,
        "highest delivery count of what waits": given.observed("max_delivery_count"),
        "limit": limit,
    }
    held = np.where(last > 0, last, given.head_length)
    texts = {"offsets": given.offsets_after(least, where)}
    return Found(where, held, given.observed("head_since"), evidence, texts)


@cause(
    WARNING,
    "one record holds the start offset, although records after it are finished",
    "check the record at that offset and its consumer; if the consumer hangs, the lock expires",
    includes={"members_idle", "slow_consumers"},
    command="windows --picture",
    what_if=HEADS,
    members_help=False,
)
def head_of_line(given: CauseInputs) -> Found:
    """Find single offsets that block the start offset although later records are finished."""
    before = given.lag("effective_start_offset") - given.lag("start_offset")
    beyond = given.lag("window_complete") - before
    # Brokers do not move past a transaction marker at the start offset; no record is stuck there,
    # nor where Kafka counts no lag at all.
    is_done = given.is_hole | (given.lag("lag") == 0)
    where = given.behind & (beyond > 0) & is_stuck(given) & ~is_done
    evidence = head(given) | {"finished after it": beyond}
    return Found(where, given.head_length, given.observed("head_since"), evidence)


@cause(
    WARNING,
    "one partition receives much more than its share of the records",
    "choose keys that spread records better, or assign more members to that partition",
    includes={"slow_consumers", "burst"},
    command="imbalance --by partition",
    what_if=LAG_AWARE,
)
def hot_partition(given: CauseInputs) -> Found:
    """Find partitions with the lag and three times their share of the arrivals."""
    arrived, of = given.arrived, given.topic_of_group
    partitions, total = sums(np.ones(len(of)), of), sums(arrived, of)
    lag = given.lag("effective_lag")
    all_known = sums(np.isnan(arrived).astype(float), of) == 0
    is_hot = (partitions >= 3) & (arrived * partitions >= 3 * total) & (arrived > 0) & all_known
    where = given.behind & is_hot & (lag * 2 > sums(lag, of)) & waits(given)
    evidence = {"arrived here": arrived, "arrived in all partitions": total}
    return Found(where, lag, given.lag_began[0], evidence, or_earlier(given))


@cause(
    WARNING,
    "records arrive faster than members finish them",
    "add members, or make processing faster",
    command="simulate --compare --members {more}",
)
def slow_consumers(given: CauseInputs) -> Found:
    """Find records finished significantly more slowly than they arrive, but steadily."""
    arriving, done = given.progress("arrival_rate"), given.progress("completion_rate")
    where = given.behind & (done > 0) & (given.drain == NEVER)
    where &= (arriving > 1.1 * done) & waits(given) & (given.assigned != 0)
    evidence = {
        "arrivals per second": arriving,
        "finished per second": done,
        "assigned members": given.assigned,
    }
    held = given.lag("effective_lag")
    return Found(where, held, given.lag_began[0], evidence, or_earlier(given))


@cause(
    NOTE,
    "many records arrived at once, and members are working through them",
    "wait: sharelag progress estimates the time to drain",
    includes={"slow_consumers"},
    command="progress",
)
def burst(given: CauseInputs) -> Found:
    """Find large arrivals in a short time that are being processed."""
    arrivals, lag = given.arrivals, given.lag("effective_lag")
    known = np.sum(~np.isnan(arrivals), axis=1)
    most = np.max(np.nan_to_num(arrivals), axis=1, initial=0)
    usual = (np.nansum(arrivals, axis=1) - most) / np.maximum(known - 1, 1)
    where = given.behind & (most >= 4 * usual) & (most > 10)
    where &= (2 * most >= lag) & (10 * lag >= most)
    where &= (known > 2) & (2 * known > arrivals.shape[1]) & (given.progress("completion_rate") > 0)
    where &= given.assigned != 0
    evidence = {"arrived at once": most, "otherwise in that time": usual}
    return Found(where, np.minimum(lag, most), given.unknown, evidence)


@cause(
    NOTE,
    "only offsets without records are left: the lag disappears with the next record",
    "nothing: Kafka counts transaction markers and aborted records as lag until it passes them",
    includes=NOTHING_FINISHED,
    command="reconcile",
    what_if="",
    members_help=False,
)
def markers(given: CauseInputs) -> Found:
    """Find lag that consists of offsets without records: transaction markers, aborted records."""
    requested, record = given.next_record
    left = given.lag("effective_lag")
    end = given.lag("end_offset")
    nothing = requested & (np.isnan(record) | (record >= end))
    nothing |= given.is_hole & given.nothing_unread & (given.lag("window_available") == 0)
    is_open = given.reads_committed & (given.stable_end < end)
    # An end offset from before the window's last record does not show later records.
    nothing &= given.lag("effective_start_offset") < end
    where = given.behind & nothing & ~is_open & ~given.is_compacted
    return Found(where, left, given.unknown, {"offsets without records": left})


@cause(
    NOTE,
    "the lag includes offsets whose records were removed by compaction",
    "count the existing records with sharelag reconcile --true",
    includes={"slow_consumers", "burst", "members_idle"},
    command="reconcile",
    what_if="",
    members_help=False,
)
def compaction_holes(given: CauseInputs) -> Found:
    """Find lag on compacted topics whose offsets, by a sample, mostly have no record."""
    sampled, gone = given.sampled_holes
    lag = given.lag("effective_lag")
    held = np.rint(lag * gone / np.maximum(sampled, 1))
    where = given.behind & given.is_compacted & (sampled > 0) & (2 * gone >= sampled) & (held > 0)
    evidence = {"offsets looked at": sampled, "without a record": gone}
    return Found(where, held, given.unknown, evidence)


@cause(
    NOTE,
    "records arrived, but none is finished yet, so start offset and lag are unknown",
    "check that a member polls and acknowledges; share.auto.offset.reset sets where it starts",
    what_if="",
)
def not_started(given: CauseInputs) -> Found:
    """Find share partitions with records but without a start offset: nothing was finished yet."""
    waiting = given.lag("end_offset") > given.lag("log_start_offset")
    came = (given.arrived > 0) | (waiting & given.from_earliest)
    evidence = {"members": given.members, "arrived meanwhile": given.arrived}
    evidence |= {"end offset": given.lag("end_offset")}
    return Found(given.never_fetched & came, given.unknown, given.unknown, evidence)
