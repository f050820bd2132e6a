"""Lag, windows and signs of trouble over the time of a report, and the headline of an incident."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from statistics import median_low
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas, whatif
from sharelag.charts import text
from sharelag.charts.windows import WINDOW_HEAT, window_heat_records
from sharelag.durations import duration
from sharelag.engine import add_topic_names
from sharelag.errors import InputError
from sharelag.metrics.events import SIGNS, first_trouble
from sharelag.metrics.lag import rollup_arrow
from sharelag.model import milliseconds
from sharelag.replay.moment import parse_time
from sharelag.reports.blocks import group_findings
from sharelag.reports.case import Case
from sharelag.schemas import SHARE_PARTITION
from sharelag.tables.arrow import ascending
from sharelag.tables.lines import plain_rows
from sharelag.tables.words import spell_out
from sharelag.whatif import Otherwise
from sharelag.whatif.horizon import require_end, size
from sharelag.whatif.otherwise import SEEDS
from sharelag.workbench.pasts import gather_past

#: Number of moments of a line chart (a capture has end offsets at sixty), and of a window strip.
LINE_MOMENTS = 48
WINDOW_MOMENTS = 48
#: The key of a share partition.
KEY = list(SHARE_PARTITION)
#: Columns with the first time of each sign of trouble.
FIRST = ("first_released", "first_archived", "first_reset")
_NEVER = 2**62  # milliseconds
_SIGNS = {
    "first_released": "{group} released offsets of {place}",
    "first_archived": "{group} archived offsets of {place}",
    "first_reset": "{place} of {group} was reset",
}
#: Maximum number of words of a headline.
MOST_WORDS = 20
#: A lag known within this time counts as known from the beginning.
_AT_ONCE = timedelta(seconds=2)


def timeline(case: Case, moments: int = LINE_MOMENTS) -> pa.Table:
    """Compute each share partition's lag at regular moments (`sharelag.schemas.TIMELINE`)."""
    every = max(case.known_span / moments, timedelta(milliseconds=10))
    return case.bench.timeline(every=every).table


def signs(case: Case) -> pa.Table:
    """Collect what happened to each share partition since the beginning (`SIGNS`, with ``topic``).

    The earliest sign of trouble comes first.
    """
    since = case.begin
    table = case.bench.over_history(("signs", since), partial(first_trouble, since=since), SIGNS)
    table = case.bench.choice.of(add_topic_names(table, case.evidence.lag))
    first = pc.min_element_wise(*[table.column(name).cast(pa.int64()) for name in FIRST])
    table = table.append_column("first", first.fill_null(_NEVER))
    return table.sort_by(ascending("first", "group_id", "partition")).drop_columns("first")


def born(signs: pa.Table) -> pa.Table:
    """Select the share partitions whose history begins with their creation, by `KEY`."""
    return signs.filter(signs.column("is_born")).select(KEY)


def is_whole(case: Case, signs: pa.Table) -> bool:
    """Return whether the records since the beginning are complete, by the case and its `signs`."""
    if case.evidence.gaps.num_rows or case.evidence.rejected:
        return False
    return not pc.any(pc.greater(signs.column("missing"), 0)).as_py()


def window_heat(case: Case) -> pa.Table:
    """Measure how wide the windows were since the beginning (`charts.windows.WINDOW_HEAT`)."""
    found = signs(case)
    begin = pc.min(found.column("first_record")).as_py()
    if begin is None:
        return WINDOW_HEAT.empty_table()
    # Brokers' clocks may be ahead of this machine's.
    end = max(case.evidence.as_of, pc.max(found.column("last_record")).as_py())
    each = partial(window_heat_records, begin=begin, as_of=end)
    table = case.bench.over_history(("window heat", begin), each, WINDOW_HEAT).drop_columns("topic")
    return case.bench.choice.of(add_topic_names(table, case.evidence.lag).select(WINDOW_HEAT.names))


def as_far_as_known(words: str, is_whole: bool) -> str:
    """Qualify a statement that something did not happen if the records are incomplete."""
    return words if is_whole else f"As far as the records show, {words[0].lower()}{words[1:]}"


def windows_at(
    case: Case, share_partitions: Sequence[tuple[str, str, int]], moments: int = WINDOW_MOMENTS
) -> pa.Table:
    """Rebuild windows of share partitions at regular moments, with ``topic`` and ``as_of``.

    These are group, topic id and partition; only a few, as their records are held in memory.
    """
    rows = [dict(zip(KEY, one, strict=True)) for one in share_partitions]
    places = pa.Table.from_pylist(rows, pa.schema([schemas.WINDOWS.field(name) for name in KEY]))
    step = case.known_span / max(moments - 1, 1)
    at = sorted({milliseconds(case.evidence.as_of - n * step) for n in range(moments)})
    table = case.bench.windows_at(places, at)
    return add_topic_names(table, case.evidence.lag.select(["topic_id", "topic"]))


