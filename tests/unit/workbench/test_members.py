"""Who is in a group: its members, and which of them are not at their target assignment."""

from typing import Any

import pytest

import sharelag
from sharelag.errors import InputError
from sharelag.model import GroupState
from sharelag.workbench import Workbench
from tests.support.cases import Cases
from tests.support.chapters import CAPTURE
from tests.support.command import ask, refused
from tests.support.command import sharelag as command
from tests.support.with_members import GROUP, TARGET_EPOCH, TOPICS, WithMembers, joined
from tests.support.written_input import TOPIC_ID, Write


@pytest.mark.row("GRP-05")
def test_a_member_that_is_behind_its_target_is_named() -> None:
    source = WithMembers(
        [Write(10, 5)],
        of_groups=(
            (GROUP, {"epoch": 5, "metadata_hash": 7}),
            (TARGET_EPOCH, {"assignment_epoch": 5, "assignment_timestamp": 0}),
            *joined("late", 4, [0, 1], [1, 2, 3]),
            *joined("there", 5, [2, 3], [2, 3]),
        ),
    )
    result = sharelag.open(source, engine="local").members()
    assert result.table.column("member_id").to_pylist() == ["late", "there"]
    (note,) = result.notes
    assert note == (
        "billing: late is not at its target assignment: epoch 4 of 5, topic partitions to come: 1, "
        "to give up: 2"
    )


def test_notes_tell_groups_apart_whose_names_look_the_same() -> None:
    names = ["a\nb", "a\\nb"]
    each = [
        (kind, row | {"group_id": name})
        for name in names
        for kind, row in ((GROUP, {"epoch": 5, "metadata_hash": 7}), *joined("late", 4, [0], [1]))
    ]
    writes = [Write(10, 5, group=name) for name in names]
    bench = sharelag.open(WithMembers(writes, of_groups=tuple(each)), engine="local")
    for notes in (bench.imbalance().notes, bench.members().notes):
        assert {note.split(":")[0] for note in notes} == {r"a\nb", r"a\\nb"}


def test_of_many_members_that_are_behind_the_first_are_named() -> None:
    several = [row for n in range(12) for row in joined(f"m{n:02}", 1, [n], [])]
    group = (GROUP, {"epoch": 1, "metadata_hash": 7})
    source = WithMembers([Write(10, 5)], of_groups=(group, *several))
    notes = sharelag.open(source, engine="local").members().notes
    assert len(notes) == 11
    assert notes[0].startswith("billing: m00 is not at its target assignment: epoch 1, topic")
    assert notes[-1] == "not at their target assignment either: 2 members"
    groups = WithMembers([Write(10, 5, group=f"g{n:02}") for n in range(12)])
    notes = sharelag.open(groups, engine="local").imbalance().notes
    assert len(notes) == 11
    assert (
        notes[-1]
        == "where the lag of 2 more groups is concentrated: see bench.skew() or imbalance --verdict"
    )


# ---- groups in one row each: state, epochs, members and lag; and members with their assignments --
IDLE = str(CAPTURE.parent / "scenarios" / "idle_members")


def bench(*of_groups: tuple[Any, dict[str, Any]], groups: tuple[str, ...] = ()) -> Workbench:
    """A workbench of a group that lags, with these group records."""
    writes = [Write(10, 5, group=group) for group in (groups or ("billing",))]
    return sharelag.open(WithMembers(writes, of_groups=of_groups), engine="local")


def states(of: Workbench, *chosen: str) -> dict[str, Any]:
    table = of.group_states(states=chosen).table
    names = ("group_id", "state")
    return dict(zip(*(table.column(name).to_pylist() for name in names), strict=True))


def of_group(name: str, kind: Any, **row: Any) -> tuple[Any, dict[str, Any]]:
    return kind, {"group_id": name} | row


ALIVE = (GROUP, {"epoch": 5, "metadata_hash": 7})


def test_a_row_has_what_the_records_and_the_state_topic_say() -> None:
    behind = (TARGET_EPOCH, {"assignment_epoch": 4, "assignment_timestamp": 0})
    described = bench(ALIVE, behind, *joined("m", 5, [0], [0])).group_states()
    (row,) = described.table.to_pylist()
    assert row["lag"] == 7195
    wanted = {
        "group_id": "billing", "type": "Share", "state": "Stable", "group_epoch": 5,
        "assignment_epoch": 4, "members": 1, "topics": 1, "partitions": 1, "unknown_lags": 0,
        "coordinator": None, "emptied": None,
    }  # fmt: skip
    assert {name: row[name] for name in wanted} == wanted


def test_a_group_whose_records_are_gone_is_dead_and_one_that_was_not_read_is_unknown() -> None:
    both = bench(ALIVE, groups=("billing", "deleted"))
    assert states(both) == {"billing": "Empty", "deleted": "Dead"}
    assert both.group_states(states="Empty").table.equals(both.group_states(states=["Empty"]).table)
    # The groups are chosen, so that no record is left of those that there are.
    assert states(both.only("deleted")) == {"deleted": "Dead"}
    unread = bench(groups=("billing",))
    assert states(unread) == {"billing": None}
    (said, *_) = unread.group_states().unknown
    assert said.startswith("state, epochs and members of the groups: no records of")
    row = unread.group_states().table.to_pylist()[0]
    assert (row["members"], row["group_epoch"], row["partitions"]) == (None, None, 1)


