"""`sharelag check`: judge rules for a monitoring system, by the exit code."""

from __future__ import annotations

import json
import traceback
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from sharelag.cli import options as option
from sharelag.cli.options import Call, Command, choice_of, moment_of, source_of, with_options
from sharelag.cli.output import (
    one_line,
    plain,
    print_rows,
    read_by,
    reading_bar,
    start,
    tell,
    write,
)
from sharelag.errors import ShareLagError
from sharelag.tables import views
from sharelag.tables.level import CHECKED

_UNKNOWN = 3


#: The examples that come with sharelag: within the package in a wheel, in the data folder of a
#: checkout.
_HERE = Path(__file__).resolve()
_SHELVES = (_HERE.parents[1] / "examples", _HERE.parents[2] / "data" / "examples")


def example(name: str) -> Path:
    """Return the path of an example: a rule file, a Grafana dashboard, a KEDA ScaledObject."""
    return next(shelf / name for shelf in _SHELVES if (shelf / name).is_file())


def _print_example(ctx: click.Context, _: click.Parameter, requested: bool) -> None:
    if requested and not ctx.resilient_parsing:
        write(example("rules.yaml").read_text("utf-8").splitlines())
        ctx.exit()


class _Check(Command):
    """A command whose every failure, including usage errors, exits as unknown.

    Monitoring reads the first line of standard output, so the reason is printed there.
    """

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        # Parse again without errors: an option determines how to report the failure.
        ways = ("resilient_parsing", "ignore_unknown_options", "allow_extra_args")
        lenient = extra | dict.fromkeys(ways, True)
        requested = super().make_context(info_name, list(args), parent, **lenient)
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.ClickException as error:
            raise _report_wrong_usage(requested, error) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            raise _report_wrong_usage(ctx, error) from None
        except (click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:  # after any error, the outcome of the check is unknown
            if ctx.ensure_object(Call).for_tracebacks:
                traceback.print_exc()
            _tell(ctx, one_line(error))
            return _UNKNOWN


class _WrongUsage(click.UsageError):
    exit_code = _UNKNOWN


def _report_wrong_usage(ctx: click.Context, error: click.ClickException) -> click.ClickException:
    _tell(ctx, error.format_message())
    return _WrongUsage(error.format_message(), getattr(error, "ctx", None))


def _tell(ctx: click.Context, reason: str) -> None:
    from sharelag.tables.words import terminal

    ctx.ensure_object(Call).status = _UNKNOWN
    if ctx.params.get("output") == "json":
        from sharelag import schemas

        row = dict.fromkeys(schemas.CHECKED.names) | {"level": "unknown", "summary": reason}
        write([json.dumps(row, ensure_ascii=False)], "json")
    else:
        write([f"UNKNOWN: {terminal(reason)}"])


@click.command(cls=_Check)
@option.path("--rules rule_file FILE  YAML file with the rules.", required=True)
@option.switch(
    "--example  Print an example rule file and exit.",
    is_eager=True,
    expose_value=False,
    callback=_print_example,
)
@with_options(option.INPUT, option.CHOICE, option.output("human", "json"), option.HOW, option.OVER)
@option.path(
    "--ledger DIR  Keep forecasts of the lag in this Delta table, as sharelag forecasts does; "
    "later runs report how often they came true."
)
def check(
    rule_file: Path, output: str, engine: str, over: timedelta, ledger: Path | None, **options: Any
) -> int:
    """Check the groups against rules: exit code 0 ok, 1 warning, 2 critical, 3 unknown.

    Prints what is not ok, or soon will not be; -o json prints everything, one line per rule and
    group. How long a condition has lasted is read from the records, so no state is kept between
    runs.
    """
    from sharelag.engine import engines
    from sharelag.monitoring.checks.judge import CODES, check_reading
    from sharelag.monitoring.checks.rules import read_rules

    rules = read_rules(rule_file)
    source, moment, choice = source_of(options), moment_of(options), choice_of(options)
    sentences: tuple[str, ...] = ()
    with (
        reading_bar(source) as read,
        engines.read(read, start(engine, source), moment, choice, over) as begun,
    ):
        found = check_reading(begun, rules)
        if ledger is not None:
            from sharelag.workbench.questions.forecasts import keep_forecasts

            try:
                sentences = keep_forecasts(begun, str(ledger)).sentences
            except ShareLagError as error:  # the groups are judged anyway
                sentences = (f"no forecast was kept: {one_line(error)}",)
    status = Call.will_end(CODES[found.level])
    rows = plain(found.table)
    if output == "json":
        print_rows(rows, "json")
    else:
        counts = Counter("silenced" if row["silenced_until"] else row["level"] for row in rows)
        shown = (f"{counts[name]} {name}" for name in (*CHECKED, "silenced") if counts[name])
        write([f"{found.level.upper()}: {', '.join(shown)}"])
        bad = [row for row in rows if row["level"] != "ok" or row["due"]]
        for row in bad:  # share partition in one cell, to save room on a narrow terminal
            if row["partition"] is not None:
                row["topic"] = f"{row['topic']}:{row['partition']}"
        print_rows(bad, "human", views.CHECKS.without("partition").columns)
    reasons = {str(row["summary"]).removeprefix("not known: ") for row in rows}
    tell(*sentences)
    read_by(found.evidence, source, options["as_of"] is not None, reasons)
    return status
