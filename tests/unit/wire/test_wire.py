"""Decoders give back what the encoder wrote, and take no damaged record for one of any format."""

import base64
import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sharelag import open as open_workbench
from sharelag import schemas
from sharelag.compiled import compile_kernel
from sharelag.errors import InputError
from sharelag.replay import replay_arrow
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
from sharelag.wire.generations import TODAY
from sharelag.wire.interpreter import interpret
from sharelag.wire.key_codes import key_hash, key_words
from tests.support import generators, older_records
from tests.support.cases import Cases, few_of
from tests.support.command import sharelag
from tests.support.formatted import formatted, formatted_rejects
from tests.support.generations import raw_of, window
from tests.support.older_records import control
from tests.support.records import assert_fields, raw, raw_file, row, with_column
from tests.support.walk import WALK
from tools import state_pass

_KINDS = [(STATE_TOPIC, k) for k in STATE_KINDS] + [(GROUP_TOPIC, k) for k in GROUP_KINDS]
_NAMES = [kind.name for _, kind in _KINDS]
_SCHEMAS = {STATE_TOPIC: schemas.RECORDS, GROUP_TOPIC: schemas.GROUP_RECORDS}
_TOPIC_IDS = st.binary(min_size=16, max_size=16).map(
    lambda raw: base64.urlsafe_b64encode(raw).decode()[:22]
)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
CAPTURES = Path(__file__).parents[3] / "data" / "captures"
RECORDED = [CAPTURES / "chapters", *sorted((CAPTURES / "scenarios").iterdir())]

Pair = tuple[bytes, bytes | None]


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


def recorded(capture: Path) -> pa.Table:
    table = pq.read_table(capture / "records").cast(schemas.RAW)
    return table.filter(pc.ends_with(table.column("topic"), STATE_TOPIC))


def pairs_of(table: pa.Table) -> list[Pair]:
    return [(row["key"], row["value"]) for row in table.select(["key", "value"]).to_pylist()]


def prefixes(pairs: Iterable[Pair]) -> list[Pair]:
    return [(key, value[:end]) for key, value in pairs if value for end in range(len(value))]


def snapshot(epoch: int, leader: int, start: int, *batches: tuple[int, int, int, int]) -> Pair:
    changes = {"snapshot_epoch": epoch, "state_epoch": 0, "leader_epoch": leader}
    changes |= {"create_timestamp": 4, "write_timestamp": 4}
    return encode_record(SHARE_SNAPSHOT, row(start, batches, **changes))


def update(leader: int, start: int, *batches: tuple[int, int, int, int]) -> Pair:
    return encode_record(SHARE_UPDATE, row(start, batches, leader_epoch=leader))


def same_as_today(pairs: list[Pair]) -> None:
    """Assert that every record is a reject, and that the rejects are those of today's format."""
    found, today = (decode_arrow(raw(pairs), generation=number) for number in (None, TODAY))
    assert found.records.num_rows == 0
    assert found.rejects.equals(today.rejects)
    assert found.rejects.num_rows == len(pairs)


@pytest.mark.parametrize(
    "capture", few_of(RECORDED, RECORDED[::6]), ids=lambda capture: capture.name
)
def test_every_beginning_of_a_recorded_record_is_a_reject(capture: Path) -> None:
    whole = pairs_of(recorded(capture))
    cut = prefixes(whole)
    same_as_today(cut)
    found = decode_arrow(raw([*whole, *cut]))
    assert found.rejects.num_rows == len(cut)
    assert found.records.column("generation").null_count == len(whole)


def test_beginnings_of_records_whose_epochs_are_0_are_rejects() -> None:
    random = Random("beginnings")
    starts = [-1, 0, 100, 256, 300, 512, 768, 33024, 33280, 65535, 65792, 2**32 + 512]
    whole: list[Pair] = []
    for start in starts:
        for leader in (0, 1, 2, 300):
            for count in (0, 1, 2, 3, 5, 127, 130):
                batches = [(n, n, random.choice([0, 2, 4]), n % 5) for n in range(count)]
                times = {"create_timestamp": random.choice([0, 5, 2**40, 2**40 + 2])}
                changes = {"state_epoch": leader, "leader_epoch": leader} | times
                whole.append(encode_record(SHARE_SNAPSHOT, row(start, batches, **changes)))
                whole.append(update(leader, start, *batches))
    # What is cut later has whole batches before the cut, as recorded ones have.
    same_as_today([pair for pair in prefixes(whole) if pair[1] is not None and len(pair[1]) < 100])


