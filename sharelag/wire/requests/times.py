"""The moments of log lines, in the layouts that libraries of logs and container runtimes write.

A line may have two times: the log's own, and the one that a container runtime or a collector put
around it. The one next to the message is the log's; one with a zone tells how far it is from UTC.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import InputError
from sharelag.schemas.requests import INSTANT

#: What a line without a time that is understood lacks.
LAYOUT = "a date and a time such as %d{yyyy-MM-dd HH:mm:ss,SSS}"
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
#: Minutes that zones are ahead of UTC whose abbreviation has one meaning in logs.
_ZONES = {
    "Z": 0,
    "UTC": 0,
    "GMT": 0,
    "WET": 0,
    "WEST": 60,
    "CET": 60,
    "CEST": 120,
    "EET": 120,
    "EEST": 180,
    "MSK": 180,
    "JST": 540,
    "KST": 540,
    "AEST": 600,
    "AEDT": 660,
    "NZST": 720,
    "EST": -300,
    "EDT": -240,
    "CDT": -300,
    "MST": -420,
    "MDT": -360,
    "PST": -480,
    "PDT": -420,
}
_CLOCK = r"(?P<hms>\d\d:?\d\d:?\d\d)(?:[.,:]?(?P<part>\d{1,9}))?"
_ZONE = rf"\s?(?P<zone>[+-]\d\d(?::?\d\d)?|{'|'.join(sorted(_ZONES, reverse=True))})"
_DATES = (
    r"(?P<y>(?:19|20)\d\d)[-/.]?(?P<mo>\d\d)[-/.]?(?P<d>\d\d)[T _]?",
    r"(?P<d>\d\d)\.(?P<mo>\d\d)\.(?P<y>(?:19|20)\d\d)[T ,]{1,2}",
    rf"(?P<d>\d\d?)[ /-](?P<mo>{'|'.join(_MONTHS)})[a-z]*[ /-](?P<y>(?:19|20)\d\d)[ :,]{{1,2}}",
    rf"(?P<mo>{'|'.join(_MONTHS)})[a-z]* (?P<d>\d\d?), (?P<y>(?:19|20)\d\d)[ @]{{1,3}}",
)
#: Seconds since 1970 with any fraction, and what log4j2's JSON has of it in another field.
_EPOCH = r"(?:^|[^\d.])(?P<s>1\d{9})[.,]?(?P<part>\d{3}|\d{6}|\d{9})?(?:\D|$)"
_NANOS = r'nanoOfSecond\\*"\s*:\s*(?P<n>\d{1,9})'
#: Zones are ahead of UTC by multiples of this.
_QUARTER = 15 * 60_000_000


class Times(NamedTuple):
    """When lines were logged; null where a line does not say it."""

    at: pa.Array  # INSTANT
    is_exact: pa.Array  # false: to a second

    def filter(self, which: pa.Array) -> Times:
        """Return those of some lines."""
        return Times(self.at.filter(which), self.is_exact.filter(which))


class _Local(NamedTuple):
    """Times as they are written, in microseconds since 1970 as if in UTC."""

    at: pa.Array  # null: there is none
    is_exact: pa.Array
    ahead: pa.Array  # of UTC, in microseconds; null: not written


def times_of(before: pa.Array, behind: pa.Array, zone: str) -> Times:
    """Return when lines were logged.

    Parameters
    ----------
    before, behind : pyarrow.StringArray
        What stands before and behind the message of each line.
    zone : str
        The zone of times that no line tells the zone of.

    Raises
    ------
    InputError
        There is no such time zone.
    """
    own = _first([_found(before, "^.*"), _found(behind, "^.*?")])
    around = pc.binary_join_element_wise(before, behind, " ")
    zoned = _found(around, "^.*?", needs_zone=True)
    of_zone = pc.subtract(zoned.at, zoned.ahead)
    apart = pc.subtract(own.at, of_zone)
    quarters = pc.round(pc.divide(pc.cast(apart, pa.float64()), float(_QUARTER)))
    ahead = pc.coalesce(own.ahead, pc.multiply(quarters.cast(pa.int64()), _QUARTER))
    at = pc.coalesce(pc.subtract(own.at, ahead), _in_zone(own.at, zone))
    # A runtime that writes fractions knows more than a log that does not.
    finer = pc.and_(pc.invert(own.is_exact), zoned.is_exact).fill_null(False)
    at = pc.if_else(finer, of_zone, at)
    since = _since_1970(around)
    return Times(
        pc.coalesce(at, since.at).cast(INSTANT),
        pc.coalesce(pc.or_(own.is_exact, finer), since.is_exact).fill_null(False),
    )


def _found(texts: pa.Array, begin: str, needs_zone: bool = False) -> _Local:
    """Return the first or last time of texts; ``begin`` is what may be before it."""
    zone = rf"(?:{_ZONE})(?:[^\d\w]|$)" if needs_zone else rf"(?:{_ZONE}(?:[^\d\w]|$))?"
    found: list[_Local] = []
    for date in _DATES:
        found.append(_read(texts, rf"{begin}(?:^|\D){date}{_CLOCK}{zone}"))
        if not found[-1].at.null_count:  # most logs have one layout
            break
    return _first(found)


def _read(texts: pa.Array, pattern: str) -> _Local:
    # To look for a layout that no line has costs less than to take lines apart by it.
    if not pc.any(pc.match_substring_regex(texts, pattern)).as_py():
        kinds = (pa.int64(), pa.bool_(), pa.int64())
        return _Local(*(pa.nulls(len(texts), kind) for kind in kinds))
    found = pc.extract_regex(texts, pattern)
    names = ("y", "mo", "d", "hms", "part", "zone")
    named = {name: pc.struct_field(found, name) for name in names}
    month = pc.index_in(named["mo"], pa.array(_MONTHS))
    month = pc.coalesce(pc.add(month, 1).cast(pa.string()), named["mo"])
    day = pc.binary_join_element_wise(
        *(named["y"], pc.utf8_lpad(month, 2, "0"), pc.utf8_lpad(named["d"], 2, "0")), ""
    )
    whole = pc.binary_join_element_wise(day, pc.replace_substring(named["hms"], ":", ""), "")
    seconds = pc.strptime(whole, "%Y%m%d%H%M%S", "us", error_is_null=True).cast(pa.int64())
    at = pc.add(seconds, _micros(named["part"]))
    exact = pc.if_else(at.is_valid(), pc.not_equal(named["part"], ""), None)
    return _Local(at, exact, _ahead(named["zone"]))


def _micros(digits: pa.Array) -> pa.Array:
    """Return a fraction of a second, of which these are the digits behind the point."""
    return pc.utf8_slice_codeunits(pc.utf8_rpad(digits, 6, "0"), 0, 6).cast(pa.int64())


def _ahead(zones: pa.Array) -> pa.Array:
    """Return how far zones such as ``+02`` and ``CET`` are ahead of UTC, in microseconds."""
    found = pc.extract_regex(zones, r"(?P<s>[+-])(?P<h>\d\d):?(?P<m>\d\d)?")
    hours, rest = (pc.struct_field(found, name) for name in "hm")
    minutes = pc.add(
        pc.multiply(hours.cast(pa.int64()), 60), pc.utf8_lpad(rest, 1, "0").cast(pa.int64())
    )
    minutes = pc.if_else(pc.equal(pc.struct_field(found, "s"), "-"), pc.negate(minutes), minutes)
    of_name = pa.array(_ZONES.values(), pa.int64()).take(
        pc.index_in(zones, pa.array(_ZONES.keys()))
    )
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
    """Return times that are numbers, which are in UTC."""
    found = pc.extract_regex(texts, _EPOCH)
    nanos = pc.struct_field(pc.extract_regex(texts, _NANOS), "n")
    part = pc.struct_field(found, "part")
    digits = pc.coalesce(pc.utf8_lpad(nanos, 9, "0"), part)
    seconds = pc.struct_field(found, "s").cast(pa.int64())
    at = pc.add(pc.multiply(seconds, 1_000_000), _micros(digits))
    exact = pc.if_else(at.is_valid(), pc.not_equal(digits, ""), None)
    return _Local(at, exact, pa.array(np.zeros(len(texts), np.int64)))
