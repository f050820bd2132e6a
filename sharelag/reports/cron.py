"""Cron's five fields, written so that every scheduler understands the same by them.

Crontabs, robfig/cron (Kubernetes), croniter (Airflow, jupyter-scheduler) and systemd agree on
numbers, lists, ascending ranges and steps of them. What only some know is written out where it
means the same, and refused where it does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from zoneinfo import available_timezones

from croniter import CroniterBadDateError, croniter

from sharelag.errors import InputError

_EVERY_FIELD = 5
_SUNDAY = 7
_DAY, _WEEKDAY = 2, 4
_NAMES = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
_ALLOWED = re.compile(
    r"(?:[\d*,/-]|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|sun|mon|tue|wed|thu|fri|sat)+",
    re.I,
)
_EXTENSION = re.compile(r"[?#LW]", re.I)
#: A part of a field that all of them read alike: every n-th, a number, an ascending range.
_PLAIN = re.compile(r"\*(?:/\d+)?|(\d+)(?:-(\d+)(?:/\d+)?)?")


def cron_for_all(cron: str) -> str:
    """The expression with numbers for names, 0 for Sunday, and lists for ranges that go round.

    Parameters
    ----------
    cron : str
        Five fields: minute, hour, day of the month, month, day of the week.

    Raises
    ------
    InputError
        It is none, names no moment, or schedulers read it in different ways.
    """
    fields = cron.split()
    if len(fields) == _EVERY_FIELD and any(_EXTENSION.search(field) for field in _unnamed(fields)):
        raise InputError(
            f"{cron!r} has a sign (L, W, # or ?) that some schedulers do not know or read as something else: name "
            "the days by number"
        )
    whole = len(fields) == _EVERY_FIELD and all(
        _ALLOWED.fullmatch(field) and (field == "*" or "*" not in field.split(","))
        for field in fields
    )
    if not whole or not croniter.is_valid(" ".join(fields)):
        raise InputError(
            f"{cron!r} is no cron expression of five fields: give minute, hour, day, month and weekday, such as "
            "'30 6 * * *'"
        )
    expanded = croniter.expand(" ".join(fields))[0]
    days = (fields[_DAY], fields[_WEEKDAY])
    if "*" not in days and any(one.startswith("*") for one in days):
        raise InputError(
            f"{cron!r} has a step of all days beside other days: some schedulers take the days of both, some "
            "of either; name the days by number"
        )
    plain = " ".join(
        field if _is_plain(field, place) else _listed(expanded[place])
        for place, field in enumerate(fields)
    )
    try:
        croniter(plain, datetime(2025, 1, 1, tzinfo=UTC)).get_next()
    except CroniterBadDateError:
        raise InputError(f"{cron!r} names a day that never comes: name another one") from None
    return plain


def zone_checked(zone: str | None) -> str | None:
    """A time zone by its name in the IANA database, such as Europe/Berlin.

    Raises
    ------
    InputError
        There is none of that name.
    """
    if zone is not None and zone not in available_timezones():
        raise InputError(f"{zone!r} is no time zone: name one such as Europe/Berlin or Etc/UTC")
    return zone


def calendar(cron: str, zone: str | None = None) -> str:
    """The lines of systemd's ``OnCalendar=`` for an expression of `cron_for_all`, see systemd.time(7)."""
    minute, hour, day, month, weekday = croniter.expand(cron)[0]

    def some(values: list[Any], name: Callable[[int], str] = lambda value: f"{value:02d}") -> str:
        return "*" if values == ["*"] else ",".join(name(value) for value in sorted(values))

    time = f"{some(hour)}:{some(minute)}:00" + (f" {zone}" if zone else "")
    days = f"*-{some(month)}-{some(day)} {time}"
    week = f"{some(weekday, lambda value: _NAMES[value])} *-{some(month)}-* {time}"
    # Cron takes either day where both are named.
    lines = ([week] if weekday != ["*"] else []) + (
        [days] if day != ["*"] or weekday == ["*"] else []
    )
    return "\n".join(f"OnCalendar={line}" for line in lines)


def _unnamed(fields: list[str]) -> list[str]:
    """Fields without names of months and days, in which an L would be no sign."""
    return [re.sub(r"[a-z]{3}", "", field, flags=re.I) for field in fields]


def _is_plain(field: str, place: int) -> bool:
    for part in field.split(","):
        found = _PLAIN.fullmatch(part)
        if not found:
            return False
        ends = [int(end) for end in found.groups() if end is not None]
        if ends != sorted(ends) or (place == _WEEKDAY and _SUNDAY in ends):
            return False
    return True


def _listed(values: list[Any]) -> str:
    # croniter counts the days of the week from 0, Sunday, to 6.
    return ",".join(str(value) for value in sorted(values)) if values != ["*"] else "*"
