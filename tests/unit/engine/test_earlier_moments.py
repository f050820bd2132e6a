"""Earlier moments of what was read have the rows of a reading of their own, decoded once for all."""

from datetime import timedelta
from typing import Any

import pytest

import sharelag
from sharelag.engine.local import QuickReading, records
from sharelag.inputs.recorded import folder_of
from sharelag.replay.moment import Choice
from sharelag.wire.fields import STATE_TOPIC
from sharelag.workbench import Workbench
from tests.support.columns import with_column
from tests.support.written_input import NOW, Write, WrittenInput

TABLES = ("windows", "lag", "observed", "progress", "gaps", "members", "groups")
#: Windows of three share partitions, one of them reset, of another group and of a deleted one.
WRITES = [
    *(Write(100 - n, n, ((n, n + 2, 0, 1),), partition=n % 3) for n in range(90)),
    *(Write(80 - n, 5 * n, ((5 * n, 5 * n + 9, 2, 3),), group="shipping") for n in range(15)),
    Write(40, 0, partition=1, made_ago=40),
]


class OutOfTime(WrittenInput):
    """The clocks of brokers were set back and forth: times do not ascend with the offsets."""

    def batches(self, topic: str) -> Any:
        for batch in super().batches(topic):
            order = sorted(range(batch.num_rows), key=lambda row: (row % 7, row))
            offsets = batch.column("offset")
            moved = batch.take(order)
            yield with_column(moved, "offset", offsets)


def same(one: QuickReading, other: QuickReading) -> None:
    for name in TABLES:
        assert one.table(name).equals(other.table(name)), name
    assert one.history().table.equals(other.history().table)
    assert one.counted == other.counted
    assert (one.now, one.span) == (other.now, other.span)


@pytest.mark.parametrize("source", [WrittenInput(WRITES), OutOfTime(WRITES)])
@pytest.mark.parametrize("version", [None, 1])
def test_an_earlier_moment_has_the_rows_of_a_reading_of_its_own(
    source: WrittenInput, version: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(source), "version", lambda _: version)
    whole = QuickReading(source)
    for ago in (10.5, 42, 71, 500):
        moment = NOW - timedelta(seconds=ago)
        for choice in (Choice(), Choice(frozenset(["shipping"]))):
            mine = QuickReading(source, moment, choice, later=whole)
            same(mine, QuickReading(source, moment, choice))


def test_records_are_read_once_for_all_moments() -> None:
    source = WrittenInput(WRITES)
    whole = QuickReading(source)
    _ = whole.counted
    source.asked.clear()
    for ago in range(10, 60, 10):
        _ = QuickReading(source, NOW - timedelta(seconds=ago), later=whole).counted
    assert source.asked == [STATE_TOPIC]


@pytest.mark.parametrize(
    "other", [{"as_of": NOW + timedelta(seconds=9)}, {"as_of": {0: 50}}, {"kept": 3}, {"group": 1}]
)
def test_what_is_not_earlier_or_too_much_to_hold_is_read_anew(
    other: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if "kept" in other:
        monkeypatch.setattr("sharelag.engine.local.reading.KEPT", other["kept"])
    choice = Choice(frozenset(["shipping"])) if "group" in other else Choice()
    as_of = other.get("as_of", NOW - timedelta(seconds=30))
    source = WrittenInput(WRITES)
    whole = QuickReading(source, choice=choice)
    monkeypatch.setattr(records, "keep_records", None)
    same(QuickReading(source, as_of, choice, later=whole), QuickReading(source, as_of, choice))


def test_a_workbench_says_of_an_earlier_moment_what_a_fresh_one_says() -> None:
    with sharelag.open("demo", engine="local") as bench:
        moment = bench.evidence().as_of - timedelta(seconds=70)
        with sharelag.open(folder_of("demo"), engine="local", as_of=moment) as fresh:
            assert said(bench.at(moment)) == said(fresh)
            group = fresh.groups[0]
            assert said(bench.at(moment).only(group)) == said(fresh.only(group))


def said(bench: Workbench) -> list[Any]:
    asked = [bench.overview(), bench.explain(), bench.progress(), bench.windows(), bench.lag()]
    return [(one.title, one.table.to_pylist(), one.unknown, one.notes) for one in asked]
