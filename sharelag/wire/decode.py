"""Decode raw Kafka records: whole Arrow batches in, typed columns out.

No record is lost: ``rows in = records + rejects + skipped``. A record that cannot be decoded
becomes a reject with its position, its bytes and the reason; a record of another type (an offset
commit, a consumer group's metadata) is counted as skipped.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sharelag import schemas
from sharelag.compiled import is_worth_it
from sharelag.model.versions import Told, require_version
from sharelag.schemas import Arrow
from sharelag.tables.arrow import flat, one_batch
from sharelag.wire.columns import decode_columns
from sharelag.wire.fields import STATE_TOPIC
from sharelag.wire.generations import TODAY, control_mask, read_older, require_generation
from sharelag.wire.interpreter import (
    Decoded,
    Rows,
    all_equal,
    interpret,
    of_topic,
    records_of,
    rejects_of,
    topic_mask,
)
from sharelag.wire.program import program_for

__all__ = ["Decoded", "decode_arrow", "has_older", "of_state", "of_topic", "topic_mask"]


def decode_arrow(
    batch: Arrow,
    topic: str = STATE_TOPIC,
    generation: int | None = None,
    kafka_version: Told = None,
) -> Decoded:
    """Decode the records of one of the two Kafka topics with share group metadata.

    Parameters
    ----------
    batch : pyarrow.RecordBatch or pyarrow.Table
        Columns of `sharelag.schemas.RAW`; rows of several topics may be mixed.
    topic : str
        ``__share_group_state`` gives `sharelag.schemas.RECORDS`, ``__consumer_offsets`` gives
        `sharelag.schemas.GROUP_RECORDS`. Rows of topics whose names do not end with this name are
        skipped, but for control records with share state.
    generation : int, optional
        Try state records as those of this generation, 0 to 4, then as today's (4); without it, each
        record tells, and what may be the beginning of one of today's records is a reject.
    kafka_version : str or callable, optional
        Of the brokers that read these records, such as ``4.3.1``, or what finds it out if it
        matters; the newest if there is none.

    Returns
    -------
    Decoded
        The records and rejects keep the order of the input.

    Raises
    ------
    InputError
        When a column is missing or of another type, or there is no such generation or version.

    Notes
    -----
    Accepts and refuses the same records as Kafka's ``ShareCoordinatorRecordSerde`` and
    ``GroupCoordinatorRecordSerde``, and accepts state records of older generations. From 4.4 on a
    record with a negative number of tagged fields, which counts as zero before, or with more than
    10,000 of them is refused; no broker writes either. Invalid UTF-8 is decoded as in Java, with
    U+FFFD in place of the bad bytes.
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
        has_older(columns.strange) or (columns.skipped and control_mask(batch).any())
    ):
        return _with_older(batch, None, kafka_version)
    return Decoded(columns.records(), columns.rejects, columns.skipped)


def of_state(batch: Arrow, generation: int | None = None) -> Arrow:
    """Return the rows with share state: those of the state topic, and users' control records.

    A generation, if one is given, is that as which they will be decoded.
    """
    column = flat(batch.column("topic"))
    if len(column) and column.null_count == 0 and all_equal(column.cast(pa.string())):
        chosen = of_topic(batch, STATE_TOPIC)
        if chosen.num_rows:
            return chosen
    state = np.asarray(topic_mask(batch, STATE_TOPIC), bool)
    return batch.filter(pa.array(state | control_mask(batch, generation)))


def has_older(strange: pa.RecordBatch | None) -> bool:
    """Whether raw records that today's format does not read may be of an older one."""
    if strange is None:
        return False
    rows = np.arange(strange.num_rows)
    return read_older(strange, rows, today=np.zeros(0, np.int64)) is not None


def _with_older(batch: Arrow, generation: int | None, kafka_version: Told) -> Decoded:
    """Decode by the interpreter: older records first, the rest as today's."""
    state, program = np.array(topic_mask(batch, STATE_TOPIC), bool), program_for(STATE_TOPIC)
    rows = Rows(program, batch, wanted=state, kafka_version=kafka_version)
    tried = rows.strange() if generation is None else np.flatnonzero(state)
    tried = np.union1d(tried, np.flatnonzero(control_mask(batch, generation)))
    older = read_older(batch, tried, rows.whole(), generation)
    # No user's serializer writes a topic's id there, so what cannot be read of these is damaged.
    damaged = control_mask(batch)
    if older is not None or damaged.any():
        # Decoded anew: a row that is left out must not take part in the arrays of the others.
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
