"""Columns reach the browser as they are, in whatever form people have them."""

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from sharelag.errors import InputError
from sharelag_widgets.columns import Column, column_of, pack, smallest, table_of
from tests.support.widgets.samples import HOSTILE
from tests.support.widgets.unpacked import unpacked

MOMENT = datetime(2026, 11, 21, 3, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (pa.array([1, None, -3], pa.int32()), [1, None, -3]),
        (pa.array([2**53, None]), [2**53, None]),
        (pa.array([0.5, None]), [0.5, None]),
        (pa.array([MOMENT, None], pa.timestamp("ms", tz="UTC")), [MOMENT.timestamp() * 1000, None]),
        (pa.array([MOMENT], pa.timestamp("ns", tz="Europe/Berlin")), [MOMENT.timestamp() * 1000]),
        (pa.array([HOSTILE, None, "", HOSTILE]), [HOSTILE, None, "", HOSTILE]),
        (pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
        (pa.array([True, None, False]), ["yes", None, "no"]),
        (pa.array([["count_differs", "x"], [], None]), ["count_differs; x", "", None]),
        (pa.array([[{"a": 1}]]), ['[{"a": 1}]']),
        (pa.chunked_array([["a"], ["b"]]), ["a", "b"]),
        (pa.chunked_array([[1], [None]], pa.int64()), [1, None]),
    ],
)
def test_every_kind_of_column_crosses(values: pa.Array, wanted: list[object]) -> None:
    assert unpacked(pack({"it": column_of(values, "it")})) == {"it": wanted}


def test_a_number_that_a_browser_cannot_hold_is_refused() -> None:
    with pytest.raises(InputError, match=r"big has a number beyond 2\^53"):
        column_of(pa.array([2**53 + 1]), "big")


def test_long_columns_are_compressed_and_short_ones_are_not() -> None:
    short, long = (pack({"n": Column(np.arange(n, dtype=np.uint32) % 7)}) for n in (10, 100_000))
    assert (short[4], long[4]) == (0, 1)
    assert len(long) < 40_000
    assert unpacked(long)["n"] == [n % 7 for n in range(100_000)]


def test_columns_of_any_length_and_type_lie_where_typed_arrays_can() -> None:
    kinds = enumerate(["u1", "u2", "f8"])
    columns = {f"{HOSTILE}{n}": Column(np.arange(n).astype(kind)) for n, kind in kinds}
    assert list(unpacked(pack(columns)).values()) == [[], [0], [0, 1]]


def test_offsets_take_four_bytes_while_they_can() -> None:
    assert smallest(np.array([0, 2**32 - 1])).dtype == np.uint32
    assert smallest(np.array([2**32])).tolist() == [2.0**32]
    assert smallest(np.array([], np.int64)).dtype == np.uint32


def test_tables_of_every_library_are_taken() -> None:
    wanted = pa.table({"partition": [0, 1]})

    class OfSpark:
        def toArrow(self) -> pa.Table:
            return wanted

    for rows in (
        wanted,
        wanted.to_batches()[0],
        wanted.to_pandas(),
        {"partition": np.array([0, 1])},
        OfSpark(),
    ):
        assert table_of(rows).to_pydict() == wanted.to_pydict()
    with pytest.raises(InputError, match="list is not a table: give an Arrow table"):
        table_of([1])
