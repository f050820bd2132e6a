"""Finders: one plain function per cause of lag; `sharelag.metrics.causes` has their texts.

Each works on all share partitions at once. Unknown facts never support a cause, and no cause claims
what the state topic does not contain (which member holds a record, why it was archived).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sharelag.metrics.facts import Bools, Facts, Floats, sums
from sharelag.metrics.observed import BINS
from sharelag.model.defects import BY_CAUSE


@dataclass(frozen=True)
class Found:
    """Where a cause applies, with its evidence: one value per share partition."""

    where: Bools
    held: Floats  # offsets of lag that it accounts for
    since: Floats  # milliseconds
    evidence: Mapping[str, Floats] = field(default_factory=dict)
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)  # evidence that is text


def no_members(facts: Facts) -> Found:
    """Find groups without members."""
    # Without the time of a record, use the time when the last member left.
    left = np.isnan(facts.progress("age_ms")) & (facts.now - facts.emptied > facts.patience)
    where = facts.behind & (facts.members == 0) & (_waits(facts) | left)
    return Found(
        where,
        facts.lag("effective_lag"),
        facts.emptied,
        {"members": facts.members, "lag": facts.lag("effective_lag")},
    )


def unassigned(facts: Facts) -> Found:
    """Find share partitions that are not assigned to any of the group's members."""
    where = (
        facts.behind
        & (facts.members > 0)
        & (facts.assigned == 0)
        & _waits(facts)
        & _nothing_happens(facts)
    )
    return Found(
        where,
        facts.lag("effective_lag"),
        facts.observed("last_finished"),
        {"members": facts.members, "assigned members": facts.assigned},
    )


def members_idle(facts: Facts) -> Found:
    """Find assigned share partitions with waiting records and neither finishes nor releases."""
    where = facts.behind & (facts.assigned > 0) & _waits(facts) & _nothing_happens(facts)
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
    """Find windows at their maximum width whose start does not move: nothing new is delivered.

    KIP-932 limits acquired records; brokers (``SharePartition.canAcquireRecords``) limit the span
    of the window, so finished offsets and holes count as well.
    """
    limit = facts.setting("share.partition.max.record.locks")
    span = facts.lag("window_end_offset") - facts.lag("effective_start_offset")
    where = (span >= limit) & (facts.lag("unread") > 0) & _stuck(facts)
    evidence = {
        "window span": span,
        "acquired at most": facts.lag("window_unknown"),
        "limit": limit,
    }
    return Found(where, facts.lag("unread"), facts.observed("head_since"), _head(facts) | evidence)


def open_transaction(facts: Facts) -> Found:
    """Find read_committed groups that wait at the last stable offset for an open transaction."""
    end, stable, since = facts.lag("end_offset"), facts.stable_end, facts.stable_since
    held = end - np.maximum(stable, facts.lag("effective_start_offset"))
    where = (
        facts.behind
        & facts.reads_committed
        & (stable < end)
        & (held > 0)
        & (facts.now - since > facts.patience)
    )
    return Found(where, held, since, {"last stable offset": stable, "end offset": end})


def start_went_back(facts: Facts) -> Found:
    """Find start offsets that went back without a reset."""
    times = facts.observed("start_back")
    return Found(
        times > 0,
        facts.lag("effective_lag"),
        facts.observed("start_back_at"),
        {"times": times},
        _defect(facts, "start_went_back", "start_back_record"),
    )


def count_regressed(facts: Facts) -> Found:
    """Find delivery complete counts that fell with the start offset."""
    times = facts.observed("count_back")
    counted = facts.lag("delivery_complete_count")
    held = np.maximum(facts.lag("lag") - facts.lag("effective_lag"), 0)
    # Once the start offset has passed what was counted wrongly, both lags are the same again.
    where = (times > 0) & ~(facts.observed("start_back") > 0) & (held != 0)
    return Found(
        where,
        held,
        facts.observed("count_back_at"),
        {"times": times, "delivery complete count": counted},
        _defect(facts, "count_regressed", "count_back_record"),
    )


def _defect(facts: Facts, cause: str, record: str) -> dict[str, list[str]]:
    """Name the defect of Kafka that a cause shows, and the last record that shows it."""
    defect = BY_CAUSE[cause]
    said = f"{defect.issue}, fixed in {defect.fixed_in}"
    return {"record": facts.observed_text(record), "defect": [said] * len(facts.groups)}


def start_beyond_end(facts: Facts) -> Found:
    """Find start offsets beyond the end of the log, which have been there for longer than patience.

    ``Admin.alterShareGroupOffsets`` accepts any offset, and an unclean election can shorten a log.
    Kafka shows no lag then, and delivers nothing until the log has reached the start offset. Within
    patience it may be an end offset that is older than the state.
    """
    start, end = facts.lag("start_offset"), facts.lag("end_offset")
    unknown = np.full(len(start), np.nan)  # no offset of a lag: there is none
    evidence = {"start offset": start, "end offset": end, "never delivered": start - end}
    return Found((start > end) & _stuck(facts), unknown, facts.observed("head_since"), evidence)


