"""What tools take: types with bounds, which an agent reads with their descriptions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sharelag.whatif.horizon import WORDS

#: Kafka's default of ``group.share.max.size``; larger groups are simulated by the command line.
MOST_MEMBERS = 200
_MOST_TOPICS = 100

Group = Annotated[str, Field(max_length=1000, description="Id of a share group.")]
AnyGroup = Annotated[
    str | None, Field(max_length=1000, description="Id of a share group; without it, all groups.")
]
Topic = Annotated[str, Field(max_length=249, description="Name of a topic.")]
Partition = Annotated[int, Field(ge=0, lt=1 << 31, description="Partition of the topic.")]
Moment = Annotated[
    str | None,
    Field(
        max_length=100,
        description="A past moment with its time zone, such as 2026-11-21T03:10:00Z; now without.",
    ),
]
Members = Annotated[int, Field(ge=1, le=MOST_MEMBERS, description="Number of members.")]
Assignor = Annotated[
    str, Field(max_length=100, description="An assignor, such as simple or lag-aware-sticky.")
]
Seconds = Annotated[int, Field(ge=1, le=3600, description=f"Simulated seconds; without, {WORDS}.")]
Seeds = Annotated[int, Field(ge=2, le=30, description="Number of simulated runs of each variant.")]
Lock_ = Annotated[int, Field(ge=1, le=3600, description="Lock duration of records in seconds.")]
Topics = Annotated[
    list[Annotated[str, Field(max_length=1000)]],
    Field(
        max_length=_MOST_TOPICS,
        description="Only these topics, or with orders:0,2 only these partitions; without, all.",
    ),
]
TopicNames = Annotated[
    list[Topic],
    Field(max_length=_MOST_TOPICS, description="Only the offsets of these topics; without, all."),
]
LogEnd = Annotated[
    Literal["earliest", "latest"] | None,
    Field(description="To the start or to the end of each log."),
]
Offset = Annotated[int | None, Field(ge=0, lt=1 << 63, description="To this offset, in each log.")]
Written = Annotated[
    str | None,
    Field(
        max_length=100,
        description="To the first record of this time or later, such as 2026-11-21T03:10:00Z.",
    ),
]
Ago = Annotated[
    str | None,
    Field(
        max_length=100,
        description="To the first record written within this time before now, such as 30m.",
    ),
]
Shift = Annotated[
    int | None,
    Field(
        gt=-(1 << 63),
        lt=1 << 63,
        description="By this many offsets from the first unfinished one; backwards if negative.",
    ),
]
KafkaVersion = Annotated[
    str | None,
    Field(
        max_length=100,
        description="Version of Kafka's command, such as 4.3.1; without, that of the input.",
    ),
]
Given = Annotated[
    dict[Annotated[str, Field(max_length=249)], Annotated[str, Field(max_length=1000)]],
    Field(max_length=_MOST_TOPICS, description="Values to check as if they were set, by name."),
]
