"""What a capture or an archive says of itself: its capture.json."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sharelag.errors import InputError
from sharelag.sources.files.bounds import check_inside

#: The field with the CRC-32 of all others.
_CHECKSUM = "crc32"
#: Bytes that one may have: those that are written have about one thousand.
_MOST_BYTES = 1 << 20
#: Characters of an error that a message repeats.
_MOST_WORDS = 200


def write_description(path: Path, about: Mapping[str, Any]) -> None:
    """Write what a capture or an archive says of itself as JSON, with a checksum."""
    text = json.dumps({**about, _CHECKSUM: _checksum(about)}, indent=2)
    path.write_text(text + "\n", encoding="utf-8")


def read_description(path: Path) -> Any:
    """Read what `write_description` wrote, or earlier versions without a checksum.

    Raises
    ------
    ValueError
        When it is not JSON in UTF-8, or nested deeper than anybody writes it.
    InputError
        When its checksum is another, it has more than a megabyte, or cannot be opened, such as a
        link out of its folder.
    """
    check_inside(path, path.parent)
    try:
        with path.open("rb") as file:
            octets = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})") from error
    if len(octets) > _MOST_BYTES:
        raise InputError(f"{path} has more than {_MOST_BYTES >> 20} MiB: capture it again")
    try:
        about = json.loads(octets.decode("utf-8"))
        written = about.pop(_CHECKSUM, None) if isinstance(about, dict) else None
        is_damaged = written is not None and written != _checksum(about)
    except UnicodeDecodeError:
        # Its words have all bytes, which may be secret: those of any file that a link leads to.
        raise ValueError("not UTF-8") from None
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if is_damaged:
        raise InputError(
            f"{path} is damaged (another checksum): restore it from a copy, or remove the line "
            f"{_CHECKSUM} from it if you changed it yourself"
        )
    return about


@contextmanager
def describing(path: Path, what: str, advice: str) -> Iterator[None]:
    """Name the file in whatever goes wrong while its fields are read.

    Raises
    ------
    InputError
        When the block raises what fields of the wrong kind cause, in a few words of it.
    """
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise InputError(
            f"{path} does not describe {what} ({repr(error)[:_MOST_WORDS]}): {advice}"
        ) from error


def check_fields(path: Path, about: Mapping[str, Any], kind: str, newest: int) -> None:
    """Check the fields that captures and archives have in common.

    Parameters
    ----------
    path : pathlib.Path
    about : mapping
        What `read_description` returned.
    kind : str
        ``capture`` or ``archive``, for messages.
    newest : int
        The format that this version reads.

    Raises
    ------
    InputError
        When it has another format.
    KeyError, TypeError
        When a field is missing or of another type.
    """
    found = about["format"]
    if type(found) is not int or found != newest:
        raise InputError(
            f"{path} has {kind} format {str(found)[:20]}, but this version reads {newest}: "
            "use a newer sharelag"
        )
    for name, type_ in {"cluster_id": str, "tool_version": str, "options": dict}.items():
        if not isinstance(about[name], type_):
            raise TypeError(f"{name} must be of type {type_.__name__}")


def _checksum(about: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(about, sort_keys=True).encode()):08x}"
