"""`sharelag consumed`: what consumers printed, as tables."""

from __future__ import annotations

from pathlib import Path

import click

from sharelag.cli.once import Command
from sharelag.cli.options import OUTPUT, VERBOSE, with_options
from sharelag.cli.output import start_local
from sharelag.cli.partial import note_partial, write_lacking
from sharelag.cli.telling import tell
from sharelag.tables import views


@click.command(cls=Command)
@click.argument("log", type=click.Path(path_type=Path), metavar="FILE")
@with_options(OUTPUT, VERBOSE)
@click.option(
    "--show",
    type=click.Choice(list(views.CONSUMED)),
    default="deliveries",
    show_default=True,
    help="deliveries: records that consumers were given; outcomes: acknowledgements that succeeded "
    "or failed, as a callback heard it; rejects: lines that could not be read.",
)
@click.option(
    "--failed", is_flag=True, help="Of --show outcomes: only acknowledgements that failed."
)
@click.option(
    "--separator",
    default="\t",
    metavar="TEXT",
    help="The key.separator of the console consumer; a tab if not given.",
)
def consumed(log: Path, output: str, show: str, failed: bool, separator: str) -> int | None:
    """Read what Kafka's consumers printed: deliveries, and how their acknowledgements fared.

    FILE is output of kafka-console-share-consumer.sh with print.partition, print.offset and
    print.delivery, of kafka-verifiable-share-consumer.sh, or of your own acknowledgement callback;
    or a folder of such files. Keys, headers and values are not kept.
    """
    from sharelag.sources.files.consumed import ConsumedLog
    from sharelag.tables.lines import each_row

    if failed and show != "outcomes":
        raise click.UsageError("--failed needs --show outcomes.")
    start_local()
    read = ConsumedLog(log, separator)
    table = read.tables[show]
    if failed:
        table = table.filter([not one for one in table.column("succeeded").to_pylist()])
    lacks = () if show == "rejects" else read.lacks(show)
    write_lacking(each_row(table), output, views.CONSUMED[show].columns, lacks)
    tell(read.summary())
    return note_partial(None, output, lacks)