def records_deleted(facts: Facts) -> Found:
    """Find unfinished offsets below the log start offset; Kafka's lag still counts them.

    A marker at the end of a log that was then deleted completely does not count as a record.
    """
    lost, log_start = facts.progress("lost"), facts.lag("log_start_offset")
    only_a_marker = (lost <= 1) & (facts.lag("end_offset") == log_start)
    evidence = {"log start offset": log_start, "start offset": facts.lag("start_offset")}
    return Found((lost > 0) & ~only_a_marker, lost, np.full(len(lost), np.nan), evidence)


def lock_expiry(facts: Facts) -> Found:
    """Find records that are released exactly when their acquisition locks expire.

    The state topic has the same bytes for a release and for an expired lock. The interval between
    releases of the share partition, or of its first record, tells them apart.
    """
    lock, every = facts.setting("share.record.lock.duration.ms"), facts.observed("release_every_ms")
    deliveries = facts.observed("head_delivery_count")
    of_head = (facts.observed("last_released") - facts.observed("head_since")) / np.maximum(
        deliveries, 1
    )
    in_time = [(span >= 0.6 * lock) & (span <= 1.6 * lock) for span in (every, of_head)]
    where = (
        facts.behind & (in_time[0] | (in_time[1] & (deliveries >= 2))) & _recent(facts, 2 * lock)
    )
    released, finished = facts.observed("released"), facts.observed("finished")
    where &= 5 * released >= released + finished
    return Found(
        where,
        facts.lag("effective_lag"),
        facts.observed("head_since"),
        {
            "given back every ms": np.where(in_time[0], every, of_head),
            "lock duration ms": lock,
            "given back": released,
            "finished": finished,
        },
    )


def poison_records(facts: Facts) -> Found:
    """Find records with one delivery left, or archived at the delivery count limit."""
    limit = facts.setting("share.delivery.count.limit")
    least = np.maximum(limit - 1, 2)
    last = facts.waiting_after(least)
    where = facts.behind & ((last > 0) | (facts.given_up > 0))
    evidence = {
        "one delivery left": last,
        "archived at the limit": facts.given_up,
        "highest delivery count of what waits": facts.observed("max_delivery_count"),
        "limit": limit,
    }
    held = np.where(last > 0, last, facts.head_length)
    return Found(
        where,
        held,
        facts.observed("head_since"),
        evidence,
        {"offsets": facts.offsets_after(least, where)},
    )


def redelivery_storm(facts: Facts) -> Found:
    """Find share partitions where more deliveries fail than succeed: in all, or of late.

    What is judged is the end of the span, at least two tenths of it, in which failures exceed
    successes the most: an hour in which all went well must not hide the ten minutes since a server
    broke down.
    """
    finished, released = (
        facts.since_each_part(name)[:, :-1] for name in ("finished_bins", "released_bins")
    )
    fails = (released >= 10) & (released > finished)
    part = np.argmax(np.where(fails, released - finished, -np.inf), axis=1)
    row = np.arange(len(part))
    begin, end = facts.observed("begin"), facts.observed("end")
    return Found(
        facts.behind & fails.any(axis=1) & _recent(facts, facts.patience),
        facts.lag("effective_lag"),
        begin + (end - begin) * part // BINS,
        {"given back": released[row, part], "finished": finished[row, part]},
    )


def head_of_line(facts: Facts) -> Found:
    """Find single offsets that block the start offset although later records are finished."""
    before = facts.lag("effective_start_offset") - facts.lag("start_offset")
    beyond = facts.lag("window_complete") - before
    # Brokers do not move past a transaction marker at the start offset; no record is stuck there,
    # nor where Kafka counts no lag at all.
    is_done = facts.is_hole | (facts.lag("lag") == 0)
    where = facts.behind & (beyond > 0) & _stuck(facts) & ~is_done
    return Found(
        where,
        facts.head_length,
        facts.observed("head_since"),
        _head(facts) | {"finished after it": beyond},
    )


def hot_partition(facts: Facts) -> Found:
    """Find partitions with the lag and three times their share of the arrivals."""
    arrived, of = facts.arrived, facts.topic_of_group
    partitions, total = sums(np.ones(len(of)), of), sums(arrived, of)
    lag = facts.lag("effective_lag")
    all_known = sums(np.isnan(arrived).astype(float), of) == 0
    is_hot = (partitions >= 3) & (arrived * partitions >= 3 * total) & (arrived > 0) & all_known
    where = facts.behind & is_hot & (lag * 2 > sums(lag, of)) & _waits(facts)
    return Found(
        where,
        lag,
        facts.lag_began[0],
        {"arrived here": arrived, "arrived in all partitions": total},
        _or_earlier(facts),
    )


