"""Merging around the new batches alone gives what merging whole lists gives."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from sharelag.model import StateBatch
from sharelag.replay import combine, replay
from sharelag.replay.history import history_arrow
from sharelag.wire.encode import encode_record
from sharelag.wire.fields import SHARE_SNAPSHOT
from tests.support import generators
from tests.support.cases import Cases
from tests.support.records import KEY, decode, row, state_records


@pytest.mark.parametrize("version", ["4.3.1", "4.4.0", None])
def test_long_sequences_merge_as_whole_lists_do(version: str | None, cases: Cases) -> None:
    random, count = Random("merge"), cases(150, 400)
    unmerged = 0
    for _ in range(count):
        writes = generators.ordered_sequence(random)
        expected: list[StateBatch] = []
        start = 0
        for moved, batches in writes:
            start = start if moved == -1 else moved
            expected = combine(expected, batches, start, version)
        assert list(_replayed(writes, version)) == expected
        unmerged += _has_a_seam(expected)
    # Equal neighbours that Kafka 4.3 leaves apart were among them, and Kafka 4.4 leaves none.
    assert unmerged > count // 40 if version == "4.3.1" else unmerged == 0


@pytest.mark.parametrize("version", ["4.3.1", "4.4.0"])
def test_batches_out_of_order_among_ordered_ones_merge_as_whole_lists_do(
    version: str, cases: Cases
) -> None:
    random = Random("mixed")
    for _ in range(cases(80, 300)):
        writes = [
            (start, generators.state_batches(random) if random.random() < 0.2 else batches)
            for start, batches in generators.ordered_sequence(random)
        ]
        expected: list[StateBatch] = []
        start = 0
        for moved, batches in writes:
            start = start if moved == -1 else moved
            expected = combine(expected, batches, start, version)
        assert list(_replayed(writes, version)) == expected


def test_a_record_that_replay_refuses_changes_nothing() -> None:
    out_of_order = [(20, 29, 4, 1), (0, 9, 4, 2)]
    key, value = encode_record(SHARE_SNAPSHOT, row(0, out_of_order))
    update_tombstone = (b"\0\1" + key[2:], None)
    kept, refused = history_arrow(decode([(key, value), update_tombstone])).to_pylist()
    assert (kept["window_complete"], refused["window_complete"]) == (20, 20)
    assert refused["record_kind"] == "rejected"
    assert [refused[name] for name in ("finished", "archived", "redelivered")] == [0, 0, 0]


def _replayed(
    writes: list[tuple[int, list[StateBatch]]], version: str | None
) -> tuple[StateBatch, ...]:
    records = [(at, key, value) for at, (key, value) in enumerate(state_records(writes))]
    return replay(records, kafka_version=version)[KEY].batches


def _has_a_seam(batches: list[StateBatch]) -> bool:
    return any(a.last_offset + 1 == b.first_offset and a[2:] == b[2:] for a, b in pairwise(batches))
