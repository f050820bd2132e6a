"""Types of groups in records of consumer groups, as a draft of KIP-932 had them."""

import random
from pathlib import Path

import pyarrow as pa
import pytest

from sharelag import schemas
from sharelag.wire import GROUP_TOPIC
from sharelag.wire.generations import group_types
from tests.support.command import sharelag
from tests.support.records import raw_file

EPOCH, NO_TAGS = b"\0\0\0\5", b"\0"
#: The value of version 0, which has no type, and those of version 1.
V0 = b"\0\0" + EPOCH + NO_TAGS
NULL, CONSUMER, SHARE, OTHER = (
    b"\0\1" + EPOCH + kind + NO_TAGS for kind in (b"\0", b"\x09consumer", b"\x06share", b"\4foo")
)


def raw(*records: tuple[str, bytes | None], topic: str = GROUP_TOPIC) -> pa.RecordBatch:
    """Records of groups, by name and value."""
    rows = [
        {"key": b"\0\3" + len(name.encode()).to_bytes(2, "big") + name.encode(), "value": value}
        | {"topic": topic, "partition": 0, "offset": offset}
        for offset, (name, value) in enumerate(records)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=schemas.RAW)


def told(folder: Path, batch: pa.RecordBatch, *options: str) -> list[str]:
    done = sharelag("decode", "--raw", raw_file(folder, batch), *options)
    assert (done.returncode, done.stdout) == (0, "")
    return [line for line in done.stderr.splitlines() if "ConsumerGroupMetadata" in line]


@pytest.mark.row("GMR-02")
def test_the_type_is_that_of_version_1_and_else_consumer(tmp_path: Path) -> None:
    batch = raw(("old", V0), ("none", NULL), ("named", CONSUMER), ("orders", SHARE), ("x", OTHER))
    names = ("group_id", "version", "type")
    assert [tuple(row[name] for name in names) for row in group_types(batch).to_pylist()] == [
        *(("old", 0, "consumer"), ("none", 1, "consumer")),
        *(("named", 1, "consumer"), ("orders", 1, "share"), ("x", 1, None)),
    ]
    types, _ = told(tmp_path, batch)
    assert types.endswith("has them: consumer: named, none, old; share: orders; unknown: x")


@pytest.mark.row("CMP-01")
def test_who_knows_version_0_alone_takes_a_share_group_for_a_consumer_group(tmp_path: Path) -> None:
    """The beginning of a version 1 is a whole version 0 of a group without a type."""
    as_version_0 = raw(("orders", b"\0\0" + SHARE[2:]))
    assert group_types(as_version_0).column("type").to_pylist() == ["consumer"]
    _, warning = told(tmp_path, raw(("orders", SHARE), ("old", V0)))
    assert warning == (
        "sharelag: software that knows only version 0 of ConsumerGroupMetadata reads as consumer "
        "groups, though they are share groups: orders"
    )


def test_the_last_record_of_a_group_counts(tmp_path: Path) -> None:
    batch = raw(("a", SHARE), ("b", SHARE), ("c", SHARE), ("a", None), ("b", NULL))
    types, warning = told(tmp_path, batch)
    assert types.endswith("consumer: b; share: c")
    assert warning.endswith(": c")
    (types,) = told(tmp_path, batch, "--group", "b")
    assert types.endswith("consumer: b")


def test_nothing_is_said_of_kafkas_own_records_and_other_topics(tmp_path: Path) -> None:
    assert told(tmp_path, raw(("old", V0), ("gone", None))) == []
    assert told(tmp_path, raw(("orders", SHARE), topic="orders")) == []
    assert told(tmp_path, raw()) == []
    types, warning = told(tmp_path, raw(("a\x1b[31m", SHARE)))
    assert "\x1b" not in types + warning


def test_damaged_records_are_read_as_far_as_they_can_be() -> None:
    chosen = random.Random(2)
    whole = raw(("old", V0), ("orders", SHARE)).to_pylist()
    for _ in range(300):
        row = dict(chosen.choice(whole))
        name = chosen.choice(["key", "value"])
        row[name] = row[name][: chosen.randrange(len(row[name]))]
        found = group_types(pa.RecordBatch.from_pylist([row, *whole], schema=schemas.RAW))
        assert found.num_rows in (2, 3)
        assert found.to_pylist()[-2:] == [
            {"group_id": "old", "version": 0, "type": "consumer"},
            {"group_id": "orders", "version": 1, "type": "share"},
        ]
