"""Groups and members of a reading: the tables behind `Workbench.group_states` and `members`."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.engine import Reading
from sharelag.metrics.members_now import group_states, member_rows, of_topics
from sharelag.model.group_state import parse_states
from sharelag.tables.arrow import flat


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
        `sharelag.schemas.GROUP_STATES`.
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
    """One row a member of a reading, as `sharelag.schemas.MEMBER_ROWS`.

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
