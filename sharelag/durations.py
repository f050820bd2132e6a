"""Parse and format durations: `500ms`, `30s`, `5m`, `2h`, `1d`, `1h30m`, `5 minutes`.

Typed durations require a unit. Numbers in Python are seconds, so they are never parsed from text.
"""

from __future__ import annotations

import re
from datetime import timedelta

from sharelag.errors import InputError

#: The units, the longest first.
UNITS = {
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
}
#: The spellings of Spark and pandas.
_SPELLED = ("d(?:ays?)?", "h(?:ours?)?", "m(?:in(?:utes?)?)?", "s(?:ec(?:onds?)?)?", "ms")
_NUMBER = r"([0-9]{1,15}(?:\.[0-9]+)?|\.[0-9]+)"
_PARTS = re.compile(r"\s*".join(rf"(?:{_NUMBER}\s*{unit})?" for unit in _SPELLED))
_BARE = re.compile(r"\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_MILLISECOND = UNITS["ms"]
#: About a thousand years: beyond that, the beginning of a span may not be a valid date.
_MOST = timedelta(days=365_000)


def parse_duration(value: str | float | timedelta, bare: str | None = None) -> timedelta:
    """Parse a duration.

    Parameters
    ----------
    value : str, float or timedelta
        Text with units, the longest first (``1h30m``); a number of seconds; or a timedelta.
    bare : {"d", "h", "m", "s", "ms"}, optional
        The unit of a text without one. By default such a text is an error.

    Raises
    ------
    InputError
        It is not a duration, is negative, or is longer than about a thousand years.
    """
    span = value if isinstance(value, timedelta) else _read(value, bare)
    if span < timedelta():
        raise InputError(f"invalid duration {value}: it is negative")
    if span > _MOST:
        raise InputError(f"invalid duration {value!r}: it is too long")
    return span


def _read(value: str | float, bare: str | None) -> timedelta:
    if not isinstance(value, str):
        bare = bare or "s"
    text = str(value).strip()
    found = _PARTS.fullmatch(text)
    try:
        if found and text:
            parts = zip(UNITS.values(), found.groups(default="0"), strict=True)
            return sum((unit * float(number) for unit, number in parts), timedelta())
        if bare is not None and _BARE.fullmatch(text):
            return UNITS[bare] * float(text)
    except OverflowError:
        return timedelta.max
    raise InputError(f"invalid duration {value!r}: use a number with a unit, such as 30s, 5m or 2h")


def parse_span(value: str | float | timedelta) -> timedelta:
    """Parse a duration longer than 0; see `parse_duration`."""
    span = parse_duration(value)
    if not span:
        raise InputError(f"invalid duration {value!r}: it must be longer than 0")
    return span


def spell(span: timedelta) -> str:
    """Format a duration exactly, as `parse_duration` accepts it: ``1h30m``."""
    if not span:
        return "0s"
    parts = []
    for name, unit in list(UNITS.items())[:-1]:
        count, span = divmod(span, unit)
        if count:
            parts.append(f"{count}{name}")
    if span:
        parts.append(f"{span / _MILLISECOND:.15g}ms")
    return "".join(parts)


def duration(milliseconds: float) -> str:
    """Format a duration for people, in its two largest units: ``3m 20s``, ``10m``."""
    seconds = milliseconds / 1000
    if 0 < milliseconds < 1:
        return f"{milliseconds:.3g} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    parts: list[str] = []
    for name, unit in list(UNITS.items())[:-1]:
        count, seconds = divmod(seconds, unit.total_seconds())
        if parts or count:
            parts.append(f"{count:.0f}{name}")
    return " ".join(part for part in parts[:2] if part[0] != "0")
