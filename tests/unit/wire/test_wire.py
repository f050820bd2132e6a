"""The decoder gives back what the encoder wrote, and refuses everything that is cut short."""

import base64
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.tables.arrow import without_timestamps
from sharelag.wire import (
    GROUP_KINDS,
    GROUP_TOPIC,
    SHARE_UPDATE,
    STATE_KINDS,
    STATE_TOPIC,
    decode_arrow,
    encode,
    encode_record,
)
from sharelag.wire.encode import encode_varint
from sharelag.wire.fields import INT_SIZES, Field, RecordKind
from tests.support import generators
from tests.support.columns import with_column
from tests.support.fields import assert_fields
from tests.support.records import raw

_KINDS = [(STATE_TOPIC, k) for k in STATE_KINDS] + [(GROUP_TOPIC, k) for k in GROUP_KINDS]
_NAMES = [kind.name for _, kind in _KINDS]
_SCHEMAS = {STATE_TOPIC: schemas.RECORDS, GROUP_TOPIC: schemas.GROUP_RECORDS}
_TOPIC_IDS = st.binary(min_size=16, max_size=16).map(
    lambda raw: base64.urlsafe_b64encode(raw).decode()[:22]
)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def rows_of(kind: RecordKind, topic: str) -> st.SearchStrategy[dict[str, Any]]:
    place = {"topic": st.just(topic), "record_partition": st.integers(0, 99)}
    place |= {"offset": st.integers(0, 2**62), "timestamp": st.integers(0, 2**41)}
    about = {"record_type": st.just(kind.type), "tombstone": st.just(False)}
    fields = {field.column: _values(field) for field in (*kind.key, *kind.value)}
    missing = {name: st.none() for name in _SCHEMAS[topic].names}
    return st.fixed_dictionaries(missing | place | about | fields | {"unknown_tags": _tags()})


def _values(field: Field) -> st.SearchStrategy[Any]:
    if field.type in INT_SIZES:
        bound = 2 ** (8 * INT_SIZES[field.type] - 1)
        numbers = st.integers(-bound, bound - 1).filter(lambda number: number != field.unknown)
        return st.none() | numbers if field.unknown is not None else numbers
    if field.type == "uuid":
        return _TOPIC_IDS
    if field.type == "string":
        return st.none() | _TEXTS if field.nullable else _TEXTS
    if field.element:
        return st.lists(_values(field.element), max_size=5)
    item = st.fixed_dictionaries({inner.column: _values(inner) for inner in field.fields})
    return st.lists(item, max_size=5)


def _tags() -> st.SearchStrategy[list[dict[str, Any]]]:
    parts = {"path": st.just(""), "element": st.none(), "tag": st.integers(5, 2**31 - 1)}
    tag = st.fixed_dictionaries(parts | {"data": st.binary(max_size=9)})
    lists = st.lists(tag, max_size=3, unique_by=lambda one: one["tag"])
    return lists.map(lambda tags: sorted(tags, key=lambda one: one["tag"]))


@pytest.mark.row("PSS-01", "PSS-02")
@pytest.mark.parametrize(("topic", "kind"), _KINDS, ids=_NAMES)
@given(data=st.data())
def test_decoding_undoes_encoding(topic: str, kind: RecordKind, data: st.DataObject) -> None:
    rows = data.draw(st.lists(rows_of(kind, topic), min_size=1, max_size=4))
    columns = without_schema_timestamps(_SCHEMAS[topic])
    table = pa.Table.from_pylist(rows, schema=columns).cast(_SCHEMAS[topic])
    decoded = decode_arrow(encode(table, topic), topic)
    assert decoded.rejects.num_rows == decoded.skipped == 0
    assert without_timestamps(decoded.records).to_pylist() == without_timestamps(table).to_pylist()


def without_schema_timestamps(schema: pa.Schema) -> pa.Schema:
    """Timestamps as numbers: a record can hold some that no calendar has."""
    return pa.schema(
        [pa.field(f.name, pa.int64() if pa.types.is_timestamp(f.type) else f.type) for f in schema]
    )


