"""Parse what Kafka's commands print: ``kafka-share-groups.sh --describe --verbose``, and of topics.

Ids with blanks in them cannot be told apart in this output and are refused.
"""

import re
from typing import TypedDict

_OFFSETS = "GROUP TOPIC PARTITION LEADER-EPOCH START-OFFSET LAG"
_MEMBERS = "GROUP CONSUMER-ID HOST CLIENT-ID #PARTITIONS MEMBER-EPOCH ASSIGNMENT"
_STATES = "GROUP COORDINATOR (ID) STATE GROUP-EPOCH ASSIGNMENT-EPOCH #MEMBERS"
#: Of groups that have nothing to show.
_NOTHING = ("has no offset information.", "has no active members")


class DescribedOffset(TypedDict):
    """One line of ``--offsets --verbose``; ``None`` where it prints ``-``."""

    group: str
    topic: str
    partition: int
    leader_epoch: int | None
    start_offset: int | None
    lag: int | None


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


class DescribedPartition(TypedDict):
    """One partition in what ``kafka-topics.sh --describe`` prints."""

    leader_id: int | None
    replicas: list[int]
    in_sync_replicas: list[int]


def parse_describe(text: str) -> list[DescribedOffset]:
    """Parse offsets of one group or of all; groups without any give no rows."""
    return [
        DescribedOffset(
            group=group,
            topic=topic,
            partition=int(partition),
            leader_epoch=_number(epoch),
            start_offset=_number(start),
            lag=_number(lag),
        )
        for group, topic, partition, epoch, start, lag in _lines(text, _OFFSETS)
    ]


def parse_members(text: str) -> list[DescribedMember]:
    """Parse members; an idle one has no assignment."""
    rows: list[DescribedMember] = []
    for group, member, host, client, count, epoch, *assigned in _lines(text, _MEMBERS, may_lack=1):
        topics = [part.rpartition(":") for one in assigned for part in one.split(";")]
        rows.append(
            DescribedMember(
                group=group,
                member_id=member,
                host=host,
                client_id=client,
                partitions=int(count),
                member_epoch=int(epoch),
                assignment={name: [*map(int, numbers.split(","))] for name, _, numbers in topics},
            )
        )
    return rows


def parse_states(text: str) -> list[DescribedGroup]:
    return [
        DescribedGroup(
            group=group,
            state=state,
            group_epoch=int(epoch),
            assignment_epoch=int(assigned),
            members=int(members),
        )
        for group, _, _, state, epoch, assigned, members in _lines(text, _STATES)
    ]


def parse_topics(text: str) -> dict[tuple[str, int], DescribedPartition]:
    """Parse topics, by topic and partition; the replicas in sync are sorted."""
    lines = re.findall(
        r"Topic: (\S+)\s+Partition: (\d+)\s+Leader: (\w+)\s+Replicas: (\S+)\s+Isr: (\S*)", text
    )
    return {
        (topic, int(partition)): DescribedPartition(
            leader_id=None if leader == "none" else int(leader),
            replicas=[*map(int, replicas.split(","))],
            in_sync_replicas=sorted(map(int, in_sync.split(","))),
        )
        for topic, partition, leader, replicas, in_sync in lines
    }


def _lines(text: str, header: str, may_lack: int = 0) -> list[list[str]]:
    """The words of each line but headers."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if not words or words == header.split() or any(one in line for one in _NOTHING):
            continue
        if not 0 <= len(header.split()) - len(words) <= may_lack:
            raise ValueError(f"not a line of {header}: {line!r}")
        found.append(words)
    return found


def _number(word: str) -> int | None:
    return None if word == "-" else int(word)
