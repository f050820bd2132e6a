"""What a Parquet file or a folder from elsewhere may ask of this machine, and what is refused.

A few kilobytes of Parquet can claim billions of rows, or repeat one value of megabytes in each. A
link in a folder can lead anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.sources.files.parquet import opened, whole

#: Rows and bytes without compression that any file may have.
_SMALL_ROWS, _SMALL_BYTES = 1_000_000, 64 << 20
#: What larger files may have for each of their bytes. Each record has its own offset, and
#: keys and values of state repeat each other: recorded captures have 0.05 rows, and 8 bytes.
_ROWS_A_BYTE, _BYTES_A_BYTE = 20, 1000
#: Bytes in memory of a batch of rows, and of a table that is read at once.
BATCH_BYTES, TABLE_BYTES = 256 << 20, 1 << 30
#: Rows that are read at once, where they are small.
AT_ONCE = 50_000
_TEXTS = ("key", "value", "topic")
_TEXT_TYPES = (
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    *(pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view),
)


def check_footer(path: Path | str, footer: pq.FileMetaData) -> None:
    """Refuse a Parquet file that would become much larger than people write it.

    Raises
    ------
    InputError
        When it claims more than 20 rows, or 1,000 bytes without compression, for each of its bytes,
        and more than a million rows, or 64 MiB.
    pyarrow.ArrowInvalid
        When it has other rows than its row groups have together.
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
    """Return a row group once the first row of some of its columns has been read.

    Where sizes in a damaged footer contradict the schema, pyarrow aborts the process on a request
    for the column's metadata, but raises `OSError` on reading the column.
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
    """Return how many rows of some row groups to read at once.

    Parameters
    ----------
    path : pathlib.Path or str
    footer : pyarrow.parquet.FileMetaData
        Of that file, which is opened once: a footer is as long as it has row groups.
    numbers : iterable of int
        The row groups.
    rows : int
        So many, unless a dictionary has values so large that they would take more than
        `BATCH_BYTES`: the sizes in a footer count a repeated value once.
    texts : sequence of str
        Columns whose values may be of any length; those of raw records unless given.

    Raises
    ------
    InputError
        When the values of a row group are larger than `check_footer` lets a file be.
    """
    paths = [footer.schema.column(at).path for at in range(footer.num_columns)]
    places = {name: paths.index(name) for name in texts if name in paths}
    if not places:
        return rows
    with opened(path, metadata=footer, read_dictionary=list(places)) as file:
        for number in numbers:
            rows = _rows_of_group(path, file, number, rows, places)
    return rows


def batches_within(
    path: Path | str,
    file: pq.ParquetFile,
    columns: Sequence[str] | None = None,
    texts: Sequence[str] = _TEXTS,
) -> Iterator[pa.RecordBatch]:
    """Yield all rows of a file, as many at once as `rows_within` allows.

    Parameters
    ----------
    path : pathlib.Path or str
    file : pyarrow.parquet.ParquetFile
        That file, opened.
    columns : sequence of str, optional
        All unless given.
    texts : sequence of str
        As for `rows_within`.

    Raises
    ------
    InputError
        As `rows_within` does.
    pyarrow.ArrowInvalid
        As `sharelag.sources.files.parquet.whole` does.
    """
    rows = rows_within(path, file.metadata, range(file.num_row_groups), AT_ONCE, texts)
    yield from whole(file.iter_batches(rows, columns=columns), file.metadata.num_rows)


def _rows_of_group(
    path: Path | str, file: pq.ParquetFile, number: int, rows: int, places: Mapping[str, int]
) -> int:
    """Return how many rows of a row group to read at once, where texts have these places."""
    group = readable_group(file, number, list(places))
    if not group.num_rows:
        return rows
    columns = [group.column(at) for at in places.values()]
    names = [
        column.path_in_schema
        for column in columns
        if column.has_dictionary_page and column.total_uncompressed_size * rows > BATCH_BYTES
    ]
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
    """Read a small table of a capture or an archive.

    Texts stay in dictionaries until it is known how large they are without: a thousand rows may
    repeat one of many megabytes. Other columns are not read.

    Parameters
    ----------
    path : pathlib.Path or str
    schema : pyarrow.Schema
        The columns to read, and their types in the result.

    Raises
    ------
    InputError
        When a column is missing or of another type, the table takes more than `TABLE_BYTES`, or
        the footer counts more values in lists than `check_footer` lets a file have rows.
    """
    plain = opened(path)
    check_footer(path, plain.metadata)
    schemas.require_conformable(plain.schema_arrow, schema, str(path))
    stored = pa.schema([plain.schema_arrow.field(name) for name in schema.names])
    _check_lists(path, plain, stored)
    texts = [field.name for field in stored if _is_text(field.type)]
    file = opened(path, metadata=plain.metadata, read_dictionary=texts)
    batches, total = [], 0
    rows = file.iter_batches(1000, columns=schema.names, use_threads=False)
    for batch in whole(rows, file.metadata.num_rows):
        batches.append(batch.select(schema.names))
        total += sum(
            _octets(column) if _is_text(field.type) else column.nbytes
            for field, column in zip(stored, batches[-1].columns, strict=True)
        )
        if total > TABLE_BYTES:
            raise _too_much(path, Path(path).stat().st_size, f"more than {TABLE_BYTES >> 20:,} MiB")
    if not batches:
        return schema.empty_table()
    table = pa.Table.from_batches(batches)
    return schemas.conform(table, schema, str(path))


def _check_lists(path: Path | str, file: pq.ParquetFile, stored: pa.Schema) -> None:
    """Refuse lists that are longer, all together, than a file may have rows."""
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
    """Refuse a path that is not a regular file inside its folder.

    Raises
    ------
    InputError
        When it is a link that leads out of the folder, a folder, a pipe, a device, or missing.
    """
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
    """Return the length of the longest value of a column, or of its dictionary."""
    values = column.dictionary if isinstance(column, pa.DictionaryArray) else column
    return pc.max(pc.binary_length(values)).as_py() or 0


def _octets(column: pa.Array) -> int:
    """Return the length of all values of a column together."""
    if not isinstance(column, pa.DictionaryArray):
        return pc.sum(pc.binary_length(column)).as_py() or 0
    lengths = pc.binary_length(column.dictionary).cast(pa.int64())
    return pc.sum(lengths.take(column.indices)).as_py() or 0


def _too_much(path: Path | str, size: int, what: str) -> InputError:
    return InputError(
        f"{path} has {size:,} bytes and claims {what}: nobody writes that, so it is not read"
    )
