"""Tables of a capture that would fill the memory are refused before they do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sharelag.errors import InputError
from sharelag.sources.files.bounds import read_table
from tests.support.memory import peak_of


@pytest.mark.parametrize(
    ("kind", "size", "rows"),
    [
        (pa.string(), 1 << 20, 1100),
        (pa.large_string(), 1 << 20, 1100),
        (pa.string(), 4 << 20, 1000),  # which a reader would take at once
        (pa.binary(), 2 << 10, 600_000),
    ],
    ids=str,
)
@pytest.mark.parametrize("is_dictionary", [False, True])
def test_a_long_name_in_each_row_is_refused(
    kind: pa.DataType, size: int, rows: int, is_dictionary: bool, tmp_path: Path
) -> None:
    path = tmp_path / "offsets.parquet"
    name = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), pa.array(["t" * size], kind))
    table = pa.table({"topic": name, "partition": np.zeros(rows, np.int32)})
    pq.write_table(
        table,
        path,
        compression="zstd",
        dictionary_pagesize_limit=1 << 30,
        store_schema=is_dictionary,  # else it is read as plain texts
        write_statistics=False,
    )
    assert path.stat().st_size < 10_000

    def read() -> None:
        with pytest.raises(InputError, match=r"offsets\.parquet .* more than 1,024 MiB: nobody"):
            read_table(path, table.schema)

    assert peak_of(read) < 64 << 20


def test_a_list_of_many_numbers_is_refused_and_not_read_where_nobody_asks(tmp_path: Path) -> None:
    path, length = tmp_path / "leaders.parquet", 1 << 25
    lists = pa.ListArray.from_arrays([0, length], np.zeros(length, np.int32))
    table = pa.table({"topic": ["orders"], "replicas": lists})
    pq.write_table(table, path, compression="zstd", use_dictionary=True)
    assert path.stat().st_size < 50_000

    def refused() -> None:
        with pytest.raises(
            InputError, match=r"leaders\.parquet .* 33,554,432 values in lists: nobo"
        ):
            read_table(path, table.schema)

    def read() -> None:
        found = read_table(path, table.schema.remove(1))
        assert found.equals(table.select(["topic"]))

    assert max(peak_of(refused), peak_of(read)) < 16 << 20


def test_names_that_repeat_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "offsets.parquet"
    names = ["orders", None, "orders", "", "größe"] * 1000
    table = pa.table({"topic": names, "key": pa.array([b"\xff", None, b"", b"k", b"k"] * 1000)})
    pq.write_table(table, path)
    found = read_table(path, table.schema)
    assert found.schema.equals(table.schema, check_metadata=True)
    assert found.equals(table)
