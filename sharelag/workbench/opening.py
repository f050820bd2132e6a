"""`sharelag.open`: a cluster, capture, archive, Parquet files, log directory or sample."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from sharelag.durations import parse_span
from sharelag.engine import OVER
from sharelag.engine.engines import ENGINES
from sharelag.errors import InputError
from sharelag.inputs import CaptureInput, Input
from sharelag.inputs.files.raw_files import absolute
from sharelag.inputs.files.request_log import RequestLog
from sharelag.inputs.kafka.config import ClientConfig
from sharelag.inputs.open import TIMEOUT, open_input
from sharelag.inputs.recorded import DEMO, folder_of, samples
from sharelag.replay.moment import Choice, Moment, as_moment
from sharelag.wire.generations import require_generation
from sharelag.workbench.bench import Workbench
from sharelag.workbench.side_inputs import Requests, metrics_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sharelag.inputs.spark.ends import Ends
    from sharelag.inputs.spark.frames import Tabular


def open_workbench(
    where: str | Path | Input | ClientConfig | None = None,
    *,
    raw: Tabular | None = None,
    offsets: Ends | Tabular | None = None,
    as_of: str | Moment = None,
    groups: str | Sequence[str] = (),
    topics: str | Sequence[str] | Mapping[str, Sequence[int]] = (),
    generation: int | None = None,
    requests: str | Path | None = None,
    requests_zone: str | None = None,
    broker_metrics: str | Path | Sequence[str | Path] | None = None,
    engine: str = "spark",
    spark: SparkSession | None = None,
    cache: bool = False,
    over: str | timedelta = OVER,
    ledger: str | Path | None = None,
    patience: str | timedelta | None = None,
    command_config: str | Path | None = None,
    properties: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
    bars: bool | None = None,
) -> Workbench:
    """Open an input; nothing is read before the first question.

    Parameters
    ----------
    where : str, path, Input or ClientConfig, optional
        A folder that ``sharelag capture`` wrote, with or without ``--follow``;
        ``"host:port[,...]"`` of a running cluster; Parquet files with the columns of Spark's Kafka
        source (a file, a folder, an address that Spark knows, or with ``engine="spark"`` the name
        of a table); a broker's log directories, comma-separated as in ``log.dirs``; one of
        `samples`. Without it, the recorded demo.
    raw : DataFrame of Spark, pandas or polars, or pyarrow.Table, optional
        Your own raw records instead of ``where``, from any connector, table or stream, with the
        columns of Spark's Kafka source.
    offsets : DataFrame of Spark, pandas or polars, pyarrow.Table, path, name or function, optional
        With ``raw``: end offsets as from `sharelag.offsets`, of one or several moments. On Spark
        also a folder or table with them, or a function that returns them; with a stream, these are
        read again for each micro-batch (`sharelag.stream.lag`). Without it, lag is unknown.
    as_of : str, datetime or mapping, optional
        A moment before the last: ``2026-11-21T03:10:00Z``, or offsets of the state topic's
        partitions.
    groups : str or sequence of str
        Restrict answers to these share groups.
    topics : str, sequence of str, or mapping of str to partitions
        Restrict answers to these topics, or these partitions of them.
    generation : int, optional
        Decode state records in this generation of the format, 0 to 3, or else in the current one;
        4: only in the current one. Default: detected for each record.
    requests : path, optional
        A broker's request log, which ``kafka.request.logger`` writes at DEBUG, or a folder of them.
        If it covers the moment, lag and causes include the holders of acquisition locks.
    requests_zone : str, optional
        Time zone of that log, which log4j's ``%d`` omits. Default: derived from the times of a log
        collector, else UTC.
    broker_metrics : str, path, or sequence of them, optional
        The brokers' own metrics: files with the output of Kafka's JmxTool, Prometheus text, or
        addresses such as ``http://broker:7071/metrics``; ``1=FILE`` is a file of broker 1.
    engine : {"spark", "local", "auto"}
        Run on Spark, in this process without a JVM, or on the one that suits the number of records.
    spark : pyspark.sql.SparkSession, optional
        Default: the active session, or a new local one.
    cache : bool
        Cache the raw records in Spark, compressed, while the workbench is open.
    over : str or timedelta
        The span before the moment over which rates are measured, such as ``2h``.
    ledger : str or path, optional
        A Delta table, as for `Workbench.forecasts`, one per cluster. ``overview``, ``explain``,
        ``progress`` and dashboards save their forecasts in it, with outcomes once they are due, and
        say how often they came true.
    patience : str or timedelta, optional
        Time after which a condition counts as stuck. Default: that of the capture, else the group's
        lock duration.
    command_config : path, optional
        File with client properties, as for Kafka's own commands.
    properties : mapping, optional
        Client properties, which take precedence over the file. They are never shown.
    timeout : float
        Seconds to wait for brokers.
    bars : bool, optional
        Show the progress of Spark in a terminal or a running cell. Default: only in a notebook.

    Raises
    ------
    InputError
        There is no such input, or an option is wrong.
    ConfigError
        A client setting is wrong.
    """
    if engine not in ENGINES:
        raise InputError(f"unknown engine {engine!r}: choose one of {', '.join(ENGINES)}")
    require_generation(generation)
    source = open_input(
        where,
        raw=raw,
        offsets=offsets,
        engine=engine,
        spark=spark,
        generation=generation,
        command_config=command_config,
        properties=properties,
        timeout=timeout,
    )
    sample = _sample(where, source)
    return Workbench(
        source,
        as_of=as_moment(as_of),
        choice=replace(chosen(groups, topics), generation=generation),
        engine=engine,
        spark=spark,
        cache=cache,
        over=parse_span(over),
        ledger=None if ledger is None else str(ledger) and absolute(ledger),
        patience=parse_span(patience) if patience else None,
        about=samples().get(sample, "") if sample else "",
        bars=bars,
        requests=None
        if requests is None
        else Requests(RequestLog(Path(absolute(requests)), requests_zone)),
        metrics=metrics_of(broker_metrics, timeout),
    )


def _sample(where: object, source: Input) -> str:
    """Return the name of a sample that was opened by name; empty for other inputs."""
    name = DEMO if where is None else where
    is_one = isinstance(name, str) and source == CaptureInput(folder_of(name)) and name in samples()
    return str(name) if is_one else ""


def chosen(
    groups: str | Sequence[str], topics: str | Sequence[str] | Mapping[str, Sequence[int]]
) -> Choice:
    """Return groups and topics as a `Choice`."""
    names = _names("groups", groups)
    if not isinstance(topics, Mapping):
        topics = dict.fromkeys(_names("topics", topics), ())
    _names("topics", topics)
    if not all(isinstance(partitions, Iterable) for partitions in topics.values()):
        raise InputError(f"give lists of partitions, as {{'orders': [0]}}, not {topics!r}")
    return Choice(
        frozenset(names), {topic: frozenset(partitions) for topic, partitions in topics.items()}
    )


def _names(what: str, given: str | Iterable[str]) -> list[str]:
    found = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    if not all(isinstance(one, str) for one in found):
        raise InputError(f"give {what} by their names, as strings, not as {given!r}")
    return found