def headline(case: Case, outcome: Mapping[str, Any]) -> str:
    """Write the headline of an incident in at most `MOST_WORDS` words: what, since when, the fix.

    If nothing began in that time, it is the verdict's headline.
    """
    found = _first_of_the_worst(outcome, case.begin)
    if found is None:
        return str(outcome["headline"])
    one, beginnings = found
    groups = list(dict.fromkeys(group for _, group in beginnings))
    who = groups[0] + (f" and {len(groups) - 1:,} more" if groups[1:] else "")
    since = f"since {_moment(beginnings[0][0], None)}"
    do = re.split(r"[;,:]", one["advice"] or "")[0]
    # If the sentence leaves no room for the fix, the name of the cause is enough.
    for title in (one["title"].partition(":")[0], _name(one)):
        words = f"{who}: {title} {since}" + (f"; {do}." if do else ".")
        if len(words.split()) <= MOST_WORDS:
            return words
    return f"{who}: {_name(one)} {since}."


def _name(finding: Mapping[str, Any]) -> str:
    """Return the name of a cause in words, or the title of a judgement, which has no name."""
    named = finding["places"][0].get("cause") or finding["title"].partition(":")[0]
    return spell_out(named)


def describe_events(case: Case, outcome: Mapping[str, Any]) -> str:
    """Describe what happened since the beginning, in a few sentences in order of time.

    If nothing began, the last sentence is about what still holds.
    """
    begin, found = case.begin, signs(case)
    when = f"Since {_moment(begin, None)} ({duration(case.known_span / timedelta(milliseconds=1))})"
    names = [group["group_id"] for group in outcome["groups"]]
    moved = _describe_lag(timeline(case), names, born(found), begin)
    sign = _first_sign(plain_rows(found), begin, is_whole(case, found))
    began = _describe_beginning(outcome, begin) or outcome["headline"].rstrip(".")
    return " ".join(f"{sentence}." for sentence in (f"{when} {moved}", sign, began) if sentence)


def _describe_lag(
    timeline: pa.Table, groups: Sequence[str], born: pa.Table, begin: datetime
) -> str:
    # Records of deleted share partitions may begin before all others.
    since = pc.greater_equal(timeline.column("as_of"), pa.scalar(begin - timedelta(milliseconds=1)))
    timeline = timeline.filter(since)
    known = _ends(timeline, born)
    ends = {name: known[name] for name in groups if name in known}
    if not ends:
        return "it is unknown how the lag changed"
    dark = len(groups) - len(ends)
    unknown = f"; that of {dark} is unknown" if dark else ""
    # Nothing is measured between two moments, and a new group takes a moment to begin.
    moments = sorted(set(timeline.column("as_of").to_pylist()))
    patience = max(2 * median_low([now - was for was, now in pairwise(moments)]), _AT_ONCE)
    late = {name for name, end in ends.items() if end.at - begin > patience}
    grew = {name: end.now - end.then for name, end in ends.items() if end.now > end.then}
    if not grew:
        whose = " with a known lag" if dark else ""
        when = " since it was first known" if late else ""
        return f"the lag of no share group{whose} grew{when}{unknown}"
    worst = max(sorted(grew), key=lambda name: grew[name])
    first = ""
    if worst in late:
        first = f" (since {_moment(ends[worst].at, begin)}, when it was first known)"
    too = "since it was first known" if worst not in late and late & grew.keys() else "too"
    others = f", and that of {len(grew) - 1:,} more, {too}" if len(grew) > 1 else ""
    return (
        f"the lag of {worst} grew by {grew[worst]:,} to {ends[worst].now:,}{first}{others}{unknown}"
    )


class _Ends(NamedTuple):
    """The lag of a group when it was first known completely, and at the last moment."""

    at: datetime
    then: int
    now: int


