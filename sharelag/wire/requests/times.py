"""The moments of log lines, in the layouts that libraries of logs and container runtimes write.

A line may have two times: the log's own, and the one that a container runtime or a collector put
around it. The one next to the message is the log's. One with a zone beside it tells how far the log
is from UTC, if it was written at once: what is shipped hours later tells no zone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import InputError
from sharelag.schemas import INSTANT

#: What a line without a time that is understood lacks.
LAYOUT = "a date and a time such as %d{yyyy-MM-dd HH:mm:ss,SSS}"
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
#: Minutes that zones are ahead of UTC whose abbreviation has one meaning in logs.
_ZONES = {"Z": 0, "UTC": 0, "GMT": 0, "WET": 0, "WEST": 60, "CET": 60, "CEST": 120, "EET": 120}
_ZONES |= {"EEST": 180, "MSK": 180, "SAST": 120, "PKT": 300, "ICT": 420, "WIB": 420, "HKT": 480}
_ZONES |= {"SGT": 480, "AWST": 480, "JST": 540, "KST": 540, "ACST": 570, "AEST": 600, "ACDT": 630}
_ZONES |= {"AEDT": 660, "NZST": 720, "NZDT": 780, "BRT": -180, "EST": -300, "EDT": -240}
_ZONES |= {"CDT": -300, "MST": -420, "MDT": -360, "PST": -480, "PDT": -420, "AKST": -540}
_ZONES |= {"AKDT": -480, "HST": -600}
#: Abbreviations of several zones, such as those of Chicago and Shanghai.
_AMBIGUOUS = ("ADT", "AMT", "AST", "BST", "CST", "GST", "IST", "SST")
_CLOCK = (
    r"(?P<hms>\d\d?:\d\d:\d\d|\d{6})(?:[.,:]?(?P<part>\d{1,9}))?"
    r"(?:[\s\x{a0}\x{202f}]?(?P<half>[AaPp])\.?[Mm]\b\.?)?"
)
_NAMES = "|".join(sorted((*_ZONES, *_AMBIGUOUS), reverse=True))
_SIGN = r"[+\x{2212}-]"
_ZONE = (
    rf"\s?(?P<zone>(?:UTC|GMT){_SIGN}\d\d?(?::?\d\d)?|{_SIGN}\d\d(?::?\d\d)?|{_NAMES})(?:[^\d\w]|$)"
)
_MONTH = rf"(?P<mo>{'|'.join(_MONTHS)})[a-z]*\.?"
_DATES = (
    r"(?P<y>(?:19|20)\d\d)[-/.]?(?P<mo>\d\d)[-/.]?(?P<d>\d\d)[T _,\t]{0,2}",
    r"(?P<d>\d\d)\.(?P<mo>\d\d)\.(?P<y>(?:19|20)\d\d)[T ,\t]{1,2}",
    rf"(?P<d>\d\d?)\.?[ /-]{_MONTH}[ /-](?P<y>(?:19|20)\d\d)[ :,]{{1,2}}",
    rf"{_MONTH} (?P<d>\d\d?), (?P<y>(?:19|20)\d\d)[ @,]{{1,3}}",
)
#: Seconds since 1970 with any fraction, and what log4j2's JSON has of it in another field.
_EPOCH = r"(?:^|[^\d.])(?P<s>1\d{9})[.,]?(?P<part>\d{3}|\d{6}|\d{9})?(?:\D|$)"
#: When a collector received a line, which says nothing of when it was logged.
_RECEIVED = r'"(?:receive|ingest)\w*\\*":\s*(?:\\*"[^"]*"|[\d.]+)'
_NANOS = r'nanoOfSecond\\*"\s*:\s*(?P<n>\d{1,9})'
#: Zones are ahead of UTC by multiples of this, up to a limit.
_QUARTER, _MOST_AHEAD = 15 * 60_000_000, 14 * 3600_000_000
#: How late a runtime or a collector may be for its time to tell the zone of the log, or to be the
#: one at which a line was logged that has no fraction of a second.
_LATE_FOR_ZONE, _LATE_FOR_FRACTION = 60_000_000, 2_000_000
#: How far clocks are put when summer time begins or ends.
_SUMMER = 3600_000_000
#: What tells the zone of a time: the line itself, the time of a collector beside it, or nothing.
OWN, BESIDE, TAKEN = 0, 1, 2


class Times(NamedTuple):
    """When lines were logged; null where a line does not say it."""

    at: pa.Array  # INSTANT
    is_exact: pa.Array  # false: to a second
    is_unclear: pa.Array  # true: null since the abbreviation of its zone is that of several
    told_by: pa.Array  # OWN, BESIDE or TAKEN

    def filter(self, which: pa.Array) -> Times:
        """Return those of some lines."""
        return Times(*(column.filter(which) for column in self))

    def take(self, rows: pa.Array) -> Times:
        """Return those of some lines by their numbers."""
        return Times(*(column.take(rows) for column in self))


class _Local(NamedTuple):
    """Times as they are written, in microseconds since 1970 as if in UTC."""

    at: pa.Array  # null: there is none
    is_exact: pa.Array
    ahead: pa.Array  # of UTC, in microseconds; null: not written
    is_unclear: pa.Array  # there is an abbreviation of several zones


def times_of(before: pa.Array, behind: pa.Array, zone: str | None) -> Times:
    """Return when lines were logged, by what stands before and behind the message of each.

    ``zone`` is that of times without one, or with an abbreviation of several such as ``CST``. None:
    a collector's times beside them tell it, where they agree; else times without a zone are taken
    as UTC, and those with an abbreviation are unclear.
    """
    before, behind = (
        pc.replace_substring_regex(one, _RECEIVED, "")
        if pc.any(pc.match_substring_regex(one, _RECEIVED)).as_py()
        else one
        for one in (before, behind)
    )
    own = _first([_found(before, "^.*"), _found(behind, "^.*?")])
    around = pc.binary_join_element_wise(before, behind, " ")
    zoned, since = _found(around, "^.*?", needs_zone=True), _since_1970(around)
    of_zone = pc.coalesce(pc.subtract(zoned.at, zoned.ahead), since.at)
    ahead = own.ahead
    if zone is None:
        bare = pc.if_else(own.ahead.is_null(), own.at, None)
        ahead = pc.coalesce(ahead, _ahead_of(bare, of_zone))
    is_unclear = pc.and_(pc.and_(own.is_unclear, ahead.is_null()), zone is None).fill_null(False)
    at = pc.coalesce(pc.subtract(own.at, ahead), _in_zone(own.at, zone or "UTC"))
    untold = pc.if_else(ahead.is_valid(), BESIDE, TAKEN)
    told_by = pc.if_else(pc.or_(own.ahead.is_valid(), own.at.is_null()), OWN, untold)
    # A runtime that writes fractions knows more than a log that does not.
    later = pc.subtract(of_zone, at)
    is_soon = pc.and_(pc.greater_equal(later, 0), pc.less(later, _LATE_FOR_FRACTION))
    has_more = pc.and_(pc.invert(own.is_exact), pc.coalesce(zoned.is_exact, since.is_exact))
    finer = pc.and_(is_soon, has_more).fill_null(False)
    at = pc.coalesce(pc.if_else(finer, of_zone, at), since.at)
    at = pc.if_else(is_unclear, None, at)
    is_exact = pc.coalesce(pc.or_(own.is_exact, finer), since.is_exact).fill_null(False)
    return Times(at.cast(INSTANT), is_exact, is_unclear, told_by)


def _ahead_of(local: pa.Array, instants: pa.Array) -> pa.Array:
    """Return how far local times are ahead of UTC, by the instants at which they were collected."""
    # Times that were collected at once are whole quarters of an hour from these. More than half
    # have to be, and to agree, unless summer time begins or ends; the late are as their neighbours.
    apart = pc.subtract(local, instants)
    quarters = pc.round(pc.divide(pc.cast(apart, pa.float64()), float(_QUARTER)))
    ahead = pc.multiply(quarters.cast(pa.int64()), _QUARTER)
    is_soon = pc.less_equal(pc.abs(pc.subtract(apart, ahead)), _LATE_FOR_ZONE)
    is_soon = pc.and_(is_soon, pc.less_equal(pc.abs(ahead), _MOST_AHEAD)).fill_null(False)
    told = pc.filter(ahead, is_soon).to_numpy()
    steps = np.diff(told)[np.diff(told) != 0]
    agree = len(steps) == 0 or (len(steps) == 1 and abs(steps[0]) == _SUMMER)
    if not agree or 2 * len(told) <= len(apart) - apart.null_count:
        return pa.nulls(len(apart), pa.int64())
    ahead = pc.fill_null_backward(pc.fill_null_forward(pc.if_else(is_soon, ahead, None)))
    return pc.if_else(apart.is_valid(), ahead, None)


def _found(texts: pa.Array, begin: str, needs_zone: bool = False) -> _Local:
    """Return the first or last time of texts; ``begin`` is what may be before it."""
    zone = _ZONE if needs_zone else f"(?:{_ZONE})?"
    found: list[_Local] = []
    for date in _DATES:
        found.append(_read(texts, rf"{begin}(?:^|\D){date}{_CLOCK}{zone}"))
        if not found[-1].at.null_count:  # most logs have one layout
            break
    return _first(found)


def _read(texts: pa.Array, pattern: str) -> _Local:
    # To look for a layout that no line has costs less than to take lines apart by it.
    if not pc.any(pc.match_substring_regex(texts, pattern)).as_py():
        kinds = (pa.int64(), pa.bool_(), pa.int64(), pa.bool_())
        return _Local(*(pa.nulls(len(texts), kind) for kind in kinds))
    found = pc.extract_regex(texts, pattern)
    names = ("y", "mo", "d", "hms", "part", "half", "zone")
    named = {name: pc.struct_field(found, name) for name in names}
    month = pc.index_in(named["mo"], pa.array(_MONTHS))
    month = pc.coalesce(pc.add(month, 1).cast(pa.string()), named["mo"])
    day = pc.binary_join_element_wise(
        *(named["y"], pc.utf8_lpad(month, 2, "0"), pc.utf8_lpad(named["d"], 2, "0")), ""
    )
    clock = pc.utf8_lpad(pc.replace_substring(named["hms"], ":", ""), 6, "0")
    whole = pc.binary_join_element_wise(day, clock, "")
    seconds = pc.strptime(whole, "%Y%m%d%H%M%S", "us", error_is_null=True).cast(pa.int64())
    at = pc.add(seconds, pc.add(_micros(named["part"]), _half_day(clock, named["half"])))
    exact = pc.if_else(at.is_valid(), pc.not_equal(named["part"], ""), None)
    is_unclear = pc.is_in(named["zone"], pa.array(_AMBIGUOUS))
    return _Local(at, exact, _ahead(named["zone"]), is_unclear)


def _half_day(clock: pa.Array, half: pa.Array) -> pa.Array:
    hours = pc.if_else(pc.equal(pc.utf8_upper(half), "P"), 12, 0)
    # Twelve is the first hour of its half.
    is_twelve = pc.and_(pc.starts_with(clock, "12"), pc.not_equal(half, ""))
    return pc.multiply(pc.subtract(hours, pc.if_else(is_twelve, 12, 0)), 3600_000_000)


def _micros(digits: pa.Array) -> pa.Array:
    return pc.utf8_slice_codeunits(pc.utf8_rpad(digits, 6, "0"), 0, 6).cast(pa.int64())


def _ahead(zones: pa.Array) -> pa.Array:
    """Return how far zones such as ``+02`` and ``CET`` are ahead of UTC, in microseconds."""
    found = pc.extract_regex(zones, rf"(?P<s>{_SIGN})(?P<h>\d\d?):?(?P<m>\d\d)?")
    hours, rest = (pc.struct_field(found, name) for name in "hm")
    rest = pc.utf8_lpad(rest, 1, "0").cast(pa.int64())
    minutes = pc.add(pc.multiply(hours.cast(pa.int64()), 60), rest)
    minutes = pc.if_else(pc.equal(pc.struct_field(found, "s"), "+"), minutes, pc.negate(minutes))
    named = pc.index_in(zones, pa.array(_ZONES.keys()))
    of_name = pa.array(_ZONES.values(), pa.int64()).take(named)
    return pc.multiply(pc.coalesce(minutes, of_name), 60_000_000)


def _first(found: list[_Local]) -> _Local:
    """Return of each text the first of these that it has."""
    there = [pc.if_else(one.at.is_valid(), n, None) for n, one in enumerate(found)]
    which = pc.coalesce(*there, pa.scalar(0)).cast(pa.int64())
    return _Local(*(pc.choose(which, *columns) for columns in zip(*found, strict=True)))


def _in_zone(at: pa.Array, zone: str) -> pa.Array:
    try:
        local = at.cast(pa.timestamp("us"))
        instants = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="earliest")
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise InputError(
            f"unknown time zone {zone!r}: give a name such as Europe/Berlin, or UTC"
        ) from error
    return instants.cast(pa.int64())


def _since_1970(texts: pa.Array) -> _Local:
    found = pc.extract_regex(texts, _EPOCH)
    nanos = pc.struct_field(pc.extract_regex(texts, _NANOS), "n")
    part = pc.struct_field(found, "part")
    digits = pc.coalesce(pc.utf8_lpad(nanos, 9, "0"), part)
    seconds = pc.struct_field(found, "s").cast(pa.int64())
    at = pc.add(pc.multiply(seconds, 1_000_000), _micros(digits))
    exact = pc.if_else(at.is_valid(), pc.not_equal(digits, ""), None)
    zeros = pa.array(np.zeros(len(texts), np.int64))
    return _Local(at, exact, zeros, pa.nulls(len(texts), pa.bool_()))
