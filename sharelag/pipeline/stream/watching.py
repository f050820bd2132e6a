"""Watch lag in a notebook or a program, with one call."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from sharelag.pipeline.stream.kept import OnUpdate
from sharelag.pipeline.stream.live import Live
from sharelag.sources.kafka.config import ClientConfig, client_config
from sharelag.sources.spark import session
from sharelag.sources.spark.queries import require_streams


def watch(
    cluster: str | ClientConfig,
    *,
    groups: str | Sequence[str] = (),
    every: float = 2.0,
    on_update: OnUpdate | None = None,
    heed: OnUpdate | None = None,
    command_config: str | Path | None = None,
    properties: Mapping[str, str] | None = None,
    timeout: float = 10.0,
    spark: SparkSession | None = None,
    checkpoints: Path | None = None,
) -> Live:
    """Watch the lag of a running cluster move, until `Live.stop` or the end of a ``with`` block.

    While lag cannot be computed, as while brokers are away, it stays as it was, and `Live.stale`
    says why.

    Parameters
    ----------
    cluster : str or ClientConfig
        ``"host:port[,...]"``, as for ``sharelag.open``.
    groups : str or sequence of str
        Only these share groups.
    every : float
        Seconds between micro-batches, and between samples of end offsets while there are none.
    on_update : callable, optional
        Called with windows and lag each time that the lag was computed. What `ShareLagError` it
        raises is logged.
    heed : callable, optional
        The former name of ``on_update``, deprecated.
    command_config, properties, timeout
        As for ``sharelag.open``.
    spark : pyspark.sql.SparkSession, optional
        Without it, the active one, or one that is made.
    checkpoints : pathlib.Path, optional
        Where Spark keeps its state meanwhile: on a cluster, a folder that all of its machines
        share. Without it, Spark chooses a temporary one.

    Returns
    -------
    Live
        With the first lag in it.

    Raises
    ------
    InputError
        On Spark Connect.
    SetupError
        When Spark cannot run it.
    ShareLagError
        When the cluster does not answer, or what ``on_update`` raised of the first lag.
    """
    if heed is not None:
        warnings.warn("heed is deprecated: use on_update", DeprecationWarning, stacklevel=2)
    if isinstance(cluster, str):
        cluster = client_config(
            cluster, Path(command_config) if command_config else None, properties, timeout
        )
    spark = spark or session()
    require_streams(
        spark,
        "ask sharelag.open(...) repeatedly, or watch from a process with its own Spark session",
    )
    names = frozenset([groups] if isinstance(groups, str) else groups)
    live = Live(cluster, spark, names, every, on_update or heed, checkpoints)
    try:
        live.wait()
    except BaseException:
        live.stop()
        raise
    return live
