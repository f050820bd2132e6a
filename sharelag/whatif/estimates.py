"""Estimates from a group's rates: its members, its producers, and records that keep failing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple, TypeAlias

from sharelag.durations import duration
from sharelag.errors import list_names
from sharelag.metrics.observed import BINS
from sharelag.model import TERMINAL_STATES, DeliveryState, StateBatch, Window, milliseconds
from sharelag.replay.merge import combine
from sharelag.tables.words import THOUSANDS, number, percent, pluralize
from sharelag.whatif.scenario import Behaviour, Limits, Poison, Producer, Scenario, Service, Topic

_MS, _SECOND = timedelta(milliseconds=1), timedelta(seconds=1)
#: A topic id and a partition.
Place = tuple[str, int]
#: Rows of a group, and those of a table with one for each share partition.
Rows: TypeAlias = list[dict[str, Any]]
ByPlace: TypeAlias = dict[Place, dict[str, Any]]


def place_of(row: dict[str, Any]) -> Place:
    """Return the topic partition of a row."""
    return row["topic_id"], row["partition"]


class Assumption(str):
    """A sentence about an assumption, with a code for programs.

    Codes are for unknown inputs on which a result depends: ``service``, ``members``, ``arrivals``.
    """

    code: str
    what: str

    def __new__(cls, code: str, what: str, why: str = "") -> Assumption:
        """Build the sentence."""
        made = super().__new__(cls, f"{what}, since {why}" if why else what)
        made.code, made.what = code, what
        return made

    @property
    def why(self) -> str:
        """The reason, or an empty string."""
        return str(self)[len(self.what) :].removeprefix(", since ")

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the code when a scenario is sent to another process."""
        return Assumption, (self.code, self.what, self.why)


def assume_for(places: Sequence[str], words: str) -> list[str]:
    """Return one sentence about an assumption for some places, or none."""
    return [f"{list_names(places)}: {words}"] if places else []


#: The assumption about places with an open transaction.
STAYS_OPEN = "the transaction there stays open, and nothing behind it can be read"
#: Part of the sentence about an estimated processing time.
WORK = "ms of work per record"
#: A group is behind if its lag is more than it finishes in this many seconds ...
_BEHIND = 10
#: ... and if it is not, its members are assumed to be busy for this share of the time.
_BUSY = 0.5
_MOST_POLLED = 500  # max.poll.records


def service(
    lag: Rows,
    progress: ByPlace,
    holders: list[set[Place]],
    blocked: Collection[Place],
    assumed: list[str],
    until: str = "",
) -> Service:
    """Estimate the processing time of a record from the deliveries that busy members complete.

    ``holders`` are the partitions of each member, empty if unknown. ``blocked`` are partitions
    whose backlog no member can get, which keeps no member busy. ``until`` says when the rates end,
    if not now.
    """
    done = {
        place: row["completion_rate"] + (row["redelivery_rate"] or 0.0)
        for place, row in progress.items()
        if row["completion_rate"]
    }
    behind = {
        place_of(row) for row in lag if (row["lag"] or 0) > _BEHIND * done.get(place_of(row), 0.0)
    } & done.keys() - set(blocked)
    # Members with a backlog are busy; others could do more, by an unknown amount.
    busy = [held for held in holders if held & behind or not held] if behind else holders
    theirs = behind.union(*busy) & done.keys() if behind and all(busy) else done.keys()
    rate = sum(done[place] for place in sorted(theirs))
    if not rate or not busy:
        why = "the group has no members to measure" if rate else "no completion rate is known"
        assumed.append(Assumption("service", f"1 {WORK}", why))
        return Service(1.0, "exponential")
    mean = len(busy) / rate * 1000 * (1.0 if behind else _BUSY)
    keep_up = f"{percent(_BUSY)} of the time (they keep up)"
    share = "all the time (they are behind)" if behind else keep_up
    assumed.append(
        f"{mean:{',.0f' if mean >= 100 else '.3g'}} {WORK}, "
        f"exponentially distributed: {pluralize(len(busy), 'member')} busy {share} completed "
        f"{pluralize(float(f'{rate:.3g}'), 'delivery', 'deliveries')} per second{until}"
    )
    return Service(mean, "exponential")


def estimate_poll(service: Service, lock_ms: int, longest_ms: int = 0) -> int:
    """Return the records of a poll: Kafka's default, but at most half a lock's worth of work."""
    if not service.mean_ms:
        return _MOST_POLLED
    return min(_MOST_POLLED, max(int((lock_ms - longest_ms) / 2 / service.mean_ms), 1))


