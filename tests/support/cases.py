"""How many cases a test runs."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def few_of(values: Iterable[Any], few: Collection[Any]) -> list[Any]:
    """All values of a parameter: some for every run, the others for an exhaustive one."""
    return [v if v in few else pytest.param(v, marks=pytest.mark.exhaustive) for v in values]


class Cases:
    """Call it with the number for every run and the number for an exhaustive one."""

    def __init__(self, exhaustive: bool) -> None:
        self.exhaustive = exhaustive

    def __call__(self, quick: int, exhaustive: int) -> int:
        return exhaustive if self.exhaustive else quick
