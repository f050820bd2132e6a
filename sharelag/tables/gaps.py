"""Unknown values and their reasons: codes of rows, their texts, and the sentences below a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import list_names
from sharelag.model import GroupState
from sharelag.model.settings.queues import Queues
from sharelag.tables.arrow import Bools, beside, flat
from sharelag.tables.level import OK, UNKNOWN, WARNING, rank
from sharelag.tables.words import pluralize

# Why a lag is null: the first reason that applies.
NO_START_OFFSET = "no_start_offset"
RECORDS_MISSING = "records_missing"
UNKNOWN_TOPIC = "unknown_topic"
NO_END_OFFSET = "no_end_offset"
NO_END_OFFSET_THEN = "no_end_offset_then"
NO_COMPLETE_COUNT = "no_delivery_complete_count"
NEGATIVE_LAG = "negative_lag"
REASONS = {
    NO_START_OFFSET: "no record has been finished or released yet, so the start offset is unknown",
    RECORDS_MISSING: "records of the state topic are missing: there was no snapshot of the share "
    "partition yet",
    NO_COMPLETE_COUNT: "no delivery complete count yet (broker before 4.2, or no write since a "
    "reset); the column effective_lag, counted from the state batches, needs none",
    UNKNOWN_TOPIC: "no offsets for this topic id: topic deleted, not authorized, not captured, or "
    "not among the given offsets",
    NO_END_OFFSET: "the end offset could not be read from the partition's leader",
    NO_END_OFFSET_THEN: "the end offset at that moment is unknown",
    NEGATIVE_LAG: "the start offset is beyond the end of the log, or the end offset is older than "
    "the state",
}
# Other notes about a row.
START_BELOW_LOG_START = "start_below_log_start"
COUNT_DIFFERS = "count_differs"
PARTIAL_STATE = "partial_state"
ARCHIVING = "archiving"
REJECTED_RECORDS = "rejected_records"
NOTES = {
    START_BELOW_LOG_START: "records below the log start were deleted; Kafka still counts them",
    COUNT_DIFFERS: "the delivery complete count differs from the state batches' finished offsets",
    PARTIAL_STATE: "no snapshot of this share partition was among the records",
    ARCHIVING: "some of the unknown offsets are on their way to a dead-letter queue: sharelag "
    "windows shows which",
    REJECTED_RECORDS: "some records of this share partition could not be replayed",
}

# ---- possible reasons for missing records
KAFKA_SETTING = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
KAFKA_SOURCE = (
    "Spark's own Kafka source leaves out internal topics, __share_group_state and "
    f"__consumer_offsets among them, where the session does not set {KAFKA_SETTING} to true: set "
    "it, or read them with sharelag.read_kafka"
)

#: Why an age is null.
NO_AGE = (
    "a start or end offset, or the time of the oldest unfinished record, is unknown or in the "
    "future"
)
#: Answers that require past end offsets.
NO_PAST_ENDS = (
    "earlier end offsets of the topics, and so how fast records arrive and when the lag is gone"
)

#: In milliseconds; share groups are younger.
_SINCE = 10**12
_MADE = "write_timestamp"
_UNTIMED = "when records of the state topic were written, and so rates and histories: "
_SECONDS = (
    f"{_UNTIMED}their timestamps are seconds, where Kafka has milliseconds; make times of them by "
    "timestamp_seconds in Spark, or to_datetime(..., unit='s') in pandas"
)
_NO_TIMES = (
    f"{_UNTIMED}timestamps are missing, or beyond the year 9999 as microseconds and nanoseconds "
    "are; make times of them by timestamp_micros in Spark, or to_datetime(..., unit='us') in pandas"
)

# ---- groups and brokers
#: Advice if the groups' own records are unknown.
NO_RECORDS = (
    "state, epochs and members of the groups: no records of __consumer_offsets were read; reading "
    "them needs Read and Describe on that topic, or a capture that includes it"
)
_COMPACTED = (
    "members and epochs whose records Kafka has compacted since that moment: __consumer_offsets "
    "keeps the last record of each key, an archive (capture --follow) keeps all"
)
#: The note if all leaders are unknown.
_NO_LEADERS = (
    "leaders, replicas and coordinators: a running cluster knows them as of now, and a capture as "
    "of its end; those of an earlier moment are recorded nowhere, and captures by older versions "
    "of sharelag have none"
)
# ---- lag of share partitions that were never fetched
_NOTHING_CAME = "nothing to fetch has arrived yet"
_CAME = "records have arrived, but none has been finished or released yet"
_MAY_HAVE_COME = "nothing has been finished or released yet; whether records arrived is unknown"


def decode_command(generation: int | None) -> str:
    """Return the command that shows the records that could not be decoded."""
    option = "" if generation is None else f" --generation {generation}"
    return f"`sharelag decode{option}`"


def are_many(rejects: int, read: int) -> bool:
    """Return whether rejects make an answer partial: more than a hundredth of the records."""
    return 100 * rejects > rejects + read


def of_rejected(rejected: int, generation: int | None = None) -> tuple[str, ...]:
    """Report how many records could not be decoded, as current ones or as a generation's."""
    records = f"{pluralize(rejected, 'record')} that could not be decoded"
    return _shown_by(rejected, records, decode_command(generation))


