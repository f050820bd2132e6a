"""Is the persisted delivery complete count compared with the state batches it was computed from?"""

from pathlib import Path
from typing import Any

import pytest

from sharelag.tables.gaps import COUNT_DIFFERS
from sharelag.wire import SHARE_SNAPSHOT, encode_record
from tests.support.command import ask
from tests.support.records import raw, raw_file, row

#: What is durable after step 8 of the walk from 100 to 120, and after step 10.
STEP_8 = [(110, 112, 0, 1), (113, 119, 2, 1)]
STEP_10 = [(110, 110, 2, 2), (111, 112, 0, 1), (113, 119, 2, 1)]


def lag_of(folder: Path, start: int, batches: list[Any], count: int) -> dict[str, Any]:
    record = encode_record(SHARE_SNAPSHOT, row(start, batches, delivery_complete_count=count))
    (line,) = ask("lag", "--raw", raw_file(folder, raw([record])), "--engine", "local")
    return line


@pytest.mark.row("PSS-10")
@pytest.mark.parametrize(
    ("start", "batches", "right"),
    [(110, STEP_8, 7), (110, STEP_10, 8), (111, STEP_10[1:], 7), (111, STEP_10, 7)],
)
def test_the_count_is_that_of_terminal_offsets_from_the_start_on(
    tmp_path: Path, start: int, batches: list[Any], right: int
) -> None:
    notes = {n: lag_of(tmp_path, start, batches, n)["notes"] for n in range(right - 1, right + 2)}
    found = {count: COUNT_DIFFERS in said for count, said in notes.items()}
    assert found == {right - 1: True, right: False, right + 1: True}
