"""Decode where share partitions stand, and nothing else: all that Kafka's lag is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sharelag.compiled import compiled
from sharelag.model.versions import Told
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import one_batch
from sharelag.wire.columns import fill_numbers, long_tombstones
from sharelag.wire.fields import STATE_TOPIC
from sharelag.wire.interpreter import Rows, binary
from sharelag.wire.keys import ShareKeys
from sharelag.wire.layout import BATCHES, POSITION_NUMBERS, batch_numbers, record_numbers
from sharelag.wire.program import program_for


@dataclass(slots=True)
class PositionColumns:
    """Decoded records of the state topic without their batches: see `StateColumns`."""

    row: NDArray[np.int64] | None
    """Which of the rows they are; None: all."""
    key: NDArray[np.int32]
    record_type: NDArray[np.int16]
    tombstone: NDArray[np.bool_]
    numbers: dict[str, NDArray[Any]]
    """``leader_epoch start_offset delivery_complete_count``."""
    turned: NDArray[np.uint8]
    """Not 0: the record has a state batch that ends before it begins."""
    rejected: int = 0
    """Records that could not be decoded."""
    strange: pa.RecordBatch | None = None
    """Raw records that may be of an older format; None without any."""


def decode_positions(chosen: Arrow, keys: ShareKeys, kafka_version: Told = None) -> PositionColumns:
    """Decode raw records of the state topic; what is not a state record is left out.

    Parameters
    ----------
    chosen : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.RAW`, of the state topic alone.
    keys : ShareKeys
        Numbers the share partitions.
    kafka_version : str or callable, optional
        As for `sharelag.wire.decode_arrow`.
    """
    from sharelag.wire.state_pass import position_pass

    code, record_type, _ = keys.codes(chosen)
    values, value_at, value_null = binary(chosen.column("value"))
    dtypes = {n.column: n.dtype for n in record_numbers()}
    numbers = {name: np.empty(len(code), dtypes[name]) for name in POSITION_NUMBERS}
    odd, turned = np.empty(len(code), np.uint8), np.empty(len(code), np.uint8)
    odds = compiled(position_pass)(
        values, value_at, value_null, record_type, code, odd, turned, tuple(numbers.values())
    )
    longer = long_tombstones(chosen, value_null)
    if odds == 0 and not len(longer):
        return PositionColumns(None, code, record_type, value_null, numbers, turned)
    odd[longer] = 1
    places = np.flatnonzero(odd)
    taken = chosen.take(places)
    rows = Rows(program_for(STATE_TOPIC), taken, kafka_version=kafka_version)
    strange = rows.strange()
    good = places[rows.good]
    fill_numbers(numbers, rows, good)
    turned[good] = _turned(rows)
    odd[good] = 0
    kept = np.flatnonzero(odd == 0)
    return PositionColumns(
        kept,
        code[kept],
        record_type[kept],
        value_null[kept],
        {name: column[kept] for name, column in numbers.items()},
        turned[kept],
        len(rows.bad),
        one_batch(taken.take(strange)) if len(strange) else None,
    )


def _turned(rows: Rows) -> NDArray[np.bool_]:
    """Return which interpreted records have a batch that ends before it begins."""
    slots = rows.program.slots
    first, last, *_ = (slots[f"{BATCHES}.{number.column}"] for number in batch_numbers())
    counts = np.where(rows.value_null[rows.good], 0, rows.slot(slots[BATCHES], rows.good))
    every = slice(0, int(counts.sum()))
    backward = rows.slot(first, every) > rows.slot(last, every)
    record = np.repeat(np.arange(len(rows.good)), counts)[backward]
    return np.asarray(np.bincount(record, minlength=len(rows.good)) > 0)
