"""Read and write Parquet files, and limit what foreign files can make us do.

Each page has a checksum, which every reader verifies. A damaged file is an error that names the
file. A few kilobytes of Parquet can claim billions of rows, or repeat a value of megabytes in each;
a link in a folder can lead anywhere.

Delta tables are replaced as a whole or extended by deltalake: no jar, no Spark.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sharelag import schemas
from sharelag.errors import InputError, first_line
from sharelag.inputs.files.raw_files import refuse_unreadable, require_path
from sharelag.schemas import FIRST_MS, LAST_MS
from sharelag.tables.words import pluralize

if TYPE_CHECKING:
    from deltalake import DeltaTable


#: Exceptions of pyarrow for damaged bytes; column names are decoded late.
DAMAGE = (OSError, pa.ArrowException, UnicodeDecodeError)
#: No log gets that far: at a million records a second it would take 146,000 years.
_LAST_OFFSET = 1 << 62
_KEYS = ("topic_id", "partition")


@contextmanager
def reading_parquet(path: Path | str) -> Iterator[None]:
    """Convert any error while a file's bytes are read to an InputError that names the file."""
    try:
        yield
    except DAMAGE as error:
        if isinstance(error, PermissionError):
            refuse_unreadable(PermissionError(error.errno, os.strerror(errno.EACCES), str(path)))
        if isinstance(error, OSError) and error.errno:
            raise  # not damage: the file is missing, which the caller explains, or the disk fails
        what = "damaged" if _has_magic(path) else "not a Parquet file"
        raise InputError(
            f"{path} is {what} ({first_line(error)}): restore it from a copy, or capture it again"
        ) from error


def check_values(table: pa.Table, path: Path | str) -> None:
    """Reject null keys, offsets above 2**62 and times outside of the years 1 to 9999."""
    for field in table.schema:
        column = table.column(field.name)
        if field.name in _KEYS and column.null_count:
            without = pluralize(column.null_count, "row")
            raise InputError(f"{path} has {without} without {field.name}: capture it again")
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


# ---- with checksums -----------------------------------------------------------------------------


#: Key bytes repeat across records, values do not: zstd compresses both to a quarter. It does not
#: detect every flipped bit: without checksums, some would change numbers and names.
_WRITTEN = {"compression": "zstd", "write_page_checksum": True}
#: Options that verify checksums in pyarrow, and in Spark's reader. Files without any are accepted.
COMPARED = {"page_checksum_verification": True}
COMPARED_BY_SPARK = {"parquet.page.verify-checksum.enabled": "true"}


def writer(where: Path | Any, schema: pa.Schema) -> pq.ParquetWriter:
    """Create a writer for a file that is read later; ``where`` is a path or an open file."""
    return pq.ParquetWriter(where, schema, **_WRITTEN)


def write_table(table: pa.Table, where: Path | Any) -> None:
    """Write a complete file."""
    pq.write_table(table, where, **_WRITTEN)


def open_parquet(where: Path | Any, **options: Any) -> pq.ParquetFile:
    """Open a file; the checksums of its pages are verified as they are read."""
    return pq.ParquetFile(where, **COMPARED, **options)


def count_rows(where: Path | str) -> int:
    """Return the number of rows in the footer of a file."""
    with reading_parquet(where):
        return int(pq.read_metadata(where).num_rows)