def of_rejected_groups(rejected: int) -> tuple[str, ...]:
    """Report how many of the groups' own records could not be decoded."""
    records = f"{pluralize(rejected, 'record')} of groups and members that could not be decoded"
    return _shown_by(rejected, records, "`sharelag decode --records group`")


def _shown_by(rejected: int, records: str, shows: str) -> tuple[str, ...]:
    return (f"{records}; {shows} shows {'it' if rejected == 1 else 'them'}",) if rejected else ()


def of_missing(places: int, stateless: int, elsewhere: str = "") -> tuple[str, ...]:
    """Report which records of the state topic are missing, as far as known.

    ``places`` is the number of positions in the topic at which offsets are missing, ``stateless``
    that of share partitions that groups have initialized but that have no state, ``elsewhere``
    names state partitions without a record.
    """
    sentences = []
    if places:
        where = pluralize(places, "place")
        sentences.append(f"what happened in {where} of the state topic, whose records are missing")
    if stateless:
        those = f"{pluralize(stateless, 'share partition')} that their groups have initialized"
        sentences.append(f"the state of {those}: its records are missing")
    if elsewhere:
        sentences.append(f"what is in {elsewhere}: give the records of all of them")
    return tuple(sentences)


def of_repeated(repeated: int) -> tuple[str, ...]:
    """Report how many duplicate records were left out."""
    if not repeated:
        return ()
    repeat = "repeats" if repeated == 1 else "repeat"
    return (f"{pluralize(repeated, 'record')} {repeat} another one; each counts once",)


def of_lag(lag: pa.Table) -> tuple[str, ...]:
    """Report in how many rows the lag is unknown, and why."""
    unknown = lag.filter(pc.is_null(lag.column("lag")))
    found = REASONS.keys() & pc.unique(unknown.column("lag_reason")).to_pylist()
    why = (REASONS[reason] for reason in sorted(found))
    return of_rows(unknown.num_rows, len(lag), "the lag", why)


def of_hidden(lag: pa.Table) -> tuple[str, ...]:
    """Report which topics a running cluster hides, by their ids.

    A broker answers for a topic that we may not describe as for a missing one.
    """
    nameless = lag.filter(pc.is_null(lag.column("topic")))
    ids = sorted(pc.unique(nameless.column("topic_id")).to_pylist())
    if not ids:
        return ()
    which = "1 topic is" if len(ids) == 1 else f"{len(ids):,} topics are"
    shows = "sharelag doctor --rights shows what is granted"
    why = f"hidden (DESCRIBE is missing) or deleted ({list_names(ids)})"
    return (f"lag and ends where {which} {why}: {shows}",)


def of_unanswered(lag: pa.Table) -> tuple[str, ...]:
    """Report for how many share partitions the leader did not return the end offset."""
    is_lost = pc.and_(pc.is_null(lag.column("end_offset")), pc.is_valid(lag.column("topic")))
    lost = pc.sum(is_lost).as_py() or 0
    return of_rows(lost, len(lag), "the end offset", [REASONS[NO_END_OFFSET]])


