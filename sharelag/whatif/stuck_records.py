"""Records that pin start offsets: which go on failing, and a group that gives them up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal

from sharelag.durations import duration
from sharelag.metrics.observed import BINS
from sharelag.model import TERMINAL_STATES, DeliveryState, StateBatch, Window
from sharelag.replay.combine import combine
from sharelag.tables.words import counted
from sharelag.whatif.estimates import ByPlace
from sharelag.whatif.scenario import Limits, Poison, Scenario, Topic

#: Deliveries after which a record is taken to fail at the next one, too.
_DELIVERIES = 2
_MS = timedelta(milliseconds=1)


def without_stuck_heads(scenario: Scenario) -> Scenario | None:
    """Return the scenario with the record archived that pins each start offset.

    A record pins the start offset of a share partition when records after it are finished and it
    is not. None: no record pins anything.
    """
    known = scenario.starts
    each = ((place, head_of(one.window, one.end_offset)) for place, one in known.items())
    heads = {place: head for place, head in each if head is not None}
    if not heads:
        return None
    starts = {}
    for place, head in heads.items():
        if (window := known[place].window) is not None:
            times = deliveries_of(window, head, 1)
            given_up = StateBatch(head, head, int(DeliveryState.ARCHIVED), times)
            batches = tuple(combine(window.batches, [given_up], window.start_offset))
            count = window.delivery_complete_count
            count += count >= 0  # else it is not known
            now = replace(window, batches=batches, delivery_complete_count=count)
            starts[place] = replace(known[place], window=now)
    poison = (one for one in scenario.poison if heads.get((one.topic, one.partition)) != one.offset)
    return replace(scenario.with_starts(starts), poison=tuple(poison))


def deliveries_of(window: Window, offset: int, default: int = 0) -> int:
    """Return how often a record was delivered; ``default`` where it is in no batch."""
    mine = (one for one in window.batches if one.first_offset <= offset <= one.last_offset)
    return max((batch.delivery_count for batch in mine), default=default)


def head_of(window: Window | None, end_offset: int) -> int | None:
    """Return the offset that pins a window's start: it is not finished, and some after it are."""
    head = None if window is None else window.effective_start_offset
    if window is None or head is None or head >= end_offset:
        return None
    after = (batch for batch in window.batches if batch.first_offset > head)
    return head if any(batch.delivery_state in TERMINAL_STATES for batch in after) else None


def say_stuck(scenario: Scenario) -> str:
    """Say which records hold start offsets for how long; empty where none does."""
    held = held_ms(scenario)
    if not held:
        return ""
    (topic, partition, offset), longest = max(held.items(), key=lambda one: one[1])
    others = len(held) - 1
    more = f", and {counted(others, 'more such record')}" * (others > 0)
    return (
        f"offset {offset} of {topic}:{partition} fails again until it is archived, about "
        f"{duration(longest)} from now{more}: finish or reject it, no member helps before"
    )


def held_ms(scenario: Scenario) -> dict[tuple[str, int, int], int]:
    """Return how long records that go on failing pin start offsets, by topic, partition, offset.

    That is until they are archived, at the limit of deliveries.
    """
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
    """Return the records that pin start offsets and were given back again and again.

    Most of what its share partition has given back since is that record itself: of a storm of
    redeliveries, the first record is not special. ``observed`` are rows of
    `sharelag.schemas.OBSERVED` by topic id and partition; ``assumed`` gets a sentence for each.
    ``work_ms`` is the median time between two releases; as long as a lock or longer, nobody gave
    the record back, and its lock expired.
    """
    found = []
    for topic in topics:
        for partition, start in enumerate(topic.starts):
            row = observed.get((topic.id, partition))
            head = head_of(start.window, start.end_offset)
            if row is None or head is None or row["head_offset"] != head:
                continue
            deliveries, every = row["head_delivery_count"] or 0, row["release_every_ms"]
            if deliveries < _DELIVERIES or not _is_special(row, deliveries, every or 0):
                continue
            expires = every is not None and every >= limits.lock_duration_ms
            how: Literal["silent", "release"] = "silent" if expires else "release"
            work_ms = None if expires else every
            found.append(Poison(topic.name, partition, head, how, work_ms=work_ms))
            pace = "" if every is None else f", each attempt taking {duration(every)}"
            assumed.append(
                f"offset {head} of {topic.name}:{partition} fails again as in its {deliveries} "
                f"deliveries so far{pace}, until it is archived at the limit of "
                f"{limits.delivery_count_limit}"
            )
    return tuple(found)


def _is_special(row: Mapping[str, Any], deliveries: int, every_ms: int) -> bool:
    """Whether most deliveries of a first record came after it had become that, and few others."""
    since = row["head_since"]
    here_ms: float = (row["end"] - since) / _MS if since is not None else 0.0
    return bool(2 * here_ms >= deliveries * every_ms and 2 * deliveries >= _given_back(row))


def _given_back(row: Mapping[str, Any]) -> float:
    """How many offsets were given back since the first record became that."""
    begin, end, since = row["begin"], row["end"], row["head_since"]
    parts: Sequence[int] = row["released_bins"] or [row["released"] or 0]
    if since is None or end <= begin or len(parts) < BINS:
        return sum(parts)
    before = BINS * max((since - begin) / (end - begin), 0.0)
    # Of the part of the span in which it became the first, as much as lies after that.
    later = (count * min(max(place + 1 - before, 0.0), 1.0) for place, count in enumerate(parts))
    return float(sum(later))
