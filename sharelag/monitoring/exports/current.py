"""Current windows and lag as two Delta tables that each write replaces.

``FOLDER/windows`` and ``FOLDER/lag`` hold one row per existing share partition. Each commit
replaces a whole table, so a reader sees one state or the next, and a table is one file: with so
few rows, finding out which ones changed would cost more. Old files and log entries are removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import InputError, first_line
from sharelag.model import iso
from sharelag.schemas import SHARE_PARTITION
from sharelag.schemas.arrow import beside, keys
from sharelag.version import __version__

#: How long readers may use a state that was replaced.
KEEP = timedelta(hours=1)
_TIDY_EVERY = 100
_TABLES = ("windows", "lag")
# What deltalake itself keeps; its shortest log retention is a day.
_SETTINGS = {
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
}


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
        try:
            from deltalake import DeltaTable
        except ImportError as error:
            raise InputError("Delta tables need deltalake: pip install 'sharelag[lake]'") from error
        self._places = {name: folder / name for name in _TABLES}
        self._names = {
            name: f"current {name} of the share groups of {cluster_id}" for name in _TABLES
        }
        self._source = source
        self._writes = count()
        self._windows: pa.Table | None = None
        for name, place in self._places.items():
            with _explained(f"cannot read {place}"):
                is_other = DeltaTable.is_deltatable(str(place))
                is_other = is_other and DeltaTable(place).metadata().name != self._names[name]
            if is_other:
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
        from deltalake import CommitProperties, write_deltalake

        as_of = pc.max(lag.column("as_of")).as_py() or datetime.now(UTC)
        about = {"as_of": iso(as_of), "source": self._source, "tool_version": __version__}
        windows = windows.append_column(
            "topic", beside(keys(windows, SHARE_PARTITION), lag, SHARE_PARTITION).column("topic")
        )
        tables = {"lag": lag} if windows == self._windows else {"windows": windows, "lag": lag}
        for name, table in tables.items():
            with _explained(f"cannot write to {self._places[name]}"):
                write_deltalake(
                    str(self._places[name]),
                    _for_delta(table),
                    mode="overwrite",
                    schema_mode="overwrite",  # an older version may have written another schema
                    name=self._names[name],
                    configuration=_SETTINGS,
                    commit_properties=CommitProperties(custom_metadata=about),
                )
        self._windows = windows
        if next(self._writes) % _TIDY_EVERY == 0:
            self._tidy()

    def _tidy(self) -> None:
        """Remove files of old states and of killed writers."""
        from deltalake import DeltaTable

        hours = KEEP // timedelta(hours=1)
        for place in self._places.values():
            with _explained(f"cannot remove old files of {place}"):
                DeltaTable(place).vacuum(
                    hours, dry_run=False, enforce_retention_duration=False, full=True
                )


@contextmanager
def _explained(what: str) -> Iterator[None]:
    from deltalake.exceptions import DeltaError

    try:
        yield
    except (DeltaError, OSError) as error:
        raise InputError(f"{what} ({first_line(error)}): check the path and permissions") from error


def _for_delta(table: pa.Table) -> pa.Table:
    """Cast times to Delta's unit."""
    moment = pa.timestamp("us", "UTC")
    fields = [
        field.with_type(moment) if pa.types.is_timestamp(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))