@pytest.mark.parametrize(
    ("cut", "end"),
    [
        (snapshot(1, 0, 300), 16),
        (snapshot(0, 0, 256), 22),
        (snapshot(0, 0, 512, (0, 9, 2, 1)), 42),
        (update(0, 256), 18),
        (update(0, 512, (3, 9, 2, 0)), 38),
        (update(0, 512, (3, 9, 2, 1)), 41),
    ],
)
def test_a_damaged_record_does_not_move_a_window(cut: Pair, end: int) -> None:
    assert cut[1] is not None
    pairs = [snapshot(0, 0, 0, (0, 9, 0, 1)), update(0, 100), (cut[0], cut[1][:end])]
    found = decode_arrow(raw(pairs))
    assert found.rejects.num_rows == 1
    assert replay_arrow(found.records).to_pylist()[0]["start_offset"] == 100


@pytest.mark.parametrize("most_updates", [2, 500])
@pytest.mark.parametrize("generation", [0, 1, 2, 3, TODAY])
def test_a_record_cut_anywhere_is_a_reject(generation: int, most_updates: int) -> None:
    whole = raw_of(WALK.values(), generation, most_updates).to_pylist()
    logs: list[dict[str, Any]] = []
    cut: list[tuple[int, int]] = []
    ends = [(at, end) for at in range(8) for end in range(len(whole[at]["value"]))]
    for at, end in ends:
        log = [{**each, "partition": len(cut)} for each in whole]
        log[at]["value"] = log[at]["value"][:end]
        cut.append((len(cut), log[at]["offset"]))
        logs += log
    found = decode_arrow(pa.RecordBatch.from_pylist(logs, schema=schemas.RAW))
    places = (found.rejects.column(name).to_pylist() for name in ("record_partition", "offset"))
    assert list(zip(*places, strict=True)) == cut
    assert found.records.num_rows == len(logs) - len(cut)


def test_snapshots_of_kafka_4_0_that_are_cut_anywhere_are_rejects() -> None:
    random = Random("4.0")
    rows = []
    for at in range(400):
        start = random.randrange(10 ** random.randint(1, 11))
        batches = [(start + n, start + n, random.choice([0, 2, 4]), 1) for n in range(at % 4)]
        epochs = {"state_epoch": random.randint(0, 9), "leader_epoch": random.randint(0, 300)}
        rows.append(older_records.row(3, at, 0, start, batches, random.randint(0, 9), **epochs))
    cut = prefixes(pairs_of(pa.table(older_records.raw(rows))))
    assert decode_arrow(raw(cut)).rejects.num_rows == len(cut)


def test_a_damaged_snapshot_of_kafka_4_0_does_not_move_a_window(tmp_path: Path) -> None:
    written = raw_of(WALK.values(), 3, 2).to_pylist()[:7]
    before = window(pa.RecordBatch.from_pylist(written[:6], schema=schemas.RAW))
    written[6]["value"] = written[6]["value"][:16]
    found = pa.RecordBatch.from_pylist(written, schema=schemas.RAW)
    assert written[6]["key"][:2] == b"\0\0"
    assert decode_arrow(found).rejects.num_rows == 1
    after = window(found)
    assert before is not None
    assert after is not None
    assert after["start_offset"] == before["start_offset"]
    health = open_workbench(raw_file(tmp_path, found), engine="local").health().table.to_pylist()
    assert [(row["rejects"], row["generations"]) for row in health] == [(1, ["G3"])]


def test_a_checkpoint_that_may_be_a_cut_snapshot_is_older_only_before_those() -> None:
    def kinds(*rows: dict[str, Any], generation: int | None = None) -> list[int]:
        found = decode_arrow(older_records.raw([*rows]), generation=generation).records
        return found.column("generation").to_pylist()  # type: ignore[no-any-return]

    either = older_records.row(2, 130, 0, 2**32 + 2, [], 1)
    delta = older_records.row(2, 131, 1, None, [(0, 4, 0, 1)], 1)
    epochs = {"state_epoch": 1, "leader_epoch": 2}
    kafkas = [older_records.row(3, at, 0, 7, [], 1, **epochs) for at in (129, 132)]
    assert kinds(either) == []
    assert kinds(either, generation=2) == [2]
    assert kinds(either, delta) == [2, 2]
    assert kinds(either, delta, kafkas[1]) == [2, 2, 3]
    assert kinds(kafkas[0], either, delta) == [3, 2]
    assert kinds(older_records.row(2, 130, 0, 2**32 + 70_000, [], 1)) == [2]


def damaged(folder: Path, end: int) -> Path:
    """A copy of the demo capture with every seventh record cut, at the latest before its end."""
    target = folder / "capture"
    shutil.copytree(CAPTURES / "chapters", target)
    table = pq.read_table(target / "records")
    values = table.column("value").to_pylist()
    topics = table.column("topic").to_pylist()
    for at in range(0, len(values), 7):
        if topics[at] == STATE_TOPIC and values[at]:
            values[at] = values[at][: min(end, len(values[at]) - 1)]
    (part,) = (target / "records").glob("*.parquet")
    pq.write_table(with_column(table, "value", pa.array(values)), part)
    return target


