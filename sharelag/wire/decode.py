"""Decode raw Kafka records: whole Arrow batches in, typed columns out.

No record is lost: ``rows in = records + rejects + skipped``. A record that cannot be decoded
becomes a reject with its position, its bytes and the reason; a record of another type (an offset
commit, a consumer group's metadata) is counted as skipped.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.compiled import compile_kernel, is_worth_it
from sharelag.model.versions import Version, require_version
from sharelag.schemas import Arrow
from sharelag.tables.arrow import flat, one_batch
from sharelag.wire.fields import BATCHES, STATE_KINDS, STATE_TOPIC, batch_numbers, record_numbers
from sharelag.wire.generations import TODAY, control_mask, read_older, require_generation
from sharelag.wire.interpreter import (
    PAIRS,
    TOPIC_ID,
    Decoded,
    Rows,
    all_equal,
    binary,
    find_unplaced,
    from_buffers,
    interpret,
    multiples,
    of_topic,
    position,
    records_of,
    rejects_of,
    strings,
    topic_mask,
    unknown_tags,
)
from sharelag.wire.program import program_for

__all__ = ["Decoded", "decode_arrow", "of_state", "of_topic", "topic_mask"]


def decode_arrow(
    batch: Arrow,
    topic: str = STATE_TOPIC,
    generation: int | None = None,
    kafka_version: Version = None,
) -> Decoded:
    """Decode the records of one of the two Kafka topics with share group metadata.

    Parameters
    ----------
    batch : pyarrow.RecordBatch or pyarrow.Table
        Columns of `sharelag.schemas.RAW`; rows of several topics may be mixed.
    topic : str
        ``__share_group_state`` gives `sharelag.schemas.RECORDS`, ``__consumer_offsets`` gives
        `sharelag.schemas.GROUP_RECORDS`. Rows of topics whose names do not end with this name are
        skipped, except control records with share state.
    generation : int, optional
        Decode state records in this generation first, 0 to 4, then in today's (4). By default it is
        detected record by record, and a possible prefix of one of today's records is a reject.
    kafka_version : str or callable, optional
        Version of the brokers that read these records, such as ``4.3.1``, or what finds it out if
        it matters; the newest if there is none.

    Returns
    -------
    Decoded
        The records and rejects keep the order of the input.

    Raises
    ------
    InputError
        A column is missing or has the wrong type, or the generation or version does not exist.

    Notes
    -----
    Accepts and refuses the same records as Kafka's ``ShareCoordinatorRecordSerde`` and
    ``GroupCoordinatorRecordSerde``, and accepts state records of older generations. From 4.4 on a
    record with a negative number of tagged fields, zero in earlier versions, or with more than
    10,000 of them is refused; no broker writes either. Invalid UTF-8 is decoded as in Java, with
    U+FFFD instead of the bad bytes.
    """
    schemas.require(batch, schemas.RAW, "raw records")
    require_generation(generation)
    require_version(kafka_version)
    if topic != STATE_TOPIC:
        return interpret(batch, topic, kafka_version)
    if generation not in (None, TODAY):
        return _with_older(batch, generation, kafka_version)
    if not is_worth_it(batch.nbytes):
        if generation == TODAY:
            return interpret(batch, topic, kafka_version)
        return _with_older(batch, None, kafka_version)
    columns = decode_columns(batch, None, kafka_version)
    if generation is None and (
        columns.has_older or (columns.skipped and control_mask(batch).any())
    ):
        return _with_older(batch, None, kafka_version)
    return Decoded(columns.records(), columns.rejects, columns.skipped)


def of_state(batch: Arrow, generation: int | None = None) -> Arrow:
    """Return the rows with share state: those of the state topic, and users' control records.

    ``generation`` is the one in which they will be decoded, if given.
    """
    column = flat(batch.column("topic"))
    if len(column) and column.null_count == 0 and all_equal(column.cast(pa.string())):
        chosen = of_topic(batch, STATE_TOPIC)
        if chosen.num_rows:
            return chosen
    state = np.asarray(topic_mask(batch, STATE_TOPIC), bool)
    return batch.filter(pa.array(state | control_mask(batch, generation)))


def _with_older(batch: Arrow, generation: int | None, kafka_version: Version) -> Decoded:
    """Decode with the interpreter: older records first, the rest in today's format."""
    state, program = np.array(topic_mask(batch, STATE_TOPIC), bool), program_for(STATE_TOPIC)
    rows = Rows(program, batch, wanted=state, kafka_version=kafka_version)
    tried = rows.strange() if generation is None else np.flatnonzero(state)
    tried = np.union1d(tried, np.flatnonzero(control_mask(batch, generation)))
    older = read_older(batch, tried, rows.whole(), generation)
    # User serializers do not write topic ids there, so undecodable records with one are damaged.
    damaged = control_mask(batch)
    if older is not None or damaged.any():
        # Decode again: excluded rows must not contribute to the arrays of the others.
        state |= damaged
        if older is not None:
            state[older.row] = False
        rows = Rows(program, batch, wanted=state, kafka_version=kafka_version)
    records = records_of(rows, rows.good, schemas.RECORDS)
    skipped = batch.num_rows - len(rows.good) - len(rows.bad)
    if older is None:
        return Decoded(records, rejects_of(rows), skipped)
    order = np.argsort(np.concatenate([rows.good, older.row]), kind="stable")
    found = one_batch(pa.Table.from_batches([records, older.records]).take(pa.array(order)))
    return Decoded(found, rejects_of(rows), skipped - len(older.row))


