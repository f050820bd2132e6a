"""What ``kafka-share-groups.sh --describe --offsets --verbose`` prints, as rows."""

from __future__ import annotations

from typing import TypedDict

_HEADER = ["GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "START-OFFSET", "LAG"]


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

    Groups without offsets (``Share group 'g' has no offset information.``) give no rows. Group ids with
    blanks in them cannot be told apart in this output and are refused.
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
