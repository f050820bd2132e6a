"""How many random cases a test runs."""

from __future__ import annotations


class Cases:
    """Call it with the number for every run and the number for an exhaustive one."""

    def __init__(self, exhaustive: bool) -> None:
        self.exhaustive = exhaustive

    def __call__(self, quick: int, exhaustive: int) -> int:
        return exhaustive if self.exhaustive else quick
