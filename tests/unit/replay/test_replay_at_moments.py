"""One replay for many moments gives what a replay for each of them gives."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sharelag import schemas
from sharelag.replay import replay_arrow
from sharelag.replay.moment import up_to
from sharelag.replay.state import WINDOWS_AT, replay_at
from sharelag.tables.arrow import as_table
from sharelag.wire import decode_arrow
from tests.support import generators
from tests.support.columns import with_column
from tests.support.records import raw


def timed(records: pa.RecordBatch, times: list[int | None]) -> pa.RecordBatch:
    column = pa.array(times, pa.int64()).view(schemas.TIMESTAMP)
    return with_column(records, "timestamp", column)


def one_by_one(records: pa.RecordBatch, moments: list[int]) -> pa.Table:
    parts = [WINDOWS_AT.empty_table()]
    for at in pa.array(moments).view(schemas.TIMESTAMP).to_pylist():
        then = as_table(replay_arrow(up_to(records, at)))
        parts.append(
            then.append_column(
                WINDOWS_AT.field("as_of"), pa.array([at] * len(then), schemas.TIMESTAMP)
            )
        )
    return pa.concat_tables(parts)


@pytest.mark.parametrize("clock", ["goes on", "goes back", "is not known"])
def test_states_at_many_moments_are_those_of_a_replay_each(clock: str, cases: Any) -> None:
    random, rows = Random(clock), 0
    for _ in range(cases(20, 600)):
        records = decode_arrow(raw(generators.sequence(random, keys=4, length=24))).records
        ordered = sorted(random.randrange(1, 60) for _ in range(records.num_rows))
        times: list[int | None] = [*ordered]
        if clock == "goes back":
            times = [time if random.random() < 0.7 else random.randrange(1, 60) for time in times]
        if clock == "is not known":
            times = [time if random.random() < 0.7 else None for time in times]
        records = timed(records, times)
        moments = sorted(random.sample(range(70), random.randrange(1, 12)))
        found = replay_at(records, np.array(moments, np.int64))
        assert found.equals(one_by_one(records, moments))
        rows += found.num_rows
    assert rows > 200


def test_of_nothing_and_at_no_moment_there_is_nothing() -> None:
    assert replay_at(schemas.RECORDS.empty_table(), np.array([5])).equals(WINDOWS_AT.empty_table())
    records = timed(decode_arrow(raw(generators.sequence(Random(1)))).records.slice(0, 1), [9])
    assert replay_at(records, np.array([], np.int64)).num_rows == 0
    assert replay_at(records, np.array([8])).num_rows == 0
