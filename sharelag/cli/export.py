"""`sharelag export` and `mcp`: answers for other programs and for agents."""

from __future__ import annotations

import signal
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from sharelag.cli import options as option
from sharelag.cli.options import (
    Group,
    choice_of,
    command,
    given_options,
    moment_of,
    source_of,
    with_options,
)
from sharelag.cli.output import read_by, reading_of, start, tell
from sharelag.errors import InputError


@click.group(cls=Group, invoke_without_command=True)
@option.pick(
    "--to  Write lag, windows and imbalance to Parquet files of this run, or append them to Delta "
    "tables.",
    among=["parquet", "delta"],
)
@option.path("--out DIR  With --to: the folder of the runs or tables.")
@with_options(option.INPUT, option.CHOICE, option.HOW, option.OVER)
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
    """Export tables (--to), or metrics for Prometheus and KEDA (the commands below)."""
    if context.invoked_subcommand is not None:
        if given_options():
            name = context.invoked_subcommand
            raise click.UsageError(f"put options after {name}, not before it.")
        return
    if to is None or out is None:
        raise click.UsageError(
            "choose what to export: --to parquet|delta --out DIR, or a command: prometheus, serve."
        )
    from sharelag.monitoring.lake import append_run, write_run

    with reading_of(engine, over, options) as (reading, source):
        if to == "parquet":
            tell(f"wrote {write_run(reading, out)}")
        elif appended := append_run(reading, out):
            tell(f"appended to {', '.join(appended)} in {out}")
        else:
            tell(f"{out} already has the rows of this moment")
        read_by(reading.evidence, source, options["as_of"] is not None)


_BRIEF = option.switch(
    "--brief  Export only lag and what Kafka computes it from: cheaper, without ages, windows or "
    "members."
)


@export.command()
@option.path(
    "--textfile FILE  The file to write; node_exporter's textfile collector needs a name that "
    "ends in .prom.",
    required=True,
)
@_BRIEF
@with_options(option.INPUT, option.CHOICE, option.HOW, option.OVER)
def prometheus(textfile: Path, brief: bool, engine: str, over: timedelta, **options: Any) -> None:
    """Write the metrics to a file once; a failure leaves the file unchanged."""
    from sharelag.monitoring.exports import Gathered, write_textfile

    start = time.monotonic()
    with reading_of(engine, over, options) as (read, source):
        evidence = read.lag_evidence if brief else read.evidence
    write_textfile(Gathered(evidence, time.monotonic() - start, time.time(), attempts=1), textfile)
    tell(f"wrote {textfile}")
    read_by(evidence, source, options["as_of"] is not None)


@export.command()
@option.text("--host  The address to listen on.", default="127.0.0.1")
@option.text(
    "--port  The port to listen on; 0 chooses a free one.",
    type=click.IntRange(0, 65535),
    default=9308,
)
@option.text(
    "--token TEXT  The bearer token that clients must send; required unless --host is a loopback "
    "address. Prefer --token-file or $SHARELAG_TOKEN: other users can see command lines.",
    envvar="SHARELAG_TOKEN",
)
@option.path("--token-file FILE  A file with the token, such as a mounted Secret.")
@option.duration(
    "--every  How often to collect; requests get the latest result.",
    least=timedelta(seconds=1),
    default="30s",
)
@_BRIEF
@with_options(option.INPUT, option.CHOICE, option.HOW, option.OVER)
def serve(
    host: str,
    port: int,
    token: str | None,
    token_file: Path | None,
    every: timedelta,
    brief: bool,
    engine: str,
    over: timedelta,
    **options: Any,
) -> None:
    """Serve Prometheus (/metrics) and KEDA (/keda/GROUP) until interrupted."""
    from sharelag.engine import engines
    from sharelag.monitoring.exports import gathering, server, write_ahead

    # Report wrong options now; a cluster that does not answer yet is reported by a metric.
    source_of(options)
    moment, choice = moment_of(options), choice_of(options)
    secret = token if token_file is None else _token_in(token_file, token)

    def gather() -> Any:
        # An input caches what it has read, so open a new one each time.
        return engines.gather(source_of(options), engine, moment, choice, over, brief)

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with (
            gathering(gather, every.total_seconds(), write_ahead) as gathered,
            server(gathered, host, port, secret) as running,
        ):
            shown_host = f"[{host}]" if ":" in host else host
            tell(f"http://{shown_host}:{running.server_port}/metrics, Ctrl-C stops it")
            running.serve_forever()
    except KeyboardInterrupt:
        tell("stopped")


def _token_in(file: Path, other: str | None) -> str:
    """Read a token from a file, without the trailing line feed."""
    if other is not None:
        raise click.UsageError("use either --token (or SHARELAG_TOKEN) or --token-file, not both.")
    from sharelag.inputs.texts import read_text

    try:
        token = read_text(file).strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8"
        raise InputError(f"cannot read the token from {file}: {why}") from None
    if not token:
        raise InputError(
            f"{file} is empty: write the token into it, such as `openssl rand -hex 24`"
        )
    return token


@command(option.INPUT, option.CHOICE, option.HOW, option.OVER)
def mcp(engine: str, over: timedelta, **options: Any) -> None:
    """Serve agents over stdin and stdout with the Model Context Protocol, read-only.

    The tools are groups, lag, explain, window, what_if, compare, settings, plan_reset and
    plan_delete. They read only the input that is given here. Put this command into an agent's
    configuration, such as `sharelag mcp --bootstrap-server localhost:9092`.
    """
    from sharelag.monitoring.agents import server_of
    from sharelag.workbench.bench import Workbench

    source, moment, choice = source_of(options), moment_of(options), choice_of(options)
    bench = Workbench(source, moment, choice, start(engine, source), over, bars=False)
    server_of(bench, ahead=True).run("stdio")
