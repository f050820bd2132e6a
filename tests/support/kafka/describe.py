"""What Kafka's commands print of share groups and of topics, as rows."""

import re
from typing import Any, TypedDict

from sharelag.inputs.kafka.described import parse_offsets

#: A line of ``--offsets --verbose``: `sharelag.schemas.DESCRIBED` without when it was printed.
DescribedOffset = dict[str, Any]


class DescribedPartition(TypedDict):
    """One partition in what ``kafka-topics.sh --describe`` prints."""

    leader_id: int | None
    replicas: list[int]
    in_sync_replicas: list[int]


def parse_describe(text: str) -> list[DescribedOffset]:
    """Parse offsets of one group or of all; groups without any give no rows."""
    rows: list[DescribedOffset] = parse_offsets(text).drop_columns("as_of").to_pylist()
    return rows


def parse_topics(text: str) -> dict[tuple[str, int], DescribedPartition]:
    """Parse topics, by topic and partition; the replicas in sync are sorted."""
    lines = re.findall(
        r"Topic: (\S+)\s+Partition: (\d+)\s+Leader: (\w+)\s+Replicas: (\S+)\s+Isr: (\S*)", text
    )
    return {
        (topic, int(partition)): DescribedPartition(
            leader_id=None if leader == "none" else int(leader),
            replicas=[*map(int, replicas.split(","))],
            in_sync_replicas=sorted(int(one) for one in in_sync.split(",") if one),
        )
        for topic, partition, leader, replicas, in_sync in lines
    }
