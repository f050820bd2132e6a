"""End offsets between two samples: known if both agree, since offsets only grow."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas

# Milliseconds up to the year 2248, so that a partition number and a time fit into one int64.
_TIMES = 1 << 43


def at(samples: pa.Table, moments: Sequence[datetime]) -> pa.Table:
    """Return offsets at some moments.

    Parameters
    ----------
    samples : pyarrow.Table
        `sharelag.schemas.OFFSETS`, taken at any times.
    moments : sequence of datetime

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.OFFSETS`, one row per partition and moment, with the moment in ``as_of``.
        An offset is null if the samples before and after differ, and before the first and after the
        last one.
    """
    # Ignore samples of leaders that did not answer.
    samples = samples.filter(samples.column("end_offset").is_valid())
    samples = samples.sort_by([(name, "ascending") for name in ("topic_id", "partition", "as_of")])
    if samples.num_rows == 0 or not moments:
        return schemas.OFFSETS.empty_table()
    keys = _numbered(samples)
    count = int(keys[-1]) + 1
    requested = pa.array(moments, schemas.TIMESTAMP)
    places = keys * _TIMES + samples.column("as_of").cast(pa.int64()).to_numpy()
    key = np.repeat(np.arange(count), len(moments))
    wanted = key * _TIMES + np.tile(
        np.clip(requested.cast(pa.int64()).to_numpy(), 0, _TIMES - 1), count
    )
    before = np.searchsorted(places, wanted, "right") - 1
    after = np.searchsorted(places, wanted, "left")
    left, right = np.maximum(before, 0), np.minimum(after, len(places) - 1)
    between = (before >= 0) & (after < len(places)) & (keys[left] == key) & (keys[right] == key)
    row = pa.array(np.searchsorted(keys, key))
    columns = {name: samples.column(name).take(row) for name in ("topic", "topic_id", "partition")}
    for name in ("log_start_offset", "end_offset", "leader_epoch"):
        one, other = (samples.column(name).take(pa.array(rows)) for rows in (left, right))
        same = pc.and_(pa.array(between), pc.equal(one, other).fill_null(False))
        columns[name] = pc.if_else(same, one, pa.scalar(None, one.type))
    columns["as_of"] = requested.take(pa.array(np.tile(np.arange(len(moments)), count)))
    return pa.table([columns[name] for name in schemas.OFFSETS.names], schema=schemas.OFFSETS)


def without_moments(offsets: pa.Table) -> pa.Table:
    """Clear ``as_of`` where the end offset is null, so that the lag's reason is the moment."""
    moments = pc.if_else(
        offsets.column("end_offset").is_valid(),
        offsets.column("as_of"),
        pa.scalar(None, schemas.TIMESTAMP),
    )
    return offsets.set_column(offsets.schema.get_field_index("as_of"), "as_of", moments)


def without_offsets(offsets: pa.Table) -> pa.Table:
    """Return the same partitions at a moment with unknown offsets."""
    for name in ("log_start_offset", "end_offset", "as_of"):
        nulls = pa.nulls(len(offsets), schemas.OFFSETS.field(name).type)
        offsets = offsets.set_column(offsets.schema.get_field_index(name), name, nulls)
    return offsets


def _numbered(ordered: pa.Table) -> NDArray[np.int64]:
    """Number the partitions of rows that are sorted by them."""
    topic = ordered.column("topic_id").combine_chunks().dictionary_encode().indices.to_numpy()
    changed = (np.diff(topic) != 0) | (np.diff(ordered.column("partition").to_numpy()) != 0)
    return np.concatenate([[0], np.cumsum(changed)]).astype(np.int64)
