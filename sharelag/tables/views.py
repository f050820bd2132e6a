"""Views by name: the columns to show of each answer, in order, with headings."""

from __future__ import annotations

from dataclasses import replace

from sharelag.tables import declared
from sharelag.tables.declared import requests
from sharelag.tables.table import View as View
from sharelag.tables.table import in_words as in_words
from sharelag.tables.table import view as view

RESET_PLAN = declared.answers.RESET_PLAN.view
RIGHTS = declared.groups.RIGHTS.view
OVERVIEW = declared.answers.OVERVIEW.view
#: The part of it that the demo shows.
OVERVIEW_IN_SHORT = view(
    "level group_id lag age_ms cause", meanings={"cause": "the worst cause; - where there is none"}
)
LAG = declared.lag.LAG.view
BRIEF = declared.lag.BRIEF_LAG.view
ROLLUP = declared.lag.ROLLUP.view
WINDOWS = declared.windows.WINDOWS.view
HISTORY = declared.windows.HISTORY.view
RECONCILED = declared.answers.RECONCILED.view
DIFF = declared.windows.DIFF.view
TIMELINE = declared.windows.TIMELINE.view
EVENTS = declared.answers.EVENTS.view
CAUSES = declared.answers.CAUSES.view
PROGRESS = declared.answers.PROGRESS.view
FORECASTS = declared.answers.FORECASTS.view
#: Columns of share partitions that require brokers' metrics.
IN_FLIGHT = ("acquired_low", "acquired_high", "never_delivered_low", "never_delivered_high")
MEASURED = ("in_flight_offsets", "in_flight_batches", "lock_timeouts", "lock_timeout_rate")
IMBALANCE = declared.answers.IMBALANCE.view
IMBALANCE_OVER_TIME = replace(IMBALANCE, names=("as_of", *IMBALANCE.names))
SKEW = view(
    "group_id verdict findings lag lag_gini lag_max_mean partitions unattended_partitions members "
    "idle_members"
)
MEMBERS = declared.groups.MEMBER_ROWS.view
GROUP_STATES = declared.groups.GROUP_STATES.view
BROKERS = declared.groups.BROKERS.view
BROKER_METRICS = declared.groups.BROKER_METRICS.view
LEDGER = declared.dead_letters.LEDGER.view
REDRIVE = declared.dead_letters.REDRIVE.view
DESIGNS = view(
    "group_id design user_topic_records state_topic_records snapshots bytes replayed_records "
    "scanned_offsets"
)
SETTINGS = declared.groups.IN_FORCE.view
SETTINGS_DRIFT = declared.groups.SETTINGS_DRIFT.view
LINT = declared.groups.LINT.view
LINTED = view("name value problem hint", {"name": "option", "value": "given, or Kafka's default"},
              name="OPTION")  # fmt: skip
HEALTH = declared.records.HEALTH.view
SNAPSHOTS = declared.windows.SNAPSHOTS.view
FINDINGS = declared.records.FINDINGS.view
CHECKS = declared.answers.CHECKED.view
#: Views of a broker's request log for a terminal, by table.
REQUESTS = {table.name: table.view for table in (*requests.OF_LINES, *requests.WORKED_OUT)}
#: Views of the output of consumers for a terminal, by table.
CONSUMED = {table.name: table.view for table in requests.CONSUMED}
REPORT_RUNS = view("started report level as_of run_id kept headline", as_of="DATA-AS-OF")


# ---- simulations ---------------------------------------------------------------------------------

SUMMARY = view(
    "scenario assignor members seed drain_ms lag_p50 lag_p95 lag_max age_p95_ms completed archived "
    "redeliveries wasted moves idle_members busy_share",
    members="MEMBERS",
)

SIMULATED_TIMELINE = view(
    "variant assignor members seed time_ms topic partition log_start_offset start_offset "
    "window_end_offset delivery_complete_count in_flight end_offset lag age_ms fetching",
    members="MEMBERS",
)
_MEAN = {"mean": "over the runs; - where one does not know it; in every run: all of them have it, "
                 "so there are no bounds"}  # fmt: skip
