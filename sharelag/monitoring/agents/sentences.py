"""What was wrong with a request, in sentences that an agent can act on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from sharelag.errors import ShareLagError
from sharelag.tables.words import is_number

#: By pydantic's type of an error: what to give instead.
_WANTED = {
    "less_than_equal": "give at most {le}",
    "less_than": "give less than {lt}",
    "greater_than_equal": "give at least {ge}",
    "greater_than": "give more than {gt}",
    "int_type": "give a whole number",
    "int_parsing": "give a whole number",
    "int_from_float": "give a whole number",
    "string_type": "give a text",
    "string_too_long": "give at most {max_length} characters",
    "too_long": "give at most {max_length} values",
    "list_type": "give a list",
    "missing": "it is missing",
}


def sentence_of(error: BaseException | None) -> str | None:
    """Say what to give instead.

    Parameters
    ----------
    error : BaseException or None
        What the SDK wrapped.

    Returns
    -------
    str or None
        None where it is neither an error of the arguments nor one of sharelag's, whose words
        may show what an agent must not see.
    """
    if isinstance(error, ValidationError):
        return "; ".join(map(_wrong, error.errors(include_url=False, include_context=True)))
    if error is not None and isinstance(error.__cause__, ShareLagError):
        return str(error.__cause__)
    return None


def _wrong(found: Mapping[str, Any]) -> str:
    wanted = _WANTED.get(found["type"])
    words = wanted.format(**found.get("ctx", {})) if wanted else str(found["msg"])
    given = found["input"]
    # Texts are not repeated: they may be long, and others may have chosen them.
    return f"{_place(found['loc'])}: {words}" + (f", not {given}" if is_number(given) else "")


def _place(path: tuple[int | str, ...]) -> str:
    """Name an argument, and of a list which of its values."""
    name, *places = path
    return f"{name}{''.join(f'[{place}]' for place in places if isinstance(place, int))}"