@pytest.mark.parametrize(
    ("column", "value", "why"),
    [
        ("snapshot_epoch", None, "SnapshotEpoch must not be null"),
        ("state_batches", None, "StateBatches must not be null"),
        ("topic_id", None, "TopicId must not be null"),
        ("topic_id", "A" * 21, "a topic id has 22 characters"),
        ("group_id", "g" * 32_768, "GroupId must be a text of at most 32,767 bytes"),
        ("group_id", None, "GroupId must be a text"),
        ("record_type", 9, r"record type 9 is not one of \[0, 1\]"),
    ],
)
def test_what_no_record_can_have_is_refused(column: str, value: object, why: str) -> None:
    made = (generators.record_with_value(Random(n), SHARE_UPDATE) for n in range(3))
    rows = without_timestamps(decode_arrow(raw([*made])).records).to_pylist()
    rows[1] |= {column: value, "unknown_tags": []}
    table = pa.Table.from_pylist(rows, schema=without_schema_timestamps(schemas.RECORDS))
    with pytest.raises(ValueError, match=why):
        encode(table.cast(schemas.RECORDS))


@pytest.mark.row("PSS-07", "PSS-09", "CMP-02")
def test_the_count_is_a_tagged_field() -> None:
    place = {"group_id": "G1", "topic_id": "A" * 22, "partition": 0}
    key, _ = encode_record(SHARE_UPDATE, place | {"tombstone": True})
    body = "0000 00000000 00000000 ffffffffffffffff 02 000000000000006e 000000000000006e 00 0001 00"
    tails = ("00", "01 00 04 00000000", "02 00 04 00000000 07 01 ff")
    values = [bytes.fromhex(body + tail) for tail in tails]
    records = decode_arrow(raw([(key, value) for value in values])).records.to_pylist()
    assert [row["delivery_complete_count"] for row in records] == [None, 0, 0]
    assert [row["start_offset"] for row in records] == [None] * 3
    batch = {"first_offset": 110, "last_offset": 110, "delivery_state": 0, "delivery_count": 1}
    assert [row["state_batches"] for row in records] == [[batch]] * 3
    assert records[2]["unknown_tags"] == [{"path": "", "element": None, "tag": 7, "data": b"\xff"}]
    again = encode(decode_arrow(raw([(key, value) for value in values])).records)
    assert again.column("value").to_pylist() == values


@pytest.mark.row("PSS-08")
def test_key_bytes_are_type_group_topic_id_partition() -> None:
    key = bytes.fromhex("0000 0002") + b"G1" + bytes(range(16)) + bytes(4)
    row = decode_arrow(raw([(key, None)])).records.to_pylist()[0]
    assert_fields(row, record_type=0, group_id="G1", partition=0, tombstone=True)
    assert_fields(row, topic_id=base64.urlsafe_b64encode(bytes(range(16))).decode()[:22])


def test_slices_chunks_and_large_types_read_the_same() -> None:
    random = Random(8)
    batch = raw([generators.record(random, STATE_KINDS[n % 2]) for n in range(50)])
    whole = decode_arrow(batch).records
    assert decode_arrow(batch.slice(10, 20)).records.equals(whole.slice(10, 20))
    chunked = pa.Table.from_batches([batch.slice(0, 7), batch.slice(7)])
    assert decode_arrow(chunked).records.equals(whole)
    large = pa.Table.from_batches([batch])
    kinds = {"key": pa.large_binary(), "value": pa.large_binary(), "topic": pa.large_string()}
    for name, kind in kinds.items():
        large = with_column(large, name, large.column(name).cast(kind))
    assert decode_arrow(large).records.equals(whole)
    assert decode_arrow(batch.slice(0, 0)).records.num_rows == 0


def test_a_text_that_is_not_utf8_is_read_as_java_reads_it() -> None:
    key = bytes.fromhex("0000 0003") + b"a\xffb" + bytes(20)
    assert decode_arrow(raw([(key, None)])).records.column("group_id").to_pylist() == ["a\ufffdb"]


def test_wrong_columns_are_named() -> None:
    table = pa.table({"key": pa.array([b""]), "value": pa.array(["text"])})
    said = r"value: expected binary, got string.*topic: .* no such column"
    with pytest.raises(InputError, match=said):
        decode_arrow(table)


@given(st.integers(0, 2**32 - 1))
def test_a_varint_has_at_most_five_bytes(number: int) -> None:
    encoded = encode_varint(number)
    assert len(encoded) == max(1, -(-number.bit_length() // 7))
    assert sum((byte & 127) << (7 * n) for n, byte in enumerate(encoded)) == number