def behaviour(observed: Rows, poison: Collection[Place], assumed: list[str]) -> Behaviour:
    """Estimate how members acknowledge; releases of the heads in ``poison`` are excluded."""
    finished, archived, released = (
        sum(row[name] or 0 for row in observed) for name in ("finished", "archived", "released")
    )
    released -= sum(
        min(row["head_delivery_count"] or 0, row["released"] or 0)
        for row in observed
        if place_of(row) in poison
    )
    ended = finished + released
    if not ended or not (archived or released):
        return Behaviour()
    release, reject = released / ended, min(archived / ended, 1 - released / ended)
    assumed.append(
        f"{100 * release:.3g} % of deliveries are released and {100 * reject:.3g} % rejected, at "
        "random: records that look released may be expired locks, and archived ones may have "
        "reached the delivery limit"
    )
    return Behaviour(accept=1 - release - reject, release=release, reject=reject)


def producers(
    topics: list[Topic], progress: ByPlace, batch_records: int, assumed: list[str]
) -> Iterator[Producer]:
    """Yield producers that continue the measured arrival rates."""
    silent, found = [], []
    for topic in topics:
        rows = (progress.get((topic.id, number), {}) for number in range(topic.partitions))
        known = [row.get("arrival_rate") for row in rows]
        if unknown := sum(rate is None for rate in known):
            silent.append(f"{pluralize(unknown, 'partition')} of {topic.name}")
        rates = tuple(max(rate or 0.0, 0.0) for rate in known)
        if rate := sum(rates):
            found.append(f"{topic.name} ({number(rate, THOUSANDS)} per second)")
            yield Producer(topic.name, rate, batch_records=batch_records, weights=rates)
    if silent:
        nothing = f"nothing arrives in {list_names(silent)}"
        assumed.append(Assumption("arrivals", nothing, "their rates are not known"))
    if found:
        assumed.append(f"records of {list_names(found)} keep arriving at random")


class Before(NamedTuple):
    """A group at the time when its last member left."""

    members: int
    until: datetime
    lag: Rows  # at that time: topic_id, partition and lag
    progress: ByPlace  # with the rates until then


def before_departure(
    group: dict[str, Any], session_ms: int, lag: Rows, progress: ByPlace, observed: ByPlace
) -> Before | None:
    """Return the rates of a group without members until its last member left, or None.

    Its members are those that left within a session timeout of that moment, because earlier ones
    were replaced.
    """
    until = group["emptied"]
    if group["members"] or until is None:
        return None
    left = [one["left_ms"] for one in group["departures"] or ()]
    members = sum(one >= milliseconds(until) - session_ms for one in left)
    then = {}
    for place, row in observed.items():
        seconds = (until - row["begin"]) / _SECOND if row["begin"] is not None else 0.0
        if seconds > 0 and row["finished"]:
            then[place] = progress.get(place, {}) | {
                "completion_rate": row["finished"] / seconds,
                "redelivery_rate": (row["redelivered"] or 0) / seconds,
            }
    if not members or not then:
        return None
    before = []
    for row in lag:  # without later arrivals, estimated by the arrival rate
        rate = then.get(place_of(row), {}).get("arrival_rate") or 0.0
        since = (row["as_of"] - until) / _SECOND if row["as_of"] is not None else 0.0
        before.append(row | {"lag": max((row["lag"] or 0) - rate * since, 0.0)})
    return Before(members, until, before, then)


#: Deliveries after which a record is assumed to fail the next one, too.
_DELIVERIES = 2


def without_stuck_heads(scenario: Scenario) -> Scenario | None:
    """Return the scenario with records that pin start offsets archived; None if there are none."""
    starts, heads = {}, {}
    for place, start in scenario.starts.items():
        window = start.window
        if window is None or (head := head_of(window, start.end_offset)) is None:
            continue
        heads[place] = head
        times = deliveries_of(window, head) or 1
        given_up = StateBatch(head, head, int(DeliveryState.ARCHIVED), times)
        batches = tuple(combine(window.batches, [given_up], window.start_offset))
        count = window.delivery_complete_count
        count += count >= 0  # otherwise it is unknown
        now = replace(window, batches=batches, delivery_complete_count=count)
        starts[place] = replace(start, window=now)
    if not starts:
        return None
    poison = (one for one in scenario.poison if heads.get((one.topic, one.partition)) != one.offset)
    return replace(scenario.with_starts(starts), poison=tuple(poison))


