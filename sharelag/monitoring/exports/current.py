"""Current windows and lag as two Delta tables that each write replaces.

``FOLDER/windows`` and ``FOLDER/lag`` hold one row per existing share partition. Each commit
replaces a whole table, so a reader sees one state or the next, and a table is one file: with so
few rows, finding out which ones changed would cost more. Old files and log entries are removed.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import InputError
from sharelag.model import iso
from sharelag.schemas import SHARE_PARTITION
from sharelag.schemas.arrow import beside, keys
from sharelag.sources.files.delta import open_table, remove_old_files, replace_table
from sharelag.version import __version__

#: How long readers may use a state that was replaced.
KEEP = timedelta(hours=1)
_TIDY_EVERY = 100
_TABLES = ("windows", "lag")


class CurrentTables:
    """The two tables of one cluster.

    Parameters
    ----------
    folder : pathlib.Path
        The folder of both tables; they are created if missing.
    cluster_id : str
        Their cluster; tables of anything else are never replaced.
    source : str
        A description of the source, kept in the history of each table.

    Raises
    ------
    InputError
        When deltalake is not installed, or the folder holds other tables.
    """

    def __init__(self, folder: Path, cluster_id: str, source: str) -> None:
        self._places = {name: folder / name for name in _TABLES}
        self._names = {
            name: f"current {name} of the share groups of {cluster_id}" for name in _TABLES
        }
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

        Parameters
        ----------
        windows : pyarrow.Table
            `sharelag.schemas.WINDOWS`. Written, with topic names, only if it or they changed.
        lag : pyarrow.Table
            `sharelag.schemas.LAG` of these windows.

        Raises
        ------
        InputError
            When a table cannot be written.
        """
        as_of = pc.max(lag.column("as_of")).as_py() or datetime.now(UTC)
        about = {"as_of": iso(as_of), "source": self._source, "tool_version": __version__}
        windows = windows.append_column(
            "topic", beside(keys(windows, SHARE_PARTITION), lag, SHARE_PARTITION).column("topic")
        )
        tables = {"lag": lag} if windows == self._windows else {"windows": windows, "lag": lag}
        for name, table in tables.items():
            replace_table(self._places[name], table, self._names[name], about)
        self._windows = windows
        if next(self._writes) % _TIDY_EVERY == 0:
            for place in self._places.values():
                remove_old_files(place, KEEP)
