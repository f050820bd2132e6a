"""`sharelag mcp`: answers for agents, by the Model Context Protocol."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from sharelag.cli.once import Command
from sharelag.cli.options import (
    CHOICE,
    ENGINE,
    INPUT,
    OVER,
    TIMEOUT,
    VERBOSE,
    choice_of,
    moment_of,
    source_of,
    with_options,
)
from sharelag.cli.output import start


@click.command(cls=Command)
@with_options(INPUT, CHOICE, ENGINE, TIMEOUT, VERBOSE, OVER)
def mcp(engine: str, over: timedelta, **options: Any) -> None:
    """Answer agents over stdin and stdout, by the Model Context Protocol; read only.

    The tools are groups, lag, explain, window, what_if, compare, settings, plan_reset and
    plan_delete. They read the input that is given here and no other. An agent's configuration has
    this command, such as `sharelag mcp --bootstrap-server localhost:9092`.
    """
    from sharelag.monitoring.agents.server import server_of
    from sharelag.workbench.bench import Workbench

    source = source_of(options)
    bench = Workbench(
        source=source,
        as_of=moment_of(options),
        choice=choice_of(options),
        engine=start(engine, source),
        over=over,
        bars=False,
    )
    server_of(bench, ahead=True).run("stdio")
