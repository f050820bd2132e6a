"""The replay of group records ends with the state of Kafka's group coordinator."""

from datetime import UTC, datetime
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.inputs import CaptureInput
from sharelag.metrics.members_now import drift_arrow
from sharelag.replay.members import (
    drop_superseded_group_records,
    groups_arrow,
    members_arrow,
    read_group_log,
)
from sharelag.wire import GROUP_TOPIC, Decoded, decode_arrow
from tests.support.chapters import CAPTURE
from tests.support.group_records import (
    ASSIGNMENT_EPOCH,
    CURRENT,
    GROUP,
    MEMBER,
    TARGET,
    TOPIC_ID,
    TOPICS,
    assign,
    at,
    delete,
    join,
    leave,
    log,
    partitions,
    record,
)
from tests.support.records import assert_fields


def initialized(group: str, *numbers: int) -> dict[str, Any]:
    topics = [topic | {"topic_name": "orders"} for topic in partitions(*numbers)]
    none: dict[str, Any] = {"initializing_topics": [], "deleting_topics": []}
    return record(TOPICS, group, initialized_topics=topics, **none)


def one_member(table: pa.Table, as_of: Any = None) -> dict[str, Any]:
    (row,) = members_arrow(table, as_of).to_pylist()
    return dict(row)


def one_group(table: pa.Table, as_of: Any = None) -> dict[str, Any]:
    (row,) = groups_arrow(table, as_of).to_pylist()
    return dict(row)


def test_a_member_joins_is_told_more_and_leaves() -> None:
    rows = [*join("g", "m", 2), initialized("g", 0, 1)]
    rows += [
        record(GROUP, "g", epoch=3, metadata_hash=7),
        record(TARGET, "g", "m", topic_partitions=partitions(0, 1)),
    ]
    table = log([*rows, record(ASSIGNMENT_EPOCH, "g", assignment_epoch=3)])
    member, group = one_member(table), one_group(table)
    assert (member["member_epoch"], member["assigned_partitions"]) == (2, [])  # not told yet
    assert member["target_partitions"] == partitions(0, 1)
    assert_fields(group, group_epoch=3, assignment_epoch=3, state="Stable", members=1)
    topic = {"topic_id": TOPIC_ID, "topic_name": "orders", "partitions": [0, 1]}
    assert group["initialized_topics"] == [topic]
    rows = [*table.to_pylist(), assign("g", "m", 3, 0, 1)]
    member = one_member(log(rows))
    assert_fields(member, member_epoch=3, previous_member_epoch=2)
    assert_fields(member, assigned_partitions=partitions(0, 1), joined=at(0), changed=at(9))
    assert_fields(member, client_id="c", client_host="/h", rack_id=None)
    rows += leave("g", "m", 4)
    assert members_arrow(log(rows)).num_rows == 0
    group = one_group(log(rows))
    assert (group["group_epoch"], group["state"], group["members"]) == (4, "Empty", 0)
    assert (group["emptied"], group["changed"]) == (at(12), at(13))
    assert groups_arrow(log([*rows, *delete("g")])).num_rows == 0


def test_members_that_left_are_listed_in_the_order_in_which_they_left() -> None:
    rows = [*join("g", "a", 2, 0), *join("g", "b", 3, 1), *join("h", "c", 2, 2)]
    rows += [*leave("g", "b", 4), *leave("g", "a", 5), *join("g", "b", 6, 0), *join("e", "d", 2, 0)]
    table = log(rows)
    by_group = {row["group_id"]: row["departures"] for row in groups_arrow(table).to_pylist()}
    assert {group: [one["member_id"] for one in gone] for group, gone in by_group.items()} == {
        "e": [],
        "g": ["a"],  # b is back
        "h": [],
    }
    (left,) = [
        row["timestamp"]
        for row in table.to_pylist()
        if row["member_id"] == "a" and row["tombstone"] and row["record_type"] == MEMBER
    ]
    assert by_group["g"][0]["left_ms"] == left.timestamp() * 1000
    earlier = groups_arrow(table, at(len(rows) - 11)).to_pylist()
    assert {row["group_id"]: len(row["departures"]) for row in earlier}["g"] == 2
    thin = drop_superseded_group_records(table)
    assert groups_arrow(thin).column("departures").equals(groups_arrow(table).column("departures"))
    assert groups_arrow(log([*rows, *delete("g")])).column("group_id").to_pylist() == ["e", "h"]


