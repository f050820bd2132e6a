"""Find the Parquet files of a place that hold raw records, and the columns in folder names.

A folder may be a table with only some current files: Delta tables are read at their current
version, the output of a Spark stream by the stream's log, and other formats are rejected. So are
unreadable files, which would otherwise seem to be missing.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, NoReturn, TypeAlias
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from sharelag import schemas
from sharelag.errors import InputError, SetupError, first_line, list_names
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC


def refuse_unreadable(error: OSError) -> NoReturn:
    """Reject a file or folder that may not be read."""
    raise InputError(
        f"cannot read {error.filename} ({error.strerror}): ask for the right to read it, or give a "
        "folder without it"
    ) from error


def entries(folder: Path) -> list[Path]:
    """Return the entries of a folder, sorted."""
    try:
        with os.scandir(folder) as found:
            return sorted(Path(entry.path) for entry in found)
    except OSError as error:
        refuse_unreadable(error)


def first_bytes(path: Path, count: int) -> bytes:
    """Return the first bytes of a file; none of a folder, or of a pipe, which could block."""
    if not path.is_file():
        return b""
    try:
        with path.open("rb") as file:
            return file.read(count)
    except OSError as error:
        refuse_unreadable(error)


def files_below(folder: Path, ending: str = "") -> list[Path]:
    """Return the files in a folder and below it, sorted; none if the folder is missing."""
    if not folder.is_dir():
        return []
    walk = os.walk(folder, onerror=refuse_unreadable)
    paths = (Path(at, name) for at, _, names in walk for name in names if name.endswith(ending))
    return sorted(path for path in paths if path.is_file())


_MAGIC = b"PAR1"
#: Hive's name of a partition folder for null.
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_DELTA, _CAPTURE = "Delta", "capture"
#: Entries that identify a folder as more than its Parquet files, and the kind of table.
MARKS = {
    "_delta_log": _DELTA,
    ".hoodie": "Hudi",
    "metadata/*.metadata.json": "Iceberg",
    "snapshot/LATEST": "Paimon",
    "capture.json": _CAPTURE,
}
#: Entries of folders that look like inputs: the above, records, a broker's log directory.
_INPUTS = (*MARKS, "*.parquet", "replication-offset-checkpoint")
#: Sinks name folders and files after topics.
_TOPICS = (STATE_TOPIC, GROUP_TOPIC)
#: The folder with the log of a stream that writes files.
_SINK = "_spark_metadata/"


#: A column, one of ``== < <= > >= in``, and a value or values, as in pyarrow's filters.
Condition: TypeAlias = tuple[str, str, Any]


class RawFile(NamedTuple):
    """A Parquet file with raw records."""

    path: str
    known: tuple[tuple[str, Any], ...] = ()
    """Values of columns that are not in the file, the same in all of its rows."""
    where: tuple[Condition, ...] = ()
    """Conditions that its rows must meet."""


def of_paths(files: Iterable[str | Path | RawFile]) -> list[RawFile]:
    """Convert paths to files without known columns or conditions."""
    return [one if isinstance(one, RawFile) else RawFile(str(one)) for one in files]


def local_path(place: str) -> str | None:
    """Return the local path of a place; None for another address."""
    if place.startswith("file:"):
        return unquote(urlsplit(place).path)
    return None if "://" in place else place


def absolute(place: str | Path) -> str:
    """Return an absolute path, since Spark's tasks run in another folder; keep an address."""
    if "://" in str(place):
        return str(place)
    home = os.path.expanduser(place)  # noqa: PTH111  pathlib fails for a name like ~nobody
    return str(Path(home).absolute())


def is_raw(folder: Path) -> bool:
    """Return whether a folder holds Parquet files, or a table."""
    below = _paths_below(folder)
    return any(_match_marks(below)) or any(_parquet_in(folder, below))


def list_raw(place: str) -> list[RawFile]:
    """Return the files with the current raw records of a place, sorted by path.

    The place is a Parquet file, a folder of them, or a Delta table, on this machine. Any other
    place, and a table that cannot be read here, is an InputError.
    """
    local = local_path(place)
    path = Path(place if local is None else local)
    if local is None or not path.exists():
        raise InputError(_nothing(place, "there is no such file or folder on this machine"))
    for above in path.absolute().parents:  # a part of a table does not show which files are current
        for mark, kind in MARKS.items():
            if kind != _CAPTURE and any(above.glob(mark)):
                raise InputError(refusal(str(above), kind, place))
    if not path.is_dir():
        start = first_bytes(path, 4)
        if start != _MAGIC:
            raise InputError(
                _nothing(place, "it is not a Parquet file" if start else "it is empty")
            )
        return [RawFile(str(path), _known_by_names(path))]
    below = _paths_below(path)
    for at, kind in sorted(_match_marks(below)):
        if not at and kind == _DELTA:
            return _current_of_delta(path)
        raise InputError(refusal(str(path / at), kind, place))
    files = _keep_committed(path, below, _parquet_in(path, below))
    if not files:
        raise InputError(_nothing(place, "it holds no Parquet files"))
    return [RawFile(str(path / one), _known_by_names(path / one)) for one in files]