def test_a_group_is_not_dead_where_its_records_may_be_elsewhere() -> None:
    """Some files, such as one broker's, may lack the records of any group."""

    class InParts(WithMembers):
        may_lack = ("groups",)

    writes = [Write(10, 5, group=group) for group in ("billing", "deleted", "elsewhere")]
    deleted = GROUP, {"group_id": "deleted", "tombstone": True}
    found = sharelag.open(InParts(writes, of_groups=(ALIVE, deleted)), engine="local")
    assert states(found) == {"billing": "Empty", "deleted": "Dead", "elsewhere": None}
    said = "the state of 1 group without group records: deleted, or of records that are not here"
    assert said in found.group_states().unknown
    assert said in found.members().unknown


def test_a_group_without_share_partitions_is_there_and_its_lag_is_not_known() -> None:
    waiting = bench(ALIVE, of_group("waiting", GROUP, epoch=1, metadata_hash=0))
    row = waiting.group_states("waiting").table.to_pylist()[0]
    assert (row["state"], row["partitions"], row["lag"]) == ("Empty", 0, None)
    assert len(waiting.members("waiting")) == 0
    with pytest.raises(InputError, match="no state of share group 'nobody'"):
        waiting.group_states("nobody")


@pytest.mark.row("ADM-08")
def test_groups_are_filtered_by_state() -> None:
    idle = of_group("idle", GROUP, epoch=1, metadata_hash=0)
    mixed = bench(ALIVE, *joined("m", 5, [0], [0]), idle, groups=("billing", "gone"))
    assert states(mixed) == {"billing": "Stable", "gone": "Dead", "idle": "Empty"}
    assert states(mixed, "EMPTY") == {"idle": "Empty"}
    assert set(states(mixed, "stable,Dead")) == {"billing", "gone"}
    with pytest.raises(InputError, match=r"unknown state 'Foo'.*choose one of Empty, Stable, Dead"):
        mixed.group_states(states=["Foo"])


@pytest.mark.row("ADM-10")
def test_names_of_states_are_read_in_any_case() -> None:
    states = {"dead": "Dead", "EMPTY": "Empty", "sTable": "Stable", "Foo": "Unknown", "": "Unknown"}
    assert {name: GroupState.parse(name) for name in states} == states


@pytest.mark.parametrize("name", ["orders", "<UNKNOWN>"])  # what a coordinator knew
def test_an_assignment_reads_as_kafkas_command_prints_it(name: str) -> None:
    topic = {"topic_id": TOPIC_ID, "topic_name": name, "partitions": [0, 1, 2]}
    empty: dict[str, Any] = {"initializing_topics": [], "deleting_topics": []}
    topics = TOPICS, {"initialized_topics": [topic], **empty}
    of = bench(ALIVE, topics, *joined("busy", 5, [], [10, 2, 1]), *joined("idle", 5, [], []))
    rows = of.members().table.to_pylist()
    found = [(row["member_id"], row["assigned"], row["assignment"]) for row in rows]
    assert found == [("busy", 3, "orders:1,2,10"), ("idle", 0, "")]


@pytest.mark.parametrize(("name", "question"), [("groups", "group_states"), ("members", "members")])
def test_the_command_has_the_columns_of_python(name: str, question: str) -> None:
    shown = command(name, "--capture", IDLE).stdout.splitlines()
    assert shown[0].split() == list(sharelag.open(IDLE, engine="local").ask(question).columns)
    assert command(name, "--capture", IDLE, "--group", "nope").returncode == 1


def test_the_command_filters_by_state() -> None:
    assert command("groups", "--capture", "chapters", "--state", "stable").stdout == ""
    assert len(ask("groups --capture chapters --state EMPTY")) == 7
    assert "unknown state 'Foo'" in refused("groups", "--capture", "chapters", "--state", "Foo")


def test_topics_select_groups_and_members(cases: Cases) -> None:
    def printed(name: str, *topic: str) -> list[dict[str, Any]]:
        given = [argument for one in topic for argument in ("--topic", one)]
        return ask(name, "--capture", "demo", "--engine", "local", *given)

    def has(row: dict[str, Any], topic: str, *numbers: str) -> bool:
        parts = dict(part.split(":") for part in row["assignment"].split(";") if part)
        return not {*numbers}.isdisjoint(parts.get(topic, "").split(","))

    every, lag = printed("members"), printed("lag")
    topics = sorted({row["topic"] for row in lag})
    for topic in topics[: cases(2, len(topics))]:
        groups = {row["group_id"] for row in lag if row["topic"] == topic}
        found = printed("groups", topic)
        assert {row["group_id"] for row in found} == groups
        assert all(row["topics"] == 1 for row in found)
        assert printed("members", f"{topic}:1") == [row for row in every if has(row, topic, "1")]
        mine = printed("members", topic)
        assert mine == [row for row in every if topic in row["subscribed_topic_names"]]
        opened = sharelag.open("demo", engine="local", topics=topic)
        assert opened.members().table.num_rows == len(mine)
        assert opened.group_states().table.num_rows == len(found)
    for name in ("groups", "members"):
        said = refused(name, "--capture", "demo", "--engine", "local", "--topic", "nope")
        assert "of nope was found: check the names of topics" in said
