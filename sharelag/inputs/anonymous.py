"""Write a capture again without its names, so that it can be given to others.

Names become sequential ones (``group-03``) in the order of the originals, which answers that depend
on that order keep; the table of which name became which is not written. Only what was decoded is
written: a record that cannot be, and a field that is not known, may hold any text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.inputs.files.captures import (
    Capture,
    CaptureInfo,
    check_place,
    read_capture,
    write_capture,
)
from sharelag.inputs.files.pieces import parquet_batches
from sharelag.model.settings.catalogue import CATALOGUE
from sharelag.version import __version__
from sharelag.wire.decode import decode_arrow
from sharelag.wire.encode import encode, encode_record
from sharelag.wire.fields import GROUP_TOPIC, SHARE_SNAPSHOT, STATE_KINDS, STATE_TOPIC

#: Which names a column of records or tables has; "entity" is a group's or a topic's by its scope.
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
#: Kafka's own topics keep their names: these say nothing of whose the cluster is.
_KEPT = {STATE_TOPIC, GROUP_TOPIC}
#: Values of settings that cannot be a name of anything.
_WORDS = {word for setting in CATALOGUE for word in setting.choices} | {"true", "false"}
_PLAIN = re.compile(r"-?\d+(\.\d+)?|by_duration:[\dPpTtDdHhMmSs.,]+")


@dataclass(frozen=True)
class _Names:
    """What each original name becomes, by kind of name."""

    found: dict[str, set[str]] = field(default_factory=dict)
    made: dict[str, dict[str, str]] = field(default_factory=dict)

    def note(self, kind: str, values: pa.Array | pa.ChunkedArray) -> None:
        self.found.setdefault(kind, set()).update(pc.unique(values.drop_null()).to_pylist())

    def number(self) -> None:
        for kind, originals in self.found.items():
            some = sorted(originals - _KEPT - {""})
            width = len(str(len(some)))
            self.made[kind] = {
                name: f"{kind}-{n:0{width}d}" for n, name in enumerate(some, start=1)
            }

    def of(self, kind: str, name: str | None) -> str | None:
        return name if name is None or name in _KEPT or not name else self.made[kind][name]

    def column(self, kind: str, values: pa.Array | pa.ChunkedArray) -> pa.Array:
        """Replace the names of a column, each distinct one once."""
        flat = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        coded = flat.dictionary_encode()
        new = pa.array([self.of(kind, name) for name in coded.dictionary.to_pylist()], pa.string())
        return new.take(coded.indices)


def anonymise(source: Path, folder: Path, overwrite: bool = False) -> tuple[CaptureInfo, int]:
    """Write a capture without the names of groups, topics, members, clients, hosts and racks.

    Return what it says of itself, and how many records were left out, because they cannot be
    decoded. The cluster's id, the client's settings and the sizes of Kafka's topics are left out:
    places in them are hashes of names. A folder that is in the way is an InputError.
    """
    check_place(folder, overwrite)
    capture = read_capture(source)
    names = _names_of(capture)
    counts: list[int] = []

    def records() -> Iterator[pa.RecordBatch]:
        for batch in parquet_batches(capture.records_paths):
            for topic in (STATE_TOPIC, GROUP_TOPIC):
                part = batch.filter(pc.equal(batch.column("topic"), topic))
                new = _records(part, topic, names)
                counts.append(new.num_rows)
                yield new
            counts.append(-batch.num_rows)

    def finish(_: Path) -> tuple[dict[str, pa.Table], CaptureInfo]:
        tables = {"offsets": capture.offsets, **capture.extras}
        info = replace(
            capture.info,
            cluster_id="anonymised",
            topics={},
            options={},
            tool_version=__version__,  # in the original it is a text that anybody can change
        )
        kept = {name: table for name, table in tables.items() if table.num_rows}
        kept.setdefault("offsets", capture.offsets)
        return {name: _table(table, names) for name, table in kept.items()}, info

    info = write_capture(folder, records(), finish, overwrite)
    return info, -sum(counts)


def _names_of(capture: Capture) -> _Names:
    names = _Names()
    for batch in parquet_batches(capture.records_paths):
        for topic in (STATE_TOPIC, GROUP_TOPIC):
            part = batch.filter(pc.equal(batch.column("topic"), topic))
            _note(decode_arrow(part, topic).records, names)
    for table in (capture.offsets, *capture.extras.values()):
        _note(table, names)
    names.number()
    return names


def _note(table: pa.RecordBatch | pa.Table, names: _Names) -> None:
    for column in table.schema:
        values = table.column(column.name)
        if column.name == "entity":
            for scope in ("group", "topic"):
                names.note(scope, values.filter(pc.equal(table.column("scope"), scope)))
            continue
        flat = pc.list_flatten(values) if pa.types.is_list(column.type) else values
        if column.name in _COLUMNS:
            names.note(_COLUMNS[column.name], flat)
        elif pa.types.is_struct(flat.type) and flat.type.get_field_index("topic_name") >= 0:
            names.note("topic", pc.struct_field(flat, "topic_name"))


def _records(raw: pa.RecordBatch, topic: str, names: _Names) -> pa.RecordBatch:
    decoded = decode_arrow(raw, topic).records
    today = (
        topic == STATE_TOPIC
        and decoded.num_rows == raw.num_rows
        and decoded.column("generation").null_count == raw.num_rows
        and not pc.any(pc.greater(pc.list_value_length(decoded.column("unknown_tags")), 0)).as_py()
        and _sizes(decoded).equals(pc.binary_length(raw.column("value")).cast(pa.int64()))
    )
    if today and raw.num_rows:
        # Values have no names and no unknown fields; keys are few.
        coded = raw.column("key").dictionary_encode()
        first = np.unique(coded.indices.to_numpy(), return_index=True)[1]
        kinds = {kind.type: kind for kind in STATE_KINDS}
        rows = decoded.select(["record_type", *schemas.SHARE_PARTITION]).take(pa.array(first))
        new = [
            encode_record(
                kinds[row["record_type"]],
                {**row, "group_id": names.of("group", row["group_id"]), "tombstone": True},
            )[0]
            for row in rows.to_pylist()
        ]
        keys = pa.array(new, pa.binary()).take(coded.indices)
        return raw.set_column(0, schemas.RAW.field("key"), keys)
    rows = [_row(row, names) for row in decoded.to_pylist()]
    return encode(pa.Table.from_pylist(rows, decoded.schema), topic)


def _sizes(records: pa.RecordBatch) -> pa.Array:
    """Return the bytes of each value as Kafka writes it; readers accept more, which could be text.

    Null for tombstones.
    """
    batches = pc.list_value_length(records.column("state_batches")).cast(pa.int64())
    varint = pc.add(
        1, pc.add(pc.greater(batches, 126).cast("int64"), pc.greater(batches, 16382).cast("int64"))
    )
    snapshot = pc.equal(records.column("record_type"), SHARE_SNAPSHOT.type)
    tags = pc.if_else(pc.is_valid(records.column("delivery_complete_count")), 7, 1)
    fixed = pc.add(pc.if_else(snapshot, 38, 18), tags).cast(pa.int64())
    size = pc.add(pc.add(fixed, varint), pc.multiply(batches, 20))
    return pc.if_else(records.column("tombstone"), pa.scalar(None, pa.int64()), size)


def _row(row: Mapping[str, Any], names: _Names) -> dict[str, Any]:
    new = {**row, "unknown_tags": None}
    if row.get("metadata_hash") is not None:
        # Of topic names, which anybody with a list of candidates could find.
        new["metadata_hash"] = 0
    for name, value in row.items():
        if name in _COLUMNS and isinstance(value, list):
            new[name] = [names.of(_COLUMNS[name], each) for each in value]
        elif name in _COLUMNS:
            new[name] = names.of(_COLUMNS[name], value)
        elif isinstance(value, list) and value and "topic_name" in value[0]:
            new[name] = [
                {**each, "topic_name": names.of("topic", each["topic_name"])} for each in value
            ]
    return new


def _table(table: pa.Table, names: _Names) -> pa.Table:
    if "leader_id" in table.schema.names:
        # Coordinators are found by hashes of names, which are others now.
        internal = pc.is_in(table.column("topic"), pa.array(sorted(_KEPT)))
        table = table.filter(pc.invert(internal))
    for place, column in enumerate(table.schema):
        values = table.column(column.name)
        if column.name == "entity":
            table = table.set_column(place, column, _entities(table, names))
        elif column.name == "value":
            kept = [
                text if text is None or text in _WORDS or _PLAIN.fullmatch(text) else None
                for text in values.to_pylist()
            ]
            table = table.set_column(place, column, pa.array(kept, pa.string()))
        elif column.name in _COLUMNS:
            table = table.set_column(place, column, names.column(_COLUMNS[column.name], values))
    return table


def _entities(table: pa.Table, names: _Names) -> pa.Array:
    pairs = zip(*(table.column(name).to_pylist() for name in ("scope", "entity")), strict=True)
    return pa.array([names.of(scope, entity) for scope, entity in pairs], pa.string())
