"""Effects of a reset of start offsets by ``kafka-share-groups.sh --reset-offsets``.

A reset sets a new start offset for each share partition and drops the state of all records: records
from it on are delivered again, finished or not, with a delivery count of 1; earlier records are
never delivered again. ``kafka-share-groups.sh`` resets to offsets within the log;
``Admin.alterShareGroupOffsets`` sets any offset, even beyond the end, and members then wait until
the log reaches it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.metrics.columns import PARTITION, TERMINAL, Runs, floats
from sharelag.schemas import SHARE_PARTITION, Arrow, Floats
from sharelag.tables.arrow import as_table, beside, flat, keys, table_of
from sharelag.tables.words import client_words, shell_word

_EARLIEST, _LATEST = "earliest", "latest"
_PLAN = "plan.csv"


def plan_reset(
    lag: Arrow,
    windows: Arrow,
    to: str | int | None = None,
    shift_by: int | None = None,
    at: Arrow | None = None,
    local: Arrow | None = None,
) -> pa.Table:
    """Plan a reset of each share partition.

    Parameters
    ----------
    lag, windows : Arrow
        `sharelag.schemas.LAG` and `WINDOWS` of some share partitions; those without a window have
        no state yet.
    to : "earliest", "latest" or int, optional
        The start of the log, its end, or one offset for all.
    shift_by : int, optional
        Offsets from the first unfinished one, forwards or, if negative, backwards; within the log.
        Kafka writes start offsets late, so the first unfinished offset may lie beyond them.
    at : Arrow, optional
        `sharelag.schemas.OFFSETS` of the moment to go back to.
    local : Arrow, optional
        ``topic partition offset``: where the log on the broker's own disk begins. Records before
        are in remote storage (KIP-405), from which fetches are slower.

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.RESET_PLAN`, in the order of ``lag``; new start offsets are null where
        the log's start, its end or the offset at a moment is unknown, and a new lag where the new
        start offset is beyond the end, as Kafka's is. ``new_drain_ms`` is null: see
        `sharelag.whatif.horizon.after_reset`.
    """
    table = as_table(lag)
    past, end, first = (
        floats(table.column(name))
        for name in ("effective_start_offset", "end_offset", "log_start_offset")
    )
    new = _targets(table, past, end, first, to, shift_by, at)
    new = np.where(np.isnan(first) | np.isnan(end), np.nan, new)
    # Records that are no longer in the log are not delivered.
    from_here = np.maximum(new, first)  # unknown where either is
    mine = beside(keys(table, SHARE_PARTITION), windows, SHARE_PARTITION)
    begin, finished_from, finished = _count_finished(mine, from_here)
    window_end = np.fmax(floats(table.column("window_end_offset")), begin)
    passed = np.fmin(begin, end)  # the start offset may have been set beyond the end
    again = np.where(np.isnan(begin), np.nan, np.maximum(passed - from_here, 0)) + finished_from
    forwards = from_here - begin - (finished - finished_from)
    skipped = np.where(from_here <= begin, 0, forwards)  # unknown where either is
    unread = np.maximum(from_here - np.fmax(window_end, begin), 0)
    new_lag = np.where(new > end, np.nan, end - new)
    remote = np.full(len(table), np.nan)
    if local is not None:
        place = ("topic", "partition")
        kept = beside(keys(table, place), local, place).column("offset")
        remote = np.maximum(floats(kept) - new, 0)
    names = ("group_id", "topic", "topic_id", "partition", "start_offset", "lag")
    found = {name: table.column(name) for name in names} | {
        "new_start_offset": _whole(new),
        "new_lag": _whole(new_lag),
        "again": _whole(again),
        "skipped": _whole(skipped),
        "skipped_unread": _whole(np.where(np.isnan(skipped), np.nan, unread)),
        "remote": _whole(remote),
    }
    return table_of(found, schemas.RESET_PLAN, pad=True)


def _targets(
    table: pa.Table,
    past: Floats,
    end: Floats,
    first: Floats,
    to: str | int | None,
    shift_by: int | None,
    at: Arrow | None,
) -> Floats:
    if to == _EARLIEST:
        return first
    if to == _LATEST:
        return end
    if shift_by is not None:
        return np.asarray(np.clip(past + shift_by, first, end), np.float64)
    if at is not None:
        then = floats(beside(keys(table, PARTITION), at, PARTITION).column("end_offset"))
        return np.asarray(np.clip(then, first, end), np.float64)
    return np.full(len(table), float(to or 0))


def _count_finished(windows: pa.Table, new: Floats) -> tuple[Floats, Floats, Floats]:
    """Return start offsets, and the numbers of finished offsets after the new and the old one."""
    begin, past = (
        floats(windows.column(name)) for name in ("start_offset", "effective_start_offset")
    )
    runs = Runs(flat(windows.column("runs")))

    def after(offset: Floats) -> Floats:
        # Runs begin where the first unfinished offset is.
        passed = np.maximum(np.fmax(past, begin) - offset, 0)
        return passed + runs.sum(TERMINAL, np.nan_to_num(offset).astype(np.int64))

    return begin, after(np.fmax(new, begin)), after(begin)


def _whole(values: Floats) -> pa.Array:
    unknown = ~np.isfinite(values)
    whole = np.where(unknown, 0, np.round(values)).astype(np.int64)
    return pa.array(whole, pa.int64(), mask=unknown)


def reset_commands(
    group: str,
    topics: Sequence[str],
    to: str | int | datetime | None,
    server: str | None = None,
    command_config: str | Path | None = None,
    plan: pa.Table | None = None,
) -> list[str]:
    """Return Kafka's commands for a reset; empty if it needs an unknown offset.

    The last one executes the dry run before it. Without topics they cover all topics. Without
    ``to`` they take the new start offsets from a file of the plan. ``server`` and
    ``command_config`` are those of a running cluster.
    """
    first = []
    if isinstance(to, datetime):
        at = to.astimezone(UTC)
        how = f"--to-datetime {at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}"
    elif to in (_EARLIEST, _LATEST):
        how = f"--to-{to}"
    elif to is not None:
        how = f"--to-offset {to}"
    else:
        lines = _plan_lines(plan)
        if not lines:
            return []
        first = [f"printf '%s\\n' {' '.join(map(shell_word, lines))} > {_PLAN}"]
        how = f"--from-file {_PLAN}"
    chosen = () if first else topics or None  # the file has the topics
    command = f"{_begun(group, chosen, server, command_config)} --reset-offsets {how}"
    return [*first, f"{command} --dry-run", f"{command} --execute"]


def _plan_lines(plan: pa.Table | None) -> list[str]:
    """Return the lines of Kafka's file of offsets; none if an offset is unknown."""
    if plan is None:
        return []
    names = ("topic", "partition", "new_start_offset")
    columns = [plan.column(name).cast(pa.string()) for name in names]
    joined = pc.binary_join_element_wise(*columns, ",")
    return [] if joined.null_count else joined.to_pylist()


def delete_command(
    group: str,
    topics: Sequence[str],
    server: str | None = None,
    command_config: str | Path | None = None,
) -> str:
    """Return Kafka's command that deletes offsets of topics or, without topics, the group.

    ``kafka-share-groups.sh`` asks for no confirmation, and has no dry run.
    """
    action = "--delete-offsets" if topics else "--delete"
    return f"{_begun(group, topics, server, command_config)} {action}"


def _begun(
    group: str, topics: Sequence[str] | None, server: str | None, command_config: str | Path | None
) -> str:
    """Return the beginning of a bash command; ``topics`` None: all topics."""
    words = ["kafka-share-groups.sh", *client_words(server, command_config), "--group", group]
    for topic in topics or ():
        words += ["--topic", topic]
    return " ".join(map(shell_word, words)) + (" --all-topics" if topics is None else "")
