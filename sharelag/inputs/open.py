"""Turn what users name into an input.

`open_named` takes one option or parameter for each kind of input, as the command line and reports
do; `open_input` detects the kind of a path, an address or a name, as `sharelag.open` does. Other
installed packages open addresses with their own prefix:

    [project.entry-points."sharelag.inputs"]
    s3state = "our_package:open_s3state"                # opens "s3state:...", given as a whole
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sharelag import inputs, schemas
from sharelag.errors import InputError, ShareLagError, meant
from sharelag.inputs.contract import Input
from sharelag.inputs.files.raw_files import absolute, entries, is_raw
from sharelag.inputs.kafka.config import ClientConfig, client_config
from sharelag.inputs.recorded import DEMO, folder_of, samples
from sharelag.plugins import Plugin, load_plugin, plugin_names
from sharelag.schemas import conform_given
from sharelag.tables.gaps import KAFKA_SOURCE

# Import readers of files only if there are files: the lag of a cluster in a terminal needs neither
# them nor pyarrow's Parquet, which takes a tenth of its CPU time (row P10 of the benchmarks).
if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sharelag.inputs import CaptureInput, PrintedInput, RawInput
    from sharelag.inputs.files.archive import ArchiveInput
    from sharelag.inputs.spark.ends import Ends
    from sharelag.inputs.spark.frames import Tabular

#: A prefix and a colon, not followed by only the port of a HOST:PORT.
_PREFIXED = re.compile(r"([A-Za-z][\w+.-]+):(?!\d+\s*(,|$))")
#: Prefixes that already mean a cluster or files.
_OURS = frozenset(
    {"plaintext", "ssl", "sasl_plaintext", "sasl_ssl", "file", "http", "https", "hdfs", "viewfs"}
    | {"s3", "s3a", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs", "dbfs"}
)
_NEEDED = tuple(name for name in vars(Input) if not name.startswith("_"))


def open_plugin(where: str) -> Callable[[], Input] | None:
    """Find the installed package that opens an address, such as ``s3state:anything``.

    Return a function that opens it; None if no installed package knows the prefix, as for
    ``HOST:PORT``. It is an InputError, which names the package, if two packages use the same
    prefix, one uses a prefix of sharelag, or the package cannot be used.
    """
    found = _PREFIXED.match(where)
    plugin = load_plugin("input", found[1], found[1].lower() in _OURS) if found else None
    return partial(_open_plugged, plugin.function(), plugin, where) if plugin else None


def _open_plugged(factory: Callable[..., Input], plugin: Plugin, where: str) -> Input:
    try:
        source = factory(where)
    except ShareLagError:
        raise  # the package's own error about the address
    except Exception as error:  # a foreign function may raise anything
        raise plugin.failure(error, f"cannot open {where!r}") from error
    if missing := [name for name in _NEEDED if not hasattr(source, name)]:
        raise plugin.wrong(
            f"opened {where!r} as a {type(source).__name__} without {', '.join(missing)}: "
            "inherit sharelag.inputs.RecordsOnly for what it cannot know, and add the rest"
        )
    return source


_LOG = logging.getLogger(__name__)
#: Seconds to wait for brokers.
TIMEOUT = 10.0
_ADDRESSES = re.compile(r"\s*(\w+://)?(\[[0-9a-fA-F:]+\]|[^\s:,/\\]+):\d+\s*(,.*)?")
#: Generations with control records in users' topics.
_CONTROL = (0, 1)
_SERVERS = "KAFKA_BOOTSTRAP_SERVERS"


class ChoiceError(InputError):
    """No input is named, or more than one."""


def is_cluster_named(
    bootstrap_server: str | None,
    command_config: str | Path | None = None,
    properties: Mapping[str, str] | None = None,
) -> bool:
    """Return whether an option or the environment names a cluster."""
    return bool(bootstrap_server or command_config or properties or os.environ.get(_SERVERS))


def open_named(
    *,
    bootstrap_server: str | None = None,
    command_config: str | Path | None = None,
    properties: Mapping[str, str] | None = None,
    capture: str | Path | None = None,
    raw: str | None = None,
    segments: str | Path | None = None,
    generation: int | None = None,
    timeout: float = TIMEOUT,
    spelled: Callable[[str], str] = str,
) -> Input:
    """Open the one input that is named; none, or more than one, is a ChoiceError.

    The first three parameters name a running cluster; the environment does so only if nothing else
    is named. ``timeout`` are the seconds to wait for its brokers. ``capture`` is a capture, an
    archive, or the name of a sample; ``raw`` may be an address that an installed package opens;
    ``segments`` are a broker's log directories, separated by commas as in ``log.dirs``. Records are
    decoded as those of ``generation``: 0 and 1 are control records in users' topics. ``spelled``
    returns the name of an option for messages.
    """
    places = {"capture": capture, "raw": raw, "segments": segments}
    given = [name for name, place in places.items() if place]
    if bootstrap_server or command_config or properties:
        given.insert(0, "bootstrap_server")
    if len(given) > 1 or (not given and not os.environ.get(_SERVERS)):
        *names, last = [spelled(name) for name in ("bootstrap_server", *places)]
        got = f", not {' and '.join(spelled(name) for name in given)}" if given else ""
        raise ChoiceError(f"choose one input: {', '.join(names)} or {last}{got}")
    if capture:
        folder = capture_folder(capture)
        if folder != Path(capture) and Path(capture).exists():
            _tell_of_sample(str(capture), "a capture")
        return open_capture(folder)
    if segments:
        return inputs.SegmentsInput(log_directories(str(segments)), generation in _CONTROL)
    if raw:
        plugged = None if Path(raw).exists() else open_plugin(raw)
        return plugged() if plugged else raw_input(raw)
    return inputs.KafkaInput(client_config(bootstrap_server, command_config, properties, timeout))


def open_input(
    where: str | Path | Input | ClientConfig | None = None,
    *,
    raw: Tabular | None = None,
    offsets: Ends | Tabular | None = None,
    engine: str = "spark",
    spark: SparkSession | None = None,
    command_config: str | Path | None = None,
    properties: Mapping[str, str] | None = None,
    generation: int | None = None,
    timeout: float = TIMEOUT,
) -> Input:
    """Open a cluster, a folder, files, a Spark table, a sample, or DataFrames.

    The parameters are those of `sharelag.open`; other installed packages open addresses with their
    prefixes. It is an InputError if the place has no input.
    """
    if raw is not None or offsets is not None:
        return _of_frames(where, raw, offsets, engine, spark)
    if isinstance(where, ClientConfig):
        return inputs.KafkaInput(where)
    if where is not None and not isinstance(where, str | Path):
        if not hasattr(type(where), "batches"):
            is_plain = isinstance(where, int | float | bytes)
            named = repr(where) if is_plain else f"a {type(where).__name__}"
            raise InputError(f"cannot open {named}: give {_takes()}")
        return where
    has_settings = bool(command_config or properties)
    is_there = bool(where) and Path(absolute(str(where))).exists()
    called = where if isinstance(where, str) and not is_there else ""
    plugged = open_plugin(called)
    is_address = plugged is None and bool(_ADDRESSES.fullmatch(called))
    if (where is None and has_settings) or is_address:
        servers = None if where is None else str(where)
        return inputs.KafkaInput(client_config(servers, command_config, properties, timeout))
    if has_settings:
        raise InputError(
            f"client settings only apply to a cluster, and {where} is not one: give HOST:PORT, "
            "or remove the settings"
        )
    if plugged:
        return plugged()
    if where is not None and (isinstance(where, Path) or is_there):
        found = _input_at(Path(absolute(where)), generation)
        if found is not None:
            return found
        if where not in samples():
            raise InputError(
                f"{where} holds no capture, no archive, no Parquet files and no topic partitions "
                "of a broker: give the folder that `sharelag capture` wrote, or the one above it "
                "that has them"
            )
        _tell_of_sample(str(where), "an input")
    if "," in called and all(map(os.path.isdir, log_directories(called))):
        folders = tuple(folder.absolute() for folder in log_directories(called))
        return inputs.SegmentsInput(folders, generation in _CONTROL)
    return _open_name(DEMO if where is None else str(where), engine, spark)


def require_there(source: Input) -> None:
    """Reject a missing local input, without asking clusters or Spark."""
    from sharelag.inputs.files.archive import ArchiveInput

    if isinstance(source, inputs.CaptureInput | ArchiveInput):
        source.as_of()
    elif isinstance(source, inputs.SegmentsInput):
        source.places()
    elif isinstance(source, inputs.RawInput) and not source.only_spark_knows:
        source.size()


def capture_folder(named: str | Path) -> Path:
    """Return the folder of a capture, named by its path or as a sample.

    A path has precedence, unless it holds no capture and a sample has that name.
    """
    is_sample = str(named) in samples() and not _is_captured(Path(named))
    return folder_of(str(named)) if is_sample else Path(named)


def open_capture(folder: Path) -> ArchiveInput | CaptureInput:
    """Open a folder written by ``sharelag capture``, with or without ``--follow``."""
    from sharelag.inputs.files.archive import ArchiveInput, is_archive

    return ArchiveInput(folder) if is_archive(folder) else inputs.CaptureInput(folder)


def raw_input(path: str) -> RawInput | PrintedInput:
    """Open raw records: output of Kafka's tools, otherwise Parquet."""
    from sharelag.inputs.files.printed import is_printed

    return inputs.PrintedInput(Path(path)) if is_printed(Path(path)) else inputs.RawInput(path)


