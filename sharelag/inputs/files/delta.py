"""Delta tables that are replaced as a whole or extended, by deltalake: no jar, no Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sharelag.errors import InputError, first_line

if TYPE_CHECKING:
    from deltalake import DeltaTable

# What deltalake itself keeps; its shortest log retention is a day.
_SETTINGS = {
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
}

_OF = " of cluster "

#: How many processes may create a table at the same time.
_CREATORS = 8


def open_table(place: Path | str) -> DeltaTable | None:
    """Open a table; None where there is none.

    It is an InputError when deltalake is not installed, or the place cannot be read.
    """
    if find_spec("deltalake") is None:
        raise InputError("Delta tables need deltalake: pip install 'sharelag[lake]'")
    kind: type[DeltaTable] = import_module("deltalake").DeltaTable
    with translate_errors(f"cannot read {place}"):
        return kind(str(place)) if kind.is_deltatable(str(place)) else None


def name_of(what: str, cluster: str | None) -> str:
    """Name a table by what it has, and by the cluster that this is of, where it is known."""
    return what + (f"{_OF}{cluster}" if cluster else "")


def require_same(found: DeltaTable, place: Path | str, what: str, cluster: str | None) -> None:
    """Refuse a table of anything else, or known to be of another cluster; see `name_of`."""
    name, _, other = str(found.metadata().name).partition(_OF)
    if name != what:
        raise InputError(f"{place} is not a table of {what}: choose another folder")
    if other and cluster and other != cluster:
        raise InputError(
            f"{place} has the {what} of cluster {other}, not of {cluster}: choose another folder"
        )


def replace_table(place: Path | str, table: pa.Table, name: str, about: Mapping[str, str]) -> None:
    """Replace the rows of a table in one commit, or create it with a name.

    ``about`` is kept in its history with the commit. It is an InputError when it cannot be written.
    """
    # An older version may have written another schema.
    how = {"mode": "overwrite", "schema_mode": "overwrite", "configuration": _SETTINGS}
    _write(place, table, name, about, how)


def append_rows(place: Path | str, table: pa.Table, name: str, about: Mapping[str, str]) -> None:
    """Append rows to a table in one commit, or create it with a name.

    ``about`` is kept in its history with the commit. It is an InputError when it cannot be written.
    Processes that create a table at the same time stop each other: the others append to it then.
    """
    from deltalake.exceptions import CommitFailedError

    write = partial(_write, place, table, name, about, {"mode": "append"})
    for _ in range(_CREATORS):
        try:
            return write()
        except InputError as error:
            if not isinstance(error.__cause__, CommitFailedError):
                raise
    return write()


def _write(
    place: Path | str, table: pa.Table, name: str, about: Mapping[str, str], how: dict[str, Any]
) -> None:
    from deltalake import CommitProperties, write_deltalake

    commit = CommitProperties(custom_metadata=dict(about))
    with translate_errors(f"cannot write to {place}"):
        write_deltalake(
            str(place), _in_microseconds(table), name=name, commit_properties=commit, **how
        )


@contextmanager
def translate_errors(what: str) -> Iterator[None]:
    """Raise what deltalake says as an error that says what to do."""
    from deltalake.exceptions import DeltaError

    try:
        yield
    except (DeltaError, OSError) as error:
        raise InputError(f"{what} ({first_line(error)}): check the path and permissions") from error


def _in_microseconds(table: pa.Table) -> pa.Table:
    moment = pa.timestamp("us", "UTC")
    fields = [
        field.with_type(moment) if pa.types.is_timestamp(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


def remove_old_files(place: Path | str, keep: timedelta) -> None:
    """Remove the files of states that were replaced longer ago, and of killed writers."""
    found = open_table(place)
    if found is not None:
        with translate_errors(f"cannot remove old files of {place}"):
            found.vacuum(
                keep // timedelta(hours=1),
                dry_run=False,
                enforce_retention_duration=False,
                full=True,
            )
