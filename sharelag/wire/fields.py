"""The fields of each record, with their order and encoding.

One table per record type, with Kafka's names and order, from the schema files of Kafka's share and
group coordinators (``ShareSnapshotValue.json`` and others). Decoder, encoder and JSON formatter all
walk these tables, so a new field in Kafka is a new row here.

Keys use Kafka's classic encoding (int16 string lengths, no tags), values the flexible one (compact
lengths, a tag section after every struct and every array element). Tagged fields come last in their
struct.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

STATE_TOPIC = "__share_group_state"
GROUP_TOPIC = "__consumer_offsets"

#: The only value version so far; new fields were added as tags.
VALUE_VERSION = 0

INT_SIZES = {"int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint8": 1, "uint16": 2}


@cache
def _with_underscores(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a record, as Kafka's message schemas describe it."""

    name: str  # in Kafka
    type: str  # int8 ... int64 uint8 uint16 uuid string, or [] before one of these or "struct"
    fields: tuple[Field, ...] = ()  # of the struct
    tag: int | None = None  # not None: a tagged field, of a fixed-size type
    default: int = 0  # value of an absent tagged field
    nullable: bool = False
    unknown: int | None = None  # the number that means "unknown" or "unchanged": null in columns
    since: str = "4.0"  # the first Kafka version that writes it
    called: str = ""  # the column, if an older format has another name for the same value

    @property
    def column(self) -> str:
        """The column name in our tables."""
        return self.called or _with_underscores(self.name)

    @property
    def json_name(self) -> str:
        """The name in the output of Kafka's own formatters."""
        return self.name[0].lower() + self.name[1:]

    @property
    def element(self) -> Field | None:
        """The element of an array of plain values; None for other types."""
        if self.type.startswith("[]") and self.type != "[]struct":
            return Field(self.name, self.type[2:])
        return None


@dataclass(frozen=True, slots=True)
class RecordKind:
    """One kind of record: the first int16 of its key, and its fields."""

    type: int
    name: str
    key: tuple[Field, ...]
    value: tuple[Field, ...]
    flexible: bool = True  # the encoding of the value: compact lengths and tag sections


def _struct(name: str, *fields: Field) -> Field:
    return Field(name, "[]struct", fields)


_SHARE_PARTITION = (
    Field("GroupId", "string"),
    Field("TopicId", "uuid"),
    Field("Partition", "int32"),
)
_STATE_BATCHES = _struct(
    "StateBatches",
    Field("FirstOffset", "int64"),
    Field("LastOffset", "int64"),
    Field("DeliveryState", "int8"),
    Field("DeliveryCount", "int16"),
)
_DELIVERY_COMPLETE_COUNT = Field(
    "DeliveryCompleteCount", "int32", tag=0, default=-1, unknown=-1, since="4.2"
)
_START_OFFSET = Field("StartOffset", "int64", unknown=-1)

SHARE_SNAPSHOT = RecordKind(
    0,
    "ShareSnapshot",
    _SHARE_PARTITION,
    (
        Field("SnapshotEpoch", "int32"),
        Field("StateEpoch", "int32"),
        Field("LeaderEpoch", "int32"),
        _START_OFFSET,
        Field("CreateTimestamp", "int64", unknown=0),
        Field("WriteTimestamp", "int64", unknown=0),
        _STATE_BATCHES,
        _DELIVERY_COMPLETE_COUNT,
    ),
)
SHARE_UPDATE = RecordKind(
    1,
    "ShareUpdate",
    _SHARE_PARTITION,
    (
        Field("SnapshotEpoch", "int32"),
        Field("LeaderEpoch", "int32"),
        _START_OFFSET,
        _STATE_BATCHES,
        _DELIVERY_COMPLETE_COUNT,
    ),
)

_GROUP = (Field("GroupId", "string"),)
_MEMBER = (*_GROUP, Field("MemberId", "string"))
_TOPIC = Field("TopicId", "uuid")
_PARTITIONS = Field("Partitions", "[]int32")
_NAMED_TOPIC = (_TOPIC, Field("TopicName", "string"), _PARTITIONS)