# ---- the state topic as columns ------------------------------------------------------------------
# One compiled pass, with keys as numbers. The columns are buffers of `sharelag.schemas.RECORDS`,
# with Kafka's sentinels instead of nulls. `StateColumns.records` converts them to texts and nulls.


#: Bytes of the length of a group's name, and of the topic id and the partition after the name.
_SIZE, _TAIL = 2, 20
#: Initial capacity in keys.
_SMALL = 1 << 11
#: Number of bytes that kernels may write beyond the last text.
_SLACK = 16
_SHARE_PARTITION = pa.schema(
    [schemas.RECORDS.field(name) for name in ("group_id", "topic_id", "partition")]
)


class ShareKeys:
    """The distinct share partitions of some records, numbered in order of appearance.

    A share partition has the same code, a row of `table`, in all batches that one object numbers.
    """

    def __init__(self) -> None:
        from sharelag.wire.key_codes import ID, SEEDS, SLOTS, WORDS

        #: Secret initial values of hashes.
        self.seeds = np.frombuffer(os.urandom(8 * SEEDS), np.uint64)
        self._slots = np.full(SLOTS * _SMALL, -1, np.int32)
        self._arena = np.empty(2 * _SMALL * _TAIL, np.uint8)
        self._ends = np.zeros(_SMALL + 1, np.int64)
        self._words = np.empty(WORDS * _SMALL, np.uint64)
        self._ids = np.empty((_SMALL, ID // 2), np.uint16)
        self._count = self._named = 0
        self._first: NDArray[np.int32] | None = None  # None: names are unique

    def __len__(self) -> int:
        """Return the number of codes."""
        return self._count

    def codes(self, raw: Arrow) -> tuple[NDArray[np.int32], NDArray[np.int16], NDArray[np.int32]]:
        """Number the keys of raw state records; return code, record type and partition.

        The code is -1 if the key is not that of a state record, or the record has no place in the
        topic.
        """
        from sharelag.wire.key_codes import AHEAD, key_codes

        keys, key_at, key_null = binary(raw.column("key"))
        size, is_out = len(key_null), key_null | find_unplaced(raw)
        code, record_type = np.empty(size, np.int32), np.empty(size, np.int16)
        partition = np.empty(size, np.int32)
        row = 0
        while True:
            row, self._count = compile_kernel(key_codes)(
                keys, key_at, is_out, row, len(STATE_KINDS), self.seeds, self._slots,
                self._words, self._arena, self._ends, self._count, code, record_type, partition,
            )  # fmt: skip
            if row == size:
                break
            self._grow(int(np.diff(key_at[row : row + AHEAD + 1]).max()))
        self._name_new()
        if self._first is not None:
            code = np.where(code < 0, code, self._first[code])
        return code, record_type, partition

    def table(self) -> pa.RecordBatch:
        """Return the share partitions in the order of their codes: ``group_id topic_id partition``.

        Invalid UTF-8 becomes U+FFFD, as in Java; of keys that only differ in this respect, only the
        code of the first is used.
        """
        return pa.RecordBatch.from_arrays(
            [*self.names(np.arange(self._count, dtype=np.int32)), self._partitions()],
            schema=_SHARE_PARTITION,
        )

    def names(self, code: NDArray[np.int32]) -> tuple[pa.Array, pa.Array]:
        """Return ``group_id`` and ``topic_id`` of the share partitions with these codes."""
        if self._first is None:
            return self._names(code, pa.string())
        groups, topics = self._names(code, pa.binary())
        return strings(groups), topics

    def _names(self, code: NDArray[np.int32], kind: pa.DataType) -> tuple[pa.Array, pa.Array]:
        from sharelag.wire.key_codes import write_texts

        count = len(code)
        sizes = self._ends[code + 1] - self._ends[code] - (_SIZE + _TAIL)
        group_at = np.append(0, np.cumsum(sizes)).astype(np.int32)
        groups = np.empty(int(group_at[-1]) + _SLACK, np.uint8)
        topics = np.empty(TOPIC_ID * count + _SLACK, np.uint8)
        compile_kernel(write_texts)(
            code, self._arena, self._ends, self._ids.view(np.uint8).reshape(-1), group_at, groups,
            topics,
        )  # fmt: skip
        topic_at = multiples(TOPIC_ID, count + 1)
        of_groups = from_buffers(kind, group_at, groups)
        return of_groups, from_buffers(pa.string(), topic_at, topics)

    def _partitions(self) -> pa.Array:
        last_four = self._ends[1 : self._count + 1, None] + np.arange(-4, 0)
        return pa.array(self._arena[last_four].view(">i4").reshape(-1).astype(np.int32))

    def _grow(self, needed: int) -> None:
        """Make room for a key of this many bytes, and for another key."""
        from sharelag.wire.key_codes import SLOTS, WORDS, fill_slots

        if self._ends[self._count] + needed > len(self._arena):
            self._arena = np.resize(self._arena, 2 * len(self._arena) + needed)
        if self._count == len(self._slots) // SLOTS:
            self._slots = np.full(4 * len(self._slots), -1, np.int32)
            capacity = len(self._slots) // SLOTS
            self._ends = np.resize(self._ends, capacity + 1)
            self._words = np.resize(self._words, WORDS * capacity)
            self._ids = np.resize(self._ids, (capacity, self._ids.shape[1]))
            compile_kernel(fill_slots)(
                self.seeds, self._slots, self._arena, self._ends, self._count
            )

    def _name_new(self) -> None:
        """Write the topic ids of new codes, and find those whose names are not unique."""
        from sharelag.wire.key_codes import write_ids

        if self._named == self._count:
            return
        are_ascii = compile_kernel(write_ids)(
            self._arena, self._ends[: self._count + 1], self._named, PAIRS, self._ids
        )
        new = np.arange(self._named, self._count, dtype=np.int32)
        self._named = self._count
        are_replaced = self._first is not None
        if not are_replaced and not are_ascii:
            groups, _ = self._names(new, pa.binary())
            are_replaced = not strings(groups).cast(pa.binary()).equals(groups)
        if are_replaced:
            # `names` replaces invalid UTF-8 once this is set.
            self._first = np.zeros(0, np.int32)
            first: dict[tuple[Any, ...], int] = {}
            rows = zip(*(column.to_pylist() for column in self.table().columns), strict=True)
            found = [first.setdefault(row, number) for number, row in enumerate(rows)]
            self._first = np.array(found, np.int32)


#: Size of a key of the state topic without the group's name.
_SMALLEST_KEY = 24
#: The minimum size of a state batch in bytes: its fields and an empty tag section.
_BATCH_BYTES = 1 + sum(np.dtype(number.dtype).itemsize for number in batch_numbers())

#: A bitmap, None if all are valid; and the number of nulls.
_Validity: TypeAlias = tuple[pa.Buffer | None, int]


@dataclass(slots=True)
class StateColumns:
    """Decoded records of the state topic, in the order of the input, as numpy columns.

    The arrays are contiguous. Do not write to them: `records` shares them with Arrow.
    """

    keys: ShareKeys
    """The share partitions behind the codes of ``key``; shared with other batches if given."""
    position: dict[str, pa.Array]
    """``topic record_partition offset timestamp`` of every record, from the raw records."""
    key: NDArray[np.int32]
    """The code of each record's share partition, a row of ``keys.table()``."""
    partition: NDArray[np.int32]
    """Partition number of the share partition."""
    record_type: NDArray[np.int16]
    """0 snapshot, 1 update."""
    tombstone: NDArray[np.bool_]
    """Whether the value is null: the share partition's state was deleted."""
    numbers: dict[str, NDArray[Any]]
    """Columns of `sharelag.schemas.RECORDS` by name, in their integer types, timestamps as int64.
    -1 and 0 are Kafka's sentinels, as the replay reads them, also for fields that a record lacks.
    """
    batch_at: NDArray[np.int32]
    """The start of each record's state batches; one element more than there are records."""
    batches: dict[str, NDArray[Any]]
    """``first_offset last_offset delivery_state delivery_count``, one row per state batch."""
    unknown_tags: pa.Array | None
    """The column of `sharelag.schemas.RECORDS`; None if no record has any."""
    rejects: pa.RecordBatch
    """`sharelag.schemas.REJECTS`."""
    skipped: int
    """Number of rows of other topics and of other types."""
    has_older: bool = False
    """True if today's format cannot decode some records that an older one may."""

    def records(self) -> pa.RecordBatch:
        """Return `sharelag.schemas.RECORDS`, over the same memory."""
        group_id, topic_id = self.keys.names(self.key)
        columns = {
            **self.position,
            "record_type": pa.array(self.record_type),
            "tombstone": pa.array(self.tombstone),
            "group_id": group_id,
            "topic_id": topic_id,
            "partition": pa.array(self.partition),
            **self._numbers(),
            BATCHES: self._batches(),
            "generation": pa.nulls(len(self.key), pa.int8()),
            "older_fields": pa.nulls(len(self.key), schemas.RECORDS.field("older_fields").type),
            "unknown_tags": self.unknown_tags,
        }
        if self.unknown_tags is None:
            none = pa.py_buffer(multiples(0, len(self.key) + 1))
            columns["unknown_tags"] = pa.Array.from_buffers(
                pa.list_(schemas.UNKNOWN_TAG), len(self.key), [None, none], 0, children=[_no_tag()]
            )
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in schemas.RECORDS.names], schema=schemas.RECORDS
        )

    def _numbers(self) -> dict[str, pa.Array]:
        present = self._present()
        types = {number.kinds for number in record_numbers()}
        having = {kinds: _mask_kinds(self.record_type, kinds, present) for kinds in types}
        found = {}
        for name, _, _, unknown, kinds in record_numbers():
            values = self.numbers[name]
            valid = having[kinds] if unknown is None else _validity(values != unknown)
            found[name] = _array(values, schemas.RECORDS.field(name).type, valid)
        return found

    def _present(self) -> NDArray[np.bool_] | None:
        """Return a mask of the records with a value; None: all."""
        return ~self.tombstone if self.tombstone.any() else None

    def _batches(self) -> pa.Array:
        count = int(self.batch_at[-1])
        kind = schemas.RECORDS.field(BATCHES).type
        structs = pa.StructArray.from_arrays(
            [_array(self.batches[f.name][:count], f.type) for f in kind.value_type],
            fields=list(kind.value_type),
        )
        validity, nulls = _validity(self._present())
        return pa.Array.from_buffers(
            kind,
            len(self.key),
            [validity, pa.py_buffer(self.batch_at)],
            null_count=nulls,
            children=[structs],
        )