def _input_at(path: Path, generation: int | None) -> Input | None:
    """Open the input at a path; None if it is not an input."""
    if _is_captured(path) or not path.exists():
        return open_capture(path)
    if path.is_dir() and any("-" in one.name and any(one.glob("*.log")) for one in entries(path)):
        return inputs.SegmentsInput((path,), generation in _CONTROL)
    if path.is_file() or is_raw(path):
        return raw_input(str(path))
    return None


def log_directories(named: str) -> tuple[Path, ...]:
    """Split a list of folders, separated by commas as in ``log.dirs``."""
    is_one = "," not in named or Path(named).exists()
    return tuple(Path(name.strip()) for name in ([named] if is_one else named.split(",")))


def _is_captured(path: Path) -> bool:
    from sharelag.inputs.files.archive import is_archive

    return is_archive(path) or os.path.lexists(path / "capture.json")


def _tell_of_sample(name: str, kind: str) -> None:
    warning = "%s in this folder is not %s: the sample of that name was opened instead"
    _LOG.warning(warning, name, kind)


def _open_name(name: str, engine: str, spark: SparkSession | None) -> Input:
    """Open a name without a local path: a sample, an address that Spark knows, or a Spark table."""
    if name in samples():
        return inputs.CaptureInput(folder_of(name))
    if "://" in name:
        return inputs.RawInput(name)
    nothing = f"there is nothing at {name!r}: give {_takes()}{meant(name, list(samples()))}"
    from sharelag.inputs.local import SPARK_TABLE

    if engine == "spark" and SPARK_TABLE.fullmatch(name) and _may_be_table(name, spark):
        return inputs.RawInput(name, nothing)
    raise InputError(nothing)


