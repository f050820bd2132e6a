"""Versions of Kafka: how they are read and compared, and which release a broker has. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from sharelag.errors import InputError

#: A version of Kafka such as 4.3.1, or what finds it out when it matters; None: nobody tells.
Told: TypeAlias = str | Callable[[], str | None] | None
#: The release that is assumed where nothing tells one.
NEWEST = "4.4"
#: The release of a broker by the least ``metadata.version`` that it has to support; its patch level
#: is not known by that.
_RELEASES = {25: "4.0", 27: "4.1", 29: "4.2", 30: "4.3", 31: "4.4"}
_GREATEST = 33
#: As people have it: of a tag or a package, or with the build of who distributes it.
_VERSION = re.compile(
    r"(?:v|kafka_\d\.\d+-)?(\d+)\.(\d+)(?:\.(\d+))?(?:-.*|\.[A-Za-z].*)?", re.ASCII
)
#: Confluent Platform counts so many major versions more; from the second on Kafka has none yet.
_OF_CONFLUENT, _CONFLUENT_FROM = 4, 7


def version_of(text: str) -> tuple[int, ...]:
    """Read ``4.3.1`` as (4, 3, 1), and ``4.3``, a release, as (4, 3).

    Those of Confluent Platform, such as ``8.1.2-ccs``, are read as the release of Kafka in it,
    (4, 1): their patch levels count differently.

    Raises
    ------
    InputError
        It is neither.
    """
    found = _VERSION.fullmatch(text.strip())
    if found is None:
        raise InputError(f"{text!r} is not a version of Kafka: give one such as 4.3.1, or 4.3")
    version = tuple(int(part) for part in found.groups() if part is not None)
    if version[0] < _CONFLUENT_FROM:
        return version
    return version[0] - _OF_CONFLUENT, version[1]


def is_newer(version: str) -> bool:
    """Whether a version is newer than all whose facts are known."""
    return version_of(version)[:2] > version_of(NEWEST)


def require_version(version: Told) -> None:
    """Refuse a text that is not a version before it matters; errors as of `version_of`."""
    if isinstance(version, str):
        version_of(version)


def told(version: Told) -> str | None:
    """Return a version, finding it out where that is needed."""
    return version() if callable(version) else version


def has_reached(version: Told, release: str) -> bool:
    """Whether a version belongs to a release or to a later one; None stands for the newest."""
    return version_of(told(version) or NEWEST)[:2] >= version_of(release)


def release_of(highest_metadata_version: int) -> str | None:
    """Return the release that supports a ``metadata.version`` at most; None where it is newer."""
    at_least = [level for level in _RELEASES if level <= highest_metadata_version]
    if not at_least or highest_metadata_version > _GREATEST:
        return None
    return _RELEASES[max(at_least)]
