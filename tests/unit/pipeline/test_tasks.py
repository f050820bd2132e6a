"""What a task may hold: so many rows, and so many bytes."""

from __future__ import annotations

from typing import cast

import pytest
from pyspark.sql import SparkSession

from sharelag.pipeline.tasks import Files
from sharelag.sources.files.pieces import Piece, Plan
from sharelag.sources.files.raw_files import RawFile

NO_SESSION = cast("SparkSession", None)


def piece(rows: int, size: int) -> Piece:
    return Piece(RawFile("a.parquet"), 0, rows, size, 0, 0, (rows, 1, 1000))


@pytest.mark.parametrize(
    ("task", "are_whole"),
    [
        ([piece(1_000_000, 64 << 20)] * 2, True),
        ([piece(1_000_000, 64 << 20)] * 3, False),
        ([piece(1000, 128 << 20)] * 2, True),
        ([piece(1000, 128 << 20)] * 3, False),
    ],
)
def test_a_task_holds_all_its_records_only_if_neither_rows_nor_bytes_are_too_many(
    task: list[Piece], are_whole: bool
) -> None:
    small = [piece(1, 1)]
    assert Files(NO_SESSION, Plan([small, task], whole=True)).are_whole == are_whole
    assert not Files(NO_SESSION, Plan([small, task], whole=False)).are_whole
