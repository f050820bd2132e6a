"""Decoders give back what the encoder wrote, one as the other, and refuse what is cut short."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.compiled import compile_kernel
from sharelag.errors import InputError
from sharelag.tables.arrow import without_timestamps
from sharelag.tables.lines import json_text
from sharelag.wire import (
    GROUP_KINDS,
    GROUP_TOPIC,
    SHARE_SNAPSHOT,
    SHARE_UPDATE,
    STATE_KINDS,
    STATE_TOPIC,
    ShareKeys,
    decode_arrow,
    decode_columns,
    encode,
    encode_record,
    formatter,
)
from sharelag.wire.encode import encode_varint
from sharelag.wire.fields import INT_SIZES, Field, RecordKind, record_numbers
from sharelag.wire.formatter import kafka_json, kafka_texts, reject_json, reject_texts
from sharelag.wire.interpreter import interpret
from sharelag.wire.key_codes import key_hash, key_words
from tests.support import generators
from tests.support.cases import Cases
from tests.support.columns import with_column
from tests.support.command import sharelag
from tests.support.fields import assert_fields
from tests.support.formatted import formatted, formatted_rejects
from tests.support.generations import raw_of
from tests.support.records import raw, raw_file, row
from tests.support.walk import WALK
from tools import state_pass

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


CAPTURES = Path(__file__).parents[3] / "data" / "captures"


def equal(batch: pa.RecordBatch) -> tuple[int, int, int]:
    """Assert that both decoders give the same; return how many records, rejects and skipped."""
    columns, expected = decode_columns(batch), interpret(batch, STATE_TOPIC)
    records = columns.records()
    records.validate(full=True)
    assert records.equals(expected.records)
    assert columns.rejects.equals(expected.rejects)
    assert columns.skipped == expected.skipped
    counts = records.num_rows, columns.rejects.num_rows, columns.skipped
    assert sum(counts) == batch.num_rows
    return counts


def some_records(random: Random, count: int, damaged: float = 0.0) -> list[generators.Record]:
    """Return records of the state topic, few of other topics, some of them damaged."""
    kinds = [random.choice(STATE_KINDS) if random.random() < 0.9 else None for _ in range(count)]
    records = [generators.record(random, kind) for kind in kinds]
    return [generators.damaged(random, r) if random.random() < damaged else r for r in records]


def test_the_committed_pass_is_what_the_tool_makes() -> None:
    assert state_pass.FILE.read_text() == state_pass.source(), "run `python tools/state_pass.py`"


@pytest.mark.parametrize("damaged", [0.0, 0.4])
def test_random_records_decode_as_interpreted(damaged: float, cases: Cases) -> None:
    random = Random(5)
    for _ in range(cases(5, 100)):
        batch = raw(some_records(random, 300, damaged))
        records, rejects, skipped = equal(batch)
        assert records
        assert skipped
        assert bool(rejects) == bool(damaged)
        equal(batch.slice(13, 200))
        topics = [random.choice([STATE_TOPIC, GROUP_TOPIC, "eu.__share_group_state", None])] * 9
        mixed = pa.array((topics + [STATE_TOPIC] * 300)[:300])
        equal(batch.set_column(2, "topic", mixed))


def test_records_cut_at_every_byte_decode_as_interpreted() -> None:
    random = Random(6)
    for kind in STATE_KINDS:
        key, value = generators.record_with_value(random, kind)
        cut: list[generators.Record] = [(key[:n], value) for n in range(len(key))]
        cut += [(key, value[:n]) for n in range(len(value))]
        cut += [(key + b"x", value + b"x")]
        assert equal(raw(cut)) == (1, len(cut) - 1, 0)


def test_recorded_clusters_decode_as_interpreted() -> None:
    counts = np.zeros(3, int)
    for path in CAPTURES.glob("**/records/*.parquet"):
        for batch in pq.read_table(path).cast(schemas.RAW).to_batches():
            counts += equal(batch)
    assert counts[0] > 1000
    assert counts[1] == 0


def test_codes_are_the_same_in_all_batches_and_name_each_share_partition() -> None:
    random, keys = Random(7), ShareKeys()
    records = some_records(random, 3000)
    first = decode_columns(raw(records), keys)
    again = decode_columns(raw(records[::-1]), keys)
    assert first.key.tolist() == again.key.tolist()[::-1]
    assert len(keys) > 2048, "the table grew"
    names = keys.table().take(pa.array(first.key))
    expected = interpret(raw(records), STATE_TOPIC).records
    assert names.equals(expected.select(names.schema.names))


def test_keys_that_read_the_same_have_one_code() -> None:
    keys = [b"\0\0\0\1" + name + bytes(20) for name in (b"\xff", b"\xfe", b"a", b"\xff")]
    keys += [b"\0\1\0\3" + "\ufffd".encode() + bytes(20)]
    batch = raw([(key, None) for key in keys])
    equal(batch)
    assert decode_columns(batch).key.tolist() == [0, 0, 2, 0, 0]


def test_long_keys_have_codes_of_their_own() -> None:
    random = Random(9)
    tails = [random.randbytes(20) for _ in range(4)]
    names = [b"n" * size + end for size in range(60) for end in (b"", b"a", b"b")] * 2
    begins = [b"\0\1" + len(name).to_bytes(2, "big") + name for name in names]
    keys = [begin + tail for begin in begins for tail in tails]
    for ordered in (keys, keys[::-1]):  # the first may be long or short
        code = decode_columns(raw([(key, None) for key in ordered])).key
        expected = {key: number for number, key in enumerate(dict.fromkeys(ordered))}
        assert dict(zip(ordered, code.tolist(), strict=True)) == expected


@pytest.mark.parametrize("name", ["partition", "offset"])
def test_a_record_without_a_place_is_a_reject(name: str) -> None:
    whole = raw(some_records(Random(12), 200, 0.2))
    column = pa.array([None if n % 3 else 7 * n for n in range(200)], whole.schema.field(name).type)
    batch = with_column(whole, name, column)
    counts = equal(batch)
    assert counts[0] == equal(batch.filter(column.is_valid()))[0], "records with a place stay"
    assert counts[2] == equal(whole)[2], "records of other types are skipped as ever"
    reasons = set(decode_columns(batch).rejects.column("reason").to_pylist())
    assert "the record has no topic, no partition or no offset" in reasons


def of_one_hash(count: int, seeds: NDArray[np.uint64]) -> list[bytes]:
    """Return keys of the size that five words hold, which all have one hash under these seeds."""

    def folded(a: int, b: int) -> int:
        product = (a ^ int(seeds[0])) * (b ^ int(seeds[1]))
        return product >> 64 ^ product & (1 << 64) - 1

    keys = []
    for n in range(count):
        begin = b"\0\x10" + f"group-{n:08}".encode()
        a, b = (int.from_bytes(begin[k : k + 8], "little") for k in (0, 8))
        # The last word cancels what the first two change; those between are the same.
        last = (folded(a, b) ^ folded(0, 0)).to_bytes(8, "little")
        keys.append(begin + bytes(14) + last)
    return keys


def test_keys_made_to_have_one_hash_have_many_where_the_seeds_are_secret() -> None:
    known = np.arange(1, 7, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    keys = of_one_hash(500, known)

    def hashes(seeds: NDArray[np.uint64]) -> int:
        octets = np.frombuffer(b"".join(keys), np.uint8)
        found = np.empty(len(keys), np.uint64)
        for n in range(len(keys)):
            p = np.uint64(38 * n)
            words = tuple(map(np.uint64, compile_kernel(key_words)(octets, p, p + np.uint64(38))))
            found[n] = compile_kernel(key_hash)(words, np.uint64(0), tuple(seeds))
        return len(np.unique(found))

    assert hashes(known) == 1, "they are made for these seeds"
    assert hashes(ShareKeys().seeds) == len(keys)
    assert not np.array_equal(ShareKeys().seeds, ShareKeys().seeds)


def test_rows_without_any_record() -> None:
    assert equal(raw([(b"\0\7", b"") for _ in range(9)])) == (0, 0, 9)
    assert equal(raw([]).slice(0)) == (0, 0, 0)


def test_what_a_record_does_not_have_is_what_kafka_writes_for_it() -> None:
    random = Random(8)
    batch = raw(some_records(random, 400, 0.1))
    columns = decode_columns(batch)
    records = interpret(batch, STATE_TOPIC).records
    for number in record_numbers():
        column = records.column(number.column)
        column = column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column
        filled = column.fill_null(number.absent).to_pylist()
        assert columns.numbers[number.column].tolist() == filled


def texts(some: Iterator[pa.StringArray]) -> list[str]:
    return [text for column in some for text in column.to_pylist()]


def records(random: Random, kinds: tuple[RecordKind, ...], count: int) -> list[generators.Record]:
    made = [generators.record(random, random.choice(kinds)) for _ in range(count)]
    return [generators.damaged(random, one) if random.random() < 0.2 else one for one in made]


@pytest.mark.parametrize(
    ("topic", "kinds"), [(STATE_TOPIC, STATE_KINDS), (GROUP_TOPIC, GROUP_KINDS)]
)
def test_columns_of_json_are_formatted_as_each_record(
    topic: str, kinds: tuple[RecordKind, ...], monkeypatch: pytest.MonkeyPatch, cases: Any
) -> None:
    random, seen = Random(topic), 0
    for _ in range(cases(12, 1000)):
        monkeypatch.setattr(formatter, "_ROWS", random.choice([1, 7, 1000]))
        found = decode_arrow(raw(records(random, kinds, random.randrange(40)), topic), topic)
        whole = [*formatted(found.records)]
        assert texts(kafka_texts(found.records)) == [json_text(one) for one in whole]
        assert [*kafka_json(found.records)] == whole
        wrong = [*formatted_rejects(found.rejects)]
        assert texts(reject_texts(found.rejects)) == [json_text(one) for one in wrong]
        assert [*reject_json(found.rejects)] == wrong
        seen += len(whole) * len(wrong)
    assert seen


def test_records_of_all_generations_keep_their_order() -> None:
    older = [decode_arrow(raw_of(WALK.values(), number)).records for number in range(4)]
    today = decode_arrow(raw(records(Random(3), STATE_KINDS, 20))).records
    mixed = pa.Table.from_batches([*older, today]).combine_chunks().to_batches()[0]
    order = [*range(len(mixed))]
    Random(5).shuffle(order)
    mixed = mixed.take(pa.array(order))
    whole = [*formatted(mixed)]
    assert {one["key"].get("generation") for one in whole} == {None, 0, 1, 2, 3}
    assert texts(kafka_texts(mixed)) == [json_text(one) for one in whole]


def test_hostile_names_are_escaped_and_stay_whole(tmp_path: Any) -> None:
    names = ["a\nb", "\x1b[2J", '"},', "\u202e", "\U000e0041", "\\n", "é", "\ud7ff", " "]
    state = row(5, [(5, 9, 0, 1)])
    made = [encode_record(SHARE_SNAPSHOT, state | {"group_id": one}) for one in names]
    lines = sharelag("decode", "--raw", raw_file(tmp_path, raw(made)), "-o", "json").stdout
    assert lines.replace("\n", "").isprintable()
    found = [json.loads(line)["key"]["data"]["groupId"] for line in lines.splitlines()]
    assert found == names
