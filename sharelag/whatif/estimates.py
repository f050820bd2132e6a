"""Estimates of members and producers from a group's rates, now or before its members left."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

from sharelag.model import milliseconds
from sharelag.tables.words import THOUSANDS, counted, number, percent
from sharelag.whatif.scenario import Behaviour, Producer, Service, Topic

_MS = 1000
_SECOND = timedelta(seconds=1)
#: A topic id and a partition.
Place = tuple[str, int]
#: Rows of a group, and those of a table with one for each share partition.
Rows: TypeAlias = list[dict[str, Any]]
ByPlace: TypeAlias = dict[Place, dict[str, Any]]


def place_of(row: dict[str, Any]) -> Place:
    """Return which topic partition a row is about."""
    return row["topic_id"], row["partition"]


class Assumption(str):
    """A sentence about something that was assumed, with a code for programs.

    The code is what nothing is known of, so that a result depends on it: ``service``, ``members``
    or ``arrivals``.
    """

    code: str
    what: str

    def __new__(cls, code: str, what: str, why: str = "") -> Assumption:
        """Write the sentence."""
        made = super().__new__(cls, f"{what}, since {why}" if why else what)
        made.code, made.what = code, what
        return made

    @property
    def why(self) -> str:
        """The reason; empty where none was given."""
        return str(self)[len(self.what) :].removeprefix(", since ")

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the code where a scenario is sent to another process."""
        return Assumption, (self.code, self.what, self.why)


#: A group is behind when its lag is more than it finishes in this many seconds ...
_BEHIND = 10
#: ... and when it is not, its members are taken to be busy for this share of their time.
_BUSY = 0.5
#: ``max.poll.records``
_MOST_POLLED = 500


def service(
    lag: Rows,
    progress: ByPlace,
    holders: list[set[Place]],
    blocked: Collection[Place],
    assumed: list[str],
    until: str = "",
) -> Service:
    """The processing time of a record, from the deliveries that members with a backlog complete.

    ``lag`` and ``progress`` are rows of the group, the latter by topic id and partition;
    ``holders`` the partitions of each member, empty where not known; ``blocked`` partitions whose
    backlog nobody can get, which makes no member busy. ``assumed`` gets a sentence, with ``until``,
    words for when the rates end if that is not now.
    """
    done = {
        place: row["completion_rate"] + (row["redelivery_rate"] or 0.0)
        for place, row in progress.items()
        if row["completion_rate"]
    }
    behind = {
        place_of(row) for row in lag if (row["lag"] or 0) > _BEHIND * done.get(place_of(row), 0.0)
    } & done.keys() - set(blocked)
    # Members with work waiting are busy; others could do more, and it is unknown how much.
    busy = [held for held in holders if held & behind or not held] if behind else holders
    theirs = behind.union(*busy) & done.keys() if behind and all(busy) else done.keys()
    rate = sum(done[place] for place in sorted(theirs))
    if not rate or not busy:
        why = "the group has no members to measure" if rate else "no rate of completion is known"
        assumed.append(Assumption("service", "1 ms of work for each record", why))
        return Service(1.0, "exponential")
    mean = len(busy) / rate * _MS * (1.0 if behind else _BUSY)
    keep_up = f"{percent(_BUSY)} of the time (they keep up)"
    share = "all the time (they are behind)" if behind else keep_up
    assumed.append(
        f"{mean:{',.0f' if mean >= 100 else '.3g'}} ms of work for each record, "
        f"exponentially distributed: {counted(len(busy), 'member')} busy {share} completed "
        f"{counted(float(f'{rate:.3g}'), 'delivery', 'deliveries')} a second{until}"
    )
    return Service(mean, "exponential")


def estimate_poll(service: Service, lock_ms: int, longest_ms: int = 0) -> int:
    """Return records of a poll: as many as Kafka's default, but no more than take half a lock.

    Of a lock of ``lock_ms``, ``longest_ms`` go to a record that takes so long.
    """
    if not service.mean_ms:
        return _MOST_POLLED
    return min(_MOST_POLLED, max(int((lock_ms - longest_ms) / 2 / service.mean_ms), 1))


def behaviour(observed: Rows, poison: Collection[Place], assumed: list[str]) -> Behaviour:
    """How members acknowledge records, from the offsets finished, archived and given back.

    What was given back of the first record in the partitions ``poison`` does not count.
    """
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
) -> list[Producer]:
    """Return producers that continue at the rates at which records arrived."""
    producers = []
    for topic in topics:
        rows = (progress.get((topic.id, number), {}) for number in range(topic.partitions))
        known = [row.get("arrival_rate") for row in rows]
        if unknown := sum(rate is None for rate in known):
            nothing = f"nothing arrives in {counted(unknown, 'partition')} of {topic.name}"
            assumed.append(Assumption("arrivals", nothing, "their rates are not known"))
        rates = [max(rate or 0.0, 0.0) for rate in known]
        if sum(rates):
            rate = number(sum(rates), THOUSANDS)
            assumed.append(f"records of {topic.name} keep arriving at random, {rate} a second")
            producers.append(
                Producer(topic.name, sum(rates), batch_records=batch_records, weights=tuple(rates))
            )
    return producers


class Before(NamedTuple):
    """A group as it was when its last member left."""

    members: int
    until: datetime
    lag: Rows  # as of then: topic_id, partition and lag
    progress: ByPlace  # with the rates until then


def before_departure(
    group: dict[str, Any], session_ms: int, lag: Rows, progress: ByPlace, observed: ByPlace
) -> Before | None:
    """Return what a group without members did while it had some; None where that is unknown.

    Its rates are those from the beginning of what was observed until the last member left, and its
    members those that left within a session timeout of that: earlier ones were replaced. ``group``
    is a row of `sharelag.schemas.GROUPS`; the others are of `LAG`, `PROGRESS` and `OBSERVED`.
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
    for row in lag:  # without what has arrived since, at the rate of arrivals
        rate = then.get(place_of(row), {}).get("arrival_rate") or 0.0
        since = (row["as_of"] - until) / _SECOND if row["as_of"] is not None else 0.0
        before.append(row | {"lag": max((row["lag"] or 0) - rate * since, 0.0)})
    return Before(members, until, before, then)