def test_between_its_tombstones_a_member_is_assigned_nothing() -> None:
    table = log([*join("g", "m", 2, 0), *leave("g", "m", 3)])
    member = one_member(table, at(6))
    assert (member["member_epoch"], member["previous_member_epoch"]) == (-1, -1)
    assert member["assigned_partitions"] == member["target_partitions"] == []
    assert one_member(table, {0: 4})["member_epoch"] == 2
    assert (members_arrow(table, {0: 7}).num_rows, members_arrow(table, {1: 7}).num_rows) == (0, 0)


def test_who_comes_back_begins_anew() -> None:
    back = record(MEMBER, "g", "m", subscribed_topic_names=["orders"])
    rows = [*join("g", "m", 2, 0), *leave("g", "m", 3), back]
    member = one_member(log(rows))
    assert_fields(member, joined=at(9), member_epoch=None, assigned_partitions=None)
    assert one_group(log(rows))["emptied"] is None
    rows = [*join("g", "m", 2, 0), *leave("g", "m", 3), *delete("g"), initialized("g", 5)]
    group = one_group(log(rows))
    assert (group["group_epoch"], group["assignment_epoch"], group["emptied"]) == (None, None, None)
    assert group["initialized_topics"][0]["partitions"] == [5]


def test_what_no_record_says_is_null() -> None:
    table = log([assign("g", "m", 3, 1)])
    member, group = one_member(table), one_group(table)
    assert_fields(member, client_id=None, target_partitions=None, joined=None)
    assert (group["group_epoch"], group["initialized_topics"], group["members"]) == (None, None, 1)
    assert groups_arrow(log([record(MEMBER, "g", "m"), record(TARGET, "g", "m")])).num_rows == 0
    # A group takes its members with it, even if their own tombstones are missing.
    cut = log([*join("g", "m", 2, 0), record(GROUP, "g")])
    assert (members_arrow(cut).num_rows, groups_arrow(cut).num_rows) == (0, 0)


def test_the_same_names_elsewhere_are_others() -> None:
    both = pa.concat_tables(
        [log(join("g", "m", 2, 0)), log(join("g", "m", 2, 0) + leave("g", "m", 3), partition=1)]
    )
    assert [row["members"] for row in groups_arrow(both).to_pylist()] in ([0, 1], [1, 0])
    hostile = log([*join("a:b", "c", 2, 0), *join("a", "b:c", 2, 1), *leave("a", "b:c", 3)])
    assert [row["group_id"] for row in members_arrow(hostile).to_pylist()] == ["a:b"]


def test_no_records_no_rows_and_a_wrong_table_is_refused() -> None:
    empty = schemas.GROUP_RECORDS.empty_table()
    found = members_arrow(empty).schema, groups_arrow(empty).schema
    assert found == (schemas.MEMBERS, schemas.GROUPS)
    assert drop_superseded_group_records(empty).num_rows == 0
    with pytest.raises(InputError, match=r"group records: 1 of .* member_id: expected string"):
        members_arrow(empty.drop(["member_id"]))


