"""Command lines of what a test starts, as anybody on the machine can read them."""

import threading
from contextlib import suppress
from typing import Self

import psutil

_EVERY = 0.1


class ProcessList:
    """The command lines of all processes that this one or its children start in the meantime.

    Examples
    --------
    >>> with ProcessList() as seen:
    ...     ...
    >>> assert not [line for line in seen.lines if secret in line]
    """

    def __init__(self) -> None:
        self.lines: set[str] = set()
        self._were_there = {one.pid for one in _descendants()}
        self._is_over = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._reader.join()

    def has(self, word: str) -> bool:
        """Return whether a process was seen with this in its command line."""
        return any(word in line for line in self.lines)

    def _read(self) -> None:
        while not self._is_over.wait(_EVERY):
            for one in _descendants():
                # A process can end meanwhile, and one that has ended has no command line.
                with suppress(psutil.Error):
                    if one.pid not in self._were_there:
                        self.lines.add("\0".join(one.cmdline()))


def _descendants() -> list[psutil.Process]:
    found: list[psutil.Process] = psutil.Process().children(recursive=True)
    return found
