"""Numbers that count something are whole: a fraction would end a simulation in its middle."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from numbers import Integral
from typing import Any

from sharelag.errors import InputError

#: Milliseconds by which the clock itself counts; other spans may be fractions.
_CLOCK = frozenset({"duration_ms", "step_ms", "begins_ms"})
#: What was found of each dataclass.
_KNOWN: dict[type[Any], tuple[str, ...]] = {}


def require_whole(parts: Iterable[Any]) -> None:
    """Refuse fractions in fields that count something: members, offsets, records, partitions.

    Whole numbers of numpy become those of Python.

    Parameters
    ----------
    parts : iterable of dataclass instances

    Raises
    ------
    InputError
        One has a number that is not whole, or something else than a number.
    """
    for part in parts:
        kind = type(part)
        for name in _counted(kind):
            value = getattr(part, name)
            if type(value) is int:
                continue
            if not isinstance(value, Integral) or isinstance(value, bool):
                where = f"{kind.__name__}.{name}"
                raise InputError(f"{where} must be a whole number, not {value!r}: round it")
            object.__setattr__(part, name, int(value))  # of numpy: JSON takes Python's alone


def _counted(kind: type[Any]) -> tuple[str, ...]:
    """The fields of a dataclass that are declared as numbers and count something."""
    if kind not in _KNOWN:
        _KNOWN[kind] = tuple(
            field.name
            for field in fields(kind)
            if field.type in ("int", int)
            and (field.name in _CLOCK or not field.name.endswith("_ms"))
        )
    return _KNOWN[kind]
