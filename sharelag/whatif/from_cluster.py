"""A scenario that continues from a cluster's state: windows, lag, members, settings, rates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import NO_STATE, InputError, list_names, unknown_group
from sharelag.metrics.brokers import replica_racks
from sharelag.metrics.causes import CauseInputs
from sharelag.metrics.causes.declared import open_transaction
from sharelag.metrics.evidence import Evidence
from sharelag.metrics.progress import usual_rates
from sharelag.model import DeliveryState, SharePartition, StateBatch, Window
from sharelag.model.settings import in_force
from sharelag.replay.state import window_items
from sharelag.tables.gaps import NO_START_OFFSET
from sharelag.tables.words import moment, pluralize
from sharelag.whatif import estimates
from sharelag.whatif.consumers import KAFKA_NAMES, Behaviour, Service, Settings, settings_named
from sharelag.whatif.estimates import ByPlace, Place, Rows, place_of, poison_of
from sharelag.whatif.scenario import Member, PartitionStart, Scenario, Topic

#: The last stable offset and the milliseconds since the transaction began, by open partition.
_Open: TypeAlias = dict[Place, tuple[int, float]]


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
    """Build a scenario that starts from the current state of a share group.

    Parameters
    ----------
    evidence : Evidence
        As `sharelag.gather` returns it.
    group : str, optional
        May be omitted if there is only one.
    assignor, duration_ms
        Fields of the scenario.
    service, behaviour : optional
        Service and behaviour of the members; by default estimated from the rates.
    batch_records : int
        Records per record batch, which the group's state does not show.
    max_poll_records : int, optional
        Records per poll, which it does not show either. By default Kafka's 500, or fewer if these
        take longer than half a lock: otherwise locks would expire that did not in the cluster.

    Returns
    -------
    Scenario
        ``assumed`` lists in words what the evidence does not show. Its members have their ids as
        names, if known, and start with their current partitions.

    Raises
    ------
    InputError
        The group does not exist, has to be named, or nothing is known about its topics.
    """
    name = choose_group(evidence, group)
    evidence = evidence.of_group(name)
    lag: Rows = evidence.lag.to_pylist()
    assumed: list[str] = []
    # The usual rates are simulated, not those of the last minute, in which the group may be idle.
    usual = usual_rates(evidence.lag, evidence.observed, evidence.past_offsets, evidence.as_of)
    progress = _by_partition(evidence.progress, name)
    for place, row in _by_partition(usual, name).items():
        progress[place] = progress.get(place, {}) | row
    open_ = _lasting_transactions(evidence, name)
    topics = _build_topics(evidence, lag, progress, open_, batch_records, assumed)
    members = _build_members(evidence, name, topics, assumed)
    found = in_force(evidence.settings, name)
    settings = settings_named((setting, value.value) for setting, value in found.items())
    settings = replace(settings, max_size=int(str(found["group.share.max.size"].value)))
    limits = settings.limits
    observed = _by_partition(evidence.observed, name)
    if service is None:
        rows = of_group(evidence.members, name)
        holders = [_find_assigned(row) for row in rows] or [set()] * len(members)
        blocked = _find_blocked(evidence, lag, settings)
        known, left = (lag, progress), ""
        for row in of_group(evidence.groups, name):
            timeout_ms = settings.session_timeout_ms
            before = estimates.before_departure(row, timeout_ms, lag, progress, observed)
            if before is not None:  # no members now: the processing time is that until they left
                known, holders = (before.lag, before.progress), [set()] * before.members
                left = f" until they left, {moment(before.until)}"
        service = estimates.service(*known, holders, blocked, assumed, left)
    poison = poison_of(topics, observed, limits, assumed)
    ids = {topic.name: topic.id for topic in topics}
    behaviour = behaviour or estimates.behaviour(
        list(observed.values()), {(ids[one.topic], one.partition) for one in poison}, assumed
    )
    longest = max((one.work_ms or 0 for one in poison), default=0)
    polled = max_poll_records or estimates.estimate_poll(service, limits.lock_duration_ms, longest)
    brokers, coordinator, leading = _set_leaders(topics, evidence, name)
    polls = pluralize(polled, "record")
    assumed.append(f"record batches of {batch_records} and polls of {polls}; {leading}")
    _note_transactions(evidence, lag, settings, open_, assumed)
    reset = str(found["share.auto.offset.reset"].value)
    _note_limits(evidence, lag, settings, reset, assumed)
    unknown = [setting for setting in KAFKA_NAMES if found[setting].source == "assumed"]
    if unknown:
        assumed.append(f"Kafka's defaults for {', '.join(unknown)}, which are not known")
    return Scenario(
        topics=tuple(topics),
        # Without members, added ones are modelled on this one.
        members=tuple(
            replace(one, service=service, behaviour=behaviour, max_poll_records=polled)
            for one in members or [Member("member", 0)]
        ),
        producers=tuple(estimates.producers(topics, progress, batch_records, assumed)),
        settings=settings,
        poison=poison,
        settled=True,
        assignor=assignor,
        duration_ms=duration_ms,
        brokers=brokers,
        coordinator=coordinator,
        group_id=name,
        begins_ms=round(evidence.as_of.timestamp() * 1000),
        name=name,
        about=f"The share group {name} as of {moment(evidence.as_of)}",
        assumed=tuple(assumed),
    )


def _set_leaders(
    topics: list[Topic], evidence: Evidence, group: str
) -> tuple[int, int | None, str]:
    """Set the leaders and coordinators of the topics' partitions.

    Returns the number of brokers, the group's coordinator, and words. Unknown leaders are replaced
    by the known leaders and replicas in turn.
    """
    known, latencies = of_group(evidence.brokers, group), ", with default latencies"
    copies = max((len(row["replicas"] or ()) for row in known), default=0)
    if copies > 1:
        latencies += (
            f"; write_ms is that of one broker, and {copies} replicas make writes slower: give the "
            "time of a commit in this cluster as costs.write_ms"
        )
    roles = ("leader_id", "share_coordinator", "group_coordinator")
    hosts = {one for row in known for one in (row["leader_id"], *(row["replicas"] or ()))}
    ids = hosts | {row[role] for row in known for role in roles[1:]}
    numbers = {one: number for number, one in enumerate(sorted(ids - {None}))}
    racks = "" if any(topic.racks for topic in topics) else " without racks"
    if len(numbers) < 2:
        return 1, None, f"one broker{racks}{latencies}"
    led, kept, coordinates = (
        {place_of(row): numbers.get(row[role]) for row in known} for role in roles
    )
    may_lead = [numbers[one] for one in sorted(hosts - {None})] or [*numbers.values()]
    placed = ""
    for n, topic in enumerate(topics):
        places = [(topic.id, number) for number in range(topic.partitions)]
        leaders = [led.get(place) for place in places]
        coordinators = [one for one in map(kept.get, places) if one is not None]
        if len(coordinators) < len(places):
            coordinators, placed = [], " (not all are known: placed by number)"
        topics[n] = replace(
            topic,
            leaders=tuple(
                may_lead[at % len(may_lead)] if one is None else one
                for at, one in enumerate(leaders)
            ),
            coordinators=tuple(coordinators),
        )
    times = (row["as_of"] for row in known if row["as_of"] is not None)
    read = moment(max(times, default=evidence.as_of))
    count = len(numbers)
    copied = f"copies of share states on the brokers after their share coordinators{placed}"
    leading = f"{pluralize(count, 'broker')}{racks}, leaders as of {read}, {copied}{latencies}"
    return count, next(iter(coordinates.values())), leading


def choose_group(evidence: Evidence, group: str | None) -> str:
    """Return the group, or the only one; an InputError names those to choose from."""
    if isinstance(group, str) and pc.index(evidence.lag["group_id"], group).as_py() >= 0:
        return group
    groups = sorted(pc.unique(evidence.lag.column("group_id")).to_pylist())
    if group is not None:
        raise InputError(unknown_group(group, groups))
    if len(groups) != 1:
        raise InputError(f"choose one share group: {list_names(groups)}" if groups else NO_STATE)
    return str(groups[0])


def of_group(table: pa.Table, group: str) -> Rows:
    """Return the rows of a group."""
    rows: Rows = table.filter(pc.equal(table.column("group_id"), group)).to_pylist()
    return rows


def _by_partition(table: pa.Table, group: str) -> ByPlace:
    return {place_of(row): row for row in of_group(table, group)}


def _build_topics(
    evidence: Evidence, lag: Rows, progress: ByPlace, open_: _Open, batch: int, assumed: list[str]
) -> list[Topic]:
    windows, racks = dict(window_items(evidence.windows)), replica_racks(evidence.brokers)
    by_topic: dict[tuple[str, str], dict[int, PartitionStart]] = {}
    endless, ageless, never = [], [], []
    for row in lag:
        place, number, end = place_of(row), row["partition"], row["end_offset"]
        if row["topic"] is None or end is None:
            endless.append(f"{row['topic'] or row['topic_id']}:{number}")
            continue
        age = progress.get(place, {}).get("age_ms")
        # The backlog behind an open transaction has waited at least since that began.
        offset, waits = open_.get(place, (None, 0.0))
        by_topic.setdefault((row["topic"], row["topic_id"]), {})[number] = PartitionStart(
            end_offset=end,
            log_start_offset=row["log_start_offset"] or 0,
            window=_with_held(windows.get(SharePartition(row["group_id"], *place))),
            batch_records=batch,
            oldest_age_ms=max(float(age or 0), waits),
            open_from=offset,
        )
        if age is None and row["lag"]:
            ageless.append(f"{row['topic']}:{number}")
    if not by_topic:
        raise InputError(
            "the end offsets of the group's topics are not known, so nothing can be simulated: "
            "give another moment, or an input with end offsets, such as a cluster or a capture"
        )
    logs = {place_of(row): row for row in evidence.logs.to_pylist()}
    topics = []
    for (name, id_), starts in sorted(by_topic.items()):
        count = max(starts) + 1
        if without := count - len(starts):
            never.append(f"{pluralize(without, 'partition')} of {name}")
        of_topic = tuple(racks.get((id_, number), ()) for number in range(count))
        known = tuple(starts.get(number, PartitionStart()) for number in range(count))
        retention = logs.get((id_, min(starts)), {}).get("retention_ms") or 0
        kept_ms, in_racks = retention if retention > 0 else None, of_topic if any(of_topic) else ()
        topics.append(Topic(name, count, id_, starts=known, racks=in_racks, retention_ms=kept_ms))
    assumed += estimates.assume_for(endless, "left out, since the end offset is not known")
    assumed += estimates.assume_for(ageless, "the backlog arrived just now, since no age is known")
    assumed += estimates.assume_for(never, "without state, so nothing arrives there")
    return topics


def _with_held(window: Window | None) -> Window | None:
    """Return a window in which offsets without a written state are available.

    Their leader has them in memory. A new one finds a hole there, and with Kafka's rules delivers
    nothing behind the window if that is still full when the hole is finished.
    """
    if window is None or (at := window.effective_start_offset) is None:
        return window
    batches = list(window.batches)
    for one in window.runs:
        if one.first_offset > at:
            batches.append(StateBatch(at, one.first_offset - 1, DeliveryState.AVAILABLE, 0))
        at = one.last_offset + 1
    return replace(window, batches=tuple(sorted(batches)))


def _build_members(
    evidence: Evidence, group: str, topics: list[Topic], assumed: list[str]
) -> list[Member]:
    known = {topic.name for topic in topics}
    places = {(one.id, n): (one.name, n) for one in topics for n in range(one.partitions)}
    rows = of_group(evidence.members, group)
    if not rows and not of_group(evidence.groups, group):
        count = max(topic.partitions for topic in topics)
        why = "the members of the group are not known"
        assumed.append(estimates.Assumption("members", pluralize(count, "member"), why))
        return [Member(f"member-{number}") for number in range(count)]
    members = []
    for row in sorted(rows, key=lambda row: row["member_id"]):
        own = tuple(sorted(known & set(row["subscribed_topic_names"] or ()) or known))
        held = tuple(places[one] for one in sorted(_find_assigned(row)) if one in places)
        members.append(Member(row["member_id"], topics=own, rack=row["rack_id"], assigned=held))
    return members


def _find_assigned(row: dict[str, Any]) -> set[Place]:
    held = row["assigned_partitions"] or ()
    return {(one["topic_id"], number) for one in held for number in one["partitions"]}


def _note_limits(
    evidence: Evidence, lag: Rows, settings: Settings, reset: str, assumed: list[str]
) -> None:
    if held := sum(row["window_unknown"] or 0 for row in lag):
        assumed.append(
            f"{pluralize(held, 'offset')} that may be acquired can be delivered at once, "
            "since it is not known which members hold them"
        )
    ids = {row["topic_id"] for row in lag}
    logs = [row for row in evidence.logs.to_pylist() if row["topic_id"] in ids]
    if any("compact" in (row["cleanup_policy"] or "") for row in logs):
        assumed.append("every offset of the backlog has a record, although topics are compacted")
    new = (row for row in lag if row["lag_reason"] == NO_START_OFFSET)
    unread = [row for row in new if row["end_offset"] != row["log_start_offset"]]
    if unread and settings.auto_offset_reset == "latest":
        assumed.append(
            f"records in {pluralize(len(unread), 'partition')} that the group has never read do "
            "not wait for it, since it starts at the latest record"
        )
    if reset != settings.auto_offset_reset:
        assumed.append(
            f"in partitions that were never read, the group starts at the latest record, not at "
            f"{reset}"
        )


# ---- open transactions, which block `read_committed` groups ----


def _lasting_transactions(evidence: Evidence, group: str) -> _Open:
    """Return transactions that block the group for longer than a lock (cause ``open_transaction``).

    A transaction that began a moment ago is normal for a transactional producer.
    """
    facts = CauseInputs.of(evidence)
    where = open_transaction.find(facts).where
    rows = evidence.lag.select(["group_id", "topic_id", "partition"]).to_pylist()
    each = zip(rows, where, facts.stable_end, facts.stable_since, strict=True)
    return {
        place_of(row): (int(stable), float(facts.now - since))
        for row, is_open, stable, since in each
        if is_open and row["group_id"] == group
    }


def _note_transactions(
    evidence: Evidence, lag: Rows, settings: Settings, open_: _Open, assumed: list[str]
) -> None:
    """Add assumptions: which open transactions stay open, and which commit at once."""
    if settings.isolation_level != "read_committed":
        return
    names = {place_of(row): row["topic"] for row in lag}
    where = [f"{names[at]}:{at[1]} from offset {begin}" for at, (begin, _) in sorted(open_.items())]
    assumed += estimates.assume_for(where, estimates.STAYS_OPEN)
    stable = stable_ends(evidence, settings)
    brief = sum(
        stable.get(place, end) < end
        for row in lag
        if (place := place_of(row)) not in open_ and (end := row["end_offset"]) is not None
    )
    if brief:
        assumed.append(
            f"open transactions, in {brief} of {len(lag):,} partitions, are committed at once: "
            "they began recently, or at an unknown time"
        )


def _find_blocked(evidence: Evidence, lag: Rows, settings: Settings) -> set[Place]:
    """Return partitions with hardly any available offsets that are full or end at a transaction."""
    stable, most = stable_ends(evidence, settings), settings.limits.max_record_locks
    found = set()
    for row in lag:
        start, end = row["effective_start_offset"], row["window_end_offset"]
        at_hand = (row["window_available"] or 0) + (row["window_unknown"] or 0)
        if end is None or start is None or at_hand > 1:  # 1: the blocking record
            continue
        if end - start >= most or stable.get(place_of(row), end + 1) <= end:
            found.add(place_of(row))
    return found


def stable_ends(evidence: Evidence, settings: Settings) -> dict[Place, int]:
    """Return the last stable offsets for a ``read_committed`` group; otherwise none."""
    if settings.isolation_level != "read_committed":
        return {}
    logs = evidence.logs.filter(pc.is_valid(evidence.logs.column("last_stable_offset")))
    return {place_of(row): row["last_stable_offset"] for row in logs.to_pylist()}