def decode_columns(
    batch: Arrow, keys: ShareKeys | None = None, kafka_version: Version = None
) -> StateColumns:
    """Decode the state records among raw records.

    Parameters
    ----------
    batch : pyarrow.RecordBatch or pyarrow.Table
        Columns of `sharelag.schemas.RAW`; rows of other topics are skipped.
    keys : ShareKeys, optional
        Numbers of the share partitions; an object shared by batches keeps numbers consistent.
    kafka_version : str or callable, optional
        As for `sharelag.wire.decode_arrow`.

    Returns
    -------
    StateColumns
        Records, rejects and skipped are those of `sharelag.wire.decode_arrow`.
    """
    from sharelag.wire.state_pass import state_pass

    keys = ShareKeys() if keys is None else keys
    chosen = of_topic(batch, STATE_TOPIC)
    code, record_type, partition = keys.codes(chosen)
    values, value_at, value_null = binary(chosen.column("value"))
    most = int(value_at[-1] - value_at[0]) // _BATCH_BYTES + 1
    found = StateColumns(
        keys=keys,
        position={},
        key=code,
        partition=partition,
        record_type=record_type,
        tombstone=value_null,
        numbers={n.column: np.empty(len(code), n.dtype) for n in record_numbers()},
        batch_at=np.empty(len(code) + 1, np.int32),
        batches={n.column: np.empty(most, n.dtype) for n in batch_numbers()},
        unknown_tags=None,
        rejects=_no_rejects(),
        skipped=batch.num_rows - chosen.num_rows,
    )
    odd = np.empty(len(code), np.uint8)
    odds = compile_kernel(state_pass)(
        values, value_at, value_null, record_type, code, odd, found.batch_at,
        tuple(found.numbers.values()), tuple(found.batches.values()),
    )  # fmt: skip
    longer = _find_long_tombstones(chosen, value_null)
    if not odds and not len(longer):
        found.position = position(chosen)
        return found
    odd[longer] = 1
    _interpret_odd(found, chosen, np.flatnonzero(odd), kafka_version)
    return found


