"""Save and load all data that an investigation needs, as a folder of Parquet files.

    records/*.parquet         raw records: all of __share_group_state, and those of share groups of
                              __consumer_offsets
    offsets.parquet           log start and end offset of every topic partition
    past_offsets.parquet      end offsets at earlier moments
    logs.parquet              last stable offsets and retention
    times.parquet             timestamps of the oldest unfinished records
    committed_times.parquet   the same for read_committed groups
    settings.parquet          settings of groups, topics and brokers
    leaders.parquet           leader and replicas of topic partitions, the coordinators' as well
    nodes.parquet             the brokers, with their racks
    capture.json              cluster, time, versions; no secrets

All tables after ``offsets.parquet`` may be missing, in captures of older versions or of users
without the necessary permissions.
"""

from __future__ import annotations

import json
import re
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sharelag import schemas
from sharelag.durations import parse_duration, spell
from sharelag.errors import InputError, meant
from sharelag.inputs.files import parquet
from sharelag.inputs.files.parquet import check_footer, check_inside, read_table, reading_parquet
from sharelag.inputs.files.pieces import by_partition, parquet_batches
from sharelag.inputs.files.raw_files import entries, first_bytes
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.config import ClientConfig
from sharelag.inputs.recorded import samples
from sharelag.model import iso
from sharelag.model.settings.catalogue import CATALOGUE
from sharelag.model.versions import version_of
from sharelag.tables.arrow import flat, of_distinct, with_columns
from sharelag.version import __version__
from sharelag.wire.decode import decode_arrow
from sharelag.wire.encode import encode
from sharelag.wire.fields import GROUP_KINDS, GROUP_TOPIC, STATE_TOPIC

#: Receives the folder of the records; returns the other tables by file name, and the metadata.
_Finish: TypeAlias = Callable[[Path], tuple[dict[str, pa.Table], "CaptureInfo"]]

T = TypeVar("T")

#: Version of the folder's layout; readers reject any other.
FORMAT = 1
_CONTENTS = {"capture.json", "offsets.parquet", "records"}
EXTRAS = {
    "past_offsets": schemas.OFFSETS,
    "logs": schemas.LOGS,
    "times": schemas.TIMES,
    "committed_times": schemas.TIMES,
    "settings": schemas.SETTINGS,
    "leaders": schemas.LEADERS,
    "nodes": schemas.NODES,
}


@dataclass(frozen=True)
class CaptureInfo:
    """The metadata of a capture."""

    cluster_id: str
    as_of: datetime  # time of the end offsets
    topics: Mapping[str, int]  # number of partitions of the topics in records/
    options: Mapping[str, Any] = field(default_factory=dict)  # the client's, without secrets
    tool_version: str = __version__
    # how long something may last before it counts as stuck; None: the group's lock duration
    patience: timedelta | None = None
    kafka_version: str | None = None  # of the brokers: their release, such as 4.4
    #: Sentences on data that the cluster did not provide; not stored in the folder.
    lacks: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Capture:
    """A complete capture."""

    info: CaptureInfo
    records_paths: list[str]
    offsets: pa.Table  # sharelag.schemas.OFFSETS
    extras: Mapping[str, pa.Table]  # the tables of EXTRAS, empty if not captured


def write_capture(
    folder: Path, records: Iterable[pa.RecordBatch], finish: _Finish, overwrite: bool = False
) -> CaptureInfo:
    """Write a capture atomically: ``folder`` appears when the capture is complete.

    ``records`` are `sharelag.schemas.RAW`, those of each partition in their order; ``finish``
    returns the table ``offsets`` and any of `EXTRAS`. An existing capture is replaced with
    ``overwrite``, and is an InputError without it.
    """
    check_place(folder, overwrite)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        half, old = scratch / "new", scratch / "old"
        try:
            half.mkdir(mode=0o755)
            (half / "records").mkdir()
            with parquet.writer(half / "records" / "part-0.parquet", schemas.RAW) as file:
                for group in by_partition(records):
                    file.write_table(group)
            tables, info = finish(half / "records")
            for name, schema in ({"offsets": schemas.OFFSETS} | EXTRAS).items():
                if name in tables:
                    parquet.write_table(tables[name].cast(schema), half / f"{name}.parquet")
            write_description(half / "capture.json", _to_json(info))
            if folder.exists():
                folder.rename(old)
            half.rename(folder)
        finally:
            if old.exists() and not folder.exists():
                old.rename(folder)
            shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        raise InputError(
            f"cannot write a capture to {folder} ({error.strerror or error}): check the path"
        ) from error
    return info


