"""`sharelag requests`: a broker's log of requests, who holds locks, and what is wrong."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import click

from sharelag.cli.once import Command
from sharelag.cli.options import OUTPUT, VERBOSE, with_options
from sharelag.cli.output import start_local
from sharelag.cli.partial import note_partial, write_lacking
from sharelag.cli.telling import tell
from sharelag.model import iso
from sharelag.tables import views

_TABLES = (
    *("held", "holds", "memberships", "sessions", "batching", "findings", "errors"),
    *("session_partitions", "requests", "acquisitions", "acknowledgements"),
    *("heartbeats", "state_calls", "offset_calls", "descriptions"),
    "listings",
    *("described_members", "current_leaders", "rejects"),
)


@click.command(cls=Command)
@click.argument("log", type=click.Path(path_type=Path), metavar="LOG")
@with_options(OUTPUT, VERBOSE)
@click.option(
    "--show",
    type=click.Choice(_TABLES),
    default="held",
    show_default=True,
    help="held: who holds which offsets locked at one moment; holds: all locks and how they ended; "
    "memberships: who was a member, of what; sessions: which partitions share sessions have; "
    "batching: how much is acknowledged as it was acquired; findings: what the checkers found; "
    "errors: which requests failed, how often, and what to do; else a table of the log.",
)
@click.option("--group", multiple=True, metavar="GROUP", help="Only this group; repeatable.")
@click.option(
    "--as-of",
    metavar="TIME",
    help="Of --show held: a time with its zone (2026-11-21T03:10:00Z); else the end of the log.",
)
@click.option(
    "--zone",
    metavar="ZONE",
    help="The time zone of times without one, such as Europe/Berlin: log4j's %d writes none.  "
    "[default: what a collector's times beside them tell, else UTC]",
)
@click.option(
    "--capture",
    metavar="DIR",
    help="A capture of the same cluster, or the name of a sample: --show findings looks for the "
    "record of every write.",
)
def requests(
    log: Path,
    output: str,
    show: str,
    group: tuple[str, ...],
    as_of: str | None,
    zone: str | None,
    capture: str | None,
) -> int | None:
    """Read a broker's log of requests: who holds which offsets, and what is wrong.

    LOG is what Kafka's logger kafka.request.logger writes at level DEBUG, or a folder of such
    files; of a cluster with several brokers, a folder with the logs of all.
    """
    from sharelag.replay.moment import parse_time
    from sharelag.sources.files.request_log import RequestLog
    from sharelag.tables.lines import plain_rows
    from sharelag.tables.words import terminal
    from sharelag.workbench.requests import Requests

    for name, value, needs in (("--as-of", as_of, "held"), ("--capture", capture, "findings")):
        if value and show != needs:
            raise click.UsageError(f"{name} needs --show {needs}.")
    start_local()
    read = Requests(RequestLog(log, zone))
    when: datetime | None = None if as_of is None else parse_time(as_of)
    if show == "findings":
        table = read.findings(None if capture is None else _history(capture))
        if group:
            table = table.filter([one in group for one in table.column("group_id").to_pylist()])
    else:
        table = read.only(show, frozenset(group), when)
    view = views.REQUESTS.get(show)
    lacks = () if show == "rejects" else read.lacks
    if output == "human" and not table.num_rows and not lacks:
        tell(_nothing(show, when))
    write_lacking(plain_rows(table), output, view.columns if view else None, lacks)
    tell(read.summary())
    tell(read.span())
    if show not in ("findings", "rejects"):
        found: dict[str, int] = {}
        for name in read.findings().column("finding").to_pylist():
            found[name] = found.get(name, 0) + 1
        for name, count in found.items():
            tell(f"{terminal(name)}: {count}; --show findings shows them")
    return note_partial(None, output, lacks)


def _nothing(show: str, when: datetime | None) -> str:
    """Return what it means that a table has no rows."""
    if show == "findings":
        return "the checkers found nothing wrong"
    if show != "held":
        return f"the log of requests has nothing for --show {show}"
    at = "where the log ends" if when is None else f"at {iso(when)}"
    return f"nobody holds any offset {at}; --show holds has every lock and how it ended"


def _history(capture: str) -> Any:
    from sharelag.quick import QuickReading
    from sharelag.sources.open import named_input

    return QuickReading(named_input(capture=capture)).history().table