def _find_long_tombstones(chosen: Arrow, value_null: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return records without a value whose keys are longer than those of a share partition."""
    gone = np.flatnonzero(value_null)
    if not len(gone):
        return gone
    keys, key_at, _ = binary(chosen.column("key"))
    size = key_at[gone + 1] - key_at[gone]
    gone, size = gone[size >= _SMALLEST_KEY], size[size >= _SMALLEST_KEY]
    at = key_at[gone]
    name = keys[at + 2].astype(np.int64) << 8 | keys[at + 3]
    return gone[size > _SMALLEST_KEY + name]


# ---- rows that the compiled pass leaves to the interpreter ---------------------------------------


def _interpret_odd(
    found: StateColumns, batch: Arrow, odd: NDArray[np.int64], kafka_version: Version
) -> None:
    """Insert the interpreter's results for some rows, and remove its rejects."""
    taken = batch.take(pa.array(odd))
    rows = Rows(program_for(STATE_TOPIC), taken, kafka_version=kafka_version)
    found.rejects = rejects_of(rows)
    found.has_older = read_older(taken, rows.strange(), np.zeros(0, np.int64)) is not None
    found.skipped += len(odd) - len(rows.good) - len(rows.bad)
    good = odd[rows.good]
    kept = np.ones(len(found.key), bool)
    kept[odd] = False
    kept[good] = True
    values = ~rows.value_null[rows.good]
    for number in record_numbers():
        has = values & np.isin(rows.kind[rows.good], number.kinds)
        column = rows.slot(rows.program.slots[number.column], rows.good)
        found.numbers[number.column][good] = np.where(has, column, number.absent)
    _insert_batches(found, rows, good)
    tags = np.zeros(len(kept), np.int64)
    tags[odd] = rows.tag_counts
    found.unknown_tags = unknown_tags(rows, tags[kept])
    found.key, found.partition = found.key[kept], found.partition[kept]
    found.record_type, found.tombstone = found.record_type[kept], found.tombstone[kept]
    found.numbers = {name: column[kept] for name, column in found.numbers.items()}
    found.batch_at = np.append(found.batch_at[:-1][kept], found.batch_at[-1])
    found.position = position(batch, np.flatnonzero(kept))


def _insert_batches(found: StateColumns, rows: Rows, good: NDArray[np.int64]) -> None:
    """Insert the state batches of interpreted rows, which have none so far."""
    slots = rows.program.slots
    counts = rows.counts()
    places = np.repeat(found.batch_at[good], counts)
    more = slice(0, int(counts.sum()))
    for number in batch_numbers():
        column = rows.slot(slots[f"{BATCHES}.{number.column}"], more)
        before = found.batches[number.column][: found.batch_at[-1]]
        found.batches[number.column] = np.insert(before, places, column.astype(number.dtype))
    added = np.zeros(len(found.batch_at), np.int64)
    added[good + 1] = counts
    found.batch_at = (found.batch_at + np.cumsum(added)).astype(np.int32)


# ---- Arrow over the same memory ------------------------------------------------------------------


def _array(values: NDArray[Any], kind: pa.DataType, valid: _Validity = (None, 0)) -> pa.Array:
    buffers = [valid[0], pa.py_buffer(values)]
    return pa.Array.from_buffers(kind, len(values), buffers, null_count=valid[1])


def _validity(valid: NDArray[np.bool_] | None) -> _Validity:
    nulls = 0 if valid is None else len(valid) - int(np.count_nonzero(valid))
    if valid is None or not nulls:
        return None, 0
    return pa.py_buffer(np.packbits(valid, bitorder="little")), nulls


def _mask_kinds(
    record_type: NDArray[np.int16], kinds: tuple[int, ...], present: NDArray[np.bool_] | None
) -> _Validity:
    if len(kinds) == len(program_for(STATE_TOPIC).kinds):
        return _validity(present)
    having = np.logical_or.reduce([record_type == kind for kind in kinds])
    return _validity(having if present is None else having & present)


@cache
def _no_rejects() -> pa.RecordBatch:
    # Not at import: pyarrow imports pandas for its first array, which commands hide from it.
    return pa.RecordBatch.from_pylist([], schema=schemas.REJECTS)


@cache
def _no_tag() -> pa.Array:
    return pa.array([], schemas.UNKNOWN_TAG)