def count_records(folder: Path) -> int:
    """Count the raw records of a capture from the footers of its files."""
    return sum(map(parquet.count_rows, _record_files(folder)))


def read_capture(folder: Path) -> Capture:
    """Open a capture; InputError if a file is missing or has another format."""
    paths = _record_files(folder)
    info = _from_json(folder / "capture.json")
    for path in paths:
        with reading_parquet(path):
            footer = pq.read_metadata(path)
            schemas.require_conformable(footer.schema.to_arrow_schema(), schemas.RAW, path)
            check_footer(path, footer)
    offsets = _table(folder / "offsets.parquet", schemas.OFFSETS)
    extras = {
        name: _table(file, schema)
        if (file := folder / f"{name}.parquet").exists() or file.is_symlink()
        else schema.empty_table()
        for name, schema in EXTRAS.items()
    }
    return Capture(info, paths, offsets, extras)


def _record_files(folder: Path) -> list[str]:
    if folder.is_file():
        raise InputError(
            f"{folder} is a file, and a capture is a folder: unpack it if it is packed"
        )
    if not folder.is_dir():
        near = meant(folder, list(samples())) if len(folder.parts) == 1 else ""
        raise InputError(f"no capture at {folder}: create one with `sharelag capture`{near}")
    missing = [name for name in sorted(_CONTENTS) if not (folder / name).exists()]
    records = folder / "records"
    found = entries(records) if records.is_dir() else []
    paths = [str(path) for path in found if path.suffix == ".parquet"]
    if not missing and not paths:
        missing = ["records/*.parquet"]
    if missing:
        raise InputError(
            f"{folder} has no {', '.join(missing)}: give a folder that `sharelag capture` wrote"
        )
    for path in paths:
        check_inside(Path(path), folder)
        if not Path(path).name.isprintable():
            raise InputError(f"{path!r} is not a name that `sharelag capture` gives: rename it")
    return paths


def _table(path: Path, schema: pa.Schema) -> pa.Table:
    check_inside(path, path.parent)
    return read_table(path, schema)


def check_place(folder: Path, overwrite: bool) -> None:
    """Reject a folder that a capture must not replace, because it may be somebody's work."""
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    is_capture = there >= _CONTENTS and there <= _CONTENTS | {f"{name}.parquet" for name in EXTRAS}
    if folder.exists() and not (overwrite and is_capture):
        advice = "choose another folder" + (", or add --overwrite" if is_capture else "")
        raise InputError(f"{folder} exists already: {advice}")


def share_records(config: ClientConfig, topic: str) -> Iterator[pa.RecordBatch]:
    """Yield all state records, or the share group records of ``__consumer_offsets``."""
    kept = map(of_share_groups, kafka.read_topic(config, topic))
    yield from (batch for batch in kept if batch.num_rows)


