"""Spans of time as people write them."""

from __future__ import annotations

from datetime import timedelta

from sharelag.errors import InputError


def span(every: str | float | timedelta) -> timedelta:
    """A span of time as people write it: ``"5min"``, seconds, or as it is.

    Raises
    ------
    InputError
        When it is none, or not above 0.
    """
    import pandas as pd

    try:
        step = pd.Timedelta(every) if isinstance(every, str) else pd.to_timedelta(every, "s")
    except ValueError as error:
        raise InputError(
            f'{every!r} is not a duration: give one such as "5min", or a number of seconds'
        ) from error
    if not step > pd.Timedelta(0):
        raise InputError(f"{every!r} is not a usable duration: give one longer than 0")
    return step.to_pytimedelta()
