"""`sharelag requests`, `consumed` and `metrics`: logs and metrics of brokers and consumers."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from sharelag.cli.ask import note_partial, write_lacking
from sharelag.cli.options import OUTPUT, TIMEOUT, VERBOSE, command, pick, repeat, switch, text
from sharelag.cli.output import print_rows, start_local, tell
from sharelag.model import iso
from sharelag.tables import views

_TABLES = (
    *("held", "holds", "memberships", "sessions", "batching", "findings", "errors"),
    *("session_partitions", "requests", "acquisitions", "acknowledgements", "heartbeats"),
    *("state_calls", "offset_calls", "descriptions", "listings", "described_members"),
    *("current_leaders", "rejects"),
)


@command(OUTPUT, VERBOSE)
@click.argument("log", type=click.Path(path_type=Path), metavar="LOG")
@pick(
    "--show  held: who holds which offsets locked at one moment; holds: all locks and how they "
    "ended; memberships: each member's topics and partitions over time; sessions: partitions of "
    "the share sessions; batching: how much is acknowledged in whole acquired runs; findings: "
    "what is wrong; errors: which requests failed, how often, and what to do; else a table of the "
    "log.",
    among=_TABLES,
    default="held",
)
@repeat("--group GROUP  Limit to this group; repeatable.")
@text(
    "--as-of TIME  With --show held: a time with its zone (2026-11-21T03:10:00Z).  [default: the "
    "end of the log]"
)
@text(
    "--zone ZONE  Time zone of times without one, such as Europe/Berlin; log4j's %d does not "
    "write it.  [default: derived from a collector's times beside the log's own, else UTC]"
)
@text(
    "--capture DIR  With --show findings: a capture of the same cluster, or the name of a sample, "
    "in which to look for the record of every write."
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
    """Read a broker's request log: who holds which offsets, and what is wrong.

    LOG is what Kafka's logger kafka.request.logger writes at level DEBUG, or a folder of such
    files; for a cluster with several brokers, a folder with the logs of all.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from sharelag.inputs.files.request_log import RequestLog
    from sharelag.replay.moment import parse_time
    from sharelag.workbench.side_inputs import Requests

    for name, value, needs in (("--as-of", as_of, "held"), ("--capture", capture, "findings")):
        if value and show != needs:
            raise click.UsageError(f"{name} needs --show {needs}.")
    start_local()
    read = Requests(RequestLog(log, zone))
    when: datetime | None = None if as_of is None else parse_time(as_of)
    history = None
    if capture is not None:
        from sharelag.engine.local import QuickReading
        from sharelag.inputs.open import open_named

        history = QuickReading(open_named(capture=capture)).history().table
    table = read.table(show, when, history)
    if group and "group_id" in table.column_names:
        table = table.filter(pc.is_in(table.column("group_id"), pa.array(group)))
    view = views.REQUESTS.get(show)
    lacks = () if show == "rejects" else read.lacks
    if output == "human" and not table.num_rows and not lacks:
        tell(_nothing(show, when))
    write_lacking(table, output, view.columns if view else None, lacks)
    tell(read.summary(), read.span())
    if show not in ("findings", "rejects"):
        found = Counter(read.findings().column("finding").to_pylist())
        tell(*(f"{name}: {count}; --show findings shows them" for name, count in found.items()))
    return note_partial(None, output, lacks)


def _nothing(show: str, when: datetime | None) -> str:
    """Return the meaning of an empty table."""
    if show == "findings":
        return "the checkers found nothing wrong"
    if show != "held":
        return f"the request log has no rows for --show {show}"
    at = "at the end of the log" if when is None else f"at {iso(when)}"
    return f"nobody holds any offset {at}; --show holds lists every lock and how it ended"


@command(OUTPUT, VERBOSE)
@click.argument("log", type=click.Path(path_type=Path), metavar="FILE")
@pick(
    "--show  deliveries: records that consumers received; outcomes: acknowledgements that "
    "succeeded or failed, as reported to a callback; rejects: lines that could not be read.",
    among=list(views.CONSUMED),
    default="deliveries",
)
@switch("--failed  With --show outcomes: show only acknowledgements that failed.")
@text(
    "--separator TEXT  The key.separator of the console consumer.  [default: a tab]",
    default="\t",
    show_default=False,
)
def consumed(log: Path, output: str, show: str, failed: bool, separator: str) -> int | None:
    """Read the output of Kafka's consumers: deliveries, and the outcomes of acknowledgements.

    FILE is the output of kafka-console-share-consumer.sh with print.partition, print.offset and
    print.delivery, of kafka-verifiable-share-consumer.sh, or of your own acknowledgement callback;
    or a folder of such files. Keys, headers and values are not kept.
    """
    import pyarrow.compute as pc

    from sharelag.inputs.files.request_log import ConsumedLog
    from sharelag.tables.lines import each_row

    if failed and show != "outcomes":
        raise click.UsageError("--failed needs --show outcomes.")
    start_local()
    read = ConsumedLog(log, separator)
    table = read.tables[show]
    if failed:
        table = table.filter(pc.invert(table.column("succeeded").fill_null(False)))
    lacks = () if show == "rejects" else read.lacks(show)
    write_lacking(each_row(table), output, views.CONSUMED[show].columns, lacks)
    tell(read.summary())
    return note_partial(None, output, lacks)


@command(OUTPUT, TIMEOUT, VERBOSE)
@click.argument("places", nargs=-1, required=True, metavar="FILE_OR_URL...")
@repeat("--group GROUP  Limit to this group; repeatable.")
@switch("--all everything  Show all metrics, not only those of share groups.")
def metrics(
    places: tuple[str, ...], output: str, timeout: Any, group: tuple[str, ...], everything: bool
) -> None:
    """Show the brokers' own metrics of share groups, under Kafka's MBean names.

    A file is the output of Kafka's JmxTool, or Prometheus text, as the JMX exporter writes it; an
    address is http://HOST:PORT/metrics. 1=FILE_OR_URL says that it comes from broker 1; two
    readings of one broker give rates. --broker-metrics of lag, progress and explain takes the same.
    """
    start_local()
    from sharelag.workbench.side_inputs import BrokerMetrics, metrics_answer

    read = BrokerMetrics(places, timeout.total_seconds())
    found = metrics_answer(read, group or None, everything)
    print_rows(found.table, output, found.columns)
    tell(*found.notes)
    if not len(found):
        what = "figures of these groups" if group else "figures about share groups"
        tell(f"{len(read.table):,} figures, but no {what}; --all shows all")
