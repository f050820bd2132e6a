"""Without anybody watching: a check that pages, and numbers for those who draw, alert and scale."""

from __future__ import annotations

import json
import signal
import sys
import time
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from sharelag.cli.examples import example_option
from sharelag.cli.options import (
    CHOICE,
    ENGINE,
    INPUT,
    TIMEOUT,
    VERBOSE,
    Duration,
    choice_of,
    moment_of,
    source_of,
    with_options,
)
from sharelag.cli.output import one_line, read_by, shown, start, write
from sharelag.cli.why import OVER, reading_of
from sharelag.tables import views
from sharelag.tables.level import CHECKED

_UNKNOWN = 3


class _Check(click.Command):
    """A command whose every failure, wrong usage too, is the exit code of what is not known.

    Monitoring reads the first line of standard output, so the reason stands there.
    """

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        # Read once more without complaints: how to tell that something is wrong is one of the
        # options.
        lenient = extra | {
            "resilient_parsing": True,
            "ignore_unknown_options": True,
            "allow_extra_args": True,
        }
        asked = super().make_context(info_name, list(args), parent, **lenient)
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.ClickException as error:
            raise _unknown(asked, error) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            raise _unknown(ctx, error) from None
        except (click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:  # whatever it was, the outcome of the check is not known
            if {"-v", "--verbose"} & set(sys.argv):
                traceback.print_exc()
            _tell(ctx, one_line(error))
            return _UNKNOWN


class _WrongUsage(click.UsageError):
    exit_code = _UNKNOWN


def _unknown(ctx: click.Context, error: click.ClickException) -> click.ClickException:
    _tell(ctx, error.format_message())
    return _WrongUsage(error.format_message(), getattr(error, "ctx", None))


def _tell(ctx: click.Context, reason: str) -> None:
    from sharelag.workbench.show import terminal

    if ctx.params.get("output") == "json":
        write(
            [json.dumps({"rule": None, "level": "unknown", "summary": reason}, ensure_ascii=False)]
        )
    else:
        write([f"UNKNOWN: {terminal(reason)}"])


@click.command(cls=_Check)
@click.option(
    "--rules",
    "rule_file",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="The rules, as YAML.",
)
@example_option("rules.yaml", "a file of rules, one of each kind")
@with_options(INPUT, CHOICE)
@click.option(
    "-o", "--output", type=click.Choice(["human", "json"]), default="human", show_default=True
)
@with_options(ENGINE, TIMEOUT, VERBOSE, OVER)
def check(rule_file: Path, output: str, engine: str, over: timedelta, **options: Any) -> int:
    """Judge the groups by rules: exit code 0 fine, 1 warning, 2 critical, 3 not known.

    Prints what is not fine, and with -o json everything, a line a rule and group. For how long
    something has lasted is read from the records and asked of Kafka, so that nothing is kept
    between runs.
    """
    from sharelag.monitoring.check import check as judge
    from sharelag.monitoring.checks.judge import CODES
    from sharelag.monitoring.checks.rules import read_rules
    from sharelag.workbench import show

    rules = read_rules(rule_file)
    source, moment, choice = source_of(options), moment_of(options), choice_of(options)
    with shown(source) as read:
        found = judge(read, rules, start(engine, source), moment, choice, over)
    rows = show.plain_rows(found.table)
    if output == "json":
        write(show.lines(rows, "json"))
    else:
        write([_heading(found.level, rows)])
        write(
            show.lines([row for row in rows if row["level"] != "ok"], "human", views.CHECKS.columns)
        )
    read_by(found.evidence, source, options["as_of"] is not None)
    return CODES[found.level]


def _heading(level: str, rows: list[dict[str, Any]]) -> str:
    counts = dict.fromkeys(CHECKED, 0)
    silenced = 0
    for row in rows:
        if row["silenced_until"]:
            silenced += 1
        else:
            counts[row["level"]] += 1
    told = [f"{count} {name}" for name, count in (*counts.items(), ("silenced", silenced)) if count]
    return f"{level.upper()}: {', '.join(told)}"


@click.group(invoke_without_command=True)
@click.option(
    "--to",
    type=click.Choice(["parquet", "delta"]),
    help="Write lag, windows and imbalance: a folder of files for this run, or rows appended to Delta tables.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="With --to: where the runs or tables are.",
)
@with_options(INPUT, CHOICE, ENGINE, TIMEOUT, VERBOSE, OVER)
@click.pass_context
def export(
    context: click.Context,
    /,
    to: str | None,
    out: Path | None,
    engine: str,
    over: timedelta,
    **options: Any,
) -> None:
    """The numbers for other programs: tables (--to), Prometheus and KEDA (the commands below)."""
    if context.invoked_subcommand is not None:
        given = [name for name in context.params if _is_given(context, name)]
        if given:
            raise click.UsageError(
                f"put options behind {context.invoked_subcommand}, not before it."
            )
        return
    if to is None or out is None:
        raise click.UsageError(
            "say what to export: --to parquet|delta --out DIR, or one of the commands prometheus, serve."
        )
    from sharelag.monitoring.exports.lake import append_run, write_run

    with reading_of(engine, over, options) as (begun, source):
        if to == "parquet":
            told = f"wrote {write_run(begun, out)}"
        else:
            appended = append_run(begun, out)
            told = (
                f"appended to {', '.join(appended)} in {out}"
                if appended
                else f"{out} has this moment already"
            )
        click.echo(f"sharelag: {told}", err=True)
        read_by(begun.evidence, source, options["as_of"] is not None)


def _is_given(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


@export.command()
@click.option(
    "--textfile",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="For node_exporter's textfile collector; its name has to end in .prom there.",
)
@with_options(INPUT, CHOICE, ENGINE, TIMEOUT, VERBOSE, OVER)
def prometheus(textfile: Path, engine: str, over: timedelta, **options: Any) -> None:
    """Write the metrics into a file, once; on failure the file stays as it is."""
    from sharelag.monitoring.exports.gathered import Gathered
    from sharelag.monitoring.exports.metrics import write_textfile

    begun = time.monotonic()
    with reading_of(engine, over, options) as (read, source):
        evidence = read.evidence
    write_textfile(Gathered(evidence, time.monotonic() - begun, time.time(), attempts=1), textfile)
    click.echo(f"sharelag: wrote {textfile}", err=True)
    read_by(evidence, source, options["as_of"] is not None)


@export.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9308,
    show_default=True,
    help="0 takes a free one.",
)
@click.option(
    "--token",
    envvar="SHARELAG_TOKEN",
    metavar="TEXT",
    help="What clients have to send (Authorization: Bearer); needed on any address but this machine's own. Others can "
    "read it on a command line: $SHARELAG_TOKEN is the better place.",
)
@click.option(
    "--every",
    type=Duration(timedelta(seconds=1)),
    default="30s",
    show_default=True,
    metavar="DURATION",
    help="From one gathering to the next; whoever asks meanwhile gets the last result.",
)
@with_options(INPUT, CHOICE, ENGINE, TIMEOUT, VERBOSE, OVER)
def serve(
    host: str,
    port: int,
    token: str | None,
    every: timedelta,
    engine: str,
    over: timedelta,
    **options: Any,
) -> None:
    """Answer Prometheus (/metrics) and KEDA (/keda/GROUP) until interrupted."""
    from sharelag.monitoring.exports.gathered import gathering
    from sharelag.monitoring.exports.server import server, write_ahead
    from sharelag.workbench import investigate

    # What is wrong with the options is said now; a cluster that does not answer yet is one of the
    # metrics.
    source_of(options)
    moment, choice = moment_of(options), choice_of(options)

    def gather() -> Any:
        # An input remembers what it has read, so each time is another one.
        return investigate.gather(source_of(options), engine, moment, choice, over)

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with (
            gathering(gather, every.total_seconds(), write_ahead) as gathered,
            server(gathered, host, port, token) as running,
        ):
            shown_host = f"[{host}]" if ":" in host else host
            click.echo(
                f"sharelag: http://{shown_host}:{running.server_port}/metrics, Ctrl-C ends it",
                err=True,
            )
            running.serve_forever()
    except KeyboardInterrupt:
        click.echo("sharelag: ended", err=True)


COMMANDS: tuple[click.Command, ...] = (check, export)
