"""Older designs of durable share state: their layouts, detection and decoding.

G0 and G1 are control records in the user's topic, G2 are checkpoints and deltas in
``__share_group_state``, G3 is the format of Kafka 4.0 there. G0 to G2 follow the drafts of KIP-932;
no broker writes them. The framing, which the drafts leave open, is that of Kafka's other records:
an int16 version before the value, classic strings and arrays.

A record has an older generation if one of its layouts reads it to the last byte and today's does
not. Kafka ignores bytes after a record's fields, so today's format alone would misread some of
them. A possible prefix of one of today's records is a reject, unless the records around it show its
generation: `is_supported`.

A draft also had a group type, as a field of ``ConsumerGroupMetadata`` in its version 1, so that
software that knows only version 0 reads a consumer group; Kafka writes share groups as
``ShareGroupMetadata`` instead. The draft leaves the place of the field open: it is assumed to
follow the epoch.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.schemas import Arrow
from sharelag.tables.arrow import flat, of_distinct, one_batch, with_columns
from sharelag.wire.fields import (
    BATCHES,
    GROUP_TOPIC,
    SHARE_SNAPSHOT,
    SHARE_UPDATE,
    STATE_TOPIC,
    Field,
    RecordKind,
    smallest_size,
)
from sharelag.wire.interpreter import Rows, of_topic, records_of, strings, topic_mask
from sharelag.wire.program import program_of

#: The number of the current generation.
TODAY = 4
#: Readable names of generations.
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
    """Refuse anything but None and the number of a generation, and list the valid numbers."""
    if generation is not None and (type(generation) is not int or generation not in NAMES):
        known = ", ".join(map(str, NAMES))
        raise InputError(
            f"unknown generation {generation!r}: choose one of {known}, or leave it out"
        )


@dataclass(frozen=True, slots=True)
class Layout:
    """The format of one kind of record in one generation.

    ``kind.type`` is the first int16 of the key, which may be the same for snapshots and updates;
    ``record_type`` is the type for the replay.
    """

    generation: int
    record_type: int
    kind: RecordKind
    control: int | None = None  # the type of a control record


_OLD_STATES = Field(
    "States",
    "[]struct",
    (
        Field("BaseOffset", "int64", called="first_offset"),
        Field("LastOffset", "int64"),
        Field("State", "int8", called="delivery_state"),
        Field("DeliveryCount", "int16"),
    ),
    called=BATCHES,
)
#: Fields that Kafka 4.0 does not write.
_LATER = ("CreateTimestamp", "WriteTimestamp", "DeliveryCompleteCount")
_START = Field("StartOffset", "int64", unknown=-1)
_CHECKPOINT_EPOCH = Field("CheckpointEpoch", "uint16", called="snapshot_epoch")
_PARTITION = SHARE_SNAPSHOT.key
_GROUP = _PARTITION[0]

#: Kafka's control record key, and then the topic id, which only the log directory contains and the
#: reader of the record appends.
_CONTROL_KEY = (Field("ControlType", "int16"), Field("TopicId", "uuid"))


def _control(name: str, *fields: Field) -> RecordKind:
    return RecordKind(0, name, _CONTROL_KEY, (_GROUP, _CHECKPOINT_EPOCH, *fields), flexible=False)


_CHECKPOINT = _control("ShareCheckpoint", _START, Field("EndOffset", "int64"), _OLD_STATES)
_DELTA_0 = _control("ShareDelta", Field("BackOffset", "int64"), _OLD_STATES)
_DELTA_1 = _control("ShareDelta", _OLD_STATES)

_VALUE_2 = (_CHECKPOINT_EPOCH, _START, _OLD_STATES)
_DELTA_KEY = (*_PARTITION, Field("DeltaIndex", "uint8"))


def _delta(key_type: int) -> RecordKind:
    """Return a delta's kind: the draft prints key version 0 for both, and says they differ."""
    return RecordKind(key_type, "ShareDelta", _DELTA_KEY, _VALUE_2, flexible=False)


def _of_kafka_4_0(kind: RecordKind, epoch: str) -> RecordKind:
    """Return a kind of Kafka 4.0; its snapshots have epochs of two bytes, later tables of four."""
    fields = (Field("SnapshotEpoch", epoch), *(f for f in kind.value[1:] if f.name not in _LATER))
    return RecordKind(kind.type, kind.name, kind.key, fields)