def _ends(timeline: pa.Table, born: pa.Table) -> dict[str, _Ends]:
    """Find the ends of each group whose lag is known at the last moment and at an earlier one."""
    nulls = pc.CountOptions(mode="only_null")
    sums = timeline.group_by(["group_id", "as_of"]).aggregate(
        [("lag", "sum"), ("lag", "count", nulls)]
    )
    known = sums.filter(pc.equal(sums.column("lag_count"), 0)).sort_by("as_of").to_pylist()
    last = pc.max(timeline.column("as_of")).as_py()
    now = {row["group_id"]: row["lag_sum"] for row in known if row["as_of"] == last}
    # Before its creation a share partition had no lag. If the records do not include the creation,
    # the lag is only known from the first row on.
    firsts = (
        timeline.group_by(KEY).aggregate([("as_of", "min")]).join(born, KEY, join_type="left anti")
    )
    seen = firsts.group_by("group_id").aggregate([("as_of_min", "max")])
    whole_from = {row["group_id"]: row["as_of_min_max"] for row in seen.to_pylist()}
    ends: dict[str, _Ends] = {}
    for row in known:
        name, at = row["group_id"], row["as_of"]
        if name in now and name not in ends and whole_from.get(name, at) <= at < last:
            ends[name] = _Ends(at, row["lag_sum"], now[name])
    return ends


def _first_sign(signs: list[dict[str, Any]], begin: datetime, is_whole: bool) -> str:
    found = [(row[key], words, row) for row in signs for key, words in _SIGNS.items() if row[key]]
    if not found:
        return as_far_as_known(
            "No offset was released or archived, and no share partition was reset", is_whole
        )
    at, words, row = min(found, key=lambda one: str(one[0]))
    place = text.share_partition(row, False, None)
    first = "First sign" if is_whole else "First known sign"
    words = words.format(place=place, group=row["group_id"])
    return f"{first} at {_moment(parse_time(at), begin)}: {words}"


def _describe_beginning(outcome: Mapping[str, Any], begin: datetime) -> str | None:
    """Describe which of the worst current findings began first since then."""
    found = _first_of_the_worst(outcome, begin)
    if found is None:
        return None
    one, beginnings = found
    title = one["title"]
    moments: dict[str, str] = {}
    for at, group in beginnings:
        moments.setdefault(group, _moment(at, begin))
    first, *others = moments
    more = sum(moments[group] != moments[first] for group in others)
    who = first + (f" and {len(others) - more:,} more" if len(others) > more else "")
    if more:
        return f"From {moments[first]} on, first {who}, then {more} more: {title}"
    return f"Since {moments[first]}, {who}: {title}"


def _first_of_the_worst(
    outcome: Mapping[str, Any], begin: datetime
) -> tuple[dict[str, Any], list[tuple[datetime, str]]] | None:
    """Return the worst finding that began first, as in `group_findings`, and when and where."""
    found = [
        (one["level"], begun, one)
        for one in group_findings(outcome["groups"])
        if one["level"] in ("critical", "warning")
        and not one["is_rule"]
        and (begun := _list_beginnings(one["places"], begin))
    ]
    if not found:
        return None
    worst = found[0][0]
    begun, one = min(
        ((begun, one) for level, begun, one in found if level == worst), key=lambda pair: pair[0][0]
    )
    return one, begun


def _list_beginnings(
    places: Iterable[Mapping[str, Any]], begin: datetime
) -> list[tuple[datetime, str]]:
    """List when and in which group a finding began since then, in order of time."""
    known = ((parse_time(at["since"]), at["group_id"]) for at in places if at["since"])
    return sorted((at, group) for at, group in known if at >= begin)


def _moment(at: datetime, begin: datetime | None) -> str:
    """Format a time, without its day if a previous sentence names it."""
    words = text.moment(at)
    return words[11:] if begin is not None and words[:10] == text.moment(begin)[:10] else words


# ---- with other members -------------------------------------------------------------------------

#: The simulations, or the reason why there are none.
Tried: TypeAlias = Otherwise | str


def otherwise(
    case: Case, members: int | Sequence[int] | None, alert: str | None = None, seeds: int = SEEDS
) -> Tried:
    """Simulate the group with the largest lag over the time of a report, with and without a change.

    The result is a sentence if no members are given, or if the past cannot be simulated.
    """
    if not members:
        return (
            "Nothing was simulated: -p members 12 shows what would have happened with 12 members, "
            "and -p alert 'age>30s' whether that alert would have fired."
        )
    groups = rollup_arrow(case.evidence.lag, "group").to_pylist()
    group = max(groups, key=lambda row: (row["lag"] or 0, row["group_id"]))["group_id"]
    try:
        past = gather_past(case.bench, group, case.begin)
        tried = whatif.variants(past.scenario, members=members)
        sizes = [*map(size, (past.scenario, *tried.values()))]
        require_end(sizes, seeds, "give a later since, or fewer members or seeds")
        return whatif.otherwise(past, tried, alert=alert, seeds=range(seeds))
    except InputError as error:
        return f"The past of {group} cannot be simulated: {error}."
