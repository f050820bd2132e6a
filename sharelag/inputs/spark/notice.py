"""A status line in a notebook or on a terminal, removed when the wait is over."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread


def in_notebook() -> bool:
    """Whether a Jupyter kernel runs us."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return bool(getattr(shell, "kernel", None))


#: The lines that a terminal shows now.
_SHOWN: list[str] = []


def is_shown() -> bool:
    """Whether a terminal shows such a line now."""
    return bool(_SHOWN)


@contextmanager
def notice(words: str) -> Iterator[None]:
    """Show a line during the ``with`` block in a notebook or terminal, never on standard output.

    A notebook shows it only where a cell waits: what a thread clears later may reach no cell.
    """
    line = f"{words} ..."
    if in_notebook() and current_thread() is main_thread():
        with display_line(line):
            yield
    elif in_notebook():
        yield
    elif sys.stderr.isatty():
        _SHOWN.append(line)
        _write(f"\r{line}\x1b[K")
        try:
            yield
        finally:
            _SHOWN.remove(line)
            _write("\r\x1b[K")
    else:
        yield


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


@contextmanager
def display_line(line: str) -> Iterator[Callable[[str], None]]:
    """Show a line in a notebook during the ``with`` block; yield what replaces it."""
    from IPython.display import display

    shown = display({"text/plain": line}, raw=True, display_id=True)  # type: ignore[no-untyped-call]
    try:
        yield lambda other: shown.update({"text/plain": other}, raw=True)
    finally:
        shown.update({"text/plain": ""}, raw=True)