#: In the order of attempts. An update of G3 with an epoch of four bytes is today's without a count.
LAYOUTS = (
    Layout(3, SNAPSHOT, _of_kafka_4_0(SHARE_SNAPSHOT, "uint16")),
    Layout(3, SNAPSHOT, _of_kafka_4_0(SHARE_SNAPSHOT, "int32")),
    Layout(3, _UPDATE, _of_kafka_4_0(SHARE_UPDATE, "uint16")),
    Layout(2, SNAPSHOT, RecordKind(SNAPSHOT, "ShareCheckpoint", _PARTITION, _VALUE_2, False)),
    Layout(2, _UPDATE, _delta(_UPDATE)),
    Layout(2, _UPDATE, _delta(SNAPSHOT)),
    Layout(1, SNAPSHOT, _CHECKPOINT, SHARE_CHECKPOINT),
    Layout(1, _UPDATE, _DELTA_1, SHARE_DELTA),
    Layout(0, SNAPSHOT, _CHECKPOINT, SHARE_CHECKPOINT),
    Layout(0, _UPDATE, _DELTA_0, SHARE_DELTA),
)


def layout_of(generation: int, record_type: int) -> Layout:
    """Return the layout of a record of an older generation, or raise ValueError."""
    for layout in LAYOUTS:
        if (layout.generation, layout.record_type) == (generation, record_type):
            return layout
    raise ValueError(f"generation {generation} has no record of type {record_type}")


# ---- older records among raw ones ----------------------------------------------------------------


#: Fields that today's records do not have.
OLDER_FIELDS = ("end_offset", "back_offset", "delta_index")
#: Size of a control record's key, without and with the appended topic id.
_CONTROL, _WITH_ID = 4, 20
#: Prefixes of the keys of control records with share state.
CONTROL_KEYS = (bytes((0, 0, 0, 5)), bytes((0, 0, 0, 6)))
#: The generation shown by each layout; a checkpoint of control records is the same in two.
_SHOWN = [-1 if layout.control == SHARE_CHECKPOINT else layout.generation for layout in LAYOUTS]


class Older(NamedTuple):
    """Records of older generations."""

    row: NDArray[np.int64]
    """Their rows among the raw records."""
    records: pa.RecordBatch
    """`sharelag.schemas.RECORDS`."""


def control_mask(batch: Arrow, generation: int | None = None) -> NDArray[np.bool_]:
    """Return whether raw records may be control records with share state, in users' topics.

    User serializers may write small integers like Kafka's key. Without an appended topic id such a
    key counts only if a generation is given.
    """
    sizes = control_key_sizes(generation)
    key = flat(batch.column("key")).cast(pa.binary())
    size = pc.is_in(pc.binary_length(key), pa.array(sizes, pa.int32()))
    begin = pc.is_in(pc.binary_slice(key, 0, _CONTROL), pa.array(CONTROL_KEYS, pa.binary()))
    internal = pc.starts_with(flat(batch.column("topic")).cast(pa.string()), "__")
    kafkas = pc.or_(topic_mask(batch, STATE_TOPIC), topic_mask(batch, GROUP_TOPIC))
    kafkas = pc.or_(flat(kafkas), internal.fill_null(True))
    mask = pc.and_(pc.and_(size, begin), pc.invert(kafkas))
    return np.asarray(mask.fill_null(False), bool)


def control_key_sizes(generation: int | None = None) -> list[int]:
    """Return the sizes of keys that count for `control_mask`."""
    return [_WITH_ID] if generation is None else [_CONTROL, _WITH_ID]


