"""Watch lag in a notebook or a program, with one call."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession

from sharelag import schemas
from sharelag.engine.spark.cluster import config_of
from sharelag.engine.spark.stream.kept import OnUpdate
from sharelag.engine.spark.stream.live import Live
from sharelag.errors import InputError
from sharelag.inputs.kafka.config import ClientConfig
from sharelag.inputs.spark import session
from sharelag.inputs.spark.data_source import require_admission_control
from sharelag.inputs.spark.ends import Ends
from sharelag.inputs.spark.frames import FrameInput, as_frame
from sharelag.inputs.spark.queries import require_own_process

if TYPE_CHECKING:
    from sharelag.inputs.spark.frames import Tabular


def watch(
    cluster: str | ClientConfig | DataFrame,
    *,
    offsets: Ends | Tabular | None = None,
    groups: str | Sequence[str] = (),
    generation: int | None = None,
    every: float = 2.0,
    on_update: OnUpdate | None = None,
    heed: OnUpdate | None = None,
    command_config: str | Path | None = None,
    properties: Mapping[str, str] | None = None,
    timeout: float = 10.0,
    spark: SparkSession | None = None,
    checkpoints: Path | None = None,
) -> Live:
    """Watch the lag of a cluster or of a stream, until `Live.stop` or the end of a ``with`` block.

    While lag cannot be computed, as while brokers are away, it stays as it was, and `Live.stale`
    says why. A stream whose micro-batches are limited (``maxFilesPerTrigger``) has no lag until all
    that it began with is read.

    Parameters
    ----------
    cluster : str, ClientConfig or pyspark.sql.DataFrame
        ``"host:port[,...]"``, as for ``sharelag.open``; or a stream of raw records.
    offsets : path, name of a table, function, or DataFrame, optional
        Beside a stream, as for `lag`: read each time that lag is computed, in this process, so that
        a function may use the session. Without it, lag is not known.
    groups : str or sequence of str
        Only these share groups.
    generation : int, optional
        As for `sharelag.decode`.
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
        With the first lag in it, or with the reason in `Live.stale` why that takes several
        micro-batches.

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
        cluster = config_of(cluster, command_config, properties, timeout)
    if offsets is not None and isinstance(cluster, ClientConfig):
        raise InputError("offsets are for a stream: a cluster tells them itself")
    source = (
        cluster
        if isinstance(cluster, ClientConfig)
        else FrameInput(as_frame(cluster, schemas.RAW, "raw records"), offsets)
    )
    spark = spark or (source.raw.sparkSession if isinstance(source, FrameInput) else session())
    require_own_process(
        spark,
        "ask sharelag.open(...) repeatedly, or watch from a process with its own Spark session",
    )
    if isinstance(source, ClientConfig):
        require_admission_control()
    names = frozenset([groups] if isinstance(groups, str) else groups)
    heeds = on_update or heed
    live = Live(source, spark, names, every, heeds, checkpoints, generation=generation)
    try:
        live.wait()
    except BaseException:
        live.stop()
        raise
    return live