def _nothing(place: str, why: str) -> str:
    return (
        f"cannot read Parquet from {place}: {why}. Give a Parquet file, a folder of them, one file "
        "that Kafka's console consumer or kafka-dump-log.sh printed, or the name of a Spark table "
        'with --engine spark (engine="spark")'
    )


def refusal(place: str, kind: str, given: str) -> str:
    """Return why a place is not a folder of loose Parquet files, and how to open it.

    ``kind`` is its format, by its mark; ``given`` is the user's path, which may be below or above.
    """
    where = "" if place == given else f"{given} is not a folder of loose Parquet files: "
    if kind == _CAPTURE:
        return f"{where}{place} is a capture: open it with --capture or sharelag.open({place!r})"
    if kind == _DELTA and local_path(place) is not None:
        return f"{where}{place} is a Delta table: give that folder, which is read as it is now"
    name = kind.lower()
    return (
        f"{where}{place} is a table of {kind}, of which not every file is current: register it in "
        'Spark and give its name with --engine spark (engine="spark"), or open '
        f'sharelag.open(raw=spark.read.format("{name}").load("{place}"))'
    )


def columns_of(schema: pa.Schema, known: Sequence[tuple[str, Any]]) -> pa.Schema:
    """Return the columns that a file must have itself."""
    more = [schemas.RAW.field(name) for name, _ in known if name not in schema.names]
    return pa.schema([*schema, *more])


def complete_columns(
    batch: pa.RecordBatch, known: Sequence[tuple[str, Any]], schema: pa.Schema, what: str
) -> pa.RecordBatch:
    """Return the columns of a schema, adding known values of columns that the file lacks."""
    for name, value in known:
        if name in schema.names and name not in batch.schema.names:
            column = pa.repeat(pa.scalar(value, schema.field(name).type), batch.num_rows)
            batch = batch.append_column(name, column)
    return schemas.conform(batch, schema, what)


# ---- entries of a folder -------------------------------------------------------------------------


def _paths_below(folder: Path) -> list[str]:
    """Return the relative paths of everything below a folder; those of folders end with a slash."""
    found, top = [], folder.resolve()
    seen = {top}
    home = Path(absolute("~")).resolve()
    if top in (Path(top.anchor), home):
        name = "your home folder" if top == home else "the whole machine"
        near = [one.name for one in entries(folder) if any(any(one.glob(m)) for m in _INPUTS)]
        such = f", such as {list_names(near)}" if near else ""
        raise InputError(f"{folder} is {name}: give the folder with the records{such}")
    for at, folders, files in os.walk(folder, onerror=refuse_unreadable, followlinks=True):
        here = Path(at).relative_to(folder)
        found += [f"{here / name}" for name in files] + [f"{here / name}/" for name in folders]
        # a link to a parent folder would never end
        new = {name: (Path(at) / name).resolve() for name in folders}
        folders[:] = [name for name, real in new.items() if real not in seen]
        seen.update(new.values())
    return sorted(found)


def _match_marks(below: Iterable[str]) -> Iterator[tuple[str, str]]:
    for path in map(PurePosixPath, below):
        for mark, kind in MARKS.items():
            if path.match(mark):
                at = PurePosixPath(*path.parts[: -len(PurePosixPath(mark).parts)])
                if not _is_hidden(at):
                    yield str(at).removeprefix("."), kind


def _parquet_in(folder: Path, below: Iterable[str]) -> Iterator[str]:
    """Yield Parquet files, except hidden ones, such as those of unfinished writers."""
    for path in below:
        if path.endswith("/") or _is_hidden(PurePosixPath(path)):
            continue
        # Hive, for one, writes files without a suffix.
        if path.endswith((".parquet", ".parq")) or first_bytes(folder / path, 4) == _MAGIC:
            yield path


def _is_hidden(path: PurePosixPath) -> bool:
    """Return whether Spark skips a path; folders of topics and values may begin with _."""
    return any(
        part.startswith(".")
        or (part.startswith("_") and "=" not in part and not part.startswith(_TOPICS))
        or part.endswith("._COPYING_")
        for part in path.parts
    )


def _known_by_names(path: Path) -> tuple[tuple[str, Any], ...]:
    """Return the columns in names of folders, such as ``topic=__share_group_state``."""
    pairs = (part.split("=", 1) for part in path.absolute().parent.parts if "=" in part)
    known = {name: None if text == _NO_VALUE else unquote(text) for name, text in pairs}
    return _with_types(known, str(path))


