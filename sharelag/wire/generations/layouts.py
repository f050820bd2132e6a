"""The records of older designs of durable share state, as field tables.

G0 and G1 are control records in the user's topic, G2 are checkpoints and deltas in
``__share_group_state``, G3 is what Kafka 4.0 writes there. G0 to G2 are as the drafts of KIP-932
describe them; no broker writes them. What those leave open, the framing, is as in Kafka's other
records: an int16 version before the value, classic strings and arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

from sharelag.errors import InputError
from sharelag.wire.fields import SHARE_SNAPSHOT, SHARE_UPDATE, Field, RecordKind

#: The number of today's generation.
TODAY = 4
#: What each generation is, for people.
NAMES = {
    0: "control records with back offsets",
    1: "control records",
    2: "checkpoints and deltas",
    3: "snapshots without timestamps (Kafka 4.0)",
    4: "snapshots and updates",
}
#: Types of control records in a user's topic.
SHARE_CHECKPOINT, SHARE_DELTA = 5, 6

SNAPSHOT, _UPDATE = SHARE_SNAPSHOT.type, SHARE_UPDATE.type


def require_generation(generation: object) -> None:
    """Refuse what is neither None nor the number of a generation.

    Raises
    ------
    InputError
        With those that there are.
    """
    if generation is not None and (type(generation) is not int or generation not in NAMES):
        known = ", ".join(map(str, NAMES))
        raise InputError(
            f"unknown generation {generation!r}: choose one of {known}, or leave it out"
        )


@dataclass(frozen=True, slots=True)
class Layout:
    """One record of one generation.

    ``kind.type`` is the first int16 of the key, which here need not tell a snapshot from an update;
    ``record_type`` is what the replay takes the record for.
    """

    generation: int
    record_type: int
    kind: RecordKind
    control: int | None = None  # the type of a control record


def _states(name: str, prefix: str, state: str) -> Field:
    fields = (
        Field(f"{prefix}Offset", "int64", called="first_offset"),
        Field("LastOffset", "int64"),
        Field(state, "int8", called="delivery_state"),
        Field("DeliveryCount", "int16"),
    )
    return Field(name, "[]struct", fields, called="state_batches")


_OLD_STATES = _states("States", "Base", "State")
_BATCHES = _states("StateBatches", "First", "DeliveryState")
_START = Field("StartOffset", "int64", unknown=-1)
_CHECKPOINT_EPOCH = Field("CheckpointEpoch", "uint16", called="snapshot_epoch")
_GROUP = Field("GroupId", "string")
_PARTITION = (_GROUP, Field("TopicId", "uuid"), Field("Partition", "int32"))

#: Of Kafka's control record key, and then the topic's id: only the log directory knows it, and
#: the reader of the record appends it.
_CONTROL_KEY = (Field("ControlType", "int16"), Field("TopicId", "uuid"))


def _control(name: str, *fields: Field) -> RecordKind:
    return RecordKind(0, name, _CONTROL_KEY, (_GROUP, _CHECKPOINT_EPOCH, *fields), flexible=False)


_CHECKPOINT = _control("ShareCheckpoint", _START, Field("EndOffset", "int64"), _OLD_STATES)
_DELTA_0 = _control("ShareDelta", Field("BackOffset", "int64"), _OLD_STATES)
_DELTA_1 = _control("ShareDelta", _OLD_STATES)

_VALUE_2 = (_CHECKPOINT_EPOCH, _START, _OLD_STATES)
_DELTA_KEY = (*_PARTITION, Field("DeltaIndex", "uint8"))


def _delta(key_type: int) -> RecordKind:
    """A delta's key: the draft prints version 0 for both kinds, and says that versions differ."""
    return RecordKind(key_type, "ShareDelta", _DELTA_KEY, _VALUE_2, flexible=False)


def _snapshots(epoch: str) -> RecordKind:
    """Snapshots of Kafka 4.0 have an epoch of two bytes; later tables, of four."""
    fields = (
        Field("SnapshotEpoch", epoch),
        Field("StateEpoch", "int32"),
        Field("LeaderEpoch", "int32"),
        _START,
        _BATCHES,
    )
    return RecordKind(SNAPSHOT, "ShareSnapshot", _PARTITION, fields)


_UPDATE_3 = RecordKind(
    _UPDATE,
    "ShareUpdate",
    _PARTITION,
    (Field("SnapshotEpoch", "uint16"), Field("LeaderEpoch", "int32"), _START, _BATCHES),
)

#: In the order in which they are tried. An update of G3 with an epoch of four bytes is today's
#: without a count.
LAYOUTS = (
    Layout(3, SNAPSHOT, _snapshots("uint16")),
    Layout(3, SNAPSHOT, _snapshots("int32")),
    Layout(3, _UPDATE, _UPDATE_3),
    Layout(
        2, SNAPSHOT, RecordKind(SNAPSHOT, "ShareCheckpoint", _PARTITION, _VALUE_2, flexible=False)
    ),
    Layout(2, _UPDATE, _delta(_UPDATE)),
    Layout(2, _UPDATE, _delta(SNAPSHOT)),
    Layout(1, SNAPSHOT, _CHECKPOINT, SHARE_CHECKPOINT),
    Layout(1, _UPDATE, _DELTA_1, SHARE_DELTA),
    Layout(0, SNAPSHOT, _CHECKPOINT, SHARE_CHECKPOINT),
    Layout(0, _UPDATE, _DELTA_0, SHARE_DELTA),
)


def layout_of(generation: int, record_type: int) -> Layout:
    """Return the layout in which a record of a generation is written.

    Raises
    ------
    ValueError
        When that generation is not an older one, or has no such record.
    """
    for layout in LAYOUTS:
        if (layout.generation, layout.record_type) == (generation, record_type):
            return layout
    raise ValueError(f"generation {generation} has no record of type {record_type}")
