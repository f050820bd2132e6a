"""Sentences on standard error, which fit the terminal where they are looked at."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from dataclasses import dataclass

import click

from sharelag.tables.words import terminal

#: A command of Kafka at the end of a sentence, for people to copy.
_COMMAND = re.compile(r"(?<=: )kafka-[a-z-]+\.sh --bootstrap-server .+\Z")


@dataclass
class Asked:
    """What options say of errors, which are printed once the command has ended."""

    for_tracebacks: bool = False

    @classmethod
    def note(cls, context: click.Context, _: click.Parameter, verbose: bool) -> None:
        """Note that `-v` was given, for as long as the whole command line lasts."""
        context.ensure_object(cls).for_tracebacks |= verbose


def tell(*sentences: str) -> None:
    """Print sentences about an answer on standard error, wrapped where that is a terminal.

    A command at the end of one stays in one line, since a shell would run each line of what is
    copied. What would act on a terminal is escaped.
    """
    for words in sentences:
        _tell(f"sharelag: {terminal(words)}")


def _tell(said: str) -> None:
    if sys.stderr.isatty():
        command = _COMMAND.search(said)
        # Names and moments stay whole, to be copied; a file or a pipe gets one line.
        lines = textwrap.wrap(
            said[: command.start()] if command else said,
            _width(),
            subsequent_indent="  ",
            break_on_hyphens=False,
            break_long_words=False,
        )
        said = "\n".join([*lines, *([command[0]] if command else [])])
    click.echo(said, err=True)


def _width() -> int:
    """Return the width of the terminal behind standard error; standard output may be a file."""
    if not os.environ.get("COLUMNS"):
        try:
            return os.get_terminal_size(sys.stderr.fileno()).columns or 80
        except OSError:  # a terminal of Python's own, such as a test's
            return 80
    return shutil.get_terminal_size().columns