def _may_be_table(name: str, spark: SparkSession | None) -> bool:
    """Return whether Spark has such a table; without a session, a name with a dot may be one."""
    from sharelag.inputs.spark import existing

    session = spark or existing()
    if session is None:
        return "." in name
    from sharelag.inputs.spark.files import is_table_of

    return is_table_of(session, name)


def _takes() -> str:
    prefixes = ", ".join(f"{name}:" for name in plugin_names("input"))
    installed = f"an address of an installed package ({prefixes}), " if prefixes else ""
    return (
        "a cluster as HOST:PORT, a folder that `sharelag capture` wrote, Parquet files, the name "
        'of a Spark table (engine="spark"), a broker\'s log directory, raw=DataFrame, '
        f"{installed}or one of the samples: {', '.join(samples())}"
    )


def _of_frames(
    where: object,
    raw: Tabular | None,
    offsets: Ends | Tabular | None,
    engine: str,
    spark: SparkSession | None,
) -> Input:
    if raw is None or where is not None:
        raise InputError(
            "give either what to open or raw=DataFrame; offsets=DataFrame can only be given "
            "together with raw"
        )
    is_here = not any(hasattr(type(given), "sparkSession") for given in (raw, offsets))
    if engine != "spark" and is_here:
        ends = None if offsets is None else conform_given(offsets, schemas.OFFSETS, "offsets")
        return inputs.TableInput(conform_given(raw, schemas.RAW, "raw records"), ends)
    if engine == "local":
        raise InputError("a DataFrame of Spark can only be read on Spark: remove engine='local'")
    from sharelag.inputs.spark.ends import ends_beside_stream
    from sharelag.inputs.spark.frames import FrameInput, as_frame, leaves_out_internal_topics

    records = as_frame(raw, schemas.RAW, "raw records", spark)
    if leaves_out_internal_topics(records):  # a DataFrame without rows could not show it
        _LOG.warning("the raw records will be none: %s", KAFKA_SOURCE)
    if offsets is None or records.isStreaming:
        return FrameInput(records, offsets)
    found = ends_beside_stream(offsets, records)
    ends = found() if callable(found) else found
    return FrameInput(records, as_frame(ends, schemas.OFFSETS, "offsets", records.sparkSession))
