"""`sharelag metrics`: what brokers and clients measure themselves."""

from __future__ import annotations

from typing import Any

import click

from sharelag.cli.once import Command
from sharelag.cli.options import OUTPUT, TIMEOUT, VERBOSE, with_options
from sharelag.cli.output import start_local, write
from sharelag.cli.telling import tell
from sharelag.tables import views


@click.command(cls=Command)
@click.argument("places", nargs=-1, required=True, metavar="FILE_OR_URL...")
@with_options(OUTPUT, TIMEOUT, VERBOSE)
@click.option("--group", multiple=True, metavar="GROUP", help="Only this group; repeatable.")
@click.option("--all", "everything", is_flag=True, help="All figures, not those of shares alone.")
def metrics(
    places: tuple[str, ...],
    output: str,
    timeout: Any,
    group: tuple[str, ...],
    everything: bool,
) -> None:
    """Show what brokers measure themselves about share groups, by Kafka's names of its MBeans.

    Files are what Kafka's JmxTool printed, or Prometheus text, as the JMX exporter writes it; an
    address is http://HOST:PORT/metrics. 1=FILE_OR_URL names broker 1 as its origin: two
    readings of one broker give rates. --broker-metrics of lag, progress and explain reads the same.
    """
    from sharelag.metrics.measured import about_share_groups, acknowledgement_words, letter_words
    from sharelag.sources.measured.read import read_metrics
    from sharelag.tables.lines import lines, plain_rows
    from sharelag.tables.words import terminal

    start_local()
    table = read_metrics(places, timeout.total_seconds())
    shown = table if everything else about_share_groups(table)
    if group:
        keep = [name in group for name in shown.column("group_id").to_pylist()]
        shown = shown.filter(keep)
    write(lines(plain_rows(shown), output, views.BROKER_METRICS.columns))
    for sentence in (*acknowledgement_words(table), *letter_words(table, group or None)):
        tell(terminal(sentence))
    if shown.num_rows == 0:
        what = "figures of these groups" if group else "figures about share groups"
        tell(f"{len(table):,} figures, but no {what}; --all shows all")
