"""Tables for a lake: Parquet or Delta tables that each run extends, and two that it replaces."""

from __future__ import annotations

import json
import re
import shutil
import time
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.engine import Reading
from sharelag.errors import InputError
from sharelag.inputs.files import parquet
from sharelag.inputs.files.parquet import (
    append_rows,
    name_of,
    open_table,
    remove_old_files,
    replace_table,
    require_same,
)
from sharelag.model import iso
from sharelag.schemas import SCHEMA_VERSION, SHARE_PARTITION
from sharelag.tables.arrow import beside, keys
from sharelag.version import __version__

if TYPE_CHECKING:
    from deltalake import DeltaTable

_MOMENT = pa.timestamp("us", "UTC")
#: How long readers may use a replaced state.
KEEP = timedelta(hours=1)
_TIDY_EVERY = 100
#: Name of the folder of an incomplete run.
_HALF = re.compile(r"\.\d{8}T\d{6}\.\d{3}Z-\w{8}")
_TABLES = ("windows", "lag")
_APPENDED = ("lag", "windows", "imbalance")


def write_run(reading: Reading, folder: Path) -> Path:
    """Write lag, windows and imbalance as of one moment to the folder of all runs.

    Return the run's own folder, named by its moment: ``FOLDER/20261121T031000.000Z`` with
    ``lag.parquet``, ``windows.parquet``, ``imbalance.parquet`` and ``run.json``. It appears
    atomically, and an existing run of that moment is not replaced.
    """
    run = folder / iso(reading.now).replace("-", "").replace(":", "")
    if run.exists():
        raise InputError(
            f"{run} already exists, and runs are never replaced: choose another folder or remove it"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_halves(folder)
        _write(run, _tables(reading), _about(reading))
    except OSError as error:
        raise InputError(
            f"cannot write to {folder} ({error.strerror or error}): check the path and permissions"
        ) from error
    return run


def append_run(reading: Reading, folder: Path) -> list[str]:
    """Append lag, windows and imbalance as of one moment to Delta tables; return their names.

    They are ``FOLDER/lag``, ``FOLDER/windows`` and ``FOLDER/imbalance``, created if missing; all
    have ``as_of``, in microseconds, Delta's only unit. A table that already has rows of that moment
    is unchanged, so that the next run of the same moment completes an interrupted one, and no rows
    are written twice. Other tables, or those of another cluster, are an InputError: rows do not
    contain their cluster.
    """
    appended, cluster = [], reading.source.cluster_id
    found = {name: open_table(folder / name) for name in _APPENDED}
    for name, table in found.items():
        if table is not None:
            require_same(table, folder / name, f"{name} of share groups", cluster)
    for name, table in _tables(reading).items():
        there = found[name]
        if there is None or not _has(there, reading.now):
            rows = _with_moment(table, reading.now)
            called = name_of(f"{name} of share groups", cluster)
            append_rows(folder / name, rows, called, _about(reading))
            appended.append(name)
    return appended


def _tables(reading: Reading) -> dict[str, pa.Table]:
    return {
        "lag": reading.table("lag"),
        "windows": reading.table("windows"),
        "imbalance": reading.imbalance(),
    }


def _about(reading: Reading) -> dict[str, str]:
    source = reading.source.describe()
    return {"as_of": iso(reading.now), "source": source, "tool_version": __version__}


def _has(table: DeltaTable, as_of: datetime) -> bool:
    is_then = pc.field("as_of") == pa.scalar(as_of, _MOMENT)
    return bool(table.to_pyarrow_dataset().count_rows(filter=is_then))


def _with_moment(table: pa.Table, as_of: datetime) -> pa.Table:
    if "as_of" in table.column_names:
        return table
    return table.append_column("as_of", pa.repeat(pa.scalar(as_of, _MOMENT), table.num_rows))


def _remove_halves(folder: Path) -> None:
    """Remove files of killed runs: folders without writes for `KEEP`."""
    files = {"new", "run.json", *(f"{name}.parquet" for name in _APPENDED)}
    for half in folder.iterdir():
        if not _HALF.fullmatch(half.name) or half.is_symlink() or not half.is_dir():
            continue
        inside = list(half.rglob("*"))
        written = max(path.lstat().st_mtime for path in (half, *inside))
        is_ours = files >= {path.name for path in inside}
        if is_ours and time.time() - written > KEEP.total_seconds():
            shutil.rmtree(half, ignore_errors=True)


def _write(run: Path, tables: dict[str, pa.Table], about: dict[str, str]) -> None:
    scratch = Path(mkdtemp(prefix=f".{run.name}-", dir=run.parent))
    try:
        half = scratch / "new"
        half.mkdir(mode=0o755)
        for name, table in tables.items():
            parquet.write_table(table, half / f"{name}.parquet")
        text = json.dumps({"schema_version": SCHEMA_VERSION} | about, indent=2)
        (half / "run.json").write_text(f"{text}\n", "utf-8")
        half.rename(run)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


class CurrentTables:
    """The two tables of one cluster in a folder; they are created if missing.

    Other tables, and those of another cluster, are never replaced. ``source`` describes the data's
    origin, and is stored in the tables' history.
    """

    def __init__(self, folder: Path, cluster_id: str, source: str) -> None:
        self._places = {name: folder / name for name in _TABLES}
        self._names = {one: f"current {one} of the share groups of {cluster_id}" for one in _TABLES}
        self._source = source
        self._writes = count()
        self._windows: pa.Table | None = None
        for name, place in self._places.items():
            found = open_table(place)
            if found is not None and found.metadata().name != self._names[name]:
                raise InputError(
                    f"{place} is a different table and would be replaced: choose another folder"
                )

    def write(self, windows: pa.Table, lag: pa.Table) -> None:
        """Replace both tables; windows first, so that no lag refers to windows not yet written.

        Windows, with topic names, are written only if they or the names changed.
        """
        as_of = pc.max(lag.column("as_of")).as_py() or datetime.now(UTC)
        about = {"as_of": iso(as_of), "source": self._source, "tool_version": __version__}
        named = beside(keys(windows, SHARE_PARTITION), lag, SHARE_PARTITION)
        windows = windows.append_column("topic", named.column("topic"))
        tables = {"lag": lag} if windows == self._windows else {"windows": windows, "lag": lag}
        for name, table in tables.items():
            replace_table(self._places[name], table, self._names[name], about)
        self._windows = windows
        if next(self._writes) % _TIDY_EVERY == 0:
            for place in self._places.values():
                remove_old_files(place, KEEP)
