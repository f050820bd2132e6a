"""Views: which columns people are shown of each answer, in which order, under which headings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sharelag.tables.columns import heading_of, meanings_of


@dataclass(frozen=True)
class View:
    """Columns in their order.

    Attributes
    ----------
    names
        Columns of `sharelag.tables.columns.COLUMNS`.
    headings
        Of columns that are called otherwise here.
    meanings
        Of columns that have a special meaning here.
    """

    names: tuple[str, ...]
    headings: Mapping[str, str] = field(default_factory=dict)
    meanings: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> dict[str, str]:
        """Heading to column, as results and printed tables take them."""
        return {self.headings.get(name) or heading_of(name): name for name in self.names}

    @property
    def means(self) -> dict[str, str]:
        """What each column means, by name."""
        return meanings_of(self.names) | dict(self.meanings)

    def without(self, *names: str) -> View:
        """The view without some columns."""
        return replace(self, names=tuple(name for name in self.names if name not in names))

    def after(self, name: str, *others: str) -> View:
        """The view with other columns after one of its columns."""
        at = self.names.index(name) + 1
        return replace(self, names=(*self.names[:at], *others, *self.names[at:]))


def view(names: str, meanings: Mapping[str, str] | None = None, **headings: str) -> View:
    """A view of columns whose names are given in one text."""
    return View(tuple(names.split()), headings, meanings or {})


def in_words(names: str, **headings: str) -> View:
    """A view for a page: headings in words, where they are not given those of a terminal."""
    chosen = tuple(names.split())
    words = {name: heading_of(name).replace("-", " ").capitalize() for name in chosen}
    return View(chosen, words | headings)


# ---- answers -------------------------------------------------------------------------------------

#: The first six are those of ``kafka-share-groups.sh``.
RESET_PLAN = view(
    "group_id topic partition start_offset new_start_offset lag new_lag again skipped "
    "skipped_unread new_drain_ms remote"
)
RIGHTS = view("granted operation resource_type resource purpose grant")
OVERVIEW = view(
    "level group_id lag age_ms arrival_rate completion_rate gone members why",
    meanings={"why": "main finding; - where there is no problem"},
)
#: What of it the demo shows.
OVERVIEW_IN_SHORT = view(
    "level group_id lag age_ms cause", meanings={"cause": "the worst cause; - where there is none"}
)
LAG = view(
    "group_id topic partition leader_epoch start_offset lag end_offset unread "
    "window_available window_unknown window_complete notes"
)
BRIEF = view("group_id topic partition leader_epoch start_offset lag end_offset")
ROLLUP = view(
    "group_id topic partitions lag max_lag unread window_available window_unknown window_complete"
)
WINDOWS = view(
    "group_id topic partition state_epoch leader_epoch start_offset effective_start_offset "
    "window_end_offset runs"
)
HISTORY = view(
    "record_timestamp group_id topic partition record_kind leader_epoch event start_offset "
    "effective_start_offset window_end_offset window_complete window_available runs "
    "max_delivery_count finished released archived partial",
    meanings=meanings_of(("runs",), "history"),
)
RECONCILED = view(
    "group_id topic partition described_lag lag naive_lag effective_lag true_lag differences"
)
DIFF = view(
    "group_id topic partition change finished start_offset_before start_offset_after "
    "window_end_offset_before window_end_offset_after leader_epoch_before leader_epoch_after "
    "runs_before runs_after",
    meanings={"finished": "offsets finished in between"},
)
TIMELINE = view(
    "as_of group_id topic partition start_offset lag end_offset unread window_available "
    "window_complete lag_reason"
)
EVENTS = view(
    "happened_at group_id topic partition event occurrences leader_epoch_before leader_epoch "
    "leader_id member_id"
)
CAUSES = view("group_id rank cause held since")
PROGRESS = view(
    "group_id topic partition oldest_offset age_ms arrival_rate completion_rate redelivery_rate "
    "drain drain_low_ms drain_ms drain_high_ms margin_ms lost"
)
#: Of share partitions, where brokers' metrics are given.
IN_FLIGHT = ("acquired_low", "acquired_high", "never_delivered_low", "never_delivered_high")
MEASURED = ("in_flight_offsets", "in_flight_batches", "lock_timeouts", "lock_timeout_rate")
IMBALANCE = view(
    "group_id topic over measure items total max max_mean gini cv top_share jain",
    meanings=meanings_of(("topic", "measure"), "imbalance"),
)
IMBALANCE_OVER_TIME = replace(IMBALANCE, names=("as_of", *IMBALANCE.names))
SKEW = view(
    "group_id verdict findings lag lag_gini lag_max_mean partitions unattended_partitions members "
    "idle_members"
)
MEMBERS = view("group_id member_id client_id client_host rack_id member_epoch assigned assignment")
GROUP_STATES = view(
    "group_id type state group_epoch assignment_epoch coordinator members topics partitions lag",
)
BROKERS = view(
    "group_id topic partition lag leader_id leader_rack current_leader_epoch leader_epoch replicas "
    "state_partition share_coordinator group_coordinator"
)
BROKER_METRICS = view("as_of broker group_id topic partition metric ack_type tags attribute figure")
_OF_LETTERS = {
    "reason": "rejected, or delivery limit, as the queue says; without a record in it, by the "
    "delivery count: delivery limit, else rejected or gap; of unreadable records what is wrong",
    "first_offset": "first offset of the run",
    "last_offset": "last offset of the run",
}
LEDGER = view(
    "group_id topic partition first_offset last_offset status reason delivery_count since record "
    "letters queue queue_partition first_queue_offset copied retained",
    _OF_LETTERS | {"since": "archived, or archiving, since then; -: not in the history"},
)
REDRIVE = view(
    "group_id topic partition first_offset last_offset offsets status reason from command",
    _OF_LETTERS,
)
DESIGNS = view(
    "group_id design user_topic_records state_topic_records snapshots bytes replayed_records "
    "scanned_offsets"
)
SETTINGS = view(
    "group_id name value source default range problem hint",
    meanings={"group_id": "share group; - for the brokers"},
)
SETTINGS_DRIFT = view(
    "group_id name value_before value source_before source",
    meanings={"group_id": "share group; - for the brokers"},
)
LINT = view("name value problem hint", meanings={"name": "of the consumer's property"})
LINTED = view(
    "name value problem hint",
    meanings={"name": "option", "value": "given, or Kafka's default"},
    name="OPTION",
)
HEALTH = view(
    "partition records snapshots updates tombstones rejects missing bytes share_partitions "
    "updates_per_snapshot bytes_per_finished misplaced needed_from prunable pinned_by",
    meanings={"partition": "partition of the state topic"},
)
SNAPSHOTS = view(
    "group_id topic partition record_partition snapshot_offset snapshot_timestamp updates_since "
    "rejected_since record_offset record_timestamp",
    meanings=meanings_of(("record_partition", "record_offset", "record_timestamp"), "snapshots"),
    record_partition="STATE-PARTITION",
    record_offset="LAST-OFFSET",
    record_timestamp="LAST-RECORD",
)
FINDINGS = view("finding group_id topic_id partition record_partition belongs summary")
CHECKS = view("level rule group_id topic partition at_this_level summary silenced_until")
_RUN_OF = "group_id topic_id partition first_offset last_offset"
_OF_RUN = {"first_offset": "first offset of the run", "last_offset": "last offset of the run"}
#: What of a broker's log of requests a terminal shows, by table; of others all columns.
REQUESTS = {
    "held": view(f"{_RUN_OF} member_id delivery_count since locked_until", _OF_RUN),
    "holds": view(f"{_RUN_OF} member_id delivery_count since until ended_by", _OF_RUN),
    "findings": view("timestamp finding group_id member_id topic_id partition summary"),
    "errors": view(
        "group_id api error_code error_name answers first_answer last_answer meaning advice"
    ),
    "requests": view("timestamp api api_version group_id member_id session_epoch error_code"),
    "acquisitions": view(f"timestamp {_RUN_OF} member_id delivery_count lock_ms", _OF_RUN),
    "acknowledgements": view(
        f"timestamp {_RUN_OF} member_id acknowledge_word api error_code", _OF_RUN
    ),
    "heartbeats": view("timestamp group_id member_id member_epoch answered_epoch error_code"),
    "state_calls": view(
        "timestamp call group_id topic_id partition state_epoch leader_epoch start_offset "
        "delivery_complete_count error_code"
    ),
    "offset_calls": view(
        "timestamp call group_id topic partition start_offset lag error_code error_message"
    ),
    "descriptions": view(
        "timestamp group_id group_state group_epoch assignment_epoch assignor_name members"
    ),
    "listings": view("timestamp broker group_id type group_state error_code"),
    "described_members": view(
        "timestamp group_id member_id client_id client_host rack_id member_epoch "
        "assigned_partitions"
    ),
    "current_leaders": view(
        "timestamp group_id topic_id partition member_id broker leader_id current_leader_epoch "
        "error_code"
    ),
    "rejects": view("timestamp source position reason"),
    "memberships": view(
        "group_id member_id since until ended_by member_epoch subscribed_topic_names "
        "assigned_partitions heartbeats"
    ),
    "session_partitions": view(
        "timestamp broker group_id topic_id partition member_id session_epoch forgotten"
    ),
    "sessions": view("group_id member_id broker topic_id partition since until ended_by"),
    "batching": view(
        "group_id topic_id partition member_id acquired_runs acquired_offsets acknowledged_runs "
        "acknowledged_offsets whole_runs whole_ratio"
    ),
}
#: What of the output of consumers a terminal shows, by table.
CONSUMED = {
    "deliveries": view("timestamp topic partition offset delivery_count"),
    "outcomes": view(
        "timestamp topic partition first_offset last_offset succeeded error_message", _OF_RUN
    ),
    "rejects": view("source position reason"),
}
REPORT_RUNS = view("started report level as_of run_id kept headline", as_of="DATA-AS-OF")


# ---- simulations ---------------------------------------------------------------------------------

SUMMARY = view(
    "scenario assignor members seed drain_ms lag_p50 lag_p95 lag_max age_p95_ms completed archived "
    "redeliveries wasted moves idle_members busy_share",
    members="MEMBERS",
    drain_ms="DRAIN",
)

SIMULATED_TIMELINE = view(
    "variant assignor members seed time_ms topic partition log_start_offset start_offset "
    "window_end_offset delivery_complete_count in_flight end_offset lag age_ms fetching",
    members="MEMBERS",
)
_MEAN = {
    "mean": "over the runs; - where one does not know it; in every run: all of them have it, so "
    "there are no bounds",
}
COMPARED = view(
    "by variant mean low high difference difference_low difference_high ratio verdict",
    meanings=_MEAN
    | {
        "verdict": "better or worse than the baseline only where the interval says so; the winner "
        "is better than all",
    },
)
PROBES = view(
    "variant members mean low high met answer",
    meanings=_MEAN | {"members": "that were tried"},
    members="MEMBERS",
    low="AT-LEAST",
    high="AT-MOST",
)
MOVING = view(
    "by variant consumer_group share_group difference low high better",
    meanings={
        "difference": "mean of share group - consumer group, run for run",
        "low": "the difference is not below",
        "high": "the difference is not above",
    },
    low="AT-LEAST",
    high="AT-MOST",
)
RUN = view("by value")
SCENARIO = view("by value", meanings={"by": "part of the scenario"}, by="WHAT")
EVIDENCE = view(
    "by value",
    meanings={
        "by": "attribute of the evidence, a pyarrow table",
        "value": "of it; 0: could not be read, or nothing there",
    },
    by="TABLE",
    value="ROWS",
)

# ---- views that depend on the options ---------------------------------------------------------


def windows_with(notes: bool) -> dict[str, str]:
    """The columns of windows; with who holds what, where a log of requests tells."""
    return (WINDOWS.after("runs", "notes") if notes else WINDOWS).columns


def lag(measured: bool) -> View:
    """`LAG`, with what brokers measured where their metrics are given."""
    return LAG.after("window_unknown", *IN_FLIGHT) if measured else LAG


def progress(measured: bool) -> View:
    """`PROGRESS`, with what brokers measured where their metrics are given."""
    return PROGRESS.after("redelivery_rate", *MEASURED) if measured else PROGRESS


def reconciled(described: bool, true: bool) -> View:
    """`RECONCILED` without what was not requested: Kafka's own lag, and the records themselves."""
    without = [] if described else ["described_lag"]
    return RECONCILED.without(*without, *([] if true else ["true_lag"]))


def summary(variants: bool, failed: bool) -> View:
    """`SUMMARY` of runs of several variants, or some of which failed."""
    before = ("variant",) if variants else ()
    return replace(SUMMARY, names=(*before, *SUMMARY.names, *(("error",) if failed else ())))