def deliveries_of(window: Window, offset: int) -> int:
    """Return how often a record was delivered; 0 if it is in no batch."""
    mine = (one for one in window.batches if one.first_offset <= offset <= one.last_offset)
    return max((batch.delivery_count for batch in mine), default=0)


def head_of(window: Window | None, end_offset: int) -> int | None:
    """Return the unfinished offset that pins a window's start while later ones are finished."""
    head = None if window is None else window.effective_start_offset
    if window is None or head is None or head >= end_offset:
        return None
    after = (batch for batch in window.batches if batch.first_offset > head)
    return head if any(batch.delivery_state in TERMINAL_STATES for batch in after) else None


def say_stuck(scenario: Scenario) -> str:
    """Say which records hold start offsets, and for how long; empty if there are none."""
    held = held_ms(scenario)
    if not held:
        return ""
    (topic, partition, offset), longest = max(held.items(), key=lambda one: one[1])
    others = len(held) - 1
    more = f", and {pluralize(others, 'more such record')}" * (others > 0)
    return (
        f"offset {offset} of {topic}:{partition} keeps failing until it is archived, about "
        f"{duration(longest)} from now{more}: finish or reject it, more members do not help before"
    )


def held_ms(scenario: Scenario) -> dict[tuple[str, int, int], int]:
    """Return how long failing records pin start offsets, until they are archived."""
    limits = scenario.settings.limits
    held = {}
    for one in scenario.poison:
        start = scenario.starts.get((one.topic, one.partition))
        if start is None or one.how not in ("release", "silent"):
            continue
        if (window := start.window) is None or head_of(window, start.end_offset) != one.offset:
            continue
        tried = deliveries_of(window, one.offset)
        each_ms = limits.lock_duration_ms if one.how == "silent" else one.work_ms or 0
        left = min(limits.delivery_count_limit - tried, one.attempts)
        held[one.topic, one.partition, one.offset] = max(left, 0) * each_ms
    return held


def poison_of(
    topics: Iterable[Topic], observed: ByPlace, limits: Limits, assumed: list[str]
) -> tuple[Poison, ...]:
    """Return the records that pin start offsets and were released again and again.

    They make up most of the releases of their share partition since: in a storm of redeliveries,
    the first record is not special. ``work_ms`` is the median time between two releases; if it is
    as long as a lock or longer, the lock expired.
    """
    found, notes = [], []
    for topic in topics:
        for partition, start in enumerate(topic.starts):
            row = observed.get((topic.id, partition))
            head = head_of(start.window, start.end_offset)
            if row is None or head is None or row["head_offset"] != head:
                continue
            deliveries, every = row["head_delivery_count"] or 0, row["release_every_ms"]
            since = row["head_since"]
            here_ms = (row["end"] - since) / _MS if since is not None else 0.0
            # Most of its deliveries came after it became the head, and few were of other records.
            is_special = 2 * here_ms >= deliveries * (every or 0) and (
                2 * deliveries >= _count_released(row)
            )
            if deliveries < _DELIVERIES or not is_special:
                continue
            expires = every is not None and every >= limits.lock_duration_ms
            how: Literal["silent", "release"] = "silent" if expires else "release"
            work_ms = None if expires else every
            found.append(Poison(topic.name, partition, head, how, work_ms=work_ms))
            pace = "" if every is None else f", each attempt taking {duration(every)}"
            notes.append(
                f"offset {head} of {topic.name}:{partition}, as in its {deliveries} deliveries so "
                f"far{pace}"
            )
    until = f"keeps failing until it is archived at the limit of {limits.delivery_count_limit}"
    assumed += assume_for(notes, until)
    return tuple(found)


def _count_released(row: Mapping[str, Any]) -> float:
    """Return the number of offsets released since the head became the head."""
    begin, end, since = row["begin"], row["end"], row["head_since"]
    parts: Sequence[int] = row["released_bins"] or [row["released"] or 0]
    if since is None or end <= begin or len(parts) < BINS:
        return sum(parts)
    before = BINS * max((since - begin) / (end - begin), 0.0)
    # Of the bin in which it became the head, the later share counts.
    later = (count * min(max(place + 1 - before, 0.0), 1.0) for place, count in enumerate(parts))
    return float(sum(later))