def read_older(
    batch: Arrow,
    candidates: NDArray[np.int64],
    today: NDArray[np.int64],
    generation: int | None = None,
) -> Older | None:
    """Decode the raw records that have an older generation; None if there are none.

    ``candidates`` are the rows to try: those that today's format does not read to the last byte,
    and control records. ``today`` are the rows whose values it reads to the last byte.
    """
    if not len(candidates):
        return None
    raw = one_batch(batch.take(pa.array(candidates)))
    control = control_mask(raw, generation)
    raw = _with_topic_ids(raw, control)
    chosen = np.full(raw.num_rows, -1)
    sure = np.full(raw.num_rows, generation is not None)
    for number, layout in enumerate(LAYOUTS):
        if generation in (None, layout.generation):
            wanted = (chosen < 0) & (control == (layout.control is not None))
            good, alone = _find_fitting(layout, raw, wanted)
            chosen[good] = number
            sure[good] |= alone
    if (unsure := (chosen >= 0) & ~sure).any():
        numbers = np.array([*_SHOWN, -1])[chosen]
        chosen[unsure & ~is_supported(batch, candidates, numbers, sure, today)] = -1
    used = np.unique(chosen[chosen >= 0])
    if not len(used):
        return None
    places = [candidates[np.flatnonzero(chosen == number)] for number in used]
    found = [_records(LAYOUTS[number], raw, chosen == number) for number in used]
    return Older(np.concatenate(places), one_batch(pa.Table.from_batches(found)))


