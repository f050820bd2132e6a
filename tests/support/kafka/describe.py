"""Parse offsets, members and groups printed by ``kafka-share-groups.sh --describe --verbose``."""

from __future__ import annotations

from typing import TypedDict

_HEADER = ["GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "START-OFFSET", "LAG"]
_MEMBERS_HEADER = [
    "GROUP",
    "CONSUMER-ID",
    "HOST",
    "CLIENT-ID",
    "#PARTITIONS",
    "MEMBER-EPOCH",
    "ASSIGNMENT",
]
_STATE_HEADER = [
    "GROUP",
    "COORDINATOR",
    "(ID)",
    "STATE",
    "GROUP-EPOCH",
    "ASSIGNMENT-EPOCH",
    "#MEMBERS",
]


class DescribedOffset(TypedDict):
    """One line of the command; ``None`` where it prints ``-``."""

    group: str
    topic: str
    partition: int
    leader_epoch: int | None
    start_offset: int | None
    lag: int | None


def parse_describe(text: str) -> list[DescribedOffset]:
    """Parse the command's output, of one group or of all.

    Groups without offsets (``Share group 'g' has no offset information.``) give no rows. Group ids
    with blanks in them cannot be told apart in this output and are refused.
    """
    rows: list[DescribedOffset] = []
    for line in text.splitlines():
        words = line.split()
        if not words or words == _HEADER or line.endswith("has no offset information."):
            continue
        if len(words) != len(_HEADER):
            raise ValueError(f"not a line of share group offsets: {line!r}")
        group, topic, partition, *numbers = words
        leader_epoch, start_offset, lag = (None if word == "-" else int(word) for word in numbers)
        rows.append(
            DescribedOffset(
                group=group,
                topic=topic,
                partition=int(partition),
                leader_epoch=leader_epoch,
                start_offset=start_offset,
                lag=lag,
            )
        )
    return rows


class DescribedMember(TypedDict):
    """One line of ``--members --verbose``."""

    group: str
    member_id: str
    host: str
    client_id: str
    partitions: int
    member_epoch: int
    assignment: dict[str, list[int]]  # partitions by topic name


class DescribedGroup(TypedDict):
    """One line of ``--state --verbose``."""

    group: str
    state: str
    group_epoch: int
    assignment_epoch: int
    members: int


def parse_members(text: str) -> list[DescribedMember]:
    """Parse ``--describe --members --verbose``; no rows for groups without members, no blanks."""
    rows: list[DescribedMember] = []
    for line in text.splitlines():
        words = line.split()
        if not words or words == _MEMBERS_HEADER or "has no active members" in line:
            continue
        if len(words) not in (len(_MEMBERS_HEADER) - 1, len(_MEMBERS_HEADER)):
            raise ValueError(f"not a line of share group members: {line!r}")
        topics = [part.rpartition(":") for part in words[6].split(";")] if len(words) == 7 else []
        rows.append(
            DescribedMember(
                group=words[0],
                member_id=words[1],
                host=words[2],
                client_id=words[3],
                partitions=int(words[4]),
                member_epoch=int(words[5]),
                assignment={
                    topic: [int(number) for number in numbers.split(",")]
                    for topic, _, numbers in topics
                },
            )
        )
    return rows


def parse_states(text: str) -> list[DescribedGroup]:
    """Parse ``--describe --state --verbose``."""
    rows: list[DescribedGroup] = []
    for line in text.splitlines():
        words = line.split()
        if not words or words == _STATE_HEADER:
            continue
        if len(words) != len(_STATE_HEADER):
            raise ValueError(f"not a line of share group states: {line!r}")
        rows.append(
            DescribedGroup(
                group=words[0],
                state=words[3],
                group_epoch=int(words[4]),
                assignment_epoch=int(words[5]),
                members=int(words[6]),
            )
        )
    return rows
