"""The command line. Thin: it reads options, calls one public function, and prints.

Results go to standard output, everything else to standard error. Exit codes: 0 fine, 1 an error
with one line that says what to do, 2 wrong usage; `check` has 0 to 3, as monitoring expects.
"""

from __future__ import annotations

import sys
import traceback

import click

from sharelag.cli import (
    capture,
    check,
    demo,
    doctor,
    explain,
    export,
    health,
    history,
    lag,
    report,
    settings,
    simulate,
    windows,
)
from sharelag.cli.output import leave, one_line
from sharelag.version import __version__


def main() -> None:
    """Run the command line (the ``sharelag`` script)."""
    # A terminal that lacks a character of a name shows its number instead of nothing at all.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        status = cli(standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    except (
        Exception
    ) as error:  # the last line of defence: one line for people, the traceback on request
        if {"-v", "--verbose"} & set(sys.argv):
            traceback.print_exc()
        click.echo(f"sharelag: {one_line(error)}", err=True)
        sys.exit(1)
    leave(status if isinstance(status, int) else 0)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sharelag")
def cli() -> None:
    """Where is the backlog of a Kafka share group, and why is it there?"""


for _family in (
    lag,
    windows,
    history,
    explain,
    health,
    settings,
    simulate,
    check,
    export,
    report,
    capture,
):
    for _command in _family.COMMANDS:
        cli.add_command(_command)
cli.add_command(demo.demo)
cli.add_command(doctor.doctor)