def test_the_recorded_group_at_its_second_rebalance() -> None:
    """Both members learn the target at once, the new one first: partitions move without waiting."""
    batches = CaptureInput(CAPTURE).batches(GROUP_TOPIC)
    records = pa.Table.from_batches([decode_arrow(batch, GROUP_TOPIC).records for batch in batches])
    result: dict[int, dict[str, Any]] = {}
    for millisecond in (597, 600, 604):
        moment = datetime(2026, 11, 21, 11, 44, 30, millisecond * 1000, tzinfo=UTC)
        result[millisecond] = {}
        for row in members_arrow(records, moment).to_pylist():
            if row["group_id"] == "billing":
                counts = [len(topic["partitions"]) for topic in row["assigned_partitions"]]
                result[millisecond][row["member_id"][:2]] = (row["member_epoch"], counts)
    assert result == {
        597: {"+W": (7, [4, 6])},
        600: {"+W": (7, [4, 6]), "u3": (8, [5])},
        604: {"+W": (8, [4, 1]), "u3": (8, [5])},
    }
    assert members_arrow(records).num_rows == 0
    assert {row["state"] for row in groups_arrow(records).to_pylist()} == {"Empty"}


@pytest.mark.row("GRP-03")
def test_a_member_has_the_fields_of_the_protocol_and_no_instance_id() -> None:
    text = pa.string()
    wanted = {"member_id": text, "rack_id": text, "client_id": text, "client_host": text}
    wanted["subscribed_topic_names"] = pa.list_(text)
    assert {name: schemas.MEMBERS.field(name).type for name in wanted} == wanted
    assert not [name for name in schemas.MEMBERS.names if "instance" in name]


@pytest.mark.row("GRP-04")
def test_the_assignment_epoch_is_never_beyond_the_group_epoch() -> None:
    batches = CaptureInput(CAPTURE).batches(GROUP_TOPIC)
    records = pa.Table.from_batches([decode_arrow(batch, GROUP_TOPIC).records for batch in batches])
    compared = 0
    for partition, offset in zip(
        *(records.column(n).to_pylist() for n in ("record_partition", "offset")), strict=True
    ):
        for row in groups_arrow(records, {partition: offset}).to_pylist():
            if row["assignment_epoch"] is not None:
                compared += 1
                assert row["assignment_epoch"] <= row["group_epoch"]
    assert compared > 400


def test_who_is_an_epoch_behind_its_target_drifts() -> None:
    rows = [*join("g", "m", 4, 0, 1), *join("g", "n", 5, 1, 2)]
    rows += [record(TARGET, "g", "m", topic_partitions=partitions(0)), *join("h", "m", 4, 0)]
    table = log(rows)
    drifting = drift_arrow(members_arrow(table), groups_arrow(table)).to_pylist()
    behind = {"group_id": "g", "member_id": "m", "member_epoch": 4, "assignment_epoch": 5}
    behind["since"] = None
    assert drifting == [behind | {"missing": 0, "surplus": 1}]
    told = record(TARGET, "h", "m", topic_partitions=partitions(0, 1, 2))
    result = log([*rows, assign("g", "m", 5, 0), told])
    (more,) = drift_arrow(members_arrow(result), groups_arrow(result)).to_pylist()
    assert (more["group_id"], more["missing"], more["surplus"]) == ("h", 2, 0)
    untold = log([*join("g", "m", 4, 0), record(ASSIGNMENT_EPOCH, "g", assignment_epoch=5)])
    found = drift_arrow(members_arrow(untold), groups_arrow(untold)).to_pylist()
    assert found == [behind | {"missing": 0, "surplus": 0}]
    nobody = schemas.MEMBERS.empty_table()
    assert drift_arrow(nobody, groups_arrow(table)).num_rows == 0


# ---- against a coordinator that replays one record after the other -------------------------------
def story(random: Random) -> list[dict[str, Any]]:
    """Records of a coordinator while members join, leave and return, and groups are deleted."""
    alive: dict[str, set[str]] = {"g": set(), "h:1": set()}
    epochs = dict.fromkeys(alive, 1)
    # Groups with a record of their own, which hold until it is a tombstone.
    result: set[str] = set()
    rows: list[dict[str, Any]] = []
    for _ in range(random.randint(1, 25)):
        group, member = random.choice(list(alive)), random.choice(["m", "n", "o"])
        epochs[group] += 1
        some = random.sample(range(4), random.randint(0, 4))
        if group in result and not alive[group] and random.random() < 0.3:
            rows += delete(group)
            result.remove(group)
        elif random.random() < 0.2:
            rows.append(initialized(group, *some))
        elif member not in alive[group]:
            rows += join(group, member, epochs[group], *some)
            alive[group].add(member)
            result.add(group)
        elif random.random() < 0.4:
            rows += leave(group, member, epochs[group])
            alive[group].remove(member)
        elif random.random() < 0.3:  # another subscription
            topics = random.choice([["orders"], []])
            rows.append(record(MEMBER, group, member, subscribed_topic_names=topics))
        else:
            rows.append(assign(group, member, epochs[group], *some))
    return rows[: random.randint(1, len(rows))]  # may end in the middle of a write