_VERDICT = "better or worse than the baseline only where the interval says so; the winner is better"
COMPARED = view(
    "by variant mean low high difference difference_low difference_high ratio verdict",
    _MEAN | {"verdict": f"{_VERDICT} than all"},
)
#: A comparison at a glance: one row per variant, the baseline first.
DECISION = view(
    "variant drain_ms drained age_p95_ms age_p95_difference lag_p95 redeliveries member_hours "
    "verdict",
    meanings={
        "drain_ms": "until nothing was left, the mean of all runs; - where one never drained",
        "age_p95_difference": "the variant minus the first row, in paired runs, ± half of its "
        "confidence interval, which the bar shows",
        "verdict": "by the p95 age and the drain time; several that are better than the baseline "
        "and do not differ tie; - if the runs show no difference",
    },
    age_p95_difference="AGAINST-FIRST",
)
#: A past span: what happened, the simulation of it, and the simulation with a change.
OTHERWISE = view(
    "variant lag_end low high drain_ms lag_max age_max_ms alert_at alert_share member_hours",
    meanings={"low": "a single run does not end below", "high": "a single run does not end above"},
    lag_max="HIGHEST-LAG",
)
PROBES = view("variant members mean low high met answer", _MEAN | {"members": "that were tried"},
              members="MEMBERS")  # fmt: skip
TUNED = view("setting whose now recommended safe_from safe_to cliff")
TRADED = view("variant members member_hours goal mean low high difference_from difference_to met",
              _MEAN, members="MEMBERS")  # fmt: skip
WANTED = view("group_id members_wanted goal arrival_rate member_rate waiting stuck why")
RANKED = view(
    "assignor drain_ratio drain_worse age_p95_ratio age_p95_worse never_drained moves_per_minute "
    "pairs_share",
    meanings={
        name: f"{ratio} / that with the baseline, geometric mean and its 95 % interval"
        for name, ratio in (("drain_ratio", "time to drain"), ("age_p95_ratio", "p95 age"))
    },
)
MOVING = view(
    "by variant consumer_group share_group difference low high better",
    meanings={
        "difference": "mean of share group - consumer group, run for run",
        "low": "the difference is not below",
        "high": "the difference is not above",
    },
)
RUN = view("by value")
SCENARIO = view("by value", meanings={"by": "part of the scenario"}, by="WHAT")
EVIDENCE = view(
    "by value",
    {"by": "attribute of the evidence, a pyarrow table",
     "value": "of it; 0: could not be read, or nothing there"},
    by="TABLE", value="ROWS",
)  # fmt: skip

# ---- views that depend on the options ---------------------------------------------------------


def windows_with(notes: bool) -> View:
    """Return `WINDOWS`, with holders if a request log shows them."""
    return WINDOWS.after("runs", "notes") if notes else WINDOWS


def lag(measured: bool) -> View:
    """Return `LAG`, with brokers' metrics if they are given."""
    return LAG.after("window_unknown", *IN_FLIGHT) if measured else LAG


def progress(measured: bool) -> View:
    """Return `PROGRESS`, with brokers' metrics if they are given."""
    return PROGRESS.after("redelivery_rate", *MEASURED) if measured else PROGRESS


def choose_reconciled(described: bool, true: bool) -> View:
    """Return `RECONCILED` without definitions that were not requested: Kafka's, the records'."""
    without = [] if described else ["described_lag"]
    return RECONCILED.without(*without, *([] if true else ["true_lag"]))


def summary(variants: bool, failed: bool) -> View:
    """Return `SUMMARY` for runs of several variants, or with failed runs."""
    before = ("variant",) if variants else ()
    return replace(SUMMARY, names=(*before, *SUMMARY.names, *(("error",) if failed else ())))
