"""What a reset of start offsets would do, as ``kafka-share-groups.sh --reset-offsets`` does it.

A reset gives each share partition a new start offset within its log and drops the state of all
records: what lies from it on is delivered again, finished or not, with a delivery count of 1; what
lies before it is never delivered again.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.model import DeliveryState
from sharelag.schemas import SHARE_PARTITION, Arrow
from sharelag.schemas.arrow import as_table, beside, flat, keys

_FINISHED = pa.array([int(DeliveryState.ACKNOWLEDGED), int(DeliveryState.ARCHIVED)], pa.int8())
_EARLIEST, _LATEST = "earliest", "latest"


def plan_reset(
    lag: Arrow,
    windows: Arrow,
    progress: Arrow,
    to: str | int | None = None,
    shift_by: int | None = None,
    at: Arrow | None = None,
    local: Arrow | None = None,
) -> pa.Table:
    """Compute what a reset would leave of each share partition.

    Parameters
    ----------
    lag, windows, progress : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.LAG`, `WINDOWS` and `PROGRESS` of some share partitions.
    to : "earliest", "latest" or int, optional
        The start of the log, its end, or one offset for all.
    shift_by : int, optional
        Offsets from the present start offset, forwards or, if negative, backwards.
    at : pyarrow.RecordBatch or pyarrow.Table, optional
        `sharelag.schemas.OFFSETS` of the moment to go back to.
    local : pyarrow.RecordBatch or pyarrow.Table, optional
        ``topic partition offset``: where the log on the broker's own disk begins. Records before
        are in remote storage (KIP-405), from which fetches are slower.

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.RESET_PLAN`, in the order of ``lag``. New start offsets stay within the
        log; they are null where its start, its end or the offset at a moment is unknown.
    """
    table = as_table(lag)
    start, end, first = (
        _floats(table.column(name)) for name in ("start_offset", "end_offset", "log_start_offset")
    )
    target = _targets(table, start, end, first, to, shift_by, at)
    new = np.clip(target, first, end)
    mine = beside(keys(table, SHARE_PARTITION), windows, SHARE_PARTITION)
    begin, finished_from, finished = _finished(mine, new, len(table))
    window_end = np.fmax(_floats(table.column("window_end_offset")), begin)
    again = np.where(new < begin, begin - new, 0) + finished_from
    skipped = np.where(new > begin, new - begin - (finished - finished_from), 0)
    unread = np.maximum(new - np.fmax(window_end, begin), 0)
    drains = beside(keys(table, SHARE_PARTITION), progress, SHARE_PARTITION)
    arrival, completion = (
        _floats(drains.column(f"{name}_rate")) for name in ("arrival", "completion")
    )
    gain = np.where(completion > arrival, completion - arrival, np.nan)
    names = ("group_id", "topic", "topic_id", "partition", "start_offset", "lag")
    found = {name: table.column(name) for name in names} | {
        "new_start_offset": _whole(new),
        "new_lag": _whole(end - new),
        "again": _whole(again),
        "skipped": _whole(skipped),
        "skipped_unread": _whole(np.where(np.isnan(skipped), np.nan, unread)),
        "remote": _whole(_remote(table, new, local)),
        "new_drain_ms": _whole(np.where(end - new == 0, 0, 1000 * (end - new) / gain)),
    }
    return pa.table(found).select(schemas.RESET_PLAN.names).cast(schemas.RESET_PLAN)


def _targets(
    table: pa.Table,
    start: NDArray[np.float64],
    end: NDArray[np.float64],
    first: NDArray[np.float64],
    to: str | int | None,
    shift_by: int | None,
    at: Arrow | None,
) -> NDArray[np.float64]:
    if to == _EARLIEST:
        return first
    if to == _LATEST:
        return end
    if shift_by is not None:
        return start + shift_by
    if at is not None:
        place = ("topic_id", "partition")
        return _floats(beside(keys(table, place), at, place).column("end_offset"))
    return np.full(len(table), float(to or 0))


def _remote(table: pa.Table, new: NDArray[np.float64], local: Arrow | None) -> NDArray[np.float64]:
    if local is None:
        return np.full(len(table), np.nan)
    place = ("topic", "partition")
    begin = _floats(beside(keys(table, place), local, place).column("offset"))
    return np.asarray(np.maximum(begin - new, 0), np.float64)


def _finished(
    windows: pa.Table, new: NDArray[np.float64], rows: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return start offsets, and how many finished offsets follow the new one, and the old one."""
    begin, past = (
        _floats(windows.column(name)) for name in ("start_offset", "effective_start_offset")
    )
    batches = flat(windows.column("runs"))
    parent = pc.list_parent_indices(batches).to_numpy()
    runs = pc.list_flatten(batches)
    low, last = (
        pc.struct_field(runs, [name]).to_numpy().astype(np.float64)
        for name in ("first_offset", "last_offset")
    )
    states = pc.struct_field(runs, ["delivery_state"])
    done = pc.is_in(states, _FINISHED).to_numpy(zero_copy_only=False)

    def after(offset: NDArray[np.float64]) -> NDArray[np.float64]:
        size = np.maximum(last - np.maximum(low, offset[parent]) + 1, 0)
        size = np.where(done & ~np.isnan(offset[parent]), size, 0)
        # Runs begin where the first unfinished offset is.
        passed = np.maximum(np.fmax(past, begin) - offset, 0)
        return np.asarray(passed + np.bincount(parent, weights=size, minlength=rows), np.float64)

    return begin, after(np.fmax(new, begin)), after(begin)


def _floats(column: pa.Array) -> NDArray[np.float64]:
    """Return numbers as floats, NaN where unknown."""
    plain = flat(column).cast(pa.float64())
    return np.asarray(pc.fill_null(plain, np.nan).to_numpy(zero_copy_only=False), np.float64)


def _whole(values: NDArray[np.float64]) -> pa.Array:
    unknown = ~np.isfinite(values)
    whole = np.where(unknown, 0, np.round(values)).astype(np.int64)
    return pa.array(whole, pa.int64(), mask=unknown)


def kafkas_commands(
    group: str, topic: str | None, to: str | int | datetime | None, server: str | None = None
) -> list[str]:
    """Return the commands of Kafka that do it; empty where ``kafka-share-groups.sh`` has none.

    The first one shows what the second one does.
    """
    if isinstance(to, datetime):
        at = to.astimezone(UTC)
        how = f"--to-datetime {at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}"
    elif to in (_EARLIEST, _LATEST):
        how = f"--to-{to}"
    else:
        return []
    what = "--all-topics" if topic is None else f"--topic {shlex.quote(topic)}"
    command = (
        f"kafka-share-groups.sh --bootstrap-server {server or 'HOST:PORT'} "
        f"--group {shlex.quote(group)} {what} --reset-offsets {how}"
    )
    return [f"{command} --dry-run", f"{command} --execute"]


def kafkas_deletion(group: str, topics: Sequence[str], server: str | None = None) -> str:
    """Return the command of Kafka that deletes offsets of topics, or without any the group.

    ``kafka-share-groups.sh`` asks nothing before it does so, and has no dry run of it.
    """
    what = " ".join(f"--topic {shlex.quote(topic)}" for topic in topics)
    return (
        f"kafka-share-groups.sh --bootstrap-server {server or 'HOST:PORT'} "
        f"--group {shlex.quote(group)} " + (f"{what} --delete-offsets" if topics else "--delete")
    )