#: The records of ``__share_group_state``.
STATE_KINDS = (SHARE_SNAPSHOT, SHARE_UPDATE)

#: The share group records of ``__consumer_offsets``; its other types belong to other groups.
GROUP_KINDS = (
    RecordKind(
        10,
        "ShareGroupMemberMetadata",
        _MEMBER,
        (
            Field("RackId", "string", nullable=True),
            Field("ClientId", "string"),
            Field("ClientHost", "string"),
            Field("SubscribedTopicNames", "[]string"),
        ),
    ),
    RecordKind(
        11, "ShareGroupMetadata", _GROUP, (Field("Epoch", "int32"), Field("MetadataHash", "int64"))
    ),
    RecordKind(
        12,
        "ShareGroupTargetAssignmentMetadata",
        _GROUP,
        (
            Field("AssignmentEpoch", "int32"),
            Field("AssignmentTimestamp", "int64", tag=0, default=0, unknown=0, since="4.3"),
        ),
    ),
    RecordKind(
        13,
        "ShareGroupTargetAssignmentMember",
        _MEMBER,
        (_struct("TopicPartitions", _TOPIC, _PARTITIONS),),
    ),
    RecordKind(
        14,
        "ShareGroupCurrentMemberAssignment",
        _MEMBER,
        (
            Field("MemberEpoch", "int32"),
            Field("PreviousMemberEpoch", "int32"),
            Field("State", "int8"),
            _struct("AssignedPartitions", _TOPIC, _PARTITIONS),
        ),
    ),
    RecordKind(
        15,
        "ShareGroupStatePartitionMetadata",
        _GROUP,
        (
            _struct("InitializingTopics", *_NAMED_TOPIC),
            _struct("InitializedTopics", *_NAMED_TOPIC),
            _struct("DeletingTopics", _TOPIC, Field("TopicName", "string")),
        ),
    ),
)


def kinds_of(topic: str) -> tuple[RecordKind, ...]:
    """Return the record types of a topic, by name suffix: mirrored topics have a prefix."""
    return GROUP_KINDS if topic.endswith(GROUP_TOPIC) else STATE_KINDS


def smallest_size(fields: tuple[Field, ...], flexible: bool = True) -> int:
    """Return the minimum size in bytes of a struct of these fields."""
    return flexible + sum(smallest(field) for field in fields if field.tag is None)


def smallest(field: Field) -> int:
    """Return the minimum size of a field in bytes."""
    return 16 if field.type == "uuid" else INT_SIZES.get(field.type, 1)


# ---- the numbers of state records, as columns of the compiled pass -------------------------------

#: The array of every state record; its fields are columns with one row per state batch.
BATCHES = "state_batches"


class Number(NamedTuple):
    """A column of integers."""

    column: str
    dtype: str
    absent: int  # value for a record without it
    unknown: int | None  # null in our tables
    kinds: tuple[int, ...]  # types of record that have it


@cache
def record_numbers() -> tuple[Number, ...]:
    """Return the numbers of snapshots and updates, in the order of their first appearance."""
    found: dict[str, tuple[Field, list[int]]] = {}
    for kind in STATE_KINDS:
        for field in kind.value:
            if field.type in INT_SIZES:
                found.setdefault(field.column, (field, []))[1].append(kind.type)
    return tuple(_number(field, tuple(kinds)) for field, kinds in found.values())


@cache
def batch_numbers() -> tuple[Number, ...]:
    """Return the numbers of a state batch."""
    kinds = tuple(kind.type for kind in STATE_KINDS)
    return tuple(_number(field, kinds) for field in _STATE_BATCHES.fields)


def _number(field: Field, kinds: tuple[int, ...]) -> Number:
    absent = field.default if field.unknown is None else field.unknown
    return Number(field.column, field.type, absent, field.unknown, kinds)
