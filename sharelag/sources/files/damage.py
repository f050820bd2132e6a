"""Damaged files: one sentence that names the file; values that no cluster has are refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import InputError, first_line
from sharelag.schemas.records import FIRST_MS, LAST_MS

#: What pyarrow raises for bytes that are not as promised; names of columns are decoded late.
DAMAGE = (OSError, pa.ArrowException, UnicodeDecodeError)
#: No log gets that far: a million records a second would take 146,000 years.
_LAST_OFFSET = 1 << 62
_KEYS = ("topic_id", "partition")


@contextmanager
def reading_parquet(path: Path | str) -> Iterator[None]:
    """Name the file in whatever goes wrong while its bytes are read.

    Raises
    ------
    InputError
        When the block raises one of pyarrow's errors.
    """
    try:
        yield
    except FileNotFoundError:
        raise  # what is missing is not damaged, and who reads knows why it may be missing
    except DAMAGE as error:
        what = "damaged" if _has_magic(path) else "not a Parquet file"
        raise InputError(
            f"{path} is {what} ({first_line(error)}): restore it from a copy, or capture it again"
        ) from error


def check_values(table: pa.Table, path: Path | str) -> None:
    """Refuse a table of a capture with values that no cluster has.

    Parameters
    ----------
    table : pyarrow.Table
        Columns named and typed as in `sharelag.schemas`.
    path : pathlib.Path or str
        Named in the message.

    Raises
    ------
    InputError
        For a null in a partition's key, an offset above 2**62 or a time outside of the years 1 to
        9999.
    """
    for field in table.schema:
        column = table.column(field.name)
        if field.name in _KEYS and column.null_count:
            raise InputError(
                f"{path} has {column.null_count} rows without {field.name}: capture it again"
            )
        if pa.types.is_timestamp(field.type):
            _check(column.cast(pa.int64()), FIRST_MS, LAST_MS, f"{path}: {field.name}", "time")
        elif field.name.endswith("offset") and pa.types.is_integer(field.type):
            _check(column, -_LAST_OFFSET, _LAST_OFFSET, f"{path}: {field.name}", "offset")


def _check(column: pa.ChunkedArray, least: int, most: int, what: str, kind: str) -> None:
    span = pc.min_max(column).as_py()
    for value in (span["min"], span["max"]):
        if value is not None and not least <= value <= most:
            raise InputError(f"{what} has {value}, not a possible {kind}: capture it again")


def _has_magic(path: Path | str) -> bool:
    try:
        with Path(path).open("rb") as file:
            begins = file.read(4) == b"PAR1"
            file.seek(-4, 2)
            return begins and file.read() == b"PAR1"
    except OSError:
        return False
