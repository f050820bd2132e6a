"""Write a capture again without its names, so that it can be given to others.

Names become sequential ones (``group-03``) in the order of the originals, which answers that depend
on that order keep; the table of which name became which is not written. Only what was decoded is
written: a record that cannot be, and a field that is not known, may hold any text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.inputs.files.captures import (
    Capture,
    CaptureInfo,
    check_place,
    count_records,
    read_capture,
    write_capture,
)
from sharelag.inputs.files.pieces import parquet_batches
from sharelag.model.settings.catalogue import CATALOGUE
from sharelag.tables.arrow import flat, of_distinct, with_columns
from sharelag.version import __version__
from sharelag.wire.decode import decode_arrow
from sharelag.wire.encode import encode
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC

#: Takes a kind of name and a column of such names.
_Change: TypeAlias = Callable[[str, pa.Array], pa.Array]
#: What each original name becomes, by kind of name.
_Names: TypeAlias = dict[str, dict[str, str]]

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


def anonymise(source: Path, folder: Path, overwrite: bool = False) -> tuple[CaptureInfo, int]:
    """Write a capture without the names of groups, topics, members, clients, hosts and racks.

    Return what it says of itself, and how many records were left out, because they cannot be
    decoded. The cluster's id, the client's settings and the sizes of Kafka's topics are left out:
    places in them are hashes of names. A folder that is in the way is an InputError.
    """
    check_place(folder, overwrite)
    capture = read_capture(source)
    names = _names_of(capture)

    def rename(kind: str, values: pa.Array) -> pa.Array:
        return of_distinct(values, names[kind].__getitem__, pa.string())

    left_out = count_records(source)

    def records() -> Iterator[pa.RecordBatch]:
        nonlocal left_out
        for topic, rows in _decoded(capture):
            left_out -= rows.num_rows
            table = _change_names(rows, rename)
            hidden = {"unknown_tags": None}
            if topic == GROUP_TOPIC:
                # Of topic names, which anybody with a list of candidates could find.
                hidden["metadata_hash"] = pc.multiply(table.column("metadata_hash"), 0)
            yield encode(with_columns(table, hidden), topic)

    def finish(_: Path) -> tuple[dict[str, pa.Table], CaptureInfo]:
        info = replace(
            capture.info,
            cluster_id="anonymised",
            topics={},
            options={},
            tool_version=__version__,  # in the original it is a text that anybody can change
        )
        kept = {name: table for name, table in capture.extras.items() if table.num_rows}
        kept["offsets"] = capture.offsets
        return {name: _table(table, rename) for name, table in kept.items()}, info

    info = write_capture(folder, records(), finish, overwrite)
    return info, left_out


def _decoded(capture: Capture) -> Iterator[tuple[str, pa.RecordBatch]]:
    for batch in parquet_batches(capture.records_paths):
        for topic in (STATE_TOPIC, GROUP_TOPIC):
            part = batch.filter(pc.equal(batch.column("topic"), topic))
            yield topic, decode_arrow(part, topic).records


def _names_of(capture: Capture) -> _Names:
    found: dict[str, set[str]] = {}

    def note(kind: str, values: pa.Array) -> pa.Array:
        found.setdefault(kind, set()).update(pc.unique(values.drop_null()).to_pylist())
        return values

    records = (rows for _, rows in _decoded(capture))
    for table in chain(records, (capture.offsets, *capture.extras.values())):
        _change_names(table, note)
    names: _Names = {}
    for kind, originals in found.items():
        some = sorted(originals - _KEPT - {""})
        width = len(str(len(some)))
        names[kind] = {name: f"{kind}-{n:0{width}d}" for n, name in enumerate(some, start=1)}
        names[kind] |= {name: name for name in (*_KEPT, "")}
    return names


def _table(table: pa.Table, rename: _Change) -> pa.Table:
    if "leader_id" in table.schema.names:
        # Coordinators are found by hashes of names, which are others now.
        internal = pc.is_in(table.column("topic"), pa.array(sorted(_KEPT)))
        table = table.filter(pc.invert(internal))
    table = _change_names(table, rename)
    if "value" in table.schema.names:
        texts = (text or "" for text in table.column("value").to_pylist())
        kept = [text if text in _WORDS or _PLAIN.fullmatch(text) else None for text in texts]
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
    """Return a column with other names, which may stand in lists and structs."""
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