def _with_types(known: Mapping[str, Any], path: str) -> tuple[tuple[str, Any], ...]:
    found = {name: known[name] for name in ("topic", "partition") if name in known}
    if found.get("partition") is not None:
        try:
            found["partition"] = pa.scalar(int(found["partition"]), pa.int32()).as_py()
        except (ValueError, pa.ArrowInvalid) as error:
            raise InputError(
                f"{path} is in a folder for partition {found['partition']!r}, which is not a "
                "number: name the folder after a partition of the topic, or otherwise"
            ) from error
    return tuple(found.items())


# ---- logs of committed files ---------------------------------------------------------------------


def _keep_committed(folder: Path, below: Sequence[str], files: Iterable[str]) -> list[str]:
    """Remove files that a Spark stream did not commit, if it has a log."""
    kept = list(files)
    for path in below:
        if not f"/{path}".endswith(f"/{_SINK}"):
            continue
        # Compare names, which are unique: the log has paths of the machine that wrote it.
        names = _names_in_log(folder / path)
        within = path.removesuffix(_SINK)
        there = {PurePosixPath(one).name for one in kept if one.startswith(within)}
        if names - there:
            raise InputError(
                f"{len(names - there):,} of {len(names):,} files that the log {folder / path} "
                "names are not there: copy the whole folder, or remove the log to read what is left"
            )
        kept = [
            one for one in kept if not one.startswith(within) or PurePosixPath(one).name in names
        ]
    return kept


def _names_in_log(log: Path) -> set[str]:
    batches = [path for path in entries(log) if path.name.removesuffix(".compact").isdecimal()]
    # A compacted batch includes all before it.
    order = sorted(batches, key=lambda path: (int(path.stem), path.suffix != ""))
    last = max((n for n, path in enumerate(order) if path.suffix), default=0)
    try:
        lines = [line for path in order[last:] for line in path.read_text().splitlines()[1:]]
        actions = [json.loads(line) for line in lines]
        paths = [urlsplit(one["path"]).path for one in actions if one["action"] == "add"]
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise InputError(
            f"{log} is not a log of a stream that writes files, or damaged ({first_line(error)}): "
            "restore it from a copy, or remove it to read every file that is there"
        ) from error
    return {PurePosixPath(unquote(path)).name for path in paths}


def require_path(place: Path | str) -> None:
    """Refuse a folder whose name deltalake would take for another's, or cannot put into a URL."""
    path = absolute(place)
    if "://" not in path and (found := re.search(r"%[\dA-Fa-f]{2}|[][^|\\]", path)):
        raise InputError(f"deltalake cannot use {place}: rename the folder with {found[0]} in it")


def _current_of_delta(place: Path) -> list[RawFile]:
    with_spark = (
        "read it by Spark with Delta's package, "
        f'sharelag.open(raw=spark.read.format("delta").load("{place}"))'
    )
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ModuleNotFoundError as error:
        raise SetupError(
            f"{place} is a Delta table, and deltalake, which reads it, is not installed: "
            "pip install 'sharelag[lake]'"
        ) from error
    require_path(place)
    try:
        table = DeltaTable(place)
        adds = pa.table(table.get_add_actions(flatten=True))
        features = table.protocol().reader_features or ()
        mapping = table.metadata().configuration.get("delta.columnMapping.mode", "none")
    except DeltaError as error:
        raise InputError(
            f"{place} is a Delta table that cannot be read here ({first_line(error)}): {with_spark}"
        ) from error
    try:
        deleted = "deletionVectors" in features and len(pa.table(table.deletion_vectors()))
    except DeltaError:  # the table exists, even if it cannot be loaded
        deleted = True
    if deleted:
        raise InputError(
            f"{place} is a Delta table with deletion vectors: its files still have rows that were "
            f"deleted. Run REORG TABLE ... APPLY (PURGE), or {with_spark}"
        )
    if mapping != "none":
        raise InputError(
            f"{place} is a Delta table whose files use other column names "
            f"(delta.columnMapping.mode={mapping}): {with_spark}"
        )
    partitions = [name for name in adds.column_names if name.startswith("partition.")]
    files = []
    for row in adds.select(["path", *partitions]).to_pylist():
        path = unquote(row["path"])
        known = {name.removeprefix("partition."): row[name] for name in partitions}
        is_whole = path.startswith(("/", "file:"))
        where = local_path(path) if is_whole else f"{place}/{path}"
        files.append(RawFile(where or path, _with_types(known, path)))
    gone = sum(not Path(one.path).exists() for one in files)
    if gone:
        raise InputError(
            f"{gone:,} of {len(files):,} files of the Delta table {place} are not on this machine: "
            f"copy the whole folder, or {with_spark}"
        )
    return sorted(files, key=lambda one: one.path)