def of_record_times(topics: Sequence[str]) -> tuple[str, ...]:
    """Report topics whose past ends depend on record timestamps that producers set."""
    words = (
        f"earlier end offsets of {list_names(topics)} are estimated from timestamps that producers "
        "set (CreateTime): lag and rates are wrong if their clocks are; an archive (capture "
        "--follow) needs no timestamps"
    )
    return (words,) if topics else ()


def are_seconds(windows: pa.Table) -> bool:
    """Return whether times of records are seconds: a snapshot also has its own, in milliseconds."""
    written, made = (_milliseconds(windows, name) for name in ("record_timestamp", _MADE))
    near = pc.less(pc.abs(pc.subtract(pc.divide(made, written), 1000)), 250)
    return pc.any(pc.and_(pc.greater(made, _SINCE), near)).as_py() or False


def of_times(windows: pa.Table) -> tuple[str, ...]:
    """Report times of records that are seconds, or unknown although a snapshot has its own."""
    dated = windows.filter(pc.greater(_milliseconds(windows, _MADE), _SINCE))
    unknown = (_NO_TIMES,) if dated.column("record_timestamp").null_count else ()
    return (_SECONDS,) if are_seconds(windows) else unknown


def _milliseconds(windows: pa.Table, name: str) -> pa.Array:
    return flat(windows.column(name)).cast(pa.int64()).cast(pa.float64(), safe=False)


def of_column(table: pa.Table, name: str, what: str, why: Iterable[str] = ()) -> tuple[str, ...]:
    """Report in how many rows a column is null."""
    return of_rows(table.column(name).null_count, len(table), what, why)


def of_rows(count: int, of: int, what: str, why: Iterable[str] = ()) -> tuple[str, ...]:
    """Return ``the lag in 2 of 14 share partitions (reasons)``; nothing if all values are known."""
    reasons = "; ".join(why)
    where = f"{count:,} of {pluralize(of, 'share partition')}"
    return (f"{what} in {where}" + (f" ({reasons})" if reasons else ""),) if count else ()


def of_spreads(imbalance: pa.Table) -> tuple[str, ...]:
    """Report in how many rows of `sharelag.schemas.IMBALANCE` the spread is partly unknown."""
    lost = pc.sum(pc.greater(imbalance.column("unknown"), 0)).as_py() or 0
    return (f"a part of the load in {lost:,} of {len(imbalance):,} rows",) if lost else ()


def of_ends(timeline: pa.Table) -> tuple[str, ...]:
    """Report at how many moments of a timeline the end offset is unknown."""
    lost = timeline.filter(pc.equal(timeline.column("lag_reason"), NO_END_OFFSET_THEN)).num_rows
    rows = f"{lost:,} of {len(timeline):,} rows"
    return (f"the end offset, and with it the lag, in {rows}",) if lost else ()


def of_settings(settings: pa.Table, groups: Iterable[str] = ()) -> tuple[str, ...]:
    """Report where Kafka's defaults replace unknown values of `sharelag.schemas.SETTINGS`.

    ``groups`` without any setting are shown with those of a new group on their brokers.
    """
    if not settings.num_rows:
        return ("the settings (Kafka's defaults are assumed)",)
    unread = settings.column("value").null_count
    queues = Queues.of(settings).unknown()
    described = set(settings.column("entity").to_pylist())
    new = sorted(set(groups) - described)
    whose = f"share group{'s' * (len(new) > 1)} {list_names([*map(repr, new)])}"
    return (
        *(["some settings, unreadable or differing (Kafka's defaults are assumed)"] * bool(unread)),
        *([f"the settings of {whose} (a new group has these)"] if new else []),
        *([f"whether dead-letter queues take letters: {list_names(queues)}"] if queues else []),
    )


def of_group_states(table: pa.Table, is_past: bool, were_read: bool) -> tuple[str, ...]:
    """Report what is unknown about these groups.

    ``is_past``: not as of the last record; ``were_read``: there are records of groups.
    """
    past = (_COMPACTED,) if is_past and table.num_rows else ()
    unknown = table.column("state").null_count
    if unknown and unknown == table.num_rows and not were_read:
        return (NO_RECORDS,)
    if unknown:
        groups = pluralize(unknown, "group")
        why = " at that moment" if is_past else ": deleted, or of records that are not here"
        return (f"the state of {groups} without group records{why}", *past)
    odd = pc.sum(pc.equal(table.column("state"), GroupState.UNKNOWN)).as_py() or 0
    named = ("some states, whose names Kafka 4.3 does not use for share groups",) if odd else ()
    return (*named, *past)