def check_whole(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield batches, and verify that they have what their file promises.

    No checksum covers the headers of pages: if one is damaged, pyarrow truncates the column, and
    drops the rows of the others. It also detects text that is not UTF-8 only when that row is
    accessed. Both raise a pyarrow.ArrowInvalid here; ``rows`` is the number in the footer.
    """
    found = 0
    for batch in batches:
        batch.validate(full=True)
        found += batch.num_rows
        yield batch
    if found != rows:
        raise pa.ArrowInvalid(f"{found:,} of {rows:,} rows could be read")


# ---- maximum sizes -------------------------------------------------------------------------------


#: Rows and uncompressed bytes that any file may have.
_SMALL_ROWS, _SMALL_BYTES = 1_000_000, 64 << 20
#: Rows and uncompressed bytes that larger files may have per byte. Each record has its own offset,
#: while keys and values of state repeat: recorded captures have 0.05 rows and 8 bytes.
_ROWS_A_BYTE, _BYTES_A_BYTE = 20, 1000
#: Bytes in memory of a batch of rows, and of a table that is read as a whole.
BATCH_BYTES, TABLE_BYTES = 256 << 20, 1 << 30
#: Maximum number of rows per batch.
AT_ONCE = 50_000
_TEXTS = ("key", "value", "topic")
_TEXT_TYPES = (
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    *(pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view),
)


def check_footer(path: Path | str, footer: pq.FileMetaData) -> None:
    """Reject a Parquet file that would become much larger than real data.

    Beyond a million rows or 64 MiB, it is an InputError to claim more than 20 rows, or 1,000
    uncompressed bytes, per byte; and a pyarrow.ArrowInvalid if the row groups have another total.
    """
    size = Path(path).stat().st_size
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    if (rows := sum(group.num_rows for group in groups)) != footer.num_rows:
        raise pa.ArrowInvalid(f"{footer.num_rows:,} rows, and {rows:,} in its row groups")
    octets = sum(group.total_byte_size for group in groups)
    if footer.num_rows > max(_SMALL_ROWS, _ROWS_A_BYTE * size):
        raise _too_much(path, size, f"{footer.num_rows:,} rows")
    if octets > _most_bytes(size):
        raise _too_much(path, size, f"{octets >> 20:,} MiB")


def readable_group(file: pq.ParquetFile, number: int, names: list[str]) -> pq.RowGroupMetaData:
    """Return a row group after the first row of some of its columns has been read.

    If sizes in a damaged footer contradict the schema, pyarrow aborts the process when the column's
    metadata is requested, but raises `OSError` when the column is read.
    """
    next(file.iter_batches(1, [number], names, use_threads=False), None)
    return file.metadata.row_group(number)


def rows_within(
    path: Path | str,
    footer: pq.FileMetaData,
    numbers: Iterable[int],
    rows: int,
    texts: Sequence[str] = _TEXTS,
) -> int:
    """Return the number of rows of some row groups to read at once: at most ``rows``.

    Fewer if large dictionary values of ``texts``, which have any length, would exceed
    `BATCH_BYTES`: a footer counts a repeated value once. Values beyond the limits of `check_footer`
    are an InputError.
    """
    paths = [footer.schema.column(at).path for at in range(footer.num_columns)]
    places = {name: paths.index(name) for name in texts if name in paths}
    if not places:
        return rows
    with open_parquet(path, metadata=footer, read_dictionary=list(places)) as file:
        for number in numbers:
            rows = _rows_of_group(path, file, number, rows, places)
    return rows


def batches_within(
    path: Path | str,
    file: pq.ParquetFile,
    columns: Sequence[str] | None = None,
    texts: Sequence[str] = _TEXTS,
    groups: Iterable[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an open file, or some columns, in batches limited by `rows_within`.

    ``groups`` are the row groups to read, by default all.
    """
    numbers = list(range(file.num_row_groups) if groups is None else groups)
    rows = rows_within(path, file.metadata, numbers, AT_ONCE, texts)
    total = sum(file.metadata.row_group(number).num_rows for number in numbers)
    yield from check_whole(file.iter_batches(rows, numbers, columns=columns), total)


def _rows_of_group(
    path: Path | str, file: pq.ParquetFile, number: int, rows: int, places: Mapping[str, int]
) -> int:
    """Return the number of rows of a row group to read at once; ``places`` are those of texts."""
    group = readable_group(file, number, list(places))
    if not group.num_rows:
        return rows
    columns = [group.column(at) for at in places.values()]
    coded = [column for column in columns if column.has_dictionary_page]
    large = [column for column in coded if column.total_uncompressed_size * rows > BATCH_BYTES]
    names = [column.path_in_schema for column in large]
    if not names:
        return rows
    first = next(file.iter_batches(1, [number], names, use_threads=False))
    largest = sum(_largest(column) for column in first.columns)
    size = Path(path).stat().st_size
    most = _most_bytes(size)
    if largest * group.num_rows > most:
        total = 0
        for batch in file.iter_batches(AT_ONCE, [number], names, use_threads=False):
            total += sum(_octets(column) for column in batch.columns)
            if total > most:
                raise _too_much(path, size, f"more than {most >> 20:,} MiB")
    return max(1, min(rows, BATCH_BYTES // max(largest, 1)))


def read_table(path: Path | str, schema: pa.Schema) -> pa.Table:
    """Read a small table of a capture or archive, with the columns and types of a schema.

    Texts stay dictionary-encoded until their decoded size is known: a thousand rows may repeat one
    of many megabytes. It is an InputError if the file is damaged, lacks a column, has values that
    no cluster has, exceeds `TABLE_BYTES`, or has more list values than the permitted number of
    rows.
    """
    batches, total = [], 0
    with reading_parquet(path):
        plain = open_parquet(path)
        check_footer(path, plain.metadata)
        schemas.require_conformable(plain.schema_arrow, schema, str(path))
        stored = pa.schema([plain.schema_arrow.field(name) for name in schema.names])
        _check_lists(path, plain, stored)
        texts = [field.name for field in stored if _is_text(field.type)]
        file = open_parquet(path, metadata=plain.metadata, read_dictionary=texts)
        rows = file.iter_batches(1000, columns=schema.names, use_threads=False)
        for batch in check_whole(rows, file.metadata.num_rows):
            batches.append(batch.select(schema.names))
            total += sum(map(_octets, batches[-1].columns))
            if total > TABLE_BYTES:
                what = f"more than {TABLE_BYTES >> 20:,} MiB"
                raise _too_much(path, Path(path).stat().st_size, what)
        table = pa.Table.from_batches(batches) if batches else schema.empty_table()
        table = schemas.conform(table, schema, str(path))
    check_values(table, path)
    return table


def _check_lists(path: Path | str, file: pq.ParquetFile, stored: pa.Schema) -> None:
    nested = {field.name for field in stored if pa.types.is_nested(field.type)}
    footer, size = file.metadata, Path(path).stat().st_size
    paths = [footer.schema.column(at).path for at in range(footer.num_columns)]
    lists = [at for at, name in enumerate(paths) if name.partition(".")[0] in nested]
    flat = [name for name in stored.names if name not in nested]
    for number in range(footer.num_row_groups if lists else 0):
        group = readable_group(file, number, flat)
        values = sum(group.column(at).num_values for at in lists)
        if values > max(_SMALL_ROWS, _ROWS_A_BYTE * size):
            raise _too_much(path, size, f"{values:,} values in lists")


def check_inside(path: Path, folder: Path) -> None:
    """Reject a path that is not a regular file inside its folder, such as a link out of it."""
    if not path.is_file():
        raise InputError(f"{path} is not a file: restore it from a copy, or capture it again")
    if not path.resolve().is_relative_to(folder.resolve()):
        raise InputError(
            f"{path} is a link that leads out of {folder}: copy the file to that place, if you "
            "trust it"
        )


def _most_bytes(size: int) -> int:
    return max(_SMALL_BYTES, _BYTES_A_BYTE * size)


def _is_text(kind: pa.DataType) -> bool:
    values = kind.value_type if pa.types.is_dictionary(kind) else kind
    return any(is_one(values) for is_one in _TEXT_TYPES)


def _largest(column: pa.Array) -> int:
    values = column.dictionary if isinstance(column, pa.DictionaryArray) else column
    return pc.max(pc.binary_length(values)).as_py() or 0


def _octets(column: pa.Array) -> int:
    """Return the bytes of a column after dictionary decoding."""
    if not isinstance(column, pa.DictionaryArray):
        return int(column.nbytes)
    lengths = pc.binary_length(column.dictionary).cast(pa.int64())
    return pc.sum(lengths.take(column.indices)).as_py() or 0


def _too_much(path: Path | str, size: int, what: str) -> InputError:
    return InputError(
        f"{path} has {size:,} bytes and claims {what}: no writer produces that, so it is not read"
    )


# Table properties; the shortest log retention that deltalake accepts is a day.
_SETTINGS = {
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
}

#: How many processes may create a table at the same time.
_CREATORS = 8
_OF = " of cluster "


def open_table(place: Path | str) -> DeltaTable | None:
    """Open a table; None if there is none, InputError if it cannot be read."""
    if find_spec("deltalake") is None:
        raise InputError("Delta tables need deltalake: pip install 'sharelag[lake]'")
    require_path(place)
    kind: type[DeltaTable] = import_module("deltalake").DeltaTable
    with translate_errors(f"cannot read {place}"):
        return kind(str(place)) if kind.is_deltatable(str(place)) else None


def replace_table(place: Path | str, table: pa.Table, name: str, about: Mapping[str, str]) -> None:
    """Replace the rows of a table in one commit, or create it with a name.

    ``about`` is stored with the commit. It is an InputError if the table cannot be written.
    """
    # An older version may have written another schema.
    how = {"mode": "overwrite", "schema_mode": "overwrite", "configuration": _SETTINGS}
    _write(place, table, name, about, how)


def name_of(what: str, cluster: str | None) -> str:
    """Name a table by its content, and by its cluster if that is known."""
    return what + (f"{_OF}{cluster}" if cluster else "")


def require_same(found: DeltaTable, place: Path | str, what: str, cluster: str | None) -> None:
    """Reject a table of other content, or of another known cluster; see `name_of`."""
    name, _, other = str(found.metadata().name).partition(_OF)
    if name != what:
        raise InputError(f"{place} is not a table of {what}: choose another folder")
    if other and cluster and other != cluster:
        raise InputError(
            f"{place} has the {what} of cluster {other}, not of {cluster}: choose another folder"
        )


def append_rows(place: Path | str, table: pa.Table, name: str, about: Mapping[str, str]) -> None:
    """Append rows to a table in one commit, or create it; parameters as for `replace_table`.

    If several processes create a table at the same time, one wins, and the others append to it.
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

    fields = [  # in microseconds
        field.with_type(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(field.type) else field
        for field in table.schema
    ]
    require_path(place)
    how = how | {"commit_properties": CommitProperties(custom_metadata=dict(about))}
    with translate_errors(f"cannot write to {place}"):
        write_deltalake(str(place), table.cast(pa.schema(fields)), name=name, **how)


@contextmanager
def translate_errors(what: str) -> Iterator[None]:
    """Convert errors of deltalake to errors that say what to do."""
    from deltalake.exceptions import DeltaError

    try:
        yield
    except BaseException as error:  # also a panic in Rust
        if not isinstance(error, DeltaError | OSError) and type(error).__name__ != "PanicException":
            raise
        raise InputError(f"{what} ({first_line(error)}): check the path and permissions") from error


def remove_old_files(place: Path | str, keep: timedelta) -> None:
    """Remove files of states replaced longer ago than ``keep``, and of killed writers."""
    found = open_table(place)
    if found is not None:
        hours = keep // timedelta(hours=1)
        with translate_errors(f"cannot remove old files of {place}"):
            found.vacuum(hours, dry_run=False, enforce_retention_duration=False, full=True)
