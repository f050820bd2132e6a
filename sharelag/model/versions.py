"""Versions of Kafka: parsing, comparison, and the release of a broker. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from sharelag.errors import InputError

#: A version of Kafka such as 4.3.1, or a function that determines it; None: unknown.
Version: TypeAlias = str | Callable[[], str | None] | None
#: The releases that have share groups, by the minimum ``metadata.version`` that their brokers have
#: to support; it does not reveal the patch level.
_BY_LEVEL = {25: "4.0", 27: "4.1", 29: "4.2", 30: "4.3", 31: "4.4"}
RELEASES = tuple(_BY_LEVEL.values())
#: The release that is assumed if nothing names one.
NEWEST = RELEASES[-1]
_GREATEST = 33
_FIRST = tuple(map(int, RELEASES[0].split(".")))
#: Common spellings: tags, images and packages, after a version of Scala or of Strimzi, followed by
#: a distributor's build or the commit that Kafka's tools print.
_VERSION = re.compile(
    r"(?:.*kafka[-:]|(?:kafka_)?2\.1\d-|v)?(\d{1,3})\.(\d{1,3})(?:\.(\d{1,3}))?"
    r"(?:-.*|\.[A-Za-z].*|\s*\(.*\))?",
    re.ASCII,
)
_LONGEST = 200
#: How much higher major versions of Confluent Platform are, and the first one beyond Kafka's.
_OF_CONFLUENT, _CONFLUENT_FROM = 4, 7


def version_of(text: str) -> tuple[int, ...]:
    """Parse ``4.3.1`` as (4, 3, 1), and ``4.3``, a release, as (4, 3); else it is an InputError.

    Versions of Confluent Platform, such as ``8.1.2-ccs``, become the Kafka release they contain,
    (4, 1): their patch levels differ from Kafka's. A release without share groups is an error, too.
    """
    is_text = isinstance(text, str) and len(text) <= _LONGEST  # 4.10 as a number is 4.1
    found = _VERSION.fullmatch(text.strip()) if is_text else None
    if found is None:
        raise InputError(f"{text!r} is not a version of Kafka: give one such as '4.3.1', or '4.3'")
    version = tuple(int(part) for part in found.groups() if part is not None)
    if version[0] >= _CONFLUENT_FROM:
        version = version[0] - _OF_CONFLUENT, version[1]
    if version < _FIRST:
        raise InputError(
            f"{text!r} is Kafka {_join(version)}, which has no share groups: they exist from "
            f"Kafka {RELEASES[0]} on"
        )
    return version


def _join(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


class Basis(NamedTuple):
    """The version by which something is judged, and why that one if it was not given."""

    version: str
    why: str = ""

    def __str__(self) -> str:
        return ", ".join(filter(None, self))


#: The basis without any known version.
ASSUMED = Basis(NEWEST, "which is assumed without --kafka-version")


def basis(
    version: str | None, default: Basis = ASSUMED, oldest: str = RELEASES[0], whose: str = ""
) -> Basis:
    """Choose the version whose facts apply to settings, commands and defects.

    ``default`` is the basis without a version, ``oldest`` the first release whose facts are known;
    the nearest known release represents any other. ``whose`` is the origin of the version, such as
    ``of the input``.
    """
    if version is None:
        return default
    number, named = version_of(version), f"{version} {whose}".strip()
    if number[:2] > version_of(NEWEST):
        return Basis(NEWEST, f"the newest known, instead of {named}")
    if number[:2] < version_of(oldest):
        return Basis(oldest, f"the oldest known, instead of {named}")
    plain = _join(number)
    return Basis(plain, whose if plain == version else f"which is {named}")


def require_version(version: Version) -> None:
    """Refuse what is not a version before it is used; errors as of `version_of`."""
    if not (version is None or callable(version)):
        version_of(version)


def resolve_version(version: Version) -> str | None:
    """Return a version, determined now if it is a function."""
    return version() if callable(version) else version


def given_or_own(version: str | None, by_input: Version) -> tuple[str | None, str]:
    """Return the given version, or else the input's, and its origin."""
    return (version, "") if version is not None else (resolve_version(by_input), "of the input")


def has_reached(version: Version, release: str) -> bool:
    """Return whether a version belongs to a release or a later one; None means the newest."""
    return version_of(resolve_version(version) or NEWEST)[:2] >= version_of(release)


def release_of(highest_metadata_version: int) -> str | None:
    """Return the release with this highest ``metadata.version``; None if it is newer."""
    at_least = [level for level in _BY_LEVEL if level <= highest_metadata_version]
    if not at_least or highest_metadata_version > _GREATEST:
        return None
    return _BY_LEVEL[max(at_least)]
