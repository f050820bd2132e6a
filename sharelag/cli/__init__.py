"""The command line. Thin: it reads options, calls one public function, and prints.

Results go to standard output, everything else to standard error. Exit codes: 0 fine, 1 an error
with one line that says what to do, 2 wrong usage; `check` has 0 to 3, as monitoring expects.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Iterator, Mapping
from importlib import import_module

import click

from sharelag.cli.options import Call, Grouped
from sharelag.cli.output import Later, NoDocstrings, Without, exit_code, leave, one_line, tell
from sharelag.tables.words import terminal
from sharelag.version import __version__


def main() -> None:
    """Run the command line (the ``sharelag`` script)."""
    # A terminal that lacks a character of a name shows its number instead.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    # jsonschema imports it to validate IRIs, which no notebook has: its parsers take 2.5 seconds.
    sys.meta_path[:0] = [Later(), Without({"rfc3987_syntax": "jsonschema"})]
    parser = NoDocstrings("pyarrow.vendored.docscrape")
    sys.modules[parser.__name__] = parser
    # Show warnings of our own modules if logging is not configured. The root logger has the handler
    # already, or Py4J would configure one at an interrupt, and print tracebacks.
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Warning())
        logging.lastResort.addFilter(_is_news)
        logging.getLogger().addHandler(logging.lastResort)
    asked = Call()
    try:
        status = cli(standalone_mode=False, prog_name="sharelag", obj=asked)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    except Exception as error:
        # The last resort: one line for people, the traceback on request.
        if asked.for_tracebacks:
            traceback.print_exc()
        tell(one_line(error))
        sys.exit(asked.status or exit_code(error))
    leave(status if isinstance(status, int) else 0)


def _is_news(record: logging.LogRecord) -> bool:
    """Return whether the logger of a record has no handlers; Py4J logs too much at an interrupt."""
    logger: logging.Logger | None = logging.getLogger(record.name)
    while logger is not None and logger.parent is not None:
        if logger.handlers:
            return False
        logger = logger.parent
    return not (record.exc_info and isinstance(record.exc_info[1], KeyboardInterrupt))


class _Warning(logging.Formatter):
    """Format of a warning on standard error: one line, with the usual prefix."""

    def format(self, record: logging.LogRecord) -> str:
        return f"sharelag: {terminal(record.getMessage())}"


#: The module of each command, imported when the command is used.
_HOMES = {
    name: home
    for home, names in {
        "questions": "lag groups members brokers explain progress forecasts imbalance health "
        "reconcile windows decode history",
        "requests": "requests consumed metrics",
        "plans": "dlq peek plan-reset plan-delete",
        "export": "export mcp",
        "settings": "settings lint",
    }.items()
    for name in names.split()
} | {name: name for name in ("capture", "check", "demo", "doctor", "report", "simulate")}


class _Commands(Mapping[str, click.Command]):
    """The commands by name, each imported on first use."""

    def __getitem__(self, name: str) -> click.Command:
        home = import_module(f"{__name__}.{_HOMES[name]}")
        found: click.Command = getattr(home, name.replace("-", "_"))
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(_HOMES)

    def __len__(self) -> int:
        return len(_HOMES)


@click.group(
    cls=Grouped,
    commands=_Commands(),
    epilog="`sharelag COMMAND --help` shows its options. Shell completion: docs/install.md.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="sharelag")
def cli() -> None:
    """Where is the backlog of a Kafka share group, and why is it there?"""
