"""`sharelag.open`: a cluster, a capture, an archive, Parquet files, a log directory, or a sample."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from sharelag.errors import InputError
from sharelag.reading import OVER
from sharelag.replay.moment import Choice, Moment, parse_moment, with_zone
from sharelag.sources.files.archive import ArchiveInput
from sharelag.sources.files.archive_info import is_archive
from sharelag.sources.inputs import CaptureInput, Input, KafkaInput, RawInput, SegmentsInput
from sharelag.sources.kafka.config import ClientConfig, client_config
from sharelag.workbench.bench import Workbench
from sharelag.workbench.engine import ENGINES
from sharelag.workbench.recorded import DEMO, folder_of, patience_of, samples
from sharelag.workbench.spans import span

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ADDRESSES = re.compile(r"\s*(\w+://)?(\[[0-9a-fA-F:]+\]|[^\s:,/\\]+):\d+\s*(,.*)?")
_SPARK_TABLE = re.compile(r"\w+(\.\w+)*")


def open_workbench(
    where: str | Path | Input | ClientConfig | None = None,
    *,
    raw: DataFrame | None = None,
    offsets: DataFrame | None = None,
    as_of: str | Moment = None,
    groups: str | Sequence[str] = (),
    topics: str | Sequence[str] | Mapping[str, Sequence[int]] = (),
    engine: str = "spark",
    spark: SparkSession | None = None,
    over: str | timedelta = OVER,
    patience: str | timedelta | None = None,
    command_config: str | Path | None = None,
    properties: Mapping[str, str] | None = None,
    timeout: float = 10.0,
    bars: bool | None = None,
) -> Workbench:
    """Open something to look at; nothing is read before the first question.

    Parameters
    ----------
    where : str, path, Input or ClientConfig, optional
        A folder that ``sharelag capture`` wrote, with or without ``--follow``;
        ``"host:port[,...]"`` of a running cluster; Parquet files with the columns of Spark's Kafka
        source (a file, a folder, an address that Spark knows, or with ``engine="spark"`` the name
        of a table); a broker's log directory; one of `samples`. Without it, the recorded demo.
    raw : pyspark.sql.DataFrame, optional
        Instead of ``where``: raw records of your own, from any connector, table or stream, with the
        columns of Spark's Kafka source.
    offsets : pyspark.sql.DataFrame, optional
        With ``raw``: where topics end, as `sharelag.offsets` gives it; of one moment or of several.
        Without it, lag is not known.
    as_of : str, datetime or mapping, optional
        Another moment than the last: ``2026-11-21T03:10:00Z``, or offsets of the state topic's
        partitions.
    groups : str or sequence of str
        Only these share groups.
    topics : str, sequence of str, or mapping of str to partitions
        Only these topics, or these partitions of them.
    engine : {"spark", "local", "auto"}
        Where the work runs: on Spark; in this process, without a JVM; or chosen by the number of
        records.
    spark : pyspark.sql.SparkSession, optional
        Else the active one, or one that is made for this machine.
    over : str or timedelta
        The span before the moment that rates are of, such as ``2h``.
    patience : str or timedelta, optional
        For how long something may go on before it is called stuck; without it, as long as a lock of
        the group lasts.
    command_config : path, optional
        Client properties, as Kafka's own commands take them.
    properties : mapping, optional
        Single client properties; they win over the file. None of them is ever shown.
    timeout : float
        Seconds to wait for brokers.
    bars : bool, optional
        Show how far Spark has come; else only in a notebook.

    Returns
    -------
    Workbench

    Raises
    ------
    InputError
        There is nothing of the kind at that place, or an option is wrong.
    ConfigError
        A client setting is wrong.
    """
    if engine not in ENGINES:
        raise InputError(f"unknown engine {engine!r}: choose one of {', '.join(ENGINES)}")
    if raw is not None or offsets is not None:
        source, sample = _of_frames(where, raw, offsets, engine), ""
    else:
        source, sample = _source(where, command_config, properties or {}, timeout, engine)
    return Workbench(
        source,
        as_of=parse_moment(as_of) if isinstance(as_of, str) else with_zone(as_of),
        choice=chosen(groups, topics),
        engine=engine,
        spark=spark,
        over=span(over),
        patience=span(patience) if patience else (patience_of(sample) if sample else None),
        about=samples().get(sample, "") if sample else "",
        bars=bars,
    )


def _of_frames(
    where: object, raw: DataFrame | None, offsets: DataFrame | None, engine: str
) -> Input:
    if raw is None or where is not None:
        raise InputError(
            "give either what to open or raw=DataFrame; offsets=DataFrame can only be given together with raw"
        )
    if engine == "local":
        raise InputError("a DataFrame can only be read on Spark: remove engine='local'")
    from sharelag.sources.spark.frames import FrameInput

    return FrameInput(raw, offsets)


def chosen(
    groups: str | Sequence[str], topics: str | Sequence[str] | Mapping[str, Sequence[int]]
) -> Choice:
    """Groups and topics as the engines take them."""
    names = [groups] if isinstance(groups, str) else groups
    if isinstance(topics, str):
        topics = [topics]
    if not isinstance(topics, Mapping):
        topics = dict.fromkeys(topics, ())
    return Choice(
        frozenset(names), {topic: frozenset(partitions) for topic, partitions in topics.items()}
    )


def _source(
    where: str | Path | Input | ClientConfig | None,
    command_config: str | Path | None,
    properties: Mapping[str, str],
    timeout: float,
    engine: str,
) -> tuple[Input, str]:
    """The input, and which sample it is, if any."""
    if isinstance(where, ClientConfig):
        return KafkaInput(where), ""
    if where is not None and not isinstance(where, str | Path):
        return where, ""
    file = Path(command_config) if command_config else None
    named = where is None and (file or properties)
    path = Path(where if where is not None else DEMO)
    if named or (isinstance(where, str) and not path.exists() and _ADDRESSES.fullmatch(where)):
        return KafkaInput(
            client_config(str(where) if where else None, file, properties, timeout)
        ), ""
    if file or properties:
        raise InputError(
            f"client settings only apply to a cluster, and {where} is not one: give HOST:PORT, or remove the settings"
        )
    if where is not None and (path.exists() or isinstance(where, Path)):
        return _at(path), ""
    text = DEMO if where is None else str(where)
    if text in samples():
        return CaptureInput(folder_of(text)), text
    if "://" in text:
        return RawInput(text), ""
    if engine == "spark" and where is not None and _SPARK_TABLE.fullmatch(text):
        # Whether there is such a table only Spark knows, which is not asked before the first
        # question.
        return RawInput(text, _not_there(where)), ""
    raise InputError(_not_there(where))


def _at(path: Path) -> Input:
    """What lies at a path of this machine."""
    if is_archive(path):
        return ArchiveInput(path)
    if (path / "capture.json").exists() or not path.exists():
        return CaptureInput(path)
    if path.is_dir() and any(path.glob("*-*/*.log")):
        return SegmentsInput(path)
    if path.is_file() or any(path.glob("**/*.parquet")):
        return RawInput(str(path))
    raise InputError(
        f"{path} holds no capture, no archive, no Parquet files and no topic partitions of a broker: give the folder "
        "that `sharelag capture` wrote, or the one above it that has them"
    )


def _not_there(where: object) -> str:
    known = f", or one of the samples: {', '.join(samples())}"
    return (
        f"there is nothing at {str(where)!r}: give a cluster as HOST:PORT, a folder that `sharelag capture` wrote, "
        f'Parquet files, the name of a Spark table (engine="spark"), a broker\'s log directory{known}'
    )