def burst(facts: Facts) -> Found:
    """Find large arrivals in a short time that are being processed."""
    arrivals, lag = facts.arrivals, facts.lag("effective_lag")
    known = np.sum(~np.isnan(arrivals), axis=1)
    most = np.max(np.nan_to_num(arrivals), axis=1, initial=0)
    usual = (np.nansum(arrivals, axis=1) - most) / np.maximum(known - 1, 1)
    where = (
        facts.behind & (most >= 4 * usual) & (2 * most >= lag) & (10 * lag >= most) & (most > 10)
    )
    where &= (known > 2) & (2 * known > arrivals.shape[1]) & (facts.progress("completion_rate") > 0)
    evidence = {"arrived at once": most, "otherwise in that time": usual}
    return Found(where, np.minimum(lag, most), np.full(len(lag), np.nan), evidence)


def slow_consumers(facts: Facts) -> Found:
    """Find records finished significantly more slowly than they arrive, but steadily."""
    arriving, done = facts.progress("arrival_rate"), facts.progress("completion_rate")
    grows = facts.drain == "never"
    where = facts.behind & (done > 0) & grows & (arriving > 1.1 * done) & _waits(facts)
    evidence = {
        "arrivals a second": arriving,
        "finished a second": done,
        "assigned members": facts.assigned,
    }
    held = facts.lag("effective_lag")
    return Found(where, held, facts.lag_began[0], evidence, _or_earlier(facts))


def markers(facts: Facts) -> Found:
    """Find lag that consists of offsets without records: transaction markers, aborted records."""
    requested, record = facts.next_record
    left = facts.lag("effective_lag")
    nothing = requested & (np.isnan(record) | (record >= facts.lag("end_offset")))
    nothing |= facts.is_hole & facts.nothing_unread & (facts.lag("window_available") == 0)
    is_open = facts.reads_committed & (facts.stable_end < facts.lag("end_offset"))
    where = facts.behind & nothing & ~is_open & ~facts.is_compacted
    return Found(where, left, np.full(len(left), np.nan), {"offsets without records": left})


def compaction_holes(facts: Facts) -> Found:
    """Find lag on compacted topics whose offsets, by a sample, mostly have no record."""
    sampled, gone = facts.sampled_holes
    lag = facts.lag("effective_lag")
    held = np.rint(lag * gone / np.maximum(sampled, 1))
    where = facts.behind & facts.is_compacted & (sampled > 0) & (2 * gone >= sampled) & (held > 0)
    return Found(
        where,
        held,
        np.full(len(lag), np.nan),
        {"offsets looked at": sampled, "without a record": gone},
    )


def not_started(facts: Facts) -> Found:
    """Find share partitions with records but without a start offset: nothing was finished yet."""
    waiting = facts.lag("end_offset") > facts.lag("log_start_offset")
    from_earliest = np.asarray(facts.setting_text("share.auto.offset.reset") == "earliest", bool)
    came = (facts.arrived > 0) | (waiting & from_earliest)
    where = facts.never_fetched & came
    unknown = np.full(len(where), np.nan)
    evidence = {
        "members": facts.members,
        "arrived meanwhile": facts.arrived,
        "end offset": facts.lag("end_offset"),
    }
    return Found(where, unknown, unknown, evidence)


def retention_near(facts: Facts) -> Found:
    """Find unfinished records that retention will delete soon."""
    margin, retention = facts.progress("margin_ms"), facts.progress("retention_ms")
    where = facts.behind & (margin <= retention / 10)
    return Found(
        where,
        facts.lag("effective_lag"),
        np.full(len(margin), np.nan),
        {"may be deleted in ms": margin, "retention ms": retention},
    )


def letters_lost(facts: Facts) -> Found:
    """Find groups whose dead-letter queue takes no letters."""
    said = facts.refusals
    unknown = np.full(len(said), np.nan)
    texts = {"refusal": [str(one) for one in said]}
    return Found(np.asarray(said != "", bool), unknown, unknown, texts=texts)


def _or_earlier(facts: Facts) -> dict[str, list[str]]:
    """Say where the lag may have begun before what was observed."""
    words = "the beginning of what was observed, or earlier"
    return {"since": [words if is_older else "" for is_older in facts.lag_began[1]]}


def _nothing_happens(facts: Facts) -> Bools:
    """Whether nothing was finished or released for longer than patience; unknown is False."""
    last = np.fmax(facts.observed("last_finished"), facts.observed("last_released"))
    last = np.where(np.isnan(last), facts.observed("begin"), last)
    return np.asarray(facts.now - last > facts.patience, bool)


def _waits(facts: Facts) -> Bools:
    """Whether the oldest unfinished record is older than patience; markers do not count."""
    return np.asarray(facts.progress("age_ms") > facts.patience, bool)


def _stuck(facts: Facts) -> Bools:
    """Whether the effective start offset has not moved for longer than patience."""
    return np.asarray(facts.now - facts.observed("head_since") > facts.patience, bool)


def _recent(facts: Facts, within: Floats) -> Bools:
    return np.asarray(
        facts.now - facts.observed("last_released") <= np.maximum(within, facts.patience), bool
    )


def _head(facts: Facts) -> dict[str, Floats]:
    return {
        "offset": facts.lag("effective_start_offset"),
        "stuck for ms": facts.now - facts.observed("head_since"),
        "deliveries": facts.observed("head_delivery_count"),
        "since before the first record seen": np.where(
            facts.observed("head_is_older") == 1, 1, np.nan
        ),
    }
