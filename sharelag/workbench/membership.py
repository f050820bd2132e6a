"""Groups and members of a reading: the tables behind `Workbench.group_states` and `members`."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import listed
from sharelag.metrics.membership import group_states, member_rows, of_topics
from sharelag.model.group_state import GroupState, parse_states
from sharelag.reading import Reading
from sharelag.schemas.arrow import beside, flat
from sharelag.tables.words import counted
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC

#: What to do where nothing is known of the groups' own records.
NO_RECORDS = (
    f"state, epochs and members of the groups: no records of {GROUP_TOPIC} were read; reading them "
    "takes Read and Describe on that topic, or a capture that includes it"
)

#: Where leaders are not known at all.
NO_LEADERS = (
    "leaders, replicas and coordinators: a running cluster knows them as of now, and a capture as "
    "of its end; nothing knows those of an earlier moment, nor does an older capture"
)

PAST = (
    f"members and epochs whose records Kafka has compacted since that moment: {GROUP_TOPIC} keeps "
    "the last record of each key, an archive (capture --follow) keeps all"
)


def group_states_of(reading: Reading, states: Iterable[str] = ()) -> pa.Table:
    """One row a group of a reading.

    Parameters
    ----------
    reading : Reading
    states : iterable of str
        Only groups in one of these states, in any case; empty: all groups.

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.membership.GROUP_STATES`.
    """
    reading.require_group_records()
    lag, groups = reading.table("lag"), reading.table("groups")
    unlisted = not pc.all(
        pc.is_in(flat(lag.column("group_id")), flat(groups.column("group_id")))
    ).as_py()
    # Of an earlier moment, compaction may have removed the records of a group that existed.
    is_complete = bool(
        unlisted and reading.as_of is None and (groups.num_rows > 0 or reading.has_group_records)
    )
    known = (reading.table(name) for name in ("leaders", "nodes"))
    table = group_states(groups, lag, is_complete, *known)
    if reading.choice.topics:  # groups that have no state of them are about others
        table = table.filter(pc.greater(table.column("partitions"), 0))
    return in_states(table, states)


def in_states(table: pa.Table, states: Iterable[str]) -> pa.Table:
    """The groups in one of some states, as ``ListGroupsOptions.inGroupStates``; empty: all."""
    wanted = sorted(parse_states(states))
    if not wanted:
        return table
    return table.filter(pc.is_in(table.column("state"), pa.array(wanted, pa.string())))


def members_of(reading: Reading) -> pa.Table:
    """One row a member of a reading, as `sharelag.schemas.membership.MEMBER_ROWS`.

    Where topics were selected: those that have partitions of them, or subscribe to them.
    """
    reading.require_group_records()
    members, groups, lag = (reading.table(name) for name in ("members", "groups", "lag"))
    names = lag.select(["topic_id", "topic"])
    if reading.choice.topics:  # members have partitions of other topics, too
        lists = pc.list_flatten(flat(members.column("assigned_partitions")))
        ids = set(pc.unique(pc.struct_field(lists, "topic_id")).to_pylist())
        others = sorted(ids - set(names.column("topic_id").to_pylist()))
        more = reading.source.offsets(others).select(names.column_names).cast(names.schema)
        names = pa.concat_tables([names, more])
    return member_rows(of_topics(members, names, reading.choice), groups, names)


def unknown_states(table: pa.Table, is_past: bool = False) -> tuple[str, ...]:
    """What is not known of these groups, in sentences; ``is_past``: not as of the last record."""
    past = (PAST,) if is_past and table.num_rows else ()
    if table.num_rows and table.column("state").null_count == table.num_rows:
        return (NO_RECORDS,)
    unknown = pc.sum(pc.is_null(table.column("state"))).as_py() or 0
    if unknown:
        groups = "1 group" if unknown == 1 else f"{unknown:,} groups"
        return (f"the state of {groups} without group records at that moment", *past)
    odd = pc.sum(pc.equal(table.column("state"), GroupState.UNKNOWN)).as_py() or 0
    named = ("some states, whose names Kafka 4.3 does not use for share groups",) if odd else ()
    return (*named, *past)


def unknown_members(groups: pa.Table, members: pa.Table | None = None) -> tuple[str, ...]:
    """Say of how many groups Kafka's command printed no number of members, or not all of them.

    Parameters
    ----------
    groups, members : pyarrow.Table
        `GROUP_STATES` and, where they are shown, `MEMBER_ROWS` of what was printed.
    """
    count = flat(groups.column("members"))
    if members is not None:
        shown = members.group_by("group_id").aggregate([("group_id", "count")])
        shown = beside(groups.column("group_id"), shown, ["group_id"]).column("group_id_count")
        count = pc.if_else(pc.equal(count, pc.fill_null(flat(shown), 0)), count, None)
    unknown = count.null_count
    if not unknown:
        return ()
    of = "1 group" if unknown == 1 else f"{unknown:,} groups"
    return (f"the members of {of}: kafka-share-groups.sh --describe --members prints them",)


def unknown_brokers(table: pa.Table) -> tuple[str, ...]:
    """What is not known of the brokers of share partitions, in sentences."""
    if not table.num_rows:
        return ()
    if table.column("as_of").null_count == table.num_rows:
        return (NO_LEADERS,)
    described = table.filter(pc.or_(table.column("leader_id").is_valid(), _no_replicas(table)))
    unknown = {
        f"the {words} of {{}}: {why}": (described if name == "leader_id" else table)
        .column(name)
        .null_count
        for name, words, why in (
            ("leader_id", "leader", "that takes DESCRIBE on the topic"),
            ("share_coordinator", "share coordinator", f"that takes DESCRIBE on {STATE_TOPIC}"),
            ("group_coordinator", "group coordinator", f"that takes DESCRIBE on {GROUP_TOPIC}"),
        )
    }
    return tuple(
        words.format(counted(count, "share partition")) for words, count in unknown.items() if count
    )


def leaderless(brokers: pa.Table) -> tuple[str, ...]:
    """Say which partitions have replicas, but no leader, of `sharelag.schemas.BROKERS`."""
    rows = brokers.filter(
        pc.and_(pc.is_null(brokers.column("leader_id")), pc.invert(_no_replicas(brokers)))
    ).to_pylist()
    if not rows:
        return ()
    places = sorted({f"{row['topic']}:{row['partition']}" for row in rows})
    away = sorted({node for row in rows for node in row["replicas"]})
    it_has, end = ("they have", "end") if len(places) > 1 else ("it has", "ends")
    brokers_away = ", ".join(map(str, away))
    why = f"{it_has} no leader; start a broker with a replica ({brokers_away})"
    return (f"where {listed(places)} {end}: {why}",)


def _no_replicas(brokers: pa.Table) -> pa.ChunkedArray:
    return pc.fill_null(pc.equal(pc.list_value_length(brokers.column("replicas")), 0), True)
