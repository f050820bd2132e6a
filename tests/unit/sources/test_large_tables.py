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
    pq.write_table(
        pa.table({"topic": name, "partition": np.zeros(rows, np.int32)}),
        path,
        compression="zstd",
        dictionary_pagesize_limit=1 << 30,
        store_schema=is_dictionary,  # else it is read as plain texts
        write_statistics=False,
    )
    assert path.stat().st_size < 10_000

    def read() -> None:
        with pytest.raises(InputError, match=r"offsets\.parquet .* more than 1,024 MiB: nobody"):
            read_table(path)

    assert peak_of(read) < 64 << 20


def test_names_that_repeat_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "offsets.parquet"
    names = ["orders", None, "orders", "", "größe"] * 1000
    table = pa.table({"topic": names, "key": pa.array([b"\xff", None, b"", b"k", b"k"] * 1000)})
    pq.write_table(table, path)
    found = read_table(path)
    assert found.schema.equals(table.schema, check_metadata=True)
    assert found.equals(table)
