"""Damaged files: one sentence that names the file; values that no cluster has are refused."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import InputError, first_line
from sharelag.schemas.records import FIRST_MS, LAST_MS
from sharelag.sources.files.bounds import check_inside

#: What pyarrow raises for bytes that are not as promised; names of columns are decoded late.
DAMAGE = (OSError, pa.ArrowException, UnicodeDecodeError)
#: No log gets that far: a million records a second would take 146,000 years.
_LAST_OFFSET = 1 << 62
_KEYS = ("topic_id", "partition")
#: The field of a description with the CRC-32 of all others.
_CHECKSUM = "crc32"
#: Bytes that a description may have: those that are written have about one thousand.
_MOST_BYTES = 1 << 20


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


def write_description(path: Path, about: Mapping[str, Any]) -> None:
    """Write what a capture or an archive says of itself as JSON, with a checksum."""
    text = json.dumps({**about, _CHECKSUM: _checksum(about)}, indent=2)
    path.write_text(text + "\n", encoding="utf-8")


def read_description(path: Path) -> Any:
    """Read what `write_description` wrote, or earlier versions without a checksum.

    Raises
    ------
    ValueError
        When it is not JSON in UTF-8, or nested deeper than anybody writes it.
    InputError
        When its checksum is another, it has more than a megabyte, or cannot be opened, such as a
        link out of its folder.
    """
    check_inside(path, path.parent)
    try:
        with path.open("rb") as file:
            octets = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})") from error
    if len(octets) > _MOST_BYTES:
        raise InputError(f"{path} has more than {_MOST_BYTES >> 20} MiB: capture it again")
    try:
        about = json.loads(octets.decode("utf-8"))
        written = about.pop(_CHECKSUM, None) if isinstance(about, dict) else None
        is_damaged = written is not None and written != _checksum(about)
    except UnicodeDecodeError:
        # Its words have all bytes, which may be secret: those of any file that a link leads to.
        raise ValueError("not UTF-8") from None
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if is_damaged:
        raise InputError(
            f"{path} is damaged (another checksum): restore it from a copy, or remove the line "
            f"{_CHECKSUM} from it if you changed it yourself"
        )
    return about


def _checksum(about: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(about, sort_keys=True).encode()):08x}"


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
