"""Runs of a sweep that is not finished: a folder with a Parquet file each, so that nothing is lost.

runs/<id>.parquet     one run, written by the process that made it
sweep.parquet         all of the last sweep, when it has ended
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs

from sharelag.errors import InputError
from sharelag.inputs.files import parquet
from sharelag.whatif.comparison.tables import MADE

_RUNS, _ALL, _END = "runs", "sweep.parquet", ".parquet"


def folder(out: str | Path) -> str:
    """Make the folder, and give an address (``s3://...`` is one already) for every process."""
    name = str(out) if "://" in str(out) else str(Path(out).expanduser().absolute())
    with _refusing(name):
        system, base = _open(name)
        system.create_dir(f"{base}/{_RUNS}", recursive=True)
    return name


def save(out: str, row: Mapping[str, Any]) -> None:
    """Keep one run."""
    _write(out, f"{_RUNS}/{row['run']}{_END}", pa.Table.from_pylist([dict(row)], schema=MADE))


def save_all(out: str, runs: pa.Table) -> None:
    """Keep the table of a sweep."""
    _write(out, _ALL, runs)


def load(out: str, ids: Collection[str]) -> Iterator[dict[str, Any]]:
    """Load the runs that are there; broken files and those of other columns are ignored."""
    with _refusing(out):
        system, base = _open(out)
    for info in system.get_file_info(fs.FileSelector(f"{base}/{_RUNS}")):
        id_ = info.base_name.removesuffix(_END)
        if id_ not in ids:
            continue
        try:
            with system.open_input_file(info.path) as file:
                table = parquet.open_parquet(file).read()
        except (pa.ArrowInvalid, OSError):
            continue
        if table.schema.equals(MADE) and table.num_rows == 1:
            (row,) = table.to_pylist()
            yield row


def _write(out: str, name: str, table: pa.Table) -> None:
    """Write under another name first, so that no half file is left and writers do not mix."""
    with _refusing(out):
        system, base = _open(out)
        path = f"{base}/{name}"
        aside = f"{path.rpartition('/')[0]}/.{uuid4().hex}"
        with system.open_output_stream(aside) as file:
            parquet.write_table(table, file)
        system.move(aside, path)


def _open(out: str) -> tuple[fs.FileSystem, str]:
    system, base = fs.FileSystem.from_uri(out)
    return system, base.rstrip("/")


@contextmanager
def _refusing(out: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(
            f"runs cannot be kept in {out!r} ({error}): "
            f"give a folder that can be written to, or its address"
        ) from error
