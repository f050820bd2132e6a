"""Estimates of members and producers from a group's rates, each with the words for it."""

from __future__ import annotations

from typing import Any

from sharelag.whatif.scenario import Behaviour, Producer, Service, Topic

_MS = 1000
#: A group is behind when its lag is more than it finishes in this many seconds ...
_BEHIND = 10
#: ... and when it is not, its members are taken to be busy for this share of their time.
_BUSY = 0.5
#: ``max.poll.records``
_MOST_POLLED = 500


def service(
    lag: list[dict[str, Any]],
    progress: dict[tuple[str, int], dict[str, Any]],
    holders: list[set[tuple[str, int]]],
    assumed: list[str],
) -> Service:
    """How long a record takes, from how many deliveries the members end that have work waiting.

    Parameters
    ----------
    lag, progress
        Rows of the group, the latter by topic id and partition.
    holders
        The partitions of each member; empty where they are not known.
    assumed
        Gets a sentence.
    """
    done = {
        place: row["completion_rate"] + (row["redelivery_rate"] or 0.0)
        for place, row in progress.items()
        if row["completion_rate"]
    }
    behind = {
        (row["topic_id"], row["partition"])
        for row in lag
        if (row["lag"] or 0) > _BEHIND * done.get((row["topic_id"], row["partition"]), 0.0)
    } & done.keys()
    # Members with work waiting are busy; others could do more, and it is unknown how much.
    busy = [held for held in holders if held & behind or not held] if behind else holders
    theirs = behind.union(*busy) & done.keys() if behind and all(busy) else done.keys()
    rate = sum(done[place] for place in sorted(theirs))
    if not rate or not busy:
        why = "the group has no members to measure" if rate else "no rate of completion is known"
        assumed.append(f"1 ms of work for each record, since {why}")
        return Service(1.0, "exponential")
    mean = len(busy) / rate * _MS * (1.0 if behind else _BUSY)
    share = (
        "all the time, since they are behind"
        if behind
        else f"{_BUSY:.0%} of the time, since they keep up"
    )
    assumed.append(
        f"{mean:{',.0f' if mean >= 100 else '.3g'}} ms of work for each record, "
        f"exponentially distributed: "
        f"{rate:.3g} deliveries a second were ended by members "
        f"(counted: {len(busy)}) that were busy {share}"
    )
    return Service(mean, "exponential")


def polled(service: Service, lock_ms: int) -> int:
    """Records of a poll: as many as Kafka's default, but no more than take half a lock."""
    return (
        min(_MOST_POLLED, max(int(lock_ms / 2 / service.mean_ms), 1))
        if service.mean_ms
        else _MOST_POLLED
    )


def behaviour(observed: list[dict[str, Any]], assumed: list[str]) -> Behaviour:
    """What members make of records, from what was finished, archived and given back."""
    finished, archived, released = (
        sum(row[name] or 0 for row in observed) for name in ("finished", "archived", "released")
    )
    ended = finished + released
    if not ended or not (archived or released):
        return Behaviour()
    release, reject = released / ended, min(archived / ended, 1 - released / ended)
    assumed.append(
        f"{release:.1%} of deliveries are released and {reject:.1%} rejected, by chance: "
        f"what was given back may have "
        "been a lock that ran out, what was archived a delivery limit"
    )
    return Behaviour(accept=1 - release - reject, release=release, reject=reject)


def producers(
    topics: list[Topic],
    progress: dict[tuple[str, int], dict[str, Any]],
    batch_records: int,
    assumed: list[str],
) -> list[Producer]:
    """Who goes on to produce at the rates at which records arrived."""
    producers = []
    for topic in topics:
        known = [
            progress.get((topic.id, number), {}).get("arrival_rate")
            for number in range(topic.partitions)
        ]
        unknown = sum(rate is None for rate in known)
        if unknown:
            assumed.append(
                f"nothing arrives in {unknown} partitions of {topic.name}, "
                f"whose rates are not known"
            )
        rates = [max(rate or 0.0, 0.0) for rate in known]
        if sum(rates):
            assumed.append(
                f"records of {topic.name} go on to arrive by chance, {sum(rates):.3g} a second"
            )
            producers.append(
                Producer(topic.name, sum(rates), batch_records=batch_records, weights=tuple(rates))
            )
    return producers
