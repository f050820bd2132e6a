"""Steps and spans of time, as a notebook gives them."""

from __future__ import annotations

import re
from datetime import timedelta

from sharelag.durations import parse_duration
from sharelag.errors import InputError


def span(every: str | float | timedelta) -> timedelta:
    """Read a span of time: ``"5m"``, a number of seconds, a timedelta, or pandas' ``"5min"``."""
    try:
        step = parse_duration(every)
    except InputError:
        step = _of_pandas(every)
    if step <= timedelta():
        raise InputError(f"invalid duration {every!r}: it must be longer than 0")
    return step


def _of_pandas(every: str | float | timedelta) -> timedelta:
    """Read what notebooks could always say, such as ``"5min"``."""
    import pandas as pd

    try:
        # A number alone would be nanoseconds to pandas.
        if not isinstance(every, str) or not re.search("[a-zA-Z:]", every):
            return parse_duration(every)  # one wording of what is wrong
        step = pd.Timedelta(every)
    except ValueError:
        return parse_duration(every)
    return step.to_pytimedelta() if step == step else timedelta()