def coordinator(table: pa.Table) -> tuple[dict[Any, Any], dict[str, Any]]:
    """Members and groups after replaying in the order of the log, step by step."""
    members: dict[Any, dict[str, Any]] = {}
    groups: dict[str, dict[str, Any]] = {}
    topics: dict[str, Any] = {}
    for row in table.to_pylist():
        group, kind, key = row["group_id"], row["record_type"], (row["group_id"], row["member_id"])
        if kind == TOPICS:
            topics[group] = [] if row["tombstone"] else row["initialized_topics"]
        if row["tombstone"] and group not in groups:
            continue
        held = groups.setdefault(group, {"group_epoch": None, "assignment_epoch": None})
        if kind == GROUP and row["tombstone"]:
            del groups[group]
        elif kind == GROUP:
            held["group_epoch"] = row["epoch"]
        elif kind == ASSIGNMENT_EPOCH:
            held["assignment_epoch"] = row["assignment_epoch"]
        elif kind == MEMBER and row["tombstone"]:
            members.pop(key, None)
        elif kind != TOPICS and not (row["tombstone"] and key not in members):
            member = members.setdefault(
                key, {"joined": row["timestamp"], "target": None, "told": None}
            )
            member["changed"] = row["timestamp"]
            if kind == TARGET:
                member["target"] = [] if row["tombstone"] else row["topic_partitions"]
            if kind == CURRENT:
                told = (row["member_epoch"], row["assigned_partitions"])
                member["told"] = (-1, []) if row["tombstone"] else told
    for group, held in groups.items():
        held["topics"] = topics.get(group)
        held["members"] = sum(key[0] == group for key in members)
    return members, groups


def ours(table: pa.Table) -> tuple[dict[Any, Any], dict[str, Any]]:
    members = {
        (row["group_id"], row["member_id"]): {
            "joined": row["joined"],
            "changed": row["changed"],
            "target": row["target_partitions"],
            "told": None
            if row["member_epoch"] is None
            else (row["member_epoch"], row["assigned_partitions"]),
        }
        for row in members_arrow(table).to_pylist()
    }
    names = ("group_epoch", "assignment_epoch", "members")
    groups = {
        row["group_id"]: {name: row[name] for name in names} | {"topics": row["initialized_topics"]}
        for row in groups_arrow(table).to_pylist()
    }
    return members, groups


@given(st.integers(0, 10**9))
def test_any_story_ends_as_step_by_step_in_any_order_and_any_pieces(seed: int) -> None:
    random = Random(seed)
    table = log(story(random))
    expected = coordinator(table)
    shuffled = table.take(random.sample(range(table.num_rows), table.num_rows))
    assert ours(shuffled) == expected
    cuts = sorted(random.choices(range(table.num_rows + 1), k=random.randint(0, 4)))
    pieces = [
        drop_superseded_group_records(shuffled.slice(begin, end - begin))
        for begin, end in zip([0, *cuts], [*cuts, table.num_rows], strict=True)
    ]
    found = [Decoded(piece, piece.slice(0, 0), 0) for piece in pieces]
    thin, records, _ = read_group_log(found, schemas.GROUP_RECORDS)
    assert (records, ours(thin)) == (sum(piece.num_rows for piece in pieces), expected)
    assert members_arrow(thin).equals(members_arrow(table))
    assert groups_arrow(thin).equals(groups_arrow(table))
