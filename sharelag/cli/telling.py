"""Sentences on standard error, which fit the terminal where they are looked at."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from dataclasses import dataclass

import click


@dataclass
class Asked:
    """What a command's options ask of errors, which are told after the command has ended."""

    for_tracebacks: bool = False

    @classmethod
    def note(cls, context: click.Context, _: click.Parameter, verbose: bool) -> None:
        """Note that `-v` was given, for as long as the whole command line lasts."""
        context.ensure_object(cls).for_tracebacks |= verbose


def tell(words: str) -> None:
    """Print a sentence about an answer on standard error, wrapped where that is a terminal."""
    said = f"sharelag: {words}"
    if sys.stderr.isatty():
        # Names and moments stay whole, to be copied; a file or a pipe gets one line.
        said = textwrap.fill(
            said, _width(), subsequent_indent="  ", break_on_hyphens=False, break_long_words=False
        )
    click.echo(said, err=True)


def _width() -> int:
    """Return the width of the terminal behind standard error; standard output may be a file."""
    if not os.environ.get("COLUMNS"):
        try:
            return os.get_terminal_size(sys.stderr.fileno()).columns or 80
        except OSError:  # a terminal of Python's own, such as a test's
            return 80
    return shutil.get_terminal_size().columns
