"""Cron expressions of five fields in a form that every scheduler reads the same way.

Crontabs, robfig/cron (Kubernetes), croniter (Airflow, jupyter-scheduler) and systemd agree on
numbers, lists, ascending ranges and steps of them. Anything else is rewritten in these terms, or
rejected if schedulers disagree about it.
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
#: A part of a field that all schedulers read the same way: step, number, ascending range.
_PLAIN = re.compile(r"\*(?:/\d+)?|(\d+)(?:-(\d+)(?:/\d+)?)?")


def cron_for_all(cron: str) -> str:
    """Rewrite five fields: numbers for names, 0 for Sunday, lists for ranges that wrap.

    What is not valid, never matches, or is read in different ways by schedulers is an `InputError`.
    """
    fields = cron.split()
    if len(fields) == _EVERY_FIELD and any(
        _EXTENSION.search(field) for field in _remove_names(fields)
    ):
        raise InputError(
            f"{cron!r} uses L, W, # or ?, which some schedulers do not support or read "
            "differently: write the days as numbers"
        )
    whole = len(fields) == _EVERY_FIELD and all(
        _ALLOWED.fullmatch(field) and (field == "*" or "*" not in field.split(","))
        for field in fields
    )
    if not whole or not croniter.is_valid(" ".join(fields)):
        raise InputError(
            f"{cron!r} is not a cron expression of five fields: write minute, hour, day, month "
            "and weekday, such as '30 6 * * *'"
        )
    expanded = croniter.expand(" ".join(fields))[0]
    days = (fields[_DAY], fields[_WEEKDAY])
    if "*" not in days and any(one.startswith("*") for one in days):
        raise InputError(
            f"{cron!r} combines a step such as */2 with other days, which some schedulers join "
            "by 'and' and some by 'or': write the days as numbers"
        )
    plain = " ".join(
        field if _is_plain(field, place) else _list_values(expanded[place])
        for place, field in enumerate(fields)
    )
    try:
        croniter(plain, datetime(2025, 1, 1, tzinfo=UTC)).get_next()
    except CroniterBadDateError:
        raise InputError(f"{cron!r} never matches: choose another day") from None
    return plain


def check_zone(zone: str | None) -> str | None:
    """Return a time zone if it is a name in the IANA database, such as Europe/Berlin."""
    if zone is not None and zone not in available_timezones():
        raise InputError(
            f"unknown time zone {zone!r}: write a name such as Europe/Berlin or Etc/UTC"
        )
    return zone


def calendar(cron: str, zone: str | None = None) -> str:
    """Write an expression of `cron_for_all` as ``OnCalendar=`` lines; see systemd.time(7)."""
    minute, hour, day, month, weekday = croniter.expand(cron)[0]

    def some(values: list[Any], name: Callable[[int], str] = lambda value: f"{value:02d}") -> str:
        return "*" if values == ["*"] else ",".join(name(value) for value in sorted(values))

    time = f"{some(hour)}:{some(minute)}:00" + (f" {zone}" if zone else "")
    days = f"*-{some(month)}-{some(day)} {time}"
    week = f"{some(weekday, lambda value: _NAMES[value])} *-{some(month)}-* {time}"
    # Cron matches either day if both are set.
    lines = ([week] if weekday != ["*"] else []) + (
        [days] if day != ["*"] or weekday == ["*"] else []
    )
    return "\n".join(f"OnCalendar={line}" for line in lines)


def _remove_names(fields: list[str]) -> list[str]:
    """Remove the names of months and days, whose letters are not extensions."""
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


def _list_values(values: list[Any]) -> str:
    # croniter counts the days of the week from 0, Sunday, to 6.
    return ",".join(str(value) for value in sorted(values)) if values != ["*"] else "*"