def of_share_groups(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return only the share group records of ``__consumer_offsets``."""
    kinds = pa.array([kind.type.to_bytes(2, "big") for kind in GROUP_KINDS], pa.binary())
    ours = pc.is_in(pc.binary_slice(batch.column("key"), 0, 2), kinds)
    return batch.filter(pc.or_(pc.not_equal(batch.column("topic"), GROUP_TOPIC), ours))


def _to_json(info: CaptureInfo) -> dict[str, Any]:
    patience = None if info.patience is None else spell(info.patience)
    may_lack = {"patience": patience, "kafka_version": info.kafka_version}
    return {
        "format": FORMAT,
        "cluster_id": info.cluster_id,
        "tool_version": info.tool_version,
        "as_of": iso(info.as_of),
        "options": dict(info.options),
        "topics": {name: {"partitions": count} for name, count in info.topics.items()},
    } | {name: value for name, value in may_lack.items() if value is not None}


def _from_json(path: Path) -> CaptureInfo:
    with describing(path, "a capture", "capture it again"):
        about = read_description(path)
        check_fields(path, about, "capture", FORMAT)
        topics = {name: _count(topic["partitions"]) for name, topic in about["topics"].items()}
        as_of = datetime.fromisoformat(about["as_of"])
        if as_of.tzinfo is None:
            raise ValueError("as_of without a time zone")
        as_of = as_of.astimezone(UTC)  # fails where the zone leads out of the calendar
        return CaptureInfo(
            about["cluster_id"],
            as_of,
            topics,
            about["options"],
            about["tool_version"],
            _given(path, about, "patience", parse_duration),
            _given(path, about, "kafka_version", _version),
        )


def _given(path: Path, about: dict[str, Any], name: str, parse: Callable[[str], T]) -> T | None:
    """Parse an optional value of a description; an error names the file and the key."""
    text = about.get(name)
    try:
        return None if text is None else parse(str(text))
    except InputError as error:
        raise InputError(f"{path}: {name}: {str(error)[:200]}") from None


def _version(text: str) -> str:
    version_of(text)
    return text


def _count(partitions: object) -> int:
    if type(partitions) is not int or not 0 <= partitions < 1 << 31:
        raise ValueError(f"{partitions!r} partitions")
    return partitions


# ---- capture.json -------------------------------------------------------------------------------


#: The field with the CRC-32 of all others.
_CHECKSUM = "crc32"
#: Maximum size of a description in bytes; we write about one thousand.
_MOST_BYTES = 1 << 20
#: Maximum number of characters that a message quotes from an error.
_MOST_WORDS = 200


def write_description(path: Path, about: Mapping[str, Any]) -> None:
    """Write the description of a capture or archive as JSON, with a checksum."""
    text = json.dumps({**about, _CHECKSUM: _checksum(about)}, indent=2)
    path.write_text(text + "\n", encoding="utf-8")


def read_description(path: Path) -> Any:
    """Read what `write_description` wrote, or earlier versions without a checksum.

    Text other than UTF-8 JSON is a ValueError; a file that is damaged, too large or outside of its
    folder is an InputError.
    """
    check_inside(path, path.parent)
    octets = first_bytes(path, _MOST_BYTES + 1)
    if len(octets) > _MOST_BYTES:
        raise InputError(f"{path} has more than {_MOST_BYTES >> 20} MiB: capture it again")
    try:
        about = json.loads(octets.decode("utf-8"))
        written = about.pop(_CHECKSUM, None) if isinstance(about, dict) else None
        is_damaged = written is not None and written != _checksum(about)
    except UnicodeDecodeError:
        # The original message quotes the bytes, which may be secret: a link may lead to any file.
        raise ValueError("not UTF-8") from None
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if is_damaged:
        raise InputError(
            f"{path} is damaged (another checksum): restore it from a copy, or remove the line "
            f"{_CHECKSUM} from it if you changed it yourself"
        )
    return about


@contextmanager
def describing(path: Path, what: str, advice: str) -> Iterator[None]:
    """Convert errors of fields of a wrong type to a short InputError that names the file."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise InputError(
            f"{path} does not describe {what} ({repr(error)[:_MOST_WORDS]}): {advice}"
        ) from error


def check_fields(path: Path, about: Mapping[str, Any], kind: str, newest: int) -> None:
    """Check the fields that captures and archives have in common; ``kind`` is for messages.

    Another format is an InputError; a missing field or one of another type is a KeyError or
    TypeError.
    """
    found = about["format"]
    if type(found) is not int or found != newest:
        raise InputError(
            f"{path} has {kind} format {str(found)[:20]}, but this version reads {newest}: "
            "use a newer sharelag"
        )
    for name, type_ in {"cluster_id": str, "tool_version": str, "options": dict}.items():
        if not isinstance(about[name], type_):
            raise TypeError(f"{name} must be of type {type_.__name__}")


def _checksum(about: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(about, sort_keys=True).encode()):08x}"


# ---- captures without names ----------------------------------------------------------------------
# A capture is written again without its names, so that it can be shared. Names become sequential
# (``group-03``) in the order of the originals, on which some answers depend; the mapping is not
# written. Only decoded data is written: a record that cannot be decoded, or an unknown field, may
# contain any text.


#: Renames a column of names of one kind.
_Change: TypeAlias = Callable[[str, pa.Array], pa.Array]
#: New name by original name, by kind of name.
_Names: TypeAlias = dict[str, dict[str, str]]

#: The kinds of names in columns; "entity" is a group or a topic, depending on its scope.
_COLUMNS = {
    "group_id": "group",
    "member_id": "member",
    "client_id": "client",
    "client_host": "host",
    "host": "host",
    "rack_id": "rack",
    "rack": "rack",
    "topic": "topic",
    "topic_name": "topic",
    "subscribed_topic_names": "topic",
}
#: Kafka's own topics keep their names, which reveal nothing about the cluster's owner.
_KEPT = {STATE_TOPIC, GROUP_TOPIC}
#: Values of settings that cannot be names.
_WORDS = {word for setting in CATALOGUE for word in setting.choices} | {"true", "false"}
_PLAIN = re.compile(r"-?\d+(\.\d+)?|by_duration:[\dPpTtDdHhMmSs.,]+")