def _find_fitting(
    layout: Layout, raw: pa.RecordBatch, wanted: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the rows that a layout reads to the last byte, and which are `unmistakable`."""
    if not wanted.any():
        return np.zeros(0, np.int64), np.zeros(0, bool)
    rows = Rows(program_of((layout.kind,)), raw, wanted=wanted)
    counts = rows.counts()
    fits = (rows.left[rows.good] == 0) & plausible(layout, rows, counts)
    if layout.control is not None:
        kind = rows.slot(rows.program.slots["control_type"], rows.good)
        fits &= (kind == layout.control) & ~rows.value_null[rows.good]
    return rows.good[fits], unmistakable(layout, rows, counts)[fits]


def _records(layout: Layout, raw: pa.RecordBatch, fits: NDArray[np.bool_]) -> pa.RecordBatch:
    rows = Rows(program_of((layout.kind,)), raw, wanted=fits)
    found = records_of(rows, rows.good, schemas.RECORDS)
    columns = {"record_type": layout.record_type, "generation": layout.generation}
    columns["older_fields"] = _older_fields(rows)
    if layout.control is not None:
        columns["partition"] = found.column("record_partition")
    return with_columns(found, columns)


def _older_fields(rows: Rows) -> pa.MapArray:
    """Return the one field, if any, that only this layout has."""
    names = [name for name in OLDER_FIELDS if name in rows.program.slots]
    has = np.full(len(rows.good), bool(names))
    if names == ["delta_index"]:
        values = rows.slot(rows.program.slots["delta_index"], rows.good)
    else:
        has &= ~rows.value_null[rows.good]
        values = np.zeros(len(rows.good), np.int64)
        for name in names:
            values = rows.slot(rows.program.slots[name], rows.good)
    offsets = pa.array(np.append(0, np.cumsum(has)).astype(np.int32))
    keys = pa.repeat(pa.scalar(names[0] if names else ""), int(has.sum()))
    return pa.MapArray.from_arrays(offsets, keys, pa.array(values[has], pa.int64()))


# ---- topic ids -----------------------------------------------------------------------------------


def topic_id_of(topic: str) -> bytes:
    """Return a substitute for a topic's id if only its name is known."""
    return hashlib.sha256(topic.encode()).digest()[:16]


def _with_topic_ids(raw: pa.RecordBatch, control: NDArray[np.bool_]) -> pa.RecordBatch:
    """Append topic ids to the keys of control records that lack them."""
    key = raw.column("key").cast(pa.binary())
    short = pc.and_(pa.array(control), pc.equal(pc.binary_length(key), _CONTROL)).fill_null(False)
    if not short.true_count:
        return raw
    ids = of_distinct(raw.column("topic").cast(pa.string()), topic_id_of, pa.binary())
    longer = pc.binary_join_element_wise(key, ids, b"")
    at = raw.schema.get_field_index("key")
    return raw.set_column(at, "key", pc.if_else(short, longer, key))


# ---- distinguishing older records from today's ---------------------------------------------------


#: Delivery states that are persisted.
_WRITTEN = (0, 2, 4)
_BATCH = ("first_offset", "last_offset", "delivery_state", "delivery_count")
#: Upper bounds of offsets and delivery counts, regardless of a cluster's settings.
_OFFSET_END, _COUNT_END = 2**47, 256
#: Smaller numbers have zeros in the upper half of four bytes.
_HALF = 2**16
#: The smallest numbers with two, three, four and five bytes as varints.
_VARINT = np.array([2**7, 2**14, 2**21, 2**28])


def plausible(layout: Layout, rows: Rows, counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether each good row has only values that are written; ``counts`` count batches."""
    every = slice(0, int(counts.sum()))
    first, last, state, count = (
        rows.slot(rows.program.slots[f"{BATCHES}.{name}"], every) for name in _BATCH
    )
    odd = ~np.isin(state, _WRITTEN) | (count < 0) | (count >= _COUNT_END)
    odd |= (first < 0) | (last < first) | (last >= _OFFSET_END)
    record = np.repeat(np.arange(len(counts)), counts)
    if layout.record_type == SNAPSHOT:  # batches of a window are sorted and disjoint
        odd[1:] |= (record[1:] == record[:-1]) & (first[1:] <= last[:-1])
    fine = np.bincount(record[odd], minlength=len(counts)) == 0
    for name, least, end in (
        ("start_offset", -1, _OFFSET_END),
        ("state_epoch", 0, 2**31),
        ("leader_epoch", -1, 2**31),
    ):
        number = _number(rows, name)
        fine &= rows.value_null[rows.good] | ((number >= least) & (number < end))
    if "back_offset" in rows.program.slots:
        back, own = _number(rows, "back_offset"), flat(rows.batch.column("offset"))
        fine &= (back >= 0) & (back < own.fill_null(_OFFSET_END).to_numpy()[rows.good])
    return np.asarray(fine & (rows.value_null[rows.good] | _are_exact(layout, rows, counts)))


def _are_exact(layout: Layout, rows: Rows, counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether values have no tags, and each count has the minimum number of bytes."""
    if not layout.kind.flexible:
        return np.ones(len(counts), bool)
    (batch,) = (field for field in layout.kind.value if field.fields)
    size = 2 + smallest_size(layout.kind.value) + counts * smallest_size(batch.fields)
    size += np.searchsorted(_VARINT, counts + 1, side="right")
    sizes = pc.binary_length(flat(rows.batch.column("value")).cast(pa.binary())).fill_null(0)
    return np.asarray(size == np.asarray(sizes)[rows.good])


def unmistakable(layout: Layout, rows: Rows, counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether each plausible good row cannot be the prefix of a record in another format."""
    found = rows.value_null[rows.good] | (counts > 0)
    if (layout.generation, layout.control) == (1, SHARE_DELTA):
        return np.asarray(found)
    if layout.control is not None or "delta_index" in rows.program.slots:
        return np.ones(len(counts), bool)  # other formats have other keys
    start = _number(rows, "start_offset")
    found |= start == -1
    if layout.generation == 2:
        leader = start % 2**32  # in a snapshot of Kafka 4.0, after the state epoch
        epochs = (leader < _HALF) | (leader == 2**32 - 1)
        return np.asarray(found | ((start % _HALF != 0) & ~epochs))
    for name in ("state_epoch", "leader_epoch"):
        epoch = _number(rows, name)
        found |= (epoch > 0) & (epoch < _HALF)
    return np.asarray(found)


def _number(rows: Rows, name: str) -> NDArray[np.int64]:
    """Return a field of the good rows; 0 if the format lacks it."""
    slot = rows.program.slots.get(name)
    return np.zeros(len(rows.good), np.int64) if slot is None else rows.slot(slot, rows.good)


def is_supported(
    batch: Arrow,
    candidates: NDArray[np.int64],
    generation: NDArray[np.int64],
    sure: NDArray[np.bool_],
    today: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Return whether the state partition of each candidate has records that show its generation.

    It needs an unmistakable one of this generation, and none of Kafka 4.0 or of today's format
    before it: an upgraded cluster does not go back. Deltas with and without back offsets do not
    occur in one log.

    The generation of a candidate is -1 if it has none, or is a control record that is the same in
    several; ``sure`` are the unmistakable ones, ``today`` the rows of today's records.
    """
    topics = flat(batch.column("topic")).cast(pa.string()).dictionary_encode()
    partition = flat(batch.column("partition")).fill_null(-1).cast(pa.int64()).to_numpy()
    offset = flat(batch.column("offset")).fill_null(-1).to_numpy()
    topic = topics.indices.fill_null(-1).cast(pa.int64()).to_numpy()
    _, place = np.unique(topic * 2**32 + partition, return_inverse=True)
    shown = np.zeros((5, len(place)), bool)
    known = (generation >= 0) & sure
    shown[generation[known], place[candidates[known]]] = True
    here = place[candidates]
    found = shown[generation, here] & ~((generation == 1) & shown[0, here])
    kafkas = candidates[known & (generation == 3)]
    for later, older in ((today, 4), (kafkas, 3)):
        first = np.full(len(place), np.iinfo(np.int64).max)
        np.minimum.at(first, place[later], offset[later])
        found &= (generation >= older) | (offset[candidates] < first[here])
    return np.asarray(found)


CONSUMER, SHARE = "consumer", "share"
#: A record of a group with its type; a tombstone has nulls.
GROUP_TYPES = pa.schema([("group_id", pa.string()), ("version", pa.int16()), ("type", pa.string())])

#: The key of a ``ConsumerGroupMetadata``: its number, and the length of the group's name.
_KEY, _KEY_BYTES = b"\x00\x03", 4
#: The value: version and epoch, then the type as a compact string.
_EPOCH_ENDS = 6
_TYPES = {b"\x00": CONSUMER, b"\x09consumer": CONSUMER, b"\x06share": SHARE}


# Arrow's slices need an end: without one, texts shorter than the start are an error.
_LONGEST, _LONGEST_NAME = max(map(len, _TYPES)), 2**15 - 1


def group_types(batch: Arrow) -> pa.Table:
    """Return the group types in ``ConsumerGroupMetadata`` records, as `GROUP_TYPES`.

    One row is one record, in order. Without a type, as in version 0, a group is a consumer group. A
    type that the draft does not have is null, as are unreadable ones.
    """
    mine = of_topic(batch, GROUP_TOPIC)
    keys = flat(mine.column("key")).cast(pa.binary())
    is_metadata = pc.starts_with(keys, _KEY).fill_null(False)
    keys, values = keys.filter(is_metadata), flat(mine.column("value")).filter(is_metadata)
    values = values.cast(pa.binary())
    whole = pc.and_(
        pc.equal(pc.subtract(pc.binary_length(keys), _KEY_BYTES), _shorts(keys, 2)),
        pc.or_kleene(values.is_null(), pc.greater_equal(pc.binary_length(values), _EPOCH_ENDS)),
    ).fill_null(False)
    keys, values = keys.filter(whole), values.filter(whole)
    version = _shorts(values, 0)
    rest = pc.binary_slice(values, _EPOCH_ENDS, _EPOCH_ENDS + _LONGEST)
    kind = pa.nulls(len(values), pa.string())
    for begin, name in _TYPES.items():
        kind = pc.if_else(pc.starts_with(rest, begin).fill_null(False), name, kind)
    kind = pc.if_else(pc.equal(version, 0), CONSUMER, kind)
    kind = pc.if_else(version.is_valid(), kind, None)
    names = strings(pc.binary_slice(keys, _KEY_BYTES, _KEY_BYTES + _LONGEST_NAME))
    return pa.table([names, version, kind], schema=GROUP_TYPES)


def latest_types(found: list[pa.Table]) -> pa.Table:
    """Return the last record of each group that was not deleted, by the group's name."""
    every = pa.concat_tables([GROUP_TYPES.empty_table(), *found]).combine_chunks()
    keep_nulls = pc.ScalarAggregateOptions(skip_nulls=False)
    last = every.group_by("group_id", use_threads=False).aggregate(
        [(name, "last", keep_nulls) for name in ("version", "type")]
    )
    last = last.rename_columns(GROUP_TYPES.names).filter(last.column("version_last").is_valid())
    return last.sort_by("group_id")


def _shorts(values: pa.Array, at: int) -> pa.Array:
    """Return the big-endian int16 at a position of each value; null beyond its end."""
    pairs = pc.binary_slice(values, at, at + 2)
    there = pc.equal(pc.binary_length(pairs), 2).fill_null(False)
    filled = pc.if_else(there, pairs, b"\x00\x00").cast(pa.binary(2))
    size = 2 * len(filled)
    data = np.frombuffer(filled.buffers()[1] or b"", ">i2", size // 2, 2 * filled.offset)
    return pc.if_else(there, pa.array(data.astype(np.int16)), None)