def of_members(groups: pa.Table, members: pa.Table | None = None) -> tuple[str, ...]:
    """Report for how many groups Kafka's command printed no, or not all, members.

    ``groups`` and, if shown, ``members`` are the parsed output.
    """
    count = flat(groups.column("members"))
    if members is not None:
        shown = members.group_by("group_id").aggregate([("group_id", "count")])
        shown = beside(groups.column("group_id"), shown, ["group_id"]).column("group_id_count")
        count = pc.if_else(pc.equal(count, pc.fill_null(flat(shown), 0)), count, None)
    unknown = count.null_count
    if not unknown:
        return ()
    of = pluralize(unknown, "group")
    return (f"the members of {of}: kafka-share-groups.sh --describe --members prints them",)


def of_brokers(table: pa.Table) -> tuple[str, ...]:
    """Report what is unknown about the brokers of share partitions."""
    if not table.num_rows:
        return ()
    if table.column("as_of").null_count == table.num_rows:
        return (_NO_LEADERS,)
    described = table.filter(pc.or_(table.column("leader_id").is_valid(), _no_replicas(table)))
    return tuple(
        f"the {name} of {pluralize(count, 'share partition')}: that needs DESCRIBE on {topic}"
        for name, column, topic in (
            ("leader", described.column("leader_id"), "the topic"),
            ("share coordinator", table.column("share_coordinator"), "__share_group_state"),
            ("group coordinator", table.column("group_coordinator"), "__consumer_offsets"),
        )
        if (count := column.null_count)
    )


def of_leaderless(brokers: pa.Table) -> tuple[str, ...]:
    """Report partitions with replicas but without a leader, from `sharelag.schemas.BROKERS`."""
    is_lost = pc.and_not(pc.is_null(brokers.column("leader_id")), _no_replicas(brokers))
    rows = brokers.filter(is_lost).to_pylist()
    if not rows:
        return ()
    places = sorted({f"{row['topic']}:{row['partition']}" for row in rows})
    away = sorted({node for row in rows for node in row["replicas"]})
    it_has, end = ("they have", "end") if len(places) > 1 else ("it has", "ends")
    brokers_away = list_names([*map(str, away)])
    why = f"{it_has} no leader; start a broker with a replica ({brokers_away})"
    return (f"where {list_names(places)} {end}: {why}",)


def _no_replicas(brokers: pa.Table) -> pa.ChunkedArray:
    return pc.fill_null(pc.equal(pc.list_value_length(brokers.column("replicas")), 0), True)


def judge_lags(lag: pa.Table, came: Bools, nothing_came: Bools) -> dict[str, list[tuple[str, str]]]:
    """Judge each group by its unknown lags: the reasons, and whether they require action.

    ``came`` and ``nothing_came`` tell for each row of `LAG` whether records have arrived that were
    never fetched, and whether none have. The result has a level and a sentence per reason for each
    group, the worst first; groups without unknown lags are left out. A share partition that was
    never fetched is ok if nothing arrived, and a warning if records did. One whose offsets could
    not be read is unknown.
    """
    found: dict[str, Counter[tuple[str, str]]] = {}
    is_unknown = pc.is_null(lag.column("lag"))
    unknown, at = lag.filter(is_unknown), is_unknown.to_numpy()
    columns = (unknown.column(name).to_pylist() for name in ("group_id", "lag_reason"))
    for group, reason, has, has_not in zip(*columns, came[at], nothing_came[at], strict=True):
        if reason != NO_START_OFFSET:
            finding = (UNKNOWN, REASONS.get(reason, "the lag is unknown"))
        elif has:
            finding = (WARNING, _CAME)
        else:
            finding = (OK, _NOTHING_CAME) if has_not else (UNKNOWN, _MAY_HAVE_COME)
        found.setdefault(group, Counter())[finding] += 1
    return {
        group: [
            (level, f"{words} ({pluralize(counts[level, words], 'share partition')})")
            for level, words in sorted(counts, key=lambda it: (-rank(it[0]), it[1]))
        ]
        for group, counts in found.items()
    }
