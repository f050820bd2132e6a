"""Goals of a search: a measure and its limit, such as ``age_p95<30s``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta

from sharelag.durations import parse_duration
from sharelag.errors import InputError
from sharelag.whatif.comparison.tables import MEASURED, RUNS

_KNOWN = tuple(name for name in MEASURED if name in RUNS.names)
_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_GOAL = re.compile(r"\s*(\w+?)\s*(<=?|>=?)\s*(\d[\w. ]*)\s*")


@dataclass(frozen=True)
class Goal:
    """What is to be kept: the mean of a measure over the seeds, at most at a limit, or at least.

    Attributes
    ----------
    measure
        A key of `sharelag.whatif.comparison.tables.MEASURED`, such as ``age_p95_ms``.
    limit
        In its unit; the limit itself is fine.
    above
        Whether the measure is to be above the limit and not below.
    confidence
        That it is kept, for each number of members.
    """

    measure: str
    limit: float
    above: bool = False
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if self.measure not in _KNOWN:
            raise InputError(f"unknown measure {self.measure!r}: choose one of {', '.join(_KNOWN)}")
        if not 0.5 < self.confidence < 1:
            raise InputError(f"confidence must be above 0.5 and below 1, not {self.confidence}")

    @classmethod
    def parse(cls, text: str, confidence: float = 0.95) -> Goal:
        """Read ``age_p95<30s`` or ``lag_p95 <= 1000``.

        The measure of a time may also be written as its column is called: ``age_p95_ms<30s``.

        Raises
        ------
        InputError
            It is written otherwise.
        """
        found = _GOAL.fullmatch(text)
        if not found:
            raise _invalid(text, "write a measure and its limit, such as age_p95<30s")
        written, sign, limit = found.groups()
        measure = f"{written}_ms" if f"{written}_ms" in _KNOWN else written
        try:
            number = float(limit)
        except ValueError:
            number = None
        if measure in _KNOWN and measure.endswith("_ms"):
            if number is not None:
                name = measure.removesuffix("_ms")
                unit = "ms" if written == measure else "s"
                raise _invalid(text, f"the limit needs a unit, such as {name}{sign}{limit}{unit}")
            try:
                number = parse_duration(limit) / timedelta(milliseconds=1)
            except InputError as error:
                raise _invalid(text, str(error)) from None
        elif number is None and measure in _KNOWN:
            raise _invalid(text, f"the limit of {measure} is a number, such as {measure}{sign}1000")
        return cls(measure, number or 0.0, sign.startswith(">"), confidence)

    def __str__(self) -> str:
        sign = ">=" if self.above else "<="
        return f"{self.measure.removesuffix('_ms')} {sign} {self._limit()}"

    def _limit(self) -> str:
        """The goal as `parse` reads it: a time in the largest unit in which it is at least 1."""
        if not self.measure.endswith("_ms"):
            return f"{self.limit:.12g}"
        written = (
            (f"{self.limit / size:.12g}", size, unit) for unit, size in reversed(_UNITS.items())
        )
        fits = (
            f"{number}{unit}"
            for number, size, unit in written
            if float(number) * size == self.limit >= size
        )
        return next(fits, f"{self.limit:.12g}ms")


def _invalid(goal: str, fix: str) -> InputError:
    return InputError(f"invalid goal {goal!r}: {fix}")
