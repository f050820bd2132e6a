"""Who is in a group: its members, and which of them are not at their target assignment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

import sharelag
from sharelag import schemas
from sharelag.wire.encode import encode_record
from sharelag.wire.fields import GROUP_KINDS, GROUP_TOPIC
from tests.support.written_input import NOW, TOPIC_ID, Write, WrittenInput

MEMBER, GROUP, TARGET_EPOCH, TARGET, CURRENT, _ = GROUP_KINDS


@dataclass
class WithMembers(WrittenInput):
    """An input whose groups have the members that the given records say."""

    of_groups: tuple[tuple[Any, dict[str, Any]], ...] = ()

    def batches(self, topic: str) -> Iterator[pa.RecordBatch]:
        if topic != GROUP_TOPIC:
            yield from super().batches(topic)
            return
        place = {"topic": topic, "partition": 0, "timestamp": NOW, "timestampType": 0}
        encoded = (
            encode_record(kind, {"group_id": "billing"} | row) for kind, row in self.of_groups
        )
        rows = [
            {"key": key, "value": value, "offset": n, **place}
            for n, (key, value) in enumerate(encoded)
        ]
        yield pa.RecordBatch.from_pylist(rows, schema=schemas.RAW)


def joined(member: str, epoch: int, target: list[int], assigned: list[int]) -> list[Any]:
    """The records of one member."""
    who = {"member_id": member}
    client = {"rack_id": None, "client_id": "c", "client_host": "/h"}
    return [
        (MEMBER, who | client | {"subscribed_topic_names": ["orders"]}),
        (TARGET, who | {"topic_partitions": [{"topic_id": TOPIC_ID, "partitions": target}]}),
        (
            CURRENT,
            who
            | {"member_epoch": epoch, "previous_member_epoch": epoch - 1, "state": 0}
            | {"assigned_partitions": [{"topic_id": TOPIC_ID, "partitions": assigned}]},
        ),
    ]


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


def test_of_many_members_that_are_behind_the_first_are_named() -> None:
    several = [row for n in range(12) for row in joined(f"m{n:02}", 1, [n], [])]
    group = (GROUP, {"epoch": 1, "metadata_hash": 7})
    source = WithMembers([Write(10, 5)], of_groups=(group, *several))
    notes = sharelag.open(source, engine="local").members().notes
    assert len(notes) == 11
    assert notes[0].startswith("billing: m00 is not at its target assignment: epoch 1, topic")
    assert notes[-1] == "and 2 more members that are not at their target assignment"
