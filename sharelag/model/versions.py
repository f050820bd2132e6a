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
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?(?:-.*)?", re.ASCII)


def version_of(text: str) -> tuple[int, ...]:
    """Read ``4.3.1`` as (4, 3, 1), and ``4.3``, a release, as (4, 3).

    Raises
    ------
    InputError
        It is neither.
    """
    found = _VERSION.fullmatch(text.strip())
    if found is None:
        raise InputError(f"{text!r} is not a version of Kafka: give one such as 4.3.1, or 4.3")
    return tuple(int(part) for part in found.groups() if part is not None)


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