def test_the_lag_of_a_damaged_capture_is_that_of_its_other_records(tmp_path: Path) -> None:
    lags = []
    for end in (1, 16, 18, 22, 40, 42):
        capture = damaged(tmp_path / str(end), end)
        bench = open_workbench(capture, engine="local")
        lags.append((bench.lag().table, sum(bench.health().table.column("rejects").to_pylist())))
    assert lags[0][1] > 0
    for table, rejects in lags[1:]:
        assert table.equals(lags[0][0])
        assert rejects == lags[0][1]


# ---- what may be either --------------------------------------------------------------------------
@pytest.mark.parametrize("generation", [2, 3])
def test_a_record_that_may_be_either_is_older_only_beside_older_ones(generation: int) -> None:
    epochs = {"state_epoch": 0, "leader_epoch": 0} if generation == 3 else {}
    either = older_records.row(generation, 130, 0, 0, [], 0, **epochs)
    delta = older_records.row(generation, 131, 1, None, [(0, 4, 0, 1)], 0, **epochs)
    alone = older_records.raw([either])
    assert decode_arrow(alone).rejects.num_rows == 1
    given = decode_arrow(alone, generation=generation)
    assert given.records.column("generation").to_pylist() == [generation]
    beside = decode_arrow(older_records.raw([either, delta]))
    assert beside.records.column("generation").to_pylist() == [generation] * 2
    elsewhere = older_records.raw([either, delta | {"record_partition": 1}])
    assert decode_arrow(elsewhere).rejects.column("offset").to_pylist() == [130]
    today = raw([snapshot(0, 0, 7)]).to_pylist()[0] | {"partition": 0, "offset": 129}
    after = pa.RecordBatch.from_pylist(
        [*older_records.raw([either, delta]).to_pylist(), today], schema=schemas.RAW
    )
    assert decode_arrow(after).rejects.column("offset").to_pylist() == [130]


@pytest.mark.parametrize("number", ["start", "first", "state", "count"])
def test_a_record_with_numbers_that_nobody_writes_is_not_older(number: str) -> None:
    batch = {"first": (2**62, 2**62, 0, 1), "state": (0, 4, 3, 1), "count": (0, 4, 0, 256)}
    start = 2**62 if number == "start" else 0
    rows = [older_records.row(3, 130, 0, start, [batch.get(number, (0, 4, 0, 1))], 0)]
    rows[0] |= {"state_epoch": 1, "leader_epoch": 1}
    written = older_records.raw(rows)
    found, today = decode_arrow(written), decode_arrow(written, generation=TODAY)
    assert found.records.equals(today.records)
    assert found.rejects.equals(today.rejects)
    rows[0] |= {"start_offset": 0} | {"state_batches": []}
    assert decode_arrow(older_records.raw(rows)).records.column("generation").to_pylist() == [3]


# ---- control records -----------------------------------------------------------------------------
def test_a_checkpoints_generation_does_not_depend_on_the_records_beside_it() -> None:
    for rows, expected in ((control(0), [1, *[0] * 7]), (control(1), [1] * 8)):
        whole = decode_arrow(older_records.raw(rows)).records.column("generation").to_pylist()
        alone = [decode_arrow(older_records.raw([each])).records for each in rows]
        parts = [found.column("generation")[0].as_py() for found in alone]
        assert whole == parts == expected
    requested = decode_arrow(older_records.raw(control(0)), generation=0).records
    assert requested.column("generation").to_pylist() == [0] * 8


def changed(batch: pa.RecordBatch, **columns: Any) -> pa.RecordBatch:
    rows = [{**each, **{name: of(each[name]) for name, of in columns.items()}}
            for each in batch.to_pylist()]  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, schema=schemas.RAW)


def test_what_is_no_control_record_is_skipped_unless_it_is_asked_for() -> None:
    """Keys of small integers are users' records, and internal topics have none."""
    short = changed(older_records.raw(control(1)), key=lambda key: key[:4])
    internal = changed(raw_of([(0, [])], 1), topic=lambda _: "__transaction_state")
    for batch, asked in ((short, 0), (internal, 1)):
        assert decode_arrow(batch).skipped == batch.num_rows
        assert decode_arrow(batch, generation=1).skipped == asked
    assert decode_arrow(short, generation=1).records.num_rows == short.num_rows


def test_random_records_of_today_are_never_older() -> None:
    random = Random("today")
    pairs = [generators.record(random) for _ in range(300)]
    cut = prefixes(pairs)
    found = decode_arrow(raw(random.sample(cut, min(len(cut), 20_000))))
    assert found.records.column("generation").null_count == found.records.num_rows
