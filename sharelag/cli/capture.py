"""`sharelag capture`: save a cluster for later, once or as an archive that grows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from sharelag.cli import options as option
from sharelag.cli.ask import PARTIAL
from sharelag.cli.options import command, config_of
from sharelag.cli.output import one_line, tell
from sharelag.errors import are_away
from sharelag.model import iso

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from sharelag.inputs.kafka.config import ClientConfig
    from sharelag.monitoring.lake import CurrentTables

#: Maximum seconds between attempts to resume an archive while brokers do not answer.
_LONGEST_PAUSE = 30


@command(option.CLUSTER, option.TIMEOUT, option.VERBOSE)
@click.argument("folder", type=click.Path(path_type=Path))
@option.switch("--overwrite  Replace an existing capture.")
@option.switch(
    "--follow  Keep archiving until interrupted, before Kafka prunes the records; runs on Spark."
)
@option.duration(
    "--every  With --follow: how often to add records and end offsets.",
    least=timedelta(),
    default="10s",
)
@option.switch("--until-now  With --follow: stop when everything up to now is archived.")
@option.text(
    "--lag-to PLACE  With --follow: keep the Delta tables PLACE/windows and PLACE/lag up to date.",
    type=click.Path(path_type=Path, file_okay=False),
)
@option.switch(
    "--anonymise  Replace the names of groups, topics, members, clients, hosts and racks."
)
@option.path(
    "--from origin DIR  With --anonymise: an existing capture to read instead of a cluster."
)
def capture(
    folder: Path,
    overwrite: bool,
    follow: bool,
    every: timedelta,
    until_now: bool,
    lag_to: Path | None,
    anonymise: bool,
    origin: Path | None,
    **options: Any,
) -> int:
    """Save everything that an investigation needs from a cluster to FOLDER, as Parquet.

    With --follow the folder becomes a growing archive: every record is stored once, even if the
    command is killed and restarted. With --anonymise the capture can be shared: names are replaced
    consistently, and the mapping is not kept. Exits with 3 if the capture lacks anything,
    such as end offsets of topics or settings that the user may not read.
    """
    if anonymise and (follow or (origin is not None and _is_archive(origin))):
        raise click.UsageError("--anonymise is for a capture, not for an archive of --follow.")
    if origin is not None and not anonymise:
        raise click.UsageError("--from needs --anonymise.")
    if follow:
        if overwrite:
            raise click.UsageError(
                "--follow continues an archive and never replaces it: remove --overwrite."
            )
        _follow(folder, every.total_seconds(), until_now, lag_to, options)
        return 0
    for name, value in {"--until-now": until_now, "--lag-to": lag_to}.items():
        if value:
            raise click.UsageError(f"{name} needs --follow.")
    if origin is not None:
        given = [name for name in ("bootstrap_server", "command_config") if options[name]]
        if given or options["command_property"]:
            raise click.UsageError("Give --from or a cluster, not both.")
        _anonymise(origin, folder, overwrite)
        return 0
    from sharelag.workbench.capture import capture_kafka

    config = config_of(options)
    if anonymise:
        from sharelag.inputs.files.captures import check_place

        check_place(folder, overwrite)
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Readable only by its owner, and removed afterwards, because it has the names.
        with TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
            info = capture_kafka(config, Path(scratch) / "capture")
            _anonymise(Path(scratch) / "capture", folder, overwrite)
    else:
        info = capture_kafka(config, folder, overwrite=overwrite)
        click.echo(f"captured {info.cluster_id} as of {iso(info.as_of)} into {folder}", err=True)
    tell(*(f"this capture is not complete: it lacks {sentence}" for sentence in info.lacks))
    return PARTIAL if info.lacks else 0


def _is_archive(folder: Path) -> bool:
    from sharelag.inputs.files.archive import is_archive

    return is_archive(folder)


def _anonymise(origin: Path, folder: Path, overwrite: bool) -> None:
    from sharelag.inputs.files.captures import anonymise

    info, left_out = anonymise(origin, folder, overwrite)
    click.echo(f"captured without names, as of {iso(info.as_of)}, into {folder}", err=True)
    if left_out:
        what = "1 record is" if left_out == 1 else f"{left_out} records are"
        tell(f"{what} left out, because text that cannot be decoded may contain names")


def _follow(folder: Path, every: float, until_now: bool, lag_to: Path | None, options: Any) -> None:
    from sharelag.inputs.spark import require_pyspark

    require_pyspark()
    from pyspark.errors import StreamingQueryException

    from sharelag.errors import ClusterError
    from sharelag.inputs.kafka import topics as kafka
    from sharelag.inputs.spark.follow import follow
    from sharelag.monitoring.lake import CurrentTables

    config = config_of(options)
    tables = None
    if lag_to:
        cluster = f"cluster at {config.bootstrap_servers}"
        tables = CurrentTables(lag_to, kafka.cluster_id(config), cluster)

    def begin() -> StreamingQuery:
        return follow(config, folder, every=every, until_now=until_now)

    query = begin()
    tell(f"archiving into {folder}; Ctrl-C stops it, the same command continues it")
    try:
        while True:
            try:
                if until_now or tables is None:
                    query.awaitTermination()
                if tables is not None:
                    _keep_current(tables, config, folder, every, query)
                return
            except (StreamingQueryException, ClusterError) as error:
                query.stop()
                if until_now or not are_away(error):
                    if isinstance(error, ClusterError):
                        raise
                    raise ClusterError(
                        f"archiving stopped ({one_line(error)}): start it again, and it continues "
                        "where it stopped, or says why it cannot"
                    ) from error
                tell(
                    f"{one_line(error)}; archiving continues where it stopped as soon as "
                    "brokers answer"
                )
                query = _once_they_answer(begin)
                tell(f"archiving into {folder} again")
    except KeyboardInterrupt:
        raise click.Abort from None
    finally:
        query.stop()


def _once_they_answer(begin: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Begin again when brokers answer, asking at intervals from a second to half a minute."""
    import tenacity

    away = tenacity.retry_if_exception(are_away)
    pause = tenacity.wait_exponential(min=1, max=_LONGEST_PAUSE)
    return tenacity.Retrying(retry=away, wait=pause)(begin)


def _keep_current(
    tables: CurrentTables, config: ClientConfig, archive: Path, every: float, query: StreamingQuery
) -> None:
    """Update the tables while the archive grows, at least once."""
    from sharelag.engine.spark import stream
    from sharelag.inputs.files.archive import staging

    # Inside the archive, which all machines can access; `staging` has removed files of a killed
    # process.
    scratch = staging(archive.absolute(), "lag")
    with stream.watch(config, every=every, on_update=tables.write, checkpoints=scratch) as live:
        tell("windows and lag are up to date")
        while not query.awaitTermination(1):
            live.check()
