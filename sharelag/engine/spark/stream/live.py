"""Lag that a stream keeps current, as people and programs see it: one call watches it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from sharelag import schemas
from sharelag.durations import parse_duration
from sharelag.engine.spark.cluster import config_of
from sharelag.engine.spark.stream.kept import Kept, OnUpdate
from sharelag.errors import InputError
from sharelag.inputs.kafka.config import ClientConfig
from sharelag.inputs.spark import session
from sharelag.inputs.spark.data_source import require_admission_control
from sharelag.inputs.spark.ends import Ends
from sharelag.inputs.spark.frames import FrameInput, as_frame
from sharelag.inputs.spark.queries import require_own_process
from sharelag.tables import render, views
from sharelag.tables.displayable import Displayable
from sharelag.tables.gaps import of_lag
from sharelag.tables.presentation import Presentation
from sharelag.tables.words import counted, moment

if TYPE_CHECKING:
    from sharelag.inputs.spark.frames import Tabular


class Live(Kept, Displayable):
    """Windows and lag of a cluster as they are now. Made by `sharelag.stream.watch`."""

    @property
    def lag(self) -> pa.Table:
        """`sharelag.schemas.LAG` at the last sample of end offsets, whose time is in ``as_of``."""
        return self._lag

    @property
    def windows(self) -> pa.Table:
        """`sharelag.schemas.WINDOWS` that this lag is of."""
        return self._windows

    @property
    def stale(self) -> str | None:
        """Why the lag is no longer current: what failed, or that the stream has ended.

        None while it is current, and again as soon as lag can be computed again, such as when
        brokers that were away answer.
        """
        if self._failure is not None:
            return str(self._failure)
        return "it was stopped" if self._stopped.is_set() else self._why

    def updates(self, seconds: float | None = None) -> Iterator[pa.Table]:
        """Yield the lag as it is, and then each time that it has moved or that `stale` has changed.

        Parameters
        ----------
        seconds : float, optional
            For how long; without it, until `stop`.

        Yields
        ------
        pyarrow.Table
            `lag`. Should it move faster than it is taken, what lies between is left out. While it
            is not current it is yielded as it was, once for each reason.

        Raises
        ------
        ClusterError
            When the stream has ended by itself, which it does not because brokers are away.
        """
        until = None if seconds is None else time.monotonic() + seconds
        seen, number = None, 0
        while (number := self.wait(number, until)) and not self._stopped.is_set():
            with self._changed:
                lag, why = self._lag, self._why
            now = lag.drop_columns("as_of"), why
            if now != seen:
                seen = now
                yield lag

    def check(self) -> None:
        """Make sure that the stream goes on; raise what ended it."""
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """End the stream; the last tables stay."""
        self._stopped.set()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return render.as_text(self.presentation())

    def presentation(self) -> Presentation:
        """Return the lag as it is, and whether it is still current."""
        lag, stale = self._lag, self.stale
        return Presentation(
            title=f"Lag of {counted(len(lag), 'share partition')}, live",
            when=f"as of {moment(pc.max(lag.column('as_of')).as_py())}",
            table=lag,
            columns=views.LAG.columns,
            source=f"{self._source.describe()}, spark engine",
            unknown=of_lag(lag),
            notes=(f"no longer current: {stale}",) if stale else (),
            order="lag",
        )

    def wait(self, number: int = 0, until: float | None = None) -> int:
        """Wait for a newer lag or until a monotonic time; return the new number, or 0.

        ``number`` is that of the lag that is known: what the last call returned. It raises what
        ended the stream.
        """
        with self._changed:
            seconds = None if until is None else max(until - time.monotonic(), 0.0)
            self._changed.wait_for(
                lambda: self._number > number or self._failure or self._stopped.is_set(), seconds
            )
            self.check()
            return self._number if self._number > number else 0


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
    checkpoints: str | Path | None = None,
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
    checkpoints : path, optional
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
        On Spark Connect, or ``every`` is negative.
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
    source: ClientConfig | FrameInput
    if isinstance(cluster, ClientConfig):
        source, spark = cluster, spark or session()
    else:
        source = FrameInput(as_frame(cluster, schemas.RAW, "raw records"), offsets)
        spark = spark or source.raw.sparkSession
    instead = (
        "ask sharelag.open(...) repeatedly, or watch from a process with its own Spark session"
    )
    require_own_process(spark, instead)
    if isinstance(source, ClientConfig):
        require_admission_control()
    names = frozenset([groups] if isinstance(groups, str) else groups)
    every = parse_duration(every).total_seconds()
    update = on_update or heed
    live = Live(source, spark, names, every, update, checkpoints, generation=generation)
    try:
        live.wait()
    except BaseException:
        live.stop()
        raise
    return live
