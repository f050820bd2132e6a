"""Versions of Kafka: how they are read and compared, and which release a broker has. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from sharelag.errors import InputError

#: A version of Kafka such as 4.3.1, or what finds it out when it matters; None: nobody tells.
Told: TypeAlias = str | Callable[[], str | None] | None
#: The releases that have share groups, by the least ``metadata.version`` that brokers of each have
#: to support; the patch level is not known by that.
_BY_LEVEL = {25: "4.0", 27: "4.1", 29: "4.2", 30: "4.3", 31: "4.4"}
RELEASES = tuple(_BY_LEVEL.values())
#: The release that is assumed where nothing tells one.
NEWEST = RELEASES[-1]
_GREATEST = 33
_FIRST = tuple(map(int, RELEASES[0].split(".")))
#: As people have it: of a tag, an image or a package, after a version of Scala or of Strimzi, with
#: the build of who distributes it or the commit that Kafka's tools print.
_VERSION = re.compile(
    r"(?:.*kafka[-:]|(?:kafka_)?2\.1\d-|v)?(\d{1,3})\.(\d{1,3})(?:\.(\d{1,3}))?"
    r"(?:-.*|\.[A-Za-z].*|\s*\(.*\))?",
    re.ASCII,
)
_LONGEST = 200
#: Confluent Platform counts so many major versions more; from the second on Kafka has none yet.
_OF_CONFLUENT, _CONFLUENT_FROM = 4, 7


def version_of(text: str) -> tuple[int, ...]:
    """Read ``4.3.1`` as (4, 3, 1), and ``4.3``, a release, as (4, 3); else it is an InputError.

    Those of Confluent Platform, such as ``8.1.2-ccs``, are read as the release of Kafka in it, (4,
    1): their patch levels count differently. A release without share groups is an error, too.
    """
    found = _VERSION.fullmatch(text.strip()) if len(text) <= _LONGEST else None
    if found is None:
        raise InputError(f"{text!r} is not a version of Kafka: give one such as 4.3.1, or 4.3")
    version = tuple(int(part) for part in found.groups() if part is not None)
    if version[0] >= _CONFLUENT_FROM:
        version = version[0] - _OF_CONFLUENT, version[1]
    if version < _FIRST:
        raise InputError(
            f"{text!r} is Kafka {_dotted(version)}, which has no share groups: they exist from "
            f"Kafka {RELEASES[0]} on"
        )
    return version


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


class Basis(NamedTuple):
    """The version by which something is judged, and why by that one where it was not given."""

    version: str
    why: str = ""

    def __str__(self) -> str:
        return ", ".join(filter(None, self))


#: Of what nothing tells a version.
ASSUMED = Basis(NEWEST, "which is assumed without --kafka-version")


def basis(
    version: str | None, untold: Basis = ASSUMED, oldest: str = RELEASES[0], whose: str = ""
) -> Basis:
    """Choose the version whose facts decide about settings, commands and defects.

    ``untold`` is that without a version, ``oldest`` the first release whose facts are known: the
    nearest known one stands for any other. ``whose`` is where the version comes from, such as ``of
    the input``.
    """
    if version is None:
        return untold
    number, named = version_of(version), f"{version} {whose}".strip()
    if number[:2] > version_of(NEWEST):
        return Basis(NEWEST, f"the newest known, instead of {named}")
    if number[:2] < version_of(oldest):
        return Basis(oldest, f"the oldest known, instead of {named}")
    plain = _dotted(number)
    return Basis(plain, whose if plain == version else f"which is {named}")


def require_version(version: Told) -> None:
    """Refuse a text that is not a version before it matters; errors as of `version_of`."""
    if isinstance(version, str):
        version_of(version)


def told(version: Told) -> str | None:
    """Return a version, finding it out where that is needed."""
    return version() if callable(version) else version


def given_or_told(version: str | None, by_input: Told) -> tuple[str | None, str]:
    """Return the version that was given, or the one that an input tells, and whose it is."""
    return (version, "") if version is not None else (told(by_input), "of the input")


def has_reached(version: Told, release: str) -> bool:
    """Whether a version belongs to a release or to a later one; None stands for the newest."""
    return version_of(told(version) or NEWEST)[:2] >= version_of(release)


def release_of(highest_metadata_version: int) -> str | None:
    """Return the release that supports a ``metadata.version`` at most; None where it is newer."""
    at_least = [level for level in _BY_LEVEL if level <= highest_metadata_version]
    if not at_least or highest_metadata_version > _GREATEST:
        return None
    return _BY_LEVEL[max(at_least)]
