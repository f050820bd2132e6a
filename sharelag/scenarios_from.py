r"""Which scenario continues what a cluster is in? Its windows, lag, members, settings and rates, and what was assumed.

evidence = gather(CaptureInput(folder))
scenario = scenario_from(evidence, "payments")
print(*scenario.assumed, sep="\\n")
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import InputError
from sharelag.metrics.evidence import Evidence
from sharelag.model import SharePartition, Window
from sharelag.replay.state import window_items
from sharelag.settings import in_force
from sharelag.whatif.scenario import (
    Behaviour,
    Member,
    PartitionStart,
    Producer,
    Scenario,
    Service,
    Topic,
    settings_named,
)

_MS = 1000
#: A group is behind when its lag is more than it finishes in so many seconds ...
_BEHIND = 10
#: ... and when it is not, its members are taken to be busy for this share of their time.
_BUSY = 0.5
#: ``max.poll.records``
_MOST_POLLED = 500
_SETTINGS = (
    "share.record.lock.duration.ms",
    "share.delivery.count.limit",
    "share.partition.max.record.locks",
    "share.session.timeout.ms",
    "share.heartbeat.interval.ms",
)


def scenario_from(
    evidence: Evidence,
    group: str | None = None,
    *,
    assignor: str = "simple",
    duration_ms: int = 600_000,
    service: Service | None = None,
    behaviour: Behaviour | None = None,
    batch_records: int = 1,
    max_poll_records: int | None = None,
) -> Scenario:
    """Begin a simulation where a share group is now.

    Parameters
    ----------
    evidence : Evidence
        As `sharelag.gather` gives it.
    group : str, optional
        May be left out when there is one only.
    assignor, duration_ms
        Of the scenario.
    service, behaviour : optional
        Of the members; estimated from the rates when not given.
    batch_records : int
        Records in a record batch: cannot be seen from the group's state.
    max_poll_records : int, optional
        Records of a poll, which cannot be seen either. When not given, Kafka's 500, or fewer where so many would
        take longer than half a lock: else the simulation had locks run out that the cluster's history does not show.

    Returns
    -------
    Scenario
        ``assumed`` lists in words what the evidence does not tell.

    Raises
    ------
    InputError
        There is no such group, or the name is needed, or nothing is known of its topics.
    """
    lag = _of_group(evidence.lag, _group(evidence, group))
    name = lag[0]["group_id"]
    assumed: list[str] = []
    progress = {(row["topic_id"], row["partition"]): row for row in _of_group(evidence.progress, name)}
    topics = _topics(evidence, lag, progress, batch_records, assumed)
    members = _members(evidence, name, topics, assumed)
    service = service or _service(lag, progress, _holders(evidence, name, len(members)), assumed)
    behaviour = behaviour or _behaviour(_of_group(evidence.observed, name), assumed)
    found = in_force(evidence.settings, name)
    settings = settings_named((setting, value.value) for setting, value in found.items())
    polled = max_poll_records or _polled(service, settings.limits.lock_duration_ms)
    assumed.append(
        f"record batches of {batch_records} and polls of {polled} records; network and brokers as by default"
    )
    unknown = [setting for setting in _SETTINGS if found[setting].source == "assumed"]
    if unknown:
        assumed.append(f"Kafka's defaults for {', '.join(unknown)}, which are not known")
    return Scenario(
        topics=tuple(topics),
        members=tuple(
            Member(f"member-{number}", 1, subscribed, rack, service, behaviour, polled)
            for number, (subscribed, rack) in enumerate(members)
        ),
        producers=tuple(_producers(topics, progress, batch_records, assumed)),
        settings=settings,
        assignor=assignor,
        duration_ms=duration_ms,
        group_id=name,
        begins_ms=round(evidence.as_of.timestamp() * _MS),
        name=name,
        about=f"The share group {name} as of {evidence.as_of.isoformat(timespec='seconds')}",
        assumed=tuple(assumed),
    )


def _group(evidence: Evidence, group: str | None) -> str:
    groups = sorted(pc.unique(evidence.lag.column("group_id")).to_pylist())
    if group is None and len(groups) == 1:
        return str(groups[0])
    if group is None or group not in groups:
        what = "choose one share group" if group is None else f"there is no share group {group!r}"
        raise InputError(f"{what}: {', '.join(groups) or 'none has any state'}")
    return group


def _of_group(table: pa.Table, group: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.filter(pc.equal(table.column("group_id"), group)).to_pylist()
    return rows


def _topics(
    evidence: Evidence,
    lag: list[dict[str, Any]],
    progress: dict[tuple[str, int], dict[str, Any]],
    batch_records: int,
    assumed: list[str],
) -> list[Topic]:
    windows = dict(window_items(evidence.windows))
    logs = {(row["topic_id"], row["partition"]): row for row in evidence.logs.to_pylist()}
    by_topic: dict[tuple[str, str], dict[int, PartitionStart]] = {}
    for row in lag:
        if row["topic"] is None or row["end_offset"] is None:
            assumed.append(
                f"partition {row['partition']} of topic {row['topic'] or row['topic_id']} is left out: "
                "the end of its log is not known"
            )
            continue
        window = windows.get(SharePartition(row["group_id"], row["topic_id"], row["partition"]))
        age = progress.get((row["topic_id"], row["partition"]), {}).get("age_ms")
        start = _start(row, window, age, batch_records)
        by_topic.setdefault((row["topic"], row["topic_id"]), {})[row["partition"]] = start
        if age is None and row["lag"]:
            assumed.append(
                f"the backlog of {row['topic']}:{row['partition']} arrived just now, since its age is not known"
            )
    if not by_topic:
        raise InputError("the ends of the group's topics are not known there: nothing can be simulated")
    topics = []
    for (name, id_), starts in sorted(by_topic.items()):
        count = max(starts) + 1
        if len(starts) < count:
            assumed.append(f"{count - len(starts)} partitions of {name} have no state: nothing arrives there")
        retention = logs.get((id_, min(starts)), {}).get("retention_ms")
        topics.append(
            Topic(
                name,
                count,
                id_,
                starts=tuple(starts.get(number, PartitionStart()) for number in range(count)),
                retention_ms=retention if retention is not None and retention > 0 else None,
            )
        )
    return topics


def _start(row: dict[str, Any], window: Window | None, age: int | None, batch_records: int) -> PartitionStart:
    return PartitionStart(
        end_offset=row["end_offset"],
        log_start_offset=row["log_start_offset"] or 0,
        window=window,
        batch_records=batch_records,
        oldest_age_ms=float(age or 0),
    )


def _members(
    evidence: Evidence, group: str, topics: list[Topic], assumed: list[str]
) -> list[tuple[tuple[str, ...], str | None]]:
    known = {topic.name for topic in topics}
    rows = _of_group(evidence.members, group)
    if not rows and not _of_group(evidence.groups, group):
        count = max(topic.partitions for topic in topics)
        assumed.append(f"{count} members, since the members of the group are not known")
        return [((), None)] * count
    return [
        (tuple(sorted(known & set(row["subscribed_topic_names"] or known))) or tuple(sorted(known)), row["rack_id"])
        for row in sorted(rows, key=lambda row: row["member_id"])
    ]


def _service(
    lag: list[dict[str, Any]],
    progress: dict[tuple[str, int], dict[str, Any]],
    holders: list[set[tuple[str, int]]],
    assumed: list[str],
) -> Service:
    """How long a record takes, from how many deliveries the members end that have work waiting."""
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
    # Who has work waiting is busy; who has not could do more, and nobody saw how much.
    busy = [held for held in holders if held & behind or not held] if behind else holders
    theirs = behind.union(*busy) & done.keys() if behind and all(busy) else done.keys()
    rate = sum(done[place] for place in sorted(theirs))
    if not rate or not busy:
        assumed.append("1 ms of work for each record, since no rate of completion is known")
        return Service(1.0, "exponential")
    mean = len(busy) / rate * _MS * (1.0 if behind else _BUSY)
    share = "all the time, since they are behind" if behind else f"{_BUSY:.0%} of the time, since they keep up"
    assumed.append(
        f"{mean:.3g} ms of work for each record, exponentially distributed: {len(busy)} of the members ended "
        f"{rate:.3g} deliveries a second, and were busy {share}"
    )
    return Service(mean, "exponential")


def _holders(evidence: Evidence, group: str, members: int) -> list[set[tuple[str, int]]]:
    """The partitions of each member; none where they are not known."""
    rows = _of_group(evidence.members, group)
    if not rows:
        return [set() for _ in range(members)]
    return [
        {(one["topic_id"], number) for one in row["assigned_partitions"] or () for number in one["partitions"]}
        for row in rows
    ]


def _polled(service: Service, lock_ms: int) -> int:
    return min(_MOST_POLLED, max(int(lock_ms / 2 / service.mean_ms), 1)) if service.mean_ms else _MOST_POLLED


def _behaviour(observed: list[dict[str, Any]], assumed: list[str]) -> Behaviour:
    finished, archived, released = (
        sum(row[name] or 0 for row in observed) for name in ("finished", "archived", "released")
    )
    ended = finished + released
    if not archived and not released:
        return Behaviour()
    release, reject = released / ended, min(archived / ended, 1 - released / ended)
    assumed.append(
        f"{release:.1%} of deliveries are released and {reject:.1%} rejected, by chance: what was given back may have "
        "been a lock that ran out, what was archived a delivery limit"
    )
    return Behaviour(accept=1 - release - reject, release=release, reject=reject)


def _producers(
    topics: list[Topic], progress: dict[tuple[str, int], dict[str, Any]], batch_records: int, assumed: list[str]
) -> list[Producer]:
    producers = []
    for topic in topics:
        told = [progress.get((topic.id, number), {}).get("arrival_rate") for number in range(topic.partitions)]
        unknown = sum(rate is None for rate in told)
        if unknown:
            assumed.append(f"nothing arrives in {unknown} partitions of {topic.name}, whose rates are not known")
        rates = [max(rate or 0.0, 0.0) for rate in told]
        if sum(rates):
            assumed.append(f"records of {topic.name} go on to arrive by chance, {sum(rates):.3g} a second")
            producers.append(Producer(topic.name, sum(rates), batch_records=batch_records, weights=tuple(rates)))
    return producers