def anonymise(source: Path, folder: Path, overwrite: bool = False) -> tuple[CaptureInfo, int]:
    """Write a capture without the names of groups, topics, members, clients, hosts and racks.

    Return its metadata, and the number of records left out because they cannot be decoded. The
    cluster id, the client's settings and the sizes of Kafka's topics are left out, too: positions
    in those topics are hashes of names. A folder that is in the way is an InputError.
    """
    check_place(folder, overwrite)
    capture = read_capture(source)
    names = _names_of(capture)

    def rename(kind: str, values: pa.Array) -> pa.Array:
        return of_distinct(values, names[kind].__getitem__, pa.string())

    left_out = count_records(source)

    def records() -> Iterator[pa.RecordBatch]:
        nonlocal left_out
        for topic, rows in _decode(capture):
            left_out -= rows.num_rows
            table = _change_names(rows, rename)
            hidden = {"unknown_tags": None}
            if topic == GROUP_TOPIC:
                # A hash of topic names could be matched against a list of candidates.
                hidden["metadata_hash"] = pc.multiply(table.column("metadata_hash"), 0)
            yield encode(with_columns(table, hidden), topic)

    def finish(_: Path) -> tuple[dict[str, pa.Table], CaptureInfo]:
        info = replace(
            capture.info,
            cluster_id="anonymised",
            topics={},
            options={},
            tool_version=__version__,  # the original's is free text
        )
        kept = {name: table for name, table in capture.extras.items() if table.num_rows}
        kept["offsets"] = capture.offsets
        return {name: _nameless(table, rename) for name, table in kept.items()}, info

    info = write_capture(folder, records(), finish, overwrite)
    return info, left_out


def _decode(capture: Capture) -> Iterator[tuple[str, pa.RecordBatch]]:
    for batch in parquet_batches(capture.records_paths):
        for topic in (STATE_TOPIC, GROUP_TOPIC):
            part = batch.filter(pc.equal(batch.column("topic"), topic))
            yield topic, decode_arrow(part, topic).records


def _names_of(capture: Capture) -> _Names:
    found: dict[str, set[str]] = {}

    def note(kind: str, values: pa.Array) -> pa.Array:
        found.setdefault(kind, set()).update(pc.unique(values.drop_null()).to_pylist())
        return values

    records = (rows for _, rows in _decode(capture))
    for table in chain(records, (capture.offsets, *capture.extras.values())):
        _change_names(table, note)
    names: _Names = {}
    for kind, originals in found.items():
        some = sorted(originals - _KEPT - {""})
        width = len(str(len(some)))
        names[kind] = {name: f"{kind}-{n:0{width}d}" for n, name in enumerate(some, start=1)}
        names[kind] |= {name: name for name in (*_KEPT, "")}
    return names


def _nameless(table: pa.Table, rename: _Change) -> pa.Table:
    if "leader_id" in table.schema.names:
        # The partition of a coordinator's topic is the hash of a name that has changed.
        internal = pc.is_in(table.column("topic"), pa.array(sorted(_KEPT)))
        table = table.filter(pc.invert(internal))
    table = _change_names(table, rename)
    if "value" in table.schema.names:
        texts = table.column("value").to_pylist()
        kept = [one if not one or one in _WORDS or _PLAIN.fullmatch(one) else None for one in texts]
        table = with_columns(table, {"value": pa.array(kept, pa.string())})
    return table


def _change_names(table: schemas.Arrow, change: _Change) -> pa.Table:
    columns = []
    for column in table.schema:
        values = flat(table.column(column.name))
        changed = _change_column(column.name, values, change)
        if column.name == "entity":
            changed = pa.nulls(len(values), pa.string())
            for scope in ("group", "topic"):
                is_one = pc.equal(flat(table.column("scope")), scope)
                new = change(scope, values.filter(is_one))
                changed = pc.replace_with_mask(changed, is_one, new)
        columns.append(changed)
    return pa.table(columns, schema=table.schema)


def _change_column(name: str, values: pa.Array, change: _Change) -> pa.Array:
    """Return a column with new names, including names within lists and structs."""
    if pa.types.is_list(values.type):
        sizes = pc.list_value_length(values)
        ends = pc.cumulative_sum(sizes.fill_null(0))
        begins = pa.concat_arrays([pa.array([0], pa.int32()), ends])
        items = _change_column(name, values.flatten(), change)
        return pa.ListArray.from_arrays(begins, items, values.type, mask=values.is_null())
    if pa.types.is_struct(values.type):
        fields = list(values.type)
        parts = [_change_column(one.name, values.field(one.name), change) for one in fields]
        return pa.StructArray.from_arrays(parts, fields=fields)
    return change(_COLUMNS[name], values) if name in _COLUMNS else values
