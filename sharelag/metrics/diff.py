"""Compare the state of each share partition at two moments."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.metrics.columns import bools, numbers
from sharelag.metrics.runs import TERMINAL, Runs
from sharelag.schemas import SHARE_PARTITION, Arrow
from sharelag.schemas.arrow import as_table, beside, flat, keys

_KEY = ["record_topic", "record_partition", "topic_id", "partition", "group_id"]
_COMPARED = (
    "start_offset",
    "effective_start_offset",
    "window_end_offset",
    "delivery_complete_count",
    "runs",
    "leader_epoch",
)


def diff_arrow(before: Arrow, after: Arrow) -> pa.Table:
    """Compare the windows of two moments.

    Parameters
    ----------
    before, after : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.WINDOWS`.

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.DIFF`, one row per share partition that existed at either moment, sorted
        by group, topic id and partition. Unchanged share partitions have a row, too.
    """
    for table in (before, after):
        schemas.require(table, schemas.WINDOWS, "windows")
    old, new = as_table(before), as_table(after)
    every = (
        pa.concat_tables([old.select(_KEY), new.select(_KEY)])
        .group_by(_KEY, use_threads=False)
        .aggregate([])
    )
    place = keys(every, _KEY)
    was, now = beside(place, old, _KEY), beside(place, new, _KEY)
    columns = {name: every.column(name) for name in SHARE_PARTITION}
    columns["topic"] = pa.nulls(every.num_rows, pa.string())
    for name in _COMPARED:
        columns |= {f"{name}_before": was.column(name), f"{name}_after": now.column(name)}
    columns |= _change(was, now)
    arrays = [columns[field.name].cast(field.type) for field in schemas.DIFF]
    rows = pa.Table.from_arrays(arrays, schema=schemas.DIFF)
    return rows.sort_by([(name, "ascending") for name in SHARE_PARTITION])


def _change(was: pa.Table, now: pa.Table) -> dict[str, pa.Array]:
    existed, exists = (table.column("group_id").is_valid().to_numpy() for table in (was, now))
    # A state that was initialised again, or whose start offset was altered, has another state epoch
    # or fewer snapshots.
    (epoch, _), (epoch_before, _) = numbers(now, "state_epoch"), numbers(was, "state_epoch")
    whole = bools(was, "from_snapshot") & bools(now, "from_snapshot")
    reset = existed & exists & whole & (epoch != epoch_before)
    (done_before, known_before), (done, known) = _finished(was), _finished(now)
    moved = (done != done_before) | ~_same(was, now)
    # The earlier state is unknown if the share partition is older than its first record.
    created = (numbers(now, "snapshot_epoch")[0] == 0) & bools(now, "from_snapshot")
    change = np.select(
        [~existed & ~created, ~existed, ~exists, reset, moved],
        ["unknown", "new", "gone", "reset", "moved"],
        "same",
    )
    comparable = existed & exists & ~reset & known & known_before & (done >= done_before)
    return {"change": pa.array(change), "finished": pa.array(done - done_before, mask=~comparable)}


def _finished(windows: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the effective start offset plus the number of finished offsets beyond it."""
    effective, known = numbers(windows, "effective_start_offset")
    beyond = Runs(flat(windows.column("runs"))).sum(TERMINAL)
    return effective + beyond, known


def _same(was: pa.Table, now: pa.Table) -> NDArray[np.bool_]:
    # Another leader alone does not move anything.
    names = [name for name in _COMPARED if name not in ("runs", "leader_epoch")]
    equal = [pc.equal(was.column(name), now.column(name)).fill_null(False) for name in names]
    null = [pc.and_(pc.is_null(was.column(name)), pc.is_null(now.column(name))) for name in names]
    same = [pc.or_(one, other).to_numpy() for one, other in zip(equal, null, strict=True)]
    pairs = zip(was.column("runs").to_pylist(), now.column("runs").to_pylist(), strict=True)
    same.append(np.array([one == other for one, other in pairs], bool))
    return np.asarray(np.logical_and.reduce(same), bool)
