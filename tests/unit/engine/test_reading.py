"""A reading in this process gives what the kernels give for the records of its input."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow.compute as pc
import pytest

from sharelag.engine.local import QuickReading
from sharelag.replay.moment import Choice
from tests.support.written_input import NOW, Write, WrittenInput

WRITES = [Write(100 - n, n, ((n, n + 2, 0, 1),), partition=n % 3) for n in range(90)]


def test_many_moments_do_not_take_a_replay_each(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: Any) -> Any:
        raise AssertionError("a replay for a moment")

    monkeypatch.setattr("sharelag.replay.state.replay_arrow", never)
    reading = QuickReading(WrittenInput(WRITES))
    found = reading.windows_at(reading.table("windows"), 30)
    assert len(set(found.column("as_of").to_pylist())) == 30


def test_another_moment_reads_the_same_input_without_its_history() -> None:
    reading = QuickReading(WrittenInput(WRITES))
    then = reading.then(NOW - timedelta(seconds=50))
    assert then.source is reading.source
    starts = then.table("windows").column("start_offset").to_pylist()
    assert sorted(starts) == [48, 49, 50]
    assert sorted(reading.table("windows").column("start_offset").to_pylist()) == [87, 88, 89]


def test_the_newest_rows_of_a_history_are_kept_and_all_are_counted() -> None:
    reading = QuickReading(WrittenInput(WRITES))
    shown, total = reading.history(most=6)
    assert (shown.num_rows, total) == (6, 90)
    whole = reading.history().table
    newest = pc.array_sort_indices(whole.column("record_timestamp"), "descending")[:6]
    assert set(shown.column("start_offset").to_pylist()) == set(
        whole.take(newest).column("start_offset").to_pylist()
    )


def test_a_whole_reading_has_every_group_and_the_health_of_the_topic() -> None:
    source = WrittenInput([*WRITES, Write(5, 7, group="shipping")])
    chosen = QuickReading(source, choice=Choice(frozenset(["shipping"])))
    with chosen.whole() as whole:
        groups = whole.table("windows").column("group_id").to_pylist()
        assert set(groups) == {"billing", "shipping"}
        assert whole.table("health").column("records").to_pylist() == [91]
        with whole.whole() as same:
            assert same is whole


@pytest.mark.parametrize("as_of", [None, NOW - timedelta(seconds=10)])
def test_the_progress_of_a_group_is_the_same_alone_and_among_others(as_of: Any) -> None:
    """The span of the rates is that of the input, and not that of the chosen group's records."""
    early = [Write(100 - n, n, ((n, n + 2, 0, 1),), group="early") for n in range(90)]
    late = [Write(30 - n, 70 + n, ((70 + n, 72 + n, 0, 1),), group="late") for n in range(28)]
    together = QuickReading(WrittenInput([*early, *late]), as_of)
    rates = together.table("progress").column("completion_rate").to_pylist()
    assert len(set(rates)) == 2
    assert None not in rates
    for group in ("early", "late"):
        alone = QuickReading(WrittenInput([*early, *late]), as_of, Choice(frozenset({group})))
        mine = together.table("progress").filter(pc.field("group_id") == group)
        assert alone.table("progress").equals(mine)
        assert (alone.now, alone.span) == (together.now, together.span)
        windows = QuickReading(
            WrittenInput([*early, *late]), as_of, Choice(frozenset({group})), history=False
        )
        assert (windows.counted.first, windows.counted.last) == (
            together.counted.first,
            together.counted.last,
        )
