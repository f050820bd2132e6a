"""Recorded records with mutated bytes: every one is a record, a reject or skipped, and no more."""

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sharelag.compiled import is_worth_it
from sharelag.replay import replay_arrow
from sharelag.wire import GROUP_TOPIC, STATE_TOPIC, Decoded, decode_arrow
from sharelag.wire.generations import TODAY
from sharelag.wire.interpreter import interpret
from tests.support.memory import peak_of
from tests.support.mutations import corpus, mutated
from tests.support.reliability import Inject

#: Records decoded at once: so many that the compiled decoder reads them.
BATCH = 20_000
#: What decoding may allocate at a time: bytes for each byte of its input, and bytes at least.
MOST, LEAST = 32, 1 << 22
TOPICS = [STATE_TOPIC, GROUP_TOPIC]


def without_losses(batch: pa.RecordBatch, topic: str, generation: int | None = None) -> Decoded:
    """Decode, and hold the balance: each row is in one place, and rejects keep their bytes."""
    found = decode_arrow(batch, topic, generation=generation)
    records, rejects = found.records, found.rejects
    assert batch.num_rows == records.num_rows + rejects.num_rows + found.skipped
    records.validate(full=True)
    rejects.validate(full=True)
    for part in (records, rejects):  # in the order of the input
        assert (np.diff(part.column("offset")) > 0).all()
    offsets = np.concatenate([records.column("offset"), rejects.column("offset")])
    assert len(np.unique(offsets)) == len(offsets)
    of_input = batch.take(rejects.column("offset"))
    for column in ("key", "value"):
        assert rejects.column(column).equals(of_input.column(column))
    assert rejects.column("reason").null_count == 0
    assert records.nbytes + rejects.nbytes < MOST * batch.nbytes + LEAST
    return found


def of_today(found: Decoded, offsets: pa.Array) -> pa.RecordBatch:
    """Return the records at these offsets; an older record's reading depends on those beside it."""
    kept = found.records.filter(pc.is_in(found.records.column("offset"), offsets))
    if "generation" not in kept.schema.names:
        return kept
    return kept.filter(pc.is_null(kept.column("generation")))


@pytest.mark.parametrize("topic", TOPICS)
def test_mutated_records_harm_no_others_and_none_is_lost(
    topic: str, cases: Any, injected: Inject
) -> None:
    chance = np.random.default_rng(19)
    recorded = corpus(topic)
    left = most = cases(15_000, 2_500_000)
    lost = wrong = 0
    counts = np.zeros(3, np.int64)
    while left > 0:
        batch, changed = mutated(recorded, chance, BATCH)
        left -= int(changed.sum())
        found = without_losses(batch, topic)
        counts += [found.records.num_rows, found.rejects.num_rows, found.skipped]
        lost += batch.num_rows - found.records.num_rows - found.rejects.num_rows - found.skipped
        unchanged = batch.filter(pa.array(~changed))
        offsets = unchanged.column("offset")
        alone = decode_arrow(unchanged, topic)
        wrong += not of_today(found, offsets).equals(of_today(alone, offsets))
        if topic == STATE_TOPIC:
            replay_arrow(found.records)
    assert (counts > 0).all()
    told = dict(zip(("records", "rejects", "records of other kinds"), counts.tolist(), strict=True))
    fault = f"bytes of a record of {topic} are changed"
    injected("records", fault, most - left, told, lost=lost, wrong=wrong)  # wrong: its neighbours
    assert (lost, wrong) == (0, 0)


@pytest.mark.parametrize("topic", TOPICS)
def test_both_decoders_read_mutated_records_alike(topic: str, cases: Any) -> None:
    chance = np.random.default_rng(20)
    recorded = corpus(topic)
    for _ in range(cases(2, 50)):
        batch, _ = mutated(recorded, chance, BATCH)
        assert is_worth_it(batch.nbytes)
        compiled = without_losses(batch, topic, generation=TODAY)
        read = interpret(batch, topic)
        assert read.records.num_rows == compiled.records.num_rows
        assert read.records.equals(compiled.records)
        assert read.rejects.equals(compiled.rejects)


@pytest.mark.parametrize("generation", range(TODAY))
def test_mutated_records_of_older_generations_are_there(generation: int, cases: Any) -> None:
    chance = np.random.default_rng(generation)
    recorded = corpus(STATE_TOPIC, recordings=False)
    for _ in range(cases(1, 50)):
        batch, _ = mutated(recorded, chance, BATCH)
        found = without_losses(batch, STATE_TOPIC, generation=generation)
        assert found.records.num_rows > BATCH // 20
        assert found.rejects.num_rows > BATCH // 20
        replay_arrow(found.records)


@pytest.mark.parametrize("topic", TOPICS)
def test_memory_is_bounded_by_the_bytes_that_came_in(topic: str) -> None:
    batch, _ = mutated(corpus(topic), np.random.default_rng(21), BATCH)
    decode_arrow(batch, topic)  # what is imported and compiled now, once
    for part in (batch, batch.slice(0, 10)):
        peak = peak_of(partial(decode_arrow, part, topic))
        assert peak < MOST * part.nbytes + LEAST
