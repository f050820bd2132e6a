"""`sharelag capture`: save a cluster for later, once or as an archive that grows."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sharelag.cli.options import (
    CLUSTER,
    TIMEOUT,
    VERBOSE,
    Duration,
    config_of,
    with_options,
)

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from sharelag.monitoring.exports.current import CurrentTables
    from sharelag.sources.kafka.config import ClientConfig


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@with_options(CLUSTER, TIMEOUT, VERBOSE)
@click.option("--overwrite", is_flag=True, help="Replace an existing capture.")
@click.option(
    "--follow",
    is_flag=True,
    help="Keep archiving until interrupted, ahead of Kafka's pruning; runs on Spark.",
)
@click.option(
    "--every",
    type=Duration(timedelta()),
    default="10s",
    show_default=True,
    metavar="DURATION",
    help="With --follow: how often to add records and end offsets.",
)
@click.option(
    "--until-now", is_flag=True, help="With --follow: stop when everything up to now is archived."
)
@click.option(
    "--lag-to",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="PLACE",
    help="With --follow: keep the Delta tables PLACE/windows and PLACE/lag up to date.",
)
def capture(
    folder: Path,
    overwrite: bool,
    follow: bool,
    every: timedelta,
    until_now: bool,
    lag_to: Path | None,
    **options: Any,
) -> None:
    """Save what an investigation needs from a cluster to FOLDER, as Parquet.

    With --follow the folder becomes an archive that grows: every record is stored once, also when
    the command is killed and restarted.
    """
    if follow:
        if overwrite:
            raise click.UsageError(
                "--follow continues an archive and never replaces it: remove --overwrite."
            )
        _follow(folder, every.total_seconds(), until_now, lag_to, options)
        return
    for name, value in {"--until-now": until_now, "--lag-to": lag_to}.items():
        if value:
            raise click.UsageError(f"{name} needs --follow.")
    from sharelag.workbench.capture import capture_kafka

    info = capture_kafka(config_of(options), folder, overwrite=overwrite)
    click.echo(f"captured {info.cluster_id} as of {info.as_of} into {folder}", err=True)


def _follow(folder: Path, every: float, until_now: bool, lag_to: Path | None, options: Any) -> None:
    from sharelag.sources.spark import require_pyspark

    require_pyspark()
    from pyspark.errors import StreamingQueryException

    from sharelag.errors import ClusterError
    from sharelag.sources.spark.follow import follow

    config = config_of(options)
    tables = _tables(config, lag_to) if lag_to else None
    query = follow(config, folder, every=every, until_now=until_now)
    click.echo(
        f"sharelag: archiving into {folder}; Ctrl-C stops, the same command continues", err=True
    )
    try:
        if until_now or tables is None:
            query.awaitTermination()
        if tables is not None:
            _keep_current(tables, config, folder, every, query)
    except KeyboardInterrupt:
        raise click.Abort from None
    except StreamingQueryException as error:
        what = str(error).strip().splitlines()[0]
        raise ClusterError(
            f"archiving stopped ({what}): start it again, and it continues where it stopped"
        ) from error
    finally:
        query.stop()


def _tables(config: ClientConfig, folder: Path) -> CurrentTables:
    from sharelag.monitoring.exports.current import CurrentTables
    from sharelag.sources.kafka import topics as kafka

    return CurrentTables(folder, kafka.cluster_id(config), f"cluster at {config.bootstrap_servers}")


def _keep_current(
    tables: CurrentTables, config: ClientConfig, archive: Path, every: float, query: StreamingQuery
) -> None:
    """Keep the tables current as long as the archive is followed into; at least once."""
    from sharelag.pipeline import stream
    from sharelag.sources.files import views

    # In the archive, which all machines reach; it has been emptied of what one that was killed has
    # left.
    scratch = views.staging(archive.absolute(), "lag")
    with stream.watch(config, every=every, on_update=tables.write, checkpoints=scratch) as live:
        click.echo("sharelag: windows and lag are up to date", err=True)
        while not query.awaitTermination(1):
            live.check()
