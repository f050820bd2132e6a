"""What is said when Spark's tasks find that files are not what they were."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pyspark.sql import DataFrame

from sharelag import schemas
from sharelag.engine.spark.collecting import collected
from sharelag.errors import InputError


class Failing:
    """A DataFrame whose tasks fail."""

    def __init__(self, message: str) -> None:
        self._message = message

    def select(self, _: list[str]) -> Failing:
        return self

    def toArrow(self) -> Any:
        raise RuntimeError(self._message)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            "Traceback\nsharelag.errors.InputError: a changed: open it again\n\tat org",
            r"^a changed: open it again$",
        ),
        ("Traceback ...\nFileNotFoundError: a.parquet\n\tat org", "are gone: .* Read it again"),
    ],
)
def test_a_task_that_misses_its_file_says_what_to_do(message: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        collected(cast("DataFrame", Failing(message)), schemas.WINDOWS)


def test_other_errors_of_tasks_are_left_as_they_are() -> None:
    with pytest.raises(RuntimeError, match="no memory"):
        collected(cast("DataFrame", Failing("no memory")), schemas.WINDOWS)
