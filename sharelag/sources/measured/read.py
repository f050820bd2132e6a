"""Metrics of files and of live addresses."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Sequence
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

import pyarrow as pa

from sharelag.errors import InputError
from sharelag.schemas import BROKER_METRICS
from sharelag.sources.measured.texts import metrics_of
from sharelag.sources.texts import text_of

_ADDRESS = re.compile(r"https?://", re.IGNORECASE)
_OTHER = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_TAKES = "a file with metrics, or http://HOST:PORT/metrics"
_NAMED = re.compile(r"([\w.-]+)=(.+)", re.DOTALL)
#: Bytes of one file or answer; all metrics of a large broker are a tenth of it.
MOST_BYTES = 256 << 20


def read_metrics(places: Sequence[str | Path], timeout: float = 10.0) -> pa.Table:
    """Read metrics from files and addresses.

    Parameters
    ----------
    places : sequence of str or path
        Files, and addresses such as ``http://broker:7071/metrics``; ``1=FILE`` names
        broker 1 as its origin. Several readings of one broker give rates.
    timeout : float
        Seconds to wait for an address.

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.BROKER_METRICS`. Figures of a file of Prometheus text without timestamps
        are as old as the file.

    Raises
    ------
    InputError
        A place cannot be read, or holds no metrics.
    """
    found = [_read(str(place), timeout) for place in places]
    return pa.concat_tables([BROKER_METRICS.empty_table(), *found])


def _read(place: str, timeout: float) -> pa.Table:
    named = None if Path(place).exists() else _NAMED.fullmatch(place)
    broker, place = named.groups() if named else (None, place)
    if _ADDRESS.match(place):
        text, shown, at = _fetched(place, timeout)
    elif other := _OTHER.match(place):  # the rest may hold a password
        raise InputError(f"{other[0]} addresses are not read: give {_TAKES}")
    else:
        text, shown, at = _file(Path(place))
    return metrics_of(text, shown, at, broker)


def _file(path: Path) -> tuple[str, str, datetime]:
    try:
        with path.open("rb") as file:
            content = _content(file)
        at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): give {_TAKES}") from error
    return _text(content, str(path)), str(path), at


def _fetched(address: str, timeout: float) -> tuple[str, str, datetime]:
    parts = urlsplit(address)
    # A query may hold a token: it is sent, and shown nowhere.
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    if "@" in parts.netloc:
        raise InputError(f"remove the password from the address {shown}: it would not be sent")
    opener = urllib.request.build_opener(_NoRedirect())
    try:
        with opener.open(address, timeout=timeout) as answer:
            content = _content(answer)
    except (OSError, HTTPException, ValueError) as error:
        why = error.reason if isinstance(error, urllib.error.URLError) else error
        raise InputError(
            f"{shown} has no metrics that can be read ({why}): check the address"
        ) from error
    return _text(content, shown), shown, datetime.now(UTC)


def _content(file: BinaryIO) -> bytes:
    """Return what a file has, as far as it matters whether that is too much.

    Reading so much at once would take the memory of the largest file for the smallest.
    """
    pieces, size = [], 0
    while size <= MOST_BYTES and (piece := file.read(1 << 20)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: requests go to the addresses that people gave, and to no other."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _text(content: bytes, shown: str) -> str:
    if len(content) > MOST_BYTES:
        raise InputError(f"{shown} is larger than {MOST_BYTES >> 20} MiB: give the metrics alone")
    try:
        return text_of(content)
    except UnicodeDecodeError as error:
        raise InputError(f"{shown} is not text: give metrics as text, not compressed") from error
