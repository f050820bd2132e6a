"""Who is in a group: its members, and which of them are not at their target assignment."""

from __future__ import annotations

import pytest

import sharelag
from tests.support.with_members import GROUP, TARGET_EPOCH, WithMembers, joined
from tests.support.written_input import Write


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
        for kind, row in (
            (GROUP, {"epoch": 5, "metadata_hash": 7}),
            *joined("late", 4, [0], [1]),
        )
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
    assert notes[-1] == "and 2 more members that are not at their target assignment"
