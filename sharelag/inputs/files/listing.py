"""Folders, and how files begin: what may not be read is refused, or it would seem to be missing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

from sharelag.errors import InputError


def refuse_unreadable(error: OSError) -> NoReturn:
    """Refuse what may not be read."""
    raise InputError(
        f"cannot read {error.filename} ({error.strerror}): ask for the right to read it, or give a "
        "folder without it"
    ) from error


def entries(folder: Path) -> list[Path]:
    """Return what is in a folder, sorted."""
    try:
        with os.scandir(folder) as found:
            return sorted(Path(entry.path) for entry in found)
    except OSError as error:
        refuse_unreadable(error)


def first_bytes(path: Path, count: int) -> bytes:
    """Return how a file begins; a folder, or a pipe, which would wait, has nothing."""
    if not path.is_file():
        return b""
    try:
        with path.open("rb") as file:
            return file.read(count)
    except OSError as error:
        refuse_unreadable(error)


def files_below(folder: Path, ending: str = "") -> list[Path]:
    """Return the files in a folder and below it, sorted; none where there is no such folder."""
    if not folder.is_dir():
        return []
    walk = os.walk(folder, onerror=refuse_unreadable)
    paths = (Path(at, name) for at, _, names in walk for name in names if name.endswith(ending))
    return sorted(path for path in paths if path.is_file())
